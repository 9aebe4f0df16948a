#include "inputs/item_metadata.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/checked.h"
#include "format/json_text.h"
#include "pickle/graph.h"

namespace dcp {
namespace {

constexpr size_t kMaxDims = 64;      // as torch
constexpr size_t kMaxPath = 10'000;  // names in a path

// Without "./" and "//", so that a file has one name.
std::string plain_path(std::string_view path) {
  std::string plain;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    const bool is_inside = at > 0 && end < path.size();
    at = end + 1;
    if (part == "." || (part.empty() && is_inside)) continue;
    plain.append(part).append(end < path.size() ? "/" : "");
  }
  return plain;
}

// Groups of ranks, and what their metadata says.
class GroupReader {
 protected:
  GroupReader(const PickleGraph& graph, const Place& place, const Limits& limits)
      : graph_(graph), m_(graph.machine()), place_(place), limits_(limits) {}

  ItemLayout read_group(const Value& group) {
    const Value packed = entry(group, "sharding_metadata"), data = entry(packed, "data"), type = entry(packed, "type"),
                dtype = entry(data, "dtype");
    ItemLayout layout;
    layout.ranks = read_ranks(entry(group, "ranks"));
    layout.sizes = numbers(entry(data, "global_shape"), "global_shape");
    const std::string_view name = dtype.kind == Kind::kText ? m_.text(dtype) : "";
    constexpr std::string_view kTorch = "torch.";
    const auto known = name.starts_with(kTorch) ? dtype_named(name.substr(kTorch.size())) : std::nullopt;
    if (!known) bad("dtype '" + std::string(name) + "'", "one of torch's");
    layout.dtype = *known;
    uint64_t bytes = bytes_of(layout.dtype);
    for (const int64_t n : layout.sizes) {
      const auto product = checked_mul(bytes, std::max<uint64_t>(static_cast<uint64_t>(n), 1));
      if (!product || *product > uint64_t{1} << 62) bad("a shape of more bytes than there can be", "a shape");
      bytes = *product;
    }
    if (m_.is_text(type, "DTensorShardingMetadata")) read_sharding(data, layout);
    else if (m_.is_text(type, "default_tensor_v1")) read_boxes(data, layout);
    else
      bad("metadata of type " + (type.kind == Kind::kText ? std::string(m_.text(type)) : m_.describe(type)),
          "DTensorShardingMetadata or default_tensor_v1");
    return layout;
  }

  void read_sharding(const Value& data, ItemLayout& layout) {
    const Value placements = entry(data, "placements");
    layout.mesh = read_mesh(entry(data, "mesh_spec"));
    const std::vector<uint32_t>& mesh = out_.meshes[layout.mesh].mesh.sizes;
    if (placements.kind != Kind::kList && placements.kind != Kind::kTuple) bad("no placements", "one a mesh dim");
    std::vector<uint64_t> factors;
    Value p;
    for (auto it = m_.items(placements); it.next(p) && layout.placements.size() <= mesh.size();) {
      const Value type = entry(p, "type"), dim = entry(p, "dim"), factor = entry(p, "split_factor");
      Placement placement;
      if (m_.is_text(type, "Shard")) placement.kind = Placement::Kind::kShard;
      else if (m_.is_text(type, "StridedShard")) placement.kind = Placement::Kind::kStrided;
      else if (!m_.is_text(type, "Replicate"))
        bad("placement " + (type.kind == Kind::kText ? std::string(m_.text(type)) : m_.describe(type)), "Shard, StridedShard or Replicate");
      if (placement.kind != Placement::Kind::kReplicate) {
        if (dim.kind != Kind::kInt || dim.integer() < 0 || dim.integer() >= static_cast<int64_t>(layout.sizes.size()))
          bad("a shard on dim " + m_.describe(dim), "a dim of " + std::to_string(layout.sizes.size()));
        placement.dim = dim.integer();
      }
      if (placement.kind == Placement::Kind::kStrided && (factor.kind != Kind::kInt || factor.integer() < 1))
        bad("split_factor " + m_.describe(factor), "a number of shards");
      factors.push_back(placement.kind == Placement::Kind::kStrided ? factor.payload : 0);
      layout.placements.push_back(placement);
    }
    if (layout.placements.size() != mesh.size())
      bad(std::to_string(layout.placements.size()) + " placements", std::to_string(mesh.size()) + ", one a mesh dim");
    for (size_t n = 0; n < factors.size(); ++n) {
      if (layout.placements[n].kind != Placement::Kind::kStrided) continue;
      uint64_t later = 1;  // as FSDP over tensor parallelism makes it; of another one it is not known what the ranks hold
      for (size_t k = n + 1; k < factors.size(); ++k)
        if (layout.placements[k].kind != Placement::Kind::kReplicate && layout.placements[k].dim == layout.placements[n].dim)
          later *= mesh[k];
      if (factors[n] != later)
        bad("split_factor " + std::to_string(factors[n]),
            std::to_string(later) + ", the shards that later placements make: with another one it is not known what each rank holds");
    }
  }

