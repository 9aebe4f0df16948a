// The root of a `.metadata` pickle: its three dicts and the attributes beside them.
#include <algorithm>
#include <set>

#include "base/checked.h"
#include "format/dcp_metadata_handler.h"

namespace dcp {
namespace {

// A value of one of Python's own types, other than None.
bool is_plain(const Value& v) {
  return (v.kind > Kind::kNil && v.kind < Kind::kGlobal) || (v.kind >= Kind::kTuple && v.kind <= Kind::kSet);
}

}  // namespace

Value MetadataHandler::build_root(PickleMachine& m, const Value& state) {
  if (has_root_) fail(ProblemId::metadata_not_dcp, m.place(), "a second Metadata object", "one");
  has_root_ = true;
  Value state_dict;
  Value storage;
  Value planner_data;
  for_fields(m, "Metadata", state, [&](std::string_view name, const Value& v) {
    if (name == "state_dict_metadata") {
      state_dict = v;
    } else if (name == "storage_data") {
      storage = v;
    } else if (name == "planner_data") {
      planner_data = v;
    } else if (name == "storage_meta") {
      content_.has_storage_meta = is(v, kStorageMeta);
      content_.has_storage_meta_modules = content_.has_storage_meta && v.n == 1;
      // torch sets an attribute on it (FileSystemReader.read_metadata), which values of built-in types do not allow.
      if (is_plain(v)) cannot_load(m, "Metadata.storage_meta: " + describe(m, v), "StorageMeta", ProblemId::metadata_field, "");
    } else if (name == "version") {
      content_.has_version = true;
      if (v.kind == Kind::kText) content_.version = m.text(v);
    } else {
      content_.extra_attributes.push_back(std::string(name) + ": " + type_of(m, v));
      content_.attributes.push_back(read_attribute(m, name, v));
      if (name == "mcore_data") read_mcore_data(m, v);
    }
  });
  read_state_dict(m, state_dict);
  read_storage(m, storage);
  read_planner_data(m, planner_data);
  return typed(kMetadata);
}

void MetadataHandler::read_state_dict(PickleMachine& m, const Value& dict) {
  if (dict.kind != Kind::kDict) fail_field(m, "Metadata.state_dict_metadata", dict, "a dict", std::string_view());
  const uint64_t entries = m.count(dict) / 2;
  content_.order.reserve(entries);
  // Tensors were appended as they were built: normally in the dict's order, each used once.
  std::vector<MetadataContent::Tensor> tensors;
  bool in_place = true;
  uint64_t used = 0;
  const auto walk = [&](auto&& on_tensor, auto&& on_blob) {
    Value key;
    Value v;
    for (auto it = m.items(dict); it.next(key) && it.next(v);) {
      if (key.kind != Kind::kText) fail_field(m, "a key of Metadata.state_dict_metadata", key, "text", std::string_view());
      if (is(v, kTensor)) on_tensor(m.text(key), v.payload);
      else if (is(v, kBlob)) on_blob(m.text(key));
      else fail_field(m, "Metadata.state_dict_metadata", v, "TensorStorageMetadata or BytesStorageMetadata", m.text(key));
    }
  };
  walk([&](std::string_view, uint64_t number) { in_place = (number == used++) && in_place; }, [](std::string_view) {});
  uint64_t next = 0;
  walk(
      [&](std::string_view key, uint64_t number) {
        if (in_place) {
          content_.tensors[number].key = key;
        } else {
          spend(m, values_of(content_.tensors[number]));
          tensors.push_back(content_.tensors[number]);
          tensors.back().key = key;
        }
        content_.order.push_back(KeyRef::tensor_at(next++));
      },
      [&](std::string_view key) {
        content_.order.push_back(KeyRef::blob_at(content_.blobs.size()));
        content_.blobs.push_back(key);
      });
  if (in_place) content_.tensors.resize(used);
  else content_.tensors = std::move(tensors);
}

// A path is a tuple of dict keys (text) and list positions (integers, 0 or more). torch neither makes nor follows an empty path.
bool MetadataHandler::read_path(PickleMachine& m, const Value& key, const Value& path) {
  if (key.kind != Kind::kText || path.kind != Kind::kTuple || path.n == 0) return false;
  spend(m, path.n);
  content_.paths.push_back({.key = m.text(key), .first = content_.path_elements.size(), .count = path.n});
  for (uint32_t i = 0; i < path.n; ++i) {
    const Value v = m.element(path, i);
    if (v.kind == Kind::kText) content_.path_elements.push_back({.name = m.text(v)});
    else if (v.kind == Kind::kInt && v.integer() >= 0) content_.path_elements.push_back({.name = {}, .position = v.integer()});
    else return false;
  }
  return true;
}

// Custom planners may put anything here. Data in another form than torch's is reported and not used.
void MetadataHandler::read_planner_data(PickleMachine& m, const Value& dict) {
  if (dict.kind == Kind::kUnset || dict.kind == Kind::kNil) return;
  if (dict.kind != Kind::kDict) {
    content_.planner_note = type_of(m, dict);
    return;
  }
  Value key;
  Value path;
  content_.paths.reserve(m.count(dict) / 2);
  for (auto it = m.items(dict); it.next(key) && it.next(path);) {
    if (read_path(m, key, path)) continue;
    content_.planner_note = "dict with " + describe(m, key) + " for " + describe(m, path);
    content_.paths.clear();
    content_.path_elements.clear();
    return;
  }
  content_.has_planner_data = true;
}

// Megatron-Core saves a tensor that its distributed optimizer holds flat in the shape (pieces on each dim..., elements of a piece) and puts
// the true shape here: mcore_data: dict key -> dict, empty or {"nd_reformulated_orig_global_shape": tuple of int}. Data in another form
// comes from another release: it is listed as an attribute and not used. Source: megatron/core/dist_checkpointing/strategies/torch.py.
void MetadataHandler::read_mcore_data(PickleMachine& m, const Value& data) {
  if (data.kind != Kind::kDict) return;
  Value key, of_key, name, shape;
  for (auto it = m.items(data); it.next(key) && it.next(of_key);) {
    if (key.kind != Kind::kText || of_key.kind != Kind::kDict) continue;
    for (auto field = m.items(of_key); field.next(name) && field.next(shape);) {
      spend(m, 1);
      if (!m.is_text(name, "nd_reformulated_orig_global_shape") || (shape.kind != Kind::kTuple && !is(shape, kSize))) continue;
      spend(m, shape.n);
      const uint64_t at = content_.ints.size();
      bool sizes = shape.n <= limits_.tensor_rank;
      for (uint32_t i = 0; sizes && i < shape.n; ++i) {
        const Value v = is(shape, kSize) ? Value{.kind = Kind::kInt, .payload = static_cast<uint64_t>(content_.ints[shape.payload + i])}
                                         : m.element(shape, i);
        sizes = v.kind == Kind::kInt && v.integer() >= 0;
        if (sizes) content_.ints.push_back(v.integer());
      }
      if (sizes) content_.mcore_shapes.push_back({.key = m.text(key), .rank = shape.n, .dims_at = at});
    }
  }
}

void MetadataHandler::finish(const PickleMachine& m, const Value& root) {
  if (!is(root, kMetadata)) {
    // An unfinished object at the root is a Metadata that never got its fields.
    fail(ProblemId::metadata_not_dcp, m.place(), describe(m, root), "torch.distributed.checkpoint.metadata.Metadata with its fields");
  }
  // Anything else that was built is in none of the dicts. It is dropped only now, since values on the stack could refer to it.
  if (!paired_.empty()) content_.storage = std::move(paired_);
  content_.storage.resize(used_);
  std::set<std::string> unknown;
  for (const Global& g : globals_) {
    if (g.foreign) unknown.insert(name_of(g));
  }
  content_.unknown_globals.assign(unknown.begin(), unknown.end());
}

}  // namespace dcp
