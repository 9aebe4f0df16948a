#include "ranks/blocks.h"

#include <algorithm>

#include "base/file_names.h"
#include "exec/unit_walk.h"

namespace dcp {
namespace {

// Calls fn(file, begin, end) for the stretches of the output that a unit's steps write: in each region, from the first to the last byte.
template <class Fn>
struct Writes {
  const Plan& plan;
  const Catalog& catalog;
  const MaxExtents& extents;
  const Fn& fn;

  void begin_batch(const Group&) {}
  void end_batch() {}
  void empty_items(uint32_t tensor) {
    const PlanTensor& p = plan.tensors[tensor];
    for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r)
      if (const Region& region = plan.regions[r]; region.is_item() && plan.payload_bytes(region) == 0) item(region, 0, 0);
  }
  void box(uint32_t tensor, BoxView box) {
    each_region(extents, tensor, box, [&](uint32_t r, BoxView part) {
      const Region& region = plan.regions[r];
      const BoxView whole = plan.box(region);
      const Numbers strides = row_major(whole.sizes);
      uint64_t first = 0, last = 0;
      for (size_t d = 0; d < region.rank; ++d) {
        first += static_cast<uint64_t>((part.offsets[d] - whole.offsets[d]) * strides[d]);
        last += static_cast<uint64_t>((part.offsets[d] - whole.offsets[d] + part.sizes[d] - 1) * strides[d]);
      }
      item(region, first * bytes_of(region.dtype), (last + 1) * bytes_of(region.dtype));
    });
  }
  void stream(uint32_t tensor, uint32_t chunk) { box(tensor, catalog.box(catalog.tensors[plan.tensors[tensor].id], chunk)); }
  void scatter_record(const Group& g) {
    for (uint32_t n = g.first; n < g.first + g.count; ++n) stream(plan.scattered[n].tensor, plan.scattered[n].chunk);
  }
  void copy(uint32_t range, uint64_t at, uint64_t bytes) {
    const CopyRange& c = plan.copies[range];
    fn(c.file, c.file_offset + at, c.file_offset + at + bytes);
  }
  void copy_deflated(uint32_t range) { copy(range, 0, plan.copies[range].bytes); }
  void check(const Group&, uint32_t, uint64_t, uint64_t) {}
  void check_decoded(const Group&) {}

 private:
  // Bytes [begin, end) of a payload; an item that is written whole includes its frame.
  void item(const Region& r, uint64_t begin, uint64_t end) const {
    fn(r.file, r.file_offset + begin - r.head, r.file_offset + end + r.tail);
  }
};

}  // namespace

Blocks::Blocks(const Plan& plan, uint32_t world_size, uint64_t block_bytes) : block_bytes_(block_bytes) {
  before_.push_back(0);
  for (const OutputFile& f : plan.files) before_.push_back(before_.back() + (f.bytes + block_bytes_ - 1) / block_bytes_);
  each_ = std::max<uint64_t>((before_.back() + world_size - 1) / world_size, 1);
}

uint32_t Blocks::owner(uint32_t file, uint64_t offset) const {
  return static_cast<uint32_t>((before_[file] + offset / block_bytes_) / each_);
}

std::pair<uint64_t, uint64_t> Blocks::part(uint32_t rank, uint32_t file) const {
  const auto in_file = [&](uint64_t block) { return std::clamp(block, before_[file], before_[file + 1]) - before_[file]; };
  return {in_file(rank * each_) * block_bytes_, in_file((rank + uint64_t{1}) * each_) * block_bytes_};
}

Dealing deal_by_blocks(const Plan& plan, const Catalog& catalog, const Blocks& blocks, uint32_t world_size) {
  Dealing dealing(world_size);
  const MaxExtents extents(plan, catalog);
  std::vector<uint32_t> ranks;
  const auto note = [&](uint32_t file, uint64_t begin, uint64_t end) {
    for (uint32_t r = blocks.owner(file, begin); r <= blocks.owner(file, end - 1); ++r)
      if (std::ranges::find(ranks, r) == ranks.end()) ranks.push_back(r);
  };
  for (uint64_t unit = 0; unit < plan.units; ++unit) {
    ranks.clear();
    walk_unit(plan, catalog, unit, Writes<decltype(note)>{plan, catalog, extents, note});
    if (ranks.empty()) ranks.push_back(static_cast<uint32_t>(unit % world_size));
    for (size_t i = 0; i < ranks.size(); ++i) dealing[ranks[i]].push_back({.ordinal = unit, .counted_elsewhere = i > 0});
  }
  return dealing;
}

Dealing deal_to_rank0(const Plan& plan, uint32_t world_size) {
  Dealing dealing(world_size);
  dealing[0].resize(plan.units);
  for (uint64_t u = 0; u < plan.units; ++u) dealing[0][u].ordinal = u;
  return dealing;
}

void ClippedSink::write(uint32_t file, uint64_t offset, Bytes bytes) {
  const auto [first, last] = blocks_.part(rank_, file);
  const uint64_t begin = std::max(first, offset), end = std::min(last, offset + bytes.size());
  if (begin < end) sink_.write(file, begin, bytes.subspan(begin - offset, end - begin));
}

SharedFiles::SharedFiles(Io& io, const std::vector<std::string>& shared, const std::vector<uint64_t>& bytes, bool sync)
    : io_(io), sync_(sync) {
  const auto refuse = [&](const std::string& path, std::string got, const std::string& expected) {
    throw Error(with_remedy(make_problem(ProblemId::io_create, {.path = path}, std::move(got), expected + " that rank 0 has made"),
                            Remedy::kSharedOutput));
  };
  const auto is_as_shared = [&](size_t n, Handle file) { return shared[n + 1] == std::to_string(io.facts(file).id.inode); };
  if (shared.size() != 2 * (2 + bytes.size())) fail(ProblemId::internal, {}, "another number of files");
  OpenFile folder(io, io.open_folder(without_trailing_slashes(shared[0])));
  // If the file system assigns inode numbers for each host, the number of this folder, which existed before, differs as well.
  const bool same_numbers = io.write_capabilities(folder.get()).keeps_ids && is_as_shared(0, folder.get());
  if (!shared[2].empty()) {
    const std::optional<Handle> inside = io.open_folder(folder.get(), shared[2]);
    if (!inside) refuse(shared[0] + shared[2], "no such folder", "the folder");
    folder = OpenFile(io, *inside);
    if (same_numbers && !is_as_shared(2, folder.get())) refuse(io.name_of(folder.get()), "another folder", "the folder");
  }
  for (size_t f = 0; f < bytes.size(); ++f) {
    const std::string& name = shared[4 + 2 * f];
    const std::string expected = "the file of " + std::to_string(bytes[f]) + " bytes";
    const std::optional<Handle> file = io.open_write(folder.get(), name);
    if (!file) refuse(io.name_of(folder.get()) + "/" + name, "no such file", expected);
    files_.emplace_back(io, *file);
    const uint64_t found = io.facts(*file).bytes;
    if (found != bytes[f]) refuse(io.name_of(*file), std::to_string(found) + " bytes", expected);
    if (same_numbers && !is_as_shared(4 + 2 * f, *file)) refuse(io.name_of(*file), "another file", expected);
  }
}

void SharedFiles::finish(const std::function<void()>& between) {
  if (sync_)
    for (const OpenFile& f : files_) sync_all(io_, f.get(), between);
}

}  // namespace dcp
