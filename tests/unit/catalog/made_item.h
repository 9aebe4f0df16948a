// Items of made checkpoints: archives in torch's form, zstd frames around them, and the pickles of tensors.
#pragma once

#include <zlib.h>
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

// The same with its records deflated, as a zip tool packs it anew.
inline std::string made_deflated_archive(const std::vector<MadeRecord>& records) {
  std::string out, directory;
  const auto put = [](std::string& to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
  };
  for (const MadeRecord& r : records) {
    std::string packed(compressBound(r.bytes.size()) + 64, '\0');
    z_stream stream{};
    deflateInit2(&stream, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(r.bytes.data()));
    stream.avail_in = static_cast<uInt>(r.bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    deflate(&stream, Z_FINISH);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    const std::string name = "archive/" + r.name;
    std::string facts;  // what both headers say: version, flags, method, time, date, CRC, sizes, lengths of name and extra field
    for (const uint64_t n : {20u, 0u, 8u, 0u, 0u}) put(facts, n, 2);
    for (const uint64_t n : {uint64_t{crc32(as_bytes(r.bytes))}, uint64_t{packed.size()}, uint64_t{r.bytes.size()}}) put(facts, n, 4);
    for (const uint64_t n : {uint64_t{name.size()}, uint64_t{0}}) put(facts, n, 2);
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    directory += facts + std::string(10, '\0');
    put(directory, out.size(), 4);
    directory += name;
    put(out, 0x04034b50, 4);
    out += facts + name + packed;
  }
  const uint64_t at = out.size();
  out += directory;
  put(out, 0x06054b50, 4);
  for (const uint64_t n : {uint64_t{0}, uint64_t{0}, uint64_t{records.size()}, uint64_t{records.size()}}) put(out, n, 2);
  for (const uint64_t n : {uint64_t{directory.size()}, at}) put(out, n, 4);
  put(out, 0, 2);
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
