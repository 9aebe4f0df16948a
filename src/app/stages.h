// The way from a request to the input of a plan, in four values: what is opened; what of it is selected; what is found in the items of that
// (Resolved); and what is ready to be planned and read. Each owns what it needs: none refers to a request, or to another.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/ask_map.h"
#include "app/requests.h"
#include "catalog/data_files.h"
#include "exec/execute.h"
#include "inputs/open.h"
#include "items/resolve.h"
#include "maps/derive.h"
#include "maps/subscript.h"
#include "plan/plan.h"
#include "select/select.h"

namespace dcp {

// --- opened

struct Opened {
  ReadRequest request;
  uint64_t memory_cap = 0;
  FrozenCatalog found;
  std::shared_ptr<DataFiles> files;

  const Catalog& catalog() const { return found->catalog; }
  Limits limits() const { return request.source.limits(); }
  Source with(const Resolved& resolved) const { return {found->catalog, resolved, *files}; }
};

// Joins the ranks, and takes the memory cap, which it returns.
uint64_t begin_reading(const ReadRequest& request, World& world);

// Opens the source, with the sizes of its data files. Notes the steps that `latest` skipped. On several ranks, rank 0 opens it, all get it,
// and all look for its files (RankGroup::share). Where ranks may have parts of tensors, `shapes_of` is asked for what is known of these.
using ShapesOf = std::function<void(const Catalog&, WholeShapes&)>;
FrozenCatalog open_source(const SourceRequest& request, World& world, uint64_t memory_bytes, const ShapesOf& shapes_of = {});
Opened open(ReadRequest request, uint64_t memory_cap, World& world, const ShapesOf& shapes_of = {});

// Notes what opening found odd, where nothing else reports it.
void note_warnings(const OpenedCatalog& opened, World& world);

// --- selected

struct Selected {
  Selection selection;           // of the source: with a map, what it reads, until make()
  std::optional<MapAnswer> map;  // another form of the model
  PublishedModel published;      // by the map
  maps::KeepsFloat32 keeps;      // of the names that are written
};

struct MapUse {
  MapRequest request{};
  std::string assets{};                     // a folder that may hold the config.json of the map's model, or ""
  bool has_run = false;                     // what a run keeps beside its model is wanted too
  bool is_filled = false;                   // what the model lacks comes from another one
  std::vector<Problem>* lacking = nullptr;  // gets what is missing of the model, if nothing else is wrong: no map is applied then
};
Selected select(const Opened& opened, const SelectOptions& options, const MapUse& use, World& world);

// What an output can hold.
struct OutputForm {
  bool blobs = true;  // byte items; otherwise they are ignored
  BlobUse blob_use = BlobUse::kPickles;
  bool any_tensor = false;  // tensors of a torch.save file without a strided layout: sparse, on meta, nested
};

// What is looked into.
struct Parts {
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
};
// Of the selection. Throws damage that affects the output, and pickle_unloadable for a name that Python cannot read.
Parts check_selected(const OpenedCatalog& opened, const Selection& selection, const OutputForm& form);
// Throws the first fault of what is selected.
void check_whole(const Catalog& catalog, const Selection& selection);
// Throws damage found while opening, except to keys that are in the catalog but not selected.
void check_kept(const OpenedCatalog& opened, const Selection& selection);

// The keys that a finding is about; none: it is about a file, or all of them.
std::vector<std::string> keys_of(const Problem& finding);
// Drops findings that are only about keys which are left out; returns how many.
uint64_t drop_left_out(std::vector<Problem>& findings, const Catalog& catalog, const Selection& selection);
// The keys that findings are about; nullopt where the options leave none out.
std::optional<Selection> select_for_findings(const Catalog& catalog, const SelectOptions& select);

// --- resolved

// A part of one tensor.
struct TensorSlice {
  TensorId tensor = 0;
  std::vector<SliceAxis> axes;
};

struct ResolveRequest {
  Parts parts;
  Faults faults = Faults::kThrow;  // kCollect: they become findings
  BlobUse use = BlobUse::kPickles;
  const TensorSlice* part = nullptr;              // files that hold none of it are not opened
  const std::vector<bool>* only_files = nullptr;  // nor are others than these
  bool predicts = false;                          // heads of alike items, where reading takes long
  std::atomic<uint64_t>* summed = nullptr;        // records of items up to a read's size are summed at once: ResolveOptions
  bool data_follows = false;                      // the data is read soon: small items are not read for their headers as a whole
};
Resolved resolve(const Opened& opened, const ResolveRequest& wanted, World& world);
// Compares, at the leading rank, all copies of items that several ranks wrote. kThrow throws if they differ, kCollect returns findings.
std::vector<Problem> compare_copies(const Opened& opened, const Resolved& resolved, Faults faults, World& world);

// --- ready

// What a plan is made of: the source itself, the result of a map, or a part of a tensor.
struct Ready {
  Opened opened;
  Resolved resolved;                       // of the source
  std::unique_ptr<const Derived> derived;  // of a map, or a part
  std::unique_ptr<const Derived> filled;   // the same with tensors of another checkpoint

  const Derived* result() const { return filled ? filled.get() : derived.get(); }
  const Catalog& catalog() const { return result() != nullptr ? result()->catalog : opened.catalog(); }
  Source source() const { return {catalog(), result() != nullptr ? result()->resolved : resolved, *opened.files}; }
};
// `selected.selection` becomes that of the result, which it views.
Ready make(Opened opened, Selected& selected, Resolved resolved, const SelectOptions& options);
Ready make_part(Opened opened, Selected& selected, Resolved resolved, const TensorSlice& part);

// A part of a tensor as a checkpoint of its own. Throws cast_opaque if it is part of a tensor that is not plain.
struct DerivedPart {
  std::unique_ptr<const Derived> derived;
  Selection selection;

  Source source(DataFiles& files) const { return {derived->catalog, derived->resolved, files}; }
};
DerivedPart derive_part(const SourceFacts& source, TensorId tensor, const IndexMap& map, DType dtype);

// Checks that what a map ties is equal, and says what of it is left out. Throws map_tied_differ, or model_differs.
void compare_ties(const Ready& ready, const Selected& selected, unsigned workers, World& world);

// --- planned

// The number of workers for the plan. `min_bytes`: see WorkerNeeds.
unsigned fit(const Opened& opened, const Plan& plan, uint64_t min_bytes, const World& world, uint64_t& planned_memory);
// Executes the plan in this process. Throws refuse_damage() as well.
void execute_or_throw(const Plan& plan, const Source& source, Sink& sink, const ExecuteOptions& options, World& world);
// Throws the first difference from a CRC, and warns of the others.
void refuse_damage(const std::vector<Problem>& damage, World& world);

}  // namespace dcp
