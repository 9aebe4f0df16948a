// The tensors of an output, key by key, and their differences from those expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "select/select.h"

namespace dcp {

// A tensor as a reader of the output sees it. The key is escaped (base/problem.h), as a list of keys prints it.
struct Signature {
  std::string key;
  std::string dtype;
  std::vector<int64_t> shape;
};

// The signatures of the tensors that a plan writes, under their final names; or of all tensors of a checkpoint.
std::vector<Signature> signatures_of(const Catalog& catalog, const Selection& selection, const Plan& plan);
std::vector<Signature> signatures_of(const Catalog& catalog);

// A text list. Each line is
//     key dtype [2, 3] anything
// with blanks between, as a list of keys is printed; `[]` is the shape of a scalar. A line `key object ...` (a byte item), an
// empty line and a line that begins with '#' are ignored. Throws expect_line.
std::vector<Signature> parse_signatures(std::string_view text, const std::string& path);

struct Difference {
  enum class Kind : uint8_t { kMissing, kUnexpected, kShape, kDtype };
  Kind kind{};
  std::string key;
  std::string got;       // "[2, 3]", "float32"; "" for kMissing
  std::string expected;  // "" for kUnexpected
};

// Sorted by kind, then by key. Dtypes are compared only on request.
enum class CompareDtypes : uint8_t { kNo, kYes };
std::vector<Difference> differences(std::vector<Signature> got, std::vector<Signature> expected, CompareDtypes dtypes);

}  // namespace dcp
