#include "format/json_text.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.h"
#include "pickle/tokens.h"

namespace dcp {
namespace {

using Json = nlohmann::json;
using JsonKind = JsonValue::Kind;

class Reading : public Json::json_sax_t {
 public:
  Reading(const Place& place, const Limits& limits, ProblemId bad) : place_(place), limits_(limits), bad_(bad) {}
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    fail(bad_, at_offset(place_, position > 0 ? position - 1 : 0), "no JSON");  // positions count from 1
  }

 protected:
  // One more value that holds others is about to open.
  void check_depth(size_t open) const {
    if (open == limits_.json_depth)
      fail(ProblemId::over_limit, place_, "JSON nested " + std::to_string(open + 1) + " deep",
           "at most " + std::to_string(limits_.json_depth));
  }
  const Place& place_;
  const Limits& limits_;
  ProblemId bad_;
};

class Walk : public Reading {
 public:
  Walk(const Place& place, const Limits& limits, ProblemId bad, const JsonVisitor& visit) : Reading(place, limits, bad), visit_(visit) {}

  bool null() override { return value({.kind = JsonKind::kNull, .text = {}}); }
  bool boolean(bool is_true) override { return value({.kind = is_true ? JsonKind::kTrue : JsonKind::kFalse, .text = {}}); }
  bool number_integer(Json::number_integer_t) override { return value({}); }
  bool binary(Json::binary_t&) override { return value({}); }
  bool number_unsigned(Json::number_unsigned_t n) override { return value({.kind = JsonKind::kNatural, .text = {}, .number = n}); }
  bool number_float(Json::number_float_t n, const std::string&) override {
    constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a double may differ from the number in the text
    if (n < 0 || n > kExact || n != std::floor(n)) return value({});
    return value({.kind = JsonKind::kNatural, .text = {}, .number = static_cast<uint64_t>(n)});
  }
  bool string(std::string& text) override { return value({.kind = JsonKind::kText, .text = text}); }
  bool start_object(std::size_t) override { return open(JsonKind::kObject); }
  bool start_array(std::size_t) override { return open(JsonKind::kArray); }
  bool key(std::string& text) override {
    keys_.back() = text;
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool end_array() override { return end_object(); }

 private:
  bool value(const JsonValue& v) {
    visit_(keys_, v);
    return true;
  }
  bool open(JsonKind kind) {
    visit_(keys_, {.kind = kind, .text = {}});
    check_depth(keys_.size());
    keys_.emplace_back();
    return true;
  }

  const JsonVisitor& visit_;
  std::vector<std::string> keys_;
};

}  // namespace

void walk_json(std::string_view json, const Place& place, const Limits& limits, ProblemId bad, const JsonVisitor& visit) {
  const size_t first = json.find_first_not_of(" \t\r\n");
  // The parser skips a byte order mark and stops at a zero byte; no writer makes either.
  if (first == std::string_view::npos || json[first] != '{' || json.find('\0') != std::string_view::npos)
    fail(bad, place, "no JSON object");
  Walk walk(place, limits, bad, visit);
  Json::sax_parse(json, &walk);
}

namespace {

void append_unit(std::string& out, uint32_t unit) { out += "\\u" + hex(unit, 4); }

void append_ascii(std::string& out, char32_t c) {
  if (c <= 0xFFFF) return append_unit(out, c);
  append_unit(out, 0xD800 + ((c - 0x10000) >> 10));
  append_unit(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
}

// The short escape that both writers use for a character; 0: it has none.
char short_escape(char c) {
  switch (c) {
    case '"':
    case '\\': return c;
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
  }
}

}  // namespace

bool append_json_text(std::string& out, std::string_view text, JsonText form) {
  const size_t start = out.size();
  out += '"';
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (c.size == 0) {
      out.resize(start);
      return false;
    }
    if (const char escape = c.size == 1 ? short_escape(text[0]) : '\0'; escape != 0) {
      out += '\\';
      out += escape;
    } else if (c.value < 0x20) {
      append_unit(out, c.value);
    } else if (c.value >= 0x7F && form == JsonText::kAscii) {
      append_ascii(out, c.value);
    } else {
      out += text.substr(0, c.size);
    }
    text.remove_prefix(c.size);
  }
  out += '"';
  return true;
}

}  // namespace dcp
