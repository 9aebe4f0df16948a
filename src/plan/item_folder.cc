#include "plan/item_folder.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/file_names.h"
#include "catalog/placements.h"
#include "format/item_metadata_write.h"
#include "format/json_text.h"
#include "format/safetensors.h"
#include "format/torch_archive.h"
#include "plan/torch_layout.h"

namespace dcp {
namespace {

constexpr std::string_view kOwnMesh = "dcpctl";  // which no job's mesh is called

struct ItemMesh {
  Mesh mesh;
  ItemMetadataWriter::Mesh described;
};

// A tensor on the ranks.
struct Placed {
  const ItemMesh* on = nullptr;
  std::vector<Placement> placements;
  uint32_t tensor = kNone;  // in Plan::tensors; kNone: it is not plain, and each file has all of it
  uint32_t rank = kNone;    // the only one that has it; kNone: all have their parts

  bool is_whole() const {
    return std::ranges::all_of(placements, [](const Placement& p) { return p.kind == Placement::Kind::kReplicate; });
  }
};

// What is to be written, by items. Views the texts of `s`, which must outlive it.
Selection with_items(const Selection& s, const std::string& root, std::string& model_item) {
  Selection out;
  out.entries = s.entries;
  out.parts = s.parts;
  std::set<int32_t> models;  // places
  for (const Entry& e : s.entries)
    if (!e.is_blob() && e.count == 1 && s.state.is_model(e.ref)) models.insert(s.state.place_of(e.ref));
  const auto is_its = [&](const Entry& e) { return models.contains(s.state.place_of(e.ref)); };
  const auto is_taken = [&](const Entry& e) { return !is_its(e) && s.path(e).front().name == root; };
  if (std::ranges::any_of(s.entries, is_taken)) models.clear();
  if (!models.empty()) model_item = root;
  const std::string_view name = out.texts.emplace_back(root);
  for (Entry& e : out.entries) {
    const std::string_view first = s.path(e).front().name;
    const size_t dot = first.find('.');
    const bool is_under_root = is_its(e);
    if (!is_under_root && dot == first.npos) continue;
    const auto path = narrow<uint32_t>(out.parts.size());
    out.parts.push_back({is_under_root ? name : first.substr(0, dot)});
    for (const PathPart& p : s.path(e)) out.parts.push_back(p);
    if (is_under_root) e.key = out.texts.emplace_back(root + "." + std::string(e.key));
    else out.parts[path + 1].name = first.substr(dot + 1);
    e.first = path;
    ++e.count;
  }
  return out;
}

// Of the package: letters, digits, - and _.
bool is_item_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !name.empty() && std::ranges::all_of(name, fits);
}

// Which part of each tensor lies where in which rank's file. The arguments must outlive it.
class ItemParts {
 public:
  ItemParts(const SourceFacts& source, const Selection& selection, const TrainingState& state, const ItemFolderOptions& options, Plan& plan)
      : source_(source),
        catalog_(source.catalog),
        entries_(selection.entries),
        state_(state),
        options_(options),
        ranks_(options.where.world_size),
        plan_(plan),
        rules_(options.where.rules, entries_),
        placed_(entries_.size()) {
    describe_meshes();
  }

  // By entry: its item, and the only rank that has it, or kNone.
  void lay_out(const std::vector<uint32_t>& item_of, const std::vector<uint32_t>& rank_of, ItemNotes& notes) {
    item_of_ = item_of;
    for (size_t e = 0; e < entries_.size(); ++e) placed_[e].rank = rank_of[e];
    reserve();
    source_is_sharded_ = std::ranges::any_of(catalog_.tensors, [&](const Tensor& t) { return is_sharded(source_, t); });
    for (size_t e = 0; e < entries_.size(); ++e)
      if (!entries_[e].is_blob()) tensor(e);
    rules_.finish(catalog_.path, notes.unmatched_placements, notes.replicated);
  }

  const Placed& placed(size_t e) const { return placed_[e]; }

