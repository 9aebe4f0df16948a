// Values that are told in a line: which there are, and what they cost.
#include "items/values.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "base/fake_io.h"
#include "catalog/made_blobs.h"
#include "catalog/structure.h"
#include "inputs/open.h"

using namespace dcp;
using namespace dcp::test;

namespace {

// A byte item whose pickle `write` makes.
template <class Write>
MadeBlob blob_of(const std::string& key, const Write& write) {
  MadeBlob blob{.key = key, .pickle = {}};
  PickleWriter out(blob.pickle, PickleProtocol::k2);
  out.begin();
  write(out);
  out.end();
  return blob;
}

// A list of `n` numbers.
void list_of(PickleWriter& out, int n) {
  out.op(dcp::Op::EMPTY_LIST);
  out.op(dcp::Op::MARK);
  for (int i = 0; i < n; ++i) out.integer(i);
  out.op(dcp::Op::APPENDS);
}

struct Valued {
  explicit Valued(MadeCheckpoint made) {
    made.put(io, "ckpt");
    opened = open_checkpoint(io, "ckpt", {});
  }
  std::map<std::string, std::string> values() {
    const Catalog& catalog = opened->catalog;
    DataFiles files(io, catalog, FollowLinks::kCacheOnly);
    std::map<std::string, std::string> by_key;
    for (const auto& [ref, text] : small_values(files, catalog, {}, with_small_values(catalog, catalog.order, 256)))
      by_key[std::string(catalog.key(ref))] = text;
    return by_key;
  }
  FakeIo io;
  FrozenCatalog opened;
};

}  // namespace

TEST_CASE("numbers, texts and short containers have values; what code would make, or what is long, has none") {
  MadeCheckpoint made;
  made.blobs.push_back(number_blob("step", 1000));
  made.blobs.push_back(blob_of("name", [](PickleWriter& out) { out.text("cosine"); }));
  made.blobs.push_back(blob_of("short", [](PickleWriter& out) { list_of(out, 3); }));
  made.blobs.push_back(blob_of("long", [](PickleWriter& out) { list_of(out, 65); }));
  Rng rng(1);
  made.blobs.push_back(nested_blob(rng, "tensors", {3}));
  CHECK(Valued(made).values() == std::map<std::string, std::string>{{"name", "'cosine'"}, {"short", "[0, 1, 2]"}, {"step", "1000"}});
}

TEST_CASE("tensors without dims have the value that is stored") {
  MadeCheckpoint made;
  MadeTensor one = whole_tensor("one", DType::int32, {});
  one.chunks[0].storage = std::string("\xe8\x03\0\0", 4);
  made.tensors.push_back(one);
  MadeTensor half = whole_tensor("half", DType::bfloat16, {});  // no plain spelling
  made.tensors.push_back(half);
  made.tensors.push_back(whole_tensor("row", DType::int32, {1}));
  CHECK(Valued(made).values() == std::map<std::string, std::string>{{"one", "1000"}});
}

TEST_CASE("values of files that are not there, or are cut, are not told, and nothing is thrown") {
  MadeCheckpoint made;
  made.blobs.push_back(number_blob("step", 7));
  Valued v(made);
  const std::string file = v.opened->catalog.file_path(0);
  v.io.put(file, v.io.text_of(file).substr(0, 40));
  CHECK(v.values().empty());
}

TEST_CASE("no more than a few hundred keys are looked at") {
  MadeCheckpoint made;
  for (int i = 0; i < 1000; ++i) made.blobs.push_back(number_blob("n" + std::to_string(i), i));
  CHECK(Valued(made).values().size() == 256);
}
