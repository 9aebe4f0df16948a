// Finds the folders that are the checkpoints of a step, by their names and the names of their files. Opens none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/store.h"

namespace dcp {

bool is_checkpoint_folder(Store& store, const std::string& path);
// Whether these are the entries of a checkpoint, or of one whose save was cut short.
bool looks_like_checkpoint(const std::vector<DirEntry>& entries);

// The checkpoints in the folders of a step, the optimizer's last: `pytorch_model_fsdp_0` and `optimizer_0` of accelerate,
// `model/NAME/ckpt`. Empty if the folder is a checkpoint itself, or has steps, as the folder of an experiment does.
std::vector<std::string> parts_of(Store& store, const std::string& step);

using IsOne = std::function<bool(const std::string& path, const std::vector<DirEntry>& entries)>;
enum class Closed : uint8_t { kThrow, kSkip };  // folders that this user may not list
// The folders up to `levels` below for which is_one() holds, in the order of their names; the others are searched. Follows no link. Stops
// after 10,000 folders.
std::vector<std::string> folders_below(Store& store, const std::string& folder, unsigned levels, const IsOne& is_one, Closed closed);

// Checkpoints up to five levels below, in natural order: for a folder that is neither a checkpoint nor a step.
std::vector<std::string> checkpoints_below(Store& store, const std::string& folder);

// The only checkpoint below a folder that is not one itself, if no folder on the way has the name of a step: `ckpt/`, `model_and_optim/`.
std::optional<std::string> only_checkpoint_below(Store& store, const std::string& folder);

}  // namespace dcp