  // A rank's part of a tensor.
  struct Part {
    std::vector<int64_t> sizes;
    std::span<const uint32_t> regions;
  };
  Part part_of(size_t e, uint32_t rank) {
    const PlanTensor& t = plan_.tensors[placed_[e].tensor];
    const Dims dims = catalog_.dims(catalog_.tensors[t.id]);
    boxes_.clear();
    place_rank(placed_[e].on->mesh, placed_[e].placements, dims, rank, boxes_);
    const auto file = [&](uint32_t r) { return plan_.regions[r].file; };
    const auto runs = std::span(runs_).subspan(t.first_region, t.region_count);
    const auto its = std::ranges::equal_range(runs, file_of(item_of_[e], rank), {}, file);
    return {join_boxes(boxes_, 0, boxes_.rank_of.size(), dims.size()).sizes, {its.begin(), its.end()}};
  }

  // Of its strided placements: how many shards the later ones of the same dim make.
  static std::vector<uint64_t> split_factors_of(const Placed& p) {
    std::vector<uint64_t> factors(p.placements.size(), 0);
    for (size_t m = 0; m < factors.size(); ++m) {
      if (p.placements[m].kind != Placement::Kind::kStrided) continue;
      factors[m] = 1;
      for (size_t later = m + 1; later < factors.size(); ++later)
        if (p.placements[later].kind != Placement::Kind::kReplicate && p.placements[later].dim == p.placements[m].dim)
          factors[m] *= p.on->mesh.sizes[later];
    }
    return factors;
  }

  static std::vector<ItemMetadataWriter::Placement> described(const Placed& p) {
    const std::vector<uint64_t> factors = split_factors_of(p);
    std::vector<ItemMetadataWriter::Placement> all(factors.size());
    for (size_t m = 0; m < all.size(); ++m)
      if (p.placements[m].kind != Placement::Kind::kReplicate) all[m] = {.dim = p.placements[m].dim, .split_factor = factors[m]};
    return all;
  }

 private:
  void describe_meshes() {
    const auto own = [](Mesh mesh, const std::string& name) {
      ItemMetadataWriter::Mesh described{.device_type = "cpu", .sizes = mesh.sizes, .names = {}};
      for (size_t d = 0; d < mesh.sizes.size(); ++d) described.names.push_back(name + (d > 0 ? std::to_string(d) : ""));
      return ItemMesh{std::move(mesh), std::move(described)};
    };
    const Mesh world{.sizes = {ranks_}, .names = {}};
    const std::string& device = options_.device_type;
    const Mesh& mesh = options_.where.mesh.sizes.empty() ? world : options_.where.mesh;
    world_ = own(world, std::string(kOwnMesh));
    mesh_ = own(mesh, std::string(kOwnMesh));
    if (device.empty()) return;
    world_.described = {.device_type = device, .sizes = world.sizes, .names = {}};
    mesh_.described = {.device_type = device, .sizes = mesh.sizes, .names = mesh.names};
    scalars_ = {world, {.device_type = "cpu", .sizes = world.sizes, .names = {}}};
  }

  // Vectors that grow by doubling would exist twice.
  void reserve() {
    uint64_t regions = 0, numbers = 0;
    for (const Entry& e : entries_) {
      if (e.is_blob()) continue;
      regions += ranks_;
      numbers += (2 * ranks_ + 1) * uint64_t{catalog_.tensors[e.tensor()].rank};
    }
    plan_.regions.reserve(regions);
    plan_.numbers.reserve(numbers);
  }

  void place(size_t e, const Tensor& t) {
    Placed& p = placed_[e];
    p.on = &mesh_;
    if (p.rank != kNone) {
      p.on = &world_;
      p.placements = {{}};
    } else if (auto placements = rules_.of(entries_[e].key, t.rank)) {
      p.placements = std::move(*placements);
      for (Placement& one : p.placements)
        if (one.dim < 0) one.dim += t.rank;
    } else {
      const KeyRef ref = entries_[e].ref;
      const bool is_weight = state_.is_model(ref) || state_.is_optimizers(ref);
      const bool is_split = t.rank > 0 && catalog_.elements(t) > 0 && (source_is_sharded_ ? is_sharded(source_, t) : is_weight);
      if (mesh_.mesh.sizes.size() > 1) p.on = &world_;
      p.placements = {{.kind = is_split ? Placement::Kind::kShard : Placement::Kind::kReplicate}};
    }
    if (options_.device_type.empty() || !p.is_whole()) return;
    p.on = t.rank == 0 ? &scalars_ : &world_;  // as a job keeps its buffers, and an optimizer's steps: they are no DTensors
    p.placements = {{}};
  }

