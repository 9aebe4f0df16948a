#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace dcp {
namespace {

constexpr size_t kBlockBytes = 64 * 1024;  // about what one call of `out` gets

// Nearly all characters are plain, and runs of them are copied as they are.
constexpr bool is_plain(char c) { return c >= 0x20 && c <= 0x7E && c != '"' && c != '\\'; }

template <class Number>
std::string_view number_text(Number number, char (&space)[32]) {
  const auto end = std::to_chars(space, space + sizeof space, number).ptr;
  return {space, static_cast<size_t>(end - space)};
}

}  // namespace

JsonWriter::JsonWriter(Out out, unsigned indent) : out_(std::move(out)), indent_(indent) {}

// Writes what comes before a key, an element or a closing bracket: the comma after the previous one, and the line break.
void JsonWriter::separate() {
  if (std::exchange(after_key_, false) || levels_.empty()) return;
  char& level = levels_.back();
  if (level == '{' || level == '[') {
    level = level == '{' ? '}' : ']';  // it now holds something
  } else {
    buffer_ += ',';
  }
  new_line();
}

void JsonWriter::new_line() {
  if (indent_ == 0) return;
  buffer_ += '\n';
  buffer_.append(levels_.size() * indent_, ' ');
}

void JsonWriter::text(std::string_view raw) {
  buffer_ += raw;
  if (buffer_.size() < kBlockBytes) return;
  out_(buffer_);
  buffer_.clear();
}

JsonWriter& JsonWriter::begin_object() {
  separate();
  levels_ += '{';
  buffer_ += '{';
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  separate();
  levels_ += '[';
  buffer_ += '[';
  return *this;
}

JsonWriter& JsonWriter::end_object() { return end('}'); }
JsonWriter& JsonWriter::end_array() { return end(']'); }

JsonWriter& JsonWriter::end(char bracket) {
  const bool holds_something = levels_.back() == bracket;
  levels_.pop_back();
  if (holds_something) new_line();
  buffer_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quoted(name);
  buffer_ += indent_ > 0 ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view string) {
  separate();
  quoted(string);
  return *this;
}

JsonWriter& JsonWriter::value(int64_t number) {
  char space[32];
  return raw_value(number_text(number, space));
}

JsonWriter& JsonWriter::value(uint64_t number) {
  char space[32];
  return raw_value(number_text(number, space));
}

// JSON has no infinities and no NaN.
JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  char space[32];
  return raw_value(number_text(number, space));
}

JsonWriter& JsonWriter::value(bool flag) { return raw_value(flag ? "true" : "false"); }
JsonWriter& JsonWriter::digits(std::string_view integer) { return raw_value(integer); }
JsonWriter& JsonWriter::null() { return raw_value("null"); }

JsonWriter& JsonWriter::raw_value(std::string_view literal) {
  separate();
  text(literal);
  return *this;
}

// Beyond what JSON asks for, everything that acts on a terminal is escaped too: the reader of the JSON gets the same text back. All of it
// lies below U+10000, so four digits are enough.
void JsonWriter::quoted(std::string_view raw) {
  buffer_ += '"';
  while (!raw.empty()) {
    const auto plain = static_cast<size_t>(std::find_if_not(raw.begin(), raw.end(), is_plain) - raw.begin());
    text(raw.substr(0, plain));
    raw.remove_prefix(plain);
    if (!raw.empty()) raw.remove_prefix(special(raw));
  }
  text("\"");
}

size_t JsonWriter::special(std::string_view raw) {
  const CodePoint c = first_code_point(raw);
  if (c.size == 0) {
    text("\xEF\xBF\xBD");  // U+FFFD
    return 1;
  }
  if (c.value == '"' || c.value == '\\') {
    text("\\");
    text(raw.substr(0, 1));
  } else if (c.value == '\n') {
    text("\\n");
  } else if (acts_on_terminal(c.value)) {
    text("\\u" + hex(c.value, 4));
  } else {
    text(raw.substr(0, c.size));
  }
  return c.size;
}

void JsonWriter::finish() {
  buffer_ += '\n';
  out_(buffer_);
  buffer_.clear();
}

void json_document(JsonWriter::Out out, const std::function<void(JsonWriter&)>& members, unsigned indent) {
  JsonWriter json(std::move(out), indent);
  json.begin_object();
  members(json);
  json.end_object().finish();
}

std::string json_document(const std::function<void(JsonWriter&)>& members, unsigned indent) {
  std::string text;
  json_document([&](std::string_view block) { text += block; }, members, indent);
  return text;
}

}  // namespace dcp
