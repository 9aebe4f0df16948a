// Writer of `.metadata`: the form that every torch from 2.3 to 2.15 loads.
//
// Form: protocol 4; module names of torch >= 2.3; TensorProperties of 5 fields (6 would need torch 2.15); the memory format by call;
// storage_meta None (an object needs torch 2.4 and would hold a path); version "1.0.0"; no transform_descriptors where there are none.
// Repeated texts and classes go through the memo, numbers do not: about 100 bytes a 2-D chunk.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "format/dcp_metadata.h"

namespace dcp {

// Hands the file to `sink` in blocks of about 64 KiB; a block is valid during the call only. What counts of `content`: order, tensors,
// chunks, blobs, storage, files, transforms, has_planner_data with paths. Throws metadata_field for a layout other than strided.
void write_dcp_metadata(const MetadataContent& content, const std::function<void(std::string_view)>& sink);
std::string write_dcp_metadata(const MetadataContent& content);

}  // namespace dcp
