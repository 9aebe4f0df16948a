// Checks, before the first byte is written, that keys and shapes of the result are those of a reference, and that it has its objects.
#pragma once

#include <string>
#include <vector>

#include "app/requests.h"
#include "app/world.h"
#include "items/resolve.h"
#include "plan/expect.h"

namespace dcp {

// What is about to be written.
struct Written {
  SourceFacts source;
  const Selection& selection;
  const Plan& plan;
};

// Empty if nothing was expected.
struct Expectation {
  std::string reference;
  std::vector<Difference> differences;
  std::vector<std::string> additional;  // objects that the reference, whose kind holds objects, lacks
  bool may_lack_shards = false;         // the reference may lack tensors itself: it is a checkpoint of which a file may be missing
};
// The tensors of a checkpoint or a text list. `may_lack_shards`: see Expectation.
std::vector<Signature> read_reference(Store& store, const std::string& path, bool& may_lack_shards);

// Warns of each difference, at most kShown per kind, and tells what is additional. Throws expect_differs if there are any; always fills `found`.
void check_expected(const ExpectRequest& request, const Written& result, World& world, Expectation& found);

// The same of differences that are found already: throws the problem, with their numbers, if there are any.
void refuse_differences(const Expectation& found, Problem problem, World& world);

// "missing", "unexpected", "other shape", "other dtype".
std::string_view word_of(Difference::Kind kind);
inline constexpr size_t kDifferenceKinds = 4;

}  // namespace dcp
