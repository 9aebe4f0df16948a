#include "format/safetensors.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "format/items.h"

using namespace dcp;
using namespace dcp::test;

namespace {

SafetensorsHeader header_of(const std::string& file) {
  return read_safetensors_header(as_bytes(file), file.size(), Place{.path = "x"}, Limits{});
}
// Of the file, or of its first entry that cannot be read.
std::string refusal(const std::string& file) {
  return error_of([&] {
    for (const SafetensorsEntry& e : header_of(file).entries)
      if (e.fault) throw Error(*e.fault);
  });
}
// A file of this JSON and so many bytes of tensors.
std::string file_of(const std::string& json, size_t tensor_bytes = 0) {
  std::string out;
  put_le(out, json.size(), 8);
  return out + json + std::string(tensor_bytes, 't');
}
std::string json_error(const std::string& json, size_t tensor_bytes = 0) { return refusal(file_of(json, tensor_bytes)); }
std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& range) {
  return std::string("\"") + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + range + "}";
}
std::string one(const std::string& dtype, const std::string& shape, const std::string& range) {
  return std::string("{") + tensor("a", dtype, shape, range) + "}";
}
std::string writing(SafetensorsEntry entry) {
  std::vector<SafetensorsEntry> entries = {std::move(entry)};
  return error_of([&] { write_safetensors_header(entries, {}); });
}

}  // namespace

TEST_CASE("a header of the reference library is read and written again byte for byte") {
  const std::string file = real_file("mixed.safetensors");
  const SafetensorsHeader header = header_of(file);
  REQUIRE(header.entries.size() == 29);
  CHECK(header.metadata == std::map<std::string, std::string>{{"format", "pt"}});
  std::vector<SafetensorsEntry> entries = header.entries;
  for (size_t i = 1; i < entries.size(); ++i) {
    CHECK(safetensors_before(entries[i - 1].dtype, entries[i - 1].name, entries[i].dtype, entries[i].name));
  }
  const std::string again = write_safetensors_header(entries, header.metadata);
  CHECK(again == file.substr(0, again.size()));
  for (size_t i = 0; i < entries.size(); ++i) {
    CHECK(entries[i].offset == header.entries[i].offset);
    CHECK(entries[i].bytes == header.entries[i].bytes);
  }
}

TEST_CASE("fp4 counts values in the file and pairs here") {
  const std::string file = file_of(one("F4", "[2,6]", "[0,6]"), 6);
  CHECK(header_of(file).entries[0].shape == std::vector<int64_t>{2, 3});
  CHECK(
      json_error(one("F4", "[2,3]", "[0,3]"), 3) ==
      "safetensors_bad_range: x: tensor 'a': a tensor's byte range does not match its shape (got an odd number of values in the last dim, "
      "expected pairs)");
  CHECK(json_error(one("F4", "[]", "[0,1]"), 1).starts_with("safetensors_bad_range: "));
  CHECK(writing({.name = "a", .dtype = DType::float4_e2m1fn_x2, .shape = {}}) ==
        "safetensors_no_dtype: tensor 'a': safetensors cannot represent this tensor: a 0-dim float4_e2m1fn_x2");
}

TEST_CASE("files without tensors") {
  CHECK(header_of(file_of("{}")).entries.empty());
  std::vector<SafetensorsEntry> none;
  CHECK(write_safetensors_header(none, {}) == std::string("\x8\0\0\0\0\0\0\0{}      ", 16));
  CHECK(write_safetensors_header(none, {{"a", "b"}}).substr(8) == "{\"__metadata__\":{\"a\":\"b\"}}      ");
}

TEST_CASE("what cannot be written") {
  CHECK(writing({.name = "a", .dtype = DType::complex128, .shape = {2}}) ==
        "safetensors_no_dtype: tensor 'a': safetensors cannot represent this tensor: complex128");
  CHECK(writing({.name = "__metadata__", .dtype = DType::int8, .shape = {2}}) ==
        "safetensors_bad_name: tensor '__metadata__': safetensors cannot hold this name: the header's own name");
  CHECK(writing({.name = "a\xFF", .dtype = DType::int8, .shape = {2}}) ==
        "safetensors_bad_name: tensor 'a\\xff': safetensors cannot hold this name: text that is not UTF-8");
  CHECK(writing({.name = "a", .dtype = DType::int64, .shape = {int64_t{1} << 62}}).starts_with("number_overflow: tensor 'a': "));
}

