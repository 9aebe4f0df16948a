// The forms of output that hold a whole model: a torch.save file, a safetensors file, a folder of safetensors shards. Shared by the
// commands that can write them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "writer.h"

namespace dcp::cmd {

enum class ModelFileForm : uint8_t { kTorch, kSafetensors, kShards };

struct ModelFileFlags {
  std::string max_shard_size, assets;
  bool weights_only_safe = false, mcore_shapes = false;
};
void add_model_file(Command& command, ModelFileFlags& flags);

// Which of them OUT's ending and the flags name; nullopt: none. Throws usage where they contradict each other.
std::optional<ModelFileForm> model_file_form(const std::string& out, const ModelFileFlags& flags);

// `check_source` may refuse the checkpoint that was opened.
int write_model_file(const WriterFlags& writer, const ModelFileFlags& flags, ModelFileForm form, Context& context, WriteReport& report,
                     const std::function<void(const Catalog&)>& check_source = {});

}  // namespace dcp::cmd
