#include "app/carry_out.h"

#include "base/text.h"
#include "exec/execute.h"
#include "exec/read_back.h"
#include "files/file_set.h"
#include "ranks/blocks.h"
#include "ranks/exchange.h"

namespace dcp {
namespace {

// What the ranks have between them for one output; with one process, nothing.
struct Shared {
  RankedRun& ranks;
  bool all_write;
  Blocks blocks;
  Exchange exchange;
  Shared(RankedRun& run, const WriteRequest& request, const Plan& plan, const Source& source, unsigned workers)
      : ranks(run),
        all_write(request.read.ranks.all_write),
        blocks(plan, run.session.world_size()),
        exchange(run.session, run.group.visibility(),
                 {.plan = plan,
                  .source = source,
                  .units = all_write ? deal_by_blocks(plan, source.catalog, blocks, run.session.world_size())
                                     : deal_to_rank0(plan, run.session.world_size()),
                  .writers = all_write ? Writers::kAll : Writers::kRank0,
                  .workers = workers}) {}
};

class Writing {
 public:
  Writing(const WriteRequest& request, World& world, WriteResult& result)
      : request_(request), world_(world), result_(result), plan_(*result.plan), source_(result.source->source()) {
    for (const OutputFile& f : plan_.files) specs_.push_back({f.name, f.bytes});
    if (world.ranks) shared_.emplace(*world.ranks, request, plan_, source_, result.workers);
  }

  void run() {
    if (!shared_ || shared_->ranks.group.leads()) return lead();
    if (shared_->all_write) write_part();
    else serve();
  }

 private:
  bool all_write() const { return shared_ && shared_->all_write; }

  // Does the units of this process, and, where others do units as well, reads for them at the same time.
  void run_units(Sink& sink, Progress& progress) {
    const ExecuteOptions options{
        .workers = result_.workers, .fp8_overflow = request_.fp8_overflow, .supply = shared_ ? &shared_->exchange : nullptr};
    const auto units = [&] { return execute(plan_, source_, sink, options, {progress, world_.stop}); };
    result_.executed = all_write() ? execute_together(world_, shared_->exchange, result_.workers, progress, units) : units();
  }

  // Warns of every CRC that differs and throws the first. The sink's destructor removes partial output.
  void refuse_damage() {
    const std::vector<Problem>& damage = result_.executed.damage;
    if (damage.empty()) return;
    for (size_t i = 1; i < damage.size(); ++i) world_.events.warn(world_.events.line_of(damage[i]));
    throw Error(damage.front());
  }

  void refuse_overflows() {
    std::optional<Problem> first;
    for (const TensorLosses& t : result_.executed.losses) {
      if (t.values.overflowed == 0) continue;
      Problem p = make_problem(ProblemId::cast_overflow, {.path = request_.read.source.path, .tensor = t.key},
                               counted(t.values.overflowed, "value") + ", " + from_to(t));
      if (first) world_.events.warn(world_.events.line_of(p));
      else first = std::move(p);
    }
    if (first) throw Error(std::move(*first));
  }

  std::vector<RankWork> gather_work(const Progress& progress) {
    return shared_->ranks.group.gather_work({.bytes_read = shared_->exchange.bytes_read(progress),
                                             .bytes_sent = shared_->exchange.bytes_sent(),
                                             .bytes_written = progress.bytes_written,
                                             .nanoseconds = world_.io.now_ns() - result_.begin_ns,
                                             .peak_bytes = peak_rss_bytes()},
                                            shared_->ranks.session.host());
  }

  // Rank 0 writes, this is another rank: it reads what it sees, in the order of rank 0's workers.
  void serve() {
    Progress progress;
    shared_->exchange.serve(result_.workers, progress, world_.stop);
    gather_work(progress);
  }

  // All write, another rank: writes its blocks of the files that rank 0 has made.
  void write_part() {
    std::vector<uint64_t> bytes;
    for (const FileSpec& f : specs_) bytes.push_back(f.bytes);
    SharedFiles files(world_.io, shared_->ranks.group.broadcast_texts({}), bytes, request_.sync);
    ClippedSink sink(files, shared_->blocks, shared_->ranks.session.rank());
    Progress progress;
    run_units(sink, progress);
    refuse_damage();
    sink.finish();
    gather_work(progress);
  }

  // One process, or rank 0: makes the output, writes all of it or its part, and commits.
  void lead() {
    FileSet output(
        world_.io, request_.output.path, specs_,
        {.folder = plan_.folder, .replace = request_.replace, .sync = request_.sync, .open_files = result_.source->open_outputs()});
    for (const std::string& n : output.found()) world_.events.info(n);
    for (const std::string& n : output.notes()) world_.events.verbose(n);
    if (all_write()) shared_->ranks.group.broadcast_texts(output.shared());
    SummedFiles summed(output, specs_);
    Sink& whole = request_.verify_after ? static_cast<Sink&>(summed) : output;
    std::optional<ClippedSink> part;
    if (all_write()) part.emplace(whole, shared_->blocks, 0);
    Sink& sink = part ? static_cast<Sink&>(*part) : whole;
    Progress progress;
    {
      const auto display = world_.events.show(progress, progress.bytes_written, plan_.bytes_to_write);
      run_units(sink, progress);
    }
    result_.executed.bytes_read += source_.resolved.bytes_read;
    refuse_damage();
    if (request_.strict_cast) refuse_overflows();
    sink.finish();
    if (request_.verify_after) summed.read_back(result_.workers, world_.stop);
    result_.verified_after = request_.verify_after;
    if (shared_) {
      shared_->ranks.work = gather_work(progress);
      shared_->ranks.session.check();
    }
    world_.check_stop();  // the last moment at which nothing has appeared
    sink.commit();
    result_.nanoseconds = world_.io.now_ns() - result_.begin_ns;
  }

  const WriteRequest& request_;
  World& world_;
  WriteResult& result_;
  const Plan& plan_;
  const Source source_;
  std::vector<FileSpec> specs_;
  std::optional<Shared> shared_;
};

}  // namespace

void carry_out(const WriteRequest& request, World& world, WriteResult& result) { Writing(request, world, result).run(); }

}  // namespace dcp
