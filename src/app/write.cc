#include "app/write.h"

#include <algorithm>

#include "app/carry_out.h"
#include "app/memory.h"
#include "app/output_in_source.h"
#include "app/parts.h"
#include "app/whole_shapes.h"
#include "catalog/structure.h"
#include "files/output_free.h"

namespace dcp {
namespace {

void take_part(Preparation& source, const Subscript& slice, const Selection& selection) {
  const Entry& e = selection.entries.front();
  if (e.is_blob())
    fail(ProblemId::usage, {.path = source.catalog().path, .tensor = std::string(e.key), .object = true}, "a slice of an object",
         "a tensor");
  source.take_part(slice, e.tensor());
}

// Objects with tensors, as a tensor of a class that pickles it in a way of its own, packed parameters of quantized modules, whole modules, are
// weights: a model without them is not the model, and one in which they keep their dtype is not of the new one. Not all that a state dict without
// a root holds is a model's.
void refuse_weights_in_objects(Preparation& source, const TrainingState& state, const std::vector<BlobId>& objects, ProblemId id,
                               Remedy remedy = Remedy::kOfId) {
  const Catalog& catalog = source.catalog();
  const std::vector<BlobId> weights = source.weights_among(objects, state);
  if (weights.empty()) return;
  constexpr size_t kNamed = 20;
  std::string names;
  for (size_t i = 0; i < weights.size() && i < kNamed; ++i)
    names += (i == 0 ? "" : ", ") + std::string(catalog.key(catalog.blobs[weights[i]])) + " (an object that holds tensors)";
  if (weights.size() > kNamed) names += " and " + std::to_string(weights.size() - kNamed) + " more";
  Problem p = make_problem(id, {.path = catalog.path}, names);
  p.remedy = remedy;
  throw Error(std::move(p));
}

void refuse_weights_in_objects(Preparation& source, const DtypeOptions& given, const Selection& selection, const OutputForm& form) {
  const DtypeOptions dtypes = meant_rules(given, selection);
  std::vector<BlobId> objects;
  for (const Entry& e : selection.entries)
    if (e.is_blob() && (!form.blobs || is_to_be_cast(dtypes, e.key))) objects.push_back(e.blob());
  if (form.blobs) refuse_weights_in_objects(source, selection.state, objects, ProblemId::cast_opaque);
  else  // of another dtype, a .pt does not hold them either
    refuse_weights_in_objects(source, selection.state, objects, ProblemId::no_dtype_in_output,
                              dtypes.dtype ? Remedy::kFewerKeys : Remedy::kOfId);
  refuse_weights_in_objects(source, selection.state, selection.dropped_blobs, ProblemId::weights_left_out);
}

// What is expected of the output, what it is to be laid out like, and its configuration show which tensors each rank has whole.
void add_known_shapes(const WriteRequest& request, Store& store, const Catalog& catalog, WholeShapes& shapes) {
  std::vector<std::string> configs;
  if (!request.map.config.empty()) configs.push_back(request.map.config);
  if (!request.output.assets.empty()) configs.push_back(request.output.assets + "/config.json");
  WholeShapes by_config = shapes_by_config(catalog, configs, store);
  by_config.swap(shapes);  // of two, the one that was given
  shapes.merge(by_config);
  bool may_lack_shards = false;
  for (const std::string& reference : {request.output.layout.like, request.expect.reference})
    if (!reference.empty()) add_shapes(catalog, request.select, read_reference(store, reference, may_lack_shards), shapes);
}

// What a missing file could have held is not missing where the result is what was expected, unless the reference may lack it, too.
void weigh_missing_shards(World& world, WriteResult& result) {
  if (result.expectation.reference.empty() || std::ranges::none_of(result.warnings, tells_unseen_shards)) return;
  if (result.expectation.may_lack_shards)
    world.events.info(world.events.name_of("expect") + " " + escaped(result.expectation.reference) +
                      " cannot show what is missing: it may lack the same");
  else std::erase_if(result.warnings, tells_unseen_shards);
}

}  // namespace

void write(const WriteRequest& request, World& world, WriteResult& result, const std::function<void()>& planned) {
  result.begin_ns = world.io.now_ns();
  const OutputRequest& output = request.output;
  result.layout = std::make_unique<OutputLayout>(output, world, request.read.max_memory);
  result.source = std::make_unique<Preparation>(request.read, world);
  Preparation& source = *result.source;
  if (world.leads()) check_output_free(world.io, output.path, output.is_folder(), request.replace);

  const OpenedCatalog& opened =
      source.open([&](const Catalog& c, WholeShapes& shapes) { add_known_shapes(request, world.store, c, shapes); });
  const Catalog& catalog = opened.catalog;
  result.checkpoint = catalog.path;
  refuse_source(output.path, catalog);
  for (const Problem& p : opened.findings)
    if (p.severity <= Severity::kWarning) result.warnings.push_back(p);
  OutputForm form = form_of(output);
  SelectOptions select = request.select;
  select.no_extra_states = !form.blobs;
  select.dtypes.any_tensor = form.any_tensor;
  result.selection = source.select(select, request.map, output.assets, form.blobs);
  name_by_paths(catalog, result.selection);
  Parts parts = check_selected(opened, result.selection, form);
  if (source.map()) parts = {.tensors = source.map()->sources(), .blobs = source.map()->objects()};
  if (source.map() && source.map()->run) form.blob_use = BlobUse::kPickles;  // they are compared, and lists of parameters made anew
  refuse_weights_in_objects(source, request.select.dtypes, result.selection, form);
  if (request.slice) take_part(source, *request.slice, result.selection);
  source.resolve(parts.tensors, parts.blobs, Faults::kThrow, form.blob_use);
  source.compare_copies(Faults::kThrow);
  result.selection = source.make(request.select, std::move(result.selection));

  result.plan = result.layout->plan(source.source(), result.selection, source.published());
  const Plan& plan = *result.plan;
  source.check_same_plan(plan);
  check_expected(request.expect, {.source = source.source(), .selection = result.selection, .plan = plan, .holds_objects = form.blobs},
                 world, result.expectation);
  weigh_missing_shards(world, result);
  result.workers = source.fit(plan, request.verify_after ? kPassBytes : kMiB, result.planned_memory);
  planned();
  if (request.dry_run) {
    if (world.leads()) check_output_room(world.io, output.path, output.is_folder(), request.replace, plan.bytes_to_write);
    return;
  }
  source.compare_ties(result.workers);
  carry_out(request, world, result);
}

}  // namespace dcp
