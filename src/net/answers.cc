#include "net/answers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace dcp::net {
namespace {

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

int hex_digit(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const size_t at = kDigits.find(static_cast<char>(c | 0x20));
  return is_digit(c) ? c - '0' : at == kDigits.npos || at < 10 ? -1 : static_cast<int>(at);
}

void add_utf8(std::string& text, uint32_t code) {
  const auto byte = [&](uint32_t b) { text += static_cast<char>(b); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) return byte(0xC0 | code >> 6), byte(0x80 | (code & 63));
  if (code < 0x10000) return byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63));
  byte(0xF0 | (code >> 18 & 7)), byte(0x80 | (code >> 12 & 63)), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63));
}

// &amp; &#38; &#x26; and so on; what is none of them stays.
std::string without_entities(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kNames{
      {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t end = text[i] == '&' ? text.find(';', i) : text.npos;
    const std::string_view name = end == text.npos ? "" : text.substr(i + 1, end - i - 1);
    const auto known = std::ranges::find(kNames, name, [](const auto& n) { return n.first; });
    uint32_t code = 0;
    const bool is_hex = name.starts_with("#x"), is_number = name.starts_with('#');
    const std::string_view digits = name.substr(is_hex ? 2 : is_number ? 1 : 0);
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, is_hex ? 16 : 10);
    if (known != kNames.end()) plain += known->second;
    else if (is_number && error == std::errc{} && stop == digits.data() + digits.size()) add_utf8(plain, code);
    else {
      plain += text[i];
      continue;
    }
    i = end;
  }
  return plain;
}

}  // namespace

std::string percent_encoded(std::string_view text, Slashes slashes) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_unreserved(c) || (c == '/' && slashes == Slashes::kKept)) encoded += c;
    else encoded.append({'%', kHex[byte >> 4], kHex[byte & 15]});
  }
  return encoded;
}

std::string percent_decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1, low = high < 0 ? -1 : hex_digit(text[i + 2]);
    plain += low < 0 ? text[i] : static_cast<char>(high << 4 | low);
    if (low >= 0) i += 2;
  }
  return plain;
}

std::string query_text(const Query& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : query)
    encoded.emplace_back(percent_encoded(name, Slashes::kEncoded), percent_encoded(value, Slashes::kEncoded));
  std::ranges::sort(encoded);
  std::string text;
  for (const auto& [name, value] : encoded) text += (text.empty() ? "" : "&") + name + "=" + value;
  return text;
}

std::string Url::authority() const { return port == (scheme == "https" ? 443 : 80) ? host : host + ":" + std::to_string(port); }

std::optional<Url> parse_url(std::string_view text) {
  Url url;
  const size_t colon = text.find("://");
  if (colon == text.npos) return std::nullopt;
  url.scheme = lower(text.substr(0, colon));
  if (url.scheme != "http" && url.scheme != "https") return std::nullopt;
  text.remove_prefix(colon + 3);
  const size_t slash = std::min(text.find_first_of("/?#"), text.size());
  std::string_view authority = text.substr(0, slash);
  url.path = text.substr(slash);
  if (const size_t at = authority.rfind('@'); at != authority.npos) authority.remove_prefix(at + 1), url.has_user = true;
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  const size_t port = bracket == authority.npos ? authority.npos : authority.find(':', bracket);
  url.host = lower(authority.substr(0, port));
  url.port = url.scheme == "https" ? 443 : 80;
  if (port != authority.npos) {
    const auto number = decimal<uint16_t>(authority.substr(port + 1));
    if (!number || *number == 0) return std::nullopt;
    url.port = *number;
  }
  const bool is_host = std::ranges::all_of(url.host, [](char c) { return is_unreserved(c) || c == '[' || c == ']' || c == ':'; });
  return url.host.empty() || !is_host ? std::nullopt : std::optional(url);
}

std::string joined_url(const std::string& base, const std::string& location) {
  const auto url = parse_url(base);
  if (!url || location.empty()) return {};
  if (location.find("://") != location.npos) return parse_url(location) ? location : std::string();
  if (location.starts_with("//")) return url->scheme + ":" + location;
  const std::string root = url->scheme + "://" + url->authority();
  if (location.starts_with('/')) return root + location;
  const std::string path = url->path.substr(0, url->path.find('?'));
  return root + path.substr(0, path.rfind('/') + 1) + location;
}

