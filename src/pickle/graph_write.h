// One value of a graph as a pickle of its own: what torch.save would put into data.pkl for it. Globals, known or not, are written as they
// were named; what the value shares, and cycles through it, stay shared.
#pragma once

#include <string>
#include <vector>

#include "pickle/graph.h"

namespace dcp {

struct WrittenValue {
  std::string pickle;                     // protocol 2 from PROTO to STOP, with newer opcodes only for what protocol 2 has no form for
  std::vector<std::string> storage_keys;  // of the persistent ids in it, distinct, sorted
};

// Throws pickle_storage_id for a persistent id that names no storage, over_limit for a pickle of more than `cap` bytes. Persistent ids
// are written out each time and share nothing: what splice asks for.
WrittenValue write_value(const PickleGraph& graph, const Value& value, const Place& place, uint64_t cap);

}  // namespace dcp
