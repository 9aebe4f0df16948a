// safetensors as a checkpoint: one file; a Hugging Face folder with an index; the shards of torch's HuggingFaceStorageWriter.
#pragma once

#include <string>
#include <vector>

#include "catalog/open.h"

namespace dcp {

inline constexpr std::string_view kSafetensorsEnding = ".safetensors";
inline constexpr std::string_view kIndexEnding = ".safetensors.index.json";

// A file that the user named.
OpenedCatalog open_safetensors_file(Io& io, const std::string& path, const OpenOptions& options);

// Which index of a folder counts: model.safetensors.index.json, else the only one that ends so; "" for none. Several: not_checkpoint.
std::string index_of(const std::string& path, const std::vector<DirEntry>& entries);

// A folder that holds safetensors files. With an index its files are the checkpoint, and what index and files say of each other that is
// not so becomes a finding; a tensor that no file holds and a file that is missing are damage. Without one, all files are: plain ones are
// one checkpoint as long as no name occurs twice (a download without its index), since nothing else could be meant; with a name twice
// nobody can say which is wanted.
OpenedCatalog open_safetensors_folder(Io& io, const std::string& path, const std::vector<DirEntry>& entries, const std::string& index,
                                      const OpenOptions& options);

}  // namespace dcp
