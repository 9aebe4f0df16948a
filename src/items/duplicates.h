// Checks whether all copies of an item that several ranks of a rank-local checkpoint wrote are equal. Copies may lie on hosts that do not
// see each other's files, so their facts and the sums of their records are compared, not their bytes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/data_files.h"
#include "items/resolve.h"

namespace dcp {

struct RecordContent {
  uint64_t bytes = 0;
  uint64_t crc64 = 0;  // of the bytes, if the writer stored no CRC; else 0
  uint32_t crc32 = 0;  // as the writer stored it, or else of the bytes
  bool was_read = false;
};

struct ItemContent {
  std::string facts;  // dtype, sizes, strides, pickle and so on: equal for equal items, among ranks of one build
  std::vector<RecordContent> records;
};
bool same_content(const ItemContent& a, const ItemContent& b);

enum class Copy : uint8_t { kUsed, kOther };
// Throws what reading the item throws.
ItemContent content_of(DataFiles& files, const Catalog& catalog, const Duplicate& d, Copy copy, const Limits& limits);

// Where contents come from: the files, or ranks that see them (ranks/rank_group.h).
using ContentOf = std::function<ItemContent(const Duplicate&, Copy)>;
inline ContentOf contents_of(DataFiles& files, const Catalog& catalog, const Limits& limits) {
  return [&files, &catalog, limits](const Duplicate& d, Copy copy) { return content_of(files, catalog, d, copy, limits); };
}

// Proves that every other copy of a selected (resolved) item equals the one that is used. Throws duplicates_differ naming both files, and
// what contents throw.
void prove_duplicates(const SourceFacts& source, const ContentOf& contents);
// The same, but lists all of them as findings. Differing values are a warning, not damage: rank-local state may differ.
std::vector<Problem> find_differing_duplicates(const SourceFacts& source, const ContentOf& contents);
// The same of these items.
std::vector<Problem> find_differing_duplicates(const Catalog& catalog, const ContentOf& contents,
                                               const std::function<bool(ItemId)>& is_wanted);

}  // namespace dcp
