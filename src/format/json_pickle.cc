#include "format/json_pickle.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "pickle/writer.h"

namespace dcp {
namespace {

using Json = nlohmann::json;

class Writing : public Json::json_sax_t {
 public:
  Writing(const Place& place, const Limits& limits, ProblemId bad) : place_(place), limits_(limits), bad_(bad) { out_.begin(); }

  std::string take() {
    out_.end();
    return std::move(text_);
  }

  bool null() override {
    return value([&] { out_.op(Op::NONE); });
  }
  bool boolean(bool is_true) override {
    return value([&] { out_.boolean(is_true); });
  }
  bool number_integer(Json::number_integer_t n) override {
    return value([&] { out_.integer(n); });
  }
  bool number_unsigned(Json::number_unsigned_t n) override {
    if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) refuse("an integer of more than 64 bits");
    return value([&] { out_.integer(static_cast<int64_t>(n)); });
  }
  // An integer of more than 64 bits comes as a double, too.
  bool number_float(Json::number_float_t n, const std::string& written) override {
    if (written.find_first_of(".eE") == written.npos) refuse("an integer of more than 64 bits");
    return value([&] { out_.real(n); });
  }
  bool string(std::string& text) override {
    return value([&] { out_.text(text); });
  }
  bool binary(Json::binary_t&) override { refuse("no JSON"); }
  bool key(std::string& text) override {
    if (!keys_.back().insert(text).second) refuse("the key '" + text + "' twice");
    out_.text(text);
    return true;
  }
  bool start_object(std::size_t) override { return open(Op::EMPTY_DICT, true); }
  bool start_array(std::size_t) override { return open(Op::EMPTY_LIST, false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    fail(bad_, at_offset(place_, position > 0 ? position - 1 : 0), "no JSON");  // positions count from 1
  }

 private:
  [[noreturn]] void refuse(std::string got) const { fail(bad_, place_, std::move(got)); }

  template <class Push>
  bool value(Push push) {
    push();
    if (!is_object_.empty()) out_.op(is_object_.back() ? Op::SETITEM : Op::APPEND);
    return true;
  }

  bool open(Op code, bool is_object) {
    if (is_object_.size() == limits_.json_depth)
      fail(ProblemId::over_limit, place_, "JSON nested " + std::to_string(is_object_.size() + 1) + " deep",
           "at most " + std::to_string(limits_.json_depth));
    out_.op(code);
    is_object_.push_back(is_object);
    keys_.emplace_back();
    return true;
  }

  bool close() {
    is_object_.pop_back();
    keys_.pop_back();
    return value([] {});
  }

  const Place& place_;
  const Limits& limits_;
  ProblemId bad_;
  std::string text_;
  PickleWriter out_{text_, PickleProtocol::k4};
  std::vector<bool> is_object_;  // of the containers that are open
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

std::string pickle_of_json(std::string_view json, const Place& place, const Limits& limits, ProblemId bad) {
  // The parser skips a byte order mark and stops at a zero byte; no writer makes either.
  if (json.starts_with("\xEF\xBB\xBF") || json.find('\0') != std::string_view::npos) fail(bad, place, "no JSON");
  Writing writing(place, limits, bad);
  Json::sax_parse(json, &writing);
  return writing.take();
}

}  // namespace dcp
