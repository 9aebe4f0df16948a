#include "inputs/safetensors_files.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "base/checked.h"
#include "base/text.h"
#include "catalog/cover.h"
#include "catalog/data_files.h"

namespace dcp {
namespace {

const SavedShard* shard_of(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  if (!file.sharding) return nullptr;
  const auto found = file.sharding->find(entry.name);
  return found == file.sharding->end() ? nullptr : &found->second;
}

}  // namespace

void take_json_memory(uint64_t bytes, const Place& place, Limits& limits) {
  constexpr uint64_t kEach = 8;
  if (bytes > limits.memory_bytes / kEach) {
    throw Error(with_remedy(make_problem(ProblemId::memory_cap, place, std::to_string(limits.memory_bytes / kMiB) + " MiB left",
                                         std::to_string(bytes * kEach / kMiB + 1) + " MiB for its JSON"),
                            Remedy::kMoreMemory));
  }
  limits.memory_bytes -= bytes * kEach;
}

SafetensorsFile read_safetensors_file(Store& store, OpenSafetensors open, Limits& limits) {
  const uint64_t bytes = store.facts(open.file).bytes - open.begin;
  // One read gets the length and, for most shards, the whole header.
  std::vector<std::byte> head(std::min<uint64_t>(bytes, 16 * kKiB));
  read_exact(store, open.file, open.begin, head);
  if (is_lfs_pointer(head)) fail(ProblemId::lfs_pointer, std::move(open.place));
  const uint64_t header_bytes = safetensors_header_bytes(head, bytes, open.place, limits);
  take_json_memory(header_bytes, open.place, limits);
  if (header_bytes > head.size()) {
    const uint64_t have = head.size();
    head.resize(header_bytes);
    read_exact(store, open.file, open.begin + have, MutableBytes(head).subspan(have));
  }
  SafetensorsFile out{.name = std::move(open.name), .place = std::move(open.place), .header = {}, .sharding = std::nullopt};
  out.header = read_safetensors_header(head, bytes, out.place, limits);
  out.sharding = read_sharding_info(out.header, out.place, limits);
  return out;
}

std::vector<int64_t> saved_offsets(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  const SavedShard* shard = shard_of(file, entry);
  if (shard == nullptr) return std::vector<int64_t>(entry.shape.size(), 0);
  if (shard->offsets.size() != entry.shape.size()) {
    Place place = file.place;
    place.tensor = entry.name;
    fail(ProblemId::sharding_info_bad, place, std::to_string(shard->offsets.size()) + " saved_offsets", std::to_string(entry.shape.size()));
  }
  return shard->offsets;
}

const MetadataContent& ShardMerger::merge() {
  std::unordered_map<std::string_view, size_t> numbers_of;
  std::vector<std::pair<std::string_view, std::vector<Part>>> tensors;
  for (uint32_t f = 0; f < files_.size(); ++f) {
    out_.files.push_back(files_[f].name);
    for (const SafetensorsEntry& e : files_[f].header.entries) {
      const SavedShard* shard = shard_of(files_[f], e);
      const std::string_view key = shard != nullptr && !shard->fqn.empty() ? shard->fqn : e.name;
      const auto [it, fresh] = numbers_of.try_emplace(key, tensors.size());
      if (fresh) tensors.push_back({key, {}});
      tensors[it->second].second.push_back({f, &e, shard});
    }
  }
  out_.transforms.emplace_back();
  for (const auto& [key, parts] : tensors) {
    if (const auto odd = std::ranges::find_if(parts, [](const Part& p) { return p.entry->fault != nullptr; }); odd != parts.end()) {
      add_unknown(key, *odd);
      continue;
    }
    check(key, parts);
    add(key, parts);
  }
  return out_;
}

// A tensor whose entry in a header is faulty: it exists, and no more is known.
void ShardMerger::add_unknown(std::string_view key, const Part& part) {
  Problem p = *part.entry->fault;
  p.place.tensor = key;
  faults_.push_back(std::move(p));
  const auto rank = static_cast<uint32_t>(part.entry->shape.size());
  const std::vector<int64_t> zeros(rank, 0);
  const uint64_t offsets = numbers(zeros), sizes = numbers(part.entry->shape);
  out_.order.push_back(KeyRef::tensor_at(out_.tensors.size()));
  out_.tensors.push_back({.key = key,
                          .dtype_name = "unknown",
                          .dtype_known = false,
                          .rank = rank,
                          .dims_at = sizes,
                          .first_chunk = out_.chunks.size(),
                          .chunk_count = 1});
  out_.chunks.push_back({.offsets_at = offsets, .sizes_at = sizes});
  out_.storage.push_back({.key = key,
                          .has_offset = true,
                          .rank = static_cast<uint16_t>(rank),
                          .file = part.file,
                          .offsets_at = offsets,
                          .offset = part.entry->offset});
}

void ShardMerger::check(std::string_view key, const std::vector<Part>& parts) const {
  std::set<std::pair<std::vector<int64_t>, std::vector<int64_t>>> boxes;
  for (const Part& p : parts) {
    Place place = files_[p.file].place;
    place.tensor = key;
    if (parts.size() > 1 && p.shard == nullptr)
      fail(ProblemId::safetensors_twice, place, {}, "one of " + files_[parts[0].file].name + " and " + files_[parts[1].file].name);
    if (p.entry->dtype != parts[0].entry->dtype || p.entry->shape.size() != parts[0].entry->shape.size())
      fail(ProblemId::shards_disagree, place,
           std::string(facts_of(p.entry->dtype).name) + " of " + std::to_string(p.entry->shape.size()) + " dims",
           std::string(facts_of(parts[0].entry->dtype).name) + " of " + std::to_string(parts[0].entry->shape.size()) + " dims as in " +
               files_[parts[0].file].name);
    // Several ranks may hold the same empty shard.
    if (volume(p.entry->shape) > 0 && !boxes.emplace(saved_offsets(files_[p.file], *p.entry), p.entry->shape).second)
      fail(ProblemId::shard_twice, place, "a second one");
  }
}

uint64_t ShardMerger::numbers(Dims values) {
  out_.ints.insert(out_.ints.end(), values.begin(), values.end());
  return out_.ints.size() - values.size();
}

void ShardMerger::add(std::string_view key, const std::vector<Part>& parts) {
  const auto rank = static_cast<uint32_t>(parts[0].entry->shape.size());
  std::vector<int64_t> size(rank, 0);
  const DTypeFacts& dtype = facts_of(parts[0].entry->dtype);
  out_.order.push_back(KeyRef::tensor_at(out_.tensors.size()));
  MetadataContent::Tensor tensor{.key = key, .dtype = parts[0].entry->dtype, .dtype_name = dtype.name, .rank = rank};
  tensor.first_chunk = out_.chunks.size();
  std::set<std::vector<int64_t>> empty_ones;
  for (const Part& p : parts) {
    const std::vector<int64_t> offsets = saved_offsets(files_[p.file], *p.entry);
    if (volume(p.entry->shape) == 0 && !empty_ones.insert(offsets).second) continue;
    for (uint32_t d = 0; d < rank; ++d) {
      const std::optional<int64_t> end = checked_add(offsets[d], p.entry->shape[d]);
      if (!end)
        fail(ProblemId::number_overflow, files_[p.file].place, std::to_string(offsets[d]) + " + " + std::to_string(p.entry->shape[d]));
      size[d] = std::max(size[d], *end);
    }
    const uint64_t at = numbers(offsets);
    out_.chunks.push_back({.offsets_at = at, .sizes_at = numbers(p.entry->shape)});
    // An empty shard needs no item, and its offsets may be those of a shard with elements.
    if (parts.size() > 1 && volume(p.entry->shape) == 0) continue;
    out_.storage.push_back({.key = key,
                            .has_offset = true,
                            .rank = static_cast<uint16_t>(rank),
                            .file = p.file,
                            .offsets_at = at,
                            .offset = p.entry->offset,
                            .length = p.entry->bytes});
  }
  tensor.chunk_count = out_.chunks.size() - tensor.first_chunk;
  tensor.dims_at = numbers(size);
  out_.tensors.push_back(tensor);
}

namespace {

// [shard-RRRRR-]PREFIX-NNNNN-of-MMMMM.safetensors, as transformers and torch's _hf_utils.py number files.
struct Numbered {
  std::string prefix;
  uint32_t rank = 0;  // from 1; 0: none
  uint32_t number = 0, of = 0;
};
std::optional<Numbered> numbered(std::string_view name) {
  name.remove_suffix(kSafetensorsEnding.size());
  Numbered n;
  const size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || of == 0) return std::nullopt;
  const size_t dash = name.rfind('-', of - 1);
  if (dash == std::string_view::npos) return std::nullopt;
  const auto number = decimal<uint32_t>(name.substr(dash + 1, of - dash - 1)), count = decimal<uint32_t>(name.substr(of + 4));
  if (!number || !count) return std::nullopt;
  n.number = *number;
  n.of = *count;
  name = name.substr(0, dash);
  constexpr std::string_view kShard = "shard-";
  const size_t after = name.find('-', kShard.size());
  if (name.starts_with(kShard) && after != std::string_view::npos) {
    if (const auto rank = decimal<uint32_t>(name.substr(kShard.size(), after - kShard.size()))) {
      n.rank = *rank;
      name.remove_prefix(after + 1);
    }
  }
  n.prefix = name;
  return n;
}

std::string padded(uint32_t number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - std::min<size_t>(digits.size(), 5), '0') + digits;
}

}  // namespace

