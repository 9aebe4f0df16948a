#include "inputs/rank_local.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "catalog/build.h"
#include "catalog/catalog.h"
#include "catalog/data_files.h"
#include "format/dcp_metadata.h"
#include "inputs/dcp.h"
#include "inputs/refuse.h"

namespace dcp {
namespace {

class Merger {
 public:
  Merger(const std::string& path, std::vector<Problem>& findings) : path_(path), findings_(findings) {
    for (const Problem& p : findings) {
      if (p.severity != Severity::kDamage) continue;
      damaged_.insert(p.place.tensor);
      damaged_.insert(p.keys.begin(), p.keys.end());
    }
  }

  void add(const MetadataContent& rank) {
    base_ = out_.ints.size();
    ignored_.clear();
    out_.ints.insert(out_.ints.end(), rank.ints.begin(), rank.ints.end());
    for (const KeyRef ref : rank.order) {
      if (ref.is_blob()) blob(rank.blobs[ref.blob()]);
      else tensor(rank, rank.tensors[ref.tensor()]);
    }
    storage(rank);
    paths(rank);
    facts(rank);
  }

  MetadataContent take() {
    compare_paths();
    for (size_t t = 0; t < out_.tensors.size(); ++t) {
      out_.tensors[t].first_chunk = out_.chunks.size();
      out_.tensors[t].chunk_count = chunks_[t].size();
      out_.chunks.insert(out_.chunks.end(), chunks_[t].begin(), chunks_[t].end());
    }
    return std::move(out_);
  }

 private:
  void disagree(std::string_view key, std::string what, bool is_object = false) {
    ignored_.insert(key);
    if (reported_.insert(key).second && !damaged_.contains(std::string(key)))
      findings_.push_back(make_finding(ProblemId::ranks_disagree, Severity::kDamage,
                                       {.path = path_, .tensor = std::string(key), .object = is_object}, std::move(what)));
  }

  void blob(std::string_view key) {
    const auto [it, fresh] = refs_.try_emplace(key, KeyRef::blob_at(out_.blobs.size()));
    if (!it->second.is_blob()) return disagree(key, "a tensor on one rank, an object on another");
    if (!fresh) return;
    out_.blobs.push_back(key);
    out_.order.push_back(it->second);
  }

  Dims numbers(uint64_t at, uint32_t rank) const { return {out_.ints.data() + at, rank}; }

  void tensor(const MetadataContent& rank, const MetadataContent::Tensor& t) {
    const auto [it, fresh] = refs_.try_emplace(t.key, KeyRef::tensor_at(out_.tensors.size()));
    if (it->second.is_blob()) return disagree(t.key, "a tensor on one rank, an object on another");
    const uint32_t index = it->second.tensor();
    if (fresh) {
      out_.tensors.push_back(t);
      out_.tensors.back().dims_at += base_;
      out_.order.push_back(it->second);
      chunks_.emplace_back();
    }
    const MetadataContent::Tensor& merged = out_.tensors[index];
    if (merged.dtype_name != t.dtype_name) return disagree(t.key, std::string(merged.dtype_name) + " and " + std::string(t.dtype_name));
    if (!std::ranges::equal(numbers(merged.dims_at, merged.rank), numbers(t.dims_at + base_, t.rank))) return disagree(t.key, "two shapes");
    for (uint64_t c = t.first_chunk; c < t.first_chunk + t.chunk_count; ++c) {
      const MetadataContent::Chunk chunk{rank.chunks[c].offsets_at + base_, rank.chunks[c].sizes_at + base_};
      if (!is_known(index, chunk, t.rank)) chunks_[index].push_back(chunk);
    }
  }

  // Whether this chunk of tensor `index` has occurred before; remembers it.
  bool is_known(size_t index, const MetadataContent::Chunk& chunk, uint32_t rank) {
    const auto same = [&](const MetadataContent::Chunk& c) {
      return std::ranges::equal(numbers(c.offsets_at, rank), numbers(chunk.offsets_at, rank)) &&
             std::ranges::equal(numbers(c.sizes_at, rank), numbers(chunk.sizes_at, rank));
    };
    uint64_t hash = (index + 1) * 0x9E3779B97F4A7C15u;
    for (const uint64_t at : {chunk.offsets_at, chunk.sizes_at})
      for (const int64_t n : numbers(at, rank)) hash = (hash ^ static_cast<uint64_t>(n)) * 0xFF51AFD7ED558CCDu, hash ^= hash >> 32;
    const auto [first, last] = known_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (it->second.first == index && same(chunks_[index][it->second.second])) return true;
    known_.emplace(hash, std::pair(index, chunks_[index].size()));
    return false;
  }

