// Reads files of one folder, as many at once as the store prefers.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/limits.h"
#include "base/store.h"

namespace dcp {

// Calls read(n, share) for each n of [0, count). `share` has a part of the memory that `left` has, or all of it if files are read one by
// one; what `read` takes from it is deducted from `left`. Of several failures, the one with the lowest n is thrown.
void read_at_once(Store& store, const std::string& folder, size_t count, Limits& left,
                  const std::function<void(size_t n, Limits& share)>& read);

}  // namespace dcp
