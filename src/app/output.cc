#include "app/output.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "app/model_config.h"
#include "app/publishing.h"
#include "app/resources.h"
#include "base/file_names.h"
#include "base/limits.h"
#include "base/text.h"
#include "catalog/data_files.h"
#include "files/file_set.h"
#include "files/output_free.h"
#include "format/safetensors.h"
#include "plan/item_folder.h"

namespace dcp {
namespace {

// The output's name says a file or a folder, and the checkpoint must be the same.
void check_same_kind(const OutputRequest& request, const KindTraits& source) {
  const auto is_file = [](WrittenAs w) { return w == WrittenAs::kTorchFile || w == WrittenAs::kSafetensorsFile; };
  const bool same = request.kind == OutputRequest::Kind::kTorch         ? source.written_as == WrittenAs::kTorchFile
                    : request.kind == OutputRequest::Kind::kSafetensors ? source.written_as == WrittenAs::kSafetensorsFile
                                                                        : !is_file(source.written_as);
  if (same) return;
  throw Error(with_remedy(make_problem(ProblemId::usage, {.path = request.path},
                                       "the name of another kind than a " + std::string(source.words), "the same kind"),
                          Remedy::kOtherKind));
}

// The floating dtype of most elements; nothing if there are none.
std::optional<DType> main_dtype(const Catalog& catalog, const Selection& selection) {
  std::map<DType, uint64_t> elements;
  for (const Entry& e : selection.entries)
    if (!e.is_blob() && facts_of(e.dtype).kind == DTypeKind::kFloat)
      elements[e.dtype] += static_cast<uint64_t>(volume(catalog.dims(catalog.tensors[e.tensor()])));
  const auto max = std::ranges::max_element(elements, {}, [](const auto& e) { return e.second; });
  return max == elements.end() ? std::nullopt : std::optional(max->first);
}

// An index, or the one of a folder. Throws hf_index_bad.
std::vector<std::pair<std::string, std::string>> read_index(const std::string& like, Store& store) {
  const auto facts = store.facts(like);
  const std::string path = facts && facts->kind == FileKind::kDirectory ? like + "/model.safetensors.index.json" : like;
  const Limits limits;
  HfIndex index = read_hf_index(as_text(read_file(store, path, limits.json_bytes)), {.path = path}, limits);
  if (index.weight_map.empty()) fail(ProblemId::hf_index_bad, {.path = path}, "no tensors");
  return std::move(index.weight_map);
}

// Of the source's own kind.
Plan same_folder(const OutputRequest& request, const UnitOptions& units, const SourceFacts& source, const Selection& selection) {
  if (source.catalog.traits().written_as == WrittenAs::kHfFolder) {
    if (request.torch.requested)
      fail(ProblemId::usage, {.path = request.path, .setting = "for_torch"}, "with an output that is not a DCP folder", "a folder name");
    LayoutOptions layout{.limits = {}, .units = units, .shards_of_source = true};
    return plan_safetensors(source, selection, layout);
  }
  DcpLayoutOptions layout = layout_of_source(source.catalog);
  layout.units = units;
  layout.torch = request.torch;
  return plan_dcp(source, selection, layout);
}

}  // namespace

std::optional<OutputRequest::Kind> model_file_kind(const std::string& path) {
  const std::string ending = lowered(std::filesystem::path(path).extension().native());  // model.PT
  if (ending == ".safetensors") return OutputRequest::Kind::kSafetensors;
  if (ending == ".pt" || ending == ".pth" || ending == ".bin") return OutputRequest::Kind::kTorch;
  return std::nullopt;
}

OutputForm form_of(const OutputRequest& request) {
  if (!request.is_folder() || request.kind == OutputRequest::Kind::kShards) {
    const bool torch = request.kind == OutputRequest::Kind::kTorch;
    return {.blobs = torch, .any_tensor = torch};
  }
  if (request.kind == OutputRequest::Kind::kItems) return {.any_tensor = true};
  // What torch before 2.4 takes as one object is put together from several: their pickles are needed.
  const bool flattens = request.torch.version >= TorchTarget::kFlattensPlainDicts;
  return {.blob_use = flattens ? BlobUse::kWhole : BlobUse::kPickles};
}

OutputLayout layout_of(const OutputRequest& request, World& world, const std::string& source, uint64_t max_memory) {
  OutputLayout layout{.units = units_of(world, source, max_memory), .dcp = {}, .file_of = {}};
  layout.units.verify = request.check_crcs;
  if (!request.like_index.empty()) layout.file_of = read_index(request.like_index, world.store);
  if (request.kind != OutputRequest::Kind::kDcp && request.kind != OutputRequest::Kind::kItems) return layout;
  layout.dcp = requested_layout(request.layout, world.store, memory_left(max_memory));
  layout.dcp.options.units = layout.units;
  layout.dcp.options.torch = request.torch;
  return layout;
}

DcpLayoutOptions layout_of_source(const Catalog& catalog) {
  return {
      .limits = {}, .units = {}, .world_size = std::max<uint32_t>(ranks_shown(catalog), 1), .mesh = {}, .rules = {}, .source_boxes = true};
}

Plan plan_output(const OutputRequest& request, const OutputLayout& given, const SourceFacts& source, const Selected& selected,
                 World& world) {
  using Form = OutputRequest::Kind;
  const Selection& selection = selected.selection;
  if (request.same_kind) check_same_kind(request, source.catalog.traits());
  if (request.kind == Form::kDcp || request.kind == Form::kItems) {
    DcpLayoutOptions where = given.dcp.options;
    if (where.world_size == 0) {
      where.world_size = world_size_of(request.layout, source.catalog);
      world.events.info("for " + counted(where.world_size, "rank") + ", as in the source");
    }
    if (request.kind == Form::kDcp) return plan_dcp(source, selection, where);
    return plan_item_folder(source, selection, {where, request.model_in_safetensors, request.device_type});
  }
  const bool is_published =
      source.catalog.traits().tensors_only && !source.catalog.single_file && has_config(source.catalog.folder, world.store);
  if (request.kind == Form::kSameFolder) {
    Plan plan = same_folder(request, given.units, source, selection);
    if (is_published) copy_assets({source.catalog.folder, main_dtype(source.catalog, selection), selected.published}, world, plan);
    return plan;
  }
  LayoutOptions layout;
  layout.units = given.units;
  layout.weights_only_safe = request.weights_only_safe;
  layout.mcore_shapes = request.mcore_shapes;
  layout.bare = request.one_value;
  if (request.one_value && request.kind != Form::kTorch && selection.entries.front().is_blob())
    fail_no_elements(source.catalog.path, selection.entries.front().key);
  if (request.kind == Form::kTorch) return plan_torch(source, selection, layout);
  if (request.kind == Form::kNpy || request.kind == Form::kRaw)
    return plan_arrays(source, selection, request.kind == Form::kNpy ? ArrayForm::kNpy : ArrayForm::kRaw, given.units);
  if (request.kind == Form::kNpz) return plan_npz(source, selection, given.units);
  layout.max_shard_bytes = request.max_shard_bytes;
  layout.file_of = given.file_of;
  layout.file_of_path = request.like_index;
  Plan plan = plan_safetensors(source, selection, layout);
  if (!request.assets.empty()) copy_assets({request.assets, main_dtype(source.catalog, selection), selected.published}, world, plan);
  else if (is_published && request.kind == Form::kShards && !request.one_value) note_assets(source.catalog.folder, world);
  return plan;
}

void fail_no_elements(const std::string& checkpoint, std::string_view key) {
  fail(ProblemId::usage, {.path = checkpoint, .tensor = std::string(key), .object = true}, "an object, which has no elements",
       "a .pt file, text or JSON for it");
}

void refuse_source(const std::string& output, const Catalog& catalog) {
  using std::filesystem::path, std::filesystem::weakly_canonical;
  std::error_code ignored;
  const auto is_within = [](const path& inner, const path& outer) {
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
  };
  // A link is replaced where it lies, and what it points to stays.
  const auto place_of = [&](const std::string& name) {
    const path given = std::filesystem::absolute(without_trailing_slashes(name));
    return std::filesystem::is_symlink(given, ignored) ? weakly_canonical(given.parent_path(), ignored) / given.filename()
                                                       : weakly_canonical(given, ignored);
  };
  const path out = place_of(output), source = weakly_canonical(catalog.folder, ignored);
  const auto holds = [&](const std::string& file) {
    return is_within(weakly_canonical(file, ignored), out) || is_within(place_of(file), out);
  };
  bool replaces = !catalog.single_file && (is_within(source, out) || is_within(place_of(catalog.folder), out));
  for (uint32_t f = 0; f < catalog.files.size() && !replaces; ++f) replaces = catalog.files[f].raw && holds(catalog.file_path(f));
  const bool is_inside = !catalog.single_file && is_within(out, source);
  if (!replaces && !is_inside) return;
  Problem p = make_problem(ProblemId::output_in_source, {.path = output});
  if (!replaces) p.what = "the output would lie inside the source checkpoint";
  throw Error(std::move(p));
}

void save_small_file(World& world, const std::string& path, std::string_view text, const SmallFileOptions& options) {
  save_text(world, path, [&](const TextOut& out) { out(text); }, options);
}

void save_text(World& world, const std::string& path, const std::function<void(const TextOut&)>& emit, const SmallFileOptions& options) {
  uint64_t bytes = 0;
  emit([&](std::string_view text) { bytes += text.size(); });
  FileSet file(world.io, path, {{"", bytes}}, {.folder = false, .replace = options.replace, .sync = options.sync});
  for (const std::string& n : file.found()) world.events.info(n);
  uint64_t at = 0;
  emit([&](std::string_view text) {
    file.write(0, at, as_bytes(text));
    at += text.size();
  });
  file.finish();
  file.commit();
}

}  // namespace dcp
