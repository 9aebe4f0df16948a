#include "exec/execute.h"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "exec/sums.h"
#include "exec/worker.h"
#include "items/predicted_heads.h"
#include "plan/plan_metadata.h"

namespace dcp {
namespace {

void write_archive_frame(const OutputFile& file, uint32_t index, const std::vector<uint32_t>& crcs, Sink& sink, Progress& progress) {
  file.archive->emit_frame(crcs, [&](uint64_t offset, Bytes bytes) {
    sink.write(index, offset, bytes);
    progress.bytes_written.fetch_add(bytes.size(), std::memory_order_relaxed);
  });
}

void write_generated(const Plan& plan, const Catalog& catalog, uint32_t index, Sink& sink, Progress& progress) {
  uint64_t at = 0;
  write_plan_metadata(plan, catalog, [&](std::string_view block) {
    sink.write(index, at, as_bytes(block));
    progress.bytes_written.fetch_add(block.size(), std::memory_order_relaxed);
    at += block.size();
  });
  if (at != plan.files[index].bytes)
    fail(ProblemId::internal, {.path = plan.files[index].name}, std::to_string(at) + " bytes generated",
         std::to_string(plan.files[index].bytes));
}

// Deals all units, one at a time, with the files as their source.
class AllUnits : public UnitSupply {
 public:
  AllUnits(const Plan& plan, const Source& source, const MaxExtents& extents) : plan_(plan), source_(source), extents_(extents) {}
  uint64_t batches() const override { return plan_.units; }
  UnitBatch take(uint64_t batch) override {
    if (source_.files.predicted) prove_heads(batch);
    return {.units = {{.ordinal = batch}}, .pieces = std::make_unique<FilePieces>(source_.files)};
  }

 private:
  // Proves what a unit reads. Units of several tensors cross the same files in the same order, so each begins at another one: workers that
  // would wait for one request make several, and what they get is there when the others come to it.
  void prove_heads(uint64_t unit) {
    std::vector<std::pair<uint32_t, uint64_t>> reads;
    visit_reads(
        plan_, source_, extents_, unit,
        {.read = [&](uint32_t file, uint64_t offset, uint64_t) { reads.emplace_back(file, offset); }, .decode = [](const Item&) {}});
    const size_t begin = reads.empty() ? 0 : unit * 0x9E3779B97F4A7C15u / 4 % reads.size();
    std::rotate(reads.begin(), reads.begin() + static_cast<ptrdiff_t>(begin), reads.end());
    for (const auto& [file, offset] : reads) source_.files.predicted->prove(source_.files, file, offset);
  }

  const Plan& plan_;
  const Source& source_;
  const MaxExtents& extents_;
};

// Writes the frames of items that no unit of this rank has written whole. The sink drops those in another rank's part.
void write_item_frames(const Plan& plan, const RunSums& sums, const std::vector<std::atomic<bool>>& framed, Sink& sink) {
  TensorItemFrames frames;
  std::vector<std::byte> tail;
  for (uint32_t r = 0; r < plan.regions.size(); ++r) {
    const Region& region = plan.regions[r];
    if (!region.is_item() || framed[r]) continue;
    const uint64_t bytes = plan.payload_bytes(region);
    const TensorItemFrame& frame = frames.of(region.dtype, plan.box(region).sizes);
    tail.resize(region.tail);
    frame.write_tail(sums.region_crc(r, bytes), tail.data());
    sink.write(region.file, region.file_offset - region.head, frame.head());
    sink.write(region.file, region.file_offset + bytes, tail);
  }
}

// Every rank writes literals and frames, so the sink must keep this rank's part only.
void need_own_part(const Plan& plan, const Sink& sink) {
  const bool is_framed = std::ranges::any_of(plan.files, [](const OutputFile& f) { return f.archive || f.generated != Generated::kNo; });
  const bool has_items = std::ranges::any_of(plan.regions, &Region::is_item);
  if (sink.keeps_own_part() || (plan.literals.empty() && !is_framed && !has_items)) return;
  fail(ProblemId::internal, {}, "a sink that keeps what every rank writes", "one that keeps this rank's part");
}

}  // namespace

uint64_t execute_bytes(const Plan& plan) {
  constexpr uint64_t kOfTensor = 64;  // MaxExtents of 2 to 4 dims
  return RunSums::bytes(plan) + plan.tensors.size() * kOfTensor;
}

ExecuteReport execute(const Plan& plan, const Source& source, Sink& sink, const ExecuteOptions& options, const Watch& watch) {
  Progress& progress = watch.progress;
  const uint64_t read_before = progress.bytes_read;
  RunSums sums(plan, source.catalog);
  RunLosses losses(plan);
  const MaxExtents extents(plan, source.catalog);
  AllUnits all(plan, source, extents);
  UnitSupply& supply = options.supply ? *options.supply : all;
  std::optional<SharedRun> shared;
  if (supply.is_shared()) {
    need_own_part(plan, sink);
    shared.emplace(plan, source.catalog);
  }
  Run run{plan, source, sink, sums, losses, shared ? &*shared : nullptr, progress, {.fp8_overflow = options.fp8_overflow}, extents};
  for (const Literal& l : plan.literals) {
    sink.write(l.file, l.file_offset, as_bytes(l.bytes));
    progress.bytes_written.fetch_add(l.bytes.size(), std::memory_order_relaxed);
  }
  std::vector<Worker> workers;
  for (unsigned w = 0; w < options.workers; ++w) workers.emplace_back(run);
  ExecuteReport report;
  std::mutex mutex;  // report.damage
  parallel_for(options.workers, supply.batches(), watch.stop, [&](unsigned worker, uint64_t ordinal) {
    try {
      workers[worker].batch(supply.take(ordinal));
    } catch (const Error& e) {
      if (options.faults == Faults::kThrow || !can_be_collected(e.problem().id)) throw;
      const std::lock_guard lock(mutex);
      report.damage.push_back(e.problem());
    }
  });

  supply.join(sums, losses);
  Compared compared = sums.compare(source, report.damage.empty() ? Faults::kThrow : Faults::kCollect);
  report.records_checked = compared.checked;
  report.bytes_checked = compared.bytes;
  report.records_without_crc = compared.without_crc;
  report.damage.insert(report.damage.end(), std::make_move_iterator(compared.damage.begin()),
                       std::make_move_iterator(compared.damage.end()));
  for (const Worker& w : workers) report.worker_bytes = std::max(report.worker_bytes, w.buffer_bytes());
  if (report.damage.empty()) {
    if (shared) write_item_frames(plan, sums, shared->framed, sink);
    for (uint32_t f = 0; f < plan.files.size(); ++f) {
      if (plan.files[f].archive) write_archive_frame(plan.files[f], f, sums.archive_crcs(source.catalog, plan.files[f]), sink, progress);
      if (plan.files[f].generated != Generated::kNo) write_generated(plan, source.catalog, f, sink, progress);
    }
  }
  report.losses = losses.list(source.catalog, options.fp8_overflow);
  report.bytes_read = progress.bytes_read - read_before;
  report.bytes_written = progress.bytes_written;
  return report;
}

}  // namespace dcp