  void tensor(size_t e) {
    const Tensor& t = catalog_.tensors[entries_[e].tensor()];
    place(e, t);
    if (is_opaque(source_, entries_[e].tensor())) {
      placed_[e].on = &world_;
      placed_[e].placements = {{}};
      plan_.tensor_bytes += catalog_.tensor_bytes(t);
      return;
    }
    const uint64_t bytes = catalog_.elements(t) * bytes_of(entries_[e].dtype);
    plan_.tensor_bytes += bytes;
    plan_.largest_tensor = std::max(plan_.largest_tensor, bytes);
    placed_[e].tensor = narrow<uint32_t>(plan_.tensors.size());
    plan_.tensors.push_back({.id = entries_[e].tensor(), .first_region = narrow<uint32_t>(plan_.regions.size())});
    boxes_.clear();
    pieces_.clear();
    place_ranks(placed_[e].on->mesh, placed_[e].placements, catalog_.dims(t), boxes_);
    for (size_t first = 0, last = 0; first < boxes_.rank_of.size(); first = last) {
      while (last < boxes_.rank_of.size() && boxes_.rank_of[last] == boxes_.rank_of[first]) ++last;
      const HeldBoxes held = join_boxes(boxes_, first, last, t.rank);
      if (placed_[e].rank != kNone && placed_[e].rank != boxes_.rank_of[first]) continue;
      for (size_t n = first; n < last; ++n) add_pieces(e, n, held, Dims(held.offsets).subspan((n - first) * t.rank, t.rank));
    }
    add_regions(e, t);
  }

  // A part of a tensor that lies in one run in a rank's file.
  struct Piece {
    uint32_t rank = 0;
    uint64_t at = 0;  // bytes, in what the rank has of the tensor
    std::vector<int64_t> box;
  };

  // Of box n, which begins at `local` in what its rank holds: one, unless it is cut by rows that have more than it on a later dim.
  void add_pieces(size_t e, size_t n, const HeldBoxes& held, Dims local) {
    const size_t dims = held.sizes.size();
    const BoxView box = boxes_.box(n, dims);
    size_t cut = 0;  // dims before it are taken index by index
    for (size_t d = 1; d < dims && volume(box.sizes) > 0; ++d)
      if (box.sizes[d] != held.sizes[d]) cut = d;
    const std::vector<int64_t> strides = contiguous_strides(held.sizes);
    uint64_t rows = 1;
    for (size_t d = 0; d < cut; ++d) rows *= static_cast<uint64_t>(box.sizes[d]);
    for (uint64_t row = 0; row < rows; ++row) {
      Piece piece{.rank = boxes_.rank_of[n], .box = {box.offsets.begin(), box.offsets.end()}};
      piece.box.insert(piece.box.end(), box.sizes.begin(), box.sizes.end());
      int64_t first = 0;
      for (size_t d = dims, rest = row; d-- > 0;) {
        int64_t index = 0;
        if (d < cut) {
          index = static_cast<int64_t>(rest % static_cast<uint64_t>(box.sizes[d]));
          rest /= static_cast<uint64_t>(box.sizes[d]);
          piece.box[d] += index;
          piece.box[dims + d] = 1;
        }
        first += (local[d] + index) * strides[d];
      }
      piece.at = static_cast<uint64_t>(first) * bytes_of(entries_[e].dtype);
      pieces_.push_back(std::move(piece));
    }
  }

