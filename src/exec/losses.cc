#include "exec/losses.h"

namespace dcp {

std::vector<TensorLosses> RunLosses::list(const Catalog& catalog, Fp8Overflow fp8_overflow) const {
  std::vector<TensorLosses> lost;
  for (size_t i = 0; i < by_tensor_.size(); ++i) {
    const CastLosses values = by_tensor_[i].values();
    if (!values.any()) continue;
    const PlanTensor& p = plan_.tensors[i];
    const Tensor& t = catalog.tensors[p.id];
    const DType to = plan_.regions[p.first_region].dtype;
    lost.push_back({std::string(catalog.key(t)), t.dtype, to, overflow_of(to, fp8_overflow), values});
  }
  return lost;
}

}  // namespace dcp
