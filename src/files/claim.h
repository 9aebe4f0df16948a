// The working names beside an output: who may use them, and what interrupted runs have left there.
//
// Others may write into the folder as well. So a leftover counts as ours only if it is of a kind that we create and belongs to our user;
// and it is removed through the open folder that was examined, one level deep: an output has no subfolders.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/io.h"

namespace dcp {

// Creates the lock file and locks it. Replaces one that an interrupted run left. Returns no file while another process holds the lock.
OpenFile lock_output(Io& io, Handle folder, const std::string& name);

// Holds the lock while the object lives, then frees the name.
class ClaimedName {
 public:
  ClaimedName(Io& io, Handle folder, std::string name)
      : io_(io), folder_(folder), name_(std::move(name)), lock_(lock_output(io, folder, name_)) {}
  ClaimedName(const ClaimedName&) = delete;
  ClaimedName& operator=(const ClaimedName&) = delete;
  ~ClaimedName();
  bool is_ours() const { return static_cast<bool>(lock_); }

 private:
  Io& io_;
  const Handle folder_;
  const std::string name_;
  OpenFile lock_;
};

// Whether a file of this name may be part of a checkpoint, belong beside one, or be one of its working files.
bool may_be_in_output(std::string_view name);

// ITEM_RANK.pt, of torch_checkpointing. Others call their files so, too: where it is not dcpctl's working folder, only beside metadata.pkl.
bool is_item_file(std::string_view name);

// Old checkpoints may hold links to files that are not part of them. The links are removed, never followed.
enum class Links : uint8_t { kNever, kMayBe };
// A file, or a folder of files, that an interrupted run of the user `owner` left. If it is or contains anything else, nothing is removed
// and leftover_foreign is thrown.
struct Leftover {
  Handle folder = 0;
  const std::string& name;
  const FileFacts& facts;
};
void remove_leftover(Io& io, const Leftover& left, uint32_t owner, Links links);

// Whether `name` is the file or folder with these facts itself, not a link to it.
bool is_named(Io& io, Handle folder, const std::string& name, const FileFacts& facts);

template <class F>
void ignoring_errors(F f) noexcept {
  try {
    f();
  } catch (...) {  // this cleans up after an error that is already being thrown
  }
}

}  // namespace dcp
