// What the names of folders and files say about a step of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dcp {

// The number of a step: the last integer of `step-20`, `checkpoint_5`, `epoch=0-step=100.ckpt`.
std::optional<uint64_t> last_integer(std::string_view name);

// Whether a name with a number names a step: it contains a word such as "step", or is just the number.
bool names_step(std::string_view name);

// Whether a trainer gives this name to a folder that it renames once its save is complete: tmp_step-5, step-5.incomplete.
bool is_unfinished_name(std::string_view name);

// Whether a trainer writes a file of this name into a step after all others.
bool is_completion_mark(std::string_view name);

}  // namespace dcp
