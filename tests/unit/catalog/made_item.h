// Items of made checkpoints: archives in torch's form, zstd frames around them, and the pickles of tensors.
#pragma once

#include <zstd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sums.h"
#include "catalog/box.h"
#include "format/dtype.h"
#include "format/torch_archive.h"
#include "pickle/writer.h"

namespace dcp::test {

using Ints = std::vector<int64_t>;

struct MadeRecord {
  std::string name;
  std::string bytes;
  bool crc = true;  // false: 0 in the directory, as a writer that computes none
};

inline std::string made_archive(const std::vector<MadeRecord>& records) {
  TorchArchiveLayout layout;
  std::vector<uint32_t> crcs;
  for (const MadeRecord& r : records) {
    layout.add(r.name, r.bytes.size());
    crcs.push_back(r.crc ? crc32(as_bytes(r.bytes)) : 0);
  }
  std::string out(layout.total_bytes(), '\0');
  const auto put = [&](uint64_t at, std::string_view bytes) { std::ranges::copy(bytes, out.begin() + static_cast<int64_t>(at)); };
  for (uint64_t i = 0; i < records.size(); ++i) put(layout.payload(i), records[i].bytes);
  layout.emit_frame(crcs, [&](uint64_t offset, Bytes bytes) { put(offset, as_text(bytes)); });
  return out;
}

// zstd in frames of at most `frame_bytes`, back to back.
inline std::string made_zstd(std::string_view text, size_t frame_bytes = 1 << 20) {
  std::string out;
  do {
    const std::string_view part = text.substr(0, frame_bytes);
    std::string frame(ZSTD_compressBound(part.size()), '\0');
    frame.resize(ZSTD_compress(frame.data(), frame.size(), part.data(), part.size(), 1));
    out += frame;
    text.remove_prefix(part.size());
  } while (!text.empty());
  return out;
}

inline Ints row_major_strides(Dims sizes) {
  Ints strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0; step *= std::max<int64_t>(sizes[d], 1)) strides[d] = step;
  return strides;
}

// What a tensor's pickle says.
struct MadeView {
  DType dtype{};
  std::string storage = "0";
  uint64_t storage_elements = 0;
  uint64_t storage_offset = 0;
  Ints sizes;
  Ints strides;
  bool conj = false;
  bool neg = false;
};

inline void write_view(PickleWriter& out, const MadeView& v) {
  const DTypeFacts& facts = facts_of(v.dtype);
  const bool typed = !facts.storage.empty();
  const auto tuple = [&](const Ints& numbers) {
    out.op(dcp::Op::MARK);
    for (const int64_t n : numbers) out.integer(n);
    out.op(dcp::Op::TUPLE);
  };
  out.global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out.op(dcp::Op::MARK);
  out.op(dcp::Op::MARK);
  out.text("storage");
  out.global(typed ? "torch" : "torch.storage", typed ? facts.storage : "UntypedStorage");
  out.text(v.storage);
  out.text("cpu");
  out.integer(static_cast<int64_t>(v.storage_elements * (typed ? 1 : facts.bytes)));
  out.op(dcp::Op::TUPLE);
  out.op(dcp::Op::BINPERSID);
  out.integer(static_cast<int64_t>(v.storage_offset));
  tuple(v.sizes);
  tuple(v.strides);
  out.boolean(false);
  out.global("collections", "OrderedDict");
  out.op(dcp::Op::EMPTY_TUPLE);
  out.op(dcp::Op::REDUCE);
  if (!typed) out.global("torch", facts.name);
  if (v.conj || v.neg) {
    out.op(dcp::Op::EMPTY_DICT);
    out.op(dcp::Op::MARK);
    for (const auto& [name, flag] : {std::pair("conj", v.conj), std::pair("neg", v.neg)}) {
      if (!flag) continue;
      out.text(name);
      out.boolean(true);
    }
    out.op(dcp::Op::SETITEMS);
  }
  out.op(dcp::Op::TUPLE);
  out.op(dcp::Op::REDUCE);
}

}  // namespace dcp::test
