#include "kernels/isa.h"

#include "base/x86.h"

namespace dcp {

Isa best_isa() {
#ifdef DCPCTL_X86_LEVELS
  if (x86_features().v4) return Isa::kAvx512;
  if (x86_features().v3) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

const codecs::Table& codecs_for([[maybe_unused]] Isa isa) {
#ifdef DCPCTL_X86_LEVELS
  if (isa == Isa::kAvx512) return codecs::avx512::kTable;
  if (isa == Isa::kAvx2) return codecs::avx2::kTable;
#endif
  return codecs::baseline::kTable;
}

}  // namespace dcp
