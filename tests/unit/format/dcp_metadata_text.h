// `.metadata` pickles written out by hand, part by part.
#pragma once

#include <string>

#include "pickle/opcodes.h"

namespace dcp::test {

inline std::string object(const std::string& cls, const std::string& fields) {
  return cls + kEmptyTuple + kNewObj + kDict + kMark + fields + kSetItems + kBuild;
}
inline std::string call(const std::string& function, const std::string& argument) { return function + argument + op(Op::TUPLE1) + kReduce; }
inline std::string tuple(const std::string& values) { return kMark + values + kTuple; }
inline std::string size(const std::string& numbers) { return call(global("torch", "Size"), tuple(numbers)); }
inline std::string field(std::string_view name, const std::string& value) { return short_text(name) + value; }

// One tensor 'w' of 4 x 2 in two chunks, one byte item 'step'. Any part can be replaced.
struct MetadataText {
  std::string module = "torch.distributed.checkpoint.metadata";
  std::string filesystem = "torch.distributed.checkpoint.filesystem";
  std::string properties_module = module;
  std::string enum_class = global(properties_module, "_MEM_FORMAT_ENCODING");
  std::string memory_format = call(enum_class, num(0));
  std::string dtype = global("torch", "float32");
  std::string layout = call(global("torch.serialization", "_get_layout"), short_text("torch.strided"));
  std::string properties_state = tuple(dtype + layout + op(Op::NEWTRUE) + memory_format + op(Op::NEWFALSE));
  std::string properties = global(properties_module, "TensorProperties") + kEmptyTuple + kNewObj + properties_state + kBuild;
  std::string chunk_size = size(num(2) + num(2));
  std::string chunk0 = chunk(size(num(0) + num(0)));
  std::string chunk1 = chunk(size(num(2) + num(0)));
  std::string chunks = kList + kMark + chunk0 + chunk1 + kAppends;
  std::string tensor_size = size(num(4) + num(2));
  std::string tensor = object(global(module, "TensorStorageMetadata"),
                              field("properties", properties) + field("size", tensor_size) + field("chunks", chunks));
  std::string blob = global(module, "BytesStorageMetadata") + kEmptyTuple + kNewObj;
  std::string state_dict = kDict + kMark + field("w", tensor) + field("step", blob) + kSetItems;
  std::string planner_data = kDict + kMark + field("w", tuple(short_text("w"))) +
                             field("step", tuple(short_text("opt") + num(3) + short_text("step"))) + kSetItems;
  std::string index0 = index("w", field("index", num(0)) + field("offset", size(num(0) + num(0))));
  std::string index1 = index("w", field("index", num(1)) + field("offset", size(num(2) + num(0))));
  std::string index2 = index("step", field("index", kNone));
  std::string info0 = info("__0_0.distcp", num(9), num(100));
  std::string info1 = info("__1_0.distcp", num(0), num(100));
  std::string info2 = info("__0_0.distcp", num(0), num(9));
  std::string storage = kDict + kMark + index0 + info0 + index1 + info1 + index2 + info2 + kSetItems;
  std::string extra = field("storage_meta", kNone) + field("version", short_text("1.0.0"));
  std::string fields =
      field("state_dict_metadata", state_dict) + field("planner_data", planner_data) + field("storage_data", storage) + extra;
  std::string root = object(global(module, "Metadata"), fields);
  std::string pickle = proto(2) + root + kStop;

  std::string chunk(const std::string& offsets) const {
    return object(global(module, "ChunkStorageMetadata"), field("offsets", offsets) + field("sizes", chunk_size));
  }
  std::string index(std::string_view fqn, const std::string& rest) const {
    return object(global(module, "MetadataIndex"), field("fqn", short_text(fqn)) + rest);
  }
  std::string info(std::string_view path, const std::string& offset, const std::string& length, const std::string& rest = {}) const {
    return object(global(filesystem, "_StorageInfo"),
                  field("relative_path", short_text(path)) + field("offset", offset) + field("length", length) + rest);
  }
};

}  // namespace dcp::test
