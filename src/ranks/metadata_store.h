// Checkpoints whose metadata is spread over hosts: rank-local ones, of which each rank has written `__R.metadata` beside its shards,
// Hugging Face folders whose safetensors files are on several hosts, or a `.metadata` that is not on rank 0's disk. The others send what
// rank 0 lacks, and rank 0 opens the checkpoint through a store that adds it to the folder.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/store.h"
#include "inputs/open.h"
#include "ranks/session.h"

namespace dcp {

using Descriptions = std::map<std::string, Description>;  // by name in the folder

// Gathers, at rank 0, files of the folder `path` that describe the checkpoint and that only other ranks see. Empty if rank 0 has a
// `.metadata`, or a file instead of a folder. Called by all ranks. Throws file_seen_twice if two ranks see different files under one name.
Descriptions gather_metadata(RankTree& tree, Store& store, const std::string& path, const Limits& limits);

// `store` with these files added to one folder, for reading. `store` must outlive it.
std::unique_ptr<Store> with_files(Store& store, const std::string& folder, Descriptions files);

}  // namespace dcp
