#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "format/pickles.h"

using namespace dcp;
using namespace dcp::test;

namespace {

using Ints = std::vector<int64_t>;

TensorItem read(const std::string& bytes) {
  MemoryItem item(bytes);
  return read_tensor_item(item, item_place(), Limits{});
}
TensorItem real(const std::string& name) { return read(real_item(name)); }
std::string error(const std::string& bytes) {
  return error_of([&] { read(bytes); });
}
std::string error(const ItemText& text) { return error(text.zip()); }
std::string error(const TensorText& text) { return error(ItemText{.pickle = text.pickle()}); }
TensorItem read(const TensorText& text) { return read(ItemText{.pickle = text.pickle()}.zip()); }

const std::string kPickle = "x.distcp > data.pkl @ 0x2e: ";
const std::string kV3 = py_global("torch._utils", "_rebuild_tensor_v3");
const std::string kUntyped = py_global("torch.storage", "UntypedStorage");

}  // namespace

TEST_CASE("a contiguous tensor as torch saves it") {
  const TensorItem item = real("float32");
  CHECK(item.form == ItemForm::kStrided);
  CHECK(item.dtype == DType::float32);
  CHECK(item.sizes == Ints{10});
  CHECK(item.strides == Ints{1});
  CHECK(item.storage_offset == 0);
  CHECK_FALSE(item.big_endian);
  CHECK(item.payload == 704);
  CHECK(item.record_bytes == 40);
  CHECK(item.has_crc);
  CHECK(item.crc != 0);
}

TEST_CASE("layouts, dtypes and flags that torch saves") {
  CHECK(real("transposed").strides == Ints{1, 3});
  CHECK(real("transposed").dtype == DType::int16);
  CHECK(real("float8").dtype == DType::float8_e4m3fn);
  CHECK(real("float8").record_bytes == 6);
  CHECK(real("untyped").dtype == DType::uint16);
  CHECK(real("scalar").sizes.empty());
  CHECK(real("empty").sizes == Ints{0, 3});
  CHECK(real("empty").has_crc);
  CHECK(real("slice").storage_offset == 3);
  CHECK(real("slice").record_bytes == 40);
  CHECK(real("conj").conj);
  CHECK_FALSE(real("conj").neg);
  CHECK(real("neg").neg);
  CHECK(real("neg").strides == Ints{2});
  CHECK(real("parameter").sizes == Ints{2});
  CHECK_FALSE(real("nocrc").has_crc);
}

TEST_CASE("tensors that are not plain are opaque") {
  CHECK(real("quantized").form == ItemForm::kOpaque);
  CHECK(real("quantized").subclass == "torch._utils._rebuild_qtensor");
  CHECK(real("tagged").subclass == "torch.Tensor");
  const TensorText wrapped{.function = py_global("torch._utils", "_rebuild_wrapper_subclass")};
  CHECK(read(wrapped).subclass == "torch._utils._rebuild_wrapper_subclass");
  ItemText with_state{.pickle = "\x80\x02" + TensorText{}.call() + "}b."};
  CHECK(error(with_state).ends_with("the item describes its tensor in a way torch does not (got a state: a dict, expected none)"));
  ItemText empty{.pickle = "\x80\x02" + py_call(py_global("torch", "FloatTensor"), py_int(3)) + "."};
  CHECK(error(empty).ends_with("the item does not hold a tensor (got torch.FloatTensor, expected a tensor)"));
}

TEST_CASE("what a tensor that is not plain says of itself") {
  CHECK(real("quantized").described);
  CHECK(facts_of(real("quantized").dtype).kind == DTypeKind::kQuantized);
  CHECK(real("tagged").described);
  CHECK(real("tagged").sizes == Ints{2});
  CHECK_FALSE(read(TensorText{.function = py_global("torch._utils", "_rebuild_wrapper_subclass")}).described);
}

