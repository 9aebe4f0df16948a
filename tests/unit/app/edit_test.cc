// Edits by metadata alone: data files are shared or copied, and never written into.
#include "app/edit.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "base/error_line.h"
#include "base/fake_io.h"
#include "catalog/structure.h"
#include "exec/synthetic.h"
#include "inputs/open.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

struct Edited {
  Edited() { write_synthetic(io, "/ckpt", {.bytes = 3000, .world_size = 2, .tensors = 3, .seed = 7}, {.sync = false}, stop); }
  EditRequest to(const std::string& out) const {
    EditRequest request{
        .source = {.path = "/ckpt"}, .max_memory = kGiB, .threads = 1, .select = {}, .torch = {}, .out = out, .sync = false};
    request.select.renames = {{"^", "x."}};
    return request;
  }
  EditResult run(const EditRequest& request) {
    EditResult result;
    edit(request, world, result, [] {});
    return result;
  }
  Lines keys(const std::string& path) {
    const FrozenCatalog opened = open_checkpoint(io, path, {});
    const Catalog& catalog = opened->catalog;
    CHECK(structure_findings(*opened).empty());
    Lines keys;
    for (const Tensor& t : catalog.tensors) keys.emplace_back(catalog.key(t));
    return keys;
  }
  Lines written() const {  // calls that change bytes
    Lines lines;
    for (const std::string& line : io.log)
      if (line.starts_with("write ") || line.starts_with("allocate ")) lines.push_back(line.substr(0, line.find(" ", line.find(' ') + 1)));
    return lines;
  }
  FakeIo io;
  StopFlag stop{0};
  Events events;
  World world{io, stop, events};
};

}  // namespace

TEST_CASE("names change in a new folder that shares its data") {
  Edited f;
  const Lines before = f.keys("/ckpt");
  f.io.log.clear();
  const EditResult result = f.run(f.to("/out"));
  CHECK(result.files_of[static_cast<size_t>(Sharing::kLink)] == 2);
  CHECK(f.written() == Lines{"allocate /.out.dcpctl-partial/.metadata", "write /.out.dcpctl-partial/.metadata"});
  Lines expected;
  for (const std::string& key : before) expected.push_back("x." + key);
  CHECK(f.keys("/out") == expected);
  CHECK(f.keys("/ckpt") == before);
  CHECK(f.io.text_of("/out/__0_0.distcp") == f.io.text_of("/ckpt/__0_0.distcp"));
}

TEST_CASE("without links data is copied, in pieces and by any number of workers") {
  for (const unsigned threads : {1u, 3u}) {
    Edited f;
    f.io.can_link = false;
    f.io.max_write = 100;
    EditRequest request = f.to("/out");
    request.threads = threads;
    CHECK(f.run(request).files_of[static_cast<size_t>(Sharing::kCopy)] == 2);
    CHECK(f.io.text_of("/out/__1_0.distcp") == f.io.text_of("/ckpt/__1_0.distcp"));
    CHECK(f.keys("/out").size() == 3);
    request.out = "/other", request.sharing = Sharing::kLink;
    CHECK(error_id([&] { f.run(request); }) == "share_impossible");
    request.sharing = Sharing::kClone;
    CHECK(error_id([&] { f.run(request); }) == "share_impossible");
    CHECK_FALSE(f.io.exists("/other"));
    CHECK_FALSE(f.io.exists("/.other.dcpctl-partial"));
  }
}

TEST_CASE("an empty folder that is there is filled with links") {
  Edited f;
  f.io.put_folder("/out");
  f.run(f.to("/out"));
  CHECK(f.keys("/out").size() == 3);
  CHECK(f.io.paths() ==
        Lines{"/ckpt/.metadata", "/ckpt/__0_0.distcp", "/ckpt/__1_0.distcp", "/out/.metadata", "/out/__0_0.distcp", "/out/__1_0.distcp"});
}

