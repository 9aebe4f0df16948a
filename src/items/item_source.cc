#include "items/item_source.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "base/checked.h"
#include "format/decoders.h"

namespace dcp {
namespace {

// torch's own head (local header, data.pkl, the next headers) ends before 832, its tail (directory and end records) within 800.
constexpr uint64_t kEnds = 1024;
constexpr uint64_t kReadAhead = 256 * 1024;

}  // namespace

void SliceSource::parts_of(const Item& item, std::vector<Item>& parts) {
  Item part = item;
  if (item.length > kSmallItem) {
    part.length = kEnds;
    parts.push_back(part);
    part.offset = item.offset + item.length - kEnds;
  }
  parts.push_back(part);
}

void SliceSource::fill(Window& window, uint64_t begin, uint64_t needed, uint64_t end) {
  if (const Bytes kept = files_ == nullptr ? Bytes() : files_->kept(number_, begin); kept.size() >= needed - begin && needed > begin) {
    const Bytes part = kept.first(std::min<uint64_t>(kept.size(), end - begin));
    window = {.begin = begin, .bytes = {part.begin(), part.end()}};
    return;
  }
  end = std::min(end, file_bytes_);
  std::vector<std::byte> bytes = std::move(window.bytes);
  window.bytes.clear();  // if the read fails, no later item may take these bytes for read
  bytes.resize(end - begin);
  read_exact(store_, file_->get(), begin, bytes);
  window = {.begin = begin, .bytes = std::move(bytes)};
  bytes_read_ += end - begin;
}

void SliceSource::go_to(uint64_t offset, uint64_t length, uint64_t run_end) {
  offset_ = offset;
  length_ = length;
  if (windows_[1].holds(offset, std::min(length, kEnds))) std::swap(windows_[0], windows_[1]);
  const uint64_t end = offset + length;
  if (length <= small_) {
    if (!windows_[0].holds(offset, length))
      fill(windows_[0], offset, end, std::max(end, std::min(run_end, offset + std::max(small_, kReadAhead))));
    return;
  }
  if (!windows_[0].holds(offset, kEnds)) fill(windows_[0], offset, offset + kEnds, offset + kEnds);
  if (!windows_[1].holds(end - kEnds, kEnds)) fill(windows_[1], end - kEnds, end, std::max(end, std::min(run_end, end + kEnds)));
}

Bytes SliceSource::at(uint64_t offset, uint64_t length) {
  const uint64_t begin = offset_ + offset;
  for (const Window& w : windows_)
    if (w.holds(begin, length)) return Bytes(w.bytes).subspan(begin - w.begin, length);
  fill(windows_[2], begin, begin + length, begin + length);
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

struct ItemDecoder::State {
  State(DataFiles& of, const Item& item)
      : files(of), number(item.file), file(of.open(item.file)), at(item.offset), end(item.offset + item.length) {}
  const DataFiles& files;
  uint32_t number;
  std::shared_ptr<const OpenFile> file;
  uint64_t at, end;  // the rest of the item in the file
  std::vector<std::byte> packed;
  std::optional<InflateReader> inflate;
  std::deque<ZstdReader> readers;  // in decode order
  std::vector<std::vector<std::byte>> buffers;

  Bytes pull() {
    const MutableBytes part = MutableBytes(packed).first(std::min<uint64_t>(packed.size(), end - at));
    take(part);
    return part;
  }
  void take(MutableBytes part) {
    if (const Bytes kept = files.kept(number, at); kept.size() >= part.size()) std::ranges::copy(kept.first(part.size()), part.begin());
    else read_exact(files.store(), file->get(), at, part);
    at += part.size();
  }
};

ItemDecoder::ItemDecoder(DataFiles& files, const Item& item, const Place& place, uint64_t cap) {
  const bool deflated = item.transforms == Item::kDeflated;
  const std::vector<std::string>& transforms = files.catalog().transforms[deflated ? 0 : item.transforms];
  for (const std::string& t : transforms)  // as torch/distributed/checkpoint/_extension.py compares them (torch 2.15)
    if (t != "stream.zstd/1" && !t.starts_with("stream.zstd/1.")) fail(ProblemId::transform_unknown, place, t, "stream.zstd/1");
  state_ = std::make_unique<State>(files, item);
  State& s = *state_;
  if (!deflated && transforms.empty()) return;
  s.packed.resize(kReadAhead);
  const auto pull = [&s] { return s.pull(); };
  if (deflated) {
    s.inflate.emplace(pull, place, cap);
    return;
  }
  // Data between two decoders is compressed, so it cannot be much larger than the item.
  const uint64_t between = add_or_fail(mul_or_fail(item.length, 16, place), 8 * kMiB, place);
  s.buffers.assign(transforms.size() - 1, std::vector<std::byte>(kReadAhead));
  for (size_t n = 0; n < transforms.size(); ++n) {
    const uint64_t max = n + 1 == transforms.size() ? cap : between;
    if (n == 0) s.readers.emplace_back(pull, place, max);
    else
      s.readers.emplace_back([&from = s.readers.back(), &buffer = s.buffers[n - 1]] { return Bytes(buffer).first(from.read(buffer)); },
                             place, max);
  }
}

ItemDecoder::~ItemDecoder() = default;

size_t ItemDecoder::read(MutableBytes out) {
  if (state_->inflate) return state_->inflate->read(out);
  if (!state_->readers.empty()) return state_->readers.back().read(out);
  const MutableBytes part = out.first(std::min<uint64_t>(out.size(), state_->end - state_->at));
  state_->take(part);
  return part.size();
}

void decode_item(DataFiles& files, const Item& i, const Place& place, uint64_t cap, const std::function<void(Bytes)>& sink) {
  ItemDecoder decoder(files, i, place, cap);
  std::vector<std::byte> block(kReadAhead);
  while (const size_t n = decoder.read(block)) sink(Bytes(block).first(n));
}

}  // namespace dcp
