// Checks whether a checkpoint is complete, whether its CRCs match, and whether it matches a manifest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dcpctl/control.h"
#include "dcpctl/error.h"
#include "dcpctl/export.h"

namespace dcpctl {

struct VerifyOptions {
  std::string step = {};                    // see OpenOptions
  bool data = true;                         // false: only metadata, item headers and small records
  std::string against = {};                 // a manifest (`dcpctl verify --manifest`, or `manifest` here) to compare with; "": none
  std::string manifest = {};                // where to write a manifest, in a new file and of a sound checkpoint only; "": nowhere
  uint64_t max_memory = uint64_t{1} << 30;  // bytes, on top of what the process holds
  unsigned threads = 0;                     // 0: the number of cores, clamped to 4..16
  Control* control = nullptr;
};

struct VerifyReport {
  std::vector<Problem> findings = {};  // worst first; the same list for any number of threads
  uint64_t tensors = 0, objects = 0, chunks = 0, files = 0;
  uint64_t records_checked = 0;      // whose CRC was checked
  uint64_t records_without_crc = 0;  // that were read, but whose writer stored no CRC
  uint64_t bytes_read = 0;
  bool is_sound = true;  // no finding is damage or an error
};

// Every fault of the checkpoint is a finding. Throws Error only if there is no checkpoint, its metadata cannot be read, or the machine
// fails.
DCPCTL_API VerifyReport verify(const std::string& path, const VerifyOptions& options = {});

}  // namespace dcpctl
