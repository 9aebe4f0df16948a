#include "inputs/rank_files.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "catalog/build.h"
#include "catalog/data_files.h"
#include "inputs/at_once.h"
#include "inputs/rank_local.h"
#include "inputs/rank_shards.h"
#include "inputs/torch_reader.h"

namespace dcp {
namespace {

class Opening {
 public:
  Opening(Store& store, const std::string& path, const std::vector<RankFile>& files, const OpenOptions& options)
      : store_(store), path_(path), options_(options), limits_(options.limits), shards_(path, files, findings_), files_(files.size()) {}

  OpenedCatalog open(const std::vector<RankFile>& files, CheckpointKind kind) {
    read_at_once(store_, path_, files.size(), limits_, [&](size_t f, Limits& share) { files_[f] = read(files[f], share); });
    for (size_t f = 0; f < files.size(); ++f) observe(f, files[f].under);
    shards_.check();
    for (size_t f = 0; f < files.size(); ++f) contents_.push_back(content_of(f, files[f], files[f].under));
    for (size_t f = 0, end = 0; f < files.size(); f = end) {
      while (end < files.size() && files[end].under == files[f].under) ++end;
      if (!files[f].apart.empty() && differs(f, end)) keep_apart(files, f, end);
    }
    std::vector<MetadataContent> contents;
    for (TorchContent& c : contents_) {
      contents.push_back(std::move(c.content));
      values_.insert(values_.end(), c.values.begin(), c.values.end());
    }
    const MetadataContent merged = merge_rank_local(contents, path_, findings_);
    check_catalog_fits(merged, path_, limits_);
    OpenedCatalog opened = build_catalog(merged, path_, path_, kind);
    std::ranges::move(findings_, std::back_inserter(opened.findings));
    Catalog& catalog = opened.catalog;
    catalog.provenance = {};
    for (DataFile& f : catalog.files) f.raw = true;
    catalog.torch = take(catalog, merged);
    return opened;
  }

 private:
  std::unique_ptr<TorchFile> read(const RankFile& f, Limits& share) const {
    const std::optional<Handle> handle = store_.open_beneath(path_, f.name, options_.links);
    if (!handle) fail(ProblemId::file_missing, {.path = path_ + "/" + f.name});
    std::unique_ptr<TorchFile> file = read_torch_file(store_, OpenFile(store_, *handle), path_ + "/" + f.name, share);
    share.memory_bytes -= std::min(share.memory_bytes, file->memory_bytes());
    return file;
  }

  TorchContent content_of(size_t f, const RankFile& file, const std::vector<std::string>& under) {
    StateDict& state =
        *states_.emplace_back(std::make_unique<StateDict>(*files_[f]->graph, files_[f]->archive.pickle_place, options_.limits));
    state.put_under(under);
    return read_state_dict(
        *files_[f], {file.name, state}, [&](const StateDict::Leaf& leaf) { return part_of(f, leaf); }, strides_, options_.limits);
  }

  // Whether the files of [first, end) have tensors that are not the same in all, and no DTensors beside them.
  bool differs(size_t first, size_t end) const {
    bool found = false;
    for (size_t f = first; f < end; ++f) {
      if (has_shards_[f]) return false;
      found = found || !same_tensors(contents_[first], contents_[f]);
    }
    return found;
  }

  // By the CRCs in the files' directories. Where there are none, nothing shows that tensors are the same.
  bool same_tensors(const TorchContent& a, const TorchContent& b) const {
    const auto strides = [&](const ItemInfo& i, uint32_t rank) {
      return Dims(strides_.data() + i.strides_at, i.strides_at == 0 ? 0 : rank + size_t{1});
    };
    const auto dims = [](const TorchContent& c, size_t t) {
      return Dims(c.content.ints.data() + c.content.tensors[t].dims_at, c.content.tensors[t].rank);
    };
    std::vector<const ItemInfo*> of_b;
    for (const TorchValue& v : b.values)
      if (v.info.resolved) of_b.push_back(&v.info);
    if (a.content.tensors.size() != b.content.tensors.size() || of_b.size() != b.content.tensors.size()) return false;
    size_t t = 0;
    for (const TorchValue& v : a.values) {
      if (!v.info.resolved) continue;
      const ItemInfo &x = v.info, &y = *of_b[t];
      const uint32_t rank = a.content.tensors[t].rank;
      if (a.content.tensors[t].key != b.content.tensors[t].key || !std::ranges::equal(dims(a, t), dims(b, t))) return false;
      if (x.dtype != y.dtype || x.record_bytes != y.record_bytes || x.crc != y.crc || !x.has_crc || !y.has_crc) return false;
      if (!std::ranges::equal(strides(x, rank), strides(y, rank))) return false;
      ++t;
    }
    return true;
  }