// As torchao's WeightWithDynamicFloat8CastTensor: the class says how a plain tensor is to be used.
TEST_CASE("wrappers of one plain tensor") {
  const auto wrapper = [](const std::string& state, const std::string& cls = py_global("acme", "W"), const std::string& dtype = "float32") {
    const TensorText plain;
    const std::string arguments = cls + py_global("torch", dtype) + plain.sizes + plain.strides + py_int(0) + "N" + py_text("cpu") + "\x89";
    return ItemText{.pickle =
                        "\x80\x02" +
                        py_call(py_global("torch._tensor", "_rebuild_from_type_v2"),
                                py_global("torch._utils", "_rebuild_wrapper_subclass") + cls + py_tuple(arguments) + "}(" + state + "u") +
                        "."};
  };
  const std::string inner = py_text("_t") + TensorText{}.call();
  const std::string scalar = TensorText{.key = py_text("1"), .count = py_int(1), .sizes = ")", .strides = ")"}.call();
  for (const std::string& state :
       {inner, inner + py_text("config") + py_call(py_global("acme", "Config"), "\x88"), inner + py_text("_precomputed_scale") + scalar,
        py_text("_precomputed_scale") + std::string("N") + inner}) {
    const TensorItem item = read(wrapper(state).zip());
    CHECK(item.form == ItemForm::kStrided);
    CHECK(item.sizes == Ints{2, 3});
    CHECK(item.record_bytes == 24);
    CHECK(item.subclass == "acme.W");
    CHECK(std::ranges::find(item.refused, "acme.W") != item.refused.end());
  }
  ItemText scaled = wrapper(inner + py_text("scale") + std::string("G\x40\0\0\0\0\0\0\0", 9));
  CHECK(read(scaled.zip()).form == ItemForm::kOpaque);
  // Of the others a storage more would have to be there.
  for (const std::string& state :
       {inner + py_text("other") + TensorText{}.call(), inner + py_text("in_a_list") + "](" + TensorText{}.call() + "e",
        inner + py_text("hidden") + py_call(py_global("acme", "Config"), TensorText{}.call())})
    CHECK(read(wrapper(state).zip()).form == ItemForm::kOpaque);
  CHECK(read(wrapper(inner, py_global("acme", "W"), "bfloat16").zip()).form == ItemForm::kOpaque);
  CHECK(read(wrapper(inner, py_global("torch.distributed.tensor", "DTensor")).zip()).form == ItemForm::kOpaque);
}

TEST_CASE("all storages of a tensor that is not plain are there") {
  const auto item = [](const std::string& payload, const std::string& key = "0") {
    return ItemText{
        .pickle = TensorText{.function = py_global("torch._utils", "_rebuild_wrapper_subclass")}.pickle(), .payload = payload, .key = key};
  };
  CHECK(read(item(std::string(24, 'p')).zip()).form == ItemForm::kOpaque);
  CHECK(error(item(std::string(23, 'p'))).ends_with("shorter than the storage (got 23 bytes, expected 24)"));
  CHECK(error(item(std::string(25, 'p'))).ends_with("longer than the storage, which torch refuses (got 25 bytes, expected 24)"));
  CHECK(error(item(std::string(24, 'p'), "1")) == "item_no_record: x.distcp > data/0: the item lacks a record");
}

TEST_CASE("roots that are no tensors") {
  CHECK(error(real_item("number")) ==
        "item_not_tensor: x.distcp > data.pkl @ 0x40: the item does not hold a tensor (got 7, expected a tensor)");
  CHECK(error(real_item("dict")) ==
        "item_not_tensor: x.distcp > data.pkl @ 0x40: the item does not hold a tensor (got a dict, expected a tensor)");
  CHECK(error(ItemText{.pickle = TensorText::hooks() + "."}) ==
        "item_not_tensor: " + kPickle + "the item does not hold a tensor (got collections.OrderedDict, expected a tensor)");
}

