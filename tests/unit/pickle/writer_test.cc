#include "pickle/writer.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>

#include "pickle/graph.h"

namespace dcp {
namespace {

std::string written(PickleProtocol protocol, const std::function<void(PickleWriter&)>& fn) {
  std::string out;
  PickleWriter writer(out, protocol);
  fn(writer);
  return out;
}

TEST_CASE("integers take the shortest form") {
  const auto integer = [](int64_t n) { return written(PickleProtocol::k2, [&](PickleWriter& w) { w.integer(n); }); };
  CHECK(integer(0) == std::string("K\0", 2));
  CHECK(integer(255) == "K\xff");
  CHECK(integer(256) == std::string("M\0\x01", 3));
  CHECK(integer(65536) == std::string("J\0\0\x01\0", 5));
  CHECK(integer(-1) == "J\xff\xff\xff\xff");
  CHECK(integer(int64_t{1} << 31) == std::string("\x8a\x05\0\0\0\x80\0", 7));
  CHECK(integer(-(int64_t{1} << 31) - 1) == "\x8a\x05\xff\xff\xff\x7f\xff");
  CHECK(integer(INT64_MAX) == "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f");
  CHECK(integer(INT64_MIN) == std::string("\x8a\x08\0\0\0\0\0\0\0\x80", 10));
}

TEST_CASE("integers and floats come back") {
  for (const int64_t n : {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{65535}, int64_t{65536}, int64_t{-1}, int64_t{INT32_MAX},
                          int64_t{INT32_MAX} + 1, int64_t{INT32_MIN} - 1, int64_t{1} << 39, (int64_t{1} << 39) - 1, INT64_MAX, INT64_MIN}) {
    const std::string pickle = written(PickleProtocol::k2, [&](PickleWriter& w) {
      w.begin();
      w.integer(n);
      w.end();
    });
    const PickleGraph graph(as_bytes(pickle), Place{}, Limits{});
    CHECK(graph.root().integer() == n);
  }
  const std::string pickle = written(PickleProtocol::k2, [](PickleWriter& w) {
    w.real(-0.1);
    w.end();
  });
  const PickleGraph graph(as_bytes(pickle), Place{}, Limits{});
  CHECK(graph.repr(graph.root()) == "-0.1");
}

TEST_CASE("texts and globals by protocol") {
  const auto fn = [](PickleWriter& w) {
    w.begin();
    w.text("ab");
    w.global("m", "C");
    w.tuple(0);
    w.op(Op::REDUCE);
    w.put();
    w.get(0);
    w.tuple(3);
    w.end();
  };
  CHECK(written(PickleProtocol::k2, fn) == std::string("\x80\x02X\x02\0\0\0ab", 9) + "cm\nC\n)R" + std::string("q\0h\0\x87.", 6));
  CHECK(written(PickleProtocol::k4, fn) == "\x80\x04\x8c\x02"
                                           "ab\x8c\x01m\x8c\x01"
                                           "C\x93)R\x94" +
                                               std::string("h\0\x87.", 4));
  const std::string long_text(300, 'x');
  CHECK(written(PickleProtocol::k4, [&](PickleWriter& w) { w.text(long_text); }) == std::string("X\x2c\x01\0\0", 5) + long_text);
}

TEST_CASE("memo slots above 255") {
  const std::string out = written(PickleProtocol::k2, [](PickleWriter& w) {
    w.op(Op::NONE);
    for (int i = 0; i < 257; ++i) w.put();
    w.get(256);
  });
  CHECK(out.substr(out.size() - 10) == std::string("r\0\x01\0\0j\0\x01\0\0", 10));
}

}  // namespace
}  // namespace dcp
