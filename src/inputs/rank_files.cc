#include "inputs/rank_files.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>

#include "base/text.h"
#include "catalog/build.h"
#include "catalog/data_files.h"
#include "inputs/input.h"
#include "inputs/item_files.h"
#include "inputs/item_layouts.h"
#include "inputs/plain_shards.h"
#include "inputs/rank_local.h"
#include "inputs/rank_shards.h"
#include "inputs/refuse.h"
#include "inputs/torch_file.h"
#include "select/globs.h"
#include "select/select.h"

namespace dcp {
namespace {

// Of a plain tensor, from the arguments of the call that makes it.
std::vector<int64_t> sizes_of(const PickleMachine& m, const Value& arguments) {
  std::vector<int64_t> sizes;
  Value list = arguments.kind == Kind::kTuple && arguments.n > 2 ? m.element(arguments, 2) : Value{};
  if (list.kind == Kind::kObject) list = m.element(m.arguments_of(list), 0);  // torch.Size
  if (list.kind == Kind::kTuple || list.kind == Kind::kList)
    for (const Value& n : m.items(list)) sizes.push_back(n.integer());
  return sizes;
}

bool is_plain(const TensorCall& tensor) { return tensor.kind != TorchGlobal::Kind::kOther && !tensor.opaque && !is_one_ranks(tensor.cls); }

// model_0.pt to model_R.pt
std::string sibling(const std::string& name, uint32_t rank) {
  const size_t end = name.find_last_of("0123456789"), before = name.find_last_not_of("0123456789", end);
  return name.substr(0, before + 1) + std::to_string(rank) + name.substr(end + 1);
}

// A tensor that is not named as whole is joined, so a mistyped name must be an error.
void check_globs(const std::vector<MetadataContent>& contents, const std::vector<std::string>& replicated, const std::string& path) {
  std::vector<std::string_view> keys;
  for (const MetadataContent& c : contents)
    for (const MetadataContent::Tensor& t : c.tensors) keys.push_back(t.key);
  for (const std::string& glob : replicated) {
    if (glob == kNoneReplicated || std::ranges::any_of(keys, [&](std::string_view key) { return glob_matches(glob, key); })) continue;
    throw Error(with_hint(make_problem(ProblemId::usage, {.path = path, .setting = "replicated"}, "'" + glob + "'",
                                       "a glob that matches a tensor's whole key"),
                          KnownKeys(std::move(keys)).hint_for(glob)));
  }
}

// How many ranks there are, where nothing but tensors says it. Files are numbers.
class World {
 public:
  void meet(size_t file, uint64_t size) {
    if (size > size_) size_ = size, says_ = file;
    if (size > 0) of_file_[file] = std::max(of_file_[file], size);
  }
  void meet_flat(size_t file) { flat_ = file; }
  // Of ranks that have plain tensors alone: each has a file, so several files are those of all of them.
  void meet_files(const std::vector<RankFile>& files) {
    for (const RankFile& f : files)
      if (f.rank > 0) size_ = std::max<uint64_t>(size_, f.rank + uint64_t{1});
  }
  uint32_t size() const { return static_cast<uint32_t>(size_); }  // after check()

  // Adds files that are missing. Throws if one is of another world, or nothing says how many ranks there are.
  void check(const std::vector<RankFile>& files, const std::string& path, std::vector<RankFile>& missing) const {
    if (flat_)
      fail(ProblemId::torch_rank_part, {.path = path + "/" + files[*flat_].name},
           "a flat parameter of LOCAL_STATE_DICT: its parameters' names and shapes are in no file");
    if (size_ == 0 || size_ > kMaxRanks)
      fail(ProblemId::torch_rank_part, {.path = path}, "tensors that do not say of how many ranks they are parts");
    std::map<std::vector<std::string>, std::set<uint32_t>> ranks;
    for (size_t f = 0; f < files.size(); ++f) {
      // Of pipeline stages, each has a mesh of its own: what it says is less than the world.
      const auto own = of_file_.find(f);
      if (files[f].rank >= size_ || (own != of_file_.end() && files[f].rank >= own->second))
        fail(ProblemId::not_checkpoint, {.path = path},
             files[f].name + " beside " + files[says_].name + ", which is of " + std::to_string(size_) + " ranks", "files of one save");
      ranks[files[f].under].insert(files[f].rank);
    }
    for (const RankFile& f : files)
      for (uint32_t r = 0; r < size_; ++r)
        if (ranks[f.under].insert(r).second) missing.push_back({.name = sibling(f.name, r), .rank = r, .under = f.under});
  }

