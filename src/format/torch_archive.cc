// Writer of the frame of a torch.save archive. Grammar of a zip: item_archive.cc. What is torch's own (vendored miniz, "PyTorchStreamWriter"):
//   local header  version 0, flags 0x0808 (descriptor follows, UTF-8) or 0x0800 for an empty record, time, CRC and sizes all 0
//   local extra   zip64 where needed (below), then padding: "FB" bytes:2 'Z'*, so that the payload lies at a multiple of 64
//   descriptor    none after an empty record; "PK\7\8" crc:4 size:4 size:4, or size:8 size:8 where the local header has a zip64 extra
//   directory     version 0, no extra but zip64
//   tail          zip64 end record (made by 0x031E, needs 0x2D), locator, end record: always all three, 98 bytes
// Zip64: `big` is a record of at least 2^32-1 bytes, `far` a header at 2^32-1 or later.
//   local extra   id 1: [size:8 zero:8 if big] [header_at:8 if far]   (the packed size is not known yet: 0)
//   entry         big: sizes all ones; far: position all ones; id 1: [size:8 size:8 if big] [header_at:8 if far]
#include "format/torch_archive.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/sums.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

constexpr uint32_t kZip64Marker = std::numeric_limits<uint32_t>::max();
constexpr uint16_t kUtf8 = 0x0800, kDescriptor = 0x0008;
constexpr uint64_t kLocalBytes = 30, kEntryBytes = 46, kTailBytes = 98, kExtraHead = 4;
// The tail is emitted in blocks of this size: an archive may have 10^6 records.
constexpr size_t kBlockBytes = 1 << 16;

bool is_big(uint64_t bytes) { return bytes >= kZip64Marker; }
bool needs_zip64(uint64_t header) { return header >= kZip64Marker; }
uint32_t or_zip64_marker(uint64_t v) { return v >= kZip64Marker ? kZip64Marker : static_cast<uint32_t>(v); }

// Bytes of the zip64 extra with its head; 0: there is none.
uint64_t zip64_bytes(uint64_t header, uint64_t bytes) {
  if (!is_big(bytes) && !needs_zip64(header)) return 0;
  return kExtraHead + (is_big(bytes) ? 16u : 0u) + (needs_zip64(header) ? 8u : 0u);
}

uint64_t descriptor_bytes(uint64_t header, uint64_t bytes) {
  if (bytes == 0) return 0;
  return zip64_bytes(header, bytes) != 0 ? 24 : 16;
}

class Writer {
 public:
  template <class T>
  Writer& put(T v) {
    const size_t at = text_.size();
    text_.resize(at + sizeof v);
    store_le(reinterpret_cast<std::byte*>(text_.data()) + at, v);
    return *this;
  }
  Writer& zip64(uint64_t header, uint64_t bytes, uint64_t packed) {
    const uint64_t extra = zip64_bytes(header, bytes);
    if (extra == 0) return *this;
    put(uint16_t{1}).put(narrow<uint16_t>(extra - kExtraHead));
    if (is_big(bytes)) put(bytes).put(packed);
    if (needs_zip64(header)) put(header);
    return *this;
  }
  Writer& name(std::string_view root, std::string_view name) {
    text_.append(root).append(root.empty() ? "" : "/").append(name);
    return *this;
  }
  Writer& padding(uint64_t bytes) {
    put(uint8_t{'F'}).put(uint8_t{'B'}).put(narrow<uint16_t>(bytes));
    text_.append(bytes, 'Z');
    return *this;
  }
  size_t size() const { return text_.size(); }
  std::string take() { return std::exchange(text_, {}); }

 private:
  std::string text_;
};

uint64_t name_bytes(std::string_view root, std::string_view name) { return root.size() + (root.empty() ? 0 : 1) + name.size(); }

uint16_t flags_of(uint64_t bytes) { return bytes == 0 ? kUtf8 : kUtf8 | kDescriptor; }

void write_tuple(PickleWriter& out, std::span<const int64_t> numbers) {
  if (numbers.size() > 3) out.op(Op::MARK);
  for (const int64_t n : numbers) out.integer(n);
  if (numbers.size() > 3) out.op(Op::TUPLE);
  else out.tuple(numbers.size());
}

// ("storage", class, "0", "cpu", count) as a persistent id.
void write_storage(PickleWriter& out, const DTypeFacts& facts, uint64_t elements) {
  const bool is_typed = !facts.storage.empty();
  out.op(Op::MARK);
  out.text("storage");
  out.global(is_typed ? "torch" : "torch.storage", is_typed ? facts.storage : "UntypedStorage");
  out.text("0");
  out.text("cpu");
  out.integer(narrow<int64_t>(is_typed ? elements : mul_or_fail(elements, facts.bytes, {})));
  out.op(Op::TUPLE);
  out.op(Op::BINPERSID);
}

}  // namespace

