// Caps on what a file may claim, in one place. Each is far above what real checkpoints hold and far below what would hurt.
#pragma once

#include <cstdint>

namespace dcp {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

struct Limits {
  uint64_t memory_bytes = ~uint64_t{0};        // total memory for reading a `.metadata`
  uint64_t metadata_bytes = 8 * kGiB;          // a `.metadata` file: 143 bytes a chunk, so 6e7 chunks
  uint64_t pickle_depth = 1000;                // nested containers; CPython's own pickler stops at its recursion limit of 1000
  uint64_t pickle_memo_slots = 1u << 30;       // highest memo index + 1 that may be claimed
  uint64_t blob_bytes = 1 * kGiB;              // pickle of one byte item (one setting sets this and the three below)
  uint64_t decoded_bytes = 8 * kMiB;           // an object behind zstd, and 16 for each of its compressed ones: texts pack at 3 to 10 to 1
  uint64_t decoded_again = 1 * kGiB;           // of compressed storages, counted once per tensor in them; plus 16 times all of them
  uint64_t item_pickle_bytes = 16 * kMiB;      // data.pkl of a tensor item: 150 bytes in practice
  uint64_t archive_pickle_bytes = 256 * kMiB;  // data.pkl of a torch.save file: 250 bytes a tensor
  uint64_t state_dict_bytes = 1 * kGiB;        // keys and paths of a flattened state dict
  uint64_t shared_visits = 1u << 15;           // repeated visits of values that a state dict's pickle shares by its memo
  uint64_t path_bytes = 16 * kMiB;  // keys and paths of a state dict, and 64 for each value of its pickle: real ones have few steps
  uint64_t zip_records = 1u << 20;  // records of one item
  uint64_t zip_directory_bytes = 256 * kMiB;
  uint32_t tensor_rank = 64;           // dims of a tensor (torch itself: 64)
  uint64_t list_padding = 1u << 20;    // None elements invented for holes in list positions
  uint64_t json_bytes = 256 * kMiB;    // index and header JSON; safetensors' own cap is 100 MB
  uint64_t layout_bytes = 8 * kMiB;    // a layout file: a rule for each of 10^5 tensors
  uint64_t map_bytes = 1 * kMiB;       // a map file: some 40 lines in practice
  uint64_t map_line_bytes = 4 * kKiB;  // a line of a map file
  uint64_t map_lines = 4096;           // lines of a map file
  uint64_t map_blocks = 1024;          // parts that a tensor of a line expands into
  uint64_t map_targets = 1u << 22;     // tensors that a map may produce, and tensors that it may look for: 46,000 for the largest model
  uint64_t map_pieces = 1u << 26;      // blocks and axes of all of them
  uint64_t config_bytes = 16 * kMiB;   // a config.json: some KiB, or a MiB where it lists every module
  uint64_t asset_bytes = 256 * kMiB;   // a file copied as an asset: tokenizers have some 30 MB
  uint32_t json_depth = 64;
  uint64_t shard_files = 1u << 20;  // safetensors files of one folder
  uint64_t name_bytes = 4096;       // file names in metadata (PATH_MAX)
  uint64_t word_bytes = 1024;       // names of modules, classes, dtypes and transforms in metadata
};

}  // namespace dcp
