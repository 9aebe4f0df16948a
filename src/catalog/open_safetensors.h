// safetensors as a checkpoint: a single file; a Hugging Face folder with an index; the shards of torch's HuggingFaceStorageWriter.
#pragma once

#include <string>
#include <vector>

#include "catalog/open.h"

namespace dcp {

inline constexpr std::string_view kSafetensorsEnding = ".safetensors";
inline constexpr std::string_view kIndexEnding = ".safetensors.index.json";

// A file that the user named.
OpenedCatalog open_safetensors_file(Store& store, const std::string& path, const OpenOptions& options);

// The folder's index: model.safetensors.index.json, else the only file with that ending; "" if there is none. Throws not_checkpoint for
// several.
std::string index_of(const std::string& path, const std::vector<DirEntry>& entries);

// A folder that holds safetensors files. With an index, the checkpoint is the files that it names, and contradictions between index and
// files become findings; a tensor that no file holds and a missing file are damage. Without one, it is all files: plain ones are one
// checkpoint (a download without its index) as long as no tensor name occurs twice, since then it is unclear which one is meant.
OpenedCatalog open_safetensors_folder(Store& store, const std::string& path, const std::vector<DirEntry>& entries, const std::string& index,
                                      const OpenOptions& options);

}  // namespace dcp