TEST_CASE("in place the metadata is replaced, and every old one has a name") {
  Edited f;
  const std::string first = f.io.text_of("/ckpt/.metadata");
  CHECK(f.run(f.to("")).original == ".metadata.orig");
  CHECK(f.io.text_of("/ckpt/.metadata.orig") == first);
  const std::string second = f.io.text_of("/ckpt/.metadata");
  CHECK(f.run(f.to("")).original == ".metadata.orig.1");
  CHECK(f.io.text_of("/ckpt/.metadata.orig") == first);
  CHECK(f.io.text_of("/ckpt/.metadata.orig.1") == second);
  EditRequest request = f.to("");
  request.keep_original = false;
  CHECK(f.run(request).original == "");
  CHECK(f.keys("/ckpt")[0].starts_with("x.x.x."));
  CHECK(f.io.paths() ==
        Lines{"/ckpt/.metadata", "/ckpt/.metadata.orig", "/ckpt/.metadata.orig.1", "/ckpt/__0_0.distcp", "/ckpt/__1_0.distcp"});
}

TEST_CASE("whatever call fails, the source is whole and the output is there or is not") {
  for (const bool in_place : {false, true})
    for (const bool can_link : {false, true})
      for (const test::Op op :
           {test::Op::kOpen, test::Op::kRead, test::Op::kList, test::Op::kCreate, test::Op::kWrite, test::Op::kAllocate, test::Op::kSync,
            test::Op::kSyncFolder, test::Op::kMakeFolder, test::Op::kRename, test::Op::kLink, test::Op::kRemoveFile, test::Op::kLock})
        for (uint64_t k = 0; k < 40; ++k) {
          Edited f;
          const Lines before = f.keys("/ckpt");
          f.io.can_link = can_link;
          EditRequest request = f.to(in_place ? "" : "/out");
          request.sync = true;
          const uint64_t begin = f.io.calls(op);
          f.io.fail_at(op, begin + k, ProblemId::io_write);
          bool failed = false;
          try {
            f.run(request);
          } catch (const Error&) {
            failed = true;
          }
          if (f.io.calls(op) <= begin + k) break;
          INFO("in place " << in_place << ", links " << can_link << ", call " << static_cast<int>(op) << " number " << k);
          CHECK(f.io.open_handles() == 0);
          const Lines after = f.keys("/ckpt");
          if (!in_place) CHECK(after == before);
          else CHECK((after == before || after[0] == "x." + before[0]));
          if (!in_place && !failed) CHECK(f.keys("/out").size() == 3);
          if (f.io.exists("/out")) CHECK(f.keys("/out").size() == 3);
          if (op == test::Op::kRemoveFile || op == test::Op::kSyncFolder) continue;
          for (const std::string& path : f.io.paths()) CHECK(path.find("dcpctl") == path.npos);
        }
}

TEST_CASE("a dry run of an edit meets a full disk") {
  for (const bool in_place : {false, true})
    for (const bool copies : {false, true}) {
      INFO("in place " << in_place << ", copies " << copies);
      Edited f;
      uint64_t used = 0;
      for (const std::string& path : f.io.paths()) used += f.io.text_of(path).size();
      EditRequest request = f.to(in_place ? "" : "/out");
      request.sharing = copies ? Sharing::kCopy : Sharing::kLink;
      request.dry_run = true;
      const uint64_t metadata = f.run(request).metadata_bytes;
      const auto fault = [&](uint64_t free) {
        f.io.capacity_bytes = used + free;
        return error_id([&] { f.run(request); });
      };
      CHECK(fault(metadata - 1) == "io_no_space");
      CHECK(fault(metadata) == (copies && !in_place ? "io_no_space" : ""));
      CHECK(fault(metadata + used) == "");
      CHECK_FALSE(f.io.exists("/out"));
    }
}

TEST_CASE("what metadata alone cannot do is refused") {
  Edited f;
  f.io.put("/model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  EditRequest request = f.to("/out");
  request.source.path = "/model.safetensors";
  CHECK(error_id([&] { f.run(request); }) == "metadata_not_enough");
  request.source.path = "/ckpt";
  request.out = "/ckpt/inside";
  CHECK(error_id([&] { f.run(request); }) == "output_in_source");
}
