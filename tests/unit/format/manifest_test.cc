// Manifests: written and read back, read strictly, compared.
#include "format/manifest.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"

using namespace dcp;
using namespace dcp::test;

namespace {

const Place kPlace{.path = "m.json"};

Manifest sample() {
  Manifest m;
  m.tensors["w"] = {.dtype = "float32", .shape = {2, 3}, .crc64 = 0x0123456789abcdef};
  m.tensors["a \"quoted\"\n\u00e9 name"] = {.dtype = "int64", .shape = {}, .crc64 = 0};
  m.objects.emplace()["step"] = {.bytes = 17, .crc64 = 0xffffffffffffffff};
  m.files["__0_0.distcp"] = {.bytes = 4671, .xxh3_128 = "99aa06d3014798d86001c324468d497f"};
  return m;
}

Manifest manifest(std::string_view json) { return read_manifest(json, kPlace, Limits{}); }

std::string with_tensor(const std::string& members) { return R"({"schema": "dcpctl.manifest/1", "tensors": {"w": {)" + members + "}}}"; }

std::vector<std::string> compared(const Manifest& expected, const Manifest& found, Subset subset = Subset::kNo, uint64_t objects_here = 0) {
  std::vector<std::string> lines;
  for (const Problem& p : compare_manifests(expected, found, {.path = "ckpt"}, {.subset = subset, .objects_here = objects_here}).findings)
    lines.push_back((p.severity == Severity::kNote ? "note " : "damage ") + to_line(p));
  return lines;
}
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("what is written is read back") {
  const std::string text = write_manifest(sample(), kPlace);
  CHECK(text.starts_with("{\n \"schema\": \"dcpctl.manifest/1\",\n \"files\": {"));
  CHECK(manifest(text) == sample());
  CHECK(manifest(write_manifest({}, kPlace)) == Manifest{});
}

TEST_CASE("the text is fixed") {
  Manifest m;
  m.tensors["w"] = {.dtype = "float32", .shape = {2, 3}, .crc64 = 0xabc};
  CHECK(write_manifest(m, kPlace) == R"({
 "schema": "dcpctl.manifest/1",
 "files": {},
 "tensors": {
  "w": {
   "crc64": "0000000000000abc",
   "dtype": "float32",
   "shape": [
    2,
    3
   ]
  }
 }
}
)");
  m = {};
  m.objects.emplace();
  CHECK(write_manifest(m, kPlace).find("\"objects\": {},\n") != std::string::npos);
  CHECK(manifest(write_manifest(m, kPlace)) == m);
}

TEST_CASE("a name that JSON cannot hold is refused") {
  Manifest m;
  m.objects.emplace()["\xff"] = {};
  CHECK(error_id([&] { write_manifest(m, kPlace); }) == "manifest_bad_name");
}

TEST_CASE("members that are not known are passed over") {
  const Manifest m = manifest(
      R"({"later": [1, {"a": {}}], "schema": "dcpctl.manifest/1", "tensors": {"w": {"dtype": "int8", "shape": [], "crc64": "0000000000000001",
    "more": {"shape": [1.5]}}}})");
  CHECK(m.tensors.at("w") == Manifest::Tensor{.dtype = "int8", .shape = {}, .crc64 = 1});
}

