// The answer of inspect: the summary or the result of a map, values, a page; and the exit code.
#pragma once

#include <optional>
#include <string>

#include "dtype_flags.h"
#include "findings.h"
#include "inspect_text.h"
#include "key_flags.h"
#include "map_flags.h"
#include "source.h"

namespace dcp::cmd {

struct InspectOptions {
  SourceFlags source;
  InspectView view = InspectView::kOutline;
  std::optional<size_t> depth;
  KeyFlags keys;
  MapFlags map;
  DtypeFlags dtypes;
  FailOn fail_on;
  std::string html, max_memory, stats;
  unsigned threads = 0;
};

struct InspectAnswer {
  std::string document;  // the JSON, if --report asks for it
  Exit exit = Exit::kOk;
};

// Prints it.
InspectAnswer inspect_answer(const InspectOptions& o, Context& context);

}  // namespace dcp::cmd
