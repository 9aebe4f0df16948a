// --expect REF, --expect-dtypes: before the first byte is written, keys and shapes of the result must be those of REF. For all writers.
#pragma once

#include <string>
#include <vector>

#include "context.h"
#include "plan/expect.h"

namespace dcp::cmd {

struct ExpectFlags {
  std::string reference;  // a checkpoint, or a text list (plan/expect.h)
  bool dtypes = false;
};
void add_expect(Command& command, ExpectFlags& flags);

// What --report says about it; empty without --expect.
struct Expectation {
  std::string reference;
  std::vector<Difference> differences;
  bool has_gap = false;  // REF may lack tensors itself, as the checkpoint does that it is, or is a copy of
};
// Compares and names the differences on stderr, at most kShown of each kind. Throws expect_differs if there are any; `found` is filled in
// any case.
void check_expected(const ExpectFlags& flags, std::vector<Signature> result, const Context& context, Expectation& found);
void expectation_json(JsonWriter& json, const Expectation& expectation);

}  // namespace dcp::cmd