TEST_CASE("what is no manifest is refused") {
  const std::string good = R"("dtype": "int8", "shape": [2], "crc64": "0000000000000001")";
  REQUIRE_NOTHROW(manifest(with_tensor(good)));
  const auto id = [](const std::string& json) { return error_id([&] { manifest(json); }); };
  for (const char* json :
       {"", "[]", "{", "{}", "null", R"({"schema": "dcpctl.manifest/2"})", R"({"schema": 1})",
        R"({"schema": "dcpctl.manifest/1", "tensors": []})", R"({"schema": "dcpctl.manifest/1", "tensors": {"w": 3}})",
        R"({"schema": "dcpctl.manifest/1"} x)", R"({"schema": "dcpctl.manifest/1", "files": {"f": {"bytes": 3, "xxh3_128": "00"}}})",
        R"({"schema": "dcpctl.manifest/1", "objects": {"o": {"bytes": -3, "crc64": "0000000000000001"}}})"}) {
    CAPTURE(json);
    CHECK(id(json) == "manifest_bad");
  }
  for (const char* members :
       {"", R"("dtype": "int8", "shape": [2])", R"("dtype": 8, "shape": [2], "crc64": "0000000000000001")",
        R"("dtype": "int8", "shape": 2, "crc64": "0000000000000001")", R"("dtype": "int8", "shape": [-2], "crc64": "0000000000000001")",
        R"("dtype": "int8", "shape": ["2"], "crc64": "0000000000000001")", R"("dtype": "int8", "shape": [2], "crc64": "1")",
        R"("dtype": "int8", "shape": [2], "crc64": "000000000000000G")",
        R"("dtype": "int8", "dtype": "int8", "shape": [2], "crc64": "0000000000000001")"}) {
    CAPTURE(members);
    CHECK(id(with_tensor(members)) == "manifest_bad");
  }
  const std::string two = R"({"schema": "dcpctl.manifest/1", "tensors": {"w": {)" + good + R"(}, "w": {)" + good + "}}}";
  CHECK(id(two) == "manifest_bad");
  std::string many = R"("dtype": "int8", "crc64": "0000000000000001", "shape": [1)";
  for (int d = 0; d < 64; ++d) many += ", 1";
  CHECK(id(with_tensor(many + "]")) == "over_limit");
  std::string deep;
  for (int d = 0; d < 70; ++d) deep += "[";
  CHECK(id(R"({"schema": "dcpctl.manifest/1", "x": )" + deep) == "over_limit");
}

TEST_CASE("equal manifests have no differences") {
  const ManifestComparison c = compare_manifests(sample(), sample(), {.path = "ckpt"});
  CHECK(c.findings.empty());
  CHECK(c.keys == 3);
  CHECK(c.files == 1);
}

TEST_CASE("differences are named with both sides") {
  Manifest m = sample();
  m.tensors["w"].crc64 = 1;
  CHECK(compared(sample(), m) == Lines{"damage ckpt: tensor 'w': is not what the manifest says (got float32 [2, 3] with CRC-64 "
                                       "0000000000000001, expected float32 [2, 3] with CRC-64 0123456789abcdef)"});
  m = sample();
  m.tensors["w"].shape = {3, 2};
  CHECK(compared(sample(), m).size() == 1);
  m.tensors["w"].shape = {2, 3};
  m.tensors["w"].dtype = "int32";
  CHECK(compared(sample(), m).size() == 1);
  m = sample();
  m.objects->at("step").bytes = 18;
  CHECK(compared(sample(), m).size() == 1);
  m = sample();
  m.files["__0_0.distcp"].xxh3_128[0] = '0';
  CHECK(compared(sample(), m) == Lines{"damage ckpt/__0_0.distcp: the file is not the one in the manifest (got XXH3-128 "
                                       "09aa06d3014798d86001c324468d497f, expected 99aa06d3014798d86001c324468d497f)"});
}

TEST_CASE("keys that are missing or too many") {
  Manifest fewer = sample();
  fewer.tensors.erase("w");
  CHECK(compared(sample(), fewer) ==
        Lines{"damage ckpt: tensor 'w': is in the manifest but not here (expected float32 [2, 3] with CRC-64 0123456789abcdef)"});
  CHECK(compared(sample(), fewer, Subset::kYes) == Lines{"note ckpt: is in the manifest but not here (got w)"});
  CHECK(compared(fewer, sample()) ==
        Lines{"damage ckpt: tensor 'w': is not in the manifest (got float32 [2, 3] with CRC-64 0123456789abcdef)"});
  CHECK(compared(fewer, sample(), Subset::kYes).size() == 1);
}

TEST_CASE("objects that have no bytes of their own are left out on both sides") {
  Manifest tensors = sample();
  tensors.objects.reset();
  tensors.files.clear();
  const std::string what = "note ckpt: objects can be compared only between DCP folders (got ";
  CHECK(compared(sample(), tensors, Subset::kNo, 1) == Lines{what + "1 object here, 1 in the manifest)"});
  CHECK(compared(tensors, sample()) == Lines{what + "1 object here, 0 in the manifest)"});
  CHECK(compared(tensors, tensors, Subset::kNo, 2) == Lines{what + "2 objects here, 0 in the manifest)"});
  CHECK(compared(tensors, tensors).empty());
}

TEST_CASE("other files are not compared") {
  Manifest m = sample();
  m.files["__0_0.distcp"] = {.bytes = 4672, .xxh3_128 = std::string(32, '0')};
  CHECK(compared(sample(), m) == Lines{"note ckpt: its files differ from the manifest's in names or sizes: only keys are compared"});
  m.files.clear();
  CHECK(compared(sample(), m).empty());
}
