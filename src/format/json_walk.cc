#include "format/json_walk.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "pickle/tokens.h"

namespace dcp {
namespace {

using Json = nlohmann::json;
using Kind = JsonValue::Kind;

class Walk : public Json::json_sax_t {
 public:
  Walk(const Place& place, const Limits& limits, ProblemId bad, const JsonVisitor& visit)
      : place_(place), limits_(limits), bad_(bad), visit_(visit) {}

  bool null() override { return value({.kind = Kind::kNull, .text = {}}); }
  bool boolean(bool is_true) override { return value({.kind = is_true ? Kind::kTrue : Kind::kFalse, .text = {}}); }
  bool number_integer(Json::number_integer_t) override { return value({}); }
  bool binary(Json::binary_t&) override { return value({}); }
  bool number_unsigned(Json::number_unsigned_t n) override { return value({.kind = Kind::kNatural, .text = {}, .number = n}); }
  bool number_float(Json::number_float_t n, const std::string&) override {
    constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a double may differ from the number in the text
    if (n < 0 || n > kExact || n != std::floor(n)) return value({});
    return value({.kind = Kind::kNatural, .text = {}, .number = static_cast<uint64_t>(n)});
  }
  bool string(std::string& text) override { return value({.kind = Kind::kText, .text = text}); }
  bool start_object(std::size_t) override { return open(Kind::kObject); }
  bool start_array(std::size_t) override { return open(Kind::kArray); }
  bool key(std::string& text) override {
    keys_.back() = text;
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool end_array() override { return end_object(); }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    fail(bad_, at_offset(place_, position > 0 ? position - 1 : 0), "no JSON");  // positions count from 1
  }

 private:
  bool value(const JsonValue& v) {
    visit_(keys_, v);
    return true;
  }
  bool open(Kind kind) {
    visit_(keys_, {.kind = kind, .text = {}});
    if (keys_.size() == limits_.json_depth)
      fail(ProblemId::over_limit, place_, "JSON nested " + std::to_string(keys_.size() + 1) + " deep",
           "at most " + std::to_string(limits_.json_depth));
    keys_.emplace_back();
    return true;
  }

  const Place& place_;
  const Limits& limits_;
  ProblemId bad_;
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

}  // namespace dcp
