// A pickle as a graph, written anew: the same graph.
#include "fuzz.h"
#include "pickle/graph.h"
#include "pickle/graph_write.h"

namespace dcp::fuzz {

void run(Bytes input) {
  const Place place{.path = "pickle"};
  constexpr ReprCaps kWide{.depth = 200, .length = 20000, .text = 1000};
  const PickleGraph graph(input, place, kLimits);
  uint64_t values = 0;
  graph.visit([&](const Value&) { ++values; });
  must(values > 0, "the root is visited");
  must(graph.repr(graph.root()).size() <= ReprCaps{}.length + 3, "a line has its cap");

  const std::string shown = graph.repr(graph.root(), kWide);
  const WrittenValue written = write_value(graph, graph.root(), place, 4 * kMiB);
  surely("what was written is read", [&] {
    const PickleGraph again(as_bytes(written.pickle), place, kLimits);
    must(again.repr(again.root(), kWide) == shown, "what was written means the same");
    must(write_value(again, again.root(), place, 4 * kMiB).storage_keys == written.storage_keys, "the storages are the same");
    return 0;
  });
}

}  // namespace dcp::fuzz
