// A torch.save file in the form that torch wrote before 1.6, and writes with _use_new_zipfile_serialization=False: pickles, then storages.
//
// Grammar (torch/serialization.py, _legacy_save and _legacy_load; torch 0.2 to 2.15):
//   file     := magic protocol sys_info object keys storage*
//   magic    := pickle of 0x1950a86a20f9469cfc6c      protocol := pickle of 1001
//   sys_info := pickle of {"protocol_version": 1001, "little_endian": True, "type_sizes": {...}}, which torch ignores
//   object   := pickle whose persistent ids are
//                 ("storage", class, key, location, count, None)                             a storage
//                 ("storage", class, key, location, count, (view key, offset, view count))   a part of it: torch before 0.4
//                 ("module", class, file, source)                                            the class, of the first module that has it
//   keys     := pickle of a list of the keys of all storages
//   storage  := count:8 elements, one for each key, in their order
// Counts and offsets are in elements of the class. Nothing is aligned, nothing has a checksum.
#pragma once

#include <memory>
#include <string_view>

#include "base/limits.h"
#include "base/problem.h"
#include "format/blob.h"
#include "pickle/graph.h"

namespace dcp {

// The end of the first pickle: LONG1 of the magic number, STOP.
inline constexpr std::string_view kLegacyMagic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 13);
// The bytes that are searched for it.
inline constexpr uint64_t kLegacyBeginBytes = 24;
bool begins_legacy_torch(Bytes begin);

// The file as if it were an archive: in `graph`, each persistent id is ("storage", class, key, location, count) of a record of that key. A
// part of a storage is a record, too, which lies within that of the whole storage.
struct LegacyTorch {
  BlobItem archive;  // the object's pickle; no record has a CRC
  std::unique_ptr<PickleGraph> graph;
  uint64_t end = 0;  // of the last storage: torch.load reads nothing behind it
};
// Reads a file that begins_legacy_torch(). Throws legacy_*, short_file, over_limit, memory_cap, pickle_*, item_bad_storage,
// item_unknown_dtype, item_short_storage, item_long_storage.
LegacyTorch read_legacy_torch(ItemSource& file, const Place& place, const Limits& limits);

}  // namespace dcp
