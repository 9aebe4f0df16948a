// Checked arithmetic: the only way to compute with numbers that came from a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/problem.h"

namespace dcp {

// Returns nullopt on overflow.
template <class T>
constexpr std::optional<T> checked_add(T a, T b) {
  T r{};
  return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional<T>(r);
}
template <class T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T r{};
  return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional<T>(r);
}

// a + b and a * b; they throw number_overflow at `place`.
inline uint64_t add_or_fail(uint64_t a, uint64_t b, const Place& place) {
  if (const auto sum = checked_add(a, b)) return *sum;
  fail(ProblemId::number_overflow, place, std::to_string(a) + " + " + std::to_string(b));
}
inline uint64_t mul_or_fail(uint64_t a, uint64_t b, const Place& place) {
  if (const auto product = checked_mul(a, b)) return *product;
  fail(ProblemId::number_overflow, place, std::to_string(a) + " * " + std::to_string(b));
}

// Narrowing that must not lose a bit. Throws `internal`: callers have checked file-given numbers against limits before.
template <class To, class From>
constexpr To narrow(From v) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  if (!std::in_range<To>(v)) fail(ProblemId::internal, Place{}, "narrowing lost a value");
  return static_cast<To>(v);
}

}  // namespace dcp
