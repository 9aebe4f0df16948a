// A pickle spliced into another: what was a graph means the same, with its storages renamed.
#include "fuzz.h"
#include "pickle/graph.h"
#include "pickle/splice.h"

namespace dcp::fuzz {

void run(Bytes input) {
  const Place place{.path = "pickle"};
  std::string out;
  PickleWriter writer(out, PickleProtocol::k2);
  writer.begin();
  writer.text("before");
  writer.put();
  const SpliceResult result = splice_pickle(input, place, kLimits, [](std::string_view key) { return std::string(key); }, writer);
  writer.put();
  writer.tuple(2);
  writer.end();
  for (const std::string& global : result.globals) must(global.find('.') != std::string::npos, "a global has a module and a name");

  std::string before;
  constexpr ReprCaps kWide{.depth = 200, .length = 20000, .text = 1000};
  try {
    const PickleGraph graph(input, place, kLimits);
    before = graph.repr(graph.root(), {.depth = kWide.depth - 1, .length = kWide.length, .text = kWide.text});
  } catch (const Error&) {  // splice looks at opcodes, not at what they do to values
    return;
  }
  if (before.ends_with("...")) return;  // cut at the cap, or a little below it so that no character is cut
  surely("what was spliced is read", [&] {
    const PickleGraph spliced(as_bytes(out), place, kLimits);
    const std::string after = spliced.repr(spliced.root(), {.depth = kWide.depth, .length = kWide.length + 100, .text = kWide.text});
    must(after == "('before', " + before + ")", "what was spliced means the same");
    return 0;
  });
}

}  // namespace dcp::fuzz
