// The trainer's view of saving: a loop of steps on a device, with checkpoints written as torch's trainers write them.
//
// A step is forward and backward, then the optimizer, which changes every tensor: in each 4096 bytes of a tensor the first 64 become the
// byte stamp_of(step), the rest stays what synthetic_values(seed 1) gave. So one can see whether a checkpoint holds exactly one step.
//
//   disabled                 training stands still while the checkpoint is written from the device, block by block
//   async training stands still while tensors are copied into ordinary memory, allocated for each save; a thread writes it out
//   async_with_pinned_mem    tensors are copied into pinned memory, allocated once, beside the next forward and backward; training waits
//                            for the copy before the optimizer changes them; a thread writes it
//
// In the last two modes one save may be in flight: the next waits until it is durable. The last step is always saved as in `disabled`.
// Every checkpoint is FOLDER/step-N with `__0_0.distcp` and `.metadata`, whole or absent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/workers.h"
#include "staging/device.h"
#include "staging/workload.h"

namespace dcp {

enum class SaveMode : uint8_t { kDisabled, kAsync, kAsyncPinned };
inline constexpr SaveMode kSaveModes[] = {SaveMode::kDisabled, SaveMode::kAsync, SaveMode::kAsyncPinned};
std::string_view name_of(SaveMode mode);
std::optional<SaveMode> save_mode_named(std::string_view name);

struct TrainSpec {
  std::optional<SaveMode> mode;         // nullopt: no saves at all, for comparison
  std::string folder;                   // exists and is empty
  uint32_t steps = 12, save_every = 4;  // and after the last step
  uint64_t step_ns = 200'000'000;       // of which four fifths are forward and backward
  uint32_t keep_latest_k = 2;           // older step-N folders of this run are removed; 0: keep all
  bool last_model_only = false;         // the last step's checkpoint holds the model alone,
  std::optional<DType> export_dtype;    // its floats in this dtype
  bool sync = true;
};

struct SaveFacts {
  uint32_t step = 0;
  bool last = false;
  uint64_t bytes = 0;  // of files
  // How long training stood still:
  uint64_t waiting_ns = 0;  // for the previous save to become durable
  uint64_t staging_ns =
      0;  // copying, or in `disabled` all of writing; with pinned memory asking for the copies and the wait before the optimizer
  uint64_t durable_ns = 0;  // from the start of the save to its commit
  uint64_t stall_ns() const { return waiting_ns + staging_ns; }
};

struct Span {
  size_t lane = 0, kind = 0;  // positions in kTrainLanes and kTrainKinds
  uint64_t begin_ns = 0, end_ns = 0;
  std::string label;  // shown when the pointer rests on it
};

struct TrainResult {
  std::optional<SaveMode> mode;  // as in the spec
  std::vector<SaveFacts> saves;
  std::vector<uint64_t> step_ns;  // each including its stall
  uint64_t host_bytes = 0;        // buffers
  std::vector<Span> spans;
};
inline constexpr const char* kTrainLanes[] = {"training", "staging", "writer"};
inline constexpr const char* kTrainKinds[] = {"forward, backward", "optimizer", "staging", "waiting", "writing"};

std::byte stamp_of(uint32_t step);

// Throws device_failed, what FileSet throws, nothing_selected (last_model_only without a model),
// `interrupted`.
TrainResult train(Io& io, Device& device, const Workload& workload, const TrainSpec& spec, const StopFlag& stop);

// The cost of a mode compared with the same loop without saves. Leaves out the save of the last step if there are others.
struct TrainSummary {
  uint64_t stall_ns = 0, durable_ns = 0;  // medians
  uint64_t step_ns = 0;                   // mean, the last step left out
  double overhead = 0;                    // of the mean step, relative to the loop without saves
};
TrainSummary summarize(const TrainResult& result, const TrainResult& without_saves);
// The conclusion in one sentence.
std::string train_verdict(const std::vector<TrainResult>& modes, const TrainResult& without_saves);

}  // namespace dcp
