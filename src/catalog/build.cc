#include "catalog/build.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "format/dcp_metadata.h"

namespace dcp {
namespace {

// The chunk of `tensor` at these offsets; of several, one with elements if possible. The entry's hint is right in what torch writes, and is
// checked first. If it is wrong, the tensor's chunks, which are sorted, are searched.
ItemId chunk_at(const Catalog& catalog, TensorId tensor, Dims offsets, uint32_t hint) {
  const Tensor& t = catalog.tensors[tensor];
  const auto is_at = [&](uint32_t c) { return std::ranges::equal(catalog.box(t, c).offsets, offsets); };
  if (hint < t.chunk_count && is_at(hint) && volume(catalog.box(t, hint).sizes) > 0) return catalog.item_of(t, hint);
  uint32_t first = 0;
  for (uint32_t last = t.chunk_count; first < last;) {
    const uint32_t middle = first + (last - first) / 2;
    if (std::ranges::lexicographical_compare(catalog.box(t, middle).offsets, offsets)) first = middle + 1;
    else last = middle;
  }
  return first < t.chunk_count && is_at(first) ? catalog.item_of(t, first) : kNone;
}

// The dicts and lists that paths make, by the rule that plan/tree has for an output. Only dicts and lists get numbers, since there are far
// fewer of them than keys, and a key is looked up among them only if its own dict contains any.
class Nesting {
 public:
  explicit Nesting(const Catalog& catalog) : c_(catalog) {}

  // A key whose place is also a dict or list, or on whose path something is both; the first one found.
  std::optional<StringId> conflict(const std::vector<PathRange>& of_key) {
    std::vector<uint32_t> dir_of(of_key.size());
    for (StringId key = 0; key < of_key.size(); ++key) {
      const auto dir = dir_above(path_of(of_key, key));
      if (!dir) return key;
      dir_of[key] = *dir;
    }
    for (StringId key = 0; key < of_key.size(); ++key)
      if (dirs_[dir_of[key]].holds_dirs && numbers_.contains({dir_of[key], code(path_of(of_key, key).back())})) return key;
    return std::nullopt;
  }

 private:
  struct Dir {
    bool is_list = false;
    bool holds_dirs = false;
  };

  std::span<const PathElement> path_of(const std::vector<PathRange>& of_key, StringId key) {
    const PathRange p = of_key[key];
    if (p.count > 0) return std::span(c_.path_elements).subspan(p.first, p.count);
    itself_ = PathElement::name(key);
    return {&itself_, 1};
  }
  static uint64_t code(PathElement e) { return e.is_position() ? ~e.list_position() : e.name_id(); }

  // nullopt: something on the path is both a dict and a list. Consecutive paths mostly begin alike, so only the rest is looked up.
  std::optional<uint32_t> dir_above(std::span<const PathElement> path) {
    size_t i = 0;
    while (i < trail_.size() && i + 1 < path.size() && path[i] == trail_[i].first) ++i;
    trail_.resize(i, {path[0], 0});
    for (;; ++i) {
      const uint32_t at = i == 0 ? 0 : trail_.back().second;
      if (dirs_[at].is_list != path[i].is_position()) return std::nullopt;
      if (i + 1 == path.size()) return at;
      const auto [it, fresh] = numbers_.try_emplace({at, code(path[i])}, static_cast<uint32_t>(dirs_.size()));
      trail_.emplace_back(path[i], it->second);
      if (!fresh) continue;
      dirs_[at].holds_dirs = true;
      dirs_.push_back({.is_list = path[i + 1].is_position()});
    }
  }

  const Catalog& c_;
  PathElement itself_ = PathElement::name(0);
  std::vector<Dir> dirs_ = std::vector<Dir>(1);                // the first is the root
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> numbers_;  // by dir and code; not hashed, since an attacker can choose positions
  std::vector<std::pair<PathElement, uint32_t>> trail_;        // the elements of the last path that are dirs
};

class Builder {
 public:
  Builder(const MetadataContent& content, OpenedCatalog& out, EntryValues* values)
      : in_(content), out_(out.catalog), findings_(out.findings), values_(values) {}

