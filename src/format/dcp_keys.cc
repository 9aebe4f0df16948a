// Reads only keys: half of a `.metadata` is the storage_data of its chunks, and most of the rest describes tensors.
#include "format/dcp_keys.h"

#include "pickle/machine.h"

namespace dcp {
namespace {

struct HasKeys {};  // thrown to stop: the rest is not needed

// Builds nothing. The first MetadataIndex marks the beginning of storage_data; by then, the dict of the keys is complete.
class KeysHandler {
 public:
  std::vector<std::string> keys;

  Value global(PickleMachine& m, std::string_view, std::string_view name) {
    if (name == "MetadataIndex" && take_keys(m)) throw HasKeys{};
    return {.kind = Kind::kGlobal};
  }
  Value reduce(PickleMachine&, Value, Value) { return {.kind = Kind::kTyped}; }
  Value new_object(PickleMachine& m, Value, Value, Value) { return m.open(0); }
  Value build(PickleMachine&, Value, Value) { return {.kind = Kind::kTyped}; }
  Value persistent(PickleMachine&, Value) { return {.kind = Kind::kTyped}; }

 private:
  bool take_keys(const PickleMachine& m) {
    const auto stack = m.stack();
    for (size_t i = 0; i + 1 < stack.size(); ++i) {
      if (!m.is_text(stack[i], "state_dict_metadata") || stack[i + 1].kind != Kind::kDict) continue;
      Value key, value;
      uint64_t bytes = 0;  // shared texts may add up to more than the pickle
      for (auto it = m.items(stack[i + 1]); it.next(key) && it.next(value);) {
        if (key.kind != Kind::kText || (bytes += key.n) > m.pickle_bytes()) return keys.clear(), false;
        keys.emplace_back(m.text(key));
      }
      return true;
    }
    return false;
  }
};

}  // namespace

std::optional<std::vector<std::string>> read_dcp_keys(Bytes pickle, const Place& place, const Limits& limits) {
  KeysHandler handler;
  PickleMachine machine(pickle, place, limits);
  try {
    machine.run(handler);
  } catch (const HasKeys&) {
    return std::move(handler.keys);
  }
  return std::nullopt;
}

}  // namespace dcp