uint64_t TorchArchiveLayout::add(std::string_view name, uint64_t payload_bytes) {
  Record record;
  record.name = name;
  record.header = end_;
  record.bytes = payload_bytes;
  const uint64_t full_name = name_bytes(root_, name);
  const uint64_t extra = zip64_bytes(end_, payload_bytes);
  const uint64_t min = end_ + kLocalBytes + full_name + extra + kExtraHead;
  record.payload = (min + kAlignment - 1) / kAlignment * kAlignment;
  end_ = add_or_fail(record.payload, payload_bytes, {}) + descriptor_bytes(record.header, payload_bytes);
  directory_bytes_ += kEntryBytes + full_name + extra;
  records_.push_back(std::move(record));
  return records_.back().payload;
}

uint64_t TorchArchiveLayout::total_bytes() const { return end_ + directory_bytes_ + kTailBytes; }

uint64_t TorchArchiveLayout::entry_crc_at(uint64_t record) const {
  constexpr uint64_t kCrcInEntry = 16;
  uint64_t at = end_ + kCrcInEntry;
  for (const Record& r : std::span(records_).first(record)) at += kEntryBytes + name_bytes(root_, r.name) + zip64_bytes(r.header, r.bytes);
  return at;
}

// The bytes between the payload of the record before and that of record i.
std::string TorchArchiveLayout::before(uint64_t i, std::span<const uint32_t> crcs) const {
  Writer out;
  if (i > 0) {
    const Record& r = records_[i - 1];
    const uint64_t bytes = descriptor_bytes(r.header, r.bytes);
    if (bytes != 0) out.put(uint32_t{0x08074b50}).put(crcs[i - 1]);
    if (bytes == 16) out.put(static_cast<uint32_t>(r.bytes)).put(static_cast<uint32_t>(r.bytes));
    if (bytes == 24) out.put(r.bytes).put(r.bytes);
  }
  if (i == records_.size()) return out.take();
  const Record& r = records_[i];
  const uint64_t full_name = name_bytes(root_, r.name);
  const uint64_t extra = r.payload - r.header - kLocalBytes - full_name;
  out.put(uint32_t{0x04034b50}).put(uint16_t{0}).put(flags_of(r.bytes));
  out.put(uint16_t{0}).put(uint32_t{0}).put(uint32_t{0}).put(uint32_t{0}).put(uint32_t{0});  // stored; time, CRC and sizes
  out.put(narrow<uint16_t>(full_name)).put(narrow<uint16_t>(extra)).name(root_, r.name);
  out.zip64(r.header, r.bytes, 0).padding(extra - zip64_bytes(r.header, r.bytes) - kExtraHead);
  return out.take();
}

std::string TorchArchiveLayout::entry(uint64_t i, uint32_t crc) const {
  const Record& r = records_[i];
  Writer out;
  out.put(uint32_t{0x02014b50}).put(uint16_t{0}).put(uint16_t{0}).put(flags_of(r.bytes));
  out.put(uint16_t{0}).put(uint32_t{0}).put(crc).put(or_zip64_marker(r.bytes)).put(or_zip64_marker(r.bytes));  // stored; time
  out.put(narrow<uint16_t>(name_bytes(root_, r.name))).put(narrow<uint16_t>(zip64_bytes(r.header, r.bytes)));
  out.put(uint16_t{0}).put(uint16_t{0}).put(uint16_t{0}).put(uint32_t{0}).put(or_zip64_marker(r.header));  // comment, disk, attributes
  out.name(root_, r.name).zip64(r.header, r.bytes, r.bytes);
  return out.take();
}

std::string TorchArchiveLayout::tail() const {
  const uint64_t n = records_.size();
  const uint64_t end64 = end_ + directory_bytes_;
  Writer out;
  out.put(uint32_t{0x06064b50}).put(uint64_t{44}).put(uint16_t{0x031E}).put(uint16_t{0x2D}).put(uint32_t{0}).put(uint32_t{0});
  out.put(n).put(n).put(directory_bytes_).put(end_);
  out.put(uint32_t{0x07064b50}).put(uint32_t{0}).put(end64).put(uint32_t{1});
  const auto short_n = static_cast<uint16_t>(std::min<uint64_t>(n, 0xFFFF));
  out.put(uint32_t{0x06054b50}).put(uint16_t{0}).put(uint16_t{0}).put(short_n).put(short_n);
  out.put(or_zip64_marker(directory_bytes_)).put(or_zip64_marker(end_)).put(uint16_t{0});
  return out.take();
}

