// Says what a path holds instead of a checkpoint, and what to do with it.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/store.h"
#include "inputs/input.h"

namespace dcp {

// What helps where data files are all there is.
inline constexpr std::string_view kWithoutMetadata =
    "names, shapes and places were in .metadata; a copy of that of another step fits if the same ranks saved the same model";
inline constexpr std::string_view kExpected = "a DCP folder, a torch.save or safetensors file, or a folder of safetensors files";

// Whether a folder with files of these names may be one node's part of a save: it has files of ranks, but neither metadata nor a file of
// rank 0. The rank that writes the metadata also writes data, so another node may have written both to its own disk.
bool may_be_one_nodes_part(const std::vector<std::string>& names);

// Throws not_checkpoint.
[[noreturn]] void refuse(Found& found);

// Recognizes what a path holds instead of a checkpoint, such as another program's file; by content where that is cheap.

struct Foreign {
  std::string_view what;  // "a GGUF file"; empty: unknown
  std::string_view hint;  // "": no next step
  bool is_deepspeed = false;
};

// First bytes of a file that are enough for foreign_file.
inline constexpr uint64_t kForeignBytes = 512;
Foreign foreign_file(Bytes head);
// Whether it is a zip archive with everything in a folder, as torch writes it, or the form that it wrote before 1.6.
bool is_torch_file(Bytes head);
// Recognizes a folder by the names of its entries.
Foreign foreign_folder(const std::vector<std::string>& names);

// --- a checkpoint of several files, one of which cannot be read

// Calls `open` with the names of files that it is to treat as if they were not there: at first none; a file at which opening fails is added,
// and becomes damage of what the others are. `count`: files that there are. Throws if none is left, or many are broken.
using OpenWithout = std::function<OpenedCatalog(const std::set<std::string>& without)>;
OpenedCatalog open_rest(const std::string& folder, size_t count, const OpenWithout& open);
// A file that cannot be read is not missing, as an index has it that found it left out: of two such findings the first has the keys of both.
void merge_missing(std::vector<Problem>& findings);

}  // namespace dcp
