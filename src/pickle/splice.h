// Splice: copies one complete pickle into another, opcode by opcode, without building a value. For byte items in a .pt file.
//
// What changes on the way: PROTO, FRAME and STOP are dropped; memo slots are moved up past the writer's own (MEMOIZE becomes a PUT with an
// explicit slot); SHORT_BINUNICODE becomes BINUNICODE; the keys of storages are renumbered. Everything else is copied byte for byte.
//
// Storage keys are texts inside persistent ids, ("storage", class, key, location, count), and CPython keeps one object for each
// one-character string: a key '0' may share its memo slot with a '0' of the user's. So a key is always written out as a literal, and a slot
// that a key filled is never read again: where the original text is needed, it is written out too.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"
#include "pickle/writer.h"

namespace dcp {

struct SpliceResult {
  std::vector<std::string> globals;  // "module.name" as written, distinct, in order of appearance
  bool weights_only_opcodes = true;  // false: has opcodes that torch.load(weights_only=True) refuses, always or for a class
};

// Old storage key -> new one. Called once for each distinct key, in the order of the persistent ids.
using RenameStorage = std::function<std::string(std::string_view old_key)>;

// Appends the value of `pickle` to a writer of protocol 2. Throws Error: pickle_*, over_limit; the writer's text must then be dropped.
SpliceResult splice_pickle(Bytes pickle, const Place& place, const Limits& limits, const RenameStorage& rename, PickleWriter& writer);

}  // namespace dcp
