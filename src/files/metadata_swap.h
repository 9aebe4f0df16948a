// Replaces the metadata of a checkpoint in place. Readers find either the old or the new metadata, and the next run cleans up after any
// interruption.
//
// The new one is written under a working name and renamed over the old one (file_set.h). Data files that only the new one names are created
// after it has reached the disk under that name; those that only the old one names are removed while the old one still exists under another
// working name. So the files that an interrupted run left are always known: those named by metadata under a working name and not by
// `.metadata`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/claim.h"
#include "files/file_set.h"

namespace dcp {

class MetadataSwap {
 public:
  // Cleans up what an interrupted run left. Throws output_busy while another dcpctl works on the folder.
  MetadataSwap(Io& io, const std::string& folder, bool sync);
  MetadataSwap(const MetadataSwap&) = delete;
  MetadataSwap& operator=(const MetadataSwap&) = delete;
  ~MetadataSwap();
  const std::vector<std::string>& found() const { return found_; }  // what an interrupted run left, and what was done about it

  void begin(uint64_t metadata_bytes);
  void write(uint64_t offset, Bytes bytes) { set_->write(0, offset, bytes); }
  void metadata_is_complete();
  // Creates a data file of this size, which the caller writes and syncs. Removed unless there is a commit.
  OpenFile make_data_file(const std::string& name, uint64_t bytes);

  // Gives the new metadata its name. `keep`: the old metadata is kept under another name, which is returned; "": there was none.
  std::string commit(bool keep);
  // Gives the new metadata its name, and removes these data files, which it does not name.
  void commit_without(const std::vector<std::string>& files);

 private:
  void recover(const std::string& working_name);
  OpenFile open_old();
  bool is_still(const FileFacts& old) noexcept;
  std::string keep_original(Handle old);

  Io& io_;
  const std::string path_;
  const bool sync_;
  OpenFile inside_;
  ClaimedName claim_;
  std::vector<std::string> found_, made_;
  std::optional<FileSet> set_;
};

}  // namespace dcp
