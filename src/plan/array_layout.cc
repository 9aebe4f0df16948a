// Files of one tensor each: its elements, row-major and little-endian, alone or after the header of a .npy file.
#include <algorithm>

#include "base/checked.h"
#include "format/npy.h"
#include "plan/layout.h"

namespace dcp {

Plan plan_arrays(const SourceFacts& source, const Selection& selection, ArrayForm form, const UnitOptions& units) {
  const Catalog& catalog = source.catalog;
  refuse_opaque_casts(source, selection);
  Plan plan;
  for (const Entry& e : selection.entries) {
    const Tensor& t = catalog.tensors[e.tensor()];
    refuse_opaque(source, e.tensor());
    const Dims dims = catalog.dims(t);
    const auto file = narrow<uint32_t>(plan.files.size());
    uint64_t at = 0;
    if (form == ArrayForm::kNpy) {
      plan.literals.push_back({.file = file, .bytes = npy_header(e.dtype, dims)});
      at = plan.literals.back().bytes.size();
    }
    const uint64_t bytes = catalog.elements(t) * bytes_of(e.dtype);
    plan.regions.push_back({.file_offset = at,
                            .box_at = add_whole_box(plan, dims),
                            .tensor = narrow<uint32_t>(plan.tensors.size()),
                            .file = file,
                            .dtype = e.dtype,
                            .rank = t.rank});
    plan.tensors.push_back({.id = e.tensor(), .first_region = narrow<uint32_t>(plan.regions.size() - 1), .region_count = 1});
    plan.files.push_back({.name = {}, .bytes = at + bytes, .archive = std::nullopt, .payloads = {}});
    plan.bytes_to_write += at + bytes;
    plan.tensor_bytes += bytes;
    plan.largest_tensor = std::max(plan.largest_tensor, bytes);
  }
  cut_into_units(plan, source, units);
  return plan;
}

}  // namespace dcp
