#include "plan/plan.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/sums.h"
#include "catalog/mcore.h"

namespace dcp {

Dims output_shape(const Plan& plan, const Catalog& catalog, TensorId tensor) {
  return plan.mcore_shapes ? mcore_view(catalog, tensor) : catalog.dims(catalog.tensors[tensor]);
}

const Group& Plan::group_of(uint64_t ordinal) const {
  return *std::prev(std::ranges::upper_bound(groups, ordinal, {}, &Group::first_unit));
}

UnitBox::UnitBox(const Plan& plan, const Catalog& catalog, const Group& group, uint64_t k) {
  const Dims dims = catalog.dims(catalog.tensors[plan.tensors[group.first].id]);
  rank_ = dims.size();
  for (size_t d = rank_; d-- > 0;) {
    const int64_t step = plan.numbers[group.steps_at + d];
    const auto cells = static_cast<uint64_t>((dims[d] + step - 1) / step);
    offsets_[d] = static_cast<int64_t>(k % cells) * step;
    sizes_[d] = std::min(step, dims[d] - offsets_[d]);
    k /= cells;
  }
}

namespace {

class Digest {
 public:
  template <class T>
  void add(const T& x) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      state_ = ((state_ ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15u) ^ (state_ >> 29);
    } else if constexpr (HasMembers<const T>) {
      for_each_member(x, [&](const auto& member) { add(member); });
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      add(std::string_view(x).size());
      add(crc64_raw(as_bytes(x)));
    } else {
      list(x);
    }
  }
  uint64_t value() const { return state_; }

 private:
  template <class T>
  void list(const std::vector<T>& values) {
    add(values.size());
    for (const T& v : values) add(v);
  }
  template <class T>
  void list(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <class A, class B>
  void list(const std::pair<A, B>& both) {
    add(both.first);
    add(both.second);
  }
  uint64_t state_ = 0x64637063746C0001u;
};

}  // namespace

uint64_t digest_of(const Plan& plan) {
  Digest digest;
  digest.add(plan);
  return digest.value();
}

}  // namespace dcp
