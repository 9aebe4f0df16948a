// Writes one value of a graph as a separate pickle: the data.pkl that torch.save would write for it. Globals, known or not, keep their
// names; sharing and cycles within the value are kept.
#pragma once

#include <string>
#include <vector>

#include "pickle/graph.h"

namespace dcp {

struct WrittenValue {
  std::string pickle;                     // protocol 2 from PROTO to STOP, with newer opcodes only where protocol 2 has none
  std::vector<std::string> storage_keys;  // of the persistent ids in it, distinct, sorted
};

// Throws pickle_storage_id for a persistent id that names no storage, over_limit for a pickle of more than `cap` bytes. Each persistent id
// is written out in full and shares nothing, as splice requires.
WrittenValue write_value(const PickleGraph& graph, const Value& value, const Place& place, uint64_t cap);

}  // namespace dcp
