// Objects of an output against those of a reference: which keys hold one.
#pragma once

#include <string>
#include <vector>

#include "items/resolve.h"
#include "plan/plan.h"
#include "select/select.h"

namespace dcp {

// What is about to be written.
struct Written {
  SourceFacts source;
  const Selection& selection;
  const Plan& plan;
  bool holds_objects = true;  // its form does
};

struct ObjectKeys {
  std::vector<std::string> missing, additional;
};
// Missing is what the reference has and the output has not. A dict that an older torch saves as one item has the keys of what is in it, unless
// the output is for a torch that looks for them one by one. What dcp.save stores nothing of, the output of a DCP folder need not have.
ObjectKeys compare_objects(const Written& written, const Catalog& reference);

}  // namespace dcp
