// The output of a command that writes a model: checks on its name before anything is written, and the forms that hold a whole model: a torch.save
// file, a safetensors file, a folder of safetensors shards.
#pragma once

#include <optional>
#include <string>

#include "app/requests.h"
#include "base/io.h"
#include "line/context.h"

namespace dcp::cmd {

// Throws usage for a file of a format that no command writes.
void check_format_written(const std::string& out);
// Throws usage for a folder named like a file: people and other tools would take it for one.
void check_folder_name(const std::string& out);

// Throws io_create if the run could not create its first file; creates none.
void check_writable(Io& io, const std::string& out, bool is_folder);

struct ModelFileFlags {
  std::string max_shard_size, like_index, assets;
  bool weights_only_safe = false, mcore_shapes = false;
};
void add_model_file(Command& command, ModelFileFlags& flags);

// The form that OUT's ending and the flags select; nullopt: none. Throws usage if they contradict each other.
std::optional<OutputRequest> model_file(const std::string& out, const ModelFileFlags& flags);

}  // namespace dcp::cmd
