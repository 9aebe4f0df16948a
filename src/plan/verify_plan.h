// What `verify` reads, as a plan: passes over records for their CRC; and, if digests are wanted, whole tensors and byte items that go to
// the sink, one output file each, with their records checked on the way.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "plan/units.h"
#include "select/select.h"

namespace dcp {

struct VerifyPlanOptions {
  bool data = true;                    // false: records that hold data are left out
  double sample_percent = 100;         // of the bytes of records that hold data; which ones depends only on their places
  const Selection* digests = nullptr;  // keys whose content goes to the sink
  UnitOptions units;
};

struct VerifyPlan {
  Plan plan;
  struct Digest {
    Entry entry;
    uint32_t file = 0;       // of the plan, with its content; keys that share an item share the file
    bool is_object = false;  // pickle and storages, not the elements of a tensor
  };
  std::vector<Digest> digests;
  std::vector<Entry> not_digested;  // keys whose content is unavailable, for a reason that is a finding, or that have no bytes
  std::vector<Problem> findings;    // stored dtypes that are not the metadata's
  uint64_t data_records = 0;        // in all
  uint64_t data_bytes = 0;
  uint64_t left_out_records = 0;  // of them
  uint64_t left_out_bytes = 0;
};

// The source must have been resolved with Faults::kCollect. A tensor's file holds its elements as a region does: row-major, little-endian,
// of the metadata's dtype. The file of a byte item, or of a tensor that is not plain, holds the pickle and then the storages, in the order
// of the archive.
VerifyPlan plan_verify(const SourceFacts& source, const VerifyPlanOptions& options);

}  // namespace dcp
