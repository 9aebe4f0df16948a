// Where the bytes of units come from. With one process, that is the files. With several ranks, it is the files that this rank sees, and
// messages with bytes that other ranks read. They must arrive in the order in which a worker asks for them, so this order is defined once
// (visit_reads).
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "catalog/data_files.h"
#include "items/resolve.h"
#include "plan/plan.h"

namespace dcp {

// The source of one worker. Throws what reading a file throws.
class PieceSource {
 public:
  virtual ~PieceSource() = default;
  // Returns `into`, filled, or a buffer of the source of the same size, writable and valid until the worker's next batch.
  virtual MutableBytes read(uint32_t file, uint64_t offset, MutableBytes into) = 0;
  // All bytes of an item from front to back, decoded (items/item_source.h: decode_item).
  virtual void decode(const Item& item, const Place& place, uint64_t cap, const std::function<void(Bytes)>& sink) = 0;
};

class FilePieces : public PieceSource {
 public:
  explicit FilePieces(DataFiles& files) : files_(files) {}
  MutableBytes read(uint32_t file, uint64_t offset, MutableBytes into) override;
  void decode(const Item& item, const Place& place, uint64_t cap, const std::function<void(Bytes)>& sink) override;

 private:
  DataFiles& files_;
};

// One unit to do. If another rank does the same unit and counts its sums, this rank only writes its output.
struct UnitTask {
  uint64_t ordinal = 0;
  bool counted_elsewhere = false;
};

// Units that one worker takes together, in order, and the source for them.
struct UnitBatch {
  std::vector<UnitTask> units;
  std::unique_ptr<PieceSource> pieces;
};

class RunSums;
class RunLosses;

// The units of a run. take() is called from any worker; batches are taken in order.
class UnitSupply {
 public:
  virtual ~UnitSupply() = default;
  virtual uint64_t batches() const = 0;
  virtual UnitBatch take(uint64_t batch) = 0;
  // True: other ranks do units of the same plan. Every rank writes all literals and all output of its units, and its sink keeps its own
  // part (Sink::keeps_own_part; a sink without parts, such as digests, only takes plans without literals and items). A unit, including its
  // items without elements, is dealt to every rank whose part it writes to. join() is called when the units are done: it gives every rank
  // the sums of all. Frames of items that no unit held whole need these sums, and are written after it.
  virtual bool is_shared() const { return false; }
  virtual void join(RunSums&, RunLosses&) {}
};

class MaxExtents;

// Receives the reads that a worker will request during a unit, in that order.
struct ReadVisitor {
  std::function<void(uint32_t file, uint64_t offset, uint64_t bytes)> read;
  std::function<void(const Item& item)> decode;
};
void visit_reads(const Plan& plan, const SourceFacts& source, const MaxExtents& extents, uint64_t unit, const ReadVisitor& visit);

// How a piece of a chunk is read: in spans, which cover the inner axes; the outer axes are stepped through index by index. Axes are the
// tensor's dims, or those of the chunk's view.
struct ChunkSpans {
  const ItemInfo* info = nullptr;
  ItemId item = 0;
  size_t rank = 0, outer = 0;            // axes order[outer..rank) are in each span
  uint64_t first = 0;                    // first element of the first span, counted from info->record
  uint64_t extent = 1;                   // elements from the first to the last of a span
  uint64_t count = 1;                    // elements of it that are wanted
  std::array<size_t, kMaxRank> order{};  // axes, slowest in the source first
  Numbers sizes{}, strides{};            // of the piece, and in the source; by axis
  Numbers to{};                          // by dim: the tensor's index of the first element
  Numbers steps{};                       // by axis: indices of its dim
  std::array<uint32_t, kMaxRank> dims{};
  uint64_t bytes() const { return extent * bytes_of(info->dtype); }
  // fn(element, index): for each span; `index` counts dims order[0..outer).
  template <class Fn>
  void each(const Fn& fn) const;
};
// What a unit reads from its part of a chunk, piece by piece: one piece, or a few if the part cuts axes of a view.
class ChunkReads {
 public:
  ChunkReads(const Plan& plan, const SourceFacts& source, const Tensor& tensor)
      : plan_(plan), catalog_(source.catalog), resolved_(source.resolved), tensor_(tensor) {}
  // fn(const ChunkSpans&)
  template <class Fn>
  void each(uint32_t chunk, BoxView part, const Fn& fn) const {
    const ItemId item = catalog_.item_of(tensor_, chunk);
    if (catalog_.items[item].file == kNone) return;  // zeros, which are already in place
    if (!resolved_.views.is_view(item)) return fn(of_box(chunk, part));
    const View& view = resolved_.views.of[item];
    cut_axes(resolved_.views.axes_of(view), catalog_.box(tensor_, chunk).offsets, part,
             [&](const AxisBox& cut) { each_part(chunk, view, cut, fn); });
  }

 private:
  ChunkSpans of_box(uint32_t chunk, BoxView part) const;
  ChunkSpans of_view(uint32_t chunk, const View& view, const AxisBox& cut) const;
  // Reads a transposed plane in parts that are still in the CPU cache when they are placed.
  template <class Fn>
  void each_part(uint32_t chunk, const View& view, AxisBox cut, const Fn& fn) const {
    const std::span<const ViewAxis> axes = resolved_.views.axes_of(view);
    uint64_t bytes = bytes_of(resolved_.items[catalog_.item_of(tensor_, chunk)].dtype);
    size_t slowest = 0;
    for (size_t a = 0; a < axes.size(); ++a) {
      bytes *= static_cast<uint64_t>(cut.count[a]);
      if (cut.count[a] > 1 && (cut.count[slowest] == 1 || axes[a].stride > axes[slowest].stride)) slowest = a;
    }
    if (bytes <= kViewPart) return fn(of_view(chunk, view, cut));
    AxisBox rest = cut;
    cut.count[slowest] /= 2;
    rest.first[slowest] += cut.count[slowest];
    rest.count[slowest] -= cut.count[slowest];
    each_part(chunk, view, cut, fn);
    each_part(chunk, view, rest, fn);
  }
  void join_axes(ChunkSpans& spans, bool strided) const;

  const Plan& plan_;
  const Catalog& catalog_;
  const Resolved& resolved_;
  const Tensor& tensor_;
};

// Steps through the first `count` of `sizes`, last fastest; false after the last index.
bool next_index(Numbers& index, const Numbers& sizes, size_t count);

template <class Fn>
void ChunkSpans::each(const Fn& fn) const {
  Numbers index{}, outer_sizes{};
  for (size_t i = 0; i < outer; ++i) outer_sizes[i] = sizes[order[i]];
  do {
    uint64_t element = first;
    for (size_t i = 0; i < outer; ++i) element += static_cast<uint64_t>(index[i] * strides[order[i]]);
    fn(element, index);
  } while (next_index(index, outer_sizes, outer));
}

}  // namespace dcp
