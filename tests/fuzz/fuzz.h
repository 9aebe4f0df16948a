// What all fuzz targets share. A target is a file of targets/ that defines run(); libFuzzer or replay.cc calls it.
//
// Hostile bytes may end in dcp::Error and in nothing else. What a target asserts beyond that says must(): it ends the program, as a fault
// that a sanitizer finds does.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"

namespace dcp::fuzz {

void run(Bytes input);

inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// What must not fail, being made of something that was accepted.
template <class F>
auto surely(const char* what, F f) {
  try {
    return f();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", what, error.what());
    std::abort();
  }
}

inline constexpr Limits kLimits{.memory_bytes = 64 * kMiB,
                                .metadata_bytes = kMiB,
                                .pickle_memo_slots = 1 << 15,
                                .blob_bytes = kMiB,
                                .item_pickle_bytes = kMiB,
                                .archive_pickle_bytes = kMiB,
                                .state_dict_bytes = kMiB};

}  // namespace dcp::fuzz
