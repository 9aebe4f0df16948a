// New metadata for a checkpoint that stays where it is. Readers find the old one or the new one, and whatever interrupts the work the next
// run puts in order.
//
// The new one is written under a working name and renamed over the old one (file_set.h). Data files that only the new one names are made when
// it has reached the disk under that name; those that only the old one names go while the old one lies under another working name. So at any
// moment it can be told which files an interrupted run has left: those that metadata under a working name names, and `.metadata` does not.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/claim.h"
#include "exec/file_set.h"

namespace dcp {

class MetadataSwap {
 public:
  // Puts in order what an interrupted run has left. Throws output_busy while another dcpctl works on the folder.
  MetadataSwap(Io& io, const std::string& folder, bool sync);
  MetadataSwap(const MetadataSwap&) = delete;
  MetadataSwap& operator=(const MetadataSwap&) = delete;
  ~MetadataSwap();
  const std::vector<std::string>& found() const { return found_; }  // what an interrupted run left, and what became of it

  void begin(uint64_t metadata_bytes);
  void write(uint64_t offset, Bytes bytes) { set_->write(0, offset, bytes); }
  void metadata_is_complete();
  // A new data file of this size, to be written and synced by who asks for it. Removed if there is no commit.
  OpenFile make_data_file(const std::string& name, uint64_t bytes);

  // The new one gets its name. `keep`: the old one keeps another one, which is returned; "": there was none.
  std::string commit(bool keep);
  // The new one gets its name, and these data files, which it does not name, go.
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
