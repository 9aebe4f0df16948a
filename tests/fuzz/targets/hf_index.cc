// The index beside safetensors files: written anew it is the same.
#include <algorithm>

#include "format/safetensors.h"
#include "fuzz.h"

namespace dcp::fuzz {

void run(Bytes input) {
  const Place place{.path = "model.safetensors.index.json"};
  HfIndex index = read_hf_index(as_text(input), place, kLimits);
  const std::string written = write_hf_index(index.total_bytes.value_or(0), index.weight_map);
  std::ranges::sort(index.weight_map);
  surely("what was written is read", [&] {
    const HfIndex again = read_hf_index(written, place, kLimits);
    must(again.total_bytes == index.total_bytes.value_or(0) && again.weight_map == index.weight_map, "the same");
    return 0;
  });
}

}  // namespace dcp::fuzz
