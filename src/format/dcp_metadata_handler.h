// The handler that turns the opcodes of a `.metadata` pickle into MetadataContent (dcp_metadata.h). Private to its .cc files: dcp_metadata
// (tensors, messages), dcp_metadata_globals (names, calls), dcp_metadata_storage, dcp_metadata_root, dcp_metadata_attributes.
//
// Each object becomes a kTyped value as soon as it is built: numbers go to `content.ints`, chunks, tensors and index keys to their arrays
// in the content itself, so the machine's arena holds only dicts and lists that are still open.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "format/dcp_metadata.h"
#include "pickle/machine.h"

namespace dcp {

class MetadataHandler {
 public:
  MetadataHandler(MetadataContent& content, uint64_t pickle_bytes, const Limits& limits)
      : content_(content), limits_(limits), budget_(pickle_bytes), attribute_bytes_(kAttributeBytes + 16 * pickle_bytes) {}

  Value global(PickleMachine& m, std::string_view module, std::string_view name);
  Value reduce(PickleMachine& m, Value callable, Value arguments);
  Value new_object(PickleMachine& m, Value cls, Value arguments, Value keywords);
  Value build(PickleMachine& m, Value object, Value state);
  Value persistent(PickleMachine& m, Value id);

  // Call after the run: checks that the root is a Metadata, and lists the globals seen.
  void finish(const PickleMachine& m, const Value& root);

 private:
  // Classes and functions with a meaning here; their names in each release are a table in dcp_metadata_globals.cc.
  enum Class : uint16_t {
    kUnknown,
    kMetadata,
    kTensor,
    kChunk,
    kBlob,
    kIndex,
    kStorageInfo,
    kProperties,
    kStorageMeta,
    kMemoryFormat,
    kSize,
    kGetLayout,
    kGetattr,
    kPath,
    kObjectClass,
    kBuiltinClass,   // what a defaultdict makes
    kDictClass,      // OrderedDict, defaultdict: their content is a dict's
    kReconstructor,  // copyreg._reconstructor(class, object, None): NEWOBJ of protocols 0 and 1
    kDType,
  };
  struct KnownGlobal {
    std::string_view module;
    std::string_view name;
    Class cls;
  };
  static const KnownGlobal kKnownGlobals[];
  struct Global {
    std::string_view module;
    std::string_view name;
    Class cls = kUnknown;
    DType dtype{};         // of a kDType
    bool foreign = false;  // listed in unknown_globals
  };

  // kTyped values: tag is a Class, and
  //   kSize        n: rank, payload: position in ints          kProperties  n: flags, payload: global of the dtype
  //   kChunk       n: rank, payload: position in chunks        kTensor      payload: position in tensors
  //   kIndex       payload: position in storage                kStorageInfo payload: position in storage
  //   kGetLayout   n: 1 if strided                             kStorageMeta n: 1 with the field `modules`
  //   kDType       n: global                                   others       nothing more
  static constexpr uint32_t kStrided = 1;
  static constexpr uint32_t kRequiresGrad = 2;

  static Value typed(Class cls, uint64_t payload = 0, uint32_t n = 0) {
    return {.kind = Kind::kTyped, .tag = cls, .n = n, .payload = payload};
  }
  static bool is(const Value& v, Class cls) { return v.kind == Kind::kTyped && v.tag == cls; }
  static Value opaque(const Value& callable) { return {.kind = Kind::kOpaque, .n = callable.n}; }

  // The key that an error is about; nullopt: it is looked up on the stack if an error occurs.
  using Key = std::optional<std::string_view>;
  static constexpr uint64_t kMaxFields = 256;  // of one object; torch has 5, forks add some
  static constexpr uint64_t kAttributeBytes = 8 * kMiB;
  static constexpr uint64_t kMaxTransforms = 16;  // of one item; torch knows 2

  // The dicts of an object's state: one, or, where its class has __slots__, the second of a pair, whose first is a dict or None.
  struct Dicts {
    Value of[2];  // kUnset: there is no such dict
  };
  static Dicts dicts_of(const PickleMachine& m, const Value& state);
  template <class Fn>
  void for_fields(const PickleMachine& m, std::string_view cls, const Value& state, Fn&& fn) const;
  Class class_by_fields(const PickleMachine& m, const Value& state) const;
  void check_layout(const PickleMachine& m, const Value& name);
  Value build_properties(PickleMachine& m, const Value& state);
  Value build_chunk(PickleMachine& m, const Value& state);
  Value build_tensor(PickleMachine& m, const Value& state);
  Value build_index(PickleMachine& m, const Value& state);
  Value build_info(PickleMachine& m, const Value& state);
  Value build_storage_meta(PickleMachine& m, const Value& state);
  Value build_root(PickleMachine& m, const Value& state);