 private:
  std::map<size_t, uint64_t> of_file_;
  uint64_t size_ = 0;           // the largest
  size_t says_ = 0;             // the file
  std::optional<size_t> flat_;  // a file with a flat parameter
};

// Which object a file holds, as the bytes that torch would load.
bool is_same(const BlobItem& a, const BlobItem& b) {
  using Storage = BlobItem::Storage;
  return a.pickle == b.pickle && std::ranges::equal(a.storages, b.storages, [](const Storage& x, const Storage& y) {
           return x.bytes == y.bytes && x.has_crc && y.has_crc && x.crc == y.crc;
         });
}

// A file that is missing, with the keys of which it had a part: those that other files have in its place.
Problem lost(const RankFile& file, const MetadataContent& all, const std::string& folder) {
  Problem p = make_finding(ProblemId::file_missing, Severity::kDamage, {.path = folder + "/" + file.name});
  for (const MetadataContent::Path& path : all.paths) {
    const auto elements = std::span(all.path_elements).subspan(path.first, path.count);
    if (path.count < file.under.size()) continue;
    if (std::ranges::equal(elements.first(file.under.size()), file.under, {}, &MetadataContent::PathElement::name))
      p.keys.emplace_back(path.key);
  }
  return p;
}

bool may_have_tensors(const RankFile& file) { return file.form == FileForm::kTorch || file.form == FileForm::kSafetensors; }

struct ReadFile {
  std::unique_ptr<TorchFile> file;
  std::optional<SafetensorsFile> tensors;  // then there is nothing in `file`
};
ReadFile read_rank_file(Store& store, const std::string& folder, const RankFile& f, FollowLinks links, Limits& share) {
  const Place place{.path = folder + "/" + f.name};
  ReadFile read;
  if (may_have_tensors(f)) {
    const std::optional<Handle> handle = store.open_beneath(folder, f.name, links);
    if (!handle) fail(ProblemId::file_missing, place);
    OpenFile open(store, *handle);
    if (f.form == FileForm::kTorch) {
      read.file = read_torch_file(store, std::move(open), place.path, share);
    } else {
      read.tensors = read_safetensors_file(store, {*handle, f.name, place}, share);
      read.file = file_of_pickle("\x80\x04N.", place, store.facts(*handle).bytes, share);
    }
  } else {
    const std::vector<std::byte> bytes = read_file_beneath(store, folder, f.name, links, share.json_bytes);
    read.file = f.form == FileForm::kJson ? read_json_item(bytes, place, share) : read_raw_item(bytes, place, share);
  }
  share.memory_bytes -= std::min(share.memory_bytes, read.file->memory_bytes());
  return read;
}

// Where no file of items without tensors can be read, the item's name is the key of what is damaged. The content views `keys`.
void add_stand_ins(const std::vector<RankFile>& missing, std::vector<MetadataContent>& contents, std::deque<std::string>& keys) {
  for (const RankFile& lost : missing) {
    std::string key;
    for (const std::string& name : lost.under) key += (key.empty() ? "" : ".") + name;
    const auto is_known = [&](const MetadataContent::Path& p) { return p.key == key || p.key.starts_with(key + "."); };
    const auto is_there = [&](const MetadataContent& c) { return std::ranges::any_of(c.paths, is_known); };
    if (may_have_tensors(lost) || std::ranges::any_of(contents, is_there)) continue;
    MetadataContent& c = contents.emplace_back();
    keys.push_back(std::move(key));
    c.has_planner_data = true;
    c.blobs.push_back(keys.back());
    c.order.push_back(KeyRef::blob_at(0));
    for (const std::string& name : lost.under) c.path_elements.push_back({.name = name});
    c.paths.push_back({.key = keys.back(), .first = 0, .count = static_cast<uint32_t>(lost.under.size())});
  }
}

// What only this rank has of these keys: below each, by the rank's name. The content views `texts`.
void put_apart(MetadataContent& c, const std::set<std::string, std::less<>>& keys, const std::string& apart,
               std::deque<std::string>& texts) {
  texts.push_back(apart);
  const std::string_view own = texts.back();
  const auto renames = [&](std::string_view& key) {
    if (!keys.contains(key)) return false;
    texts.push_back(std::string(key) + "." + apart);
    key = texts.back();
    return true;
  };
  for (std::string_view& key : c.blobs) renames(key);
  for (MetadataContent::Storage& s : c.storage) renames(s.key);
  for (MetadataContent::Path& p : c.paths) {
    if (!renames(p.key)) continue;
    const uint64_t first = std::exchange(p.first, c.path_elements.size());
    for (uint64_t n = first; n < first + p.count; ++n) c.path_elements.push_back(MetadataContent::PathElement(c.path_elements[n]));
    c.path_elements.push_back({.name = own});
    ++p.count;
  }
}

bool is_of_json(const Problem& p, const RankFile& file, const std::string& folder) {
  return file.form == FileForm::kJson && p.place.path == folder + "/" + file.name && p.id != ProblemId::file_missing;
}

// Parts of tensors of which nothing but their keys is known: damage of these alone, unless there is nothing else.
class UnreadableParts {
 public:
  explicit UnreadableParts(std::vector<Problem>& findings) : findings_(findings) {}

