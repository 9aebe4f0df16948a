// Reads tensors and objects of one checkpoint into the caller's memory: many parts by one plan, from several threads at once.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/stages.h"
#include "catalog/box.h"
#include "files/sink.h"

namespace dcp {

// A sink for plans with one file: writes to a buffer.
class BufferSink final : public PassingSink {
 public:
  explicit BufferSink(MutableBytes to) : to_(to) {}
  void write(uint32_t, uint64_t offset, Bytes bytes) override;

 private:
  MutableBytes to_;
};

struct CheckpointReaderOptions {
  SourceRequest source;
  SelectOptions select;
  MapRequest map;
  uint64_t extra_memory = 0;  // bytes, on top of what the process holds when a call begins
  unsigned threads = 0;       // 0: the default
};

class CheckpointReader {
 public:
  // Reads the metadata, and for a map the headers of the items that it reads. Throws what opening, selecting and resolving throw. Of
  // `world`, the store is used for as long as the reader lives.
  CheckpointReader(const CheckpointReaderOptions& options, World& world);

  const Catalog& catalog() const { return ready_.catalog(); }  // of the map's result, or of the source
  bool has_map() const { return ready_.derived != nullptr; }
  // The keys that are read, in the metadata's order, under the names that the options give them.
  const std::vector<Entry>& entries() const { return selected_.selection.entries; }
  std::vector<PathPart> path(const Entry& entry) const;

  // A part of a tensor: its elements go to `to`, little-endian.
  struct Part {
    uint32_t entry = 0;
    std::optional<std::vector<SliceAxis>> axes;  // nullopt: the whole tensor
    DType dtype{};                               // of the memory
    std::byte* to = nullptr;                     // of the first element
    std::vector<int64_t> strides;                // by axis that is kept, in bytes
  };
  struct Report {
    uint64_t bytes_read = 0;
    uint64_t records_compared = 0, records_not_compared = 0;
  };
  // Callable from any thread, with a world of the call's own. Throws usage for a conversion that is not between floats, cast_opaque, the
  // first CRC that differs, and what resolving and reading throw. For whole tensors every CRC is compared; for parts those of the records
  // that they cover. The first read also compares what a map ties: map_tied_differ.
  Report read(const std::vector<Part>& parts, unsigned threads, World& world);

  // A torch.save file of an object. For an item that is stored by itself: the item as it is, its CRCs compared.
  std::vector<std::byte> object_file(const Entry& object, World& world);
  // The object's pickle. Throws what resolving throws.
  BlobItem object(const Entry& object, World& world);
  Limits limits() const { return ready_.opened.limits(); }

 private:
  struct Work;
  Opened opened() const;  // for one call
  Resolved resolve_objects(const Entry& object, const Opened& opened, World& world);
  const Tensor& tensor_of(const Part& part) const { return catalog().tensors[entries()[part.entry].tensor()]; }
  BoxView box_of(const Part& part, Numbers& offsets, Numbers& sizes) const;
  void check(const Part& part) const;
  // What is in the items that hold the parts, and how much was read to know it.
  std::shared_ptr<const Resolved> known(const std::vector<Part>& parts, const Opened& opened, World& world, uint64_t& bytes_read);
  void keep(Resolved found);
  bool is_needed(const Part& part, const Tensor& tensor, uint32_t chunk) const;
  void plan_others(const std::vector<Part>& parts, const SourceFacts& source, Work& work) const;
  Derived derived_of(const std::vector<Part>& parts, const SourceFacts& source) const;

  const uint64_t extra_memory_;
  Ready ready_;
  Selected selected_;
  std::once_flag ties_once_;               // a read has found that what the map ties is equal
  std::mutex mutex_;                       // the rest
  std::shared_ptr<const Resolved> known_;  // of the source's items, as far as they were needed; never changed, only replaced
  std::vector<bool> whole_;                // by tensor: check_whole() has passed
};

}  // namespace dcp