  Value size_of(PickleMachine& m, const Value& numbers);  // of a tuple or list of integers
  Value checked_size(PickleMachine& m, std::string_view field, const Value& v, Key key = {});
  uint64_t checked_number(const PickleMachine& m, std::string_view field, const Value& v) const;
  MetadataContent::Storage& storage_at(uint64_t n) {
    if (n == content_.storage.size()) content_.storage.emplace_back();
    return content_.storage[n];
  }
  uint32_t file_number(const PickleMachine& m, std::string_view path);
  uint32_t transforms_number(const PickleMachine& m, const Value& list);
  // Values shared by the memo may be read repeatedly, but all reads together must not visit more values than the pickle has bytes.
  void spend(const PickleMachine& m, uint64_t values);
  static uint64_t values_of(const MetadataContent::Tensor& t) { return (1 + t.chunk_count) * (1 + uint64_t{t.rank}); }
  void check_word(const PickleMachine& m, std::string_view what, std::string_view word) const;
  void gather_chunks(PickleMachine& m, const Value& list, MetadataContent::Tensor& tensor);

  void read_state_dict(PickleMachine& m, const Value& dict);
  void read_storage(PickleMachine& m, const Value& dict);
  void read_planner_data(PickleMachine& m, const Value& dict);
  class PlainWriter;
  ExtraAttribute read_attribute(const PickleMachine& m, std::string_view name, const Value& v);
  void read_mcore_data(PickleMachine& m, const Value& dict);
  bool read_path(PickleMachine& m, const Value& key, const Value& path);

  std::string name_of(const Global& g) const { return std::string(g.module) + "." + std::string(g.name); }
  std::string type_of(const PickleMachine& m, const Value& v) const;   // "module.Class" or "dict"
  std::string describe(const PickleMachine& m, const Value& v) const;  // the same, or the value where it is small
  std::string key_at(const PickleMachine& m) const;                    // key of the unfinished objects on the stack
  Place place_of(const PickleMachine& m, Key key = {}) const;
  [[noreturn]] void fail_field(const PickleMachine& m, std::string_view field, const Value& got, std::string_view expected,
                               Key key = {}) const;
  // Records what would make torch fail, and goes on.
  void cannot_load(const PickleMachine& m, std::string got, std::string expected, ProblemId id = ProblemId::pickle_unloadable,
                   Key key = {});
  [[noreturn]] void fail_limit(const PickleMachine& m, std::string got, uint64_t max) const;

  MetadataContent& content_;
  const Limits& limits_;
  std::vector<Global> globals_;
  std::map<std::pair<std::string_view, std::string_view>, uint32_t> global_numbers_;
  // storage[n] holds the content of the n-th MetadataIndex and of the n-th _StorageInfo; normally these two are also a pair in
  // storage_data.
  uint64_t indexes_ = 0;
  uint64_t infos_ = 0;
  uint64_t used_ = 0;                             // entries of storage_data
  std::vector<MetadataContent::Storage> paired_;  // if they are not the first of `storage`
  std::unordered_map<std::string_view, uint32_t> file_numbers_;
  std::map<std::vector<std::string_view>, uint32_t> transforms_numbers_;
  uint64_t spent_ = 0;
  uint64_t budget_;
  uint64_t attribute_bytes_;  // budget left for opcodes of attributes
  bool has_root_ = false;
};

// Calls fn(name, value) for each entry of an object's state whose key is a text.
template <class Fn>
void MetadataHandler::for_fields(const PickleMachine& m, std::string_view cls, const Value& state, Fn&& fn) const {
  const Dicts dicts = dicts_of(m, state);
  if (dicts.of[0].kind != Kind::kDict) fail_field(m, cls, state, "a dict of its fields");
  Value name;
  Value value;
  uint64_t n = 0;
  for (const Value& dict : dicts.of) {
    if (dict.kind != Kind::kDict) break;
    for (auto it = m.items(dict); it.next(name) && it.next(value);) {
      if (n++ == kMaxFields) fail_limit(m, "more fields of " + std::string(cls), kMaxFields);
      if (name.kind == Kind::kText) fn(m.text(name), value);
    }
  }
}

}  // namespace dcp