  // In the order of their offsets; runs_ keeps that of the ranks.
  void add_regions(size_t e, const Tensor& t) {
    std::vector<uint32_t> order(pieces_.size());
    for (uint32_t n = 0; n < order.size(); ++n) order[n] = n;
    const auto offsets = [&](uint32_t n) { return Dims(pieces_[n].box).first(t.rank); };
    std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return std::ranges::lexicographical_compare(offsets(a), offsets(b)); });
    const size_t begin = runs_.size();
    runs_.resize(begin + order.size());
    for (const uint32_t n : order) {
      runs_[begin + n] = narrow<uint32_t>(plan_.regions.size());
      plan_.regions.push_back({.file_offset = pieces_[n].at,
                               .box_at = plan_.numbers.size(),
                               .tensor = placed_[e].tensor,
                               .file = file_of(item_of_[e], pieces_[n].rank),
                               .dtype = entries_[e].dtype,
                               .rank = t.rank});
      plan_.numbers.insert(plan_.numbers.end(), pieces_[n].box.begin(), pieces_[n].box.end());
    }
    plan_.tensors.back().region_count = narrow<uint32_t>(order.size());
  }

  uint32_t file_of(size_t item, uint32_t rank) const { return narrow<uint32_t>(item * ranks_ + rank); }

  const SourceFacts& source_;
  const Catalog& catalog_;
  const std::vector<Entry>& entries_;
  const TrainingState& state_;
  const ItemFolderOptions& options_;
  const uint32_t ranks_;
  Plan& plan_;
  PlacementRules rules_;
  ItemMesh world_, mesh_, scalars_;  // all ranks in one dim; that of the rules; with a device type: of tensors without dims
  std::vector<uint32_t> item_of_;    // by entry
  std::vector<Placed> placed_;       // by entry
  std::vector<uint32_t> runs_;       // regions by tensor, rank, and place in what the rank has
  bool source_is_sharded_ = false;
  RankBoxes boxes_;
  std::vector<Piece> pieces_;
};

class ItemFolder {
 public:
  ItemFolder(const SourceFacts& source, const Selection& selection, const ItemFolderOptions& options, Plan& plan)
      : source_(source),
        catalog_(source.catalog),
        state_(selection.state),
        options_(options),
        ranks_(options.where.world_size),
        plan_(plan),
        notes_(plan.items.emplace()),
        selection_(with_items(selection, "model", notes_.model_item)),
        entries_(selection_.entries),
        tree_(source.catalog, selection_, entries_, options.where.limits),
        parts_(source, selection_, state_, options, plan_),
        files_(source, {.limits = options.where.limits, .verify = options.where.units.verify}, plan_) {}

