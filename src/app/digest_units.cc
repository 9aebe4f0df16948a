#include "app/digest_units.h"

namespace dcp {

ExecuteReport run_digest_units(const Plan& plan, const Source& source, DigestSink& sink, unsigned workers, Progress& progress,
                               World& world) {
  ExecuteOptions options{.workers = workers, .faults = Faults::kCollect};
  RankedRun* const ranks = world.ranks.get();
  if (!ranks) return execute(plan, source, sink, options, progress, world.stop);
  Session& session = ranks->session;
  ranks->crew.agree(plan);
  Exchange exchange(session, ranks->crew.sight(),
                    {.plan = plan,
                     .source = source,
                     .units = deal_to_readers(plan, source, ranks->crew.sight(), session.world_size()),
                     .writers = Writers::kAll,
                     .workers = workers});
  options.supply = &exchange;
  ExecuteReport executed =
      execute_together(world, exchange, workers, progress, [&] { return execute(plan, source, sink, options, progress, world.stop); });
  ranks->crew.gather_digests(sink);
  executed.damage = ranks->crew.gather_problems(std::move(executed.damage));
  ranks->work = ranks->crew.gather_work(
      {.bytes_read = exchange.bytes_read(progress), .bytes_sent = exchange.bytes_sent(), .peak_bytes = peak_rss_bytes()}, session.host());
  executed.bytes_read = 0;
  for (const RankWork& w : ranks->work) executed.bytes_read += w.bytes_read;
  return executed;
}

}  // namespace dcp