void find_gaps(const std::vector<std::string>& names, const std::string& path, std::vector<Problem>& findings) {
  struct Group {
    std::set<uint32_t> numbers;
    bool by_ranks = false;
  };
  std::map<std::pair<std::string, uint32_t>, Group> groups;
  std::set<uint32_t> ranks;
  std::set<std::tuple<std::string, uint32_t, uint32_t>> shards;  // prefix, number, rank
  for (const std::string& name : names) {
    const std::optional<Numbered> n = numbered(name);
    if (!n) continue;
    Group& group = groups[{n->prefix, n->of}];
    group.numbers.insert(n->number);
    if (n->rank == 0) continue;
    group.by_ranks = true;
    ranks.insert(n->rank);
    shards.insert({n->prefix, n->number, n->rank});
  }
  bool has_gap = false;
  const auto gap = [&](std::string got) {
    has_gap = true;
    findings.push_back(make_finding(ProblemId::shard_gap, Severity::kWarning, {.path = path}, std::move(got)));
  };
  for (const auto& [name, group] : groups) {
    const auto& [prefix, of] = name;
    uint32_t next = 1;
    while (group.numbers.contains(next)) ++next;
    if (next > of) continue;
    std::string got = "no " + prefix + "-" + padded(next) + "-of-" + padded(of);
    if (group.by_ranks) gap(std::move(got));
    else findings.push_back(make_finding(ProblemId::shard_file_missing, Severity::kDamage, {.path = path}, std::move(got)));
  }
  if (ranks.empty()) return;
  uint32_t next = 1;
  while (ranks.contains(next)) ++next;
  const std::string last = padded(*ranks.rbegin());
  if (next < *ranks.rbegin()) return gap("no shard-" + padded(next) + " beside shard-" + last);
  for (const auto& [name, group] : groups) {
    const auto& [prefix, of] = name;
    for (const uint32_t number : group.numbers) {
      if (!shards.contains({prefix, number, 1}) && !shards.contains({prefix, number, *ranks.rbegin()}))
        continue;  // else all ranks have it, or the numbers end here
      for (const uint32_t rank : ranks)
        if (!shards.contains({prefix, number, rank}) && shards.contains({prefix, number, rank == 1 ? *ranks.rbegin() : 1}))
          return gap("no shard-" + padded(rank) + "-" + prefix + "-" + padded(number) + "-of-" + padded(of) +
                     " beside other ranks' shards of it");
    }
  }
  if (!has_gap)
    findings.push_back(make_finding(ProblemId::shard_count_unknown, Severity::kNote, {.path = path}, "shard-00001 to shard-" + last));
}