  void run() {
    tensors();
    for (std::string_view key : in_.blobs) out_.blobs.push_back({.key = unique_key(key)});
    dtype_names();
    out_.order = in_.order;
    paths();
    mcore_shapes();
    files();
    join();
    findings_.end();
  }

 private:
  Place at(std::string_view tensor, bool object = false) const {
    return {.path = out_.path, .tensor = std::string(tensor), .object = object};
  }
  void finding(ProblemId id, Severity severity, Place place, std::string got = {}, std::string expected = {}) {
    findings_.add(make_finding(id, severity, std::move(place), std::move(got), std::move(expected)));
  }

  // Makes a place only on failure, since it is called 10^6 times.
  uint64_t product(uint64_t a, uint64_t b, std::string_view key) const {
    const auto fits = checked_mul(a, b);
    return fits ? *fits : mul_or_fail(a, b, at(key));
  }

  StringId unique_key(std::string_view key) {
    const size_t before = out_.strings.size();
    const StringId id = out_.strings.intern(key);
    // Keys are the first strings interned, so one that already exists is a duplicate key.
    if (out_.strings.size() == before) fail(ProblemId::metadata_key_twice, at(key));
    return id;
  }

  // All lists name keys in the same order: mostly the next key is the one after the last, and nothing is hashed.
  std::optional<StringId> find(std::string_view key) {
    if (next_ < out_.strings.size() && out_.strings[next_] == key) return next_++;
    const std::optional<StringId> id = out_.strings.find(key);
    if (id) next_ = *id + 1;
    return id;
  }

  void tensors() {
    out_.numbers.reserve(in_.ints.size() / 4);
    for (const MetadataContent::Tensor& t : in_.tensors) {
      if (in_.chunks.size() >= kNone - in_.blobs.size()) fail(ProblemId::over_limit, at(t.key), "more than 4294967294 chunks");
      Tensor o{.key = unique_key(t.key),
               .dtype = t.dtype,
               .dtype_known = t.dtype_known && t.strided,
               .strided = t.strided,
               .requires_grad = t.requires_grad};
      o.rank = narrow<uint8_t>(t.rank);
      o.dims_at = out_.numbers.size();
      uint64_t bytes = t.dtype_known ? bytes_of(t.dtype) : 1;
      for (uint32_t d = 0; d < t.rank; ++d) {
        const int64_t size = in_.ints[t.dims_at + d];
        out_.numbers.push_back(size);
        // Overflow matters only if no dim is zero, but a product of the other dims that does not fit is nonsense in any case.
        if (size > 0) bytes = product(bytes, static_cast<uint64_t>(size), t.key);
      }
      if (bytes > static_cast<uint64_t>(INT64_MAX)) fail(ProblemId::number_overflow, at(t.key), std::to_string(bytes) + " bytes");
      o.first_chunk = narrow<uint32_t>(t.first_chunk);
      o.chunk_count = narrow<uint32_t>(t.chunk_count);
      chunks(t, o);
      out_.tensors.push_back(o);
    }
    out_.chunk_total = narrow<uint32_t>(in_.chunks.size());
  }

  // Must run after all keys are interned: see unique_key and join.
  void dtype_names() {
    for (size_t i = 0; i < in_.tensors.size(); ++i) {
      const MetadataContent::Tensor& t = in_.tensors[i];
      out_.tensors[i].dtype_name =
          out_.strings.intern(t.strided ? std::string(t.dtype_name) : std::string(t.dtype_name) + " (not strided)");
    }
  }