  void keep_apart(const std::vector<RankFile>& files, size_t first, size_t end) {
    for (size_t f = first; f < end; ++f) {
      std::vector<std::string> under = files[f].under;
      under.push_back(files[f].apart);
      contents_[f] = content_of(f, files[f], under);
    }
    std::string part;
    for (const std::string& name : files[first].under) part += name + ".";
    findings_.push_back(make_finding(ProblemId::ranks_kept_apart, Severity::kWarning, {.path = path_ + "/" + files[first].name},
                                     part + files[first].apart + " and " + std::to_string(end - first - 1) + " more"));
  }

  // The meshes' sizes are known when all ranks have said where they are.
  void observe(size_t f, const std::vector<std::string>& under) {
    has_shards_.resize(f + 1);
    StateDict state(*files_[f]->graph, files_[f]->archive.pickle_place, options_.limits);
    state.put_under(under);
    state.flatten([&](const StateDict::Leaf& leaf) {
      has_shards_[f] = has_shards_[f] || is_one_ranks(leaf.tensor.cls);
      if (const auto shard = read_dtensor(*files_[f]->graph, leaf)) shards_.meet(f, leaf.key, *shard);
    });
  }

  std::optional<TensorPart> part_of(size_t f, const StateDict::Leaf& leaf) {
    const std::optional<LocalShard> shard = read_dtensor(*files_[f]->graph, leaf);
    if (!shard && is_one_ranks(leaf.tensor.cls))
      fail(ProblemId::torch_rank_part, {.path = files_[f]->archive.pickle_place.path},
           "a " + leaf.tensor.cls + " whose mesh or placements are not known");
    if (!shard) return {};
    return shards_.part(leaf.key, *shard);
  }

  // What each item and each copy is made of: the entries of the storage that the catalog was built from, by file, key and offsets.
  std::shared_ptr<const TorchFiles> take(const Catalog& catalog, const MetadataContent& merged) {
    auto torch = std::make_shared<TorchFiles>();
    std::multimap<std::pair<std::string_view, std::string_view>, size_t> entries;
    for (size_t n = 0; n < merged.storage.size(); ++n)
      entries.emplace(std::pair(merged.storage[n].key, merged.files[merged.storage[n].file]), n);
    const auto value_of = [&](ItemId item, uint32_t file, std::string_view key, Dims offsets) {
      const auto [first, last] = entries.equal_range({key, catalog.file_name(file)});
      const auto found = std::find_if(first, last, [&](const auto& e) {
        const MetadataContent::Storage& s = merged.storage[e.second];
        return std::ranges::equal(Dims(merged.ints.data() + s.offsets_at, s.rank), offsets);
      });
      if (found == last) fail(ProblemId::internal, catalog.place_of(item, key), "an item of no file");
      return values_[found->second];
    };
    torch->items.resize(catalog.items.size());
    std::vector<Dims> offsets(catalog.items.size());
    for (const Tensor& t : catalog.tensors)
      for (uint32_t c = 0; c < t.chunk_count; ++c) offsets[catalog.item_of(t, c)] = catalog.box(t, c).offsets;
    for (ItemId i = 0; i < catalog.items.size(); ++i)
      if (const uint32_t file = catalog.items[i].file; file != kNone)
        torch->items[i] = value_of(i, file, catalog.key_of_item(i), offsets[i]);
    for (const Duplicate& d : catalog.duplicates)
      torch->copies.push_back(value_of(d.item, d.other.file, catalog.strings[d.key], offsets[d.item]));
    torch->strides = std::move(strides_);
    for (uint32_t f = 0; f < catalog.files.size(); ++f) {
      const auto here = std::ranges::find(merged.files, catalog.file_name(f)) - merged.files.begin();
      std::unique_ptr<TorchFile>& file = files_[static_cast<size_t>(here)];
      if (torch->odd_keys.count == 0) torch->odd_keys.example = file->odd_keys.example;
      torch->odd_keys.count += file->odd_keys.count;
      torch->files.push_back(std::move(file));
    }
    return torch;
  }

  Store& store_;
  const std::string& path_;
  const OpenOptions& options_;
  Limits limits_;  // what is left
  std::vector<Problem> findings_;
  RankShards shards_;
  std::vector<bool> has_shards_;  // by file: a DTensor, or the like
  std::vector<int64_t> strides_{0};
  std::vector<TorchContent> contents_;
  std::vector<std::unique_ptr<TorchFile>> files_;
  std::vector<std::unique_ptr<StateDict>> states_;
  std::vector<TorchValue> values_;
};

}  // namespace

OpenedCatalog open_rank_files(Store& store, const std::string& path, const std::vector<RankFile>& files, CheckpointKind kind,
                              const OpenOptions& options) {
  return Opening(store, path, files, options).open(files, kind);
}

}  // namespace dcp