  TensorPart part(const StateDict::Leaf& leaf, const std::string& file) {
    const auto [known, fresh] = of_key_.try_emplace(std::string(leaf.key));
    if (!fresh) return {};
    known->second = make_finding(ProblemId::torch_rank_part, Severity::kDamage, {.path = file, .tensor = known->first},
                                 "a " + leaf.tensor.cls + " whose mesh or placements are not known");
    findings_.push_back(known->second);
    return {};
  }

  void note(OpenedCatalog& opened) const {
    Catalog& catalog = opened.catalog;
    for (const auto& [key, why] : of_key_) {
      if (catalog.order.empty()) throw Error(make_problem(why.id, why.place, why.got));
      if (!catalog.has_key(key)) catalog.lacking.push_back(catalog.strings.intern(key));
    }
  }

 private:
  std::vector<Problem>& findings_;
  std::map<std::string, Problem> of_key_;
};

class Opening {
 public:
  Opening(Store& store, const std::string& path, const std::vector<RankFile>& files, const OpenOptions& options)
      : store_(store), path_(path), options_(options), limits_(options.limits), shards_(path, files, findings_), files_(files.size()) {}

  // False where a file of JSON has none: nothing else depends on it. `broken` then has what is wrong, by the file's name.
  bool read_all(const std::vector<RankFile>& files, std::map<std::string, Problem>& broken) {
    tensors_.resize(files.size());
    std::mutex mutex;  // broken
    read_at_once(store_, path_, files.size(), limits_, [&](size_t f, Limits& share) {
      try {
        ReadFile read = read_rank_file(store_, path_, files[f], options_.links, share);
        files_[f] = std::move(read.file);
        tensors_[f] = std::move(read.tensors);
      } catch (const Error& e) {
        if (!is_of_json(e.problem(), files[f], path_)) throw;
        const std::lock_guard lock(mutex);
        broken.emplace(files[f].name, e.problem()).first->second.severity = Severity::kDamage;
      }
    });
    return std::ranges::none_of(files, [&](const RankFile& f) { return broken.contains(f.name); });
  }

  // After read_all(). `missing`: files that cannot be read.
  OpenedCatalog open(const std::vector<RankFile>& files, const FilesOfKind& as, std::vector<RankFile> missing) {
    layouts_ = as.layouts;
    keys_.resize(files.size());
    has_shards_.resize(files.size());
    for (size_t f = 0; f < files.size(); ++f) observe(f, files[f]);
    if (as.names_say_world && std::ranges::find(has_shards_, true) == has_shards_.end())
      for (const auto* named : {&files, &std::as_const(missing)}) world_.meet_files(*named);
    if (as.must_say_world) world_.check(files, path_, missing);
    if (as.left_out) left_out_ = as.left_out(files, keys_);
    constexpr size_t kMostMissing = 16;  // each is a finding that names its keys
    if (std::ranges::count_if(missing, may_have_tensors) > std::ptrdiff_t{kMostMissing})
      fail(ProblemId::file_missing, {.path = path_ + "/" + missing.front().name});
    for (const RankFile& f : missing) shards_.lose(f.under);
    shards_.check();
    for (size_t f = 0; f < files.size(); ++f) contents_.push_back(content_of(f, files[f], files[f].under));
    if (layouts_ != nullptr) settle(files);
    for (size_t f = 0, end = 0; f < files.size(); f = end) {
      while (end < files.size() && files[end].under == files[f].under) ++end;
      if (end - f < 2) continue;
      look_for_parts(files, f, end);
      if (as.kind == CheckpointKind::kTorchCheckpointing && !options_.prefer_rank) keep_objects_apart(files, f, end);
    }
    add_stand_ins(missing, contents_, texts_);
    check_globs(contents_, options_.replicated, path_);
    std::ranges::move(facts_.findings, std::back_inserter(findings_));
    const MetadataContent merged = merge_rank_local(contents_, path_, findings_);
    check_catalog_fits(merged, path_, limits_);
    EntryValues values;
    OpenedCatalog opened = build_catalog(merged, path_, path_, as.kind, &values);
    unreadable_.note(opened);
    for (const RankFile& f : missing) findings_.push_back(lost(f, merged, path_));
    std::ranges::move(findings_, std::back_inserter(opened.findings));
    Catalog& catalog = opened.catalog;
    catalog.provenance = {};
    if (as.must_say_world) catalog.provenance.ranks = world_.size();
    for (DataFile& f : catalog.files) f.raw = true;
    catalog.torch = take(files, catalog, values);
    return opened;
  }

