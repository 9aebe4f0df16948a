// storage_data of a `.metadata` pickle: where each chunk's item lies. Source: torch/distributed/checkpoint/filesystem.py _StorageInfo,
// metadata.py MetadataIndex.
#include <utility>

#include "format/dcp_metadata_handler.h"

namespace dcp {

Value MetadataHandler::build_index(PickleMachine& m, const Value& state) {
  Value fqn;
  Value offset;
  Value index;
  for_fields(m, "MetadataIndex", state, [&](std::string_view name, const Value& v) {
    if (name == "fqn") fqn = v;
    else if (name == "offset") offset = v;
    else if (name == "index") index = v;
  });
  if (fqn.kind != Kind::kText) fail_field(m, "MetadataIndex.fqn", fqn, "text", std::string_view());
  MetadataContent::Storage entry{.key = m.text(fqn)};
  if (index.kind == Kind::kInt && index.payload < entry.hint) entry.hint = static_cast<uint32_t>(index.payload);
  if (offset.kind != Kind::kUnset && offset.kind != Kind::kNil) {
    const Value size = checked_size(m, "MetadataIndex.offset", offset, entry.key);
    entry.has_offset = true;
    entry.rank = size.n;
    entry.offsets_at = size.payload;
  }
  content_.storage.push_back(entry);
  return typed(kIndex, content_.storage.size() - 1);
}

uint32_t MetadataHandler::file_number(const PickleMachine& m, std::string_view path) {
  // Items of one file follow one another.
  if (!infos_.empty() && content_.files[infos_.back().file] == path) return infos_.back().file;
  const auto [found, is_new] = file_numbers_.try_emplace(path, static_cast<uint32_t>(content_.files.size()));
  if (is_new) {
    if (path.size() > limits_.name_bytes) fail_limit(m, "a file name of " + std::to_string(path.size()) + " bytes", limits_.name_bytes);
    content_.files.push_back(path);
  }
  return found->second;
}

uint32_t MetadataHandler::transforms_number(const PickleMachine& m, const Value& list) {
  if (list.kind == Kind::kUnset || list.kind == Kind::kNil) return 0;
  const std::string_view field = "_StorageInfo.transform_descriptors";
  if (list.kind != Kind::kList && list.kind != Kind::kTuple) fail_field(m, field, list, "a list");
  std::vector<std::string_view> names;
  Value v;
  for (auto it = m.items(list); it.next(v);) {
    if (v.kind != Kind::kText) fail_field(m, field, v, "text");
    if (names.size() == kMaxTransforms) fail_limit(m, "more transforms of an item", kMaxTransforms);
    check_word(m, "transform", m.text(v));
    names.push_back(m.text(v));
  }
  if (names.empty()) return 0;
  const auto [found, is_new] = transforms_numbers_.try_emplace(std::move(names), static_cast<uint32_t>(content_.transforms.size()));
  if (is_new) content_.transforms.push_back(found->first);
  return found->second;
}

Value MetadataHandler::build_info(PickleMachine& m, const Value& state) {
  Value path;
  Value offset;
  Value length;
  Value transforms;
  for_fields(m, "_StorageInfo", state, [&](std::string_view name, const Value& v) {
    if (name == "relative_path") path = v;
    else if (name == "offset") offset = v;
    else if (name == "length") length = v;
    else if (name == "transform_descriptors") transforms = v;
  });
  if (path.kind != Kind::kText) fail_field(m, "_StorageInfo.relative_path", path, "text");
  Info info{.offset = checked_number(m, "_StorageInfo.offset", offset), .length = checked_number(m, "_StorageInfo.length", length)};
  info.file = file_number(m, m.text(path));
  info.transforms = transforms_number(m, transforms);
  infos_.push_back(info);
  return typed(kStorageInfo, infos_.size() - 1);
}

// Index keys were appended to `storage` as they were built; here each gets its record. As in read_state_dict they are normally in order.
void MetadataHandler::read_storage(PickleMachine& m, const Value& dict) {
  // Another storage writer keeps other records: torch's own S3RdmaStorageWriter, say, whose objects are raw bytes.
  const auto fail_foreign = [&](const Value& got, std::string_view expected, std::string_view key) {
    fail(ProblemId::metadata_foreign_storage, place_of(m, key), describe(m, got), std::string(expected));
  };
  if (dict.kind == Kind::kNil || dict.kind == Kind::kUnset) fail_field(m, "Metadata.storage_data", dict, "a dict", std::string_view());
  if (dict.kind != Kind::kDict) fail_foreign(dict, "a dict of MetadataIndex to _StorageInfo", {});
  bool in_place = true;
  uint64_t used = 0;
  Value index;
  Value info;
  for (auto it = m.items(dict); it.next(index) && it.next(info);) {
    if (!is(index, kIndex)) fail_foreign(index, "MetadataIndex", {});
    if (!is(info, kStorageInfo)) fail_foreign(info, "_StorageInfo", content_.storage[index.payload].key);
    in_place = (index.payload == used++) && in_place;
  }
  std::vector<MetadataContent::Storage> moved;
  if (!in_place) {
    moved.reserve(used);
    for (auto it = m.items(dict); it.next(index) && it.next(info);) moved.push_back(content_.storage[index.payload]);
    content_.storage = std::move(moved);
  }
  content_.storage.resize(used);
  auto entry = content_.storage.begin();
  for (auto it = m.items(dict); it.next(index) && it.next(info); ++entry) {
    const Info& from = infos_[info.payload];
    entry->file = from.file;
    entry->offset = from.offset;
    entry->length = from.length;
    entry->transforms = from.transforms;
  }
}

}  // namespace dcp
