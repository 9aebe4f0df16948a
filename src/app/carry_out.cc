#include "app/carry_out.h"

#include "base/quantity.h"
#include "exec/execute.h"
#include "exec/file_set.h"
#include "exec/read_back.h"
#include "ranks/blocks.h"
#include "ranks/exchange.h"

namespace dcp {
namespace {

// What the ranks have between them for one job; with one process, nothing.
struct Shared {
  RankedRun& ranks;
  bool all_write;
  Blocks blocks;
  Exchange exchange;
  Shared(const WriteJob& j, RankedRun& run)
      : ranks(run),
        all_write(j.request.read.ranks.all_write),
        blocks(j.plan(), run.session.world_size()),
        exchange(run.session, run.crew.sight(), j.plan(), j.result.catalog(), j.result.source->resolved(), j.result.source->files(),
                 all_write ? deal_by_blocks(j.plan(), j.result.catalog(), blocks, run.session.world_size())
                           : deal_to_rank0(j.plan(), run.session.world_size()),
                 all_write ? Writers::kAll : Writers::kRank0, j.workers) {}
};

// Does the units of this process, and, where others do units as well, reads for them at the same time.
ExecuteReport run_units(const WriteJob& j, Shared* shared, Sink& sink, Progress& progress) {
  const ExecuteOptions options{
      .workers = j.workers, .fp8_overflow = j.request.fp8_overflow, .supply = shared ? &shared->exchange : nullptr};
  const auto units = [&] {
    return execute(j.plan(), j.result.catalog(), j.result.source->resolved(), j.result.source->files(), sink, options, progress,
                   j.world.stop);
  };
  if (!shared || !shared->all_write) return units();
  return execute_together(j.world, shared->exchange, j.workers, progress, units);
}

// Every CRC that differs is said; the first is thrown. The sink's destructor takes back what is half-written.
void refuse_damage(const WriteJob& j) {
  const std::vector<Problem>& damage = j.result.executed.damage;
  if (damage.empty()) return;
  for (size_t i = 1; i < damage.size(); ++i) j.world.events.complain(j.world.events.line_of(damage[i]));
  throw Error(damage.front());
}

void refuse_overflows(const WriteJob& j) {
  std::optional<Problem> first;
  for (const TensorLosses& t : j.result.executed.losses) {
    if (t.values.overflowed == 0) continue;
    Problem p = make_problem(ProblemId::cast_overflow, {.path = j.request.read.source.path, .tensor = t.key},
                             counted(t.values.overflowed, "value") + ", " + from_to(t));
    if (first) j.world.events.complain(j.world.events.line_of(p));
    else first = std::move(p);
  }
  if (first) throw Error(std::move(*first));
}

RankWork work_of(const WriteJob& j, const Shared& shared, const Progress& progress) {
  return {.bytes_read = shared.exchange.bytes_read(progress),
          .bytes_sent = shared.exchange.bytes_sent(),
          .bytes_written = progress.bytes_written,
          .nanoseconds = j.world.io.now_ns() - j.begin_ns,
          .peak_bytes = peak_rss_bytes()};
}

// --gather rank0, another rank: reads what it sees, as rank 0's workers come to it.
void serve(const WriteJob& j, Shared& shared) {
  Progress progress;
  shared.exchange.serve(j.workers, progress, j.world.stop);
  shared.ranks.crew.gather_work(work_of(j, shared, progress), shared.ranks.session.host());
}

// --gather none, another rank: writes its blocks of the files that rank 0 has made.
void write_part(const WriteJob& j, Shared& shared) {
  std::vector<uint64_t> bytes;
  for (const OutputFile& f : j.plan().files) bytes.push_back(f.bytes);
  SharedFiles files(j.world.io, shared.ranks.crew.tell({}), bytes, j.request.sync);
  ClippedSink sink(files, shared.blocks, shared.ranks.session.rank());
  Progress progress;
  j.result.executed = run_units(j, &shared, sink, progress);
  refuse_damage(j);
  sink.finish();
  shared.ranks.crew.gather_work(work_of(j, shared, progress), shared.ranks.session.host());
}

// One process, or rank 0: makes the output, writes all of it or its part, and commits.
void lead(const WriteJob& j, Shared* shared) {
  std::vector<FileSpec> specs;
  for (const OutputFile& f : j.plan().files) specs.push_back({f.name, f.bytes});
  FileSet output(
      j.world.io, j.request.output.path, specs,
      {.folder = j.plan().folder, .replace = j.request.replace, .sync = j.request.sync, .open_files = j.result.source->open_outputs()});
  for (const std::string& n : output.found()) j.world.events.note(n);
  for (const std::string& n : output.notes()) j.world.events.detail(n);
  if (shared && shared->all_write) shared->ranks.crew.tell(output.shared());
  SummedFiles summed(output, specs);
  Sink& whole = j.request.verify_after ? static_cast<Sink&>(summed) : output;
  std::optional<ClippedSink> part;
  if (shared && shared->all_write) part.emplace(whole, shared->blocks, 0);
  Sink& sink = part ? static_cast<Sink&>(*part) : whole;
  Progress progress;
  {
    const auto display = j.world.events.show(progress, progress.bytes_written, j.plan().bytes_to_write);
    j.result.executed = run_units(j, shared, sink, progress);
  }
  j.result.executed.bytes_read += j.result.source->resolved().bytes_read;
  refuse_damage(j);
  if (j.request.strict_cast) refuse_overflows(j);
  sink.finish();
  if (j.request.verify_after) summed.read_back(j.workers, j.world.stop);
  j.result.verified_after = j.request.verify_after;
  if (shared) {
    shared->ranks.work = shared->ranks.crew.gather_work(work_of(j, *shared, progress), shared->ranks.session.host());
    shared->ranks.session.check();
  }
  j.world.check_stop();  // the last moment at which nothing has appeared
  sink.commit();
  j.result.nanoseconds = j.world.io.now_ns() - j.begin_ns;
}

}  // namespace

void carry_out(const WriteJob& j) {
  RankedRun* const ranks = j.world.ranks.get();
  if (!ranks) return lead(j, nullptr);
  Shared shared(j, *ranks);
  if (ranks->crew.leads()) return lead(j, &shared);
  if (shared.all_write) write_part(j, shared);
  else serve(j, shared);
}

}  // namespace dcp