  void storage(const MetadataContent& rank) {
    const auto file_base = static_cast<uint32_t>(out_.files.size());
    const auto transform_base = static_cast<uint32_t>(out_.transforms.size());
    out_.files.insert(out_.files.end(), rank.files.begin(), rank.files.end());
    out_.transforms.insert(out_.transforms.end(), rank.transforms.begin(), rank.transforms.end());
    for (MetadataContent::Storage s : rank.storage) {
      if (ignored_.contains(s.key)) continue;
      s.offsets_at += base_;
      s.file += file_base;
      if (s.transforms != 0) s.transforms += transform_base;
      out_.storage.push_back(s);
    }
  }

  void paths(const MetadataContent& rank) {
    out_.has_planner_data = out_.has_planner_data || rank.has_planner_data;
    if (out_.planner_note.empty()) out_.planner_note = rank.planner_note;
    const uint64_t element_base = out_.path_elements.size();
    out_.path_elements.insert(out_.path_elements.end(), rank.path_elements.begin(), rank.path_elements.end());
    for (MetadataContent::Path p : rank.paths) {
      p.first += element_base;
      if (pathed_.try_emplace(p.key, true).second) out_.paths.push_back(p);
    }
  }

  // A dict that another rank has a value or a list for.
  void compare_paths() {
    using Element = MetadataContent::PathElement;
    const auto elements = [&](const MetadataContent::Path& p) { return std::span(out_.path_elements).subspan(p.first, p.count); };
    const auto rank_of = [](const Element& e) { return std::tuple(e.position < 0, e.name, e.position, e.is_integer); };
    std::vector<MetadataContent::Path> paths = out_.paths;
    const auto is_less = [&](const MetadataContent::Path& a, const MetadataContent::Path& b) {
      return std::ranges::lexicographical_compare(elements(a), elements(b), {}, rank_of, rank_of);
    };
    std::ranges::sort(paths, is_less);
    const auto is_below = [&](const MetadataContent::Path& p, std::span<const Element> container) {
      return p.count > container.size() && std::ranges::equal(elements(p).first(container.size()), container, {}, rank_of, rank_of);
    };
    const auto is_object = [&](const MetadataContent::Path& p) {
      const auto known = refs_.find(p.key);
      return known != refs_.end() && known->second.is_blob();
    };
    for (size_t p = 0; p + 1 < paths.size(); ++p) {
      const auto here = elements(paths[p]), next = elements(paths[p + 1]);
      if (is_below(paths[p + 1], here)) {
        disagree(paths[p].key, "a value on one rank, a dict on another", is_object(paths[p]));
        continue;
      }
      const auto depth = static_cast<size_t>(std::ranges::mismatch(here, next, {}, rank_of, rank_of).in1 - here.begin());
      if (depth >= here.size() || depth >= next.size() || here[depth].position < 0 || next[depth].position >= 0) continue;
      // Positions precede names: what is below the list ends here.
      size_t first = p;
      while (first > 0 && is_below(paths[first - 1], here.first(depth)) && elements(paths[first - 1])[depth].position >= 0) --first;
      const size_t known = findings_.size();
      disagree(paths[first].key, "a list on one rank, a dict on another", is_object(paths[first]));
      for (size_t k = first; findings_.size() > known && k <= p; ++k) findings_.back().keys.emplace_back(paths[k].key);
    }
  }

  void facts(const MetadataContent& r) {
    out_.properties_fields = std::max(out_.properties_fields, r.properties_fields);
    out_.old_module_names |= r.old_module_names;
    out_.old_properties_module |= r.old_properties_module;
    out_.has_storage_meta |= r.has_storage_meta;
    out_.has_storage_meta_modules |= r.has_storage_meta_modules;
    out_.has_version |= r.has_version;
    out_.python313_path |= r.python313_path;
    out_.unframed |= r.unframed;
    out_.unloadable.insert(out_.unloadable.end(), r.unloadable.begin(), r.unloadable.end());
    if (out_.version.empty()) out_.version = r.version;
    for (MetadataContent::McoreShape s : r.mcore_shapes) {
      s.dims_at += base_;
      out_.mcore_shapes.push_back(s);
    }
    for (const ExtraAttribute& a : r.attributes) add_attribute(a);
    for (const std::string& s : r.extra_attributes)
      if (seen_attributes_.insert(s).second) out_.extra_attributes.push_back(s);
    for (const std::string& s : r.unknown_globals)
      if (seen_globals_.insert(s).second) out_.unknown_globals.push_back(s);
  }

  // Adds what a rank adds to a dict that several ranks have.
  void add_attribute(const ExtraAttribute& a) {
    const auto [known, fresh] = attributes_.try_emplace(a.name, Attribute{out_.attributes.size(), {}});
    if (fresh) out_.attributes.push_back(a);
    ExtraAttribute& merged = out_.attributes[known->second.index];
    for (const auto& entry : a.entries)
      if (merged.is_dict && known->second.keys.insert(entry.first).second && !fresh) merged.entries.push_back(entry);
  }

