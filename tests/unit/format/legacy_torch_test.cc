// Files in the form before torch 1.6, made in memory: what their ids become, and where storages lie.
#include "format/legacy_torch.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "format/pickles.h"

using namespace dcp;
using namespace dcp::test;

namespace {

std::string pickled(const std::string& opcodes) { return "\x80\x02" + opcodes + "."; }
std::string listed(const std::string& values) { return pickled("](" + values + "e"); }
std::string py_id(const std::string& key, int64_t count, const std::string& view = "N") {
  return py_tuple(py_text("storage") + py_global("torch", "FloatStorage") + py_text(key) + py_text("cpu") + py_int(count) + view) + "Q";
}
std::string py_view(const std::string& key, int64_t offset, int64_t count) {
  return py_tuple(py_text(key) + py_int(offset) + py_int(count));
}

// A list of values, and storages by key.
std::string file(const std::string& values, const std::vector<std::pair<std::string, std::string>>& storages) {
  std::string keys, data;
  for (const auto& [key, elements] : storages) {
    keys += py_text(key);
    put_le(data, elements.size() / 4, 8);
    data += elements;
  }
  return "\x80\x02" + std::string(kLegacyMagic) + pickled(py_int(1001)) + pickled("}") + listed(values) + listed(keys) + data;
}

LegacyTorch read(const std::string& bytes, const Limits& limits = {}) {
  MemoryItem item(bytes);
  return read_legacy_torch(item, {.path = "m.pt"}, limits);
}

std::string repr(const LegacyTorch& f) { return f.graph->repr(f.graph->root(), {.length = 1000}); }

}  // namespace

TEST_CASE("an id is a record, and a part of a storage is one, too") {
  const std::string ids = py_id("8", 3) + py_id("9", 2, py_view("91", 1, 1)) + py_id("9", 2, py_view("92", 0, 2)) + py_id("8", 3);
  const std::string bytes = file(ids, {{"9", "aaaabbbb"}, {"8", "ccccddddeeee"}});
  const LegacyTorch f = read(bytes);
  CHECK(repr(f) ==
        "[persistent ('storage', torch.FloatStorage, '8', 'cpu', 3), persistent ('storage', torch.FloatStorage, '91', 'cpu', 1), "
        "persistent ('storage', torch.FloatStorage, '92', 'cpu', 2), persistent ('storage', torch.FloatStorage, '8', 'cpu', 3)]");
  std::string found;
  for (const BlobItem::Storage& s : f.archive.storages)
    found += s.key + "=" + bytes.substr(s.payload, s.bytes) + (s.has_crc ? "!" : "") + " ";
  CHECK(found == "92=aaaabbbb 91=bbbb 8=ccccddddeeee ");  // 9 itself is nobody's
  CHECK(as_text(f.archive.pickle) == bytes.substr(*f.archive.pickle_place.offset, f.archive.packed_pickle));
}

TEST_CASE("the class of a module stands for its id") {
  const std::string id = py_tuple(py_text("module") + py_global("nets", "Net") + py_text("nets.py") + py_text("class Net: pass")) + "Q";
  CHECK(repr(read(file(id + ")\x81", {}))) == "[nets.Net()]");
}

TEST_CASE("what begins a file, and pickles that go on") {
  const std::string bytes = file(py_text(std::string(100'000, 'x')), {});
  CHECK(begins_legacy_torch(as_bytes(bytes)));
  CHECK_FALSE(begins_legacy_torch(as_bytes(bytes).first(14)));
  const std::string framed = std::string("\x80\x04\x95\x0d\0\0\0\0\0\0\0", 11) + std::string(kLegacyMagic);
  CHECK(framed.size() == kLegacyBeginBytes);
  CHECK(begins_legacy_torch(as_bytes(framed)));
  CHECK_FALSE(begins_legacy_torch(as_bytes("PK\3\4")));
  CHECK(read(bytes).archive.pickle.size() > 100'000);
  CHECK(error_id([&] { read(bytes, {.memory_bytes = 100'000}); }) == "memory_cap");
  CHECK(error_id([&] { read(bytes, {.archive_pickle_bytes = 100'000}); }) == "over_limit");
  CHECK(error_id([&] { read(bytes, {.archive_pickle_bytes = 120'000}); }).empty());
}
