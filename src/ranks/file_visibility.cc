#include "ranks/file_visibility.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <span>

#include "base/sums.h"
#include "catalog/data_files.h"
#include "catalog/structure.h"
#include "ranks/wire.h"

namespace dcp {
namespace {

constexpr int64_t kUnseen = -1;

// What one rank knows about a file, or several ranks together.
struct Seen {
  int64_t bytes = kUnseen;
  uint64_t inode = 0;
  int64_t modified_ns = 0;
  bool has_copies = false;
  bool differs = false;

  void merge(const Seen& other) {
    if (other.bytes == kUnseen) return;
    if (bytes == kUnseen) return void(*this = other);
    has_copies = has_copies || other.has_copies || inode != other.inode || modified_ns != other.modified_ns;
    differs = differs || other.differs || bytes != other.bytes;
  }
};

// CRCs of the beginning and the end of a file; 0: this rank does not see it.
struct Sum {
  uint64_t crcs = 0;
  bool differs = false;

  void merge(const Sum& other) {
    differs = differs || other.differs || (crcs != 0 && other.crcs != 0 && crcs != other.crcs);
    if (crcs == 0) crcs = other.crcs;
  }
};

Sum sum_of(Store& store, const Catalog& catalog, uint32_t file, FollowLinks links) {
  const std::optional<Handle> handle = open_data_file(store, catalog, file, links);
  if (!handle) return {};
  const OpenFile open(store, *handle);
  const uint64_t bytes = store.facts(*handle).bytes;
  std::vector<std::byte> block(std::min<uint64_t>(bytes, 64 * kKiB));
  read_exact(store, *handle, 0, block);
  const uint64_t begin = crc32(block);
  read_exact(store, *handle, bytes - block.size(), block);
  return {.crcs = (begin << 32 | crc32(block)) + 1};
}

// Compares copies of files: a host's own disk may still hold a file of an older save.
void compare_copies(RankTree& tree, const Session& session, std::span<const uint32_t> files, const std::function<Sum(uint32_t)>& look,
                    std::vector<Seen>& seen) {
  if (files.empty()) return;
  std::vector<Sum> sums;
  for (const uint32_t f : files) sums.push_back(look(f));
  const auto take = [&] {
    WireWriter out;
    out.array(sums);
    return out.take();
  };
  tree.gather(
      [&](Bytes bytes) {
        const std::vector<Sum> theirs = WireReader(bytes).array_of<Sum>(sums.size());
        for (size_t i = 0; i < sums.size(); ++i) sums[i].merge(theirs[i]);
      },
      take);
  const std::vector<std::byte> all = tree.broadcast(session.rank() == 0 ? take() : std::vector<std::byte>());
  sums = WireReader(all).array_of<Sum>(sums.size());
  for (size_t i = 0; i < files.size(); ++i) seen[files[i]].differs = sums[i].differs;
}

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
    seen[f] = {.bytes = static_cast<int64_t>(*mine[f].bytes), .inode = mine[f].inode, .modified_ns = mine[f].modified_ns};
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
        for (size_t f = 0; f < seen.size(); ++f) seen[f].merge(theirs[f]);
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
  std::vector<uint32_t> copied;
  for (uint32_t f = 0; f < seen.size(); ++f)
    if (seen[f].has_copies && !seen[f].differs) copied.push_back(f);
  const auto look = [&](uint32_t f) { return mine[f].bytes ? sum_of(store, catalog, f, links) : Sum{}; };
  compare_copies(tree, session, copied, look, seen);
  std::vector<FileLook> found = found_together(catalog, seen, faults);
  return {std::move(visibility), std::move(found)};
}

}  // namespace dcp
