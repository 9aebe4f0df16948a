// A pickled object as text and as JSON. Nothing in it is executed or interpreted: calls are shown as calls.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/problem.h"
#include "pickle/graph.h"

namespace dcp::cmd {

// What a print may take: values that an object shares count each time. Beyond it over_limit is thrown.
struct PrintBound {
  // In proportion to the object's pickle: Python's form of most objects is about as long, indented and escaped a few times that.
  PrintBound(const PickleGraph& graph, Place object) : place(std::move(object)), bytes((1 << 20) + 32 * graph.machine().pickle_bytes()) {}
  [[noreturn]] void fail() const;
  Place place;
  uint64_t bytes;
};

// As Python prints it, in lines of at most `columns` where possible: {'lr': 0.1, 'betas': (0.9, 0.999)}.
std::string object_text(const PickleGraph& graph, size_t columns, const PrintBound& bound);

// One value: dicts whose keys are all text or integers are objects, others {"$dict": [[key, value], ...]}; bytes {"$bytes": HEX}; a class
// or function {"$global": "module.name"}; a call of one {"$call": "module.name", "arguments", "items"?, "state"?}; an id of a storage
// {"$storage": [...]}. A value inside itself is "$cycle".
void object_json(JsonWriter& out, const PickleGraph& graph);
// Throws if that would be too long, before anything is written.
void check_object_json(const PickleGraph& graph, const PrintBound& bound);

}  // namespace dcp::cmd
