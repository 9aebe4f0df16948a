#include "ranks/blocks.h"

#include <algorithm>

#include "base/working_names.h"
#include "exec/overlaps.h"

namespace dcp {
namespace {

// The stretches of the output that a unit writes into, each region's from its first to its last byte.
class Writes {
 public:
  Writes(const Plan& plan, const Catalog& catalog) : plan_(plan), catalog_(catalog), reach_(plan, catalog) {}

  // fn(file, begin, end)
  template <class Fn>
  void each(const Group& g, uint64_t k, const Fn& fn) {
    switch (g.kind) {
      case Group::Kind::kGrid:
        unit_box(plan_, catalog_, g, k, offsets_, sizes_);
        return box(g.first, {offsets_, sizes_}, fn);
      case Group::Kind::kBatch:
        for (uint32_t i = g.first; i < g.first + g.count; ++i) {
          const Dims dims = catalog_.dims(catalog_.tensors[plan_.tensors[i].id]);
          offsets_.assign(dims.size(), 0);
          box(i, {offsets_, dims}, fn);
        }
        return;
      case Group::Kind::kStream: {
        const Tensor& t = catalog_.tensors[plan_.tensors[g.first].id];
        return box(g.first, catalog_.box(t, static_cast<uint32_t>(k)), fn);
      }
      case Group::Kind::kCopy: {
        const CopyRange& c = plan_.copies[g.first];
        const uint64_t at = k * kPassBytes;
        return fn(c.file, c.file_offset + at, c.file_offset + std::min(at + kPassBytes, c.bytes));
      }
      case Group::Kind::kCheck: return;
    }
  }

 private:
  template <class Fn>
  void box(uint32_t tensor, BoxView box, const Fn& fn) {
    const PlanTensor& p = plan_.tensors[tensor];
    const size_t rank = box.sizes.size();
    const auto region_box = [&](uint32_t r) {
      const int64_t* n = plan_.numbers.data() + plan_.regions[r].box_at;
      return BoxView{{n, rank}, {n + rank, rank}};
    };
    visit_overlaps(p.first_region, p.first_region + p.region_count, reach_.regions(tensor), box, [&](uint32_t r) { return region_box(r).offsets; }, [&](uint32_t r) {
      Numbers offsets, sizes;
      const BoxView whole = region_box(r);
      if (!intersect(box, whole, offsets.data(), sizes.data())) return;
      const Numbers strides = row_major(whole.sizes);
      uint64_t first = 0, last = 0;
      for (size_t d = 0; d < rank; ++d) {
        first += static_cast<uint64_t>((offsets[d] - whole.offsets[d]) * strides[d]);
        last += static_cast<uint64_t>((offsets[d] - whole.offsets[d] + sizes[d] - 1) * strides[d]);
      }
      const Region& region = plan_.regions[r];
      const uint64_t element = bytes_of(region.dtype);
      // An item that is written whole goes with its frame.
      fn(region.file, region.file_offset + first * element - region.head, region.file_offset + (last + 1) * element + region.tail);
    });
  }
  const Plan& plan_;
  const Catalog& catalog_;
  const Reach reach_;
  std::vector<int64_t> offsets_, sizes_;
};

}  // namespace

Blocks::Blocks(const Plan& plan, uint32_t world_size) {
  before_.push_back(0);
  for (const OutputFile& f : plan.files) before_.push_back(before_.back() + (f.bytes + kBytes - 1) / kBytes);
  each_ = std::max<uint64_t>((before_.back() + world_size - 1) / world_size, 1);
}

uint32_t Blocks::owner(uint32_t file, uint64_t offset) const { return static_cast<uint32_t>((before_[file] + offset / kBytes) / each_); }

std::pair<uint64_t, uint64_t> Blocks::part(uint32_t rank, uint32_t file) const {
  const auto in_file = [&](uint64_t block) { return std::clamp(block, before_[file], before_[file + 1]) - before_[file]; };
  return {in_file(rank * each_) * kBytes, in_file((rank + uint64_t{1}) * each_) * kBytes};
}

Dealing deal_by_blocks(const Plan& plan, const Catalog& catalog, const Blocks& blocks, uint32_t world_size) {
  Dealing dealing(world_size);
  Writes writes(plan, catalog);
  std::vector<uint32_t> ranks;
  for (const Group& g : plan.groups) {
    for (uint64_t k = 0; k < g.units; ++k) {
      ranks.clear();
      writes.each(g, k, [&](uint32_t file, uint64_t begin, uint64_t end) {
        for (uint32_t r = blocks.owner(file, begin); r <= blocks.owner(file, end - 1); ++r)
          if (std::ranges::find(ranks, r) == ranks.end()) ranks.push_back(r);
      });
      const uint64_t unit = g.first_unit + k;
      if (ranks.empty()) ranks.push_back(static_cast<uint32_t>(unit % world_size));
      for (size_t i = 0; i < ranks.size(); ++i) dealing[ranks[i]].push_back({.ordinal = unit, .guest = i > 0});
    }
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

SharedFiles::SharedFiles(Io& io, const std::vector<std::string>& shared, const std::vector<uint64_t>& bytes, bool sync) : io_(io), sync_(sync) {
  const auto refuse = [&](const std::string& path, std::string got, const std::string& expected) {
    Problem p = make_problem(ProblemId::io_create, {.path = path}, std::move(got), expected + " that rank 0 has made");
    p.hint = "--gather none needs an output that all ranks share; --gather rank0 does not";
    throw Error(std::move(p));
  };
  const auto is_told = [&](size_t n, Handle file) { return shared[n + 1] == std::to_string(io.facts(file).id.inode); };
  if (shared.size() != 2 * (2 + bytes.size())) fail(ProblemId::internal, {}, "another number of files");
  OpenFile folder(io, io.open_folder(without_trailing_slashes(shared[0])));
  // A file system that numbers its files anew on each host does so with this folder, which nobody has just made, too.
  const bool same_numbers = io.keeps_ids(folder.get()) && is_told(0, folder.get());
  if (!shared[2].empty()) {
    const std::optional<Handle> inside = io.open_folder(folder.get(), shared[2]);
    if (!inside) refuse(shared[0] + shared[2], "no such folder", "the folder");
    folder = OpenFile(io, *inside);
    if (same_numbers && !is_told(2, folder.get())) refuse(io.name_of(folder.get()), "another folder", "the folder");
  }
  for (size_t f = 0; f < bytes.size(); ++f) {
    const std::string& name = shared[4 + 2 * f];
    const std::string expected = "the file of " + std::to_string(bytes[f]) + " bytes";
    const std::optional<Handle> file = io.open_write(folder.get(), name);
    if (!file) refuse(io.name_of(folder.get()) + "/" + name, "no such file", expected);
    files_.emplace_back(io, *file);
    const uint64_t found = io.facts(*file).bytes;
    if (found != bytes[f]) refuse(io.name_of(*file), std::to_string(found) + " bytes", expected);
    if (same_numbers && !is_told(4 + 2 * f, *file)) refuse(io.name_of(*file), "another file", expected);
  }
}

void SharedFiles::finish() {
  if (sync_)
    for (const OpenFile& f : files_) io_.sync(f.get());
}

}  // namespace dcp
