// How many random cases a test takes.
#pragma once

#include <cstdint>

namespace dcp::test {

// ThreadSanitizer takes twenty times as long, and looks at how threads meet, which a part of the cases shows.
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
constexpr uint64_t kFewer = 20;
#else
constexpr uint64_t kFewer = 1;
#endif
#else
constexpr uint64_t kFewer = 1;
#endif

constexpr uint64_t seeds(uint64_t count) { return (count + kFewer - 1) / kFewer; }

}  // namespace dcp::test
