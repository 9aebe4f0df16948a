#include "line/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <system_error>

#include "app/stages.h"
#include "base/json.h"
#include "base/text.h"
#include "line/command.h"

namespace dcp::cmd {
namespace {

constexpr uint64_t kBarMs = 200;
constexpr uint64_t kPlainMs = 5000;

ProgressForm form_of(Context& context) {
  if (context.common.quiet) return ProgressForm::kNone;
  if (context.common.progress != ProgressForm::kAuto) return context.common.progress;
  return isatty(STDERR_FILENO) ? ProgressForm::kBar : ProgressForm::kPlain;
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%5.1f %%", 100 * share);
  return text;
}

void draw_bar(Context& context, double share, const std::vector<std::string>& parts) {
  std::fprintf(stderr, "\r\033[K%s", bar_line(share, parts, context.columns(STDERR_FILENO)).c_str());
  std::fflush(stderr);
}

void print_line(const std::function<void(JsonWriter&)>& members) { std::fputs(json_document(members).c_str(), stderr); }

void clear_bar() { std::fputs("\r\033[K", stderr); }

}  // namespace

std::string bar_line(double share, const std::vector<std::string>& parts, size_t columns) {
  constexpr size_t kMin = 10, kMax = 40;
  const size_t room = columns - std::min<size_t>(columns, 1);  // a full line would wrap on some terminals
  std::string head = percent(share), tail;
  for (const std::string& p : parts)
    if (head.size() + tail.size() + 2 + p.size() <= room) tail += "  " + p;
  const size_t taken = head.size() + tail.size() + 4;  // with a space, brackets, and one to spare
  if (taken + kMin > room) return (head + tail).substr(0, room);
  const size_t cells = std::min(room - taken, kMax), full = static_cast<size_t>(share * static_cast<double>(cells));
  return head + "  [" + std::string(full, '#') + std::string(cells - full, '.') + "]" + tail;
}

ProgressDisplay::ProgressDisplay(Context& context, const Progress& progress, const std::atomic<uint64_t>& counter, uint64_t total)
    : context_(context), progress_(progress), done_(counter), total_(total), begin_ns_(context.io.now_ns()), form_(form_of(context)) {
  if (form_ == ProgressForm::kNone) return;
  const uint64_t every = form_ == ProgressForm::kPlain ? kPlainMs : kBarMs;
  try {
    ticker_ = std::make_unique<Ticker>(every, [this] { show(); });
  } catch (const std::system_error&) {  // no further thread: the work goes on without a display
  }
}

ProgressDisplay::~ProgressDisplay() {
  const bool ticked = ticker_ != nullptr;
  ticker_.reset();
  if (ticked && form_ == ProgressForm::kJson) show();  // programs get the end, however short the run
  if (bar_shown_) clear_bar();
}

void ProgressDisplay::show() noexcept {
  try {
    draw();
  } catch (const std::bad_alloc&) {  // the work goes on without this line
  }
}

void ProgressDisplay::draw() {
  const uint64_t done = std::min(done_.load(), total_);
  const uint64_t ns = std::max<uint64_t>(context_.io.now_ns() - begin_ns_, 1);
  if (form_ == ProgressForm::kJson) {
    return print_line([&](JsonWriter& json) {
      json.member("bytes_read", progress_.bytes_read.load()).member("bytes_written", progress_.bytes_written.load());
      json.member("bytes_total", total_).member("seconds", static_cast<double>(ns) / 1e9);
    });
  }
  const double share = total_ == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total_);
  const double left_s = done == 0 ? 0 : static_cast<double>(ns) / 1e9 * static_cast<double>(total_ - done) / static_cast<double>(done);
  char left[32];
  std::snprintf(left, sizeof left, "%.0f s left", left_s);
  const std::vector<std::string> parts{human_bytes(done) + " of " + human_bytes(total_), rate(done, ns), left};
  if (form_ == ProgressForm::kPlain) context_.status(percent(share) + "  " + joined(parts, "  "));
  else bar_shown_ = true, draw_bar(context_, share, parts);
}

StepDisplay::StepDisplay(Context& context, size_t steps) : context_(context), steps_(steps), form_(form_of(context)) {
  if (form_ == ProgressForm::kPlain) shown_ns_ = context.io.now_ns();
}

StepDisplay::~StepDisplay() {
  if (form_ == ProgressForm::kBar && shown_ns_ > 0) clear_bar();
}

void StepDisplay::begin(const std::string& what) {
  const uint64_t now = context_.io.now_ns();
  const uint64_t every = form_ == ProgressForm::kPlain ? kPlainMs : kBarMs;
  const size_t done = std::min(done_++, steps_);
  if (form_ == ProgressForm::kNone || now - shown_ns_ < every * 1000000) return;
  shown_ns_ = now;
  if (form_ == ProgressForm::kJson) {
    return print_line(
        [&](JsonWriter& json) { json.member("step", uint64_t{done + 1}).member("steps", uint64_t{steps_}).member("what", what); });
  }
  const std::string step = std::to_string(done + 1) + " of " + std::to_string(steps_);
  if (form_ == ProgressForm::kPlain) return context_.status(step + ": " + what);
  draw_bar(context_, static_cast<double>(done) / static_cast<double>(std::max<size_t>(steps_, 1)), {step, what});
}

}  // namespace dcp::cmd
