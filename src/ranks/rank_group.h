// The collective steps of a command, from opening the checkpoint to the end.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/digest.h"
#include "items/duplicates.h"
#include "items/resolve.h"
#include "plan/plan.h"
#include "ranks/file_visibility.h"
#include "ranks/session.h"

namespace dcp {

// The work of a rank, for the report.
struct RankWork {
  uint32_t rank = 0;
  uint64_t bytes_read = 0, bytes_sent = 0, bytes_written = 0;
  uint64_t nanoseconds = 0;
  uint64_t peak_bytes = 0;  // of memory
  uint64_t files_seen = 0;
};

// All ranks call every function, in the same order.
class RankGroup {
 public:
  explicit RankGroup(Session& session) : session_(session), tree_(session) {}
  Session& session() { return session_; }
  bool leads() const { return session_.rank() == 0; }
  const FileVisibility& visibility() const { return visibility_; }

  // Sends what rank 0 has opened, `mine`, to all ranks, which then look for its files. On other ranks `mine` is ignored.
  FrozenCatalog share(OpenedCatalog mine, Store& store, FollowLinks links);
  // Each rank resolves the items of the files that it reads; every rank gets all results.
  Resolved resolve(DataFiles& files, std::span<const TensorId> tensors, std::span<const BlobId> blobs, ResolveOptions options,
                   const StopFlag& stop);
  // Files that rank 0 cannot see but needs to open the checkpoint `path` (metadata_store.h); nullptr if there are none.
  std::unique_ptr<Store> gather_remote_metadata(Store& store, const std::string& path);
  // At rank 0: the contents of all copies of resolved items, read by all ranks, for comparison. At other ranks: nothing.
  ContentOf gather_contents(const Source& source, const Limits& limits);
  // Sends rank 0's texts to every rank.
  std::vector<std::string> broadcast_texts(const std::vector<std::string>& texts);
  // Throws ranks_differ unless all ranks have made the same plan.
  void check_same_plan(const Plan& plan);
  // At rank 0: the digests of all ranks; and all problems, each once.
  void gather_digests(DigestSink& sink);
  std::vector<Problem> gather_problems(std::vector<Problem> mine);
  // At rank 0: the work of all ranks, by rank.
  std::vector<RankWork> gather_work(RankWork mine, const std::string& host);
  std::vector<std::string> hosts() const { return hosts_; }
  // Sends rank 0's code to all ranks and returns it.
  int end(int code);

 private:
  // Whether this rank resolves the items of the file; `turn` is the rank that does if all see it.
  bool is_read_here(const Catalog& catalog, uint32_t file, uint32_t turn) const;

  Session& session_;
  RankTree tree_;
  FileVisibility visibility_;
  std::vector<std::string> hosts_;
};

}  // namespace dcp