  // Copies the boxes sorted by offsets; at equal offsets, those with elements come first. Most writers have sorted them already.
  void chunks(const MetadataContent::Tensor& t, Tensor& o) {
    const auto first = in_.chunks.begin() + static_cast<int64_t>(t.first_chunk);
    const auto offsets = [&](uint32_t c) { return Dims(in_.ints.data() + first[c].offsets_at, t.rank); };
    const auto is_empty = [&](uint32_t c) { return volume({in_.ints.data() + first[c].sizes_at, t.rank}) == 0; };
    const auto before = [&](uint32_t a, uint32_t b) {
      const auto order = std::lexicographical_compare_three_way(offsets(a).begin(), offsets(a).end(), offsets(b).begin(), offsets(b).end());
      return order < 0 || (order == 0 && !is_empty(a) && is_empty(b));
    };
    order_.resize(t.chunk_count);
    std::iota(order_.begin(), order_.end(), 0u);
    if (!std::ranges::is_sorted(order_, before)) std::ranges::stable_sort(order_, before);
    o.boxes_at = out_.numbers.size();
    for (uint32_t c : order_) {
      const int64_t* sizes = in_.ints.data() + first[c].sizes_at;
      check_numbers(t, offsets(c), {sizes, t.rank});
      out_.numbers.insert(out_.numbers.end(), offsets(c).begin(), offsets(c).end());
      out_.numbers.insert(out_.numbers.end(), sizes, sizes + t.rank);
    }
  }

  // A box may lie outside its tensor (check_cover finds that), but its ends and its volume must not overflow, since all later code adds and
  // multiplies them.
  void check_numbers(const MetadataContent::Tensor& t, Dims offsets, Dims sizes) const {
    uint64_t elements = 1;
    for (uint32_t d = 0; d < t.rank; ++d) {
      if (!checked_add(offsets[d], sizes[d]))
        fail(ProblemId::number_overflow, at(t.key),
             "dim " + std::to_string(d) + ": " + std::to_string(offsets[d]) + " + " + std::to_string(sizes[d]));
      if (sizes[d] > 0) elements = product(elements, static_cast<uint64_t>(sizes[d]), t.key);
    }
    product(elements, t.dtype_known ? bytes_of(t.dtype) : 1, t.key);
  }

  void paths() {
    out_.has_planner_data = in_.has_planner_data;
    if (!in_.has_planner_data) return;
    std::vector<PathRange> of_key(in_.tensors.size() + in_.blobs.size());
    for (const MetadataContent::Path& p : in_.paths) {
      const std::optional<StringId> key = find(p.key);
      if (!key || *key >= of_key.size()) continue;  // a path for a key that was not saved
      of_key[*key] = {narrow<uint32_t>(out_.path_elements.size()), p.count};
      for (uint64_t i = p.first; i < p.first + p.count; ++i) {
        const MetadataContent::PathElement& e = in_.path_elements[i];
        out_.path_elements.push_back(e.position >= 0 ? PathElement::position(static_cast<uint64_t>(e.position))
                                     : e.is_integer  ? PathElement::integer_name(out_.strings.intern(e.name))
                                                     : PathElement::name(out_.strings.intern(e.name)));
      }
    }
    for (Tensor& t : out_.tensors) t.path = of_key[t.key];
    for (Blob& b : out_.blobs) b.path = of_key[b.key];
    // Only one finding: if one key does not fit, many others may not. Paths from torch.save files come from real dicts and lists.
    if (const auto key = out_.traits().in_torch_files ? std::nullopt : Nesting(out_).conflict(of_key))
      finding(ProblemId::path_conflict, Severity::kWarning, at(out_.strings[*key], *key >= out_.tensors.size()));
  }

  void mcore_shapes() {
    for (const MetadataContent::McoreShape& s : in_.mcore_shapes) {
      const std::optional<StringId> key = find(s.key);
      if (!key || *key >= out_.tensors.size()) continue;  // a shape for a key that was not saved
      out_.mcore_shapes.push_back({.tensor = *key, .rank = narrow<uint8_t>(s.rank), .dims_at = out_.numbers.size()});
      const int64_t* dims = in_.ints.data() + s.dims_at;
      out_.numbers.insert(out_.numbers.end(), dims, dims + s.rank);
    }
    std::ranges::stable_sort(out_.mcore_shapes, {}, &McoreShape::tensor);
  }

  void files() {
    std::vector<uint32_t> by_name(in_.files.size());
    std::iota(by_name.begin(), by_name.end(), 0u);
    std::ranges::sort(by_name, {}, [&](uint32_t f) { return in_.files[f]; });
    file_of_.resize(in_.files.size());
    for (uint32_t f : by_name) {
      file_of_[f] = static_cast<uint32_t>(out_.files.size());
      out_.files.push_back({.name = out_.strings.intern(in_.files[f])});
    }
    for (const auto& list : in_.transforms) out_.transforms.emplace_back(list.begin(), list.end());
    if (out_.transforms.empty()) out_.transforms.emplace_back();
  }

