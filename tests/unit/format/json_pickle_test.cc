// JSON as Python's json.load reads it: the expected bytes are those of pickle.dumps, without memo and frames.
#include "format/json_pickle.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"

using namespace dcp;
using namespace dcp::test;
using namespace std::literals;

namespace {

std::string pickle_for(std::string_view json) { return pickle_of_json(json, {.path = "c.json"}, {}, ProblemId::not_checkpoint); }
// Of one value: what is between PROTO and STOP.
std::string value(std::string_view json) {
  const std::string pickle = pickle_for(json);
  return pickle.substr(2, pickle.size() - 3);
}
std::string refused(std::string_view json) {
  return error_line([&] { pickle_for(json); });
}

}  // namespace

TEST_CASE("numbers that Python reads from JSON, and JSON has not") {
  CHECK(value("Infinity") == "G\x7F\xF0\0\0\0\0\0\0"s);
  CHECK(value("-Infinity") == "G\xFF\xF0\0\0\0\0\0\0"s);
  CHECK(value("[NaN]") == "]G\x7F\xF8\0\0\0\0\0\0a"s);
  CHECK(value("1e400") == value("Infinity"));
  CHECK(value("-0") == "K\0"s);
  CHECK(value("0.1") == "G\x3F\xB9\x99\x99\x99\x99\x99\x9A"s);
}

TEST_CASE("integers of any size") {
  CHECK(value("9223372036854775807") == "\x8A\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"s);
  CHECK(value("9223372036854775808") == "\x8A\x09\0\0\0\0\0\0\0\x80\0"s);
  CHECK(value("-9223372036854775809") == "\x8A\x09\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\xFF"s);
  CHECK(value("1180591620717411303424") == "\x8A\x09\0\0\0\0\0\0\0\0\x40"s);
  CHECK(value("-39614081257132168796771975168") == "\x8A\x0C\0\0\0\0\0\0\0\0\0\0\0\x80"s);  // -2^95
  CHECK(value("1" + std::string(4299, '0')).starts_with("\x8B\xFA\x06\0\0"s));
  CHECK(refused("1" + std::string(4300, '0')) == "c.json @ 0x0: is not a checkpoint: an integer of more than 4300 digits");
}

TEST_CASE("text with halves of surrogate pairs") {
  CHECK(value(R"("a\udcff")") == "\x8C\x04"
                                 "a\xED\xB3\xBF"s);
  CHECK(value(R"("\ud83d\ude00")") == "\x8C\x04\xF0\x9F\x98\x80"s);
  CHECK(value(R"("\ud83d\u0041")") == "\x8C\x04\xED\xA0\xBD"
                                      "A"s);
  CHECK(value(R"("\"\\\/\b\f\n\r\t\u00e9")") == "\x8C\x0A\"\\/\b\f\n\r\t\xC3\xA9"s);
}

TEST_CASE("objects and lists") {
  CHECK(value(R"( {"a" : [1, null] , "b":{}} )") == "}\x8C\x01"
                                                    "a]K\x01"
                                                    "aNas\x8C\x01"
                                                    "b}s"s);
  CHECK(value("[]") == "]");
  CHECK(value("[true, false]") == "]\x88"
                                  "a\x89"
                                  "a");
}

TEST_CASE("what is no JSON") {
  for (const char* json : {"",        "[",           "[1,]",     "[,1]", "[1 2]", "{\"a\"}", "{\"a\":1,}",    "{1:2}",
                           "01",      "1.",          ".5",       "+1",   "-",     "nul",     "\"a",           "\"\n\"",
                           "\"\\x\"", "\"\\u12g4\"", "\"\\u123", "1 2",  "'a'",   "inf",     "\xEF\xBB\xBF{}"}) {
    INFO(json);
    CHECK(refused(json).ends_with(": no JSON"));
  }
  CHECK(refused("\"\xC3\"") == "c.json @ 0x1: is not a checkpoint: text that is not UTF-8");
  CHECK(refused(R"({"a": 1, "a": 2})") == "c.json: is not a checkpoint: the key 'a' twice");
  CHECK(pickle_for(std::string(1000, '[') + std::string(1000, ']')).size() == 2 + 1000 + 999 + 1);
  CHECK(refused(std::string(1001, '[')).ends_with("(got JSON nested 1001 deep, expected at most 1000)"));
}
