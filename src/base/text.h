// Text: numbers and names as people and programs write them, UTF-8, and the name that was probably meant.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace dcp {

// Numbers as people read them.

std::string fixed(double value, int digits);
std::string human_bytes(uint64_t bytes);                 // "1.5 MiB", "312 B"
std::string grouped(uint64_t number);                    // "1,234,567"
std::string counted(uint64_t number, const char* one);   // "1 key", "2,000 keys"
std::string rate(uint64_t bytes, uint64_t ns);           // "3.21 GB/s"
std::string done_in(uint64_t bytes, uint64_t ns);        // "0.52 s, 3.21 GB/s", of few bytes the time alone
std::string gigabytes(double bytes_per_second);          // "26.10"
std::string seconds(uint64_t ns);                        // "1.23 s"
std::string duration(uint64_t ns);                       // "1.84 s", "310 ms", "12.3 us"
std::string hex(uint64_t number, size_t digits);         // "00af": at least so many digits
std::string shape_text(std::span<const int64_t> shape);  // "[4, 8]"
// The first `max` names, escaped: "a, b and 7 more".
std::string list_of(const std::vector<std::string>& names, size_t max = 8);

// Lists, and their parts.

// "a, b": of texts, of what `text_of` says of each, or of numbers.
template <class List, class TextOf = std::identity>
std::string joined(const List& list, std::string_view between, const TextOf& text_of = {}) {
  std::string text;
  bool is_first = true;
  for (const auto& each : list) {
    if (!std::exchange(is_first, false)) text += between;
    const auto& part = std::invoke(text_of, each);
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) text += std::to_string(part);
    else text += part;
  }
  return text;
}

// Of many the first `max`: "a, b and 7 more".
template <class T, class TextOf = std::identity>
std::string joined_first(const std::vector<T>& list, size_t max, const TextOf& text_of = {}) {
  const std::string text = joined(std::span(list).first(std::min(max, list.size())), ", ", text_of);
  return list.size() > max ? text + " and " + std::to_string(list.size() - max) + " more" : text;
}

// The first five: "a, b, c, d, e, ... (7 in all)".
std::string some_of(const std::vector<std::string>& names);

// Without `blanks` at its ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " ");

// "a..b" at '.': "a", "" and "b", each without `blanks` at its ends. At least one part, which may be empty.
std::vector<std::string_view> split(std::string_view text, char at, std::string_view blanks = "");

// With ASCII's letters in lower case.
std::string lowered(std::string_view text);

// The order in which people read names: "x.2" before "x.10".

// Compares numbers in texts by value. A total order.
bool natural_less(std::string_view a, std::string_view b);

struct NaturalLess {
  bool operator()(std::string_view a, std::string_view b) const { return natural_less(a, b); }
};

// --- numbers in names and on command lines

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Nothing but digits, and no more of them than any counter has.
constexpr bool is_number(std::string_view text) { return !text.empty() && text.size() < 20 && std::ranges::all_of(text, is_digit); }

// Parses all of `text`; nullopt if it is not a number, or the number is too large.
template <class Number>
  requires std::is_arithmetic_v<Number>
std::optional<Number> decimal(std::string_view text) {
  Number n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(n) : std::nullopt;
}

// Formats a finite number as Python prints a float: the fewest digits that are read back as the same number, such as 0.0003 or 1e-05.
template <std::floating_point Number>
std::string python_float(Number number) {
  char text[64];
  char* end = std::to_chars(text, text + sizeof text, number, std::chars_format::scientific).ptr;
  const char* const sign = std::find(text, end, 'e') + 1;
  const int power = *decimal<int>(std::string_view(sign + 1, end));
  if (power > (*sign == '-' ? 4 : 15)) return {text, end};
  end = std::to_chars(text, text + sizeof text, number, std::chars_format::fixed).ptr;
  const std::string fixed(text, end);
  return fixed.find('.') == fixed.npos ? fixed + ".0" : fixed;
}

// --- UTF-8, one code point at a time: what escaping and JSON need, and no more

struct CodePoint {
  char32_t value = 0;
  unsigned size = 0;  // bytes it takes, 1 to 4; 0: the first byte does not begin valid UTF-8
};

// The code point at the start of `text`, which is not empty. Strict as RFC 3629: no overlong forms, no surrogates, nothing above
// U+10FFFF.
CodePoint first_code_point(std::string_view text);

// Whether CPython accepts `text` in a pickle: UTF-8 in which encoded surrogates are allowed.
bool is_pickled_text(std::string_view text);

// Code points that act on a terminal or reorder what is read, though they are valid text. All lie below U+10000.
constexpr bool acts_on_terminal(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F)  // C0, DEL and C1: terminal escape codes begin with these (1B, 9B)
         || c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069)  // bidi
         || c == 0x2028 || c == 0x2029  // line and paragraph separator: a message stays one line
         || c == 0xFEFF;                // byte order mark: invisible
}

// --- the name that was probably meant

// The number of edits between two words: insert, delete, replace, swap neighbours.
size_t edit_distance(std::string_view a, std::string_view b);

// Finds, among the names offered, the closest one that `word` could be a typo of: at most one edit per three characters.
class Closest {
 public:
  explicit Closest(std::string_view word);
  void offer(std::string_view name);
  const std::string& found() const { return best_; }  // "": no name is close

 private:
  std::string_view word_;
  size_t min_;  // a name this many edits away is too far
  std::string best_;
};

}  // namespace dcp
