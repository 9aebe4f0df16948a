// The sink that writes files: whole under the final name, or absent.
//
// One file: `.OUT.dcpctl-partial` beside OUT, given its final size and space before the first byte, synced, renamed without replacing
// (or replacing, with kYes), folder synced.
// A folder: the same with a folder of that name holding the files. An existing empty OUT folder is filled in place instead (its parent
// may not be ours to write): each file is `OUT/.NAME.dcpctl-partial` until all are complete, and the last one of the list (`.metadata`
// or the index) is renamed last.
// With Replace::kYes the old output stays until the new one is complete: a file is replaced by rename; a folder is moved aside to
// `.OUT.dcpctl-old`, the new one put in its place, then the old one removed. Files never replace folders, nor folders files.
//
// The lock is an empty file of its own, `.OUT.dcpctl-lock` beside OUT (filled in place: `OUT/.dcpctl-lock`), so that it is the same lock
// whatever the twin writes, and never the finished output. Whoever holds it owns whatever of this user lies under the names above
// (claim.h).
//
// In a folder into which others write, too, nothing but what was written gets the output's name: folders stay open from the beginning and
// names are looked up in them; a file gets its name from its open handle (where the file system has links, and the name is free); else what
// has the partial name is compared with what was made, before the renaming and after it, and put back if it is something else.
#pragma once

#include <functional>
#include <memory>

#include "exec/sink.h"

namespace dcp {

struct FileSpec {
  std::string name;    // inside the folder, without '/'; "" where the output is one file
  uint64_t bytes = 0;  // final size
  // Opens a file of these bytes: where the file system can, nothing is written and the two share them (sharing_of).
  std::function<OpenFile()> same_as{};
};

// How a file gets the bytes of another one: by a clone, which is a file of its own; as one more name of it; by being written.
enum class Sharing : uint8_t { kBest, kClone, kLink, kCopy };

struct FileSetOptions {
  bool folder = false;
  Replace replace = Replace::kNo;
  bool sync = true;
  size_t open_files = 256;           // at once; others are opened again when they are written to
  Sharing sharing = Sharing::kBest;  // of files that are the same as others; kBest: what works here, in this order
};

// The constructor throws output_exists or io_create (no parent folder) before anything is created; output_busy if a concurrent dcpctl holds the
// lock; leftover_foreign if something else lies where leftovers may; io_no_space if the space is not there. What an interrupted run left is
// removed and named in found(). Throws share_impossible where another sharing than the best is asked for and does not work.
// An error of commit() means that nothing has changed, with three exceptions: io_sync of the folder around it (the new output is in place,
// but a power loss may still undo it; a replaced folder is kept aside for that), io_remove (it is in place, and of what lay beside it
// something is left) and output_swapped where one file was to replace another (neither has the name). The next run with this output removes
// what lies aside.
class FileSet : public Sink {
 public:
  FileSet(Io& io, std::string out, std::vector<FileSpec> files, FileSetOptions options);
  ~FileSet() override;
  void write(uint32_t file, uint64_t offset, Bytes bytes) override;
  void finish() override;
  void commit() override;
  void abort() noexcept override;
  // What was written, before commit. Throws like read_exact.
  void read(uint32_t file, uint64_t offset, MutableBytes into) const;
  // Where the files lie until commit, for other processes that write into them: a folder, one in it or "", the files; after each its inode.
  std::vector<std::string> shared() const;
  Sharing sharing_of(uint32_t file) const;                          // kCopy: it has to be written
  void drop_cache(uint32_t file) const;                             // so that read() asks the medium; after finish()
  std::string name_of(uint32_t file) const;                         // where it will be, for messages
  FileId folder_id() const;                                         // of a folder that was made and committed
  const std::vector<std::string>& found() const { return found_; }  // what an interrupted run left, and what became of it
  const std::vector<std::string>& notes() const { return notes_; }  // for -v: no space reservation

 private:
  struct State;
  std::vector<std::string> found_, notes_;
  std::unique_ptr<State> state_;
};

}  // namespace dcp
