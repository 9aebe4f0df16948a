// Two checkpoints in memory, in two layouts.
#include "app/diff.h"

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>

#include "app/write.h"
#include "base/error_line.h"
#include "base/fake_io.h"
#include "exec/synthetic.h"

using namespace dcp;
using namespace dcp::test;

namespace {

// "/a": five ranks, sharded by columns, over a megabyte; "/b.safetensors": the same in one file.
struct Pair {
  explicit Pair(uint64_t bytes = 5 << 20) {
    using Layout = SyntheticSpec::Layout;
    write_synthetic(io, "/a",
                    {.bytes = bytes, .world_size = 5, .layout = Layout::kShard1, .tensors = 2, .dtype = DType::float32, .seed = 7},
                    {.workers = 1}, stop);
    WriteResult result;
    write({.read = read("/a"), .output = {.path = "/b.safetensors", .kind = OutputRequest::Kind::kSafetensors}, .sync = false}, world,
          result, [] {});
  }
  static ReadRequest read(const std::string& path, unsigned threads = 1) {
    return {.source = {.path = path}, .max_memory = kGiB, .threads = threads};
  }
  DiffRequest request(unsigned threads = 1) const { return {.a = read("/a", threads), .b = read("/b.safetensors", threads)}; }
  DiffResult compare(const DiffRequest& request) {
    DiffResult result;
    diff(request, world, result);
    return result;
  }
  void change(const std::string& path, const std::function<void(std::string&)>& how) {
    std::string bytes = io.text_of(path);
    how(bytes);
    io.put(path, bytes);
  }
  FakeIo io;
  StopFlag stop{0};
  Events silent;
  World world{io, stop, silent};
};

// Of the float32 at the end of a file.
void flip_last_sign(std::string& bytes) { bytes.back() = static_cast<char>(bytes.back() ^ 0x80); }

}  // namespace

TEST_CASE("a sharded folder and the file made from it hold the same, whichever comes first") {
  Pair p;
  DiffRequest request = p.request();
  const DiffResult result = p.compare(request);
  CHECK(result.equal());
  CHECK(result.tensors == 2);
  CHECK(result.elements == result.tensor_bytes / 4);
  CHECK(result.bytes_read == 2 * result.tensor_bytes);  // nothing twice
  std::swap(request.a, request.b);
  CHECK(p.compare(request).equal());
}

TEST_CASE("one element that differs is found, where it is and by how much, with any number of threads") {
  Pair p;
  p.change("/b.safetensors", flip_last_sign);
  for (const unsigned threads : {1u, 7u}) {
    const DiffResult result = p.compare(p.request(threads));
    REQUIRE(result.differences.size() == 1);
    const KeyDifference& d = result.differences[0];
    CHECK(d.kind == KeyDifference::Kind::kValues);
    CHECK(d.key == "model.layers.1.weight");
    CHECK(d.values.changed == 1);
    CHECK(d.values.first == d.elements - 1);
    CHECK(d.values.absolute.index == d.elements - 1);
    CHECK(d.values.relative.error == 2);
  }
  DiffRequest close = p.request();
  close.tolerance.relative = 2;
  const DiffResult result = p.compare(close);
  CHECK(result.equal());
  CHECK(result.values.changed == 1);
}

TEST_CASE("bytes that are not what their writer summed are damage, not a difference") {
  Pair p;
  p.change("/a/__3_0.distcp", [](std::string& bytes) { bytes[bytes.size() / 4] = static_cast<char>(bytes[bytes.size() / 4] ^ 1); });
  CHECK(error_id([&] { p.compare(p.request()); }) == "crc_mismatch");
}

TEST_CASE("keys alone are compared without reading a tensor") {
  Pair p;
  p.change("/b.safetensors", flip_last_sign);
  DiffRequest request = p.request();
  request.keys_only = true;
  const DiffResult result = p.compare(request);
  CHECK(result.equal());
  CHECK(result.tensors == 2);
  CHECK(result.bytes_read == 0);
}

TEST_CASE("a side that lacks what is asked for has nothing; both lacking it is an error") {
  Pair p;
  DiffRequest request = p.request();
  request.select.root = "model";
  CHECK(p.compare(request).equal());  // the file's keys have no components: they begin with it
  request.select.rules = {{.kind = KeyRule::Kind::kKey, .text = "model.layers.0.weight"}};
  CHECK(p.compare(request).tensors == 1);
  request.select.root = "teacher";
  CHECK(error_id([&] { p.compare(request); }) == "root_missing");
  request.select.root.clear();
  request.select.rules = {{.kind = KeyRule::Kind::kKey, .text = "no such key"}};
  CHECK(error_id([&] { p.compare(request); }) == "key_missing");
}

TEST_CASE("new names are for the side where they make keys meet") {
  Pair p;
  WriteRequest bare{
      .read = Pair::read("/a"), .output = {.path = "/c.safetensors", .kind = OutputRequest::Kind::kSafetensors}, .sync = false};
  bare.select.root = "model";
  WriteResult written;
  write(bare, p.world, written, [] {});
  DiffRequest request{.a = Pair::read("/c.safetensors"), .b = Pair::read("/b.safetensors")};
  CHECK(p.compare(request).differences.size() == 4);
  request.select.renames = {{.regex = "^", .replacement = "model."}};
  CHECK(p.compare(request).equal());
  std::swap(request.a, request.b);
  CHECK(p.compare(request).equal());
  request.select.renames = {{.regex = "^model\\.", .replacement = ""}};
  CHECK(p.compare(request).equal());
}
