#include "format/dcp_metadata.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "base/error_line.h"
#include "format/dcp_metadata_text.h"
#include "metadata_facts.h"

namespace dcp {
namespace {

using namespace test;
using Strings = std::vector<std::string>;

const std::string kBaseFacts = "tensor w float32 grad (4,2,) (0,0,)+(2,2,) (2,0,)+(2,2,)\n"
                               "blob step\n"
                               "item w (0,0,) __0_0.distcp 9+100\n"
                               "item w (2,0,) __1_0.distcp 0+100\n"
                               "item step __0_0.distcp 0+9\n"
                               "path w = w\n"
                               "path step = opt [3] step\n"
                               "planner\n";

std::string error_of(const MetadataText& text) {
  return error_line([&] { read_content(text.pickle); });
}
// Without the offset, which tests of wording do not care for.
std::string wording_of(const MetadataText& text) {
  std::string line = error_of(text);
  const size_t at = line.find(" @ ");
  return at == line.npos ? line : "m" + line.substr(line.find(':', at));
}

TEST_CASE("the base form") {
  const std::string pickle = MetadataText{}.pickle;
  const MetadataContent c = read_content(pickle);
  CHECK(facts(c) == kBaseFacts);
  CHECK(c.properties_fields == 5);
  CHECK(c.has_version);
  CHECK(c.version == "1.0.0");
  CHECK_FALSE(c.old_module_names);
  CHECK_FALSE(c.old_properties_module);
  CHECK_FALSE(c.has_storage_meta);
  CHECK(c.extra_attributes.empty());
  CHECK(c.unknown_globals.empty());
  CHECK(c.planner_note.empty());
}

TEST_CASE("forms of other releases and interpreters") {
  const auto same = [](const MetadataText& text) { return facts(read_content(text.pickle)) == kBaseFacts; };
  const std::string old = "torch.distributed._shard.sharded_tensor.metadata";
  const std::string old_enum = global(old, "MEM_FORMAT_ENCODING");

  const MetadataText torch21{.properties_module = old, .enum_class = old_enum};
  CHECK(same(torch21));
  CHECK(read_content(torch21.pickle).old_properties_module);

  const MetadataText torch113{.module = "torch.distributed._shard.checkpoint.metadata",
                              .filesystem = "torch.distributed._shard.checkpoint.filesystem",
                              .properties_module = old,
                              .enum_class = old_enum};
  CHECK(same(torch113));
  CHECK(read_content(torch113.pickle).old_module_names);

  const MetadataText base;
  const std::string member = base.enum_class + short_text("TORCH_CONTIGUOUS_FORMAT") + op(Op::TUPLE2) + kReduce;
  CHECK(same({.memory_format = global("builtins", "getattr") + member}));
  CHECK(read_content(MetadataText{.memory_format = global("builtins", "getattr") + member}.pickle).unknown_globals.empty());
  CHECK(same({.memory_format = global("__builtin__", "getattr") + member}));

  // Properties: six fields, a dict, and what is missing is the default.
  const std::string five = base.dtype + base.layout + op(Op::NEWTRUE) + base.memory_format + op(Op::NEWFALSE);
  const MetadataText torch215{.properties_state = tuple(five + tuple(num(2) + num(1)))};
  CHECK(same(torch215));
  CHECK(read_content(torch215.pickle).properties_fields == 6);
  CHECK(same({.properties_state = tuple(base.dtype + base.layout + op(Op::NEWTRUE))}));
  CHECK(same({.properties_state = kDict + kMark + field("dtype", base.dtype) + field("requires_grad", op(Op::NEWTRUE)) + kSetItems}));
  CHECK_FALSE(same({.properties_state = base.dtype + op(Op::TUPLE1)}));

  CHECK(same({.blob = base.blob + kDict + kBuild}));
  CHECK(same({.index2 = base.index("step", field("index", kNone) + field("offset", kNone))}));
  CHECK(same({.index2 = base.index("step", field("something", num(1)))}));
  CHECK(same({.info2 = base.info("__0_0.distcp", num(0), num(9), field("transform_descriptors", kNone))}));
  CHECK(same({.extra = ""}));
  CHECK(same({.pickle = proto(5) + base.root + kStop + "trailing"}));
  CHECK(same({.pickle = proto(4) + op(Op::FRAME) + le(uint64_t{7}) + base.root + kStop}));
}

// OLMo-core and NeMo Automodel have storage records of their own; a fork may have copies of all classes.
TEST_CASE("copies of torch's classes in other modules") {
  const MetadataText records{.filesystem = "olmo_core.distributed.checkpoint.filesystem"};
  const MetadataContent c = read_content(records.pickle);
  CHECK(facts(c) == kBaseFacts);
  CHECK(c.unknown_globals == Strings{"olmo_core.distributed.checkpoint.filesystem._StorageInfo"});
  const MetadataText all{.module = "acme.backports.metadata", .filesystem = "acme.backports.filesystem"};
  CHECK(facts(read_content(all.pickle)) == kBaseFacts);
  CHECK(read_content(all.pickle).properties_fields == 5);

  // By their fields, whatever the name; the memo may share them.
  const auto record = [](const std::string& fields) { return object(global("acme", "Slice"), fields); };
  const std::string base = field("relative_path", short_text("__0_0.distcp")) + field("offset", num(9)) + field("length", num(100));
  CHECK(facts(read_content(MetadataText{.info0 = record(base)}.pickle)) == kBaseFacts);
  CHECK(facts(read_content(MetadataText{.info0 = record(base + field("transform_descriptors", kNone))}.pickle)) == kBaseFacts);
  const std::string kept = global("acme", "Slice") + kEmptyTuple + kNewObj + op(Op::BINPUT) + "\x07" + kDict + kMark + base + kSetItems +
                           kBuild + op(Op::POP) + op(Op::BINGET) + "\x07";
  CHECK(facts(read_content(MetadataText{.info0 = kept}.pickle)) == kBaseFacts);
  const std::string what = "m: tensor 'w': the checkpoint was written by a storage writer whose records are not "
                           "understood (got acme.Slice, expected _StorageInfo)";
  for (const std::string& fields : {field("relative_path", short_text("a")) + field("length", num(1)),
                                    field("relative_path", num(1)) + field("offset", num(1)) + field("length", num(1))})
    CHECK(wording_of({.info0 = record(fields)}) == what);

  // The one without fields.
  for (const char* name : {"Entry", "OurBytesStorageMetadata"})
    CHECK(facts(read_content(MetadataText{.blob = global("acme", name) + kEmptyTuple + kNewObj}.pickle)) == kBaseFacts);
  CHECK(facts(read_content(MetadataText{.blob = object(global("acme", "OurBytesStorageMetadata"), field("bytes", num(3)))}.pickle)) ==
        kBaseFacts);

  // Elsewhere an object of any class may hold anything.
  const std::string things = kList + kMark + record(field("relative_path", kNone)) + record(field("offsets", kNone)) +
                             global("acme", "List") + kEmptyTuple + kNewObj + kMark + num(1) + kAppends + global("acme", "Dict") +
                             kEmptyTuple + kNewObj + kMark + num(1) + num(2) + kSetItems + kNone + kBuild + kAppends;
  CHECK(facts(read_content(MetadataText{.extra = field("notes", things)}.pickle)) == kBaseFacts);
}

TEST_CASE("what shows who wrote it") {
  const std::string meta = "torch.distributed.checkpoint.metadata";
  const std::string path = call(global("pathlib._local", "PosixPath"), short_text("ckpt"));
  const std::string with_modules = object(global(meta, "StorageMeta"), field("checkpoint_id", path) + field("modules", kList));
  const std::string pickle = MetadataText{.extra = field("storage_meta", with_modules) + field("mcore_data", kDict) +
                                                   field("notes", short_text("x")) + field("other", call(global("acme", "Thing"), num(1)))}
                                 .pickle;
  const MetadataContent c = read_content(pickle);
  CHECK(c.has_storage_meta);
  CHECK(c.has_storage_meta_modules);
  CHECK(c.python313_path);
  CHECK_FALSE(c.has_version);
  CHECK(c.extra_attributes == Strings{"mcore_data: dict", "notes: str", "other: acme.Thing"});
  REQUIRE(c.attributes.size() == 3);
  CHECK((c.attributes[0].kept() && c.attributes[0].is_dict));
  CHECK((c.attributes[1].kept() && c.attributes[1].value == std::string("\x8c\x01x", 3)));
  CHECK((!c.attributes[2].kept() && c.attributes[2].not_plain == "acme.Thing"));
  CHECK(c.unknown_globals == Strings{"acme.Thing"});
}

TEST_CASE("a dtype of the future is named") {
  const std::string pickle = MetadataText{.dtype = global("torch", "float2")}.pickle;
  const MetadataContent c = read_content(pickle);
  CHECK_FALSE(c.tensors[0].dtype_known);
  CHECK(c.tensors[0].dtype_name == "float2");
  CHECK(c.unknown_globals == Strings{"torch.float2"});
}

TEST_CASE("what no torch can load though it is clear") {
  const auto why = [](const MetadataText& text) {
    const MetadataContent c = read_content(text.pickle);
    std::string lines;
    for (const Problem& p : c.unloadable) lines += p.place.tensor + ": " + p.got + "\n";
    return lines;
  };
  const MetadataText base;
  const auto storage_meta = [](const std::string& value) { return MetadataText{.extra = field("storage_meta", value)}; };
  const auto path = [](const std::string& parts) { return global("pathlib", "PosixPath") + tuple(parts) + kReduce; };
  CHECK(why({}).empty());
  CHECK(why({.dtype = global("torch", "int4")}) == "w: TensorProperties.dtype: torch.int4\n");
  CHECK(why({.dtype = global("torch", "Tensor")}) == "w: TensorProperties.dtype: torch.Tensor\n");
  CHECK(why({.index1 = base.index("w", field("offset", kList + num(2) + kAppend + num(0) + kAppend))}) ==
        "w: MetadataIndex.offset: a list\n");
  CHECK(why(storage_meta(kDict)) == ": Metadata.storage_meta: dict\n");
  CHECK(why(storage_meta(num(7))) == ": Metadata.storage_meta: 7\n");
  CHECK(why(storage_meta(kEmptyTuple)) == ": Metadata.storage_meta: tuple\n");
  CHECK(why(storage_meta(object(global("acme", "Meta"), ""))).empty());
  CHECK(why(storage_meta(path(short_text("/") + num(4)))) == ": pathlib.PosixPath of 4\n");
  CHECK(why(storage_meta(path(short_text("/") + path(short_text("a"))))).empty());
}

TEST_CASE("transforms are kept in order, equal lists once") {
  const MetadataText base;
  const std::string list = field("transform_descriptors", kList + kMark + short_text("a") + short_text("b") + kAppends);
  const std::string pickle =
      MetadataText{.info0 = base.info("f", num(0), num(1), list), .info1 = base.info("f", num(1), num(1), list)}.pickle;
  const MetadataContent c = read_content(pickle);
  CHECK(c.transforms.size() == 2);
  CHECK(c.storage[0].transforms == 1);
  CHECK(c.storage[1].transforms == 1);
  CHECK(c.storage[2].transforms == 0);
  CHECK(c.transforms[1] == std::vector<std::string_view>{"a", "b"});
}

TEST_CASE("planner data that is not torch's own") {
  const auto note = [](const std::string& planner_data) {
    const std::string pickle = MetadataText{.planner_data = planner_data}.pickle;
    const MetadataContent c = read_content(pickle);
    CHECK(c.paths.empty());
    CHECK_FALSE(c.has_planner_data);
    return c.planner_note;
  };
  CHECK(note(kNone).empty());
  CHECK(note(kList) == "list");
  CHECK(note(object(global("acme", "Plan"), field("a", num(1)))) == "acme.Plan");
  CHECK(note(kDict + kMark + field("w", tuple(short_text("w"))) + field("x", num(5)) + kSetItems) == "dict with text 'x' for 5");
  CHECK(note(kDict + field("w", op(Op::BININT) + le(int32_t{-1}) + op(Op::TUPLE1)) + kSetItem) == "dict with text 'w' for tuple");
  CHECK(read_content(MetadataText{.planner_data = kDict}.pickle).has_planner_data);
}

TEST_CASE("objects that the memo shares") {
  // The same chunk object in two tensors, the second list in another order.
  const MetadataText base;
  const std::string tensor = base.tensor;
  const std::string other =
      object(global(base.module, "TensorStorageMetadata"), field("properties", base.properties) + field("size", base.tensor_size) +
                                                               field("chunks", kList + kMark + get(1) + get(0) + kAppends));
  const MetadataText shared{.chunk0 = base.chunk0 + put(0), .chunk1 = base.chunk1 + put(1)};
  const MetadataText both{.state_dict =
                              kDict + kMark + field("w", shared.tensor + put(2)) + field("v", other) + field("x", get(2)) + kSetItems};
  CHECK(facts(read_content(both.pickle)).substr(0, 170) == "tensor w float32 grad (4,2,) (0,0,)+(2,2,) (2,0,)+(2,2,)\n"
                                                           "tensor v float32 grad (4,2,) (2,0,)+(2,2,) (0,0,)+(2,2,)\n"
                                                           "tensor x float32 grad (4,2,) (0,0,)+(2,2,) (2,0,)+(2,2,)");
  // Index objects in another order than they were made.
  const MetadataText swapped{.storage = tuple(base.index0 + put(0) + base.index1 + put(1)) + "0" + kDict + kMark + get(1) + base.info1 +
                                        get(0) + base.info0 + kSetItems};
  CHECK(facts(read_content(swapped.pickle)).find("step\nitem w (2,0,) __1_0.distcp 0+100\nitem w (0,0,) __0_0.distcp 9+100\npath w") !=
        std::string::npos);
  // Many tensors that share one long list: what they add up to is bounded by the file.
  const std::string many = base.chunk0 + put(1) + times(2000, get(1));
  std::string dict = kDict + kMark;
  const MetadataText first{.chunks = kList + kMark + many + kAppends + put(0)};
  dict += field("a", first.tensor);
  const MetadataText again{.chunks = get(0)};
  for (int i = 0; i < 300; ++i) dict += field("b", again.tensor);
  CHECK(wording_of({.state_dict = dict + kSetItems}).find("lists that are shared and add up to more values") != std::string::npos);
}

TEST_CASE("not the metadata of a checkpoint") {
  const std::string expected = ", expected torch.distributed.checkpoint.metadata.Metadata with its fields)";
  const auto line = [](const std::string& root) { return error_line([&] { read_content(proto(2) + root + kStop); }); };
  CHECK(line(kDict) == "m @ 0x3: the pickle is not the metadata of a distributed checkpoint (got dict" + expected);
  CHECK(line(call(global("acme", "Thing"), num(1))).find("(got acme.Thing" + expected) != std::string::npos);
  CHECK(line(MetadataText{}.tensor).find("(got torch.distributed.checkpoint.metadata.TensorStorageMetadata" + expected) !=
        std::string::npos);
  CHECK(line(global(MetadataText{}.module, "Metadata") + kEmptyTuple + kNewObj)
            .find("(got torch.distributed.checkpoint.metadata.Metadata" + expected) != std::string::npos);
  CHECK(line(MetadataText{}.root + MetadataText{}.root).find("(got a second Metadata object, expected one)") != std::string::npos);
  CHECK(line(num(1) + kPersId).find("(got a persistent id: 1, expected a pickle without them)") != std::string::npos);
}

TEST_CASE("records of other storage writers") {
  const std::string rdma = object(global("torch.distributed.checkpoint._cuobj_rdma_storage", "_RdmaObjectInfo"), field("length", num(1)));
  const std::string what = "m: tensor 'w': the checkpoint was written by a storage writer whose records are not understood (got ";
  CHECK(wording_of({.info0 = rdma}) == what + "torch.distributed.checkpoint._cuobj_rdma_storage._RdmaObjectInfo, expected _StorageInfo)");
  CHECK(wording_of({.info1 = num(5)}) == what + "5, expected _StorageInfo)");
  const std::string nobody = "m: the checkpoint was written by a storage writer whose records are not understood (got ";
  CHECK(wording_of({.index0 = short_text("w")}) == nobody + "text 'w', expected MetadataIndex)");
  CHECK(wording_of({.storage = kList}) == nobody + "list, expected a dict of MetadataIndex to _StorageInfo)");
}

TEST_CASE("fields that are missing or wrong") {
  const MetadataText base;
  const auto line = [](const std::string& key, const std::string& field_name, const std::string& got, const std::string& expected) {
    return "m: " + (key.empty() ? "" : "tensor '" + key + "': ") + "a field of the metadata is missing or invalid (got " + field_name +
           ": " + got + ", expected " + expected + ")";
  };
  CHECK(wording_of({.state_dict = kNone}) == line("", "Metadata.state_dict_metadata", "None", "a dict"));
  CHECK(wording_of({.storage = kNone}) == line("", "Metadata.storage_data", "None", "a dict"));
  CHECK(wording_of({.fields = field("state_dict_metadata", base.state_dict)}) == line("", "Metadata.storage_data", "nothing", "a dict"));
  CHECK(wording_of({.tensor = num(1)}) == line("w", "Metadata.state_dict_metadata", "1", "TensorStorageMetadata or BytesStorageMetadata"));
  CHECK(wording_of({.state_dict = kDict + num(1) + base.blob + kSetItem}) ==
        line("", "a key of Metadata.state_dict_metadata", "1", "text"));
  CHECK(wording_of({.properties = num(1)}) == line("w", "TensorStorageMetadata.properties", "1", "TensorProperties"));
  CHECK(wording_of({.properties_state = num(1)}) == line("w", "TensorProperties", "1", "a dict of its fields"));
  CHECK(wording_of({.dtype = global("numpy", "float32")}) == line("w", "TensorProperties.dtype", "numpy.float32", "a dtype of torch"));
  CHECK(wording_of({.tensor_size = kNone}) == line("w", "TensorStorageMetadata.size", "None", "torch.Size"));
  CHECK(wording_of({.chunks = kNone}) == line("w", "TensorStorageMetadata.chunks", "None", "a list"));
  CHECK(wording_of({.chunk1 = num(1)}) == line("w", "TensorStorageMetadata.chunks", "1", "ChunkStorageMetadata"));
  CHECK(wording_of({.chunk_size = kNone}) == line("w", "ChunkStorageMetadata.sizes", "None", "torch.Size"));
  CHECK(wording_of({.index0 = object(global(base.module, "MetadataIndex"), field("index", num(0)))}) ==
        line("", "MetadataIndex.fqn", "nothing", "text"));
  CHECK(wording_of({.info1 = base.info("f", num(0), num(1), field("transform_descriptors", num(1)))}) ==
        line("w", "_StorageInfo.transform_descriptors", "1", "a list"));
  CHECK(wording_of({.info2 = object(global(base.filesystem, "_StorageInfo"), field("offset", num(0)) + field("length", num(0)))}) ==
        line("step", "_StorageInfo.relative_path", "nothing", "text"));
}

TEST_CASE("numbers that cannot be") {
  const MetadataText base;
  const std::string minus = op(Op::BININT) + le(int32_t{-1});
  const auto line = [](const std::string& key, const std::string& got, const std::string& expected) {
    return "m: tensor '" + key + "': a size, offset or length in the metadata has an impossible value (got " + got + ", expected " +
           expected + ")";
  };
  CHECK(wording_of({.tensor_size = size(num(4) + minus)}) == line("w", "TensorStorageMetadata.size with -1", "0 or more"));
  CHECK(wording_of({.chunk_size = size(minus + num(2))}) == line("w", "ChunkStorageMetadata.sizes with -1", "0 or more"));
  CHECK(wording_of({.chunk0 = base.chunk(size(minus + num(2)))}) == line("w", "ChunkStorageMetadata.offsets with -1", "0 or more"));
  CHECK(wording_of({.chunk0 = base.chunk(size(short_text("x") + num(2)))}) == line("w", "torch.Size with text 'x'", "integers"));
  CHECK(wording_of({.tensor_size = size(op(Op::NEWTRUE))}) == line("w", "torch.Size with True", "integers"));
  CHECK(wording_of({.tensor_size = call(global("torch", "Size"), num(3))}) == line("w", "torch.Size of 3", "integers"));
  CHECK(wording_of({.index1 = base.index("w", field("offset", size(minus)))}) == line("w", "MetadataIndex.offset with -1", "0 or more"));
  CHECK(wording_of({.index1 = base.index("z", field("offset", size(kNone)))}) == line("z", "torch.Size with None", "integers"));
  CHECK(wording_of({.info1 = base.info("f", minus, num(1))}) == line("w", "_StorageInfo.offset -1", "an integer, 0 or more"));
  CHECK(wording_of({.info2 = base.info("f", num(1), kNone)}) == line("step", "_StorageInfo.length None", "an integer, 0 or more"));
  const std::string big = op(Op::LONG1) + "\x09" + std::string(8, '\0') + "\x01";
  CHECK(wording_of({.info2 = base.info("f", num(1), big)}) ==
        line("step", "_StorageInfo.length an integer of 9 bytes", "an integer, 0 or more"));
}

TEST_CASE("ranks and limits") {
  const MetadataText base;
  const std::string what = "m: tensor 'w': a chunk in the metadata does not have as many dimensions as its tensor (got ";
  CHECK(wording_of({.chunk_size = size(num(2))}) == what + "1 sizes, expected 2 as offsets)");
  CHECK(wording_of({.tensor_size = size(num(8))}) == what + "chunk 0 of 2 dimensions, expected 1)");
  const std::string limit = "m: tensor 'w': a number in the file is over the limit (got ";
  CHECK(wording_of({.tensor_size = size(times(65, num(1)))}) == limit + "torch.Size of more numbers, expected at most 64)");
  CHECK(wording_of({.tensor_size = size(times(64, num(1)))}) == what + "chunk 0 of 2 dimensions, expected 64)");
  const std::string many = field("transform_descriptors", kList + kMark + times(17, short_text("t")) + kAppends);
  CHECK(wording_of({.info1 = base.info("f", num(0), num(1), many)}) == limit + "more transforms of an item, expected at most 16)");
  const std::string long_name = object(global(base.filesystem, "_StorageInfo"), field("relative_path", text(std::string(4097, 'x'))) +
                                                                                    field("offset", num(0)) + field("length", num(0)));
  CHECK(wording_of({.info0 = long_name}) == limit + "a file name of 4097 bytes, expected at most 4096)");
}

}  // namespace
}  // namespace dcp
