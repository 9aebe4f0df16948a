#include "format/dcp_metadata.h"

#include <algorithm>
#include <array>
#include <memory_resource>
#include <unordered_map>

#include "base/checked.h"
#include "format/dcp_metadata_handler.h"
#include "pickle/machine.h"

namespace dcp {

// Reads the objects of a `.metadata` pickle below its root. Sources: torch/distributed/checkpoint/{metadata,filesystem}.py, torch 2.0 to
// 2.15; torch/distributed/_shard/checkpoint/, torch 1.13; torch/distributed/_shard/sharded_tensor/metadata.py.

Value MetadataHandler::build(PickleMachine& m, Value object, Value state) {
  if (is(object, kBlob)) return object;
  if (object.kind != Kind::kOpen) m.fail_operand(object, "an object to give a state");
  const Class cls = globals_[object.n].cls;
  switch (cls == kUnknown ? class_by_fields(m, state) : cls) {
    case kMetadata: return build_root(m, state);
    case kTensor: return build_tensor(m, state);
    case kChunk: return build_chunk(m, state);
    case kIndex: return build_index(m, state);
    case kStorageInfo: return build_info(m, state);
    case kProperties: return build_properties(m, state);
    case kStorageMeta: return build_storage_meta(m, state);
    default: return opaque(object);
  }
}

MetadataHandler::Dicts MetadataHandler::dicts_of(const PickleMachine& m, const Value& state) {
  if (state.kind != Kind::kTuple || state.n != 2) return {{state, {}}};
  const Value plain = m.element(state, 0), slots = m.element(state, 1);
  if (slots.kind != Kind::kDict || (plain.kind != Kind::kNil && plain.kind != Kind::kDict)) return {{state, {}}};
  return plain.kind == Kind::kNil ? Dicts{{slots, {}}} : Dicts{{plain, slots}};
}

// Forks of torch's writers keep copies of its dataclasses in modules of their own (OLMo-core, NeMo Automodel): an object with the fields of
// one of torch's classes is read as one. In planner data such an object may be anything, so nothing about it is an error there.
MetadataHandler::Class MetadataHandler::class_by_fields(const PickleMachine& m, const Value& state) const {
  const Dicts dicts = dicts_of(m, state);
  if (dicts.of[0].kind == Kind::kTuple) return state.n >= 2 && is(m.element(state, 1), kGetLayout) ? kProperties : kUnknown;
  std::array<std::pair<Value, Value>, 32> fields;
  size_t count = 0;
  for (const Value& dict : dicts.of) {
    if (dict.kind != Kind::kDict) break;
    for (auto it = m.items(dict); it.next(fields[count].first) && it.next(fields[count].second);)
      if (++count == fields.size()) return kUnknown;  // the memo may share a large dict among many objects
  }
  const auto has = [&](std::string_view name, auto... kinds) {
    return std::any_of(fields.begin(), fields.begin() + count, [&](const auto& f) {
      return m.is_text(f.first, name) && (sizeof...(kinds) == 0 || ((f.second.kind == kinds) || ...));
    });
  };
  const auto has_size = [&](std::string_view field) { return has(field, Kind::kTyped, Kind::kTuple, Kind::kList); };
  if (has("relative_path", Kind::kText) && has("offset", Kind::kInt) && has("length", Kind::kInt)) return kStorageInfo;
  if (has("fqn", Kind::kText) && has("index", Kind::kInt, Kind::kNil)) return kIndex;
  if (has_size("offsets") && has_size("sizes") && !has("relative_path")) return kChunk;  // with one: torch's S3RdmaStorageWriter
  if (has("properties", Kind::kTyped) && has_size("size") && has("chunks", Kind::kList, Kind::kTuple)) return kTensor;
  if (has("dtype", Kind::kTyped) && has("layout", Kind::kTyped)) return kProperties;
  if (has("state_dict_metadata", Kind::kDict) && has("storage_data", Kind::kDict)) return kMetadata;
  return has("checkpoint_id") && has("save_id") ? kStorageMeta : kUnknown;
}

Value MetadataHandler::persistent(PickleMachine& m, Value id) {
  fail(ProblemId::metadata_not_dcp, m.place(), "a persistent id: " + describe(m, id), "a pickle without them");
}

// --- numbers

Value MetadataHandler::size_of(PickleMachine& m, const Value& numbers) {
  if (is(numbers, kSize)) return numbers;
  if (numbers.kind != Kind::kTuple && numbers.kind != Kind::kList) {
    fail(ProblemId::metadata_number, place_of(m), "torch.Size of " + describe(m, numbers), "integers");
  }
  const Value size = typed(kSize, content_.ints.size());
  uint32_t rank = 0;
  const auto take = [&](const Value& v) {
    if (v.kind != Kind::kInt) fail(ProblemId::metadata_number, place_of(m), "torch.Size with " + describe(m, v), "integers");
    if (rank == limits_.tensor_rank) fail_limit(m, "torch.Size of more numbers", limits_.tensor_rank);
    content_.ints.push_back(v.integer());
    ++rank;
  };
  if (numbers.kind == Kind::kTuple) {
    for (const Value& v : m.elements(numbers)) take(m.final(v));
    return typed(kSize, size.payload, rank);
  }
  Value v;
  for (auto it = m.items(numbers); it.next(v);) take(v);
  return typed(kSize, size.payload, rank);
}

// Checks that all numbers of a size are 0 or more. This is not done when a torch.Size is read, because in planner data it may hold
// anything.
Value MetadataHandler::checked_size(PickleMachine& m, std::string_view field, const Value& v, Key key) {
  if (!is(v, kSize) && v.kind != Kind::kTuple && v.kind != Kind::kList) fail_field(m, field, v, "torch.Size", key);
  const Value size = size_of(m, v);
  for (uint32_t i = 0; i < size.n; ++i) {
    const int64_t number = content_.ints[size.payload + i];
    if (number < 0) fail(ProblemId::metadata_number, place_of(m, key), std::string(field) + " with " + std::to_string(number), "0 or more");
  }
  return size;
}

uint64_t MetadataHandler::checked_number(const PickleMachine& m, std::string_view field, const Value& v) const {
  if (v.kind != Kind::kInt || v.integer() < 0) {
    fail(ProblemId::metadata_number, place_of(m), std::string(field) + " " + describe(m, v), "an integer, 0 or more");
  }
  return v.payload;
}

// --- state_dict_metadata: tensors

// The state is a tuple, whose length depends on the release (6 fields since torch 2.15). Forks write shorter ones, so fields go by
// position. `strides` (field 6) belongs to one rank's tensor at planning and describes no stored bytes, so it is not read.
Value MetadataHandler::build_properties(PickleMachine& m, const Value& state) {
  Value dtype;
  Value layout;
  Value requires_grad;
  uint32_t fields = 0;
  const bool is_tuple = dicts_of(m, state).of[0].kind == Kind::kTuple;
  if (!is_tuple || (state.n != 5 && state.n != 6)) cannot_load(m, "TensorProperties of " + m.describe(state), "5 or 6 fields");
  else if (const Value format = m.element(state, 3); !is(format, kMemoryFormat))
    cannot_load(m, "TensorProperties with the memory format " + describe(m, format), "torch's own");
  if (is_tuple) {
    const auto field = [&](uint32_t i) { return i < state.n ? m.element(state, i) : Value{}; };
    fields = state.n;
    dtype = field(0);
    layout = field(1);
    requires_grad = field(2);
  } else {
    for_fields(m, "TensorProperties", state, [&](std::string_view name, const Value& v) {
      ++fields;
      if (name == "dtype") dtype = v;
      if (name == "layout") layout = v;
      if (name == "requires_grad") requires_grad = v;
    });
  }
  content_.properties_fields = std::max(content_.properties_fields, fields);
  // A dtype that the table lacks is still a global of torch.
  const bool is_dtype = is(dtype, kDType) || (dtype.kind == Kind::kGlobal && globals_[dtype.n].module == "torch");
  if (!is_dtype) fail_field(m, "TensorProperties.dtype", dtype, "a dtype of torch");
  if (!is(dtype, kDType))
    cannot_load(m, "TensorProperties.dtype: " + name_of(globals_[dtype.n]), "one whose tensors torch 2.15 can load",
                ProblemId::metadata_field);
  const bool strided = layout.kind == Kind::kUnset || (is(layout, kGetLayout) && layout.n == 1);
  const bool grad = requires_grad.kind == Kind::kBool && requires_grad.payload == 1;
  return typed(kProperties, dtype.n, (strided ? kStrided : 0) | (grad ? kRequiresGrad : 0));
}

Value MetadataHandler::build_chunk(PickleMachine& m, const Value& state) {
  Value offsets;
  Value sizes;
  for_fields(m, "ChunkStorageMetadata", state, [&](std::string_view name, const Value& v) {
    if (name == "offsets") offsets = v;
    else if (name == "sizes") sizes = v;
  });
  offsets = checked_size(m, "ChunkStorageMetadata.offsets", offsets);
  sizes = checked_size(m, "ChunkStorageMetadata.sizes", sizes);
  if (offsets.n != sizes.n) {
    fail(ProblemId::metadata_rank, place_of(m), std::to_string(sizes.n) + " sizes", std::to_string(offsets.n) + " as offsets");
  }
  content_.chunks.push_back({.offsets_at = offsets.payload, .sizes_at = sizes.payload});
  return typed(kChunk, content_.chunks.size() - 1, offsets.n);
}

// Chunks were appended as they were built, so a tensor's are normally the last ones, in order. Chunk objects that tensors share are copied.
void MetadataHandler::gather_chunks(PickleMachine& m, const Value& list, MetadataContent::Tensor& tensor) {
  const std::string_view field = "TensorStorageMetadata.chunks";
  if (list.kind != Kind::kList && list.kind != Kind::kTuple) fail_field(m, field, list, "a list");
  bool in_place = true;
  Value v;
  uint64_t i = 0;
  for (auto it = m.items(list); it.next(v); ++i) {
    if (!is(v, kChunk)) fail_field(m, field, v, "ChunkStorageMetadata");
    spend(m, 1 + uint64_t{v.n});  // a chunk in torch's form takes at least 40 bytes and 2 for each number
    if (v.n != tensor.rank) {
      fail(ProblemId::metadata_rank, place_of(m), "chunk " + std::to_string(i) + " of " + std::to_string(v.n) + " dimensions",
           std::to_string(tensor.rank));
    }
    if (i == 0) tensor.first_chunk = v.payload;
    in_place = in_place && v.payload == tensor.first_chunk + i;
  }
  tensor.chunk_count = i;
  if (in_place) return;
  tensor.first_chunk = content_.chunks.size();
  for (auto it = m.items(list); it.next(v);) {
    const MetadataContent::Chunk copy = content_.chunks[v.payload];
    content_.chunks.push_back(copy);
  }
}

Value MetadataHandler::build_tensor(PickleMachine& m, const Value& state) {
  Value properties;
  Value size;
  Value chunks;
  for_fields(m, "TensorStorageMetadata", state, [&](std::string_view name, const Value& v) {
    if (name == "properties") properties = v;
    if (name == "size") size = v;
    if (name == "chunks") chunks = v;
  });
  if (!is(properties, kProperties)) fail_field(m, "TensorStorageMetadata.properties", properties, "TensorProperties");
  // torch compares it with the size of the tensor that it loads into, and no list equals that (default_planner.py).
  if (size.kind == Kind::kList) cannot_load(m, "TensorStorageMetadata.size: a list", "torch.Size", ProblemId::metadata_field);
  size = checked_size(m, "TensorStorageMetadata.size", size);
  const Global& dtype = globals_[properties.payload];
  MetadataContent::Tensor tensor{
      .key = {},
      .dtype = dtype.dtype,
      .dtype_name = dtype.name,
      .dtype_known = dtype.cls == kDType,
      .strided = (properties.n & kStrided) != 0,
      .requires_grad = (properties.n & kRequiresGrad) != 0,
      .rank = size.n,
      .dims_at = size.payload,
  };
  gather_chunks(m, chunks, tensor);
  content_.tensors.push_back(tensor);
  return typed(kTensor, content_.tensors.size() - 1);
}

Value MetadataHandler::build_storage_meta(PickleMachine& m, const Value& state) {
  bool has_modules = false;
  for_fields(m, "StorageMeta", state, [&](std::string_view name, const Value&) { has_modules = has_modules || name == "modules"; });
  return typed(kStorageMeta, 0, has_modules ? 1 : 0);
}

// --- messages

// Objects are built from the inside out, so the key of an unfinished one is found below it on the stack: for a tensor it is the dict key
// next to it, for a storage record it is in the MetadataIndex next to it, and for a MetadataIndex in its own state.
std::string MetadataHandler::key_at(const PickleMachine& m) const {
  const auto stack = m.stack();
  for (size_t i = stack.size(); i-- > 0;) {
    const Value& v = stack[i];
    if (is(v, kIndex)) return std::string(content_.storage[v.payload].key);
    if (v.kind != Kind::kOpen) continue;
    const Class cls = globals_[v.n].cls;
    if (cls == kIndex) {
      for (size_t j = i + 1; j + 1 < stack.size(); ++j) {
        if (m.is_text(stack[j], "fqn") && stack[j + 1].kind == Kind::kText) return std::string(m.text(stack[j + 1]));
      }
      return {};
    }
    if (cls == kTensor && i > 0 && stack[i - 1].kind == Kind::kText) return std::string(m.text(stack[i - 1]));
  }
  // The object being built is off the stack already: its key is on top.
  if (!stack.empty() && stack.back().kind == Kind::kText) return std::string(m.text(stack.back()));
  return {};
}

Place MetadataHandler::place_of(const PickleMachine& m, Key key) const {
  Place place = m.place();
  place.tensor = key ? std::string(*key) : key_at(m);
  return place;
}

void MetadataHandler::fail_field(const PickleMachine& m, std::string_view field, const Value& got, std::string_view expected,
                                 Key key) const {
  fail(ProblemId::metadata_field, place_of(m, key), std::string(field) + ": " + describe(m, got), std::string(expected));
}

void MetadataHandler::fail_limit(const PickleMachine& m, std::string got, uint64_t max) const {
  fail(ProblemId::over_limit, place_of(m), std::move(got), "at most " + std::to_string(max));
}

void MetadataHandler::spend(const PickleMachine& m, uint64_t values) {
  spent_ += values;
  if (spent_ > budget_) fail_limit(m, "lists that are shared and add up to more values", budget_);
}

// Words are looked up, stored and printed at each use, and with the memo a use takes only two bytes.
void MetadataHandler::check_word(const PickleMachine& m, std::string_view what, std::string_view word) const {
  if (word.size() > limits_.word_bytes)
    fail_limit(m, "a name of " + std::to_string(word.size()) + " bytes for a " + std::string(what), limits_.word_bytes);
}

namespace {

// Keys and names may have any length, but the work on them, once per chunk, must not outgrow the pickle.
void check_names(const MetadataContent& c, uint64_t pickle_bytes, const Place& place, const Limits& limits) {
  const uint64_t max = limits.path_bytes + 64 * pickle_bytes;
  uint64_t bytes = 0;
  const auto take = [&](std::string_view key, uint64_t names) {
    bytes = add_or_fail(bytes, names, place);
    if (bytes <= max) return;
    Place here = place;
    here.tensor = key;
    fail(ProblemId::over_limit, std::move(here), "names that are shared and add up to more bytes", "at most " + std::to_string(max));
  };
  for (const MetadataContent::Tensor& t : c.tensors) take(t.key, mul_or_fail(t.key.size(), t.chunk_count + 1, place));
  for (const MetadataContent::Storage& s : c.storage) take(s.key, s.key.size() + c.files[s.file].size());
  for (const MetadataContent::Path& p : c.paths) {
    take(p.key, p.key.size());
    for (uint64_t i = p.first; i < p.first + p.count; ++i) take(p.key, c.path_elements[i].name.size());
  }
}

template <class Visit>
void for_each_text(MetadataContent& c, const Visit& visit) {
  for (MetadataContent::Tensor& t : c.tensors) visit(t.key), visit(t.dtype_name);
  for (std::string_view& key : c.blobs) visit(key);
  for (MetadataContent::Storage& s : c.storage) visit(s.key);
  for (std::string_view& file : c.files) visit(file);
  for (auto& list : c.transforms)
    for (std::string_view& name : list) visit(name);
  for (MetadataContent::Path& p : c.paths) visit(p.key);
  for (MetadataContent::PathElement& e : c.path_elements) visit(e.name);
  for (MetadataContent::McoreShape& s : c.mcore_shapes) visit(s.key);
  visit(c.version);
}

}  // namespace

// Texts are copied into blocks: 10^5 small allocations would scatter what is looked up next.
std::deque<std::string> hold_text(MetadataContent& content) {
  std::deque<std::string> blocks;
  const auto hold = [&](std::string_view text) {
    if (blocks.empty() || blocks.back().capacity() - blocks.back().size() < text.size())
      blocks.emplace_back().reserve(std::max<size_t>(64 * kKiB, text.size()));
    return std::string_view(blocks.back().append(text)).substr(blocks.back().size() - text.size());
  };
  std::pmr::monotonic_buffer_resource memory;
  std::pmr::unordered_map<const char*, std::string_view> copies(&memory);  // by the place in the pickle, which has each text once
  copies.reserve(content.tensors.size() + content.blobs.size());
  for_each_text(content, [&](std::string_view& text) {
    if (text.empty()) return void(text = "");
    std::string_view& copy = copies[text.data()];
    if (copy.size() != text.size()) copy = hold(text);
    text = copy;
  });
  return blocks;
}

MetadataContent read_dcp_metadata(Bytes pickle, const Place& place, const Limits& limits) {
  MetadataContent content;
  content.transforms.emplace_back();
  // About 143 bytes a chunk. Pages of a reservation cost nothing until they are used; growing by doubling would touch them twice.
  const size_t chunks = pickle.size() / 128;
  content.chunks.reserve(chunks);
  content.storage.reserve(chunks);
  content.ints.reserve(chunks * 6);
  MetadataHandler handler(content, pickle.size(), limits);
  PickleMachine machine(pickle, place, limits);
  const Value root = machine.run(handler);
  handler.finish(machine, root);
  if (const auto& bad = machine.bad_text())
    content.unloadable.push_back(make_problem(ProblemId::pickle_unloadable, bad->place, bad->got, "UTF-8"));
  content.trailing_bytes = machine.trailing_bytes();
  content.unframed = pickle.size() > 2 && static_cast<Op>(pickle[0]) == Op::PROTO && std::to_integer<int>(pickle[1]) == 4 &&
                     static_cast<Op>(pickle[2]) != Op::FRAME;
  check_names(content, pickle.size(), place, limits);
  return content;
}

// Reads only keys: half of a `.metadata` is the storage_data of its chunks, and most of the rest describes tensors.

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
