// A pickled object as text and as JSON. Nothing of it is run or understood: calls are shown as calls.
#pragma once

#include <string>

#include "base/json.h"
#include "pickle/graph.h"

namespace dcp::cmd {

// As Python spells it, in lines of at most `columns` where it can be: {'lr': 0.1, 'betas': (0.9, 0.999)}. Throws over_limit where what is
// shared inside it would make it far larger than it is.
std::string object_text(const PickleGraph& graph, size_t columns);

// One value: dicts whose keys are all text or integers are objects, others {"$dict": [[key, value], ...]}; bytes {"$bytes": HEX}; a class or
// function {"$global": "module.name"}; a call of one {"$call": "module.name", "arguments", "items"?, "state"?}; an id of a storage
// {"$storage": [...]}. What holds itself is "$cycle" there.
void object_json(JsonWriter& out, const PickleGraph& graph);

}  // namespace dcp::cmd
