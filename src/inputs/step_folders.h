// Which folders are the checkpoints of a step: by names and by what lies in them. Opens none.
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
// Or it has what is left of one by a save that was cut short.
bool looks_like_checkpoint(const std::vector<DirEntry>& entries);

// The checkpoints in the folders of a step, the optimizer's last: `pytorch_model_fsdp_0` and `optimizer_0` of accelerate, `model/NAME/ckpt`.
// Empty if it is a checkpoint itself, or holds steps: then it is the folder of an experiment.
std::vector<std::string> parts_of(Store& store, const std::string& step);

using IsOne = std::function<bool(const std::string& path, const std::vector<DirEntry>& entries)>;
enum class Closed : uint8_t { kThrow, kSkip };  // folders that this user may not list
// The folders at most so many levels below that are one, in the order of their names; looks into those that are not. Follows no link. Gives up
// after 10,000 folders.
std::vector<std::string> folders_below(Store& store, const std::string& folder, unsigned levels, const IsOne& is_one, Closed closed);

// Checkpoints up to five levels below, in natural order: what is there where neither a checkpoint nor a step is.
std::vector<std::string> checkpoints_below(Store& store, const std::string& folder);

// The checkpoint in a folder that is none and has no other, if no folder on the way is named like a step: `ckpt/`, `model_and_optim/`.
std::optional<std::string> only_checkpoint_below(Store& store, const std::string& folder);

}  // namespace dcp
