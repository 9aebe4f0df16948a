#include "app/write.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "app/carry_out.h"
#include "app/memory.h"
#include "base/utf8.h"
#include "base/working_names.h"
#include "catalog/open.h"
#include "exec/output_free.h"

namespace dcp {
namespace {

void refuse_source(const std::string& path, const Catalog& catalog) {
  std::error_code ignored;
  const auto out = std::filesystem::weakly_canonical(std::filesystem::absolute(without_trailing_slashes(path)), ignored);
  const auto holds = [&](const std::string& name) {
    const auto source = std::filesystem::weakly_canonical(name, ignored);
    return std::mismatch(out.begin(), out.end(), source.begin(), source.end()).first == out.end();
  };
  bool replaces = !catalog.single_file && holds(catalog.folder);
  for (uint32_t f = 0; f < catalog.files.size() && !replaces; ++f) replaces = catalog.files[f].raw && holds(catalog.file_path(f));
  const auto source = std::filesystem::weakly_canonical(catalog.folder, ignored);
  const bool is_inside = !catalog.single_file && std::mismatch(source.begin(), source.end(), out.begin(), out.end()).first == source.end();
  if (!replaces && !is_inside) return;
  Problem p = make_problem(ProblemId::output_in_source, {.path = path});
  if (!replaces) p.what = "the output would lie inside the source checkpoint";
  throw Error(std::move(p));
}

// What is selected, checked to be whole.
struct Parts {
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
};

// Python could not read a name that is no text.
void check_text(const Catalog& catalog, const Selection& selection, const Entry& e) {
  bool text = is_pickled_text(e.key);
  for (const PathPart& p : selection.path(e)) text = text && is_pickled_text(p.name);
  if (text) return;
  Problem p = make_problem(ProblemId::pickle_unloadable, {.path = catalog.path, .tensor = std::string(e.key), .object = e.is_blob()},
                           "a key that is not UTF-8");
  p.hint = "--rename gives it another name, --exclude leaves it out";
  throw Error(std::move(p));
}

Parts check_selected(const Catalog& catalog, const Selection& selection, const OutputForm& form) {
  Parts parts;
  std::set<std::string_view> kept;
  for (const Entry& e : selection.entries) kept.insert(catalog.key(e.ref));
  check_opened(catalog, [&](std::string_view key) { return catalog.strings.find(key) && !kept.contains(key); });
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      if (!form.blobs) continue;
      check_item(catalog, catalog.item_of(e.blob()), catalog.key(e.ref), "");
      check_text(catalog, selection, e);
      parts.blobs.push_back(e.blob());
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    if (!form.any_tensor || !catalog.torch || t.strided) check_whole(catalog, t);
    if (form.blobs) check_text(catalog, selection, e);
    parts.tensors.push_back(e.tensor());
  }
  return parts;
}

// What a missing file could have held is not missing where the result is what was expected, unless the reference lacks it, too.
void weigh_gap(World& world, WriteResult& result) {
  const auto gap = std::ranges::find(result.warnings, ProblemId::shard_gap, &Problem::id);
  if (result.expectation.reference.empty() || gap == result.warnings.end()) return;
  if (result.expectation.has_gap)
    world.events.info("--expect " + escaped(result.expectation.reference) + " has such a gap itself: it cannot show what is missing");
  else std::erase_if(result.warnings, [](const Problem& p) { return p.id == ProblemId::shard_gap; });
}

}  // namespace

void write(const WriteRequest& request, World& world, WriteResult& result, const std::function<void()>& planned) {
  result.begin_ns = world.io.now_ns();
  const OutputRequest& output = request.output;
  result.layout = std::make_unique<OutputLayout>(output, world, request.read.max_memory);
  result.source = std::make_unique<Preparation>(request.read, world);
  Preparation& source = *result.source;
  if (world.leads()) check_output_free(world.io, output.path, output.is_folder(), request.replace);

  const Catalog& catalog = source.open();
  result.checkpoint = catalog.path;
  refuse_source(output.path, catalog);
  for (const Problem& p : catalog.findings)
    if (p.severity == Severity::kWarning) result.warnings.push_back(p);
  result.selection = source.select(request.select, request.map, output.assets);
  const OutputForm form = form_of(output);
  Parts parts = check_selected(catalog, result.selection, form);
  if (source.map()) parts = {.tensors = source.map()->sources(), .blobs = {}};
  source.resolve(parts.tensors, parts.blobs, Faults::kThrow, form.blob_use);
  source.compare_copies(Faults::kThrow);
  result.selection = source.make(request.select, std::move(result.selection));

  result.plan = result.layout->plan(source.source(), result.selection);
  const Plan& plan = *result.plan;
  source.check_same_plan(plan);
  check_expected(request.expect, signatures_of(source.catalog(), result.selection, plan), world, result.expectation);
  weigh_gap(world, result);
  result.workers = source.fit(plan, request.verify_after ? kPassBytes : kMiB, result.planned_memory);
  planned();
  if (request.dry_run) return;
  source.compare_ties(result.workers);
  carry_out(request, world, result);
}

}  // namespace dcp
