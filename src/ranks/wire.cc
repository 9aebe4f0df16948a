#include "ranks/wire.h"

namespace dcp {
namespace {

constexpr uint16_t kProblemIds = 0
#define DCP_PROBLEM(id, exit, what, hint) +1
#include "base/problems.def"
#undef DCP_PROBLEM
    ;

}  // namespace

void WireWriter::problem(const Problem& p) {
  number(p.id);
  number(p.severity);
  number(p.place.object);
  number(p.place.offset.value_or(UINT64_MAX));
  number(p.place.length.value_or(UINT64_MAX));
  number(p.place.line);
  number(p.place.column);
  for (const std::string* s : {&p.place.path, &p.place.member, &p.place.tensor, &p.what, &p.got, &p.expected, &p.hint, &p.quote}) text(*s);
}

Problem WireReader::problem() {
  Problem p;
  p.id = one_of<ProblemId>(kProblemIds);
  p.severity = one_of<Severity>(static_cast<uint8_t>(Severity::kError) + 1);
  p.place.object = number<bool>();
  if (const auto n = number<uint64_t>(); n != UINT64_MAX) p.place.offset = n;
  if (const auto n = number<uint64_t>(); n != UINT64_MAX) p.place.length = n;
  p.place.line = number<uint32_t>();
  p.place.column = number<uint32_t>();
  for (std::string* s : {&p.place.path, &p.place.member, &p.place.tensor, &p.what, &p.got, &p.expected, &p.hint, &p.quote}) *s = text();
  return p;
}

}  // namespace dcp
