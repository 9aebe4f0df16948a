// Serializes what ranks send each other: numbers and arrays of plain structs as they lie in memory. All ranks run the same build (Session
// checks that before anything else is read), so nothing needs to be portable. But lengths, counts, indices and enumerators are checked:
// data from another host may be damaged, and must do no worse than end the run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/members.h"

namespace dcp {

DCP_MEMBERS(Place, path, member, tensor, object, offset, length, line, column, rank, setting);

// Both take any value: a struct by its members (base/members.h), lists and maps element by element, plain structs in lists as they lie in
// memory. Types with their own transfer(wire, value) use that.
class WireWriter {
 public:
  template <class T>
  void operator()(const T& value) {
    if constexpr (requires { transfer(*this, value); }) transfer(*this, value);
    else if constexpr (HasMembers<const T>) for_each_member(value, [this](const auto& member) { (*this)(member); });
    else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) number(value);
    else list(value);
  }
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
  void list(const Problem& p) { problem(p); }
  void list(const std::string& s) { text(s); }
  template <class T>
  void list(const std::vector<T>& values) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      array(values);
    } else {
      number<uint64_t>(values.size());
      for (const T& v : values) (*this)(v);
    }
  }
  template <class K, class V>
  void list(const std::map<K, V>& values) {
    number<uint64_t>(values.size());
    for (const auto& v : values) list(v);
  }
  template <class A, class B>
  void list(const std::pair<A, B>& both) {
    (*this)(both.first);
    (*this)(both.second);
  }
  template <class T>
  void list(const std::optional<T>& value) {
    number(value.has_value());
    if (value) (*this)(*value);
  }
  void append(const void* data, size_t bytes) {
    const auto* p = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), p, p + bytes);
  }
  std::vector<std::byte> bytes_;
};

class WireReader {
 public:
  explicit WireReader(Bytes bytes) : bytes_(bytes) {}
  // Enumerators and indices may have any value: the caller must check them.
  template <class T>
  void operator()(T& value) {
    if constexpr (requires { transfer(*this, value); }) transfer(*this, value);
    else if constexpr (HasMembers<T>) for_each_member(value, [this](auto& member) { (*this)(member); });
    else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) value = number<T>();
    else list(value);
  }
  template <class T>
  T number() {
    static_assert(std::is_trivially_copyable_v<T>);
    const Bytes bytes = next(sizeof(T));
    if constexpr (std::is_same_v<T, bool>) return bytes[0] != std::byte{};
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  // Reads an enumerator; `end` is the first invalid number.
  template <class T>
  T one_of(std::underlying_type_t<T> end) {
    const auto value = number<std::underlying_type_t<T>>();
    if (value >= end) wrong();
    return static_cast<T>(value);
  }
  // Reads a count of things that take at least a byte each.
  uint64_t count() {
    const auto n = number<uint64_t>();
    if (n > bytes_.size()) cut();
    return n;
  }
  // Reads an array; `like` is an element, for types without a default constructor.
  template <class T>
  std::vector<T> array(const T& like = T()) {
    const auto count = number<uint64_t>();
    if (count > bytes_.size() / sizeof(T)) cut();
    std::vector<T> values(count, like);
    const Bytes from = next(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  // The same if the receiver knows the number of elements.
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
  void list(Problem& p) { p = problem(); }
  void list(std::string& s) { s = text(); }
  template <class T>
  void list(std::vector<T>& values) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      values = array<T>();
    } else {
      values.resize(count());
      for (T& v : values) (*this)(v);
    }
  }
  template <class K, class V>
  void list(std::map<K, V>& values) {
    for (auto n = count(); n > 0; --n) {
      std::pair<K, V> v;
      list(v);
      values.insert(std::move(v));
    }
  }
  template <class A, class B>
  void list(std::pair<A, B>& both) {
    (*this)(both.first);
    (*this)(both.second);
  }
  template <class T>
  void list(std::optional<T>& value) {
    if (number<bool>()) (*this)(value.emplace());
  }
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
