// Grammar: torch_item.cc. The memo is not used: torch's pickler fills it, but no reader needs it.
#include "format/torch_item_write.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/sums.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

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