  // Boxes of what each rank holds: `local_offsets` and `local_sizes` in it, `global_offsets` in the tensor.
  void read_boxes(const Value& data, ItemLayout& layout) {
    const Value global = entry(data, "global_offsets"), local = entry(data, "local_offsets"), sizes = entry(data, "local_sizes");
    for (const Value& v : {global, local, sizes})
      if (v.kind != Kind::kList && v.kind != Kind::kTuple) bad("no list of boxes", "global_offsets, local_offsets, local_sizes");
    Value g, l, s;
    auto globals = m_.items(global), locals = m_.items(local), all_sizes = m_.items(sizes);
    for (;;) {
      const bool has_global = globals.next(g), has_local = locals.next(l), has_sizes = all_sizes.next(s);
      if (has_global != has_local || has_local != has_sizes) bad("lists of boxes of different lengths", "one length");
      if (!has_global) return;
      count();
      TensorPart::Box box{
          .offsets = numbers(g, "global_offsets"), .sizes = numbers(s, "local_sizes"), .local_offsets = numbers(l, "local_offsets")};
      const size_t dims = layout.sizes.size();
      if (box.offsets.size() != dims || box.sizes.size() != dims || box.local_offsets.size() != dims)
        bad("a box of other dims", std::to_string(dims));
      for (size_t d = 0; d < dims; ++d) {
        const auto end = checked_add(box.offsets[d], box.sizes[d]), local_end = checked_add(box.local_offsets[d], box.sizes[d]);
        if (!end || !local_end || *end > layout.sizes[d]) bad("a box outside the tensor", "one inside");
      }
      layout.boxes.push_back(std::move(box));
    }
  }

  // Lists that a pickle shares are read once: there may be one for 10^5 tensors.
  uint32_t read_ranks(const Value& ranks) {
    if (ranks.kind != Kind::kTuple && ranks.kind != Kind::kList) bad("a group without ranks", "ranks");
    if (const auto known = lists_.find(ranks.payload); ranks.n > 0 && known != lists_.end()) return known->second;
    std::vector<uint32_t> list;
    for (const Value& rank : m_.items(ranks)) {
      count();
      if (rank.kind != Kind::kInt || rank.integer() < 0 || rank.integer() >= out_.world_size)
        bad("rank " + m_.describe(rank), "a rank of the world");
      list.push_back(static_cast<uint32_t>(rank.integer()));
    }
    if (list.empty()) bad("a group without ranks", "ranks");
    std::ranges::sort(list);
    if (const auto twice = std::ranges::adjacent_find(list); twice != list.end())
      bad("rank " + std::to_string(*twice) + " twice", "each once");
    const auto [it, fresh] = equal_lists_.try_emplace(list, static_cast<uint32_t>(out_.rank_lists.size()));
    if (fresh) out_.rank_lists.push_back(std::move(list));
    lists_.emplace(ranks.payload, it->second);
    return it->second;
  }

