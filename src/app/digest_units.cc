#include "app/digest_units.h"

namespace dcp {

ExecuteReport run_digest_units(const DigestWork& work, DigestSink& sink, Progress& progress, World& world) {
  const auto& [plan, source, workers] = work;
  ExecuteOptions options{.workers = workers, .faults = Faults::kCollect};
  RankedRun* const ranks = world.ranks.get();
  if (!ranks) return execute(plan, source, sink, options, {progress, world.stop});
  Session& session = ranks->session;
  ranks->group.check_same_plan(plan);
  Exchange exchange(session, ranks->group.visibility(),
                    {.plan = plan,
                     .source = source,
                     .units = deal_to_readers(plan, source, ranks->group.visibility(), session.world_size()),
                     .writers = Writers::kAll,
                     .workers = workers});
  options.supply = &exchange;
  ExecuteReport executed =
      execute_together(world, exchange, workers, progress, [&] { return execute(plan, source, sink, options, {progress, world.stop}); });
  ranks->group.gather_digests(sink);
  executed.damage = ranks->group.gather_problems(std::move(executed.damage));
  ranks->work = ranks->group.gather_work(
      {.bytes_read = exchange.bytes_read(progress), .bytes_sent = exchange.bytes_sent(), .peak_bytes = peak_rss_bytes()}, session.host());
  executed.bytes_read = 0;
  for (const RankWork& w : ranks->work) executed.bytes_read += w.bytes_read;
  return executed;
}

}  // namespace dcp
