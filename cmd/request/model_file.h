// The forms of output that hold a whole model: a torch.save file, a safetensors file, a folder of safetensors shards. Shared by the
// commands that can write them.
#pragma once

#include <optional>
#include <string>

#include "app/requests.h"
#include "line/context.h"

namespace dcp::cmd {

struct ModelFileFlags {
  std::string max_shard_size, like_index, assets;
  bool weights_only_safe = false, mcore_shapes = false;
};
void add_model_file(Command& command, ModelFileFlags& flags);

// The form that OUT's ending and the flags select; nullopt: none. Throws usage if they contradict each other.
std::optional<OutputRequest> model_file(const std::string& out, const ModelFileFlags& flags);

}  // namespace dcp::cmd
