// The way from a request to a runnable plan, shared by writing and verifying: join the ranks, take the memory cap, open, resolve, compare
// copies, agree on the plan, count the workers. Each step is a call; in between, callers do what is specific to them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "app/mapped.h"
#include "app/ranked_run.h"
#include "app/source.h"
#include "catalog/data_files.h"
#include "items/resolve.h"
#include "maps/derive.h"
#include "maps/subscript.h"
#include "plan/plan.h"

namespace dcp {

struct ReadRequest {
  SourceRequest source;
  RankOptions ranks;
  uint64_t max_memory = 0;  // bytes
  unsigned threads = 0;     // 0: the default
};

class Preparation {
 public:
  // Joins the ranks, and takes the memory cap.
  Preparation(const ReadRequest& request, World& world);
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  // The source; `shapes_of`: see open_source.
  const OpenedCatalog& open(const ShapesOf& shapes_of = {});
  const OpenedCatalog& opened() const { return *opened_; }
  // The requested keys of the source; with a map, the keys that it reads: make() then gives those that it makes. `assets`: a folder that
  // may hold the config.json of the map's model, or "". `has_run`: what a run keeps beside its model is wanted too.
  Selection select(const SelectOptions& options, const MapRequest& map, const std::string& assets, bool has_run = false);
  // Restricts the single selected tensor to this part: files that hold none of it are not opened, and make() gives the part as the tensor.
  // Throws usage.
  void take_part(const Subscript& slice, TensorId tensor);
  // Throws cast_opaque if it is part of a tensor that is not plain. Call after resolve().
  void refuse_opaque_part() const;
  // Resolves these items. With Faults::kCollect, faults are added to resolved.findings.
  void resolve(std::span<const TensorId> tensors, std::span<const BlobId> blobs, Faults faults, BlobUse use);
  // Those of these byte items that hold tensors and are weights in the form of an object (TrainingState::weights_in). One that cannot be read
  // is none.
  std::vector<BlobId> weights_among(std::vector<BlobId> blobs, const TrainingState& state);
  // Compares, at the leading rank, all copies of items that several ranks wrote. kThrow throws if they differ, kCollect returns findings.
  std::vector<Problem> compare_copies(Faults faults);
  // The result of the map, or the part, as a catalog of its own; the following steps refer to it and its keys.
  Selection make(const SelectOptions& options, Selection before);
  // Throws unless all ranks have made the same plan.
  void check_same_plan(const Plan& plan) const;
  // The number of workers for it. `min_bytes`: see WorkerNeeds.
  unsigned fit(const Plan& plan, uint64_t min_bytes, uint64_t& planned_memory) const;

  // Restricts the map's result to these keys. Call before resolve().
  void keep_made(const std::function<bool(const std::string& key)>& keep);
  // Checks that tied tensors are equal. Throws map_tied_differ.
  void compare_ties(unsigned workers);

  const std::optional<MapAnswer>& map() const { return map_; }
  const PublishedModel& published() const { return published_; }  // by the map
  const Catalog& catalog() const { return derived_ ? derived_->catalog : opened_->catalog; }
  // The plan's source, with the files to read it from.
  Source source() { return {catalog(), derived_ ? derived_->resolved : resolved_, *files_}; }
  std::vector<Problem> take_findings() { return std::move(resolved_.findings); }
  size_t open_outputs() const { return open_outputs_; }  // output files open at once, at most

 private:
  ResolveOptions resolve_options(Faults faults, BlobUse use) const;
  SelectOptions with_kept(SelectOptions options) const;
  const ReadRequest& request_;
  World& world_;
  uint64_t cap_;
  FrozenCatalog opened_;
  std::optional<DataFiles> files_;
  Resolved resolved_;  // of the source
  std::optional<MapAnswer> map_;
  PublishedModel published_;
  maps::KeepsFloat32 keeps_;  // of the names that are written
  struct Part {
    TensorId tensor = 0;
    std::vector<SliceAxis> axes;
    std::vector<bool> files;
  };
  Selection make_part(Selection before);
  std::optional<Part> part_;
  std::optional<Derived> derived_;
  size_t open_outputs_ = 0;
};

}  // namespace dcp