TEST_CASE("lengths of headers") {
  CHECK(refusal("1234567") == "safetensors_bad_length: x: the header's length is impossible: 7 bytes in all");
  std::string longer = file_of("{}");
  patch(longer, 0, "\x3");
  CHECK(refusal(longer) == "safetensors_bad_length: x: the header's length is impossible (got 3, expected at most 2)");
  patch(longer, 0, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
  CHECK(refusal(longer).starts_with("safetensors_bad_length: x: "));
  const std::string fine = file_of("{}");
  CHECK(error_of([&] { read_safetensors_header(as_bytes(fine), 10, Place{.path = "x"}, Limits{.json_bytes = 1}); }) ==
        "over_limit: x: a number in the file is over the limit (got 2 bytes of JSON, expected at most 1)");
}

TEST_CASE("JSON that is none") {
  const std::string wrong = "the header is not valid JSON";
  CHECK(json_error("") == "safetensors_bad_json: x @ 0x8: " + wrong);
  CHECK(json_error("[]") == "safetensors_bad_json: x @ 0x8: " + wrong);
  CHECK(json_error("\xEF\xBB\xBF{}") == "safetensors_bad_json: x @ 0x8: " + wrong);
  CHECK(json_error("{} x") == "safetensors_bad_json: x @ 0xb: " + wrong);
  CHECK(json_error(std::string("{}\0x", 4)) == "safetensors_bad_json: x @ 0x8: " + wrong);
  CHECK(json_error("{\"a\xFF\":1}").starts_with("safetensors_bad_json: x @ "));
  CHECK(json_error("{\"a\":").starts_with("safetensors_bad_json: x @ "));
}

TEST_CASE("JSON that describes no tensors") {
  const std::string wrong = "the header does not describe tensors";
  const std::string instead = " in the place of a tensor's description";
  CHECK(json_error("{\"a\":1}") == "safetensors_bad_header: x: tensor 'a': " + wrong + ": a value" + instead);
  CHECK(json_error("{\"a\":null}") == "safetensors_bad_header: x: tensor 'a': " + wrong + ": a value" + instead);
  CHECK(json_error("{\"a\":[1,[{}],\"dtype\"]}") == "safetensors_bad_header: x: tensor 'a': " + wrong + ": an array" + instead);
  CHECK(json_error("{\"a\":{\"data_offsets\":[0,1]}}", 1) == "safetensors_bad_header: x: tensor 'a': " + wrong + ": no dtype");
  CHECK(json_error("{\"a\":{\"dtype\":\"U8\"}}") == "safetensors_bad_header: x: tensor 'a': " + wrong + ": no shape");
  CHECK(json_error("{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}") == "safetensors_bad_header: x: tensor 'a': " + wrong + ": no data_offsets");
  CHECK(json_error("{\"a\":{\"dtype\":1}}") == "safetensors_bad_header: x: tensor 'a': " + wrong + ": a value at 'dtype'");
  CHECK(json_error(one("U8", "[-1]", "[0,1]")).ends_with(": a value at 'shape'"));
  CHECK(json_error(one("U8", "[1.0]", "[0,1]")).ends_with(": a value at 'shape'"));
  CHECK(json_error(one("U8", "[18446744073709551616]", "[0,1]")).ends_with(": a value at 'shape'"));
  CHECK(json_error(one("U8", "[[1]]", "[0,1]")).ends_with(": a nested value at 'shape'"));
  CHECK(json_error("{\"__metadata__\":{\"a\":1}}") == "safetensors_bad_header: x: " + wrong + ": a value at 'a'");
  CHECK(json_error("{\"__metadata__\":{\"a\":{}}}") == "safetensors_bad_header: x: " + wrong + ": a nested value at 'a'");
  CHECK(json_error("{\"__metadata__\":3}") == "safetensors_bad_header: x: " + wrong + ": a value at '__metadata__'");
  CHECK(json_error(one("F6_E2M3", "[4]", "[0,3]"), 3) ==
        "safetensors_unknown_dtype: x: tensor 'a': the header names an unknown element type: F6_E2M3");
}

TEST_CASE("an entry that cannot be read leaves the others as they are") {
  const std::string b = tensor("b", "U8", "[2]", "[0,2]"), empty = "\"a\":{\"shape\":[],\"dtype\":\"\",\"data_offsets\":[2,2]}";
  for (const std::string& odd : {empty, std::string("\"a\":{}"), tensor("a", "F9", "[3]", "[2,3]"), tensor("a", "U8", "[3]", "[0,2]"),
                                 tensor("a", "U8", "[-1]", "[0,3]")}) {
    const SafetensorsHeader header = header_of(file_of("{" + odd + "," + b + "}", 3));
    REQUIRE(header.entries.size() == 2);
    const auto is_odd = [](const SafetensorsEntry& e) { return e.fault != nullptr; };
    CHECK(std::ranges::count_if(header.entries, is_odd) == 1);
    const SafetensorsEntry& read = header.entries[header.entries[0].name == "b" ? 0 : 1];
    CHECK((read.bytes == 2 && !read.fault));
  }
  CHECK(json_error("{" + empty + "," + b + "}", 2).starts_with("safetensors_no_data: x: tensor 'a': "));
  // The others still lie apart from each other.
  CHECK(json_error("{" + empty + "," + b + "," + tensor("c", "U8", "[2]", "[1,3]") + "}", 3).starts_with("safetensors_hole: "));
}

TEST_CASE("other members are ignored, whatever they hold") {
  const std::string extra =
      "{\"a\":{\"x\":[1,{\"dtype\":2}],\"dtype\":\"U8\",\"y\":null,\"shape\":[2],\"data_offsets\":[0,2],\"z\":{\"shape\":[[-1]],\"dtype\":"
      "0}}}";
  CHECK(header_of(file_of(extra, 2)).entries[0].shape == std::vector<int64_t>{2});
}

TEST_CASE("names given twice") {
  const std::string a = tensor("a", "U8", "[0]", "[0,0]");
  CHECK(json_error(std::string("{") + a + "," + a + "}") == "safetensors_duplicate: x: the header names something twice: a");
  CHECK(json_error("{\"__metadata__\":{},\"__metadata__\":{}}") ==
        "safetensors_duplicate: x: the header names something twice: __metadata__");
  CHECK(json_error("{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}") == "safetensors_duplicate: x: the header names something twice: k");
  CHECK(json_error("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}") ==
        "safetensors_duplicate: x: tensor 'a': the header names something twice: dtype");
  CHECK(json_error("{\"a\":{\"shape\":[1],\"shape\":[1]}}") ==
        "safetensors_duplicate: x: tensor 'a': the header names something twice: shape");
}

TEST_CASE("ranges") {
  const std::string wrong = "safetensors_bad_range: x: tensor 'a': a tensor's byte range does not match its shape";
  CHECK(json_error(one("F32", "[2]", "[0,4]"), 4) == wrong + " (got data_offsets [0, 4], expected 8 bytes)");
  CHECK(json_error(one("F32", "[2]", "[8,0]"), 8) == wrong + " (got data_offsets [8, 0], expected 8 bytes)");
  CHECK(json_error(one("F32", "[2]", "[8]"), 8) == wrong + " (got data_offsets [8], expected 8 bytes)");
  const std::string hole = "the tensors' bytes are not contiguous up to the end of the file ";
  CHECK(json_error(one("U8", "[2]", "[1,3]"), 3) == "safetensors_hole: x @ 0x3e: tensor 'a': " + hole + "(got a start at 62, expected 61)");
  CHECK(json_error(one("U8", "[2]", "[0,2]"), 3) == "safetensors_hole: x: " + hole + "(got a file of 64 bytes, expected 63)");
  CHECK(header_of(file_of(one("U8", "[2]", "[0,2]"), 1)).entries.at(0).bytes == 2);  // cut short
  CHECK(json_error(std::string("{") + tensor("a", "U8", "[2]", "[0,2]") + "," + tensor("b", "U8", "[2]", "[1,3]") + "}", 3)
            .starts_with("safetensors_hole: "));
  CHECK(json_error(one("U8", "[9223372036854775808]", "[0,1]"), 1).starts_with("number_overflow: x: tensor 'a': "));
  CHECK(json_error(one("U8", "[9223372036854775807,3]", "[0,1]"), 1).starts_with("number_overflow: x: tensor 'a': "));
  CHECK(json_error(one("U8", "[1]", "[18446744073709551614,18446744073709551615]"), 1).starts_with("number_overflow: x: tensor 'a': "));
}

TEST_CASE("nesting and ranks are capped") {
  CHECK(json_error("{\"a\":{\"x\":" + std::string(70, '[')).ends_with("(got JSON nested 65 deep, expected at most 64)"));
  std::string dims = "1";
  for (int i = 0; i < 64; ++i) dims += ",1";
  CHECK(json_error(one("U8", std::string("[") + dims + "]", "[0,1]"), 1).ends_with("(got 65 numbers, expected at most 64)"));
}

TEST_CASE("every truncation and every flipped byte of a header ends in an answer or an Error") {
  const std::string file = real_file("mixed.safetensors");
  const size_t header = header_of(file).entries.front().offset;
  for (size_t n = 0; n < file.size(); ++n) CHECK((refusal(file.substr(0, n)) == "") == (n >= header));
  for (size_t i = 0; i < file.size(); ++i) {
    std::string copy = file;
    copy[i] = static_cast<char>(copy[i] ^ 1);
    refusal(copy);
  }
}

TEST_CASE("the index is what transformers writes") {
  CHECK(write_hf_index(0, {}) == "{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n  \"weight_map\": {}\n}\n");
  CHECK(
      write_hf_index(123, {{"\xC3\xA9", "f1"}, {"\xF0\x9D\x84\x9E", "b"}, {"a\"\\\n\x01\x7F", "f2"}, {"Z", "x"}, {"\xEE\x80\x80", "y"}}) ==
      "{\n  \"metadata\": {\n    \"total_size\": 123\n  },\n  \"weight_map\": {\n    \"Z\": \"x\",\n    \"a\\\"\\\\\\n\\u0001\\u007f\": "
      "\"f2\",\n"
      "    \"\\u00e9\": \"f1\",\n    \"\\ue000\": \"y\",\n    \"\\ud834\\udd1e\": \"b\"\n  }\n}\n");
  CHECK(error_of([] { write_hf_index(1, {{"\xFF", "f"}}); }) ==
        "safetensors_bad_name: tensor '\\xff': safetensors cannot hold this name: text that is not UTF-8");
}
