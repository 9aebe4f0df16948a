#include "ranks/wire.h"

namespace dcp {

void WireWriter::problem(const Problem& p) {
  number(p.id);
  number(p.severity);
  number<uint8_t>(p.place.object);
  number(p.place.offset.value_or(UINT64_MAX));
  number(p.place.length.value_or(UINT64_MAX));
  for (const std::string* s : {&p.place.path, &p.place.member, &p.place.tensor, &p.what, &p.got, &p.expected, &p.hint}) text(*s);
}

Problem WireReader::problem() {
#define DCP_PROBLEM(...) +1
  constexpr int kProblems =
#include "base/problems.def"
      ;
#undef DCP_PROBLEM
  const auto id = number<std::underlying_type_t<ProblemId>>();
  const auto severity = number<std::underlying_type_t<Severity>>();
  if (id >= kProblems || severity > static_cast<int>(Severity::kError)) fail(ProblemId::internal, {}, "a message between ranks with a problem that there is not");
  Problem p;
  p.id = static_cast<ProblemId>(id);
  p.severity = static_cast<Severity>(severity);
  p.place.object = number<uint8_t>() != 0;
  if (const auto n = number<uint64_t>(); n != UINT64_MAX) p.place.offset = n;
  if (const auto n = number<uint64_t>(); n != UINT64_MAX) p.place.length = n;
  for (std::string* s : {&p.place.path, &p.place.member, &p.place.tensor, &p.what, &p.got, &p.expected, &p.hint}) *s = text();
  return p;
}

}  // namespace dcp
