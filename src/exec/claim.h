// The names beside an output that dcpctl works under: who may use them, and what an interrupted run has left there.
//
// Others may write into the folder as well. So whatever is taken for ours must be of the kind that we make and belong to the user that our
// own files belong to, and it is removed through the folder that was looked at, one level deep: an output has no folders inside.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/io.h"

namespace dcp {

// Made new and locked; nothing while another process holds the lock. What an interrupted run left of it is replaced.
OpenFile lock_output(Io& io, Handle folder, const std::string& name);

// The same for as long as the object lives; then the name is free again.
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

// By its name, a file that a checkpoint consists of, stands beside it, or is at work on it.
bool may_be_in_output(std::string_view name);

// Old checkpoints may hold links to files that are not part of them. They are removed themselves, never followed.
enum class Links : uint8_t { kNever, kMayBe };
// Removes the file, or the folder of files, that an interrupted run of the user `owner` left. Throws leftover_foreign, and removes nothing,
// if it is anything else or holds anything else.
struct Leftover {
  Handle folder = 0;
  const std::string& name;
  const FileFacts& facts;
};
void remove_leftover(Io& io, const Leftover& left, uint32_t owner, Links links);

// The file or folder `name` is the one that these are the facts of, and no link to it.
bool is_named(Io& io, Handle folder, const std::string& name, const FileFacts& facts);

template <class F>
void ignoring_errors(F f) noexcept {
  try {
    f();
  } catch (...) {  // cleaning up after an error that is already on its way
  }
}

}  // namespace dcp
