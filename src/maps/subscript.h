// A part of a tensor as numpy and torch write it between brackets: `3`, `0:4`, `::2`, `-1`, `...`, with commas between dims. Not supported:
// steps that are not positive (torch refuses those too), new axes, lists and masks of indices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "maps/index_map.h"

namespace dcp {

// What is taken along one dim of a tensor: `count` indices beginning at `start`, `step` apart. An integer takes one, and its dim is
// dropped.
struct SliceAxis {
  int64_t start = 0, step = 1, count = 0;
  bool kept = true;
  bool operator==(const SliceAxis&) const = default;
};

class Subscript {
 public:
  // The whole tensor.
  Subscript() = default;
  // Accepts brackets around it. Throws usage.
  static Subscript parse(std::string_view text);
  // One axis per dim. Bounds beyond a dim are clipped; an index beyond it, or too many terms, throws usage.
  std::vector<SliceAxis> of(Dims dims) const;
  const std::string& text() const { return text_; }

 private:
  struct Term {
    enum class Kind : uint8_t { kIndex, kRange, kEllipsis } kind = Kind::kRange;
    std::optional<int64_t> start, stop, step;  // kIndex: start
  };
  static Term term_of(std::string_view text, std::string_view all);
  std::string text_ = "...";
  std::vector<Term> terms_ = {{.kind = Term::Kind::kEllipsis, .start = {}, .stop = {}, .step = {}}};
};

// The sizes of the axes that are kept.
std::vector<int64_t> shape_of(const std::vector<SliceAxis>& axes);
// The part as a tensor of its own, under the same key: one block. Its source is `tensor`.
IndexMap map_of(const Catalog& catalog, TensorId tensor, const std::vector<SliceAxis>& axes);
// By file: whether it holds elements of the part.
std::vector<bool> files_of(const Catalog& catalog, TensorId tensor, const std::vector<SliceAxis>& axes);

}  // namespace dcp