 private:
  MetadataContent content_of(size_t f, const RankFile& file, const std::vector<std::string>& under) {
    if (tensors_[f]) return content_of_tensors(*tensors_[f], file, layouts_, facts_, keys_[f]);
    file_ = &file;
    StateDict& state =
        *states_.emplace_back(std::make_unique<StateDict>(*files_[f]->graph, files_[f]->archive.pickle_place, options_.limits));
    state.put_under(under);
    return read_state_dict(
        *files_[f], {file.name, state, [&](std::string_view key) { return left_out_.contains({f, std::string(key)}); }},
        [&](const StateDict::Leaf& leaf) { return part_of(f, leaf); }, facts_, options_.limits);
  }

  // For the files [first, end), which hold the same part of the state dict.
  void look_for_parts(const std::vector<RankFile>& files, size_t first, size_t end) {
    PlainShards shards(store_, path_, files, options_);
    const PlainTensors tensors = plain_tensors(files, first, end);
    const auto at = [&](size_t f) { return has_shards_.begin() + static_cast<std::ptrdiff_t>(f); };
    const bool has_shards = std::find(at(first), at(end), true) != at(end);
    if (options_.shards_on_dim) joined_ = shards.join(tensors, end - first, findings_);
    else if (has_shards) return;
    else if (files[first].apart.empty() || (layouts_ != nullptr && layouts_->lists(files[first])))
      joined_ = shards.refuse_shards(tensors, end - first, findings_);
    else if (!shards.are_same(tensors, end - first)) return keep_apart(files, first, end, ProblemId::ranks_kept_apart, Severity::kWarning);
    else if (!objects_that_differ(files, first, end).empty())
      return keep_apart(files, first, end, ProblemId::ranks_own_objects, Severity::kNote);
    if (joined_.empty()) return;
    for (size_t f = first; f < end; ++f) contents_[f] = content_of(f, files[f], files[f].under);
    joined_.clear();
  }

  // What the files say, against the layouts: a tensor about which they differ keeps no box.
  void settle(const std::vector<RankFile>& files) {
    for (size_t f = 0; f < files.size(); ++f) {
      const Place place{.path = path_ + "/" + files[f].name};
      layouts_->check_met(files[f], keys_[f], place);
      for (const MetadataContent::Tensor& t : contents_[f].tensors)
        if (t.dtype_known) layouts_->check_dtype(files[f], t.key, t.dtype, place);
    }
    layouts_->check_all_met();
    if (auto note = layouts_->unlisted()) findings_.push_back(std::move(*note));
    const auto& disputed = layouts_->disputed();
    for (const auto& [key, why] : disputed) findings_.push_back(why);
    for (MetadataContent& c : contents_) {
      for (MetadataContent::Tensor& t : c.tensors)
        if (disputed.contains(t.key)) t.chunk_count = 0;
      std::erase_if(c.storage, [&](const MetadataContent::Storage& s) { return disputed.contains(s.key); });
    }
  }

