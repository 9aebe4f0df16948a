#include "format/dcp_metadata_handler.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "base/checked.h"
#include "pickle/writer.h"

namespace dcp {

// Globals of a `.metadata` pickle: their names in each release, what calling them gives, and the names of their objects in messages.

const MetadataHandler::KnownGlobal MetadataHandler::kKnownGlobals[] = {
    {"torch.distributed.checkpoint.metadata", "Metadata", kMetadata},
    {"torch.distributed.checkpoint.metadata", "TensorStorageMetadata", kTensor},
    {"torch.distributed.checkpoint.metadata", "ChunkStorageMetadata", kChunk},
    {"torch.distributed.checkpoint.metadata", "BytesStorageMetadata", kBlob},
    {"torch.distributed.checkpoint.metadata", "MetadataIndex", kIndex},
    {"torch.distributed.checkpoint.metadata", "TensorProperties", kProperties},
    {"torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING", kMemoryFormat},
    {"torch.distributed.checkpoint.metadata", "StorageMeta", kStorageMeta},
    {"torch.distributed.checkpoint.filesystem", "_StorageInfo", kStorageInfo},
    // torch <= 2.2
    {"torch.distributed._shard.sharded_tensor.metadata", "TensorProperties", kProperties},
    {"torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING", kMemoryFormat},
    // torch 1.13
    {"torch.distributed._shard.checkpoint.metadata", "Metadata", kMetadata},
    {"torch.distributed._shard.checkpoint.metadata", "TensorStorageMetadata", kTensor},
    {"torch.distributed._shard.checkpoint.metadata", "ChunkStorageMetadata", kChunk},
    {"torch.distributed._shard.checkpoint.metadata", "BytesStorageMetadata", kBlob},
    {"torch.distributed._shard.checkpoint.metadata", "MetadataIndex", kIndex},
    {"torch.distributed._shard.checkpoint.filesystem", "_StorageInfo", kStorageInfo},
    {"torch", "Size", kSize},
    {"torch.serialization", "_get_layout", kGetLayout},
    {"builtins", "getattr", kGetattr},
    {"__builtin__", "getattr", kGetattr},  // protocol 2
    {"pathlib", "PosixPath", kPath},
    {"pathlib", "WindowsPath", kPath},
    {"pathlib._local", "PosixPath", kPath},  // CPython 3.13
    {"pathlib._local", "WindowsPath", kPath},
    {"collections", "OrderedDict", kDictClass},
    {"collections", "defaultdict", kDictClass},
    {"copyreg", "_reconstructor", kReconstructor},
    {"copy_reg", "_reconstructor", kReconstructor},
    {"builtins", "object", kObjectClass},
    {"__builtin__", "object", kObjectClass},
    {"builtins", "list", kBuiltinClass},
    {"__builtin__", "list", kBuiltinClass},
    {"builtins", "dict", kBuiltinClass},
    {"__builtin__", "dict", kBuiltinClass},
    {"builtins", "int", kBuiltinClass},
    {"__builtin__", "int", kBuiltinClass},
};

Value MetadataHandler::global(PickleMachine& m, std::string_view module, std::string_view name) {
  check_word(m, "module", module);
  check_word(m, "class or function", name);
  const auto [found, is_new] = global_numbers_.try_emplace({module, name}, static_cast<uint32_t>(globals_.size()));
  if (is_new) {
    Global g{.module = module, .name = name};
    const auto* known = std::find_if(std::begin(kKnownGlobals), std::end(kKnownGlobals),
                                     [&](const KnownGlobal& k) { return k.name == name && k.module == module; });
    if (known != std::end(kKnownGlobals)) g.cls = known->cls;
    if (const auto dtype = module == "torch" ? dtype_named(name) : std::nullopt) {
      g.cls = kDType;
      g.dtype = *dtype;
    }
    g.foreign = g.cls == kUnknown;
    // A copy of the class in another module, perhaps with fields of its own, by which it cannot be told (class_by_fields).
    if (g.foreign && name.ends_with("BytesStorageMetadata")) g.cls = kBlob;
    if (g.foreign && name.ends_with("MEM_FORMAT_ENCODING")) g.cls = kMemoryFormat;
    if (g.foreign && module == "torch.distributed.checkpoint.metadata") cannot_load(m, name_of(g), "a class that torch 2.15 has there");
    if (module.starts_with("torch.distributed._shard.checkpoint.")) content_.old_module_names = true;
    if (g.cls == kProperties && module.starts_with("torch.distributed._shard.")) content_.old_properties_module = true;
    if (module == "pathlib._local") content_.python313_path = true;
    globals_.push_back(g);
  }
  const uint32_t number = found->second;
  if (globals_[number].cls == kDType) return typed(kDType, 0, number);
  return {.kind = Kind::kGlobal, .n = number};
}

Value MetadataHandler::reduce(PickleMachine& m, Value callable, Value arguments) {
  const auto argument = [&](uint32_t i) { return i < arguments.n ? m.element(arguments, i) : Value{}; };
  switch (globals_[callable.n].cls) {
    case kSize: return arguments.n == 0 ? typed(kSize, content_.ints.size()) : size_of(m, argument(0));
    case kGetLayout: check_layout(m, argument(0)); return typed(kGetLayout, 0, m.is_text(argument(0), "torch.strided") ? 1 : 0);
    case kMemoryFormat:
      if (const Value v = argument(0); arguments.n != 1 || v.kind != Kind::kInt || v.integer() < 0 || v.integer() > 2)
        cannot_load(m, "memory format " + describe(m, v), "0, 1 or 2");
      return typed(kMemoryFormat);
    case kPath:
      spend(m, arguments.n);
      for (const Value& v : m.elements(arguments))
        if (v.kind != Kind::kText && v.kind != Kind::kOpaque)  // another path is opaque
          cannot_load(m, name_of(globals_[callable.n]) + " of " + describe(m, m.final(v)), "text", ProblemId::pickle_unloadable, "");
      break;
    case kDictClass:
      // With arguments other than a defaultdict's factory, it holds more than its items.
      if (arguments.n > (globals_[callable.n].name == "defaultdict" ? 1 : 0)) break;
      return m.dict();
    case kReconstructor:
      if (arguments.n != 3 || argument(0).kind != Kind::kGlobal || argument(1).kind != Kind::kGlobal ||
          globals_[argument(1).n].cls != kObjectClass || argument(2).kind != Kind::kNil)
        break;
      return new_object(m, argument(0), Value{}, Value{});
    case kGetattr: {
      // CPython 3.11.2 pickles an enum member this way. Anywhere else getattr could reach any function, so it stays opaque.
      const Value owner = argument(0);
      const Value member = argument(1);
      const bool is_member = m.is_text(member, "TORCH_CONTIGUOUS_FORMAT") || m.is_text(member, "TORCH_CHANNELS_LAST") ||
                             m.is_text(member, "TORCH_PRESERVE_FORMAT");
      if (owner.kind == Kind::kGlobal && globals_[owner.n].cls == kMemoryFormat && is_member) return typed(kMemoryFormat);
      globals_[callable.n].foreign = true;
      return opaque(callable);
    }
    default: break;
  }
  if (globals_[callable.n].cls == kReconstructor) globals_[callable.n].foreign = true;
  return opaque(callable);
}

void MetadataHandler::check_layout(const PickleMachine& m, const Value& name) {
  // torch/serialization.py _get_layout: the names of all torch.layout objects.
  for (const std::string_view known : {"torch.strided", "torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr",
                                       "torch.sparse_bsc", "torch._mkldnn", "torch.jagged"})
    if (m.is_text(name, known)) return;
  cannot_load(m, "layout " + describe(m, name), "a layout of torch");
}

void MetadataHandler::cannot_load(const PickleMachine& m, std::string got, std::string expected, ProblemId id, Key key) {
  constexpr size_t kTold = 8;
  if (content_.unloadable.size() == kTold) return;
  content_.unloadable.push_back(make_problem(id, place_of(m, key), std::move(got), std::move(expected)));
}

Value MetadataHandler::new_object(PickleMachine& m, Value cls, Value, Value) {
  switch (globals_[cls.n].cls) {
    case kMetadata:
    case kTensor:
    case kChunk:
    case kIndex:
    case kStorageInfo:
    case kProperties:
    case kStorageMeta: return m.open(cls.n);
    // Without fields there is no BUILD (CPython <= 3.13 at least), so it is complete at once; an empty BUILD may follow.
    case kBlob: return typed(kBlob);
    case kUnknown: return m.open(cls.n, false);
    default: return opaque(cls);
  }
}

std::string MetadataHandler::type_of(const PickleMachine& m, const Value& v) const {
  switch (v.kind) {
    case Kind::kGlobal:
    case Kind::kOpaque:
    case Kind::kOpen: return name_of(globals_[v.n]);
    case Kind::kTyped:
      if (v.tag == kDType) return name_of(globals_[v.n]);
      for (const KnownGlobal& known : kKnownGlobals) {
        if (known.cls == v.tag) return std::string(known.module) + "." + std::string(known.name);
      }
      return "an object";
    case Kind::kDict: return "dict";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kSet: return "set";
    case Kind::kText: return "str";
    case Kind::kInt: return "int";
    default: return m.describe(v);
  }
}

std::string MetadataHandler::describe(const PickleMachine& m, const Value& v) const {
  return v.kind == Kind::kText || v.kind == Kind::kInt ? m.describe(v) : type_of(m, v);
}

// Attributes of Metadata that torch does not know, kept as opcodes so that a rewritten metadata can carry them on.

namespace {

constexpr unsigned kDepth = 32;  // of nested containers; the walk recurses

}  // namespace

// Writes plain values, each in full. For a value that is not plain, it throws the reason as a text.
class MetadataHandler::PlainWriter {
 public:
  PlainWriter(const MetadataHandler& handler, const PickleMachine& m, uint64_t& left) : handler_(handler), m_(m), left_(left) {}

