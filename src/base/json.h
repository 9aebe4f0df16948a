// A streaming JSON writer: 10^6 chunks are written without being held in memory. Text that is not valid UTF-8 is written with U+FFFD for
// each bad byte; control characters and bidirectional overrides as \uNNNN, so that the output is safe on a terminal without losing
// anything. Infinities and NaN become null. Calls must nest as JSON does; that is not checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace dcp {

class JsonWriter {
 public:
  using Out = std::function<void(std::string_view)>;
  // indent 0: one line. Output is handed over in blocks; the destructor does not flush, finish() does (with a final newline).
  explicit JsonWriter(Out out, unsigned indent = 0);
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(int64_t number);
  JsonWriter& value(uint64_t number);
  JsonWriter& value(uint32_t number) { return value(uint64_t{number}); }
  JsonWriter& value(int number) { return value(int64_t{number}); }
  JsonWriter& value(double number);
  JsonWriter& value(bool flag);
  JsonWriter& digits(std::string_view integer);  // of any length
  // The elements of a range, as an array.
  template <class List>
    requires(requires(const List& list) { list.begin(); } && !std::is_convertible_v<const List&, std::string_view>)
  JsonWriter& value(const List& list) {
    begin_array();
    for (const auto& element : list) value(element);
    return end_array();
  }
  // null: there is none.
  template <class T>
  JsonWriter& value(const std::optional<T>& v) {
    return v ? value(*v) : null();
  }
  JsonWriter& null();
  template <class T>
  JsonWriter& member(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  void finish();

 private:
  void separate();
  void new_line();
  JsonWriter& end(char bracket);
  JsonWriter& raw_value(std::string_view literal);
  void text(std::string_view raw);
  void quoted(std::string_view raw);
  size_t special(std::string_view raw);  // writes the first code point, escaped where needed; returns its bytes
  Out out_;
  std::string buffer_;
  unsigned indent_;
  std::string levels_;  // one char a level: '{' or '[' when empty so far, '}' or ']' when it holds something
  bool after_key_ = false;
};

// A document: one object, whose members `members` writes.
void json_document(JsonWriter::Out out, const std::function<void(JsonWriter&)>& members, unsigned indent = 0);
std::string json_document(const std::function<void(JsonWriter&)>& members, unsigned indent = 0);

}  // namespace dcp
