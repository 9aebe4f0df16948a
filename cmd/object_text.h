// A pickled object as text and as JSON. Nothing in it is executed or interpreted: calls are shown as calls.
#pragma once

#include <string>

#include "base/json.h"
#include "pickle/graph.h"

namespace dcp::cmd {

// As Python prints it, in lines of at most `columns` where possible: {'lr': 0.1, 'betas': (0.9, 0.999)}. Throws over_limit if printing
// shared values repeatedly would make the text far larger than the object.
std::string object_text(const PickleGraph& graph, size_t columns);

// One value: dicts whose keys are all text or integers are objects, others {"$dict": [[key, value], ...]}; bytes {"$bytes": HEX}; a class
// or function {"$global": "module.name"}; a call of one {"$call": "module.name", "arguments", "items"?, "state"?}; an id of a storage
// {"$storage": [...]}. A value inside itself is "$cycle".
void object_json(JsonWriter& out, const PickleGraph& graph);

}  // namespace dcp::cmd
