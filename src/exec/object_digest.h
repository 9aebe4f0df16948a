// Identifies a Python object independently of its pickle by 128 bits, which are equal for equal values and, up to collisions, only for
// those. 3 and 3.0 differ, and so do 1 and True. What depends only on the pickler is ignored: the protocol, the memo, the order of entries
// of dicts and sets, old and new module names, where the elements of a tensor lie and on which device they were.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catalog/data_files.h"
#include "items/inner_tensors.h"

namespace dcp {

struct ObjectDigest {
  uint64_t low = 0, high = 0;
  auto operator<=>(const ObjectDigest&) const = default;
};

// The digest of a sequence.
ObjectDigest joined(const std::vector<ObjectDigest>& pieces);

// Digests values of one object's pickle.
class ObjectDigester {
 public:
  // The arguments must outlive it.
  ObjectDigester(DataFiles& files, const Catalog& catalog, const OpenObject& object, const Limits& limits);

  // Throws what reading a tensor's storage throws; over_limit for values that are nested too deep or shared too often.
  ObjectDigest of(const Value& value);

 private:
  using Digests = std::vector<ObjectDigest>;
  ObjectDigest content(const Value& v);
  Digests elements(const Value& v);
  ObjectDigest entries(std::string_view tag, const Value& v);
  ObjectDigest object(const Value& v);
  std::optional<ObjectDigest> known_form(std::string_view name, const Value& arguments, const Value& v);
  std::optional<std::string> bytes_in(const Value& v) const;
  std::optional<std::string> encoded(const Value& arguments) const;
  ObjectDigest call(std::string_view form, const ObjectDigest& callable, const Digests& arguments, const Value& v);
  ObjectDigest tensor(const TensorCall& call);
  ObjectDigest storage(const Value& id);
  void read(const BlobItem::Storage& record, uint64_t at, MutableBytes into) const;
  std::vector<std::byte> whole(const BlobItem::Storage& record) const;

  DataFiles& files_;
  const Catalog& catalog_;
  const OpenObject& object_;
  const PickleMachine& m_;
  const Limits& limits_;
  std::unordered_map<uint64_t, ObjectDigest> known_;  // by place in the arena
  std::unordered_map<uint64_t, uint64_t> open_;       // containers being visited, and their depth
  uint64_t reach_ = 0;                                // the minimum depth of open containers that the last value refers back to
  uint64_t visits_ = 0;
};

}  // namespace dcp
