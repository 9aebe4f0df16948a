#include "format/json_pickle.h"

#include <locale.h>
#include <stdlib.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "base/text.h"
#include "pickle/tokens.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

constexpr size_t kMaxDigits = 4300;  // of an integer, as in Python

// The shortest two's complement, little-endian.
std::string twos_complement(std::string_view digits, bool is_negative) {
  std::vector<uint32_t> words;
  for (const char digit : digits) {
    uint64_t carry = static_cast<uint64_t>(digit - '0');
    for (uint32_t& w : words) {
      carry += uint64_t{w} * 10;
      w = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry > 0) words.push_back(static_cast<uint32_t>(carry));
  }
  words.push_back(0);  // room for the sign
  uint64_t carry = 1;
  for (uint32_t& w : words) {
    if (!is_negative) break;
    carry += static_cast<uint32_t>(~w);
    w = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  std::string bytes;
  for (const uint32_t w : words)
    for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(w >> shift & 0xFF));
  const char filler = is_negative ? '\xFF' : '\0';
  while (bytes.size() > 1 && bytes.back() == filler && ((bytes[bytes.size() - 2] ^ filler) & 0x80) == 0) bytes.pop_back();
  return bytes;
}

// A program around the library may have chosen one with a decimal comma.
locale_t plain_locale() {
  static const locale_t locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return locale;
}

class JsonPickler {
 public:
  JsonPickler(std::string_view json, const Place& place, const Limits& limits, ProblemId bad)
      : json_(json), place_(place), limits_(limits), bad_(bad) {
    out_.begin();
  }

  std::string read() {
    skip_space();
    do step();
    while (!open_.empty());
    skip_space();
    if (at_ < json_.size()) refuse();
    out_.end();
    return std::move(text_);
  }

 private:
  struct Container {
    bool is_object = false;
    std::set<std::string> keys;
    bool has_values = false;
  };

  // A value with the comma or the key before it, or the end of a container.
  void step() {
    if (!open_.empty()) {
      Container& c = open_.back();
      if (next_is(c.is_object ? '}' : ']')) {
        open_.pop_back();
        return finish();
      }
      if (c.has_values) expect(','), skip_space();
      c.has_values = true;
      if (c.is_object) key(c);
    }
    if (next_is('{')) return open(Op::EMPTY_DICT, true);
    if (next_is('[')) return open(Op::EMPTY_LIST, false);
    scalar();
    finish();
  }

  void open(Op code, bool is_object) {
    if (open_.size() == limits_.pickle_depth)
      fail(ProblemId::over_limit, place_, "JSON nested " + std::to_string(open_.size() + 1) + " deep",
           "at most " + std::to_string(limits_.pickle_depth));
    out_.op(code);
    open_.push_back({.is_object = is_object, .keys = {}});
    skip_space();
  }

  // A value is on the stack.
  void finish() {
    if (open_.empty()) return;
    out_.op(open_.back().is_object ? Op::SETITEM : Op::APPEND);
    skip_space();
  }

  void key(Container& c) {
    expect('"');
    std::string name = string();
    out_.text(name);
    if (!c.keys.insert(name).second) fail(bad_, place_, "the key '" + name + "' twice");
    skip_space();
    expect(':');
    skip_space();
  }

