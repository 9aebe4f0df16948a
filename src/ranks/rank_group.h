// The steps of a command that ranks take together, between opening the checkpoint and the end.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "catalog/duplicates.h"
#include "catalog/resolve.h"
#include "exec/digest.h"
#include "plan/plan.h"
#include "ranks/file_visibility.h"
#include "ranks/tree.h"

namespace dcp {

// What a rank did, for the report.
struct RankWork {
  uint32_t rank = 0;
  uint64_t bytes_read = 0, bytes_sent = 0, bytes_written = 0;
  uint64_t nanoseconds = 0;
  uint64_t peak_bytes = 0;  // of memory
  uint64_t files_seen = 0;
};

// Every function is called by all ranks, in the same order.
class RankGroup {
 public:
  explicit RankGroup(Session& session) : session_(session), tree_(session) {}
  Session& session() { return session_; }
  bool leads() const { return session_.rank() == 0; }
  const FileVisibility& visibility() const { return visibility_; }

  // `mine`: what rank 0 has opened; that of the others is not looked at. Then all look for its files.
  OpenedCatalog share(OpenedCatalog mine, Io& io, FollowLinks links);
  // Each rank looks into the items of the files that it is the reader of; all get all.
  Resolved resolve(DataFiles& files, std::span<const TensorId> tensors, std::span<const BlobId> blobs, ResolveOptions options,
                   const StopFlag& stop);
  // Files that rank 0 cannot see but needs to open the checkpoint `path` (metadata_io.h); nullptr if there are none.
  std::unique_ptr<Io> gather_remote_metadata(Io& io, const std::string& path);
  // At rank 0 what all ranks read of the copies of items that are resolved, for it to compare; at others nothing.
  ContentOf gather_contents(const Source& source, const Limits& limits);
  // Sends rank 0's texts to every rank.
  std::vector<std::string> broadcast_texts(const std::vector<std::string>& texts);
  // Throws ranks_differ unless all ranks have made the same plan.
  void check_same_plan(const Plan& plan);
  // At rank 0 the digests of all; and all problems, each once.
  void gather_digests(DigestSink& sink);
  std::vector<Problem> gather_problems(std::vector<Problem> mine);
  // At rank 0 that of all ranks, by rank.
  std::vector<RankWork> gather_work(RankWork mine, const std::string& host);
  std::vector<std::string> hosts() const { return hosts_; }
  // Rank 0's code, to all.
  int end(int code);

 private:
  // Whether this rank looks into items of the file; `turn`: the rank that does where all see it.
  bool is_read_here(const Catalog& catalog, uint32_t file, uint32_t turn) const;

  Session& session_;
  RankTree tree_;
  FileVisibility visibility_;
  std::vector<std::string> hosts_;
};

}  // namespace dcp