  std::string opcodes(const Value& v) {
    std::string text;
    PickleWriter writer(text, PickleProtocol::k4);
    value(v, writer, text, 0);
    left_ -= std::min<uint64_t>(left_, text.size());
    return text;
  }

 private:
  void value(const Value& v, PickleWriter& out, const std::string& text, unsigned depth) {
    if (depth == kDepth || text.size() > left_) throw std::string("too much of it");
    switch (v.kind) {
      case Kind::kNil: return out.op(Op::NONE);
      case Kind::kBool: return out.boolean(v.payload != 0);
      case Kind::kInt: return out.integer(v.integer());
      case Kind::kFloat: return out.real(std::bit_cast<double>(v.payload));
      case Kind::kText: return out.text(m_.text(v));
      case Kind::kTuple: return sequence(v, out, text, depth, Op::TUPLE);
      case Kind::kList: out.op(Op::EMPTY_LIST); return sequence(v, out, text, depth, Op::APPENDS);
      case Kind::kDict: out.op(Op::EMPTY_DICT); return sequence(v, out, text, depth, Op::SETITEMS);
      default: break;
    }
    if (!is(v, kSize)) throw handler_.type_of(m_, v);
    out.global("torch", "Size");
    out.op(Op::MARK);
    for (uint32_t i = 0; i < v.n; ++i) out.integer(handler_.content_.ints[v.payload + i]);
    out.op(Op::TUPLE);
    out.tuple(1);
    out.op(Op::REDUCE);
  }

