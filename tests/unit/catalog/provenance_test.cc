// Who wrote a checkpoint and who can load it, by what its metadata holds.
#include "catalog/provenance.h"

#include <catch2/catch_test_macros.hpp>
#include <functional>

#include "catalog/build.h"
#include "catalog/made_checkpoint.h"

using namespace dcp;
using namespace dcp::test;

namespace {

Provenance provenance(const std::function<void(MetadataContent&)>& change, DType dtype = DType::float32) {
  MadeCheckpoint made;
  made.tensors = {{.key = "w", .dtype = dtype, .dims = {1}, .chunks = {whole_chunk({1})}}};
  MetadataContent content = made.content();
  content.properties_fields = 5;
  content.transforms.resize(1);
  change(content);
  return build_catalog(content, "ckpt", "ckpt").provenance;
}
// "written by; loads in"
std::string versions(const std::function<void(MetadataContent&)>& change, DType dtype = DType::float32) {
  const Provenance p = provenance(change, dtype);
  return p.written_by + "; " + p.loads_in;
}

}  // namespace

TEST_CASE("each release shows by what it began or stopped to write") {
  using C = MetadataContent;
  CHECK(versions([](C& c) { c.old_module_names = true; }) == "1.13; 1.13");
  CHECK(versions([](C& c) { c.old_properties_module = true; }) == "2.0 - 2.2; >=2.0");
  CHECK(versions([](C&) {}) == "2.3; >=2.3");
  CHECK(versions([](C& c) { c.has_storage_meta = true; }) == "2.4 - 2.6; >=2.4");
  CHECK(versions([](C& c) { c.has_storage_meta = c.has_storage_meta_modules = true; }) == "2.7 - 2.8; >=2.4");
  CHECK(versions([](C& c) { c.has_storage_meta = c.has_storage_meta_modules = c.has_version = true; }) == "2.9 - 2.14; >=2.4");
  CHECK(versions([](C& c) {
          c.properties_fields = 6;
          c.has_version = true;
        }) == ">=2.15; >=2.15");
  CHECK(versions([](C& c) {
          c.tensors.clear();
          c.chunks.clear();
          c.storage.clear();
          c.order.clear();
          c.properties_fields = 0;
        }) == "; >=2.0");  // no tensors: nothing shows
}

TEST_CASE("what else needs a newer torch: the newest need counts") {
  CHECK(versions([](MetadataContent&) {}, DType::uint16) == "2.3; >=2.5");
  CHECK(versions([](MetadataContent& c) { c.tensors[0].dtype_known = false; }, DType::uint16) == "2.3; >=2.3");
  const Provenance p = provenance([](MetadataContent& c) { c.transforms.push_back({"stream.zstd/1"}); }, DType::float4_e2m1fn_x2);
  CHECK(p.loads_in == ">=2.8");
  CHECK(p.why == std::vector<std::string>{"torch 2.8: dtype float4_e2m1fn_x2"});
}

TEST_CASE("what is no matter of torch's version") {
  const Provenance p = provenance([](MetadataContent& c) {
    c.version = "1.0.0";
    c.unknown_globals = {"my.Class"};
    c.extra_attributes = {"x: dict"};
    c.python313_path = true;
  });
  CHECK(p.format_version == "1.0.0");
  CHECK(p.extra_attributes == std::vector<std::string>{"x: dict"});
  CHECK(p.unknown_globals == std::vector<std::string>{"my.Class"});
  REQUIRE(p.why.size() == 3);
  CHECK(p.why[1] == "needs the Python class my.Class to be importable");
  CHECK(p.why[2].starts_with("a path object of Python 3.13"));
}