TEST_CASE("what torch accepts though it never writes it") {
  CHECK(read(ItemText{.byteorder = ""}.zip()).big_endian == false);
  CHECK(read(ItemText{.byteorder = "big"}.zip()).big_endian);
  CHECK(read(ItemText{.version = "10"}.zip()).sizes == Ints{2, 3});
  CHECK(read(ItemText{.root = "x"}.zip()).sizes == Ints{2, 3});
  CHECK(read(ItemText{.pickle = TensorText{.key = py_text("7")}.pickle(), .key = "7"}.zip()).sizes == Ints{2, 3});
  CHECK(read(ItemText{}.zip() + "junk").sizes == Ints{2, 3});
  CHECK(read(TensorText{.rest = "}"}).conj == false);
  CHECK(read(TensorText{.rest = "N"}).neg == false);
  CHECK(read(TensorText{.function = kV3, .rest = py_global("torch", "float32")}).dtype == DType::float32);
  CHECK(read(TensorText{.function = kV3, .type = kUntyped, .count = py_int(24), .rest = py_global("torch", "float32")}).dtype ==
        DType::float32);
  const TensorText rows{.count = py_int(3), .strides = py_tuple(py_int(0) + py_int(1))};
  CHECK(read(ItemText{.pickle = rows.pickle(), .payload = std::string(12, 'p')}.zip()).strides == Ints{0, 1});
}

TEST_CASE("the order of records, the location and the protocol do not matter") {
  TensorText text;
  std::string pickle = text.pickle();
  patch(pickle, position(pickle, "cpu"), "xpu");
  const std::string reversed = PlainZip().add("r/version", "3").add("r/data/0", std::string(24, 'p')).add("r/data.pkl", pickle).finish();
  CHECK(read(reversed).sizes == Ints{2, 3});
  CHECK(read(ItemText{.pickle = "\x80\x04" + text.call() + "."}.zip()).sizes == Ints{2, 3});
}

TEST_CASE("an archive without a folder, and bytes before the first record") {
  CHECK(error(PlainZip().add("data.pkl", "N.").finish()).starts_with("zip_no_root: x.distcp @ 0x28: "));
  CHECK(error("junk" + real_item("float32")).starts_with("zip_bad_end: x.distcp @ 0x5c7: "));
  CHECK(error("junk" + ItemText{}.zip()).starts_with("zip_bad_end: x.distcp @ 0x"));
}

TEST_CASE("version and byte order") {
  const std::string what = "the item's format version is not supported";
  CHECK(error(ItemText{.version = ""}) == "item_no_record: x.distcp > version: the item lacks a record");
  CHECK(error(ItemText{.version = "11"}).ends_with(what + " (got 11, expected 1 to 10)"));
  CHECK(error(ItemText{.version = "0"}).ends_with(what + " (got 0, expected 1 to 10)"));
  CHECK(error(ItemText{.version = "three"}).ends_with(what + " (got three, expected 1 to 10)"));
  CHECK(error(ItemText{.version = std::string(17, '3')}).ends_with(what + ": 17 bytes"));
  CHECK(error(ItemText{.byteorder = "middle"}).ends_with("the item's byte order is unknown (got middle, expected little or big)"));
  CHECK(error(ItemText{.byteorder = std::string(17, 'l')}).ends_with("the item's byte order is unknown: 17 bytes"));
}

TEST_CASE("records that are missing, compressed or short") {
  CHECK(error(ItemText{.key = "1"}) == "item_no_record: x.distcp > data/0: the item lacks a record");
  CHECK(error(PlainZip().add("a/version", "3").finish()) == "item_no_record: x.distcp > data.pkl: the item lacks a record");
  CHECK(error(PlainZip().add("a/version", "3").add("a/data.pkl", "x", 0, 9).finish()) ==
        "item_compressed: x.distcp > data.pkl @ 0x28: a record of the item is compressed in a way that torch does not read: method 9");
  CHECK(error(PlainZip().add("a/version", "3", 0, 12).finish()) ==
        "item_compressed: x.distcp > version @ 0x0: a record of the item is compressed in a way that torch does not read: method 12");
  CHECK(error(ItemText{.payload = std::string(23, 'p')})
            .ends_with("the storage's record is shorter than the storage (got 23 bytes, expected 24)"));
  CHECK(error(ItemText{.payload = std::string(25, 'p')})
            .ends_with("the storage's record is longer than the storage, which torch refuses (got 25 bytes, expected 24)"));
}