  void scalar() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (next_is('"')) return out_.text(string());
    if (word("null")) return out_.op(Op::NONE);
    if (word("true")) return out_.boolean(true);
    if (word("false")) return out_.boolean(false);
    if (word("NaN")) return out_.real(std::numeric_limits<double>::quiet_NaN());
    if (word("Infinity")) return out_.real(kInfinity);
    if (word("-Infinity")) return out_.real(-kInfinity);
    number();
  }

  void number() {
    const size_t begin = at_;
    const bool is_negative = next_is('-');
    const size_t first = at_;
    if (!next_is('0') && digits() == 0) refuse();
    const std::string_view whole = json_.substr(first, at_ - first);
    const size_t end = at_;
    if (next_is('.') && digits() == 0) at_ = end;
    const size_t exponent = at_;
    if (next_is('e') || next_is('E')) {
      if (!next_is('+')) next_is('-');
      if (digits() == 0) at_ = exponent;
    }
    const std::string text(json_.substr(begin, at_ - begin));
    if (at_ > end) return out_.real(::strtod_l(text.c_str(), nullptr, plain_locale()));
    int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) return out_.integer(value);
    if (whole.size() > kMaxDigits)
      fail(bad_, at_offset(place_, begin), "an integer of more than " + std::to_string(kMaxDigits) + " digits");
    const std::string bytes = twos_complement(whole, is_negative);
    const bool is_long = bytes.size() > 0xFF;
    out_.op(is_long ? Op::LONG4 : Op::LONG1);
    for (unsigned n = 0; n < (is_long ? 4u : 1u); ++n) text_.push_back(static_cast<char>(bytes.size() >> (8 * n) & 0xFF));
    text_ += bytes;
  }

  size_t digits() {
    const size_t begin = at_;
    while (at_ < json_.size() && json_[at_] >= '0' && json_[at_] <= '9') ++at_;
    return at_ - begin;
  }

  // Behind the opening quote.
  std::string string() {
    std::string out;
    while (!next_is('"')) {
      if (at_ >= json_.size() || static_cast<unsigned char>(json_[at_]) < 0x20) refuse();
      if (!next_is('\\')) {
        out.push_back(json_[at_++]);
        continue;
      }
      constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
      if (next_is('u')) {
        append_code_point(out, escaped_code_point());
      } else {
        const size_t escape = at_ < json_.size() ? kEscapes.find(json_[at_]) : kEscapes.npos;
        if (escape == kEscapes.npos) refuse();
        out.push_back(kMeant[escape]);
        ++at_;
      }
    }
    return out;
  }

  // A surrogate that has no other half stays one.
  uint32_t escaped_code_point() {
    const uint32_t first = unit();
    if (first < 0xD800 || first > 0xDBFF || !json_.substr(at_).starts_with("\\u")) return first;
    const size_t here = at_;
    at_ += 2;
    const uint32_t second = unit();
    if (second >= 0xDC00 && second <= 0xDFFF) return 0x10000 + ((first - 0xD800) << 10 | (second - 0xDC00));
    at_ = here;
    return first;
  }

  uint32_t unit() {
    uint32_t value = 0;
    const std::string_view text = json_.substr(at_, 4);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() < 4 || error != std::errc() || end != text.data() + 4) refuse();
    at_ += 4;
    return value;
  }

  static void append_code_point(std::string& out, uint32_t c) {
    const auto tail = [&](unsigned shift) { out.push_back(static_cast<char>(0x80 | (c >> shift & 0x3F))); };
    if (c < 0x80) return out.push_back(static_cast<char>(c));
    if (c < 0x800) {
      out.push_back(static_cast<char>(0xC0 | c >> 6));
    } else if (c < 0x10000) {
      out.push_back(static_cast<char>(0xE0 | c >> 12));
      tail(6);
    } else {
      out.push_back(static_cast<char>(0xF0 | c >> 18));
      tail(12);
      tail(6);
    }
    tail(0);
  }

  bool next_is(char c) {
    if (at_ >= json_.size() || json_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view word) {
    if (!json_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(char c) {
    if (!next_is(c)) refuse();
  }
  void skip_space() { at_ = std::min(json_.find_first_not_of(" \t\r\n", at_), json_.size()); }
  [[noreturn]] void refuse() const { fail(bad_, at_offset(place_, at_), "no JSON"); }

  const std::string_view json_;
  const Place& place_;
  const Limits& limits_;
  ProblemId bad_;
  size_t at_ = 0;
  std::string text_;
  PickleWriter out_{text_, PickleProtocol::k4};
  std::vector<Container> open_;
};

}  // namespace

std::string pickle_of_json(std::string_view json, const Place& place, const Limits& limits, ProblemId bad) {
  for (std::string_view rest = json; !rest.empty();) {
    const CodePoint c = first_code_point(rest);
    if (c.size == 0) fail(bad, at_offset(place, json.size() - rest.size()), "text that is not UTF-8");
    rest.remove_prefix(c.size);
  }
  return JsonPickler(json, place, limits, bad).read();
}

}  // namespace dcp
