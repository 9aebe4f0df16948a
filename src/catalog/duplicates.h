// Items that several ranks of a rank-local checkpoint wrote: whether all copies say the same. Copies may lie on hosts that do not see each
// other's files, so what is compared is not their bytes but what was found of each: facts, and sums of records.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/data_files.h"
#include "catalog/resolve.h"

namespace dcp {

struct RecordContent {
  uint64_t bytes = 0;
  uint64_t crc64 = 0;  // of the bytes, where the writer has stored no CRC; else 0
  uint32_t crc32 = 0;  // that the writer has stored, else of the bytes
  bool was_read = false;
};

struct ItemContent {
  std::string facts;  // dtype, sizes, strides, pickle and so on: equal for equal items, of ranks of one build
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

// Every other copy of an item that is selected (resolved) says the same as the one that is used. Throws duplicates_differ naming both
// files, and what contents throw.
void prove_duplicates(const SourceFacts& source, const ContentOf& contents);
// The same as findings, all of them. Values that differ are no damage, as rank-local state may: a warning.
std::vector<Problem> find_differing_duplicates(const SourceFacts& source, const ContentOf& contents);

}  // namespace dcp
