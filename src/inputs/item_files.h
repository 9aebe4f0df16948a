// Files of items that torch.save did not write, as content of a catalog beside those that it did.
#pragma once

#include <memory>

#include "base/store.h"
#include "catalog/torch_files.h"
#include "inputs/item_layouts.h"
#include "inputs/safetensors_files.h"
#include "inputs/torch_file.h"

namespace dcp {

// Stands for a file of which `pickle` says what it holds.
std::unique_ptr<TorchFile> file_of_pickle(std::string_view pickle, const Place& place, uint64_t bytes, const Limits& limits);

// What json.load makes of a file, or its bytes. Throws not_checkpoint, over_limit.
std::unique_ptr<TorchFile> read_json_item(Bytes json, const Place& place, const Limits& limits);
std::unique_ptr<TorchFile> read_raw_item(Bytes bytes, const Place& place, const Limits& limits);

// The tensors of a safetensors file: each is what its rank holds, and `layouts` say of what; null: whole tensors. Views all that it gets.
MetadataContent content_of_tensors(const SafetensorsFile& file, const RankFile& of, ItemLayouts* layouts, TorchFacts& facts,
                                   std::vector<std::string>& keys);

}  // namespace dcp
