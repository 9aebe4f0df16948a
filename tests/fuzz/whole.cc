#include "whole.h"

#include <stdexcept>

#include "fuzz.h"
#include "plan/layout.h"
#include "select/select.h"
#include "unit/exec/verified.h"

namespace dcp::fuzz {
namespace {

// Small enough for thousands of runs a second, and for several units and batches of tensors of a few KiB.
constexpr UnitOptions kUnits{.unit_bytes = 2048, .min_run = 64, .pass_gap = 256};
constexpr uint64_t kMaxBytes = 256 * kKiB;  // a tensor of stride 0 may have any size: how long to read it is the caller's choice

// Each byte inside the planned file.
class BoundsSink : public Sink {
 public:
  explicit BoundsSink(const Plan& plan) : plan_(plan) {}
  void write(uint32_t file, uint64_t offset, Bytes bytes) override {
    const uint64_t size = plan_.files.at(file).bytes;
    must(offset <= size && bytes.size() <= size - offset, "a write lies in its file");
  }
  void finish() override {}
  void commit() override {}
  void abort() noexcept override {}

 private:
  const Plan& plan_;
};

void plan_and_run(Io& io, const std::string& path, unsigned workers) {
  const FrozenCatalog opened = open_checkpoint(io, path, {.limits = kLimits});
  const Catalog& catalog = opened->catalog;
  const Selection selection = select_keys(catalog, {});
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
  uint64_t bytes = 0;
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      check_item(catalog, catalog.item_of(e.blob()), catalog.key(e.ref), "");
      blobs.push_back(e.blob());
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    check_whole(catalog, t);
    tensors.push_back(e.tensor());
    if (catalog.tensor_bytes(t) > kMaxBytes - std::min(bytes, kMaxBytes)) return;
    bytes += catalog.tensor_bytes(t);
  }
  const StopFlag stop{0};
  DataFiles files(io, catalog, FollowLinks::kCacheOnly);
  const Resolved resolved =
      resolve(files, tensors, blobs, {.workers = workers, .limits = kLimits, .memory_bytes = kLimits.memory_bytes}, stop);
  const Plan plan = plan_torch({catalog, resolved}, selection, {.limits = kLimits, .units = kUnits});
  BoundsSink sink(plan);
  Progress progress;
  execute(plan, {catalog, resolved, files}, sink, {.workers = workers}, {progress, stop});
}

}  // namespace

void run_whole(test::FakeIo& io, const std::string& path, Bytes input) {
  // Threads cost more than most inputs do.
  const unsigned workers = input.size() % 4 == 0 ? 3 : 1;
  try {
    const test::Verified verified(io, {.digests = true, .workers = workers, .units = kUnits, .limits = kLimits}, path);
  } catch (const Error&) {
  }
  plan_and_run(io, path, workers);
}

}  // namespace dcp::fuzz