namespace {

// A data file whose tensors are one safetensors file.
struct SafetensorsPart {
  uint32_t file = 0;
  uint64_t begin = 0;  // after the byte items
  std::span<const ItemId> items;
};

// Sets its items by name. `owner` has the tensor of each item.
void set_items(OpenedCatalog& opened, const SafetensorsPart& part, const SafetensorsFile& shard, std::span<const TensorId> owner) {
  Catalog& catalog = opened.catalog;
  std::unordered_map<std::string_view, const SafetensorsEntry*> by_name;
  for (const SafetensorsEntry& e : shard.header.entries) by_name.emplace(e.name, &e);
  FindingList findings(opened.findings);
  for (const ItemId i : part.items) {
    catalog.items[i].file = kNone;
    const Tensor& t = catalog.tensors[owner[i]];
    const BoxView box = catalog.box(t, i - t.first_chunk);
    const auto found = by_name.find(catalog.key(t));
    Place place = shard.place;
    place.tensor = catalog.key(t);
    if (found == by_name.end() || !std::ranges::equal(saved_offsets(shard, *found->second), box.offsets) ||
        !std::ranges::equal(found->second->shape, box.sizes)) {
      if (volume(box.sizes) > 0)
        findings.add(make_finding(ProblemId::shard_lost, Severity::kDamage, place, {}, "chunk " + slice_text(box.offsets, box.sizes)));
      continue;
    }
    if (found->second->fault) throw Error(*found->second->fault);
    if (t.dtype_known && found->second->dtype != t.dtype)
      fail(ProblemId::shards_disagree, place, std::string(facts_of(found->second->dtype).name), std::string(facts_of(t.dtype).name));
    catalog.items[i] = {.offset = part.begin + found->second->offset, .length = found->second->bytes, .file = part.file};
  }
  findings.end();
  catalog.files[part.file].raw = true;
}

}  // namespace

