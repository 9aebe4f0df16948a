// Megatron's shapes: which are another view of a tensor's bytes.
#include "catalog/mcore.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/build.h"
#include "catalog/made_checkpoint.h"

using namespace dcp;
using namespace dcp::test;

namespace {

Catalog catalog_of(const Ints& saved, const std::optional<Ints>& shape) {
  MadeCheckpoint made;
  made.tensors = {{.key = "w", .dtype = DType::float32, .dims = saved, .chunks = {whole_chunk(saved)}}};
  MetadataContent content = made.content();
  if (shape) {
    content.mcore_shapes.push_back({.key = "gone", .rank = 0, .dims_at = 0});
    content.mcore_shapes.push_back({.key = "w", .rank = static_cast<uint32_t>(shape->size()), .dims_at = content.ints.size()});
    content.ints.insert(content.ints.end(), shape->begin(), shape->end());
  }
  return build_catalog(content, "ckpt", "ckpt").catalog;
}
std::string view(const Ints& saved, const std::optional<Ints>& shape) {
  const Catalog c = catalog_of(saved, shape);
  std::string text;
  const std::string error = error_line([&] {
    for (int64_t d : mcore_view(c, 0)) text += std::to_string(d) + " ";
  });
  return error == "no error" ? text : error;
}
bool fits(const Ints& saved, const Ints& shape) { return !view(saved, shape).starts_with("ckpt"); }

}  // namespace

TEST_CASE("without a shape of Megatron's a tensor has its own") {
  CHECK_FALSE(mcore_shape(catalog_of({2, 3}, std::nullopt), 0));
  CHECK(view({2, 3}, std::nullopt) == "2 3 ");
  CHECK(view({2, 3}, Ints{2, 3}) == "2 3 ");
}

TEST_CASE("pieces that follow each other are a view") {
  CHECK(view({2, 1, 12}, Ints{6, 4}) == "6 4 ");  // rows in two pieces of 3
  CHECK(view({1, 1, 24}, Ints{6, 4}) == "6 4 ");  // in one piece
  CHECK(view({4, 6}, Ints{24}) == "24 ");
  CHECK(view({6, 2, 2}, Ints{6, 4}) == "6 4 ");  // each row in two pieces: rows have length 1
  CHECK(view({1, 3, 4}, Ints{1, 12}) == "1 12 ");
  CHECK(view({1}, Ints{}) == "");  // a scalar
  CHECK(view({1, 0}, Ints{0}) == "0 ");
}

TEST_CASE("pieces that would have to be moved are not, nor is another count of elements") {
  CHECK(view({1, 2, 12}, Ints{6, 4}) ==
        "ckpt: tensor 'w': Megatron's recorded shape does not fit the way the tensor was saved: [6, 4] saved as [1, 2, 12]");
  CHECK_FALSE(fits({3, 2, 4}, {6, 4}));
  CHECK_FALSE(fits({2, 1, 12}, {6, 5}));
  CHECK_FALSE(fits({4, 1, 6}, {6, 4}));  // 4 pieces of 6 rows
  CHECK_FALSE(fits({24}, {6, 4}));       // not of Megatron's form: which dims were cut is not said
  CHECK_FALSE(fits({0, 1, 12}, {6, 4}));
  CHECK_FALSE(fits({1, 1, 1, 0}, {int64_t{1} << 62, 4, int64_t{1} << 62}));
}
