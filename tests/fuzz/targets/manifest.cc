// A manifest: written anew it is the same, and what it holds is what it proves.
#include "format/manifest.h"

#include "fuzz.h"

namespace dcp::fuzz {

void run(Bytes input) {
  const Place place{.path = "manifest.json"};
  const Manifest read = read_manifest(as_text(input), place, kLimits);
  surely("what was written is read", [&] {
    const Manifest again = read_manifest(write_manifest(read, place), place, kLimits);
    must(again == read, "the same");
    must(compare_manifests(read, again, place).findings.empty(), "no difference from itself");
    return 0;
  });
  const Manifest nothing;
  const ManifestComparison none = compare_manifests(read, nothing, place, {.subset = Subset::kYes});
  must(none.keys == 0, "nothing is compared with nothing");
}

}  // namespace dcp::fuzz
