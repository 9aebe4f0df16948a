// Who wrote a checkpoint and who can load it, by what its metadata holds.
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
  return build_catalog(content, "ckpt", "ckpt").catalog.provenance;
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

TEST_CASE("dcpctl's own form is no torch's, and what Python cannot load loads nowhere") {
  const auto form = [](bool unframed, bool version, bool storage_meta) {
    return provenance([=](MetadataContent& c) {
      c.unframed = unframed;
      c.has_version = version;
      c.has_storage_meta = storage_meta;
    });
  };
  CHECK(form(true, true, false).by_dcpctl);
  CHECK(form(true, true, false).written_by.empty());
  CHECK_FALSE(form(false, true, false).by_dcpctl);
  CHECK_FALSE(form(true, true, true).by_dcpctl);
  CHECK_FALSE(form(true, false, false).by_dcpctl);
  const Provenance p =
      provenance([](MetadataContent& c) { c.unloadable.push_back(make_problem(ProblemId::pickle_unloadable, {}, "text 'a'", "UTF-8")); });
  CHECK(p.loads_in == "none");
  CHECK(p.why == std::vector<std::string>{"torch cannot load the metadata: text 'a', expected UTF-8"});
}

TEST_CASE("what else needs a newer torch: the newest need counts") {
  CHECK(versions([](MetadataContent&) {}, DType::uint16) == "2.3; >=2.5");
  CHECK(versions([](MetadataContent& c) { c.tensors[0].dtype_known = false; }, DType::uint16) == "2.3; >=2.3");
  const Provenance p = provenance([](MetadataContent& c) { c.transforms.push_back({"stream.zstd/1"}); }, DType::float4_e2m1fn_x2);
  CHECK(p.loads_in == ">=2.8");
  CHECK(p.why ==
        std::vector<std::string>{"torch 2.8: dtype float4_e2m1fn_x2", "items are compressed: torch needs the Python package 'zstandard'"});
  CHECK(p.packages == std::vector<std::string>{"zstandard"});
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
  CHECK(p.why[1] == "needs the Python package 'my' (my.Class): without it no torch unpickles the metadata");
  CHECK(p.why[2].starts_with("a path object of Python 3.13"));
}

TEST_CASE("packages: what Python and torch bring is not named, and each package once") {
  const Provenance p = provenance([](MetadataContent& c) {
    c.unknown_globals = {"builtins.set",
                         "collections.OrderedDict",
                         "megatron.core.dist_checkpointing.A",
                         "megatron.core.dist_checkpointing.B",
                         "numpy.dtype",
                         "torch.device"};
  });
  CHECK(p.packages == std::vector<std::string>{"megatron", "numpy"});
  REQUIRE(p.why.size() == 3);
  CHECK(p.why[1] == "needs the Python package 'megatron' (megatron.core.dist_checkpointing.A): without it no torch unpickles the metadata");
}

TEST_CASE("quantized tensors load in no torch") {
  const Provenance p = provenance([](MetadataContent&) {}, DType::qint8);
  CHECK(p.loads_in == ">=2.3");
  CHECK(p.why.back() == "quantized tensors get the scale of what dcp.load loads into; torch.load of their items gives them their own");
}

TEST_CASE("a dtype that is not known is said, once") {
  const Provenance p = provenance([](MetadataContent& c) {
    c.tensors[0].dtype_known = false;
    c.tensors[0].dtype_name = "float3";
  });
  CHECK(p.loads_in == ">=2.3");
  CHECK(p.why.back() == "dtype float3, which this dcpctl does not know: older torch may not either");
}

namespace {

// What rules out torch 2.3, for a checkpoint with these objects beside the tensor model.w.
std::vector<std::string> why_with(std::vector<MadeBlob> blobs, bool planner_data = true) {
  MadeCheckpoint made;
  made.planner_data = planner_data;
  made.tensors = {{.key = "model.w", .dtype = DType::float32, .dims = {1}, .chunks = {whole_chunk({1})}, .path = {"model", "w"}}};
  made.blobs = std::move(blobs);
  MetadataContent content = made.content();
  content.transforms.resize(1);
  content.old_properties_module = true;
  return build_catalog(content, "ckpt", "ckpt").catalog.provenance.why;
}
std::string flattened(const std::string& path) {
  return "torch 2.4: the dict '" + path + "' of plain values is saved item by item: older torch looks for it as one item";
}

}  // namespace

TEST_CASE("a dict of plain values that was saved item by item needs torch 2.4") {
  using Why = std::vector<std::string>;
  CHECK(why_with({{.key = "sched.last", .pickle = "", .path = {"sched", "last"}}}) == Why{flattened("sched")});
  CHECK(why_with({{.key = "optim.groups.0.lr", .pickle = "", .path = {"optim", "groups", "#0", "lr"}}}) == Why{flattened("optim")});
  CHECK(why_with({{.key = "a.b.c", .pickle = "", .path = {"a", "b", "c"}}}) == Why{flattened("a")});
  CHECK(why_with({{.key = "sched", .pickle = "", .path = {"sched"}}}).empty());               // one item, as torch 2.3 saves it
  CHECK(why_with({{.key = "model.step", .pickle = "", .path = {"model", "step"}}}).empty());  // beside a tensor
  CHECK(why_with({{.key = "l.0", .pickle = "", .path = {"l", "#0"}}}).empty());               // of a list: the same rule in all versions
  CHECK(why_with({{.key = "sched.last", .pickle = ""}}, false).empty());                      // no planner data: nothing shows
}

TEST_CASE("rank-local metadata needs torch 2.9 and as many ranks") {
  MadeCheckpoint made;
  made.tensors = {{.key = "w", .dtype = DType::float32, .dims = {1}, .chunks = {whole_chunk({1})}}};
  MetadataContent content = made.content();
  content.transforms.resize(1);
  const Provenance p = build_catalog(content, "ckpt", "ckpt", CheckpointKind::kDcpRankLocal).catalog.provenance;
  CHECK(p.loads_in == ">=2.9");
  CHECK(p.why == std::vector<std::string>{"torch 2.9: rank-local metadata (__R.metadata), which older torch does not look for",
                                          "rank-local: torch loads it on as many ranks as wrote it"});
}