  void sequence(const Value& v, PickleWriter& out, const std::string& text, unsigned depth, Op end) {
    out.op(Op::MARK);
    Value item;
    for (auto it = m_.items(v); it.next(item);) value(item, out, text, depth + 1);
    out.op(end);
  }

  const MetadataHandler& handler_;
  const PickleMachine& m_;
  uint64_t& left_;  // bytes: values that the memo shares may be read repeatedly
};

ExtraAttribute MetadataHandler::read_attribute(const PickleMachine& m, std::string_view name, const Value& v) {
  ExtraAttribute a{.name = std::string(name), .type = type_of(m, v), .not_plain = {}, .entries = {}, .value = {}};
  Value key, of_key;
  a.is_dict = v.kind == Kind::kDict;
  if (a.is_dict)
    for (auto it = m.items(v); it.next(key) && it.next(of_key);) a.is_dict = a.is_dict && key.kind == Kind::kText;
  try {
    PlainWriter plain(*this, m, attribute_bytes_);
    if (!a.is_dict) a.value = plain.opcodes(v);
    else
      for (auto it = m.items(v); it.next(key) && it.next(of_key);) a.entries.emplace_back(m.text(key), plain.opcodes(of_key));
  } catch (const std::string& what) {
    a.not_plain = what;
    a.entries.clear();
  }
  return a;
}

// storage_data of a `.metadata` pickle: where each chunk's item lies. Source: torch/distributed/checkpoint/filesystem.py _StorageInfo,
// metadata.py MetadataIndex.

Value MetadataHandler::build_index(PickleMachine& m, const Value& state) {
  Value fqn;
  Value offset;
  Value index;
  for_fields(m, "MetadataIndex", state, [&](std::string_view name, const Value& v) {
    if (name == "fqn") fqn = v;
    else if (name == "offset") offset = v;
    else if (name == "index") index = v;
  });
  if (fqn.kind != Kind::kText) fail_field(m, "MetadataIndex.fqn", fqn, "text", std::string_view());
  MetadataContent::Storage& entry = storage_at(indexes_);
  entry.key = m.text(fqn);
  if (index.kind == Kind::kInt && index.payload < entry.hint) entry.hint = static_cast<uint32_t>(index.payload);
  if (offset.kind != Kind::kUnset && offset.kind != Kind::kNil) {
    // A MetadataIndex is a dict key, and a list in it would make it unhashable.
    if (offset.kind == Kind::kList) cannot_load(m, "MetadataIndex.offset: a list", "torch.Size", ProblemId::pickle_unloadable, entry.key);
    const Value size = checked_size(m, "MetadataIndex.offset", offset, entry.key);
    entry.has_offset = true;
    entry.rank = static_cast<uint16_t>(size.n);
    entry.offsets_at = size.payload;
  }
  return typed(kIndex, indexes_++);
}

uint32_t MetadataHandler::file_number(const PickleMachine& m, std::string_view path) {
  // Items of one file usually follow one another.
  if (infos_ > 0 && content_.files[content_.storage[infos_ - 1].file] == path) return content_.storage[infos_ - 1].file;
  const auto [found, is_new] = file_numbers_.try_emplace(path, static_cast<uint32_t>(content_.files.size()));
  if (is_new) {
    if (path.size() > limits_.name_bytes) fail_limit(m, "a file name of " + std::to_string(path.size()) + " bytes", limits_.name_bytes);
    content_.files.push_back(path);
  }
  return found->second;
}

uint32_t MetadataHandler::transforms_number(const PickleMachine& m, const Value& list) {
  if (list.kind == Kind::kUnset || list.kind == Kind::kNil) return 0;
  const std::string_view field = "_StorageInfo.transform_descriptors";
  if (list.kind != Kind::kList && list.kind != Kind::kTuple) fail_field(m, field, list, "a list");
  std::vector<std::string_view> names;
  Value v;
  for (auto it = m.items(list); it.next(v);) {
    if (v.kind != Kind::kText) fail_field(m, field, v, "text");
    if (names.size() == kMaxTransforms) fail_limit(m, "more transforms of an item", kMaxTransforms);
    check_word(m, "transform", m.text(v));
    names.push_back(m.text(v));
  }
  if (names.empty()) return 0;
  const auto [found, is_new] = transforms_numbers_.try_emplace(std::move(names), static_cast<uint32_t>(content_.transforms.size()));
  if (is_new) content_.transforms.push_back(found->first);
  return found->second;
}

Value MetadataHandler::build_info(PickleMachine& m, const Value& state) {
  Value path;
  Value offset;
  Value length;
  Value transforms;
  for_fields(m, "_StorageInfo", state, [&](std::string_view name, const Value& v) {
    if (name == "relative_path") path = v;
    else if (name == "offset") offset = v;
    else if (name == "length") length = v;
    else if (name == "transform_descriptors") transforms = v;
  });
  if (path.kind != Kind::kText) fail_field(m, "_StorageInfo.relative_path", path, "text");
  MetadataContent::Storage& entry = storage_at(infos_);
  entry.offset = checked_number(m, "_StorageInfo.offset", offset);
  entry.length = checked_number(m, "_StorageInfo.length", length);
  entry.file = file_number(m, m.text(path));
  entry.transforms = transforms_number(m, transforms);
  return typed(kStorageInfo, infos_++);
}

// `storage` holds index keys and records in the order in which they were built. Normally each key is next to its own record, and nothing
// has to move.
void MetadataHandler::read_storage(PickleMachine& m, const Value& dict) {
  // Another storage writer has other records, such as torch's own S3RdmaStorageWriter, whose objects are raw bytes.
  const auto fail_foreign = [&](const Value& got, std::string_view expected, std::string_view key) {
    fail(ProblemId::metadata_foreign_storage, place_of(m, key), describe(m, got), std::string(expected));
  };
  if (dict.kind == Kind::kNil || dict.kind == Kind::kUnset) fail_field(m, "Metadata.storage_data", dict, "a dict", std::string_view());
  if (dict.kind != Kind::kDict) fail_foreign(dict, "a dict of MetadataIndex to _StorageInfo", {});
  bool in_place = true;
  Value index;
  Value info;
  for (auto it = m.items(dict); it.next(index) && it.next(info);) {
    if (!is(index, kIndex)) fail_foreign(index, "MetadataIndex", {});
    if (!is(info, kStorageInfo)) fail_foreign(info, "_StorageInfo", content_.storage[index.payload].key);
    in_place = in_place && index.payload == used_ && info.payload == used_;
    ++used_;
  }
  if (!in_place) {
    paired_.reserve(used_);
    for (auto it = m.items(dict); it.next(index) && it.next(info);) {
      const MetadataContent::Storage& record = content_.storage[info.payload];
      MetadataContent::Storage& entry = paired_.emplace_back(content_.storage[index.payload]);
      entry.file = record.file;
      entry.offset = record.offset;
      entry.length = record.length;
      entry.transforms = record.transforms;
    }
  }
}

// The root of a `.metadata` pickle: its three dicts and the attributes beside them.

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
  // Of a copy of a class that has another name: of torch's, only BytesStorageMetadata has no fields.
  const auto is_bare = [&](const Value& v) { return v.kind == Kind::kOpen && globals_[v.n].cls == kUnknown; };
  const auto walk = [&](auto&& on_tensor, auto&& on_blob) {
    Value key;
    Value v;
    for (auto it = m.items(dict); it.next(key) && it.next(v);) {
      if (key.kind != Kind::kText) fail_field(m, "a key of Metadata.state_dict_metadata", key, "text", std::string_view());
      if (is(v, kTensor)) on_tensor(m.text(key), v.payload);
      else if (is(v, kBlob) || is_bare(v)) on_blob(m.text(key));
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
