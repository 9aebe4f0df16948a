#include "carry_out.h"

#include "exec/execute.h"
#include "exec/file_set.h"
#include "exec/read_back.h"
#include "progress.h"
#include "ranks/blocks.h"
#include "ranks/exchange.h"

namespace dcp::cmd {
namespace {

// What the ranks have between them for one job; with one process, nothing.
struct Shared {
  Together& ranks;
  bool all_write;
  Blocks blocks;
  Exchange exchange;
  Shared(const WriteJob& j, Together& together)
      : ranks(together),
        all_write(j.flags.ranks.gather == "none"),
        blocks(j.plan, together.session.world_size()),
        exchange(together.session, together.crew.sight(), j.plan, j.catalog, j.resolved, j.files,
                 all_write ? deal_by_blocks(j.plan, j.catalog, blocks, together.session.world_size())
                           : deal_to_rank0(j.plan, together.session.world_size()),
                 all_write ? Writers::kAll : Writers::kRank0, j.workers) {}
};

// Does the units of this process, and, where others do units as well, reads for them at the same time.
ExecuteReport run_units(const WriteJob& j, Shared* shared, Sink& sink, Progress& progress) {
  const ExecuteOptions options{
      .workers = j.workers, .fp8_overflow = j.flags.dtypes.overflow(), .supply = shared ? &shared->exchange : nullptr};
  const auto units = [&] { return execute(j.plan, j.catalog, j.resolved, j.files, sink, options, progress, j.context.stop); };
  if (!shared || !shared->all_write) return units();
  return execute_together(j.context, shared->exchange, j.workers, progress, units);
}

RankWork work_of(const WriteJob& j, const Shared& shared, const Progress& progress) {
  return {.bytes_read = shared.exchange.bytes_read(progress),
          .bytes_sent = shared.exchange.bytes_sent(),
          .bytes_written = progress.bytes_written,
          .nanoseconds = j.context.io.now_ns() - j.begin_ns,
          .peak_bytes = peak_rss_bytes()};
}

// --gather rank0, another rank: reads what it sees, as rank 0's workers come to it.
int serve(const WriteJob& j, Shared& shared) {
  Progress progress;
  shared.exchange.serve(j.workers, progress, j.context.stop);
  shared.ranks.crew.gather_work(work_of(j, shared, progress), shared.ranks.session.host());
  return end_ranks(j.context, 0);
}

// --gather none, another rank: writes its blocks of the files that rank 0 has made.
int write_part(const WriteJob& j, Shared& shared) {
  std::vector<uint64_t> bytes;
  for (const OutputFile& f : j.plan.files) bytes.push_back(f.bytes);
  SharedFiles files(j.context.io, shared.ranks.crew.tell({}), bytes, !j.flags.no_sync);
  ClippedSink sink(files, shared.blocks, shared.ranks.session.rank());
  Progress progress;
  j.report.executed = run_units(j, &shared, sink, progress);
  if (!j.report.executed.damage.empty()) return j.report.damaged(j.context);
  sink.finish();
  shared.ranks.crew.gather_work(work_of(j, shared, progress), shared.ranks.session.host());
  return end_ranks(j.context, 0);
}

// One process, or rank 0: makes the output, writes all of it or its part, and commits.
int lead(const WriteJob& j, Shared* shared) {
  std::vector<FileSpec> specs;
  for (const OutputFile& f : j.plan.files) specs.push_back({f.name, f.bytes});
  FileSet output(j.context.io, j.flags.out, specs,
                 {.folder = j.plan.folder, .replace = j.flags.replace(), .sync = !j.flags.no_sync, .open_files = j.open_outputs});
  for (const std::string& n : output.found()) j.context.note(n);
  for (const std::string& n : output.notes()) j.context.detail(n);
  if (shared && shared->all_write) shared->ranks.crew.tell(output.shared());
  SummedFiles summed(output, specs);
  Sink& whole = j.flags.verify_after ? static_cast<Sink&>(summed) : output;
  std::optional<ClippedSink> part;
  if (shared && shared->all_write) part.emplace(whole, shared->blocks, 0);
  Sink& sink = part ? static_cast<Sink&>(*part) : whole;
  Progress progress;
  {
    const ProgressDisplay display(j.context, progress, progress.bytes_written, j.plan.bytes_to_write);
    j.report.executed = run_units(j, shared, sink, progress);
  }
  j.report.executed.bytes_read += j.resolved.bytes_read;
  if (!j.report.executed.damage.empty()) {
    sink.abort();
    return j.report.damaged(j.context);
  }
  if (j.flags.dtypes.strict && j.report.overflows()) {
    sink.abort();
    return j.report.overflowed(j.context);
  }
  sink.finish();
  if (j.flags.verify_after) summed.read_back(j.workers, j.context.stop);
  j.report.verified_after = j.flags.verify_after;
  if (shared) {
    shared->ranks.work = shared->ranks.crew.gather_work(work_of(j, *shared, progress), shared->ranks.session.host());
    shared->ranks.session.check();
  }
  j.context.check_stop();  // the last moment at which nothing has appeared
  sink.commit();
  j.report.seconds_ns = j.context.io.now_ns() - j.begin_ns;
  return end_ranks(j.context, j.report.done(j.context, 0));
}

}  // namespace

int carry_out(const WriteJob& j) {
  Together* const ranks = j.context.together.get();
  if (!ranks) return lead(j, nullptr);
  Shared shared(j, *ranks);
  if (ranks->crew.leads()) return lead(j, &shared);
  return shared.all_write ? write_part(j, shared) : serve(j, shared);
}

}  // namespace dcp::cmd
