#include "inputs/rank_files.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "catalog/build.h"
#include "catalog/data_files.h"
#include "inputs/input.h"
#include "inputs/open_rest.h"
#include "inputs/plain_shards.h"
#include "inputs/rank_local.h"
#include "inputs/rank_shards.h"
#include "inputs/torch_file.h"
#include "select/globs.h"
#include "select/select.h"

namespace dcp {
namespace {

class Opening {
 public:
  Opening(Store& store, const std::string& path, const std::vector<RankFile>& files, const OpenOptions& options)
      : store_(store), path_(path), options_(options), limits_(options.limits), shards_(path, files, findings_), files_(files.size()) {}

  OpenedCatalog open(const std::vector<RankFile>& files, const FilesOfKind& as) {
    read_at_once(store_, path_, files.size(), limits_, [&](size_t f, Limits& share) { files_[f] = read(files[f], share); });
    for (size_t f = 0; f < files.size(); ++f) observe(f, files[f].under);
    if (as.left_out) left_out_ = as.left_out(keys_);
    shards_.check();
    for (size_t f = 0; f < files.size(); ++f) contents_.push_back(content_of(f, files[f], files[f].under));
    for (size_t f = 0, end = 0; f < files.size(); f = end) {
      while (end < files.size() && files[end].under == files[f].under) ++end;
      if (end - f > 1) look_for_parts(files, f, end);
    }
    check_globs();
    std::ranges::move(facts_.findings, std::back_inserter(findings_));
    const MetadataContent merged = merge_rank_local(contents_, path_, findings_);
    check_catalog_fits(merged, path_, limits_);
    EntryValues values;
    OpenedCatalog opened = build_catalog(merged, path_, path_, as.kind, &values);
    std::ranges::move(findings_, std::back_inserter(opened.findings));
    Catalog& catalog = opened.catalog;
    catalog.provenance = {};
    for (DataFile& f : catalog.files) f.raw = true;
    catalog.torch = take(files, catalog, values);
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

  MetadataContent content_of(size_t f, const RankFile& file, const std::vector<std::string>& under) {
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
    else if (files[first].apart.empty()) joined_ = shards.refuse_shards(tensors, end - first, findings_);
    else if (!shards.are_same(tensors, end - first)) return keep_apart(files, first, end);
    if (joined_.empty()) return;
    for (size_t f = first; f < end; ++f) contents_[f] = content_of(f, files[f], files[f].under);
    joined_.clear();
  }

  // A tensor that is not named as whole is joined, so a mistyped name must be an error.
  void check_globs() const {
    for (const std::string& glob : options_.replicated) {
      const auto has = [&](const MetadataContent& c) {
        return std::ranges::any_of(c.tensors, [&](const MetadataContent::Tensor& t) { return glob_matches(glob, t.key); });
      };
      if (glob != kNoneReplicated && std::ranges::none_of(contents_, has))
        fail(ProblemId::usage, {.path = path_, .setting = "replicated"}, "'" + glob + "'", "a glob that matches a tensor's whole key");
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
        if (!info.resolved || shards_.has(s.key)) continue;
        const Dims its = dims.at(s.key);
        const Dims strides(facts_.strides.data() + info.strides_at, info.strides_at == 0 ? 0 : its.size() + 1);
        all[s.key].push_back({.file = f, .dims = its, .strides = strides, .info = &info, .is_packed = s.transforms != 0});
      }
    }
    return all;
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

  // Meshes' sizes are known once the coordinates of all ranks are.
  void observe(size_t f, const std::vector<std::string>& under) {
    has_shards_.resize(f + 1);
    keys_.resize(f + 1);
    StateDict state(*files_[f]->graph, files_[f]->archive.pickle_place, options_.limits);
    state.put_under(under);
    state.flatten([&](const StateDict::Leaf& leaf) {
      keys_[f].emplace_back(leaf.key);
      has_shards_[f] = has_shards_[f] || is_one_ranks(leaf.tensor.cls);
      if (const auto shard = read_dtensor(*files_[f]->graph, leaf)) shards_.meet(f, leaf.key, *shard);
    });
  }

  std::optional<TensorPart> part_of(size_t f, const StateDict::Leaf& leaf) {
    const std::optional<LocalShard> shard = read_dtensor(*files_[f]->graph, leaf);
    if (!shard && is_one_ranks(leaf.tensor.cls))
      fail(ProblemId::torch_rank_part, {.path = files_[f]->archive.pickle_place.path},
           "a " + leaf.tensor.cls + " whose mesh or placements are not known");
    if (shard) return shards_.part(leaf.key, *shard);
    const auto joined = joined_.find(leaf.key);
    if (joined == joined_.end() || leaf.tensor.kind == TorchGlobal::Kind::kOther) return {};
    return joined->second.part(f, leaf.value);
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
  std::vector<bool> has_shards_;  // by file: a DTensor, or the like
  JoinedTensors joined_;          // of the files that are being read
  TorchFacts facts_;
  std::vector<MetadataContent> contents_;
  std::vector<std::vector<std::string>> keys_;  // by file
  std::set<std::pair<uint32_t, std::string>> left_out_;
  std::vector<std::unique_ptr<TorchFile>> files_;
  std::vector<std::unique_ptr<StateDict>> states_;
};

}  // namespace

OpenedCatalog open_rank_files(Store& store, const std::string& path, const std::vector<RankFile>& files, const FilesOfKind& as,
                              const OpenOptions& options) {
  return open_rest(path, files.size(), options, [&](const std::set<std::string>& without) {
    std::vector<RankFile> rest = files;
    std::erase_if(rest, [&](const RankFile& f) { return without.contains(f.name); });
    return Opening(store, path, rest, options).open(rest, as);
  });
}

}  // namespace dcp