TEST_CASE("the pickle's CRC is checked, the payload's is not") {
  std::string bytes = real_item("float32");
  patch(bytes, position(bytes, "cpu"), "gpu");
  CHECK(error(bytes) == "crc_mismatch: x.distcp > data.pkl @ 0x40: the CRC of a record does not match its bytes");
  std::string payload = real_item("float32");
  patch(payload, 704, "x");
  CHECK(read(payload).sizes == Ints{10});
}

TEST_CASE("a pickle over the limit is not read") {
  const std::string bytes = ItemText{}.zip();
  MemoryItem item(bytes);
  CHECK(error_of([&] { read_tensor_item(item, item_place(), Limits{.item_pickle_bytes = 10}); })
            .ends_with("a number in the file is over the limit (got " + std::to_string(TensorText{}.pickle().size()) +
                       " bytes, expected at most 10)"));
}

TEST_CASE("shapes") {
  const std::string wrong = "item_bad_shape: " + kPickle + "the tensor's sizes and strides are impossible";
  CHECK(error(TensorText{.strides = py_tuple(py_int(1))}) == wrong + " (got 1 strides, expected 2)");
  CHECK(error(TensorText{.sizes = py_tuple(py_int(-1) + py_int(3))}) == wrong + " (got -1, expected sizes)");
  CHECK(error(TensorText{.strides = py_tuple(py_int(-3) + py_int(1))}) == wrong + " (got -3, expected strides)");
  CHECK(error(TensorText{.offset = py_int(-1)}) == wrong + " (got -1, expected an offset)");
  CHECK(error(TensorText{.sizes = py_tuple("NN")}) == wrong + " (got None, expected sizes)");
  CHECK(error(TensorText{.sizes = "N"}) ==
        "item_bad_tensor: " + kPickle + "the item describes its tensor in a way torch does not (got None, expected a tuple of sizes)");
  std::string many;
  for (int i = 0; i < 65; ++i) many += py_int(1);
  CHECK(error(TensorText{.sizes = py_tuple(many)}) ==
        "over_limit: " + kPickle + "a number in the file is over the limit (got 65 dims, expected at most 64)");
}

TEST_CASE("tensors that reach outside their storage") {
  const std::string wrong = "item_outside_storage: " + kPickle + "the tensor reaches outside its storage";
  CHECK(error(TensorText{.count = py_int(5)}) == wrong + " (got element 5, expected less than 5)");
  CHECK(error(TensorText{.offset = py_int(1)}) == wrong + " (got element 6, expected less than 6)");
  CHECK(error(TensorText{.strides = py_tuple(py_int(4) + py_int(1))}) == wrong + " (got element 6, expected less than 6)");
  CHECK(error(TensorText{.function = kV3, .type = kUntyped, .rest = py_global("torch", "float32")}) ==
        wrong + " (got element 5, expected less than 1)");
  const std::string overflow = "number_overflow: " + kPickle;
  const std::string huge = py_int(int64_t{1} << 62);
  CHECK(error(TensorText{.sizes = py_tuple(huge + py_int(8)), .strides = py_tuple(py_int(0) + py_int(0))}).starts_with(overflow));
  CHECK(error(TensorText{.sizes = py_tuple(huge + py_int(3)), .strides = py_tuple(py_int(0) + py_int(0))}).starts_with(overflow));
  CHECK(error(TensorText{.strides = py_tuple(huge + huge)}).starts_with("item_outside_storage: "));
  CHECK(error(TensorText{.sizes = py_tuple(py_int(5) + py_int(3)), .strides = py_tuple(huge + huge)}).starts_with(overflow));
  CHECK(error(TensorText{.count = huge}).starts_with(overflow));
}

TEST_CASE("a tensor without elements keeps any offset and strides of the view that it was") {
  const std::string huge = py_int(int64_t{1} << 62);
  const TensorItem beyond = read(TensorText{.offset = py_int(7), .sizes = py_tuple(py_int(0) + py_int(3))});
  CHECK((beyond.sizes == Ints{0, 3} && is_empty(beyond) && is_dense(beyond)));
  const TensorItem far = read(TensorText{.offset = huge, .sizes = py_tuple(py_int(3) + py_int(0)), .strides = py_tuple(huge + huge)});
  CHECK((far.sizes == Ints{3, 0} && is_dense(far)));
  // Sizes that no arithmetic holds, beside the 0.
  CHECK(read(TensorText{.sizes = py_tuple(py_int(0) + huge + huge), .strides = py_tuple(huge + huge + huge)}).sizes.size() == 3);
  CHECK(!is_empty(read(TensorText{})));
  CHECK(!is_dense(read(TensorText{.offset = py_int(1), .sizes = py_tuple(py_int(1) + py_int(1))})));
}

