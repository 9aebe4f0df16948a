#include "catalog/item_source.h"

#include <algorithm>
#include <deque>

#include "base/checked.h"
#include "format/inflate.h"
#include "format/zstd_stream.h"

namespace dcp {
namespace {

// torch's own head (local header, data.pkl, the next headers) ends before 832, its tail (directory and end records) within 800.
constexpr uint64_t kEnds = 1024;
constexpr uint64_t kSmallItem = 64 * 1024;
constexpr uint64_t kReadAhead = 256 * 1024;

}  // namespace

void SliceSource::fill(Window& window, uint64_t begin, uint64_t end) {
  end = std::min(end, file_bytes_);
  window.begin = begin;
  window.bytes.resize(end - begin);
  read_exact(io_, file_->get(), begin, window.bytes);
  bytes_read_ += end - begin;
}

void SliceSource::go_to(uint64_t offset, uint64_t length, uint64_t run_end) {
  offset_ = offset;
  length_ = length;
  if (windows_[1].holds(offset, std::min(length, kEnds))) std::swap(windows_[0], windows_[1]);
  const uint64_t end = offset + length;
  if (length <= kSmallItem) {
    if (!windows_[0].holds(offset, length)) fill(windows_[0], offset, std::max(end, std::min(run_end, offset + kReadAhead)));
    return;
  }
  if (!windows_[0].holds(offset, kEnds)) fill(windows_[0], offset, offset + kEnds);
  if (!windows_[1].holds(end - kEnds, kEnds)) fill(windows_[1], end - kEnds, std::max(end, std::min(run_end, end + kEnds)));
}

Bytes SliceSource::at(uint64_t offset, uint64_t length) {
  const uint64_t begin = offset_ + offset;
  for (const Window& w : windows_)
    if (w.holds(begin, length)) return Bytes(w.bytes).subspan(begin - w.begin, length);
  fill(windows_[2], begin, begin + length);
  return windows_[2].bytes;
}

void EndsSource::append(Bytes bytes) {
  size_ += bytes.size();
  const uint64_t to_head = std::min<uint64_t>(kKept - head_.size(), bytes.size());
  head_.insert(head_.end(), bytes.begin(), bytes.begin() + static_cast<int64_t>(to_head));
  tail_.insert(tail_.end(), bytes.begin(), bytes.end());
  if (tail_.size() > 2 * kKept) tail_.erase(tail_.begin(), tail_.end() - static_cast<int64_t>(kKept));
}

Bytes EndsSource::at(uint64_t offset, uint64_t length) {
  if (offset + length <= head_.size()) return Bytes(head_).subspan(offset, length);
  const uint64_t tail_begin = size_ - tail_.size();
  if (offset >= tail_begin) return Bytes(tail_).subspan(offset - tail_begin, length);
  Place place = place_;
  place.offset = offset;
  fail(ProblemId::over_limit, place, "a pickle or directory " + std::to_string(offset) + " bytes into a transformed item",
       "within its first or last " + std::to_string(kKept) + " bytes");
}

void decode_item(DataFiles& files, const Item& i, const Place& place, uint64_t cap, const std::function<void(Bytes)>& sink) {
  const bool deflated = i.transforms == Item::kDeflated;
  const std::vector<std::string>& transforms = files.catalog().transforms[deflated ? 0 : i.transforms];
  for (const std::string& t : transforms)
    if (t != "stream.zstd/1" && t != "stream.zstd") fail(ProblemId::transform_unknown, place, t, "stream.zstd/1");
  const auto file = files.open(i.file);
  uint64_t at = i.offset;
  const uint64_t end = i.offset + i.length;
  std::vector<std::byte> packed(kReadAhead), block(kReadAhead);
  const auto pull = [&] {
    const MutableBytes part = MutableBytes(packed).first(std::min<uint64_t>(packed.size(), end - at));
    if (!part.empty()) read_exact(files.io(), file->get(), at, part);
    at += part.size();
    return Bytes(part);
  };
  if (deflated) {
    InflateReader reader(pull, place, cap);
    while (const size_t n = reader.read(block)) sink(Bytes(block).first(n));
    return;
  }
  if (transforms.empty()) {
    while (at < end) sink(pull());
    return;
  }
  // In decode order. What lies between two of them is packed: it cannot be much larger than the item.
  const uint64_t between = add_or_fail(mul_or_fail(i.length, 16, place), 8 * kMiB, place);
  std::deque<ZstdReader> readers;
  std::vector<std::vector<std::byte>> buffers(transforms.size() - 1, std::vector<std::byte>(kReadAhead));
  for (size_t n = 0; n < transforms.size(); ++n) {
    const bool last = n + 1 == transforms.size();
    if (n == 0) readers.emplace_back(pull, place, last ? cap : between);
    else
      readers.emplace_back([&from = readers.back(), &buffer = buffers[n - 1]] { return Bytes(buffer).first(from.read(buffer)); }, place,
                           last ? cap : between);
  }
  while (const size_t n = readers.back().read(block)) sink(Bytes(block).first(n));
}

}  // namespace dcp
