#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <system_error>

namespace dcp::cmd {
namespace {

constexpr uint64_t kBarMs = 200;
constexpr uint64_t kPlainMs = 5000;

}  // namespace

ProgressDisplay::ProgressDisplay(const Context& context, const Progress& progress, const std::atomic<uint64_t>& counter, uint64_t total)
    : context_(context),
      progress_(progress),
      done_(counter),
      total_(total),
      begin_ns_(context.io.now_ns()),
      form_(context.common.progress) {
  if (form_ == ProgressForm::kAuto) form_ = isatty(STDERR_FILENO) ? ProgressForm::kBar : ProgressForm::kPlain;
  if (context.common.quiet || form_ == ProgressForm::kNone) return;
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
  if (bar_shown_) std::fputs("\r\033[K", stderr);
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
  const double percent = total_ == 0 ? 100.0 : 100.0 * static_cast<double>(done) / static_cast<double>(total_);
  const double left_s = done == 0 ? 0 : static_cast<double>(ns) / 1e9 * static_cast<double>(total_ - done) / static_cast<double>(done);
  if (form_ == ProgressForm::kJson) {
    std::string line;
    JsonWriter json([&](std::string_view s) { line += s; });
    json.begin_object()
        .member("bytes_read", progress_.bytes_read.load())
        .member("bytes_written", progress_.bytes_written.load())
        .member("bytes_total", total_);
    json.member("seconds", static_cast<double>(ns) / 1e9).end_object();
    json.finish();
    std::fputs(line.c_str(), stderr);
    return;
  }
  char line[160];
  std::snprintf(line, sizeof line, "%5.1f %%  %s of %s  %s  %.0f s left", percent, human_bytes(done).c_str(), human_bytes(total_).c_str(),
                rate(done, ns).c_str(), left_s);
  if (form_ == ProgressForm::kPlain) {
    context_.tell(line);
    return;
  }
  bar_shown_ = true;
  std::fprintf(stderr, "\r\033[K%s", line);
  std::fflush(stderr);
}

}  // namespace dcp::cmd