void use_safetensors_items(Store& store, OpenedCatalog& opened, const OpenOptions& options) {
  Catalog& catalog = opened.catalog;
  std::vector<TensorId> owner(catalog.chunk_total);
  std::map<uint32_t, uint64_t> suspects;  // files, and where their safetensors part begins: torch writes that offset for every tensor in it
  std::set<uint32_t> transformed;         // those in which the part follows an empty stream for each tensor
  for (TensorId t = 0; t < catalog.tensors.size(); ++t) {
    const Tensor& tensor = catalog.tensors[t];
    for (uint32_t c = 0; c < tensor.chunk_count; ++c) {
      const ItemId item = catalog.item_of(tensor, c);
      owner[item] = t;
      const Item& i = catalog.items[item];
      // An archive is always longer than its payload.
      if (i.file == kNone || !tensor.dtype_known || i.length != volume(catalog.box(tensor, c).sizes) * bytes_of(tensor.dtype)) continue;
      uint64_t& begin = suspects[i.file];
      begin = std::max(begin, i.offset);
      if (i.transforms != 0) transformed.insert(i.file);
    }
  }
  std::unordered_map<uint32_t, std::vector<ItemId>> items;
  for (ItemId i = 0; !suspects.empty() && i < catalog.chunk_total; ++i)
    if (suspects.contains(catalog.items[i].file)) items[catalog.items[i].file].push_back(i);
  Limits left = options.limits;
  for (const auto& [file, last] : suspects) {
    const std::optional<Handle> handle = store.open_beneath(catalog.folder, catalog.file_name(file), options.links);
    if (!handle) continue;  // look_at_files reports it
    const OpenFile open(store, *handle);
    const uint64_t bytes = store.facts(*handle).bytes - std::min(last, store.facts(*handle).bytes);
    constexpr uint64_t kEmptyStreamBytes = 64;  // zstd's has 9; streams may be in streams
    std::vector<std::byte> head(std::min<uint64_t>(bytes, kEmptyStreamBytes + kSafetensorsBeginBytes));
    read_exact(store, *handle, last, head);
    uint64_t skipped = 0;
    const auto is_here = [&] { return begins_like_safetensors(Bytes(head).subspan(skipped), bytes - skipped); };
    while (!is_here() && transformed.contains(file) && skipped < std::min<uint64_t>(kEmptyStreamBytes, bytes)) ++skipped;
    if (!is_here()) continue;
    const uint64_t begin = last + skipped;
    const Place place{.path = catalog.file_path(file)};
    set_items(opened, {file, begin, items[file]},
              read_safetensors_file(store, {*handle, std::string(catalog.file_name(file)), place, begin}, left), owner);
    opened.findings.push_back(make_finding(ProblemId::safetensors_items, Severity::kWarning, place));
    catalog.provenance.loads_in = "none";
    catalog.provenance.why = {"data files hold safetensors (serialization_format=SAFETENSORS): dcp.load reads no tensor of them"};
  }
}

}  // namespace dcp
