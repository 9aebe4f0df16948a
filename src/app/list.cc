#include "app/list.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace dcp {
namespace {

// In pieces, so that a signal ends it soon.
void sleep_for(uint64_t ns, const World& world) {
  constexpr uint64_t kPiece = 50'000'000;
  for (; ns > 0; ns -= std::min(ns, kPiece)) {
    world.check_stop();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(ns, kPiece)));
  }
}

}  // namespace

void list_steps(const ListRequest& request, World& world, ListResult& result) {
  constexpr uint64_t kLook = 500'000'000;  // between two looks: network file systems answer for all
  const uint64_t begin = world.io.now_ns();
  // A run's folder is made by its first save: who waits for a step may have begun before.
  bool is_reported = false;
  const auto newest_after = [&](std::optional<uint64_t> number) -> std::optional<StepFacts> {
    if (!request.wait_ns || world.store.facts(request.survey.run)) return find_newest(request.survey, world, request.content, number);
    if (!std::exchange(is_reported, true)) world.events.info("'" + escaped(request.survey.run) + "' does not exist yet");
    return std::nullopt;
  };
  std::optional<uint64_t> after = request.after;
  if (request.after_newest)
    if (const auto newest = newest_after(std::nullopt)) after = newest->number;
  for (;;) {
    result.newest = newest_after(after);
    if (result.newest || !request.wait_ns) break;
    const uint64_t waited = world.io.now_ns() - begin;
    if (waited >= *request.wait_ns) break;
    sleep_for(std::min(kLook, *request.wait_ns - waited), world);
  }
  if (!request.newest_only) result.survey = survey_run(request.survey, world);
}

}  // namespace dcp
