// What one worker does with one unit: assembles the unit's box of the global tensor from the source chunks that it crosses, then writes
// it to the output regions that it crosses. Streams, verbatim copies and CRC passes are the other kinds of unit.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "catalog/data_files.h"
#include "exec/decoded_records.h"
#include "exec/execute.h"
#include "exec/pieces.h"
#include "exec/sums.h"
#include "exec/unit_walk.h"
#include "format/torch_archive.h"

namespace dcp {

// Used if other ranks do units of the same plan as well.
struct SharedRun {
  RunSums uncounted_sums;  // of units that another rank counts
  RunLosses uncounted_losses;
  // By region: whether a unit of this rank wrote the whole item, with its frame. Other frames need the sums of all ranks.
  std::vector<std::atomic<bool>> framed;
  SharedRun(const Plan& plan, const Catalog& catalog)
      : uncounted_sums(plan, catalog), uncounted_losses(plan), framed(plan.regions.size()) {}
};

// Everything that the workers of a run share. All of it is const except sums, losses, sink and counters, which are thread-safe.
struct Run {
  const Plan& plan;
  const SourceFacts source;
  Sink& sink;
  RunSums& sums;
  RunLosses& losses;
  SharedRun* shared;  // nullptr: this process does all units, and frames of items are written with their last byte
  Progress& progress;
  ConvertOptions cast;  // of values that leave the metadata's dtype
  const MaxExtents& extents;
};

// Receives the boxes that a worker assembles, instead of the plan's regions. They are row-major, in the dtype of the tensor's regions.
class BoxTaker {
 public:
  virtual ~BoxTaker() = default;
  virtual void take(uint32_t tensor, BoxView box, Bytes elements) = 0;
};

class Worker {
 public:
  // `taker`: receives the boxes; nullptr: they are written to the plan's regions.
  explicit Worker(Run& run, BoxTaker* taker = nullptr)
      : run_(run), catalog_(run.source.catalog), resolved_(run.source.resolved), taker_(taker) {}
  // All units of a batch, in order.
  void batch(const UnitBatch& batch);

  // Reads a box of a tensor that a unit of another source asks for. Bytes of transformed items come from `decoded`.
  Bytes read_box(PieceSource& pieces, DecodedRecords& decoded, uint32_t tensor, BoxView box);

  // --- steps of a unit (walk_unit)
  void begin_batch(const Group& group);
  void end_batch();
  void empty_items(uint32_t tensor);
  void box(uint32_t tensor, BoxView box);
  void stream(uint32_t tensor, uint32_t chunk);
  void scatter_record(const Group& group);
  void copy(uint32_t range, uint64_t at, uint64_t bytes);
  void copy_deflated(uint32_t range);
  void check(const Group& group, uint32_t file, uint64_t at, uint64_t bytes);
  void check_decoded(const Group& group);

  uint64_t buffer_bytes() const {
    uint64_t bytes = 0;
    for (const Buffer* b : {&assembled_, &source_, &converted_, &cast_, &packed_, &dense_, &item_, &gathered_}) bytes += b->bytes();
    return bytes;
  }

 private:
  // A buffer that grows, never shrinks, and is not zeroed.
  class Buffer {
   public:
    MutableBytes first(uint64_t bytes);
    uint64_t bytes() const { return bytes_; }

   private:
    std::unique_ptr<std::byte[]> data_;
    uint64_t bytes_ = 0;
  };
  // The box of one tensor, row-major: in the metadata's dtype while pieces are placed into it, then in the output's.
  struct Assembly {
    BoxView box;
    DType dtype{};
    Numbers strides{};
    MutableBytes bytes;
    bool wants_raw = false;
    uint32_t raw = 0;        // raw CRC of the bytes of the box that came straight from source runs
    uint64_t raw_bytes = 0;  // how many did
    bool in_place = false;   // they are the output's own memory
  };
  // Where the spans of a part of a chunk go in the box.
  struct Piece {
    const ChunkSpans& spans;
    size_t inner = 0;        // dims of a span
    Numbers sizes{};         // of them, slowest in the source first
    Numbers from_strides{};  // elements
    Numbers to_strides{};
    bool dense_to = false;  // a span is one run on both sides
  };

  // The output of the current batch: adjacent bytes of a file are written together.
  struct Gather {
    struct Run {
      uint32_t file = 0;
      uint64_t file_offset = 0;
      uint64_t at = 0;  // in `bytes`
      uint64_t bytes = 0;
    };
    bool on = false;
    uint32_t first_region = 0;
    std::vector<uint64_t> at;     // by region from the first on: position in `bytes`
    std::vector<uint32_t> order;  // the same regions by place
    std::vector<Run> runs;
    MutableBytes bytes;  // of gathered_
  };

  void copy_part(uint32_t range, uint64_t at, Bytes data);
  void add_parts(std::span<const ItemRecord>& records, uint64_t at, Bytes data);

  // --- from source chunks into the box
  Assembly assembly(uint32_t tensor, BoxView box);
  MutableBytes memory_of(uint32_t tensor, BoxView box) const;
  Assembly assemble(uint32_t tensor, BoxView box);
  MutableBytes read_span(ItemId item, uint64_t at, MutableBytes into);  // `at`: in the item's record
  void place_piece(Assembly& a, const ChunkSpans& spans);
  void place_span(Assembly& a, const Piece& p, uint64_t element, uint64_t to);

  // --- from the box to output regions
  void scatter(uint32_t tensor, const Assembly& a);
  void write_part(const Assembly& a, uint32_t region, BoxView part);
  void write_whole(const Assembly& a, uint32_t region);
  void write_item_frame(uint32_t region);

  // --- stream.cc
  // Streams the bytes of an item's record from front to back, and sums them if units count them.
  void decode_record(ItemId item, const std::function<void(Bytes)>& sink);
  // A part of a record in memory, in the dtype of its target tensors: elements [first, first + count).
  struct Window {
    Bytes elements;
    uint64_t first = 0, count = 0;
    bool whole = false;      // all of the record
    uint64_t box_bytes = 0;  // scattered at a time
  };
  void scatter_window(const Scattered& to, const Window& window);
  struct Strided {
    const std::byte* from;
    Dims strides;
  };
  void scatter_box(uint32_t tensor, Numbers offsets, Numbers sizes, const Strided& elements, uint64_t max_bytes);

  MutableBytes read(uint32_t file, uint64_t offset, MutableBytes into);
  void write(uint32_t file, uint64_t offset, Bytes bytes);
  // Converts `elements` stored elements to `to`: byte order, conj, neg, dtype. Returns them, in `bytes` or in converted_.
  MutableBytes finish_elements(const ItemInfo& info, MutableBytes bytes, uint64_t elements, DType to);
  // Casts from the metadata's dtype to the output's and adds to the tensor's losses. Returns the elements, in `bytes` or in cast_.
  MutableBytes cast_elements(uint32_t tensor, MutableBytes bytes, uint64_t elements, DType from);

  Run& run_;
  const Catalog& catalog_;
  const Resolved& resolved_;
  BoxTaker* taker_;
  DecodedRecords* decoded_ = nullptr;  // in read_box() only
  PieceSource* pieces_ = nullptr;      // of the current batch
  RunSums* sums_ = nullptr;            // that count the current unit
  RunLosses* losses_ = nullptr;
  Buffer assembled_, source_, converted_, cast_, packed_, dense_, item_, gathered_;
  Gather gather_;
  TensorItemFrames frames_;
};

}  // namespace dcp
