// What use cases are asked for: values that a command line or another program fills in, without anything of how it is done.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/store.h"
#include "maps/apply_map.h"
#include "plan/torch_target.h"
#include "ranks/launcher.h"

namespace dcp {

struct SourceRequest {
  std::string path;
  std::string step;     // a run folder's step: a number, or "latest"; "": `path` is the checkpoint
  std::string pattern;  // which folders of a run are steps, see inputs/run.h
  std::optional<uint32_t> prefer_rank;
  std::optional<uint32_t> shards_on_dim;  // see OpenOptions
  std::vector<std::string> replicated;
  bool follow_links = false;
  bool itself = false;                 // not the only checkpoint below it, either
  std::optional<uint64_t> max_pickle;  // bytes; nullopt: the defaults of Limits

  // `memory_bytes`: cap for reading the metadata.
  Limits limits(uint64_t memory_bytes = Limits{}.memory_bytes) const;
  FollowLinks links() const { return follow_links ? FollowLinks::kAll : FollowLinks::kCacheOnly; }
};

struct RankOptions {
  enum class Transport : uint8_t { kAuto, kFile, kGloo, kNccl };
  std::optional<Launch> launch;  // nullopt: one process
  Transport transport = Transport::kAuto;
  bool all_write = false;  // each rank writes its part of a shared output; else rank 0 writes
  double timeout_s = 60;
  std::string program;                      // name and version, which must be the same on all ranks
  std::string command_line;                 // the same
  std::vector<std::string> module_folders;  // where libdcpctl_c10d.so is looked for
};

struct ReadRequest {
  SourceRequest source;
  RankOptions ranks;
  uint64_t max_memory = 0;  // bytes
  unsigned threads = 0;     // 0: the default
};

struct MapRequest {
  std::string map;     // a built-in map, a file name, or "auto"; "": none
  std::string config;  // the model's config.json; "": the one in the assets, or beside the source
  std::vector<maps::Setting> settings;
  maps::Unmapped unmapped = maps::Unmapped::kError;
  std::optional<maps::Side> from;
  std::string to;                         // a second map, from the published names to another trainer's; "": none
  bool is_declined = false;               // none is wanted, not even the one that a folder of assets asks for
  std::optional<std::string> model_root;  // root of the model in the output of a run; nullopt: that of the source
  std::string whose{};                    // the checkpoint that notes are about, where there are two

  bool is_given() const { return !map.empty(); }
};

// Which ranks get which boxes of a DCP folder.
struct LayoutRequest {
  uint32_t world_size = 0;  // 0: not given
  std::string mesh, mesh_dims, like, file;
  std::vector<std::string> placements;  // GLOB=PLACEMENTS
  bool operator==(const LayoutRequest&) const = default;
};

// A file or folder that holds a whole model, a DCP folder, or the same kind as the source.
struct OutputRequest {
  enum class Kind : uint8_t {
    kTorch,        // one torch.save file
    kSafetensors,  // one file
    kNpy,          // one tensor, as numpy reads it
    kNpz,          // tensors, as numpy reads them
    kRaw,          // one tensor: its elements, row-major and little-endian
    kShards,       // a folder of safetensors files, of at most max_shard_bytes or as an index has them, and their index
    kDcp,          // a DCP folder, laid out as `layout` says
    kItems,        // a folder of torch_checkpointing, laid out as `layout` says
    kSameFolder,   // a folder of the source's own kind: the same boxes on the same ranks, or the same shards
  };
  std::string path;
  Kind kind = Kind::kTorch;
  bool same_kind = false;          // must be the source's kind, for a file too; else throws usage
  bool one_value = false;          // a single key, without a dict around it
  bool weights_only_safe = false;  // leave out objects that torch.load(weights_only=True) refuses
  bool mcore_shapes = false;       // tensors get the shapes of Megatron's mcore_data
  bool check_crcs = true;
  uint64_t max_shard_bytes = 0;
  std::string like_index;  // shards: an index, or a folder with one, that gives the file of each tensor; "": by size
  std::string assets;      // folder whose configuration and tokenizer files are copied beside shards; "": none
  LayoutRequest layout;
  TorchTarget torch;                  // the oldest release that must load a DCP folder
  bool model_in_safetensors = false;  // items: of a model
  std::string device_type = {};       // items: of DTensors; "": they are plain tensors

  bool is_folder() const { return kind >= Kind::kShards; }
};

// The kind of a model file, by the ending of its name in any case: .pt, .pth, .bin or .safetensors; nullopt: another ending.
std::optional<OutputRequest::Kind> model_file_kind(const std::string& path);

// What an output must have, checked before its first byte is written.
struct ExpectRequest {
  std::string reference;  // a checkpoint, or a text list (plan/expect.h); "": nothing is expected
  bool dtypes = false;    // compare dtypes too
  bool tensors = false;   // compare tensors alone
};

}  // namespace dcp
