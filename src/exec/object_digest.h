// What a Python object is, whatever pickle it is in: 128 bits that are the same for equal values and, but by chance, for no others. 3 and
// 3.0 are not the same, nor are 1 and True. What only the pickler decides does not count: the protocol, the memo, the order of a dict's and
// a set's entries, old and new names of modules, where the elements of a tensor lie and on which device they did.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catalog/data_files.h"
#include "catalog/inner_tensors.h"

namespace dcp {

struct ObjectDigest {
  uint64_t low = 0, high = 0;
  auto operator<=>(const ObjectDigest&) const = default;
};

// Of what has several pieces, in order.
ObjectDigest joined(const std::vector<ObjectDigest>& pieces);

// Of the values of one object's pickle.
class ObjectDigester {
 public:
  // What is given must outlive it.
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
  std::unordered_map<uint64_t, uint64_t> open_;       // containers that are being looked at, and how deep they lie
  uint64_t reach_ = 0;                                // the least depth of those that what was just looked at holds again
  uint64_t visits_ = 0;
};

}  // namespace dcp
