// The interface of the objects compiled per instruction set: dense arrays of floats of all formats to and from float32.
//
// These objects may include this header and nothing else. An inline function or a template of the standard library would be compiled with
// AVX there, and the linker may keep that copy for the whole program, which would then die with SIGILL on a processor without AVX.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace dcp::codecs {

enum Format : unsigned { kFloat64, kFloat32, kFloat16, kBFloat16, kE4M3FN, kE5M2, kE4M3FNUZ, kE5M2FNUZ, kFormats, kNoFormat = kFormats };

// Converts a dense array from a format to float32, or from float32 to a format. Arrays need no alignment and must not overlap.
using Convert = void (*)(void* to, const void* from, size_t elements);

// The smallest and the largest of some elements, as unsigned integers without their sign bit.
struct Extent {
  uint64_t lowest, highest;
};
using FindExtent = Extent (*)(const void* from, size_t elements);
// The same conversion, which also returns the extent of the floats.
using Watch = Extent (*)(void* to, const void* from, size_t elements);
// Counts the elements of one width that lie in [first, last] without their sign bit.
using Count = uint64_t (*)(const void* from, size_t elements, uint64_t first, uint64_t last);

struct Encoder {
  Convert convert;
  Watch watch;
};

struct Table {
  Convert decode[kFormats];      // kFloat32: null
  Encoder encode[kFormats];      // kFloat32: null; kFloat64: nothing to watch
  Encoder encode_e4m3fn_or_nan;  // numbers that are too large become NaN, not the largest number
  FindExtent extent_of_doubles;
  Count count[4];  // by the logarithm of the element's bytes
};

namespace baseline {
extern const Table kTable;
}
#ifdef DCPCTL_X86_LEVELS
namespace avx2 {
extern const Table kTable;
}
namespace avx512 {
extern const Table kTable;
}
#endif

}  // namespace dcp::codecs
