// The kinds of checkpoint, and the properties of each that code outside its adapter needs: rows of kinds.def.
#pragma once

#include <cstdint>
#include <string_view>

namespace dcp {

// How the checkpoint was saved.
enum class CheckpointKind : uint8_t {
#define DCP_KIND(id, input, ...) id,
#include "catalog/kinds.def"
  kCount
};

// The format in which commands that keep the kind write.
enum class WrittenAs : uint8_t { kDcpFolder, kTorchFile, kSafetensorsFile, kHfFolder };

struct KindTraits {
  std::string_view name;                  // in JSON
  std::string_view words;                 // "DCP checkpoint"
  std::string_view metadata_ending = {};  // of the names of files that describe the others; "": there are none
  std::string_view vital = {};        // a pattern of names: without one of these files, the rest is not a checkpoint; "": there are none
  std::string_view data_ending = {};  // of the names of data files, if all of them have one that no other file has
  WrittenAs written_as = WrittenAs::kDcpFolder;
  bool one_metadata = false;    // there is one such file, of exactly this name
  bool drops_state = false;     // an optimizer can be removed from it in place
  bool has_metadata = false;    // described by `.metadata`: each item has a pickle of its own, objects too; empty mappings are lost
  bool of_ranks = false;        // every rank described its own part; copies by several ranks must be equal
  bool in_torch_files = false;  // items are values in the pickle of a torch.save file; tensors may share a record (Catalog::torch)
  bool tensors_only = false;    // flat names and no objects, as models are published
};
const KindTraits& traits_of(CheckpointKind kind);

// The role of a file by its name, in whatever kind of checkpoint has such names.
enum class FileRole : uint8_t {
  kOther,
  kVital,       // without one of these, the rest is not a checkpoint
  kData,        // of a kind that has vital files
  kModel,       // data that is a checkpoint by itself
  kIndex,       // of such files
  kUnfinished,  // metadata that torch has not yet given its final name
};
FileRole role_of(std::string_view name);

// Whether a file of this name describes other files.
bool is_metadata_name(std::string_view name);
// Whether it alone describes all others.
bool is_sole_metadata_name(std::string_view name);

}  // namespace dcp