void TorchArchiveLayout::emit_frame(std::span<const uint32_t> crcs, const std::function<void(uint64_t offset, Bytes bytes)>& emit) const {
  if (crcs.size() != records_.size()) fail(ProblemId::internal, {}, "a frame without the CRC of each record");
  uint64_t at = 0;
  for (uint64_t i = 0; i < records_.size(); ++i) {
    emit(at, as_bytes(before(i, crcs)));
    at = records_[i].payload + records_[i].bytes;
  }
  std::string block = before(records_.size(), crcs);
  const auto flush = [&](size_t min) {
    if (block.size() < min) return;
    emit(at, as_bytes(block));
    at += block.size();
    block.clear();
  };
  for (uint64_t i = 0; i < records_.size(); ++i) {
    block += entry(i, crcs[i]);
    flush(kBlockBytes);
  }
  block += tail();
  flush(0);
}

// Grammar: torch_item.cc. The memo is not used: torch's pickler fills it, but no reader needs it.

std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  uint64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (!std::in_range<int64_t>(step)) fail(ProblemId::number_overflow, {}, "a stride of " + std::to_string(step));
    strides[d] = static_cast<int64_t>(step);
    step = mul_or_fail(step, static_cast<uint64_t>(std::max<int64_t>(sizes[d], 1)), {});
  }
  return strides;
}

std::string tensor_item_pickle(DType dtype, std::span<const int64_t> sizes) {
  const DTypeFacts& facts = facts_of(dtype);
  if (facts.kind == DTypeKind::kQuantized) fail(ProblemId::internal, {}, "a quantized tensor to write");
  uint64_t elements = 1;
  for (const int64_t size : sizes) elements = mul_or_fail(elements, static_cast<uint64_t>(size), {});
  const bool is_typed = !facts.storage.empty();
  std::string text;
  PickleWriter out(text, PickleProtocol::k2);
  out.begin();
  out.global("torch._utils", is_typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out.op(Op::MARK);
  write_storage(out, facts, elements);
  out.integer(0);  // offset
  write_tuple(out, sizes);
  write_tuple(out, contiguous_strides(sizes));
  out.boolean(false);                        // requires_grad: DCP keeps it in the metadata
  out.global("collections", "OrderedDict");  // backward hooks
  out.op(Op::EMPTY_TUPLE);
  out.op(Op::REDUCE);
  if (!is_typed) out.global("torch", facts.name);
  out.op(Op::TUPLE);
  out.op(Op::REDUCE);
  out.end();
  return text;
}

TorchArchiveLayout tensor_item_layout(uint64_t pickle_bytes, uint64_t payload_bytes) {
  TorchArchiveLayout layout;
  layout.add("data.pkl", pickle_bytes);
  layout.add("byteorder", kByteorderLittle.size());
  layout.add("data/0", payload_bytes);
  layout.add("version", kArchiveVersion.size());
  return layout;
}

TensorItemFrame::TensorItemFrame(DType dtype, std::span<const int64_t> sizes) {
  const std::string pickle = tensor_item_pickle(dtype, sizes);
  uint64_t payload_bytes = facts_of(dtype).bytes;
  for (const int64_t size : sizes) payload_bytes = mul_or_fail(payload_bytes, static_cast<uint64_t>(size), {});
  const TorchArchiveLayout layout = tensor_item_layout(pickle.size(), payload_bytes);
  const uint64_t payload = layout.payload(kItemData), end = payload + payload_bytes;
  head_.assign(payload, '\0');
  tail_.assign(layout.total_bytes() - end, '\0');
  const auto put = [&](uint64_t at, std::string_view text) {
    if (at < payload) head_.replace(at, text.size(), text);
    else tail_.replace(at - end, text.size(), text);
  };
  put(layout.payload(kItemPickle), pickle);
  put(layout.payload(kItemByteorder), kByteorderLittle);
  put(layout.payload(kItemVersion), kArchiveVersion);
  const std::array<uint32_t, 4> crcs{crc32(as_bytes(pickle)), crc32(as_bytes(kByteorderLittle)), 0, crc32(as_bytes(kArchiveVersion))};
  layout.emit_frame(crcs, [&](uint64_t at, Bytes bytes) { put(at, as_text(bytes)); });
  if (payload_bytes == 0) return;  // no descriptor, and the CRC of no bytes is 0
  crc_at_ = {4, layout.entry_crc_at(kItemData) - end};
  crc_count_ = 2;
}

void TensorItemFrame::write_tail(uint32_t payload_crc, std::byte* to) const {
  std::memcpy(to, tail_.data(), tail_.size());
  for (size_t i = 0; i < crc_count_; ++i) store_le(to + crc_at_[i], payload_crc);
}

const TensorItemFrame& TensorItemFrames::of(DType dtype, std::span<const int64_t> sizes) {
  for (const Known& k : known_)
    if (k.dtype == dtype && std::ranges::equal(k.sizes, sizes)) return k.frame;
  Known fresh{.dtype = dtype, .sizes = {sizes.begin(), sizes.end()}, .frame = TensorItemFrame(dtype, sizes)};
  if (known_.size() < kKept) return known_.emplace_back(std::move(fresh)).frame;
  next_ = (next_ + 1) % kKept;
  return (known_[next_] = std::move(fresh)).frame;
}

}  // namespace dcp
