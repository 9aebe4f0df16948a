#include "format/blob.h"

#include <catch2/catch_test_macros.hpp>

#include "format/pickles.h"

using namespace dcp;
using namespace dcp::test;

namespace {

BlobItem blob_of(const std::string& bytes) {
  MemoryItem item(bytes);
  return read_blob_item(item, item_place(), Limits{});
}
std::string blob_error(const std::string& bytes) {
  return error_of([&] { blob_of(bytes); });
}

}  // namespace

TEST_CASE("a byte item's pickle is handed over as it is") {
  const BlobItem number = blob_of(real_item("number"));
  CHECK(as_text(number.pickle) == std::string("\x80\x02K\x07.", 5));
  CHECK(number.pickle_place.offset == 64);
  CHECK(number.storages.empty());
  CHECK_FALSE(number.big_endian);
}

TEST_CASE("storages that a byte item names") {
  const BlobItem dict = blob_of(real_item("dict"));
  REQUIRE(dict.storages.size() == 1);
  CHECK(dict.storages[0].key == "0");
  CHECK(dict.storages[0].bytes == 8);
  CHECK(dict.storages[0].has_crc);
  CHECK(dict.storages[0].payload % 64 == 0);
  const BlobItem opaque = blob_of(real_item("quantized"));
  CHECK(opaque.storages.size() == 1);
  const std::string many =
      PlainZip().add("r/data.pkl", "N.").add("r/data/", "").add("r/data/b", "1").add("r/data/a", "22").add("r/version", "3").finish();
  const BlobItem blob = blob_of(many);
  REQUIRE(blob.storages.size() == 2);
  CHECK(blob.storages[0].key == "b");
  CHECK(blob.storages[1].key == "a");
  CHECK(blob.storages[1].bytes == 2);
  CHECK_FALSE(blob.storages[1].has_crc);
  CHECK(many.substr(blob.storages[1].payload, 2) == "22");
}

TEST_CASE("byte items that cannot be read") {
  CHECK(blob_error("whatever a planner wrote") == "blob_not_archive: x.distcp: the byte item is not a torch.save archive");
  CHECK(blob_error("") == "blob_not_archive: x.distcp: the byte item is not a torch.save archive");
  CHECK(blob_error(PlainZip().add("r/a.npy", "x").finish()) == "item_no_record: x.distcp > version: the item lacks a record");
  CHECK(blob_error(PlainZip().add("r/data.pkl", "N.").add("r/data/0", "x", 0, 12).add("r/version", "3").finish()) ==
        "item_compressed: x.distcp > data/0 @ 0x2a: a record of the item is compressed in a way that torch does not read: method 12");
  std::string damaged = real_item("number");
  patch(damaged, position(damaged, "K\x07"), "K\x08");
  CHECK(blob_error(damaged) == "crc_mismatch: x.distcp > data.pkl @ 0x40: the CRC of a record does not match its bytes");
  const std::string bytes = real_item("number");
  MemoryItem item(bytes);
  CHECK(error_of([&] { read_blob_item(item, item_place(), Limits{.blob_bytes = 4}); }) ==
        "over_limit: x.distcp > data.pkl @ 0x40: a number in the file is over the limit (got 5 bytes, expected at most 4)");
}

TEST_CASE("what loading an object imports and reads") {
  const auto run = [](const std::string& pickle, const Limits& limits = {}) {
    return run_object_pickle(as_bytes(pickle), {.path = "x"}, limits);
  };
  const TensorText tensor;
  const std::string call = py_call(py_global("os", "system"), py_text("true"));
  const ObjectPickle object = run("]" + tensor.call() + "a" + call + "0" + call + "0.");
  CHECK(object.refused == std::vector<std::string>{"os.system"});
  REQUIRE(object.storages.size() == 1);
  CHECK(object.storages[0].key == "0");
  CHECK(object.storages[0].bytes == 24);
  CHECK_FALSE(object.fault.has_value());
  const auto fault = [&](const std::string& pickle) { return std::string(id_name(run(pickle).fault.value().id)); };
  CHECK(fault(".") == "pickle_underflow");
  CHECK(fault("}(Nu.") == "pickle_operand");
  CHECK(fault("]Ne.") == "pickle_no_mark");
  CHECK(fault("h\5.") == "pickle_memo_unset");
  CHECK(fault("\x80\x68N.") == "pickle_protocol");
  CHECK(fault("NQ.") == "pickle_storage_id");
  CHECK(fault("X\1" + std::string(3, '\0') + "\xff.") == "pickle_unloadable");
  CHECK(fault("(ios\nsystem\n.") == "pickle_refused_opcode");
  CHECK(run(TensorText{.type = py_global("torch.xpu", "FloatStorage")}.pickle()).storages.empty());
  CHECK(run("](" + std::string(100'000, 'N') + "e.", {.memory_bytes = kMiB}).unseen);
  CHECK(run("(" + py_text(std::string(5000, 'k')) + "q\1" + tensor.storage() + "t.", {.memory_bytes = 64}).unseen);
}

TEST_CASE("an item that is copied whole has the storages that its pickle names") {
  const auto copied = [](const ItemText& item) {
    return error_of([&] {
      const std::string bytes = item.zip();
      MemoryItem source(bytes);
      read_blob_records(source, item_place(), Limits{});
    });
  };
  CHECK(copied({}) == "");
  CHECK(copied({.payload = "p"}).starts_with("item_short_storage: x.distcp > data/0 @ 0x"));
  CHECK(copied({.key = "1"}) == "item_no_record: x.distcp > data/0: the item lacks a record");
  CHECK(copied({.pickle = "not a pickle", .payload = "p"}) == "");
}

TEST_CASE("every truncation and every flipped byte of a byte item ends in an item or an Error") {
  const std::string bytes = real_item("dict");
  for (size_t n = 0; n < bytes.size(); ++n) CHECK(blob_error(bytes.substr(0, n)) != "");
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string copy = bytes;
    copy[i] = static_cast<char>(copy[i] ^ 0x41);
    blob_error(copy);
  }
}
