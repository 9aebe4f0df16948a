// The answer of inspect: the summary or the result of a map, values, a page; and the exit code.
#pragma once

#include <optional>
#include <string>

#include "line/exit_status.h"
#include "report/findings.h"
#include "report/inspect_text.h"
#include "request/dtype_flags.h"
#include "request/key_flags.h"
#include "request/map_flags.h"
#include "request/source.h"

namespace dcp::cmd {

struct InspectOptions {
  SourceFlags source;
  InspectStyle style;
  KeyFlags keys;
  MapFlags map;
  DtypeFlags dtypes;
  FailOn fail_on;
  FieldFlags fields;
  bool csv = false;
  std::string html, max_memory, stats;
  std::vector<std::string> words;  // of rules that were typed as words behind the checkpoint
  unsigned threads = 0;
};

struct InspectAnswer {
  std::string document;  // the JSON, if --report asks for it
  Exit exit = Exit::kOk;
};

// Prints it.
InspectAnswer inspect_answer(const InspectOptions& o, Context& context);

}  // namespace dcp::cmd
