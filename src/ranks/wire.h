// What ranks tell each other, as bytes: numbers and arrays of plain structs as they lie in memory. All ranks are one build (Session checks
// that before anything else is read), so nothing needs to be portable; but lengths, counts, indices and enumerators are checked all the
// same: what another host sends may be damaged, and must end the run and do no more.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"

namespace dcp {

class WireWriter {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof value);
  }
  template <class T>
  void array(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    number<uint64_t>(values.size());
    append(values.data(), values.size() * sizeof(T));
  }
  void text(std::string_view s) {
    number<uint64_t>(s.size());
    append(s.data(), s.size());
  }
  void problem(const Problem& p);
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* data, size_t bytes) {
    const auto* p = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), p, p + bytes);
  }
  std::vector<std::byte> bytes_;
};

class WireReader {
 public:
  explicit WireReader(Bytes bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    static_assert(std::is_trivially_copyable_v<T>);
    const Bytes bytes = next(sizeof(T));
    if constexpr (std::is_same_v<T, bool>) return bytes[0] != std::byte{};
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  // An enumerator; `end`: the first number that is none.
  template <class T>
  T one_of(std::underlying_type_t<T> end) {
    const auto value = number<std::underlying_type_t<T>>();
    if (value >= end) wrong();
    return static_cast<T>(value);
  }
  // Of things that take a byte or more each.
  uint64_t count() {
    const auto n = number<uint64_t>();
    if (n > bytes_.size()) cut();
    return n;
  }
  // `like`: an element, for types that cannot be made from nothing.
  template <class T>
  std::vector<T> array(const T& like = T()) {
    const auto count = number<uint64_t>();
    if (count > bytes_.size() / sizeof(T)) cut();
    std::vector<T> values(count, like);
    const Bytes from = next(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  // The same, where the receiver knows how many there must be.
  template <class T>
  std::vector<T> array_of(size_t count) {
    std::vector<T> values = array<T>();
    if (values.size() != count)
      fail(ProblemId::internal, {}, "a message between ranks of " + std::to_string(values.size()) + " values", std::to_string(count));
    return values;
  }
  std::string text() {
    const auto count = number<uint64_t>();
    return std::string(as_text(next(count)));
  }
  Problem problem();
  [[noreturn]] static void wrong() { fail(ProblemId::internal, {}, "a message between ranks that says what cannot be"); }

 private:
  [[noreturn]] static void cut() { fail(ProblemId::internal, {}, "a message between ranks that ends too early"); }
  Bytes next(uint64_t bytes) {
    if (bytes > bytes_.size()) cut();
    const Bytes front = bytes_.first(bytes);
    bytes_ = bytes_.subspan(bytes);
    return front;
  }
  Bytes bytes_;
};

}  // namespace dcp
