#include "catalog/provenance.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "format/torch_release.h"

namespace dcp {
namespace {

// A lower bound on the version, with its reason.
struct Bound {
  unsigned version;
  std::string why;
};

// Places in the tree of planner paths, numbered by first appearance; 0 is the root.
class Places {
 public:
  uint32_t below(uint32_t parent, PathElement element) {
    return numbers_.try_emplace({parent, element}, static_cast<uint32_t>(numbers_.size() + 1)).first->second;
  }

 private:
  using Step = std::pair<uint32_t, PathElement>;
  struct Hash {
    size_t operator()(const Step& s) const {
      const uint64_t element = s.second.is_position() ? ~s.second.list_position() : s.second.name_id();
      return (element ^ (uint64_t{s.first} << 32)) * 0x9E3779B97F4A7C15u;
    }
  };
  std::unordered_map<Step, uint32_t, Hash> numbers_;
};

// The path, with dots, of a dict that has no tensor anywhere below it, yet was saved item by item; "" if there is none. Up to torch 2.3
// such a dict is one item, which an older loader looks for. Source: torch/distributed/checkpoint/_traverse.py, _is_terminal.
std::string flattened_dict(const Catalog& catalog) {
  if (std::ranges::none_of(catalog.blobs, [](const Blob& b) { return b.path.count > 1; })) return "";
  Places places;
  std::unordered_set<uint32_t> with_tensor;
  for (const Tensor& t : catalog.tensors) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < t.path.count; ++i) with_tensor.insert(at = places.below(at, catalog.path_elements[t.path.first + i]));
  }
  for (const Blob& b : catalog.blobs) {
    uint32_t at = 0;
    std::string path;
    for (uint32_t i = 0; i + 1 < b.path.count; ++i) {
      const PathElement e = catalog.path_elements[b.path.first + i];
      at = places.below(at, e);
      path += (i > 0 ? "." : "") + (e.is_position() ? std::to_string(e.list_position()) : std::string(catalog.strings[e.name_id()]));
      if (!with_tensor.contains(at) && !catalog.path_elements[b.path.first + i + 1].is_position()) return path;
    }
  }
  return "";
}

// Modules that come with Python or torch.
bool is_at_hand(std::string_view package) {
  constexpr std::string_view kNames[] = {"__builtin__", "_codecs",  "_io",     "array", "builtins",  "collections", "copy_reg",
                                         "copyreg",     "datetime", "decimal", "enum",  "fractions", "functools",   "io",
                                         "operator",    "pathlib",  "torch",   "types", "typing",    "uuid"};
  return std::ranges::find(kNames, package) != std::end(kNames);
}

// Packages that must be importable, with one class of each.
std::map<std::string, std::string> packages_of(const std::vector<std::string>& globals) {
  std::map<std::string, std::string> packages;
  for (const std::string& g : globals) {
    const std::string package = g.substr(0, g.find('.'));
    if (!is_at_hand(package)) packages.try_emplace(package, g);
  }
  return packages;
}

std::set<std::string> transforms_of(const MetadataContent& content) {
  std::set<std::string> transforms;
  for (const auto& list : content.transforms) transforms.insert(list.begin(), list.end());
  return transforms;
}

// The lowest versions of torch that load this, with reasons.
std::vector<Bound> bounds_of(const MetadataContent& content, const Catalog& catalog) {
  std::vector<Bound> needs;
  if (content.properties_fields >= 6) needs.push_back({215, "TensorProperties has 6 fields: older torch fails with 'metadata is None'"});
  if (catalog.traits().of_ranks) needs.push_back({209, "rank-local metadata (__R.metadata), which older torch does not look for"});
  if (content.has_storage_meta) needs.push_back({204, "it holds a StorageMeta object, a class of torch 2.4"});
  if (const std::string path = flattened_dict(catalog); !path.empty())
    needs.push_back({204, "the dict '" + path + "' of plain values is saved item by item: older torch looks for it as one item"});
  if (!content.tensors.empty() && !content.old_properties_module)
    needs.push_back({203, "TensorProperties is named by its module of torch 2.3"});
  for (const std::string& t : transforms_of(content)) needs.push_back({207, "items are transformed (" + t + ")"});
  std::set<DType> dtypes;
  for (const Tensor& t : catalog.tensors)
    if (t.dtype_known) dtypes.insert(t.dtype);
  for (DType d : dtypes)
    if (facts_of(d).since_torch > 200) needs.push_back({facts_of(d).since_torch, "dtype " + std::string(facts_of(d).name)});
  return needs;
}

