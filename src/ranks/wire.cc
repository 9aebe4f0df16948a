#include "ranks/wire.h"

namespace dcp {

DCP_MEMBERS(Problem, id, severity, place, what, got, expected, hint, quote, keys, names, remedy, enough_bytes);

namespace {

constexpr uint16_t kProblemIds = 0
#define DCP_PROBLEM(id, exit, what, hint) +1
#include "base/problems.def"
#undef DCP_PROBLEM
    ;

}  // namespace

void WireWriter::problem(const Problem& p) {
  for_each_member(p, [this](const auto& member) { (*this)(member); });
}

Problem WireReader::problem() {
  Problem p;
  for_each_member(p, [this](auto& member) { (*this)(member); });
  if (static_cast<uint16_t>(p.id) >= kProblemIds || p.severity > Severity::kError || p.remedy > kLastRemedy) wrong();
  return p;
}

}  // namespace dcp
