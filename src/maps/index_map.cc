#include "maps/index_map.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/problem.h"
#include "catalog/box.h"
#include "catalog/catalog.h"

namespace dcp {

IndexMap identity(const Catalog& catalog, uint32_t tensor) {
  const Tensor& t = catalog.tensors[tensor];
  const Dims dims = catalog.dims(t);
  IndexMap map{.key = std::string(catalog.key(t)), .dtype = t.dtype, .shape = catalog.shape(t), .blocks = {}};
  if (volume(dims) == 0) return map;
  IndexBlock block{
      .source = tensor, .target_at = std::vector<int64_t>(dims.size()), .source_at = std::vector<int64_t>(dims.size()), .axes = {}};
  for (uint32_t d = 0; d < dims.size(); ++d) block.axes.push_back({.size = dims[d], .target_dim = d, .source_dim = d});
  map.blocks.push_back(std::move(block));
  return map;
}

}  // namespace dcp

namespace dcp::maps {
namespace {

// One side's axis along one dim of the tensor between the two maps.
struct Leg {
  int64_t size = 1, step = 1;
  size_t axis = 0;  // of its block
};
// The digits that a side has of one level: a position in the dim is the sum of digit * radix over the levels.
struct Digits {
  static constexpr size_t kFixed = SIZE_MAX;
  int64_t low = 0, count = 1;
  size_t axis = kFixed;   // that counts them
  int64_t per_digit = 1;  // indices of that axis
};

class Composer {
 public:
  Composer(std::span<const IndexMap> first, const Limits& limits) : first_(first), limits_(limits) {}

  IndexMap run(const IndexMap& second) {
    IndexMap made = second;
    made.blocks.clear();
    for (const IndexBlock& b : second.blocks) {
      if (b.source == IndexBlock::kZeros) {
        add(made, b);
        continue;
      }
      between_ = &first_[b.source];
      for (const IndexBlock& a : between_->blocks) join(made, b, a);
    }
    return made;
  }

 private:
  void add(IndexMap& made, IndexBlock block) {
    pieces_ += 1 + block.axes.size();
    if (pieces_ > limits_.map_pieces)
      fail(ProblemId::map_too_many, {.tensor = made.key}, "more than " + std::to_string(limits_.map_pieces) + " blocks and axes");
    made.blocks.push_back(std::move(block));
  }

  // What two blocks have in common: `b` takes it from the tensor between, where `a` has put it.
  void join(IndexMap& made, const IndexBlock& b, const IndexBlock& a) {
    IndexBlock both{.source = a.source, .target_at = b.target_at, .source_at = a.source_at, .axes = {}};
    for (uint32_t d = 0; d < between_->shape.size(); ++d) {
      const std::vector<Leg> of_b = legs(b, d, &IndexAxis::source_dim, &IndexAxis::source_step),
                             of_a = legs(a, d, &IndexAxis::target_dim, &IndexAxis::target_step);
      if (are_apart(of_b, b.source_at[d], of_a, a.target_at[d])) return;
      const std::vector<int64_t> radix = radices(of_b, of_a);
      const std::vector<Digits> from_b = digits(of_b, b.source_at[d], radix), from_a = digits(of_a, a.target_at[d], radix);
      for (size_t k = radix.size(); k-- > 0;)
        if (!level(both, {b, from_b[k]}, {a, from_a[k]})) return;
    }
    add(made, std::move(both));
  }

  static std::vector<Leg> legs(const IndexBlock& block, uint32_t d, uint32_t IndexAxis::* dim, int64_t IndexAxis::* step) {
    std::vector<Leg> all;
    for (size_t i = 0; i < block.axes.size(); ++i)
      if (block.axes[i].*dim == d && block.axes[i].size > 1) all.push_back({block.axes[i].size, block.axes[i].*step, i});
    return all;
  }

