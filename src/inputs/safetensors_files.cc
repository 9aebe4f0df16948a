#include "inputs/safetensors_files.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/checked.h"
#include "format/lfs_pointer.h"

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
    Problem p = make_problem(ProblemId::memory_cap, place, std::to_string(limits.memory_bytes / kMiB) + " MiB left",
                             std::to_string(bytes * kEach / kMiB + 1) + " MiB for its JSON");
    p.remedy = Remedy::kMoreMemory;
    throw Error(std::move(p));
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

}  // namespace dcp
