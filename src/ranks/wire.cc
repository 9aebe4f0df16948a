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
  for (const std::string* s : {&p.place.path, &p.place.member, &p.place.tensor, &p.what, &p.got, &p.expected, &p.hint}) text(*s);
}

Problem WireReader::problem() {
  Problem p;
  p.id = one_of<ProblemId>(kProblemIds);
  p.severity = one_of<Severity>(static_cast<uint8_t>(Severity::kError) + 1);
  p.place.object = number<bool>();
  if (const auto n = number<uint64_t>(); n != UINT64_MAX) p.place.offset = n;
  if (const auto n = number<uint64_t>(); n != UINT64_MAX) p.place.length = n;
  for (std::string* s : {&p.place.path, &p.place.member, &p.place.tensor, &p.what, &p.got, &p.expected, &p.hint}) *s = text();
  return p;
}

}  // namespace dcp