  uint32_t read_mesh(const Value& spec) {
    if (spec.kind != Kind::kDict) bad("no mesh", "mesh_spec");
    if (const auto known = meshes_.find(spec.payload); known != meshes_.end()) return known->second;
    ItemMesh mesh;
    const Value ranks = entry(spec, "mesh_data"), names = entry(spec, "mesh_dim_names");
    for (const int64_t n : numbers(entry(spec, "mesh_shape"), "mesh_shape")) {
      if (n < 1 || n > static_cast<int64_t>(kMaxRanks)) bad("mesh_shape with " + std::to_string(n), "sizes of a mesh");
      mesh.mesh.sizes.push_back(static_cast<uint32_t>(n));
    }
    if (ranks.kind != Kind::kTuple && ranks.kind != Kind::kList) bad("no mesh_data", "the mesh's ranks");
    std::vector<uint32_t> all;
    for (const Value& rank : m_.items(ranks)) {
      count();
      if (rank.kind != Kind::kInt || rank.integer() < 0 || rank.integer() >= out_.world_size)
        bad("rank " + m_.describe(rank) + " in mesh_data", "a rank of the world");
      if (!mesh.position_of.emplace(static_cast<uint32_t>(rank.integer()), static_cast<uint32_t>(all.size())).second)
        bad("rank " + m_.describe(rank) + " twice in mesh_data", "each once");
      all.push_back(static_cast<uint32_t>(rank.integer()));
    }
    if (mesh.mesh.ranks() != all.size())
      bad(std::to_string(all.size()) + " ranks in mesh_data", std::to_string(mesh.mesh.ranks()) + ", as mesh_shape says");
    if (names.kind == Kind::kTuple && names.n != mesh.mesh.sizes.size())
      bad(std::to_string(names.n) + " mesh_dim_names", std::to_string(mesh.mesh.sizes.size()));
    const auto [it, fresh] = equal_meshes_.try_emplace({mesh.mesh.sizes, all}, static_cast<uint32_t>(out_.meshes.size()));
    if (fresh) out_.meshes.push_back(std::move(mesh));
    meshes_.emplace(spec.payload, it->second);
    return it->second;
  }

  // --- values

  std::vector<int64_t> numbers(const Value& list, std::string_view what) const {
    if (list.kind != Kind::kTuple && list.kind != Kind::kList) bad("no " + std::string(what), "a list of numbers");
    std::vector<int64_t> out;
    for (const Value& n : m_.items(list)) {
      if (n.kind != Kind::kInt || n.integer() < 0 || out.size() >= kMaxDims)
        bad(std::string(what) + " with " + m_.describe(n), "at most 64 numbers from 0");
      out.push_back(n.integer());
    }
    return out;
  }

  // The last of its name, as Python has it.
  Value entry(const Value& dict, std::string_view name) const {
    Value key, value, found;
    if (dict.kind != Kind::kDict) return found;
    for (auto it = m_.items(dict); it.next(key) && it.next(value);)
      if (m_.is_text(key, name)) found = value;
    return found;
  }

  template <class Fn>
  void for_each(const Value& dict, Fn fn) {
    Value key, value;
    for (auto it = m_.items(dict); it.next(key) && it.next(value);) {
      count();
      fn(key, value);
    }
  }

  // Each value takes bytes of the pickle, unless a memo repeats it; the package repeats meshes alone.
  void count() {
    if (++visited_ > 4 * m_.pickle_bytes())
      fail(ProblemId::over_limit, place_, "values that are shared", "at most " + std::to_string(4 * m_.pickle_bytes()));
  }

  [[noreturn]] void bad(std::string got, std::string expected) const {
    fail(ProblemId::metadata_field, at_, std::move(got), std::move(expected));
  }

  [[noreturn]] void refuse(std::string got) const {
    fail(ProblemId::not_checkpoint, place_, std::move(got), "metadata of torch_checkpointing, version 2.0");
  }

  const PickleGraph& graph_;
  const PickleMachine& m_;
  const Place& place_;
  const Limits& limits_;
  Place at_;  // with the tensor that is read
  ItemMetadata out_;

 private:
  uint64_t visited_ = 0;
  std::unordered_map<uint64_t, uint32_t> lists_, meshes_;  // by position in the arena
  std::map<std::vector<uint32_t>, uint32_t> equal_lists_;
  std::map<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>, uint32_t> equal_meshes_;
};

class MetadataReader : private GroupReader {
 public:
  MetadataReader(const PickleGraph& graph, const Place& place, const Limits& limits) : GroupReader(graph, place, limits) {}

