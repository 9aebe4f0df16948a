// Reading `.metadata`, shared by both kinds of DCP folders.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "format/dcp_metadata.h"
#include "inputs/input.h"

namespace dcp {

inline constexpr std::string_view kMetadata = ".metadata";

// The content of a `.metadata`, without its pickle. Only the first bytes are read of a file that does not begin like a pickle. Throws
// memory_cap, lfs_pointer, and what read_dcp_metadata throws.
struct HeldMetadata {
  MetadataContent content;  // views `text`
  std::deque<std::string> text;
  std::optional<Problem> trailing;  // a warning about bytes after the pickle
};
HeldMetadata read_metadata(Store& store, const OpenFile& opened, const std::string& file, const Limits& limits);

// Throws memory_cap if there is more metadata than fits.
void check_fits(uint64_t metadata_bytes, const std::string& file, const Limits& limits);
Description read_whole_metadata(Store& store, const std::string& path, const Limits& limits);

}  // namespace dcp
