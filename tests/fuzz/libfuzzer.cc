// The end of a target that libFuzzer asks for.
#include <cstdint>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    dcp::fuzz::run({reinterpret_cast<const std::byte*>(data), size});
  } catch (const dcp::Error&) {
  }
  return 0;
}
