// The `.metadata` of a DCP folder, written from its plan and never held.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "catalog/select.h"
#include "plan/flat_entries.h"
#include "plan/plan.h"

namespace dcp {

// Where an item lies in the output.
struct Slice {
  uint32_t file = 0;
  uint64_t offset = 0, length = 0;  // bytes
};

// What the metadata needs beside the plan: by entry of `flat`, its PlanTensor, or the first of its slices.
struct PlanKeys {
  const Catalog& catalog;
  const Selection& selection;
  FlatEntries flat;
  std::vector<uint32_t> at;
  std::vector<bool> copied;  // not a PlanTensor: a byte item, or a tensor whose items are copied
  std::vector<Slice> slices;

  const Tensor* tensor(size_t e) const { return flat.entries[e].is_blob() ? nullptr : &catalog.tensors[flat.entries[e].tensor()]; }
};

void write_plan_metadata(const Plan& plan, const PlanKeys& keys, const std::function<void(std::string_view)>& sink);

}  // namespace dcp