  PlainTensors plain_tensors(const std::vector<RankFile>& files, size_t first, size_t end) const {
    std::vector<size_t> by_rank(end - first);
    std::iota(by_rank.begin(), by_rank.end(), first);
    std::ranges::sort(by_rank, {}, [&](size_t f) { return files[f].rank; });
    PlainTensors all;
    for (const size_t f : by_rank) {
      const MetadataContent& c = contents_[f];
      std::map<std::string_view, Dims> dims;
      for (const MetadataContent::Tensor& t : c.tensors) dims.emplace(t.key, Dims(c.ints.data() + t.dims_at, t.rank));
      for (const MetadataContent::Storage& s : c.storage) {
        const ItemInfo& info = facts_.values.at(s.value).info;
        if (!info.resolved || shards_.has(s.key) || (layouts_ != nullptr && layouts_->has(files[f], s.key))) continue;
        const Dims its = dims.at(s.key);
        const Dims strides(facts_.strides.data() + info.strides_at, info.strides_at == 0 ? 0 : its.size() + 1);
        all[s.key].push_back({.file = f, .dims = its, .strides = strides, .info = &info, .is_packed = s.transforms != 0});
      }
    }
    return all;
  }

  std::set<std::string, std::less<>> objects_that_differ(const std::vector<RankFile>& files, size_t first, size_t end) const {
    std::set<std::string, std::less<>> keys;
    std::map<std::string_view, BlobItem> known;
    for (size_t f = first; f < end; ++f) {
      for (const MetadataContent::Storage& s : contents_[f].storage) {
        const TorchValue& value = facts_.values.at(s.value);
        if (value.info.resolved && !value.info.opaque) continue;
        BlobItem object = blob_of(*files_[f], value.value, {.path = path_ + "/" + files[f].name, .tensor = std::string(s.key)}, limits_);
        const auto [other, fresh] = known.try_emplace(s.key, std::move(object));
        if (!fresh && !is_same(other->second, object)) keys.emplace(s.key);
      }
    }
    return keys;
  }

  // Of an item that has tensors: a job loads what its rank has saved.
  void keep_objects_apart(const std::vector<RankFile>& files, size_t first, size_t end) {
    const std::set<std::string, std::less<>> keys = objects_that_differ(files, first, end);
    if (keys.empty()) return;
    for (size_t f = first; f < end; ++f) put_apart(contents_[f], keys, "rank_" + std::to_string(files[f].rank), texts_);
    findings_.push_back(make_finding(ProblemId::ranks_own_objects, Severity::kNote, {.path = path_ + "/" + files[first].name},
                                     list_of({keys.begin(), keys.end()}, 3)));
  }

  void keep_apart(const std::vector<RankFile>& files, size_t first, size_t end, ProblemId why, Severity severity) {
    for (size_t f = first; f < end; ++f) {
      std::vector<std::string> under = files[f].under;
      under.push_back(files[f].apart);
      contents_[f] = content_of(f, files[f], under);
    }
    std::string part;
    for (const std::string& name : files[first].under) part += name + ".";
    findings_.push_back(make_finding(why, severity, {.path = path_ + "/" + files[first].name},
                                     part + files[first].apart + " and " + std::to_string(end - first - 1) + " more"));
  }

  // Meshes' sizes are known once the coordinates of all ranks are.
  void observe(size_t f, const RankFile& file) {
    if (tensors_[f]) return;  // its layouts say all
    const PickleGraph& graph = *files_[f]->graph;
    StateDict state(graph, files_[f]->archive.pickle_place, options_.limits);
    state.put_under(file.under);
    state.flatten([&](const StateDict::Leaf& leaf) {
      keys_[f].emplace_back(leaf.key);
      if (layouts_ != nullptr && layouts_->has(file, leaf.key)) return;
      has_shards_[f] = has_shards_[f] || is_one_ranks(leaf.tensor.cls);
      if (const auto shard = read_dtensor(graph, leaf)) world_.meet(f, shards_.meet(f, leaf.key, *shard, graph));
      else if (const auto offset = read_sharded_tensor(graph, leaf)) world_.meet(f, shards_.meet(f, leaf.key, *offset));
      else if (is_plain(leaf.tensor)) shards_.meet_plain(f, leaf.key);
      if (leaf.key.ends_with("_flat_param")) world_.meet_flat(f);
    });
  }

