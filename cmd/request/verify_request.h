// What verify is asked for.
#pragma once

#include <map>
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
  bool quick = false, all_data = false, strict = false, subset = false, no_files = false, force = false;
  std::string sample, stats, manifest, against, max_memory;
  unsigned threads = 0;
  RanksFlags ranks;
  bool of_run = false;                        // the source is one step of the run that was given
  std::map<std::string, Problem> unfinished;  // by path, of the run's saves that did not end, why

  bool wants_stats() const { return !stats.empty() || fail_on.nan(); }
  // Of all the steps of a run data is read only where that is said.
  bool reads_data() const { return !quick && (!of_run || all_data || !sample.empty() || wants_stats()); }
};

VerifyRequest verify_request(const VerifyOptions& o, const Context& context);

}  // namespace dcp::cmd
