// The kinds of checkpoint there are, and what is to be known of a kind outside of what opens it: a table, so that a new kind is a row.
#pragma once

#include <cstdint>
#include <string_view>

namespace dcp {

// How the checkpoint was saved. kHf: a folder of safetensors files, with an index or as torch's HuggingFaceStorageWriter leaves them. kTorchRanks: what
// every rank saved with torch.save, as verl does; kTorchCheckpointing: the same beside a metadata.pkl.
enum class CheckpointKind : uint8_t { kDcp, kDcpRankLocal, kTorch, kSafetensors, kHf, kTorchRanks, kTorchCheckpointing };
inline constexpr CheckpointKind kLastKind = CheckpointKind::kTorchCheckpointing;

// What a command that keeps the kind writes.
enum class WrittenAs : uint8_t { kDcpFolder, kTorchFile, kSafetensorsFile, kHfFolder };

struct KindTraits {
  std::string_view name;   // in JSON
  std::string_view words;  // "DCP checkpoint"
  WrittenAs written_as = WrittenAs::kDcpFolder;
  bool has_metadata = false;  // `.metadata` describes it: each item is a file of its own pickle, objects have one, empty mappings are gone
  bool of_ranks = false;      // every rank described its own part: what several wrote must be the same
  bool in_torch_files = false;  // items are values in the pickle of a torch.save file; tensors may share a record (Catalog::torch)
  bool tensors_only = false;    // flat names and no objects, as models are published
};
const KindTraits& traits_of(CheckpointKind kind);

}  // namespace dcp
