// The instruction sets that the float codecs are compiled for.
#pragma once

#include <cstdint>

#include "kernels/float_codecs.h"

namespace dcp {

// Minimum features of the machine; on x86-64, kAvx2 is x86-64-v3 and kAvx512 is x86-64-v4.
enum class Isa : uint8_t { kBaseline, kAvx2, kAvx512 };

// The best one that this processor and operating system can run.
Isa best_isa();
// `isa` must not be above best_isa().
const codecs::Table& codecs_for(Isa isa);

}  // namespace dcp
