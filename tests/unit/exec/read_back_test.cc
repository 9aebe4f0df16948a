// --verify-after: what the disk gives back is what was written, or nothing appears.
#include "exec/read_back.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "base/fake_io.h"

using namespace dcp;
using namespace dcp::test;

namespace {

constexpr uint64_t kBig = (4 << 20) + 1000;  // more than a block
const std::vector<FileSpec> kSpecs{{"a", kBig}, {"empty", 0}, {"b", 5}};

// Written in pieces and out of order.
void write_all_of(Sink& sink) {
  const std::string big(kBig, 'x');
  sink.write(0, 1000, as_bytes(big).subspan(1000));
  sink.write(2, 2, as_bytes("llo"));
  sink.write(0, 0, as_bytes(big).first(1000));
  sink.write(2, 0, as_bytes("he"));
  sink.finish();
}

}  // namespace

TEST_CASE("an output that reads as it was written") {
  FakeIo io;
  FileSet files(io, "out", kSpecs, {.folder = true});
  SummedFiles summed(files, kSpecs);
  write_all_of(summed);
  for (const unsigned workers : {1u, 3u}) CHECK_NOTHROW(summed.read_back(workers, StopFlag{0}));
  summed.commit();
  CHECK(io.text_of("out/b") == "hello");
}

TEST_CASE("one wrong byte is found, and the file named as it would be called") {
  for (const bool folder : {true, false}) {
    FakeIo io;
    const std::vector<FileSpec> specs = folder ? kSpecs : std::vector<FileSpec>{{"", 5}};
    FileSet files(io, "out", specs, {.folder = folder});
    SummedFiles summed(files, specs);
    if (folder) write_all_of(summed);
    else summed.write(0, 0, as_bytes("hello"));
    files.write(folder ? 2 : 0, 4, as_bytes("0"));  // behind its back
    CHECK(error_line([&] { summed.read_back(2, StopFlag{0}); }) ==
          (folder ? "out/b" : "out") + std::string(": the data read back is not what was written"));
  }
}

TEST_CASE("a byte that was never written is an error of this program") {
  FakeIo io;
  FileSet files(io, "out", kSpecs, {.folder = true});
  SummedFiles summed(files, kSpecs);
  summed.write(2, 0, as_bytes("hello"));
  CHECK(error_id([&] { summed.read_back(1, StopFlag{0}); }) == "internal");
}