TEST_CASE("storages") {
  const std::string wrong = "item_bad_storage: " + kPickle + "the item describes a storage in a way torch does not";
  CHECK(error(TensorText{.count = "N"}) == wrong + " (got None, expected a storage's size)");
  CHECK(error(TensorText{.count = py_int(-6)}) == wrong + " (got -6, expected a storage's size)");
  CHECK(error(TensorText{.key = py_int(0)}) == wrong + " (got 0, expected a storage's key)");
  CHECK(error(TensorText{.type = py_global("torch", "float32")}) == wrong + " (got an object, expected a storage class)");
  CHECK(error(TensorText{.type = kUntyped}) == wrong + " (got an untyped storage, expected a typed one)");
  CHECK(error(TensorText{.count = ""}) == wrong + " (got a tuple of 4, expected ('storage', class, key, location, count))");
  CHECK(error(TensorText{.type = py_global("torch", "NoStorage")}) ==
        "item_unknown_dtype: " + kPickle + "the item's element type is unknown: torch.NoStorage");
  const std::string no_id = py_call(py_global("torch._utils", "_rebuild_tensor_v2"), "NK\x01))\x89N");
  CHECK(error(ItemText{.pickle = no_id + "."}) == wrong + " (got None, expected a persistent id)");
}

TEST_CASE("calls with other arguments") {
  const std::string wrong = "item_bad_tensor: " + kPickle + "the item describes its tensor in a way torch does not";
  CHECK(error(TensorText{.rest = "NN"}) == wrong + " (got a tuple of 8, expected a tuple of 6 or 7 arguments)");
  CHECK(error(TensorText{.function = kV3}) == wrong + " (got a tuple of 6, expected a tuple of 7 or 8 arguments)");
  CHECK(error(TensorText{.function = kV3, .rest = "N"}) == wrong + " (got None, expected a dtype)");
  CHECK(error(TensorText{.function = kV3, .rest = py_global("torch", "int4")}) ==
        "item_unknown_dtype: " + kPickle + "the item's element type is unknown: torch.int4");
  CHECK(error(TensorText{.rest = ")"}) == wrong + " (got a tuple of 0, expected a dict of flags)");
  CHECK(error(TensorText{.rest = "}(" + py_text("conj") + "\x88u"}) == wrong + ": conj of float32");
  CHECK(error(TensorText{.rest = "}(" + py_text("neg") + "Nu"}) == wrong + " (got None, expected a flag that is true or false)");
  CHECK(error(TensorText{.rest = "}(" + py_text("sparse") + "\x88u"}) == wrong + " (got text 'sparse', expected the flags conj and neg)");
}

TEST_CASE("a safetensors file is named as such") {
  std::string file;
  put_le(file, 60, 8);
  file += "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}     1234";
  CHECK(error(file) == "item_is_safetensors: x.distcp: the file is a safetensors file, not a sequence of torch.save archives");
  CHECK(error(file.substr(0, 8)) == "zip_no_end: x.distcp: is not a zip archive: it has no end record");
}

TEST_CASE("every truncation and every flipped byte of real items ends in a tensor or an Error") {
  for (const char* name : {"float32", "nocrc", "float8", "neg", "quantized", "parameter"}) {
    const std::string bytes = real_item(name);
    for (size_t n = 0; n < bytes.size(); ++n) CHECK(error(bytes.substr(0, n)) != "");
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (const char mask : {'\1', '\x20', '\x80', '\xFF'}) {
        std::string copy = bytes;
        copy[i] = static_cast<char>(copy[i] ^ mask);
        error(copy);
      }
    }
  }
}