  static bool are_apart(const std::vector<Leg>& one, int64_t at, const std::vector<Leg>& other, int64_t other_at) {
    const auto last = [](const std::vector<Leg>& legs, int64_t from) {
      for (const Leg& l : legs) from += (l.size - 1) * l.step;
      return from;
    };
    return last(one, at) < other_at || last(other, other_at) < at;
  }

  [[noreturn]] void cross() const {
    throw Error(with_hint(with_what(make_problem(ProblemId::map_axes_differ, {.tensor = between_->key}),
                                    "the two maps split this tensor in incompatible ways"),
                          "publish with the first map, then apply the second to the result"));
  }

  // The steps of both sides, each of which must be a multiple of the one before.
  std::vector<int64_t> radices(const std::vector<Leg>& one, const std::vector<Leg>& other) const {
    std::vector<int64_t> all{1};
    for (const auto* legs : {&one, &other})
      for (const Leg& l : *legs) all.push_back(l.step);
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    for (size_t k = 1; k < all.size(); ++k)
      if (all[k] % all[k - 1] != 0) cross();
    return all;
  }

  std::vector<Digits> digits(const std::vector<Leg>& legs, int64_t at, const std::vector<int64_t>& radix) const {
    const auto cap = [&](size_t k) { return k + 1 < radix.size() ? radix[k + 1] / radix[k] : INT64_MAX; };
    std::vector<Digits> all(radix.size());
    for (size_t k = 0; k < radix.size(); ++k) all[k].low = at / radix[k] % cap(k);
    for (const Leg& l : legs) {
      auto k = static_cast<size_t>(std::ranges::find(radix, l.step) - radix.begin());
      int64_t left = l.size, per_digit = 1;
      while (left > cap(k) - all[k].low) {  // it goes on in the next level
        if (all[k].low != 0 || left % cap(k) != 0 || all[k].axis != Digits::kFixed) cross();
        all[k] = {.low = 0, .count = cap(k), .axis = l.axis, .per_digit = per_digit};
        left /= cap(k);
        per_digit *= cap(k++);
      }
      if (left == 1) continue;
      if (all[k].axis != Digits::kFixed) cross();
      all[k] = {.low = all[k].low, .count = left, .axis = l.axis, .per_digit = per_digit};
    }
    return all;
  }

  struct Has {
    const IndexBlock& block;
    const Digits& digits;
  };
  // False: they have no digit in common.
  static bool level(IndexBlock& both, const Has& b, const Has& a) {
    const int64_t low = std::max(b.digits.low, a.digits.low),
                  count = std::min(b.digits.low + b.digits.count, a.digits.low + a.digits.count) - low;
    if (count <= 0) return false;
    IndexAxis axis{.size = count};
    if (b.digits.axis != Digits::kFixed) {
      const IndexAxis& its = b.block.axes[b.digits.axis];
      axis.target_dim = its.target_dim;
      axis.target_step = its.target_step * b.digits.per_digit;
      both.target_at[axis.target_dim] += (low - b.digits.low) * axis.target_step;
    }
    if (a.digits.axis != Digits::kFixed && a.block.source != IndexBlock::kZeros) {
      const IndexAxis& its = a.block.axes[a.digits.axis];
      axis.source_dim = its.source_dim;
      axis.source_step = its.source_step * a.digits.per_digit;
      both.source_at[axis.source_dim] += (low - a.digits.low) * axis.source_step;
    }
    if (count > 1) both.axes.push_back(axis);
    return true;
  }

  std::span<const IndexMap> first_;
  const Limits& limits_;
  const IndexMap* between_ = nullptr;
  uint64_t pieces_ = 0;
};

}  // namespace

std::vector<IndexMap> compose(std::span<const IndexMap> second, std::span<const IndexMap> first, const Limits& limits) {
  Composer composer(first, limits);
  std::vector<IndexMap> all;
  for (const IndexMap& m : second) all.push_back(composer.run(m));
  return all;
}

}  // namespace dcp::maps