  ItemMetadata read() {
    const Value world = entry(graph_.root(), "world_size"), version = entry(graph_.root(), "version"),
                all = entry(graph_.root(), "metadata"), mappings = entry(graph_.root(), "rank_to_layout_info_mappings");
    if (world.kind != Kind::kInt || all.kind != Kind::kDict) refuse("a pickle of something else");
    const bool is_first = version.kind == Kind::kUnset || m_.is_text(version, "1.0");
    if (!is_first && !m_.is_text(version, "2.0"))
      refuse("version " + (version.kind == Kind::kText ? std::string(m_.text(version)) : m_.describe(version)) +
             " of torch_checkpointing's metadata");
    if (world.integer() < 1 || world.integer() > static_cast<int64_t>(kMaxRanks)) refuse("a world of " + m_.describe(world) + " ranks");
    out_.world_size = static_cast<uint32_t>(world.integer());
    if (is_first) read_first_version(all, mappings);
    else read_items(all);
    for (auto& [name, item] : out_.items)
      for (uint32_t r = 0; r < out_.world_size; ++r)
        if (!item.files.contains(r)) refuse("no file of rank " + std::to_string(r) + " for " + name);
    check_files();
    for (const auto& [module, name] : graph_.globals()) globals_.insert(std::string(module) + "." + std::string(name));
    out_.globals.assign(globals_.begin(), globals_.end());
    out_.trailing_bytes = m_.trailing_bytes();
    return std::move(out_);
  }

 private:
  void read_items(const Value& all) {
    for_each(all, [&](const Value& name, const Value& described) {
      const Value layouts = entry(described, "rank_to_layout_info"), paths = entry(described, "nested_path_to_metadata");
      if (name.kind != Kind::kText || layouts.kind != Kind::kDict) refuse("an item without rank_to_layout_info");
      ListedItem& item = item_named(std::string(m_.text(name)));
      for_each(layouts, [&](const Value& rank, const Value& layout) { read_layout(std::string(m_.text(name)), rank, layout); });
      if (paths.kind == Kind::kUnset) return item.needs.assign(out_.world_size, true);
      if (paths.kind != Kind::kDict) refuse("an item whose nested_path_to_metadata is no dict");
      for_each(paths, [&](const Value& path, const Value& groups) { read_tensor(std::string(m_.text(name)), path, groups); });
    });
  }

  // Paths begin with the item, and ranks have a dict of items.
  void read_first_version(const Value& all, const Value& mappings) {
    if (mappings.kind != Kind::kDict) refuse("version 1.0 of torch_checkpointing's metadata without rank_to_layout_info_mappings");
    for_each(all, [&](const Value& path, const Value& groups) { read_tensor("", path, groups); });
    for_each(mappings, [&](const Value& rank, const Value& items) {
      if (items.kind != Kind::kDict) refuse("a rank without a dict of layouts");
      for (auto& [name, item] : out_.items) read_layout(name, rank, entry(items, name));
    });
  }

  ListedItem& item_named(const std::string& name) {
    if (name.find('/') != name.npos) refuse("an item '" + name + "'");
    ListedItem& item = out_.items[name];
    item.needs.resize(out_.world_size);
    return item;
  }

  void read_layout(const std::string& item, const Value& rank, const Value& layout) {
    const uint32_t r = rank_of(rank);
    ItemFile file{.name = item + "_" + std::to_string(r) + ".pt"};
    if (layout.kind != Kind::kNil && layout.kind != Kind::kUnset) {
      const Value path = entry(layout, "file_path"), form = entry(entry(layout, "serialization_format"), "type");
      if (path.kind != Kind::kText) refuse("a layout without file_path");
      file = {.name = plain_path(m_.text(path)), .form = form_of(form, item, r)};
    }
    if (!out_.items.at(item).files.emplace(r, std::move(file)).second) refuse("rank " + std::to_string(r) + " twice for " + item);
  }

  FileForm form_of(const Value& form, const std::string& item, uint32_t rank) const {
    constexpr std::pair<std::string_view, FileForm> kForms[] = {{"TorchSerialization", FileForm::kTorch},
                                                                {"SafetensorsSerialization", FileForm::kSafetensors},
                                                                {"JsonSerialization", FileForm::kJson},
                                                                {"RawSerialization", FileForm::kRaw}};
    for (const auto& [name, known] : kForms)
      if (m_.is_text(form, name)) return known;
    refuse("rank " + std::to_string(rank) + "'s file of " + item + " in " +
           (form.kind == Kind::kText ? std::string(m_.text(form)) : "no form"));
  }

  uint32_t rank_of(const Value& rank) const {
    if (rank.kind != Kind::kInt || rank.integer() < 0 || rank.integer() >= out_.world_size) refuse("rank " + m_.describe(rank));
    return static_cast<uint32_t>(rank.integer());
  }

