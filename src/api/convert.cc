#include "api/convert.h"

#include <algorithm>
#include <csignal>

namespace dcpctl {

class Control::State::Shown final : public dcp::Display {
 public:
  explicit Shown(State& state) : state_(state) {}
  ~Shown() override {
    const std::lock_guard lock(state_.mutex_);
    state_.done_ = *state_.counter_;
    state_.counter_ = nullptr;
  }

 private:
  State& state_;
};

std::unique_ptr<dcp::Display> Control::State::show(const dcp::Progress&, const std::atomic<uint64_t>& done, uint64_t total) {
  const std::lock_guard lock(mutex_);
  counter_ = &done;
  total_ = total;
  return std::make_unique<Shown>(*this);
}

uint64_t Control::State::bytes_done() const {
  const std::lock_guard lock(mutex_);
  return std::min<uint64_t>(counter_ != nullptr ? counter_->load() : done_, total_);  // steps are read with what lies between
}

Control::Control() : state_(std::make_unique<State>()) {}
Control::~Control() = default;
void Control::cancel() noexcept { state_->stop = SIGINT; }
uint64_t Control::bytes_done() const noexcept { return state_->bytes_done(); }
uint64_t Control::bytes_total() const noexcept { return state_->bytes_total(); }

Error::Error(Problem problem) : problem_(std::move(problem)) {}
Error::~Error() = default;
Error::Error(const Error&) = default;
Error& Error::operator=(const Error&) = default;

static Kind kind_of(dcp::ProblemClass fault) {
  switch (fault) {
    case dcp::ProblemClass::kAnswerNo: return Kind::kAnswerNo;
    case dcp::ProblemClass::kUsage: return Kind::kUsage;
    case dcp::ProblemClass::kInput: return Kind::kInput;
    case dcp::ProblemClass::kLacking: return Kind::kLacking;
    case dcp::ProblemClass::kRank: return Kind::kRank;
    case dcp::ProblemClass::kMachine:
    case dcp::ProblemClass::kInterrupted:
    case dcp::ProblemClass::kTerminated: break;
  }
  return Kind::kMachine;
}

Problem to_public(const dcp::Problem& given) {
  dcp::Problem p = given;
  // The texts of these two mention arguments of the program.
  if (p.id == dcp::ProblemId::usage && p.what == dcp::text_of(p.id)) p.what = "the call is wrong";
  if (p.id == dcp::ProblemId::memory_cap) p.hint = "give a larger max_memory";
  Problem out{.id = std::string(dcp::id_name(p.id)),
              .kind = kind_of(dcp::class_of(p.id)),
              .severity = static_cast<Severity>(p.severity),
              .path = p.place.path,
              .member = p.place.member,
              .key = p.place.tensor,
              .offset = p.place.offset,
              .rank = p.place.rank,
              .what = p.what,
              .got = p.got,
              .expected = p.expected,
              .hint = p.hint,
              .line = dcp::to_line(p)};
  return out;
}

std::vector<Problem> to_public(const std::vector<dcp::Problem>& problems) {
  std::vector<Problem> out;
  for (const dcp::Problem& p : problems) out.push_back(to_public(p));
  return out;
}

dcp::SourceRequest source_of(const std::string& path, const std::string& step) { return {.path = path, .step = step}; }

dcp::RenameRule rename_of(const std::string& text) {
  const size_t arrow = text.find("=>");
  if (arrow == std::string::npos || arrow == 0) dcp::fail(dcp::ProblemId::usage, {}, "rename '" + text + "'", "REGEX=>REPLACEMENT");
  return {text.substr(0, arrow), text.substr(arrow + 2)};
}

dcp::DtypeRule dtype_rule_of(const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0) dcp::fail(dcp::ProblemId::usage, {}, "dtype rule '" + text + "'", "GLOB=DTYPE or GLOB=keep");
  const std::string dtype = text.substr(at + 1);
  return {text.substr(0, at), dtype == "keep" ? std::nullopt : std::optional(cast_target(dtype))};
}

dcp::DType cast_target(const std::string& name) {
  const auto dtype = dcp::dtype_named(name);
  if (!dtype || !dcp::is_cast_target(*dtype))
    dcp::fail(dcp::ProblemId::usage, {}, "dtype '" + name + "'", "a floating-point dtype as torch spells it, such as bfloat16");
  return *dtype;
}

}  // namespace dcpctl
