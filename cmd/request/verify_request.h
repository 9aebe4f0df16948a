// What verify is asked for.
#pragma once

#include <string>

#include "app/verify.h"
#include "request/fail_on.h"
#include "request/key_flags.h"
#include "request/map_flags.h"
#include "request/ranks_flags.h"
#include "request/source.h"

namespace dcp::cmd {

struct VerifyOptions {
  SourceFlags source;
  KeyFlags keys;
  MapFlags map;
  FailOn fail_on;
  bool quick = false, strict = false, subset = false, no_files = false, force = false;
  std::string sample, manifest, against, max_memory;
  unsigned threads = 0;
  RanksFlags ranks;
};

VerifyRequest verify_request(const VerifyOptions& o, const Context& context);

}  // namespace dcp::cmd
