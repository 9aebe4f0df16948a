// Globals of a `.metadata` pickle: their names in each release, what calling them gives, and the names of their objects in messages.
#include <algorithm>

#include "format/dcp_metadata_handler.h"

namespace dcp {

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
    // A copy of the class in another module: without fields, only its name tells what it is (class_by_fields).
    if (g.foreign && name == "BytesStorageMetadata") g.cls = kBlob;
    if (g.foreign && (name == "_MEM_FORMAT_ENCODING" || name == "MEM_FORMAT_ENCODING")) g.cls = kMemoryFormat;
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

}  // namespace dcp