  void join() {
    out_.items.assign(size_t{out_.chunk_total} + out_.blobs.size(), Item{});
    if (values_ != nullptr) values_->items.assign(out_.items.size(), kNone);
    // Keys were interned first and in this order, so an id below the count of tensors is that tensor; the blobs follow.
    const auto tensor_count = static_cast<StringId>(out_.tensors.size());
    const auto key_count = static_cast<StringId>(tensor_count + out_.blobs.size());
    std::string_view named;
    std::optional<StringId> key = find(named);
    for (const MetadataContent::Storage& s : in_.storage) {
      // Writers name the chunks of a tensor one after another, and a pickle holds its key once.
      if (s.key.data() != named.data() || s.key.size() != named.size()) key = find(named = s.key);
      ItemId item = kNone;
      if (key && *key < tensor_count && s.has_offset && s.rank == out_.tensors[*key].rank)
        item = chunk_at(out_, *key, Dims(in_.ints.data() + s.offsets_at, s.rank), s.hint);
      else if (key && *key >= tensor_count && *key < key_count && !s.has_offset) item = out_.item_of(BlobId{*key - tensor_count});
      const uint32_t file = file_of_[s.file];
      if (item == kNone) {
        finding(
            ProblemId::item_without_chunk, Severity::kWarning,
            {.path = out_.file_path(file), .tensor = std::string(s.key), .object = !s.has_offset, .offset = s.offset, .length = s.length});
        continue;
      }
      if (!checked_add(s.offset, s.length))
        fail(ProblemId::number_overflow, at(s.key, !s.has_offset), std::to_string(s.offset) + " + " + std::to_string(s.length));
      const Item found{s.offset, s.length, file, s.transforms};
      if (out_.items[item].file == kNone) {
        out_.items[item] = found;
        if (values_ != nullptr) values_->items[item] = s.value;
      } else if (out_.traits().of_ranks) {
        out_.duplicates.push_back({.item = item, .key = *key, .other = found});
        if (values_ != nullptr) values_->duplicates.push_back(s.value);
      } else {
        out_.named_twice.push_back(item);  // a Python dict keeps the last, but no writer makes two, so neither can be trusted
      }
    }
    std::ranges::sort(out_.named_twice);
    out_.named_twice.erase(std::unique(out_.named_twice.begin(), out_.named_twice.end()), out_.named_twice.end());  // not ranges: clang 14
  }

  const MetadataContent& in_;
  Catalog& out_;
  FindingList findings_;
  EntryValues* values_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> file_of_;
  StringId next_ = 0;
};

}  // namespace

void check_catalog_fits(const MetadataContent& content, const std::string& path, const Limits& limits) {
  uint64_t bytes = content.tensors.size() * sizeof(Tensor) + content.blobs.size() * (sizeof(Blob) + sizeof(Item));
  for (const MetadataContent::Tensor& t : content.tensors) bytes += t.chunk_count * (t.rank * 2 * sizeof(int64_t) + sizeof(Item) + 16);
  if (bytes > limits.memory_bytes)
    fail(ProblemId::memory_cap, {.path = path},
         "the catalog needs " + human_bytes(bytes) + ", " + human_bytes(limits.memory_bytes) + " are left");
}

OpenedCatalog build_catalog(const MetadataContent& content, const std::string& path, const std::string& folder, CheckpointKind kind,
                            EntryValues* values) {
  OpenedCatalog opened{.catalog = {}, .findings = {}, .unloadable = content.unloadable};
  Catalog& catalog = opened.catalog;
  catalog.kind = kind;
  catalog.path = path;
  catalog.folder = folder;
  Builder(content, opened, values).run();
  catalog.provenance = provenance_of(content, catalog);
  if (!content.planner_note.empty()) {
    opened.findings.push_back(
        make_finding(ProblemId::planner_data_foreign, Severity::kWarning, {.path = path}, content.planner_note, "a dict of keys to paths"));
  }
  return opened;
}

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