  std::optional<TensorPart> part_of(size_t f, const StateDict::Leaf& leaf) {
    const std::optional<LocalShard> shard = read_dtensor(*files_[f]->graph, leaf);
    if (auto known = part_of_layout(f, leaf, shard)) return known;
    if (const auto offset = read_sharded_tensor(*files_[f]->graph, leaf)) return shards_.part(leaf.key, *offset);
    if (const auto* sizes = is_plain(leaf.tensor) ? shards_.sizes_of(leaf.key) : nullptr) return TensorPart{leaf.value, {}, *sizes, {}};
    if (!shard && is_one_ranks(leaf.tensor.cls)) return unreadable_.part(leaf, files_[f]->archive.pickle_place.path);
    if (shard) return shards_.part(f, leaf.key, *shard);
    const auto joined = joined_.find(leaf.key);
    if (joined == joined_.end() || leaf.tensor.kind == TorchGlobal::Kind::kOther) return {};
    return joined->second.part(f, leaf.value);
  }

  // A class of its own may hold more than its plain tensor: it is read whole, as long as each rank has the whole.
  std::optional<TensorPart> part_of_layout(size_t f, const StateDict::Leaf& leaf, const std::optional<LocalShard>& shard) {
    if (layouts_ == nullptr || !layouts_->has(*file_, leaf.key)) return {};
    if (!shard && (is_one_ranks(leaf.tensor.cls) || leaf.tensor.kind == TorchGlobal::Kind::kOther || leaf.tensor.opaque)) {
      if (!is_one_ranks(leaf.tensor.cls) && layouts_->is_replicated(*file_, leaf.key)) return {};
      fail(ProblemId::torch_rank_part, {.path = files_[f]->archive.pickle_place.path}, "a part of a " + leaf.tensor.cls);
    }
    ItemLayouts::Held held{.dtensor = shard ? &*shard : nullptr};
    if (shard) held.mesh = shards_.mesh_of(f, *shard, *files_[f]->graph);
    if (shard) held.sizes = shard->local_sizes;
    else held.sizes = sizes_of(files_[f]->graph->machine(), leaf.tensor.arguments);
    auto part = layouts_->part(*file_, leaf.key, held, files_[f]->archive.pickle_place);
    part->local = shard ? shard->local : leaf.value;
    return part;
  }

  std::shared_ptr<const TorchFiles> take(const std::vector<RankFile>& files, const Catalog& catalog, const EntryValues& values) {
    auto torch = std::make_shared<TorchFiles>();
    take_facts(std::move(facts_), values, *torch);
    for (uint32_t f = 0; f < catalog.files.size(); ++f) {
      const auto here = std::ranges::find(files, catalog.file_name(f), &RankFile::name) - files.begin();
      std::unique_ptr<TorchFile>& file = files_.at(static_cast<size_t>(here));
      if (torch->odd_keys.count == 0) torch->odd_keys.example = file->odd_keys.example;
      torch->odd_keys.count += file->odd_keys.count;
      torch->files.push_back(std::move(file));
    }
    return torch;
  }

  Store& store_;
  const std::string& path_;
  const OpenOptions& options_;
  Limits limits_;  // remaining
  std::vector<Problem> findings_;
  RankShards shards_;
  UnreadableParts unreadable_{findings_};
  ItemLayouts* layouts_ = nullptr;
  const RankFile* file_ = nullptr;  // that is read
  World world_;
  std::vector<std::optional<SafetensorsFile>> tensors_;  // by file
  std::vector<bool> has_shards_;                         // by file: a DTensor, or the like
  JoinedTensors joined_;                                 // of the files that are being read
  TorchFacts facts_;
  std::vector<MetadataContent> contents_;
  std::deque<std::string> texts_;               // that contents view
  std::vector<std::vector<std::string>> keys_;  // by file
  std::set<std::pair<uint32_t, std::string>> left_out_;
  std::vector<std::unique_ptr<TorchFile>> files_;
  std::vector<std::unique_ptr<StateDict>> states_;
};

}  // namespace

OpenedCatalog open_rank_files(Store& store, const std::string& path, const std::vector<RankFile>& files, const FilesOfKind& as,
                              const OpenOptions& options) {
  std::map<std::string, Problem> broken;
  return open_rest(path, files.size(), [&](const std::set<std::string>& without) {
    for (;;) {
      std::vector<RankFile> rest, missing = as.missing;
      for (const RankFile& f : files) (without.contains(f.name) || broken.contains(f.name) ? missing : rest).push_back(f);
      Opening opening(store, path, rest, options);
      if (!opening.read_all(rest, broken)) continue;
      OpenedCatalog opened = opening.open(rest, as, std::move(missing));
      for (const auto& [name, why] : broken) opened.findings.push_back(why);
      return opened;
    }
  });
}

}  // namespace dcp