  void check_files() const {
    std::map<std::string_view, std::string> user;
    for (const auto& [name, item] : out_.items)
      for (const auto& [rank, file] : item.files) {
        const auto [other, fresh] = user.try_emplace(file.name, "rank " + std::to_string(rank) + " of " + name);
        if (!fresh) refuse(file.name + " for " + other->second + " and for rank " + std::to_string(rank) + " of " + name);
      }
  }

  // --- a tensor

  // `item` is "" where the path begins with it.
  void read_tensor(std::string item, const Value& path_text, const Value& groups) {
    ListedTensor tensor;
    read_path(path_text, tensor);
    if (item.empty()) {
      if (tensor.path.empty() || tensor.is_position[0]) refuse("a path without an item");
      item = tensor.path.front();
      tensor.path.erase(tensor.path.begin());
      tensor.is_position.erase(tensor.is_position.begin());
    }
    std::string key = item;
    for (const std::string& name : tensor.path) key += "." + name;
    at_ = place_;
    at_.tensor = key;
    if (groups.kind != Kind::kList && groups.kind != Kind::kTuple) bad("no list of groups", "groups of ranks");
    for (const Value& group : m_.items(groups)) {
      count();
      tensor.groups.push_back(read_group(group));
    }
    if (tensor.groups.empty()) bad("no group of ranks", "groups of ranks");
    ListedItem& listed = item_named(item);
    std::vector<bool> seen(tensor.groups.size() > 1 ? out_.world_size : 0);
    for (const ItemLayout& g : tensor.groups) {
      if (g.sizes != tensor.groups[0].sizes) bad("two shapes", "one for all groups of ranks");
      if (g.dtype != tensor.groups[0].dtype) bad("two dtypes", "one for all groups of ranks");
      const std::vector<uint32_t>& ranks = out_.rank_lists[g.ranks];
      if (!g.is_replicated() && needed_.insert({item, g.ranks}).second)
        for (const uint32_t r : ranks) listed.needs[r] = true;
      for (const uint32_t r : seen.empty() ? std::vector<uint32_t>() : ranks) {
        count();
        if (seen[r]) bad("rank " + std::to_string(r) + " in two groups", "one");
        seen[r] = true;
      }
    }
    if (!listed.tensors.emplace(key, std::move(tensor)).second) bad("two paths of this name", "one");
  }

  void read_path(const Value& text, ListedTensor& tensor) const {
    if (text.kind != Kind::kText) refuse("a path that is no text");
    const auto no_list = [&] { refuse("the path '" + std::string(m_.text(text).substr(0, 60)) + "'"); };
    bool opened = false;
    Place place = place_;
    walk_json(R"({"":)" + std::string(m_.text(text)) + "}", place, limits_, ProblemId::not_checkpoint,
              [&](std::span<const std::string> keys, const JsonValue& v) {
                if (keys.empty()) return;
                if (keys.size() == 1) {
                  if (v.kind != JsonValue::Kind::kArray || opened || !keys[0].empty()) no_list();
                  opened = true;
                } else if (tensor.path.size() >= kMaxPath || keys.size() > 2) {
                  no_list();
                } else if (v.kind == JsonValue::Kind::kText || v.kind == JsonValue::Kind::kNatural) {
                  tensor.is_position.push_back(v.kind == JsonValue::Kind::kNatural);
                  tensor.path.push_back(tensor.is_position.back() ? std::to_string(v.number) : std::string(v.text));
                } else {
                  no_list();
                }
              });
    if (!opened) no_list();
  }

  std::set<std::string> globals_;
  std::set<std::pair<std::string, uint32_t>> needed_;  // items, and lists of ranks that need their files
};

}  // namespace

bool ItemLayout::is_replicated() const {
  return mesh != UINT32_MAX && std::ranges::all_of(placements, [](const Placement& p) { return p.kind == Placement::Kind::kReplicate; });
}

bool ItemMetadata::has_rank(const ItemLayout& layout, uint32_t rank) const {
  return std::ranges::binary_search(rank_lists[layout.ranks], rank);
}

ItemMetadata read_item_metadata(Bytes pickle, const Place& place, const Limits& limits) {
  const PickleGraph graph(pickle, place, limits);
  return MetadataReader(graph, place, limits).read();
}

}  // namespace dcp