// torch's own writers write a StorageMeta since 2.4, and a version only since 2.9, so metadata with a version but no StorageMeta is not
// theirs.
bool is_dcpctls(const MetadataContent& content) {
  return content.unframed && content.has_version && !content.has_storage_meta && content.properties_fields <= 5;
}

// Judges by what each release began or stopped writing.
std::string writer_of(const MetadataContent& content) {
  if (content.old_module_names) return "1.13";
  if (content.properties_fields >= 6) return ">=2.15";
  if (content.has_version) return "2.9 - 2.14";
  if (content.has_storage_meta_modules) return "2.7 - 2.8";
  if (content.has_storage_meta) return "2.4 - 2.6";
  if (content.old_properties_module) return "2.0 - 2.2";
  return content.tensors.empty() ? "" : "2.3";
}

}  // namespace

// Sources: torch/distributed/checkpoint/metadata.py and filesystem.py of 1.13 to 2.15; how each release reads each form was tried.
Provenance provenance_of(const MetadataContent& content, const Catalog& catalog) {
  Provenance p;
  p.format_version = std::string(content.version);
  p.extra_attributes = content.extra_attributes;
  p.attributes = content.attributes;
  p.unknown_globals = content.unknown_globals;
  p.by_dcpctl = is_dcpctls(content);
  if (!p.by_dcpctl) p.written_by = writer_of(content);
  if (content.old_module_names) {
    p.loads_in = "1.13";
    p.why.push_back("class names of torch 1.13: every torch 2 unpickles them and then refuses them");
  } else {
    const std::vector<Bound> needs = bounds_of(content, catalog);
    unsigned min = 200;
    for (const Bound& b : needs) min = std::max(min, b.version);
    p.loads_in = ">=" + torch_release(min);
    for (const Bound& b : needs)
      if (b.version == min) p.why.push_back("torch " + torch_release(b.version) + ": " + b.why);  // lower bounds rule out nothing more
  }
  if (!content.unloadable.empty()) {
    p.loads_in = "none";
    p.why = {"torch cannot load the metadata: " + content.unloadable[0].got + ", expected " + content.unloadable[0].expected};
  }
  for (const auto& [package, example] : packages_of(content.unknown_globals)) {
    p.packages.push_back(package);
    p.why.push_back("needs the Python package '" + package + "' (" + example + "): without it no torch unpickles the metadata");
  }
  std::set<std::string> unknown;
  for (const MetadataContent::Tensor& t : content.tensors)
    if (!t.dtype_known && unknown.insert(std::string(t.dtype_name)).second)
      p.why.push_back("dtype " + std::string(t.dtype_name) + ", which this dcpctl does not know: older torch may not either");
  if (std::ranges::any_of(catalog.tensors,
                          [](const Tensor& t) { return t.dtype_known && facts_of(t.dtype).kind == DTypeKind::kQuantized; }))
    p.why.push_back("quantized tensors get the scale of what dcp.load loads into; torch.load of their items gives them their own");
  if (transforms_of(content).contains("stream.zstd/1")) {
    p.packages.push_back("zstandard");
    p.why.push_back("items are compressed: torch needs the Python package 'zstandard'");
  }
  if (content.python313_path) p.why.push_back("a path object of Python 3.13 (pathlib._local): Python 3.12 and older cannot unpickle it");
  if (catalog.traits().of_ranks) p.why.push_back("rank-local: torch loads it on as many ranks as wrote it");
  return p;
}

}  // namespace dcp
