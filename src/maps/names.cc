#include "maps/names.h"

#include <algorithm>
#include <charconv>

#include "maps/line_reader.h"

namespace dcp::maps {
namespace {

std::optional<uint64_t> index_in(std::string_view digits) {
  if (digits.size() > 18 || (digits.size() > 1 && digits[0] == '0')) return {};
  uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// All numbers of `a` come before those of `b`: b counts on from a's end.
bool before(const NamePart& a, const NamePart& b) {
  std::vector<Word> end = a.after, start = b.after;
  end.push_back(a.index);
  std::ranges::sort(end);
  std::ranges::sort(start);
  return a.plus <= b.plus && std::ranges::includes(start, end);
}

}  // namespace

Key key_of(std::string_view key) {
  Key out;
  for (size_t at = 0; at < key.size();) {
    size_t end = at;
    while (end < key.size() && is_digit(key[end])) ++end;
    if (end > at) {
      out.form += '0';
      out.numbers.push_back(key.substr(at, end - at));
    } else {
      while (end < key.size() && !is_digit(key[end])) ++end;
      out.form += key.substr(at, end - at);
    }
    at = end;
  }
  return out;
}

Pattern pattern_of(const ModelMap& map, const Name& name, const std::vector<uint32_t>& values) {
  Pattern out;
  std::string text;  // up to the next index
  const auto flush = [&] {
    Key key = key_of(text);
    out.form += key.form;
    for (const std::string_view n : key.numbers) out.numbers.push_back({std::string(n), nullptr});
    text.clear();
  };
  for (const NamePart& p : name.parts) {
    switch (p.kind) {
      case NamePart::Kind::kText: text += p.text; break;
      case NamePart::Kind::kVariable: text += map.variables[p.variable].values[values[p.variable]]; break;
      case NamePart::Kind::kRest:
        out.is_rest = true;
        out.before_rest = text;
        break;
      case NamePart::Kind::kIndex:
        flush();
        out.form += '0';
        out.numbers.push_back({{}, &p});
    }
  }
  flush();
  return out;
}

bool fits(const Pattern& pattern, const Key& key, std::vector<uint64_t>& found) {
  found.clear();
  if (pattern.is_rest || pattern.numbers.size() != key.numbers.size()) return false;
  for (size_t i = 0; i < key.numbers.size(); ++i) {
    const Pattern::Number& n = pattern.numbers[i];
    if (n.index == nullptr) {
      if (n.digits != key.numbers[i]) return false;
      continue;
    }
    const auto value = index_in(key.numbers[i]);
    if (!value) return false;
    found.push_back(*value);
  }
  return true;
}

bool overlap(const Pattern& a, const Pattern& b) {
  if (a.is_rest || b.is_rest) {  // {*} takes what no other line does
    if (!a.is_rest || !b.is_rest) return false;
    return a.before_rest.starts_with(b.before_rest) || b.before_rest.starts_with(a.before_rest);
  }
  if (a.form != b.form || a.numbers.size() != b.numbers.size()) return false;
  for (size_t i = 0; i < a.numbers.size(); ++i) {
    const Pattern::Number &m = a.numbers[i], &n = b.numbers[i];
    if (m.index == nullptr && n.index == nullptr) {
      if (m.digits != n.digits) return false;
    } else if (m.index != nullptr && n.index != nullptr) {
      if (before(*m.index, *n.index) || before(*n.index, *m.index)) return false;
    } else {
      const auto value = index_in(m.index == nullptr ? m.digits : n.digits);
      if (!value || *value < (m.index != nullptr ? m.index : n.index)->plus) return false;
    }
  }
  return true;
}

}  // namespace dcp::maps
