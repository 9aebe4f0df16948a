// The way from a request to a plan that can be run, which writing and verifying share: join the ranks, take the memory cap, open, resolve,
// compare copies, agree on the plan, count the workers. A step is a call; between them stands what only one of the two does.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "app/mapped.h"
#include "app/ranked_run.h"
#include "app/source.h"
#include "catalog/data_files.h"
#include "catalog/resolve.h"
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

  // The source.
  const OpenedCatalog& open();
  const OpenedCatalog& opened() const { return opened_; }
  // The keys of the source that are asked for; those that a map reads, where one is asked for: then make() gives those that it makes.
  // `assets`: a folder that may hold the config.json of the map's model, or "". `has_run`: what a run keeps beside its model is asked for, too.
  Selection select(const SelectOptions& options, const MapRequest& map, const std::string& assets, bool has_run = false);
  // Of what is selected, which is one tensor, only this part is wanted: the files that hold none of it are not looked into, and make() gives
  // it as the tensor. Throws usage.
  void take_part(const Subscript& slice, TensorId tensor);
  // Throws cast_opaque if it is a part of one that is not plain. After resolve().
  void refuse_opaque_part() const;
  // Looks into these items. With Faults::kCollect what is wrong joins resolved.findings.
  void resolve(std::span<const TensorId> tensors, std::span<const BlobId> blobs, Faults faults, BlobUse use);
  // Items that several ranks wrote: at the leading rank all copies must say the same. kThrow throws, kCollect returns findings.
  std::vector<Problem> compare_copies(Faults faults);
  // What the map, or the part, makes, as a catalog of its own: that, and its keys, is what follows is about.
  Selection make(const SelectOptions& options, Selection before);
  // All ranks have made this plan; then the workers for it. `min_bytes`: see WorkerNeeds.
  void check_same_plan(const Plan& plan) const;
  unsigned fit(const Plan& plan, uint64_t min_bytes, uint64_t& planned_memory) const;

  // Of what the map makes only this is wanted. Before resolve().
  void keep_made(const std::function<bool(const std::string& key)>& keep);
  // Tensors that must be the same are. Throws map_tied_differ.
  void compare_ties(unsigned workers);

  const std::optional<MapAnswer>& map() const { return map_; }
  const Catalog& catalog() const { return derived_ ? derived_->catalog : opened_.catalog; }
  // What the plan is about, with the files that it is read from.
  Source source() { return {catalog(), derived_ ? derived_->resolved : resolved_, *files_}; }
  std::vector<Problem> take_findings() { return std::move(resolved_.findings); }
  size_t open_outputs() const { return open_outputs_; }  // files of the output, at most at once

 private:
  const ReadRequest& request_;
  World& world_;
  uint64_t cap_;
  OpenedCatalog opened_;
  std::optional<DataFiles> files_;
  Resolved resolved_;  // of the source
  std::optional<MapAnswer> map_;
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
