// The working names beside an output: who may use them, and what an interrupted run has left there.
//
// Others may write into the folder as well. So a leftover counts as ours only if it is of a kind that we create and belongs to our user;
// and it is removed through the open folder that was examined, one level deep: an output has no subfolders.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/io.h"

namespace dcp {

// Creates the file anew and locks it; returns nothing while another process holds the lock. Replaces what an interrupted run left.
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

// Whether, by its name, the file may be part of a checkpoint, belong beside it, or be a working file of it.
bool may_be_in_output(std::string_view name);

// Old checkpoints may hold links to files that are not part of them. The links are removed, never followed.
enum class Links : uint8_t { kNever, kMayBe };
// A file, or a folder of files, that an interrupted run of the user `owner` left. If it is or holds anything else, nothing is removed and
// leftover_foreign is thrown.
struct Leftover {
  Handle folder = 0;
  const std::string& name;
  const FileFacts& facts;
};
void remove_leftover(Io& io, const Leftover& left, uint32_t owner, Links links);

// Whether `name` is the file or folder with these facts, and not a link to it.
bool is_named(Io& io, Handle folder, const std::string& name, const FileFacts& facts);

template <class F>
void ignoring_errors(F f) noexcept {
  try {
    f();
  } catch (...) {  // cleaning up after an error that is already on its way
  }
}

}  // namespace dcp
