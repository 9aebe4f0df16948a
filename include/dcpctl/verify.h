// Checking: is the checkpoint whole, do its CRC sums hold, is it what a manifest says?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dcpctl/error.h"
#include "dcpctl/export.h"

namespace dcpctl {

struct VerifyOptions {
  std::string step = {};                    // as OpenOptions has it
  bool data = true;                         // false: metadata, headers of items and small records only
  std::string against = {};                 // a manifest (`dcpctl verify --manifest`, or `manifest` here) to compare with; "": none
  std::string manifest = {};                // where to write one; "": nowhere
  uint64_t max_memory = uint64_t{1} << 30;  // bytes, beside what the process holds
  unsigned threads = 0;                     // 0: as many as there are cores, 4 to 16
};

struct VerifyReport {
  std::vector<Problem> findings = {};  // the worst first; the same list whatever the threads did
  uint64_t tensors = 0, objects = 0, chunks = 0, files = 0;
  uint64_t records_checked = 0;      // whose CRC was compared
  uint64_t records_without_crc = 0;  // that were read, but whose writer stored none
  uint64_t bytes_read = 0;
  bool is_sound = true;  // no finding is damage or an error
};

// What is wrong with the checkpoint is a finding; an Error is thrown where there is none, its metadata cannot be read, or the machine fails.
DCPCTL_API VerifyReport verify(const std::string& path, const VerifyOptions& options = {});

}  // namespace dcpctl
