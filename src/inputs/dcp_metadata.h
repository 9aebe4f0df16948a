// Shared by both kinds of DCP folders: reading `.metadata`.
#pragma once

#include <string_view>

#include "inputs/input.h"

namespace dcp {

inline constexpr std::string_view kMetadata = ".metadata";

// Throws memory_cap for more metadata than fits.
void check_fits(uint64_t metadata_bytes, const std::string& file, const Limits& limits);
Description read_whole_metadata(Store& store, const std::string& path, const Limits& limits);

}  // namespace dcp
