// Checks that a checkpoint is whole, and that it matches a manifest.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/stages.h"
#include "format/manifest.h"
#include "items/unsafe.h"
#include "select/select.h"

namespace dcp {

struct VerifyRequest {
  ReadRequest read;
  bool data = true;             // false: metadata, item headers and small records only
  double sample_percent = 100;  // of the data
  std::string manifest;         // where to write a manifest; "-": into the result; "": nowhere
  Replace replace = Replace::kNo;
  std::string against;  // a manifest to compare with; "": none
  Subset subset = Subset::kNo;
  bool file_digests = true;  // also of whole files, which reads them a second time
  MapRequest map;            // the manifest is of its result
  SelectOptions select;      // which keys, under which names, a manifest holds; which ones findings are about

  bool digests() const { return !manifest.empty() || !against.empty(); }
};

// Of a damaged checkpoint, what is not whole.
struct Harm {
  uint64_t tensors = 0, objects = 0;
  bool has_one_model = false;         // then it may be written alone
  uint64_t model_keys = 0;            // of it
  std::vector<std::string> of_model;  // those that are not whole, by name
  std::vector<std::string> lost;      // keys without their bytes that no finding names
};

// Filled as far as it got, whatever happens.
struct VerifyResult {
  std::optional<CheckpointKind> kind;
  std::string checkpoint;  // the path that was read: a step of a run
  uint64_t tensors = 0, objects = 0, chunks = 0, files = 0;
  struct Selected {
    uint64_t tensors = 0, objects = 0;
  };
  std::optional<Selected> selected;        // what findings are about, if keys are left out
  std::optional<uint64_t> tensors_of_map;  // tensors that the map reads: only these are verified
  uint64_t records = 0;                    // whose CRC was checked
  uint64_t records_without_crc = 0;        // that were read, but have none
  uint64_t bytes = 0;                      // read
  uint64_t file_bytes = 0;                 // of the data files: what reading all of it reads
  uint64_t left_out_records = 0, left_out_bytes = 0, data_records = 0, data_bytes = 0;
  uint64_t compared_keys = 0, compared_files = 0;  // with a manifest
  bool wrote_manifest = false;
  std::string manifest;  // if requested as "-"
  uint64_t planned_memory = 0;
  uint64_t nanoseconds = 0;
  std::vector<Problem> findings;  // worst first, then by place: independent of thread timing
  std::vector<UnsafePickle> unsafe;
  std::optional<Harm> harm;        // nullopt: no damage, or some of it is in no key that is known
  uint64_t left_out_findings = 0;  // that are about keys which the selection leaves out, and not in findings
  uint64_t count(Severity severity) const;
  Selected of() const { return selected.value_or(Selected{tensors, objects}); }
  bool is_damaged() const { return count(Severity::kDamage) + count(Severity::kError) > 0; }
};

// Called on the way, before any data is read.
struct VerifySteps {
  std::function<void(const Selection&)> selected = [](const Selection&) {};
  std::function<void(const MapAnswer&)> mapped = [](const MapAnswer&) {};
};

// On several ranks all of them call this; rank 0's result holds the findings of all. Throws usage, manifest_bad, output_exists, what the
// steps throw, and reading errors that cannot be findings: unreadable metadata, machine failures.
void verify(const VerifyRequest& request, World& world, VerifyResult& result, const VerifySteps& steps = {});

}  // namespace dcp
