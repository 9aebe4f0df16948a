// What the names of folders and files tell about a step of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dcp {

// The number of a step: the last integer of `step-20`, `checkpoint_5`, `epoch=0-step=100.ckpt`.
std::optional<uint64_t> last_integer(std::string_view name);

// Whether a name with a number says that this is a step's: it has a word for it, or is nothing but the number.
bool names_step(std::string_view name);

// Of a folder that a trainer renames once its save is complete: tmp_step-5, step-5.incomplete.
bool is_unfinished_name(std::string_view name);

// Of a file that a trainer writes into a step after all others.
bool is_completion_mark(std::string_view name);

}  // namespace dcp
