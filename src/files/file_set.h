// The sink that writes files: they appear complete under the final name, or not at all.
//
// One file is written as `.OUT.dcpctl-partial` beside OUT. It gets its final size and space before the first byte, is synced, and is
// renamed without replacing (or replacing, with kYes); then the folder is synced.
//
// A folder is written in the same way, as a folder of that name that holds the files. An existing empty OUT folder is filled in place
// instead (its parent may not be ours to write): each file is `OUT/.NAME.dcpctl-partial` until all are complete, and the last one of the
// list (`.metadata` or the index) is renamed last.
//
// With Replace::kYes the old output stays until the new one is complete: a file is replaced by rename; a folder is moved aside to
// `.OUT.dcpctl-old`, the new one put in its place, then the old one removed. Files never replace folders, nor folders files.
//
// The lock is an empty file of its own, `.OUT.dcpctl-lock` beside OUT (filled in place: `OUT/.dcpctl-lock`), so that it is the same lock
// whatever a concurrent dcpctl writes, and never part of the output. Its holder owns everything of this user under the names above
// (claim.h).
//
// Even if others write into the folder, only what was written here gets the output's name: folders stay open from the beginning and names
// are looked up in them; a file gets its name through its open handle (if the file system has links and the name is free); otherwise the
// file under the partial name is compared with the one that was created, before and after the rename, and renamed back if it is a different
// one. A folder that is made here is closed to other users until it has the output's name.
#pragma once

#include <functional>
#include <memory>

#include "files/sink.h"

namespace dcp {

struct FileSpec {
  std::string name;    // inside the folder, without '/'; "" where the output is one file
  uint64_t bytes = 0;  // final size; kGrows: what is written to it decides
  static constexpr uint64_t kGrows = UINT64_MAX;
  // Opens a file with the same bytes: if the file system allows it, the two share them and nothing is written (sharing_of).
  std::function<OpenFile()> same_as{};  // returns none: the file can only be copied
};

// How a file gets the bytes of another one: by cloning, which makes an independent file; by a hard link; by copying.
enum class Sharing : uint8_t { kBest, kClone, kLink, kCopy };

struct FileSetOptions {
  bool folder = false;
  Replace replace = Replace::kNo;
  bool sync = true;
  size_t open_files = 256;           // at once; others are reopened when they are written to
  Sharing sharing = Sharing::kBest;  // of files with same_as; kBest: the first that works here, in this order
};

// The constructor throws output_exists or io_create (no parent folder) before anything is created; output_busy if a concurrent dcpctl holds
// the lock; leftover_foreign if something else lies where leftovers may; io_no_space if there is not enough space. Leftovers of an
// interrupted run are removed and named in found(). Throws share_impossible if a sharing other than kBest is requested and does not work.
// An error of commit() means that nothing has changed, with three exceptions: io_sync of the parent folder (the new output is in place, but
// a power loss may still undo it; a replaced folder is therefore kept aside), io_remove (the output is in place, but working files are left
// beside it) and output_swapped when one file was to replace another (neither has the name). The next run with this output removes what was
// left.
class FileSet : public Sink {
 public:
  FileSet(Io& io, std::string out, std::vector<FileSpec> files, FileSetOptions options);
  ~FileSet() override;
  void write(uint32_t file, uint64_t offset, Bytes bytes) override;
  void finish() override { finish({}); }
  void finish(const std::function<void()>& between);  // as sync_all() calls it
  void commit() override;
  void abort() noexcept override;
  // Reads back what was written, before commit. Throws what read_exact throws.
  void read(uint32_t file, uint64_t offset, MutableBytes into) const;
  // Where the files are until commit, for other processes that write into them: a folder, a folder in it or "", the files; each followed by
  // its inode.
  std::vector<std::string> shared() const;
  Sharing sharing_of(uint32_t file) const;                          // kCopy: the file must be written
  void drop_cache(uint32_t file) const;                             // so that read() reads from the medium; after finish()
  std::string name_of(uint32_t file) const;                         // its final path, for messages
  FileId folder_id() const;                                         // of a folder that was created and committed
  const std::vector<std::string>& found() const { return found_; }  // what an interrupted run left, and what was done about it
  const std::vector<std::string>& notes() const { return notes_; }  // for -v: no space reservation

 private:
  struct State;
  std::vector<std::string> found_, notes_;
  std::unique_ptr<State> state_;
};

}  // namespace dcp
