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
  MetadataContent::Storage& entry = storage_at(indexes_);
  entry.key = m.text(fqn);
  if (index.kind == Kind::kInt && index.payload < entry.hint) entry.hint = static_cast<uint32_t>(index.payload);
  if (offset.kind != Kind::kUnset && offset.kind != Kind::kNil) {
    // A MetadataIndex is a dict key, and a list in it would make it unhashable.
    if (offset.kind == Kind::kList) cannot_load(m, "MetadataIndex.offset: a list", "torch.Size", ProblemId::pickle_unloadable, entry.key);
    const Value size = checked_size(m, "MetadataIndex.offset", offset, entry.key);
    entry.has_offset = true;
    entry.rank = static_cast<uint16_t>(size.n);
    entry.offsets_at = size.payload;
  }
  return typed(kIndex, indexes_++);
}

uint32_t MetadataHandler::file_number(const PickleMachine& m, std::string_view path) {
  // Items of one file usually follow one another.
  if (infos_ > 0 && content_.files[content_.storage[infos_ - 1].file] == path) return content_.storage[infos_ - 1].file;
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
  MetadataContent::Storage& entry = storage_at(infos_);
  entry.offset = checked_number(m, "_StorageInfo.offset", offset);
  entry.length = checked_number(m, "_StorageInfo.length", length);
  entry.file = file_number(m, m.text(path));
  entry.transforms = transforms_number(m, transforms);
  return typed(kStorageInfo, infos_++);
}

// `storage` holds index keys and records in the order in which they were built. Normally each key is next to its own record, and nothing
// has to move.
void MetadataHandler::read_storage(PickleMachine& m, const Value& dict) {
  // Another storage writer has other records, such as torch's own S3RdmaStorageWriter, whose objects are raw bytes.
  const auto fail_foreign = [&](const Value& got, std::string_view expected, std::string_view key) {
    fail(ProblemId::metadata_foreign_storage, place_of(m, key), describe(m, got), std::string(expected));
  };
  if (dict.kind == Kind::kNil || dict.kind == Kind::kUnset) fail_field(m, "Metadata.storage_data", dict, "a dict", std::string_view());
  if (dict.kind != Kind::kDict) fail_foreign(dict, "a dict of MetadataIndex to _StorageInfo", {});
  bool in_place = true;
  Value index;
  Value info;
  for (auto it = m.items(dict); it.next(index) && it.next(info);) {
    if (!is(index, kIndex)) fail_foreign(index, "MetadataIndex", {});
    if (!is(info, kStorageInfo)) fail_foreign(info, "_StorageInfo", content_.storage[index.payload].key);
    in_place = in_place && index.payload == used_ && info.payload == used_;
    ++used_;
  }
  if (!in_place) {
    paired_.reserve(used_);
    for (auto it = m.items(dict); it.next(index) && it.next(info);) {
      const MetadataContent::Storage& record = content_.storage[info.payload];
      MetadataContent::Storage& entry = paired_.emplace_back(content_.storage[index.payload]);
      entry.file = record.file;
      entry.offset = record.offset;
      entry.length = record.length;
      entry.transforms = record.transforms;
    }
  }
}

}  // namespace dcp
