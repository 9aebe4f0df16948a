#include "base/json.h"

#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <nlohmann/json.hpp>

namespace dcp {
namespace {

template <class Fill>
std::string written(unsigned indent, Fill fill) {
  std::string out;
  JsonWriter json([&](std::string_view block) { out += block; }, indent);
  fill(json);
  json.finish();
  return out;
}

std::string as_json(std::string_view text) {
  return written(0, [&](JsonWriter& json) { json.value(text); });
}

void fill_all(JsonWriter& json) {
  json.begin_object().member("a", 1).key("list").begin_array().value("x").value(true).null().end_array();
  json.key("none").begin_array().end_array().key("o").begin_object().end_object();
  json.key("deep").begin_object().member("b", std::string("c")).end_object().end_object();
}

TEST_CASE("one line") {
  CHECK(written(0, fill_all) == R"({"a":1,"list":["x",true,null],"none":[],"o":{},"deep":{"b":"c"}})"
                                "\n");
}

TEST_CASE("indented") {
  CHECK(written(2, fill_all) == R"({
  "a": 1,
  "list": [
    "x",
    true,
    null
  ],
  "none": [],
  "o": {},
  "deep": {
    "b": "c"
  }
}
)");
}

TEST_CASE("numbers") {
  const std::string text = written(0, [](JsonWriter& json) {
    json.begin_array().value(std::numeric_limits<uint64_t>::max()).value(std::numeric_limits<int64_t>::min()).value(uint32_t{7});
    json.value(0.1).value(1e300).value(-0.0).value(1.0);
    json.value(std::numeric_limits<double>::infinity()).value(std::numeric_limits<double>::quiet_NaN()).end_array();
  });
  CHECK(text == "[18446744073709551615,-9223372036854775808,7,0.1,1e+300,-0,1,null,null]\n");
}

TEST_CASE("text is escaped where JSON or a terminal needs it") {
  CHECK(as_json("q\" b\\ n\n t\t e\x1b d\x7f") == "\"q\\\" b\\\\ n\\n t\\u0009 e\\u001b d\\u007f\"\n");
  CHECK(as_json("\xC2\x9B \xE2\x80\xAE") == "\"\\u009b \\u202e\"\n");
  CHECK(as_json("\xC3\xBC \xF0\x9F\x94\xA5") == "\"\xC3\xBC \xF0\x9F\x94\xA5\"\n");
}

TEST_CASE("each byte that is not UTF-8 becomes U+FFFD") { CHECK(as_json("a\xff\xC3") == "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"\n"); }

TEST_CASE("every code point below U+3000 comes back from a JSON reader") {
  std::string text;
  for (unsigned c = 0; c < 0x3000; ++c) {
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += {static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))};
    } else {
      text += {static_cast<char>(0xE0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 63)), static_cast<char>(0x80 | (c & 63))};
    }
  }
  CHECK(nlohmann::json::parse(as_json(text)).get<std::string>() == text);
}

TEST_CASE("output leaves in blocks, the last with finish") {
  size_t blocks = 0;
  size_t largest = 0;
  JsonWriter json([&](std::string_view block) {
    ++blocks;
    largest = std::max(largest, block.size());
  });
  json.begin_array();
  for (int i = 0; i < 100'000; ++i) json.value(i);
  CHECK(blocks >= 5);
  CHECK(largest < 100'000);
  const size_t before = blocks;
  json.end_array().finish();
  CHECK(blocks == before + 1);
}

}  // namespace
}  // namespace dcp
