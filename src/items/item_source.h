// ItemSource over files: a slice of a data file behind two small windows, or the decoded stream of a transformed item.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/store.h"
#include "catalog/data_files.h"
#include "format/torch_item.h"

namespace dcp {

// Items of one data file in ascending order of offset. `go_to` fetches the needed parts of an item in as few reads as possible: a small
// item as a whole, together with the small ones that follow; of a large one its head, and its tail together with the next head.
class SliceSource : public ItemSource {
 public:
  static constexpr uint64_t kSmallItem = 64 * 1024;
  // `small`: an item up to this size is read as a whole.
  SliceSource(DataFiles& files, uint32_t file, uint64_t small = kSmallItem)
      : store_(files.store()),
        file_(files.open(file)),
        file_bytes_(*files.catalog().files[file].bytes),
        small_(small),
        files_(&files),
        number_(file) {}
  SliceSource(Store& store, std::shared_ptr<const OpenFile> file, uint64_t file_bytes)
      : store_(store), file_(std::move(file)), file_bytes_(file_bytes) {}
  // Adds what is read of an item by itself.
  static void parts_of(const Item& item, std::vector<Item>& parts);
  // `run_end`: end of the last item that follows closely and will be asked for too.
  void go_to(uint64_t offset, uint64_t length, uint64_t run_end);
  uint64_t size() const override { return length_; }
  Bytes at(uint64_t offset, uint64_t length) override;
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  struct Window {
    uint64_t begin = 0;
    std::vector<std::byte> bytes;
    bool holds(uint64_t offset, uint64_t length) const { return offset >= begin && offset + length <= begin + bytes.size(); }
  };
  // Up to `end`, at least up to `needed`.
  void fill(Window& window, uint64_t begin, uint64_t needed, uint64_t end);

  Store& store_;
  std::shared_ptr<const OpenFile> file_;
  uint64_t file_bytes_;
  uint64_t small_ = kSmallItem;
  const DataFiles* files_ = nullptr;  // if it is one of a checkpoint's
  uint32_t number_ = kNone;
  uint64_t offset_ = 0;
  uint64_t length_ = 0;
  std::array<Window, 3> windows_;  // head of this item, its tail (and the next head), anything else
  uint64_t bytes_read_ = 0;
};

// An archive in memory.
class MemorySource : public ItemSource {
 public:
  explicit MemorySource(Bytes bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Bytes at(uint64_t offset, uint64_t length) override { return bytes_.subspan(offset, length); }

 private:
  Bytes bytes_;
};

// The decoded bytes of a transformed item that its facts need: the first and the last kKept bytes. The rest is decoded and dropped; an
// archive whose directory or pickle lies in between is refused (torch writes the pickle first and the directory last).
class EndsSource : public ItemSource {
 public:
  static constexpr uint64_t kKept = 1 << 20;
  explicit EndsSource(Place place) : place_(std::move(place)) {}
  void append(Bytes bytes);
  uint64_t size() const override { return size_; }
  Bytes at(uint64_t offset, uint64_t length) override;

 private:
  Place place_;
  uint64_t size_ = 0;
  std::vector<std::byte> head_;
  std::vector<std::byte> tail_;  // the last bytes, at most 2 * kKept
};

// Streams the decoded bytes of an item from front to back; without a transform, its bytes as they are. The arguments must outlive it.
class ItemDecoder {
 public:
  // Decodes at most `cap` bytes in all. Throws transform_unknown.
  ItemDecoder(DataFiles& files, const Item& item, const Place& place, uint64_t cap);
  ~ItemDecoder();
  ItemDecoder(const ItemDecoder&) = delete;
  ItemDecoder& operator=(const ItemDecoder&) = delete;
  // Fills `out`; returns less only at the end. Throws zstd_*, deflate_broken.
  size_t read(MutableBytes out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Streams the whole item to `sink` in blocks. Throws what ItemDecoder throws.
void decode_item(DataFiles& files, const Item& item, const Place& place, uint64_t cap, const std::function<void(Bytes)>& sink);

}  // namespace dcp
