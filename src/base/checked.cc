#include "base/checked.h"

#include <string>

namespace dcp {

uint64_t add_or_fail(uint64_t a, uint64_t b, const Place& place) {
  if (const auto sum = checked_add(a, b)) return *sum;
  fail(ProblemId::number_overflow, place, std::to_string(a) + " + " + std::to_string(b));
}

uint64_t mul_or_fail(uint64_t a, uint64_t b, const Place& place) {
  if (const auto product = checked_mul(a, b)) return *product;
  fail(ProblemId::number_overflow, place, std::to_string(a) + " * " + std::to_string(b));
}

}  // namespace dcp
