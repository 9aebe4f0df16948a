// What the names of files and folders say, and names beside others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dcp {

// Names of working files beside an output: `.NAME.dcpctl-...`. Hidden, so that `*.pt` and `*.safetensors` never match them.

// The output being written; the old output, moved aside; the writer's lock.
inline constexpr std::string_view kPartial = ".dcpctl-partial", kOld = ".dcpctl-old", kLock = ".dcpctl-lock";
inline constexpr std::string_view kItemMetadata = "metadata.pkl";  // of torch_checkpointing

// Whether something of this name is being written, or was moved aside, by dcpctl.
bool is_working_name(std::string_view name);

// NAME for a path `NAME://...`, which belongs to the store of this name; "" for a path on disk.
std::string_view scheme_of(std::string_view path);
// The length of the root, which is never stripped from a path: `NAME://`, or '/'.
size_t root_bytes(std::string_view path);

// Leaves a root as it is.
std::string without_trailing_slashes(std::string path);

// The parent of `path` (without a trailing '/'): its text up to the last component, "." if there is only one. Purely textual: links and
// `..` are resolved by whoever opens it.
std::string folder_around(const std::string& path);

struct SplitPath {
  std::string prefix;  // up to and including the last '/', or ""
  std::string name;
};
SplitPath split_path(const std::string& path);

// The working name beside `path` (without a trailing '/'). A NAME too long for the ending is cut, and its CRC is appended.
std::string beside(const std::string& path, std::string_view ending);

// What the names of folders and files say about a step of a run.

// The last integer of a name.
std::optional<uint64_t> last_integer(std::string_view name);

// A run of digits in a name.
struct NameDigits {
  size_t begin = 0, size = 0;
  bool is_named = false;  // `step`, `iter` or `ba` stands before it
};
std::vector<NameDigits> numbers_in(std::string_view name);
// The digits that number a step: the last ones behind `step`, `iter` or `ba` (Composer's batches), as in epoch=0-step=100-val_loss=0.25.ckpt; else the last of all.
std::optional<NameDigits> step_digits(std::string_view name);
std::optional<uint64_t> step_number(std::string_view name);

// Whether a name with a number names a step: it contains a word such as "step", or is just the number.
bool names_step(std::string_view name);

// `latest`, `last.ckpt`, `checkpoint-latest`, and not `blast`.
bool is_latest_name(std::string_view name);

// Whether a trainer gives this name to a folder that it renames once its save is complete: tmp_step-5, step-5.incomplete.
bool is_unfinished_name(std::string_view name);

// Whether a trainer writes a file of this name into a step after all others.
bool is_completion_mark(std::string_view name);

}  // namespace dcp
