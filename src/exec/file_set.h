// The sink that writes files: whole under the final name, or absent.
//
// One file: `.OUT.dcpctl-partial` beside OUT, locked (so the next run tells a crash from a live twin), given its final size and space
// before the first byte, synced, renamed without replacing (or replacing, with kYes), folder synced.
// A folder: the same with a folder of that name holding the files; an existing empty OUT folder is filled in place, the last file
// (`.metadata` or the index) renamed into place last.
// With Replace::kYes the old output stays until the new one is complete: a file is replaced by rename; a folder is exchanged, then the
// old one removed.
#pragma once

#include <memory>

#include "exec/sink.h"

namespace dcp {

struct FileSpec {
  std::string name;    // inside the folder; "" where the output is one file
  uint64_t bytes = 0;  // final size
};

struct FileSetOptions {
  bool folder = false;
  Replace replace = Replace::kNo;
  bool sync = true;
};

// Throws at once, before anything is created, output_exists or io_create (no parent folder); output_busy if a live twin holds the lock;
// io_no_space if the space is not there. A partial left by a crash is removed and named in notes().
class FileSet : public Sink {
 public:
  FileSet(Io& io, std::string out, std::vector<FileSpec> files, FileSetOptions options);
  ~FileSet() override;
  void write(uint32_t file, uint64_t offset, Bytes bytes) override;
  void finish() override;
  void commit() override;
  void abort() noexcept override;
  const std::vector<std::string>& notes() const { return notes_; }  // for -v: leftovers removed, no space reservation

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::vector<std::string> notes_;
};

// What FileSet's constructor checks first, for --dry-run and for failing before any work: output_exists.
void check_output_free(Io& io, const std::string& out, bool folder, Replace replace);

}  // namespace dcp