bool is_this_machine(std::string_view host) {
  return host == "localhost" || host.ends_with(".localhost") || host == "[::1]" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += hex(static_cast<unsigned char>(c), 2);
  return text;
}

std::string base64url_of(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) text += kLetters[bits >> (count - 6) & 63];
  }
  if (count > 0) text += kLetters[bits << (6 - count) & 63];
  return text;
}

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return small;
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  return begin == text.npos ? std::string() : std::string(text.substr(begin, end + 1 - begin));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::vector<std::string_view> elements(std::string_view xml, std::string_view name) {
  std::vector<std::string_view> found;
  const std::string open = "<" + std::string(name), close = "</" + std::string(name) + ">";
  for (size_t at = 0; (at = xml.find(open, at)) != xml.npos;) {
    at += open.size();
    if (at >= xml.size() || (xml[at] != '>' && xml[at] != ' ' && xml[at] != '/')) continue;  // the beginning of a longer name
    const size_t inner = xml.find('>', at);
    if (inner == xml.npos) break;
    if (xml[inner - 1] == '/') continue;  // <name/>
    const size_t end = xml.find(close, inner);
    if (end == xml.npos) break;
    found.push_back(xml.substr(inner + 1, end - inner - 1));
    at = end + close.size();
  }
  return found;
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string element(std::string_view xml, std::string_view name) {
  const std::vector<std::string_view> all = elements(xml, name);
  return all.empty() ? std::string() : without_entities(all.front());
}

std::optional<int64_t> time_of(std::string_view text) {
  const std::string whole(text);
  std::tm parts{};
  if (const char* rest = ::strptime(whole.c_str(), "%Y-%m-%dT%H:%M:%S", &parts)) {
    while (*rest == '.' || is_digit(*rest)) ++rest;
    int64_t offset = 0;
    if ((*rest == '+' || *rest == '-') && std::string_view(rest).size() >= 5) {
      const int hours = (rest[1] - '0') * 10 + (rest[2] - '0');
      const char* const minutes = rest + (rest[3] == ':' ? 4 : 3);
      offset = (*rest == '-' ? -1 : 1) * (hours * 3600 + std::strtol(minutes, nullptr, 10) * 60);
    }
    return ::timegm(&parts) - offset;
  }
  parts = {};
  return ::strptime(whole.c_str(), "%a, %d %b %Y %H:%M:%S", &parts) ? std::optional<int64_t>(::timegm(&parts)) : std::nullopt;
}

int64_t nanoseconds_of(std::string_view text) {
  const size_t point = text.find('.');
  int64_t fraction = 0;
  for (size_t i = 1; i <= 9; ++i)
    fraction = fraction * 10 + (point != text.npos && point + i < text.size() && is_digit(text[point + i]) ? text[point + i] - '0' : 0);
  return time_of(text).value_or(0) * 1'000'000'000 + fraction;
}

std::string utc(int64_t seconds, const char* format) {
  const std::time_t time = seconds;
  std::tm parts{};
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, format, ::gmtime_r(&time, &parts)));
}

Sections sections_of(std::string_view text) {
  Sections all;
  std::string section, outer;
  for (const std::string& line : split(text, '\n')) {
    const std::string plain = trimmed(line);
    if (plain.empty() || plain[0] == '#' || plain[0] == ';') continue;
    if (plain[0] == '[' && plain.find(']') != plain.npos) {
      section = trimmed(std::string_view(plain).substr(1, plain.find(']') - 1));
      std::erase_if(section, [](char c) { return c == '"' || c == '\''; });
      all[section];
      outer.clear();
      continue;
    }
    const size_t equals = plain.find('=');
    if (equals == plain.npos) continue;
    const std::string key = lower(trimmed(std::string_view(plain).substr(0, equals)));
    std::string value = trimmed(std::string_view(plain).substr(equals + 1));
    const bool is_inner = (line[0] == ' ' || line[0] == '\t') && !outer.empty();
    if (!is_inner) outer = value.empty() ? key : "";
    all[section][is_inner ? outer + "." + key : key] = std::move(value);
  }
  return all;
}

}  // namespace dcp::net
