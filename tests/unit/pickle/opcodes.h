// Pickles assembled by hand: each function gives the bytes of one opcode.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "pickle/tokens.h"

namespace dcp::test {

inline std::string op(Op code) { return {static_cast<char>(code)}; }

template <class T>
std::string le(T value) {
  std::byte bytes[sizeof value];
  store_le(bytes, value);
  return {reinterpret_cast<const char*>(bytes), sizeof value};
}

inline std::string proto(uint8_t n) { return op(Op::PROTO) + le(n); }
inline std::string num(uint8_t n) { return op(Op::BININT1) + le(n); }
inline std::string text(std::string_view s) { return op(Op::BINUNICODE) + le(static_cast<uint32_t>(s.size())) + std::string(s); }
inline std::string short_text(std::string_view s) { return op(Op::SHORT_BINUNICODE) + le(static_cast<uint8_t>(s.size())) + std::string(s); }
inline std::string global(std::string_view module, std::string_view name) {
  return op(Op::GLOBAL) + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string stack_global(std::string_view module, std::string_view name) {
  return short_text(module) + short_text(name) + op(Op::STACK_GLOBAL);
}
inline std::string put(uint8_t slot) { return op(Op::BINPUT) + le(slot); }
inline std::string get(uint8_t slot) { return op(Op::BINGET) + le(slot); }
inline std::string times(size_t n, const std::string& s) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += s;
  return all;
}

inline const std::string kMark = "(";
inline const std::string kStop = ".";
inline const std::string kTuple = "t";
inline const std::string kList = "]";
inline const std::string kDict = "}";
inline const std::string kAppend = "a";
inline const std::string kAppends = "e";
inline const std::string kSetItem = "s";
inline const std::string kSetItems = "u";
inline const std::string kReduce = "R";
inline const std::string kBuild = "b";
inline const std::string kNone = "N";
inline const std::string kEmptyTuple = ")";
inline const std::string kNewObj = op(Op::NEWOBJ);
inline const std::string kMemoize = op(Op::MEMOIZE);
inline const std::string kPersId = "Q";

}  // namespace dcp::test
