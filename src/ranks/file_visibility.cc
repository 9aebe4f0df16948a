#include "ranks/file_visibility.h"

#include <bit>
#include <span>

#include "catalog/structure.h"
#include "ranks/wire.h"

namespace dcp {
namespace {

constexpr int64_t kUnseen = -1;

// Of one file, or what several ranks know of it together.
struct Seen {
  int64_t bytes = kUnseen;
  bool differs = false;
};

std::vector<FileLook> found_together(const Catalog& catalog, std::span<const Seen> seen,
                                     std::span<const std::shared_ptr<const Problem>> faults) {
  std::vector<FileLook> found(seen.size());
  for (uint32_t f = 0; f < seen.size(); ++f) {
    const Place place{.path = catalog.file_path(f)};
    if (seen[f].differs) fail(ProblemId::file_seen_twice, place);
    if (seen[f].bytes != kUnseen) found[f].bytes = static_cast<uint64_t>(seen[f].bytes);
    else found[f].fault = faults[f] ? faults[f] : std::make_shared<const Problem>(make_problem(ProblemId::file_unseen, place));
  }
  return found;
}

}  // namespace

uint32_t FileVisibility::reader(uint32_t file, uint32_t for_rank) const {
  if (sees(for_rank, file)) return for_rank;
  uint32_t count = 0;
  for (uint64_t w = 0; w < words_; ++w) count += static_cast<uint32_t>(std::popcount(bits_[file * words_ + w]));
  if (count == 0) return for_rank;
  uint32_t wanted = file % count;
  for (uint32_t r = 0; r < world_; ++r)
    if (sees(r, file) && wanted-- == 0) return r;
  return for_rank;
}

uint64_t FileVisibility::files_seen(uint32_t rank) const {
  uint64_t count = 0;
  for (uint32_t f = 0; f < files(); ++f) count += sees(rank, f);
  return count;
}

FilesTogether look_together(RankTree& tree, Session& session, Store& store, const Catalog& catalog, FollowLinks links) {
  const std::vector<FileLook> mine = look_at_files(store, catalog, links);
  FileVisibility visibility;
  visibility.world_ = session.world_size();
  visibility.words_ = (session.world_size() + 63) / 64;
  visibility.bits_.assign(catalog.files.size() * visibility.words_, 0);
  std::vector<Seen> seen(catalog.files.size());
  std::vector<std::shared_ptr<const Problem>> faults(catalog.files.size());
  for (uint32_t f = 0; f < seen.size(); ++f) {
    faults[f] = mine[f].fault;
    if (!mine[f].bytes) continue;
    seen[f].bytes = static_cast<int64_t>(*mine[f].bytes);
    visibility.bits_[f * visibility.words_ + session.rank() / 64] |= uint64_t{1} << (session.rank() % 64);
  }
  const auto take = [&] {
    WireWriter out;
    out.array(seen);
    out.array(visibility.bits_);
    for (const auto& fault : faults) {
      out.number<bool>(fault != nullptr);
      if (fault) out.problem(*fault);
    }
    return out.take();
  };
  const auto read_faults = [&](WireReader& in) {
    for (auto& fault : faults) {
      if (!in.number<bool>()) continue;
      auto theirs = std::make_shared<const Problem>(in.problem());
      if (!fault) fault = std::move(theirs);
    }
  };
  tree.gather(
      [&](Bytes bytes) {
        WireReader in(bytes);
        const std::vector<Seen> theirs = in.array_of<Seen>(seen.size());
        const std::vector<uint64_t> bits = in.array_of<uint64_t>(visibility.bits_.size());
        for (size_t f = 0; f < seen.size(); ++f) {
          if (theirs[f].differs || (theirs[f].bytes != kUnseen && seen[f].bytes != kUnseen && theirs[f].bytes != seen[f].bytes))
            seen[f].differs = true;
          if (seen[f].bytes == kUnseen) seen[f].bytes = theirs[f].bytes;
        }
        for (size_t i = 0; i < bits.size(); ++i) visibility.bits_[i] |= bits[i];
        read_faults(in);
      },
      take);
  const std::vector<std::byte> all = tree.broadcast(session.rank() == 0 ? take() : std::vector<std::byte>());
  WireReader in(all);
  seen = in.array_of<Seen>(seen.size());
  visibility.bits_ = in.array_of<uint64_t>(visibility.bits_.size());
  faults.assign(faults.size(), nullptr);
  read_faults(in);
  std::vector<FileLook> found = found_together(catalog, seen, faults);
  return {std::move(visibility), std::move(found)};
}

}  // namespace dcp
