// torch.save files as checkpoints: how a state dict is flattened, where tensors lie in their storages, how objects are cut out.
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/made_torch_file.h"
#include "catalog/torch_files.h"
#include "inputs/open.h"

using namespace dcp;
using namespace dcp::test;
using POp = dcp::Op;

namespace {

std::string keys(const Catalog& c) {
  const Selection s = select_keys(c, {});
  std::string text;
  for (const Entry& e : s.entries) text += (text.empty() ? "" : " ") + std::string(e.key) + (e.is_blob() ? "" : "=t");
  return text;
}
std::string refused(FakeIo& io) {
  return error_line([&] { read_checkpoint(io, "m.pt", {}); });
}
}  // namespace

TEST_CASE("a state dict is flattened as torch's planner does") {
  Made m;
  m.dict().key("w").floats(2, "0").key("epoch").number(3);
  m.key("empty").op(POp::EMPTY_DICT);
  m.key("nums").list().number(1).number(2).end_list();
  m.key("mixed").list().floats(2, "1").number(5).list().number(6).end_list().end_list();
  m.key("tuple").floats(2, "1").out.tuple(1);
  m.key("opt").dict().number(7).dict().key("lr").number(1).end_dict().end_dict();
  m.key("odd").out.global("collections", "OrderedDict");
  m.op(POp::EMPTY_TUPLE).op(POp::REDUCE).op(POp::MARK).key("a.b").number(1).end_dict();
  m.end_dict();
  FakeIo io;
  put(io, m.done(), kTwo);
  const Catalog c = read_checkpoint(io, "m.pt", {}).catalog;
  CHECK(c.kind == CheckpointKind::kTorch);
  CHECK(keys(c) == "w=t epoch empty nums mixed.0=t mixed.1 mixed.2 tuple opt.7.lr odd.a.b");
  const Selection s = select_keys(c, {});
  const auto path = s.path(s.entries[8]);
  REQUIRE(path.size() == 3);
  CHECK(path[1].is_integer);
  CHECK_FALSE(path[2].is_integer);
  CHECK(s.path(s.entries[4])[1].position == 0);
}

TEST_CASE("views, shared storages, objects: what resolve gives") {
  Made m;
  m.dict().key("whole").floats(2, "0");
  m.key("second").tensor(
      {.dtype = DType::float32, .storage = "0", .storage_elements = 2, .storage_offset = 1, .sizes = {1}, .strides = {1}});
  m.key("spread").tensor({.dtype = DType::float32, .storage = "1", .storage_elements = 2, .sizes = {3, 2}, .strides = {0, 1}});
  m.key("pair").floats(2, "1").number(9).out.tuple(2);
  m.end_dict();
  FakeIo io;
  put(io, m.done(), {{"data/0", kEight}, {"data/1", kEight, false}, {"data/2", kEight}});
  const FrozenCatalog opened = open_checkpoint(io, "m.pt", {});
  const Catalog& c = opened->catalog;
  const Resolved r = resolved(io, c);
  const std::string file = io.text_of("m.pt");
  for (ItemId i = 0; i < 3; ++i) CHECK(file.substr(r.items[i].record, 8) == kEight);
  CHECK(r.items[0].record == r.items[1].record);
  CHECK(r.items[0].has_crc);
  CHECK_FALSE(r.items[2].has_crc);
  CHECK(r.items[0].strides_at == 0);
  CHECK(Ints(r.strides.begin() + static_cast<int64_t>(r.items[1].strides_at),
             r.strides.begin() + static_cast<int64_t>(r.items[1].strides_at) + 2) == Ints{1, 1});
  CHECK(r.strides[r.items[2].strides_at + 1] == 0);
  const BlobItem& pair = r.blobs.at(c.item_of(BlobId{0})).item;
  REQUIRE(pair.storages.size() == 1);
  CHECK(pair.storages[0].key == "1");
  CHECK(c.torch->files.at(0)->unreferenced_bytes == 8);
}

