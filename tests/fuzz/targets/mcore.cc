// Megatron's shapes. The input is a `.metadata`, whose shapes are all looked at; or, with a first byte below 8, the count of a tensor's
// dims, and then its shape as saved and its true one: one is accepted if, and only if, each element is where the other has it.
#include "catalog/mcore.h"

#include "catalog/build.h"
#include "fuzz.h"
#include "inputs/open.h"
#include "unit/base/fake_io.h"
#include "unit/catalog/made_checkpoint.h"

namespace dcp::fuzz {
namespace {

using test::Ints;

// Element by element: `saved` is pieces of each dim, then the elements of a piece.
bool same_places(const Ints& saved, const Ints& shape) {
  const size_t rank = shape.size();
  Ints length(rank), index(rank, 0);
  int64_t piece = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (saved[d] == 0 || shape[d] % saved[d] != 0) return false;
    length[d] = shape[d] / saved[d];
    piece *= length[d];
  }
  if (piece != saved[rank]) return false;
  for (uint64_t element = 0; element < volume(shape); ++element) {
    int64_t pieces = 0, inside = 0;
    for (size_t d = 0; d < rank; ++d) pieces = pieces * saved[d] + index[d] / length[d], inside = inside * length[d] + index[d] % length[d];
    if (static_cast<uint64_t>(pieces * piece + inside) != element) return false;
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return true;
}

void check_shapes(Bytes input) {
  const auto rank = std::to_integer<size_t>(input[0]) % 4;
  if (input.size() < 2 + 2 * rank) return;
  Ints saved, shape;
  for (size_t d = 0; d <= rank; ++d) saved.push_back(std::to_integer<int64_t>(input[1 + d]) % 25);
  for (size_t d = 0; d < rank; ++d) shape.push_back(std::to_integer<int64_t>(input[2 + rank + d]) % 13);
  test::MadeCheckpoint made;
  made.tensors = {{.key = "w", .dtype = DType::uint8, .dims = saved, .chunks = {test::whole_chunk(saved)}}};
  MetadataContent content = made.content();
  content.mcore_shapes.push_back({.key = "w", .rank = static_cast<uint32_t>(rank), .dims_at = content.ints.size()});
  content.ints.insert(content.ints.end(), shape.begin(), shape.end());
  const Catalog catalog = build_catalog(content, "ckpt", "ckpt").catalog;
  bool accepted = true;
  try {
    must(std::ranges::equal(mcore_view(catalog, 0), shape), "the shape that is given");
  } catch (const Error&) {
    accepted = false;
  }
  // Of no elements all orders are one; whether the counts of pieces fit is then a question of form.
  if (volume(shape) > 0) must(accepted == same_places(saved, shape), "accepted if no element moves");
}

}  // namespace

void run(Bytes input) {
  if (input.empty()) return;
  if (std::to_integer<uint8_t>(input[0]) < 8) return check_shapes(input);
  test::FakeIo io;
  io.put("ckpt/.metadata", as_text(input));
  const Catalog catalog = read_checkpoint(io, "ckpt", {.limits = kLimits}).catalog;
  for (TensorId t = 0; t < catalog.tensors.size(); ++t) {
    try {
      must(volume(mcore_view(catalog, t)) == catalog.elements(catalog.tensors[t]), "another view of as many elements");
    } catch (const Error&) {
    }
  }
}

}  // namespace dcp::fuzz
