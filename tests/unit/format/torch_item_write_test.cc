#include <catch2/catch_test_macros.hpp>

#include "base/sums.h"
#include "format/items.h"
#include "format/torch_archive.h"

using namespace dcp;
using namespace dcp::test;

namespace {

std::string written(DType dtype, const std::vector<int64_t>& sizes, const std::string& payload) {
  const std::string pickle = tensor_item_pickle(dtype, sizes);
  const TorchArchiveLayout layout = tensor_item_layout(pickle.size(), payload.size());
  const std::string records[] = {pickle, std::string(kByteorderLittle), payload, std::string(kArchiveVersion)};
  std::vector<uint32_t> crcs;
  std::string item(layout.total_bytes(), '?');
  for (uint64_t i = 0; i < layout.record_count(); ++i) {
    crcs.push_back(crc32(as_bytes(records[i])));
    patch(item, layout.payload(i), records[i]);
  }
  layout.emit_frame(crcs, [&](uint64_t offset, Bytes bytes) { patch(item, offset, as_text(bytes)); });
  const TensorItemFrame frame(dtype, sizes);
  std::vector<std::byte> tail(frame.tail_bytes());
  frame.write_tail(crc32(as_bytes(payload)), tail.data());
  CHECK(std::string(as_text(frame.head())) + payload + std::string(as_text(tail)) == item);
  return item;
}

}  // namespace

TEST_CASE("what is written is read back, for every dtype") {
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i) {
    const auto dtype = static_cast<DType>(i);
    CAPTURE(facts_of(dtype).name);
    if (facts_of(dtype).kind == DTypeKind::kQuantized) {
      CHECK(error_of([&] { tensor_item_pickle(dtype, {}); }).starts_with("internal: "));
      continue;
    }
    const std::string bytes = written(dtype, {2, 3}, std::string(6 * bytes_of(dtype), 'x'));
    MemoryItem item(bytes);
    const TensorItem tensor = read_tensor_item(item, item_place(), Limits{});
    CHECK(tensor.form == ItemForm::kStrided);
    CHECK(tensor.dtype == dtype);
    CHECK(tensor.strides == std::vector<int64_t>{3, 1});
    CHECK(tensor.payload % 64 == 0);
    CHECK(tensor.record_bytes == 6 * bytes_of(dtype));
    CHECK(tensor.has_crc);
  }
}

TEST_CASE("shapes are written with torch's strides") {
  using Ints = std::vector<int64_t>;
  const auto strides = [](const Ints& sizes, size_t bytes) {
    const std::string text = written(DType::uint8, sizes, std::string(bytes, 'x'));
    MemoryItem item(text);
    const TensorItem tensor = read_tensor_item(item, item_place(), Limits{});
    CHECK(tensor.sizes == sizes);
    return tensor.strides;
  };
  CHECK(strides({}, 1) == Ints{});
  CHECK(strides({0, 3}, 0) == Ints{3, 1});
  CHECK(strides({3, 0}, 0) == Ints{1, 1});
  CHECK(strides({2, 3, 4, 5}, 120) == Ints{60, 20, 5, 1});
  CHECK(strides({70000, 2}, 140000) == Ints{2, 1});
}

TEST_CASE("sizes that overflow are refused") {
  const std::vector<int64_t> sizes = {int64_t{1} << 62, 8};
  CHECK(error_of([&] { tensor_item_pickle(DType::uint8, sizes); }).starts_with("number_overflow: "));
}

TEST_CASE("frames are made anew for other sizes, and kept for the last few") {
  TensorItemFrames frames;
  const auto head = [&](DType dtype, std::vector<int64_t> sizes) { return std::string(as_text(frames.of(dtype, sizes).head())); };
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 1; n < 9; ++n) {
      const std::vector<int64_t> sizes{n, 3};
      CHECK(head(DType::int8, sizes) == as_text(TensorItemFrame(DType::int8, sizes).head()));
      CHECK(head(DType::float32, sizes) == as_text(TensorItemFrame(DType::float32, sizes).head()));
      CHECK(head(DType::int8, sizes) == as_text(TensorItemFrame(DType::int8, sizes).head()));
    }
  }
}
