// Reads one line of a map's text from left to right: words, signs, numbers and pieces of names, with their positions.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "maps/model_map.h"

namespace dcp::maps {

inline bool is_space(char c) { return c == ' ' || c == '\t'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool ends_name(char c) { return is_space(c) || std::string_view("=,|[]()#").find(c) != std::string_view::npos; }

inline std::string quote(std::string_view text) { return "'" + std::string(text) + "'"; }

class LineReader {
 public:
  LineReader(const ModelMap& map, uint32_t line) : map_(map), text_(map.text[line - 1]), line_(line) { skip_space(); }

  Spot spot() const { return {line_, static_cast<uint32_t>(at_ + 1)}; }
  bool is_end() const { return at_ == text_.size(); }
  char next() const { return is_end() ? '\0' : text_[at_]; }

  bool take(char c) {
    if (next() != c || is_end()) return false;
    ++at_;
    skip_space();
    return true;
  }
  void need(char c, const char* after) {
    if (!take(c)) fail_here(quote(std::string(1, c)) + after);
  }
  // A word that stands alone.
  bool take_word(std::string_view word) {
    if (peek() != word) return false;
    at_ += word.size();
    skip_space();
    return true;
  }
  // The text from here up to a space or a sign.
  std::string_view peek() const {
    size_t end = at_;
    while (end < text_.size() && !ends_name(text_[end])) ++end;
    return std::string_view(text_).substr(at_, end - at_);
  }
  // The character after the word that begins here.
  char after_word() const {
    size_t at = at_ + peek().size();
    while (at < text_.size() && is_space(text_[at])) ++at;
    return at < text_.size() ? text_[at] : '\0';
  }
  std::string word(const char* expected) {
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    if (end == at_ || is_digit(text_[at_])) fail_here(expected);
    return taken(end);
  }
  // A word, or words joined by dots.
  std::string path(const char* expected) {
    size_t end = at_;
    while (end < text_.size() && (is_word(text_[end]) || text_[end] == '.' || text_[end] == '-')) ++end;
    if (end == at_ || is_digit(text_[at_]) || text_[at_] == '-') fail_here(expected);
    return taken(end);
  }
  uint64_t number() {
    size_t end = at_;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    uint64_t value = 0;
    const auto [stop, error] = std::from_chars(text_.data() + at_, text_.data() + end, value);
    if (error != std::errc() || value > (uint64_t{1} << 62)) fail_here("a number below 2^62");
    taken(end);
    return value;
  }
  // The piece of a name between its braces and variables.
  std::string piece() {
    size_t end = at_;
    while (end < text_.size() && !ends_name(text_[end]) && std::string_view("{}$").find(text_[end]) == std::string_view::npos) ++end;
    std::string text = text_.substr(at_, end - at_);
    at_ = end;
    return text;
  }
  void skip(size_t bytes) { at_ += bytes; }
  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (next() == '#' && (at_ == 0 || is_space(text_[at_ - 1]))) at_ = text_.size();  // a comment
  }
  std::string rest() {
    size_t end = at_;
    while (end < text_.size() && (text_[end] != '#' || !is_space(text_[end - 1]))) ++end;
    std::string text = text_.substr(at_, end - at_);
    while (!text.empty() && is_space(text.back())) text.pop_back();
    at_ = text_.size();
    return text;
  }
  void need_end() {
    if (!is_end()) fail_here("the end of the line");
  }
  [[noreturn]] void fail_here(std::string expected) const {
    const std::string_view here = peek();
    fail_at(map_, spot(), ProblemId::map_syntax,
            is_end() ? "the end of the line" : quote(here.empty() ? std::string_view(&text_[at_], 1) : here), std::move(expected));
  }

 private:
  std::string taken(size_t end) {
    std::string text = text_.substr(at_, end - at_);
    at_ = end;
    skip_space();
    return text;
  }

  const ModelMap& map_;
  const std::string& text_;
  uint32_t line_;
  size_t at_ = 0;
};

}  // namespace dcp::maps