TEST_CASE("dicts that contain themselves, keys that collide, too many leaves") {
  FakeIo io;
  Made cycle;
  cycle.op(POp::EMPTY_DICT).out.put();
  cycle.op(POp::MARK).key("me").out.get(0);
  put(io, cycle.end_dict().done());
  CHECK(refused(io).find("tensor 'me': a dict or list of the state dict contains itself") != std::string::npos);
  Made twice;
  put(io, twice.dict().key("a.b").number(1).key("a").dict().key("b").number(2).end_dict().end_dict().done());
  const OpenedCatalog opened = read_checkpoint(io, "m.pt", {});
  CHECK(keys(opened.catalog) == "a.b a.b#2");
  REQUIRE(opened.findings.size() == 1);
  CHECK(to_line(opened.findings[0]) == "m.pt: object 'a.b': two paths of the state dict result in the same key: here the second is a.b#2");
  // Each dict holds the one before twice: 2^40 leaves.
  Made many;
  many.dict().key("x").number(1).end_dict().out.put();
  for (uint64_t n = 0; n < 40; ++n) {
    many.op(POp::EMPTY_DICT).op(POp::MARK).key("a").out.get(n);
    many.key("b").out.get(n);
    many.end_dict().out.put();
  }
  put(io, many.done());
  OpenOptions few;
  few.limits.state_dict_bytes = 1 << 20;
  CHECK(error_id([&] { read_checkpoint(io, "m.pt", few); }) == "over_limit");
}

TEST_CASE("what is no state dict") {
  FakeIo io;
  Made tensor;
  put(io, tensor.floats(2, "0").done(), kTwo);
  CHECK(refused(io).ends_with("the file holds no state dict (got a single tensor, expected a dict of tensors)"));
  Made list;
  put(io, list.list().number(1).end_list().done());
  CHECK(refused(io).ends_with("the file holds no state dict (got a list, expected a dict of tensors)"));
  Made object;
  object.out.global("nets", "Model");
  put(io, object.op(POp::EMPTY_TUPLE).op(POp::NEWOBJ).done());
  CHECK(refused(io).ends_with("the file holds no state dict (got an object of nets.Model, expected a dict of tensors)"));
  Made script;
  put(io, script.dict().end_dict().done(), {{"constants.pkl", "x"}});
  CHECK(refused(io) == "m.pt: is not a checkpoint (got a TorchScript archive, expected a torch.save file)");
}

TEST_CASE("storages that are not as the pickle says") {
  FakeIo io;
  Made m;
  const std::string pickle = m.dict().key("w").floats(3, "0").end_dict().done();
  put(io, pickle);
  CHECK(refused(io) == "m.pt > data/0: tensor 'w': the item lacks a record");
  put(io, pickle, kTwo);
  CHECK(refused(io).find("> data/0") != std::string::npos);
  CHECK(refused(io).ends_with("tensor 'w': the storage's record is shorter than the storage (got 8 bytes, expected 12)"));
}

TEST_CASE("the memory of a torch.save file is counted, and its state dict read under the cap") {
  Made m;
  m.dict();
  for (int i = 0; i < 5000; ++i) m.key("k" + std::to_string(i)).number(i);
  m.end_dict();
  const std::string pickle = m.done();
  FakeIo io;
  put(io, pickle);
  const auto with = [&](uint64_t bytes) { return error_id([&] { read_checkpoint(io, "m.pt", {.limits = {.memory_bytes = bytes}}); }); };
  CHECK(with(pickle.size()) == "memory_cap");      // the pickle alone
  CHECK(with(4 * pickle.size()) == "memory_cap");  // its values
  CHECK(with(2'000'000) == "memory_cap");          // its leaves
  CHECK(with(10'000'000).empty());
}

// Each worker's items are found again while the others add theirs.
TEST_CASE("many objects, many workers, faults collected") {
  constexpr int kObjects = 20000;
  Made m;
  m.dict();
  for (int i = 0; i < kObjects; ++i) m.key("k" + std::to_string(i)).number(i);
  m.end_dict();
  FakeIo io;
  put(io, m.done());
  const FrozenCatalog opened = open_checkpoint(io, "m.pt", {});
  const Catalog& c = opened->catalog;
  for (int time = 0; time < 60; ++time) {
    const Resolved r = resolved(io, c, {.workers = 16, .faults = Faults::kCollect, .limits = {}});
    CHECK(r.findings.empty());
    CHECK(r.blobs.size() == kObjects);
  }
}