  const std::string& path_;
  std::vector<Problem>& findings_;
  std::unordered_set<std::string> damaged_;                  // keys already reported
  std::unordered_set<std::string_view> ignored_, reported_;  // keys described differently: by the current rank, by any rank
  MetadataContent out_;
  uint64_t base_ = 0;  // of the current rank's ints
  std::unordered_map<std::string_view, KeyRef> refs_;
  std::unordered_map<std::string_view, bool> pathed_;
  struct Attribute {
    size_t index = 0;  // in out_.attributes
    std::unordered_set<std::string> keys;
  };
  std::unordered_map<std::string, Attribute> attributes_;
  std::unordered_set<std::string> seen_attributes_, seen_globals_;
  std::vector<std::vector<MetadataContent::Chunk>> chunks_;
  std::unordered_multimap<uint64_t, std::pair<size_t, size_t>> known_;  // hash to a chunk: tensor, position in chunks_
};

}  // namespace

MetadataContent merge_rank_local(std::span<const MetadataContent> ranks, const std::string& path, std::vector<Problem>& findings) {
  Merger merger(path, findings);
  for (const MetadataContent& rank : ranks) merger.add(rank);
  return merger.take();
}

// A folder of rank-local metadata (rank_local.h): `__R.metadata` of every rank beside the files that they name.

namespace {

// The R in `__R.metadata`.
std::optional<uint32_t> rank_of(std::string_view name) {
  if (!name.starts_with("__") || !name.ends_with(kMetadata)) return std::nullopt;
  return decimal<uint32_t>(name.substr(2, name.size() - 2 - kMetadata.size()));
}

std::string name_of(uint32_t rank) { return "__" + std::to_string(rank) + std::string(kMetadata); }

OpenedCatalog open_ranks(Found& found, const std::set<std::string>& without) {
  Store& store = found.store();
  const std::string& path = found.path();
  const OpenOptions& options = found.options();
  std::vector<uint32_t> ranks;
  for (const DirEntry& e : found.entries())
    if (const auto rank = rank_of(e.name); rank && !without.contains(e.name)) ranks.push_back(*rank);
  std::ranges::sort(ranks);
  Problem gap = make_finding(ProblemId::rank_missing, Severity::kWarning, {.path = path});
  for (uint32_t r = 0; r < ranks.size() && gap.got.empty(); ++r)
    if (ranks[r] != r) gap.got = "no __" + std::to_string(r) + ".metadata beside __" + std::to_string(ranks.back()) + ".metadata";
  if (options.prefer_rank) {
    const auto preferred = std::ranges::find(ranks, *options.prefer_rank);
    if (preferred == ranks.end())
      fail(ProblemId::usage, {.path = path, .setting = "prefer_rank"}, std::to_string(*options.prefer_rank), "a rank that is there");
    std::rotate(ranks.begin(), preferred, preferred + 1);
  }
  uint64_t all_bytes = 0;
  for (uint32_t r : ranks)
    if (const auto facts = store.facts(path + "/" + name_of(r))) all_bytes += facts->bytes;
  check_fits(all_bytes, path, options.limits);
  std::vector<std::deque<std::string>> texts;
  std::vector<MetadataContent> contents;
  std::vector<Problem> findings;
  for (uint32_t r : ranks) {
    const std::string name = name_of(r), file = path + "/" + name;
    const std::optional<Handle> handle = store.open_beneath(path, name, options.links);
    if (!handle) fail(ProblemId::file_missing, {.path = file});
    HeldMetadata rank = read_metadata(store, OpenFile(store, *handle), file, options.limits);
    contents.push_back(std::move(rank.content));
    texts.push_back(std::move(rank.text));
    if (rank.trailing) findings.push_back(std::move(*rank.trailing));
  }
  const MetadataContent merged = merge_rank_local(contents, path, findings);
  check_catalog_fits(merged, path, options.limits);
  OpenedCatalog opened = build_catalog(merged, path, path, CheckpointKind::kDcpRankLocal);
  std::ranges::move(findings, std::back_inserter(opened.findings));
  if (!gap.got.empty()) opened.findings.push_back(std::move(gap));
  return opened;
}

OpenedCatalog open_rank_local(Found& found) {
  const auto count = std::ranges::count_if(found.entries(), [](const DirEntry& e) { return rank_of(e.name).has_value(); });
  return open_rest(found.path(), static_cast<size_t>(count),
                   [&](const std::set<std::string>& without) { return open_ranks(found, without); });
}

}  // namespace

const Input rank_local_input{
    .is_at = [](Found& found) { return found.has_entry([](const DirEntry& e) { return rank_of(e.name).has_value(); }); },
    .open = open_rank_local,
    .describes = [](std::string_view name) { return rank_of(name).has_value(); },
    .read_description = read_whole_metadata};

}  // namespace dcp