  void run() {
    plan_.folder = true;
    notes_.world_size = ranks_;
    notes_.device_type = options_.device_type;
    notes_.rank_bound = rank_bound_entries(selection_);
    const std::vector<uint32_t> item_of = find_items();
    parts_.lay_out(item_of, ranks_of_entries(), notes_);
    for (size_t n = 0; n < items_.size(); ++n)
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        if (items_[n].is_safetensors) safetensors_file(n, rank);
        else torch_file(n, rank);
      }
    metadata();
  }

 private:
  struct Item {
    std::string_view name;
    uint32_t node = 0;  // in tree_
    bool is_safetensors = false;
    std::vector<size_t> entries{};
    std::vector<uint32_t> of_rank{};  // nodes, where each rank has an item of its own: else none
  };

  // Returns the item of each entry.
  std::vector<uint32_t> find_items() {
    std::vector<uint32_t> item_of;
    for (const auto& [part, node] : tree_.node(0).children) items_.push_back({.name = part.name, .node = node});
    std::ranges::sort(items_, {}, &Item::name);
    std::map<std::string_view, size_t> by_name;
    for (size_t n = 0; n < items_.size(); ++n) by_name.emplace(items_[n].name, n);
    for (size_t e = 0; e < entries_.size(); ++e) {
      item_of.push_back(narrow<uint32_t>(by_name.at(selection_.path(entries_[e]).front().name)));
      items_[item_of.back()].entries.push_back(e);
    }
    bool has_model = false;
    for (Item& item : items_) {
      const auto is_model = [&](size_t e) { return !entries_[e].is_blob() && state_.is_model(entries_[e].ref); };
      if (!is_item_name(item.name))
        refuse_name(item.entries.front(), "'" + std::string(item.name) + "' as the name of an item", "letters, digits, '-' and '_'");
      if (options_.model_in_safetensors && std::ranges::any_of(item.entries, is_model)) has_model = item.is_safetensors = true;
      if (item.is_safetensors) order_safetensors(item);
      OutputItem& out = notes_.items.emplace_back();
      out.name = item.name;
      out.is_safetensors = item.is_safetensors;
      for (const size_t e : item.entries) {
        if (!entries_[e].is_blob()) ++out.tensors;
        else if (out.objects++ == 0) out.object = entries_[e].key;
      }
      if (!item.is_safetensors) item.of_rank = nodes_of_ranks(item.node);
      out.of_ranks = !item.of_rank.empty();
    }
    if (options_.model_in_safetensors && !has_model)
      fail(ProblemId::usage, {.path = catalog_.path, .setting = "model_form"}, "with items without a model", "a model");
    return item_of;
  }

  // What opening such a folder calls rank_0 to rank_N; none, if that is not all of it.
  std::vector<uint32_t> nodes_of_ranks(uint32_t item) const {
    const auto& children = tree_.node(item).children;
    if (children.size() != ranks_) return {};
    std::vector<uint32_t> nodes;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const std::string name = "rank_" + std::to_string(rank);
      const auto its = std::ranges::find_if(children, [&](const auto& child) { return child.first.name == name; });
      if (its == children.end()) return {};
      nodes.push_back(its->second);
    }
    return nodes;
  }

  // The only rank that has it, or kNone.
  std::vector<uint32_t> ranks_of_entries() const {
    std::vector<uint32_t> rank_of(entries_.size(), kNone);
    for (const Item& item : items_)
      for (const size_t e : item.of_rank.empty() ? std::vector<size_t>() : item.entries)
        rank_of[e] = narrow<uint32_t>(*last_integer(selection_.path(entries_[e])[1].name));
    return rank_of;
  }

  Place place_of(size_t e) const {
    return {.path = catalog_.path, .tensor = std::string(catalog_.key(entries_[e].ref)), .object = entries_[e].is_blob()};
  }

  [[noreturn]] void refuse_name(size_t e, std::string got, std::string expected) const {
    throw Error(with_remedy(make_problem(ProblemId::usage, place_of(e), std::move(got), std::move(expected)), Remedy::kOtherName));
  }

  // Entries get the order of the file, which is that of all ranks.
  void order_safetensors(Item& item) const {
    std::map<std::string, size_t> names;
    for (const size_t e : item.entries) {
      const Entry& entry = entries_[e];
      if (entry.is_blob() || is_opaque(source_, entry.tensor()) || facts_of(entry.dtype).safetensors.empty()) {
        throw Error(with_remedy(make_problem(ProblemId::no_dtype_in_output, place_of(e),
                                             entry.is_blob() ? "an object" : std::string(facts_of(entry.dtype).name)),
                                Remedy::kFewerKeys));
      }
      if (!names.emplace(name_in(entry), e).second)
        fail(ProblemId::keys_collide, place_of(e), "'" + name_in(entry) + "' twice in one file");
    }
    item.entries.clear();
    for (const auto& [name, e] : names) item.entries.push_back(e);
    // By dtype, and else by name, as they are now.
    std::ranges::stable_sort(item.entries,
                             [&](size_t a, size_t b) { return safetensors_before(entries_[a].dtype, "", entries_[b].dtype, ""); });
  }

  // Its path in the item, joined by dots.
  std::string name_in(const Entry& e) const { return joined(selection_.path(e).subspan(1)); }

  std::string name_of(const Item& item, uint32_t rank) const {
    return std::string(item.name) + "_" + std::to_string(rank) + (item.is_safetensors ? ".safetensors" : ".pt");
  }

  void torch_file(size_t n, uint32_t rank) {
    std::vector<int64_t> sizes;
    std::vector<uint64_t> split_factors;
    ListHoles again;  // of the other ranks
    const uint32_t node = items_[n].of_rank.empty() ? items_[n].node : items_[n].of_rank[rank];
    files_.add(name_of(items_[n], rank), {tree_, node, entries_, rank == 0 ? plan_.list_holes : again}, [&](const Entry& entry) {
      const auto e = static_cast<size_t>(&entry - entries_.data());
      ItemParts::Part part = parts_.part_of(e, rank);
      sizes = std::move(part.sizes);
      TensorInFile tensor{.shape = sizes, .regions = {part.regions.begin(), part.regions.end()}};
      const Placed& p = parts_.placed(e);
      if (options_.device_type.empty() || p.is_whole()) return tensor;
      split_factors = ItemParts::split_factors_of(p);
      tensor.dtensor.emplace(DTensorForm{.sizes = catalog_.dims(catalog_.tensors[entry.tensor()]),
                                         .mesh = p.on->mesh,
                                         .device_type = options_.device_type,
                                         .placements = p.placements,
                                         .split_factors = split_factors,
                                         .rank = rank});
      return tensor;
    });
  }

  void safetensors_file(size_t n, uint32_t rank) {
    const Item& item = items_[n];
    std::vector<SafetensorsEntry> tensors;
    std::vector<std::span<const uint32_t>> regions;
    for (const size_t e : item.entries) {
      ItemParts::Part part = parts_.part_of(e, rank);
      tensors.push_back({.name = name_in(entries_[e]), .dtype = entries_[e].dtype, .shape = std::move(part.sizes)});
      regions.push_back(part.regions);
    }
    const auto file = narrow<uint32_t>(plan_.files.size());
    plan_.literals.push_back({.file = file, .bytes = write_safetensors_header(tensors, {{"format", "pt"}})});
    uint64_t bytes = plan_.literals.back().bytes.size();
    for (size_t i = 0; i < tensors.size(); ++i) {
      for (const uint32_t r : regions[i]) plan_.regions[r].file_offset += tensors[i].offset;
      bytes = tensors[i].offset + tensors[i].bytes;
    }
    add_file(name_of(item, rank), bytes);
  }

  void add_file(std::string name, uint64_t bytes) {
    plan_.bytes_to_write += bytes;
    plan_.files.push_back({.name = std::move(name), .bytes = bytes, .archive = std::nullopt, .payloads = {}});
  }

  // Of the items that hold tensors; what others hold is known from their files.
  void metadata() {
    std::string pickle;
    ItemMetadataWriter out(pickle, ranks_);
    for (size_t n = 0; n < items_.size(); ++n) {
      std::map<std::string, size_t> paths;
      for (const size_t e : items_[n].entries)
        if (parts_.placed(e).on != nullptr && parts_.placed(e).rank == kNone && catalog_.tensors[entries_[e].tensor()].dtype_known)
          paths.emplace(path_text(e), e);
      if (paths.empty()) continue;
      out.item(items_[n].name);
      for (const auto& [path, e] : paths) {
        const Tensor& t = catalog_.tensors[entries_[e].tensor()];
        out.tensor({.path = path,
                    .dtype = entries_[e].dtype,
                    .sizes = catalog_.dims(t),
                    .mesh = parts_.placed(e).on->described,
                    .placements = ItemParts::described(parts_.placed(e))});
      }
      if (items_[n].is_safetensors) out.end_item([&](uint32_t rank) { return name_of(items_[n], rank); });
      else out.end_item(nullptr);
    }
    out.end();
    const uint64_t bytes = pickle.size();
    plan_.literals.push_back({.file = narrow<uint32_t>(plan_.files.size()), .bytes = std::move(pickle)});
    add_file(std::string(kItemMetadata), bytes);
  }

  // ["layers",0,"weight"], as json.dumps writes it
  std::string path_text(size_t e) const {
    std::string text = "[";
    for (const PathPart& p : selection_.path(entries_[e]).subspan(1)) {
      if (text.size() > 1) text += ',';
      if (p.position >= 0) text += std::to_string(p.position);
      else if (p.is_integer) text += p.name;
      else if (!append_json_text(text, p.name, JsonText::kAscii)) refuse_name(e, "a key that is not UTF-8", "UTF-8");
    }
    return text + "]";
  }

  const SourceFacts& source_;
  const Catalog& catalog_;
  const TrainingState& state_;
  const ItemFolderOptions& options_;
  const uint32_t ranks_;
  Plan& plan_;
  ItemNotes& notes_;
  const Selection selection_;
  const std::vector<Entry>& entries_;  // of it
  const Tree tree_;
  ItemParts parts_;
  TorchFileLayout files_;
  std::vector<Item> items_;  // sorted by name
};

}  // namespace

Plan plan_item_folder(const SourceFacts& source, const Selection& selection, const ItemFolderOptions& options) {
  refuse_opaque_pieces(source, selection);
  refuse_opaque_casts(source, selection);
  Plan plan;
  ItemFolder(source, selection, options, plan).run();
  cut_into_units(plan, source, options.where.units);
  return plan;
}

}  // namespace dcp
