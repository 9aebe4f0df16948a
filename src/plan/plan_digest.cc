#include "plan/plan_digest.h"

#include <optional>
#include <string_view>
#include <type_traits>

#include "base/sums.h"

namespace dcp {
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
