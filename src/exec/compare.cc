#include "exec/compare.h"

#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>

#include "exec/worker.h"

namespace dcp {
namespace {

// The state that the workers of one side share.
struct SideRun {
  RunSums sums;
  RunLosses losses;
  MaxExtents extents;
  PassingSink sink;  // boxes go to a taker
  Run run;
  SideRun(const Plan& plan, const Source& side, Progress& progress)
      : sums(plan, side.catalog), losses(plan), extents(plan, side.catalog), run{plan,    side,     sink, sums,   losses,
                                                                                 nullptr, progress, {},   extents} {}
};

class Differences {
 public:
  void add(uint32_t tensor, const ElementDifferences& part) {
    const std::lock_guard lock(mutex_);
    by_tensor_[tensor].add(part);
  }
  std::map<uint32_t, ElementDifferences> take() { return std::move(by_tensor_); }

 private:
  std::mutex mutex_;
  std::map<uint32_t, ElementDifferences> by_tensor_;
};

// The index in the tensor of element `index` of the box.
uint64_t index_in(Dims dims, BoxView box, uint64_t index) {
  uint64_t out = 0, stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    const auto size = static_cast<uint64_t>(box.sizes[d]);
    out += (static_cast<uint64_t>(box.offsets[d]) + index % size) * stride;
    index /= size;
    stride *= static_cast<uint64_t>(dims[d]);
  }
  return out;
}

struct BothRuns {
  BothRuns(const ComparePlan& plan, const ComparedSources& sources, Progress& progress)
      : lead(plan.lead, sources.lead, progress), follow(plan.follow, sources.follow, progress) {}
  SideRun lead, follow;
};

class PairWorker : public BoxTaker {
 public:
  PairWorker(const ComparePlan& plan, const ComparedSources& sources, const CompareOptions& options, BothRuns& runs,
             Differences& differences)
      : plan_(plan),
        lead_(sources.lead),
        follow_(sources.follow),
        options_(options),
        differences_(differences),
        leader_(runs.lead.run, this),
        follower_(runs.follow.run),
        pieces_(follow_.files),
        decoded_(follow_, runs.follow.run.progress.bytes_read) {}

  void unit(uint64_t ordinal) { leader_.batch({.units = {{.ordinal = ordinal}}, .pieces = std::make_unique<FilePieces>(lead_.files)}); }
  void pass(uint64_t ordinal) { follower_.batch({.units = {{.ordinal = ordinal}}, .pieces = std::make_unique<FilePieces>(follow_.files)}); }

  void take(uint32_t tensor, BoxView box, Bytes elements) override {
    const Bytes other = follower_.read_box(pieces_, decoded_, tensor, box);
    if (std::memcmp(elements.data(), other.data(), elements.size()) == 0) return;
    const PlanTensor& p = plan_.lead.tensors[tensor];
    const DType dtype = plan_.lead.regions[p.first_region].dtype;
    const std::byte *a = elements.data(), *b = other.data();
    if (!options_.lead_is_a) std::swap(a, b);
    ElementDifferences found = compare_elements(a, b, dtype, volume(box.sizes), options_.tolerance);
    const Dims dims = lead_.catalog.dims(lead_.catalog.tensors[p.id]);
    for (uint64_t* index : {&found.first, &found.absolute.index, &found.relative.index})
      if (*index != WorstElement::kNowhere) *index = index_in(dims, box, *index);
    differences_.add(tensor, found);
  }

 private:
  const ComparePlan& plan_;
  const Source &lead_, &follow_;
  const CompareOptions& options_;
  Differences& differences_;
  Worker leader_, follower_;
  FilePieces pieces_;
  DecodedRecords decoded_;
};

std::vector<uint64_t> passes_of(const Plan& plan) {
  std::vector<uint64_t> units;
  for (const Group& g : plan.groups)
    if (g.kind == Group::Kind::kCheck)
      for (uint64_t k = 0; k < g.units; ++k) units.push_back(g.first_unit + k);
  return units;
}

}  // namespace

CompareReport compare(const ComparePlan& plan, const ComparedSources& sources, const CompareOptions& options, Progress& progress,
                      const StopFlag& stop) {
  BothRuns runs(plan, sources, progress);
  Differences differences;
  std::vector<std::unique_ptr<PairWorker>> workers;
  for (unsigned w = 0; w < options.workers; ++w) workers.push_back(std::make_unique<PairWorker>(plan, sources, options, runs, differences));
  const std::vector<uint64_t> passes = passes_of(plan.follow);
  parallel_for(options.workers, plan.lead.units + passes.size(), stop, [&](unsigned worker, uint64_t ordinal) {
    if (ordinal < plan.lead.units) workers[worker]->unit(ordinal);
    else workers[worker]->pass(passes[ordinal - plan.lead.units]);
  });
  CompareReport report{.differences = differences.take(), .damage = {}};
  const auto check = [&](const SideRun& run, const Source& side) {
    Compared compared = run.sums.compare(side, Faults::kThrow);
    std::ranges::move(compared.damage, std::back_inserter(report.damage));
  };
  if (options.lead_is_a) check(runs.lead, sources.lead);
  check(runs.follow, sources.follow);
  if (!options.lead_is_a) check(runs.lead, sources.lead);
  return report;
}

uint64_t compare_worker_bytes(const ComparePlan& plan, const Source& follow) {
  return plan.lead.worker_bytes + follower_bytes(plan, follow) +
         (plan.decoded_bytes > 0 ? DecodedRecords::memory_bytes(plan.box_bytes, plan.decoded_bytes) : 0);
}

}  // namespace dcp
