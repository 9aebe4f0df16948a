#include "maps/names.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.h"

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

Takers::Takers(const ModelMap& map, Side side) {
  std::vector<uint32_t> values(map.variables.size());
  for (uint32_t l = 0; l < map.lines.size(); ++l) {
    for (const LineTensor& t : map.lines[l].on(side)) {
      for (const Name& name : t.names) {
        Taker taker{.line = l, .name = &name, .indexes = {}, .pattern = {}};
        for (const NamePart& p : name.parts) {
          if (p.kind == NamePart::Kind::kVariable) taker.variable = p.variable;
          if (p.kind != NamePart::Kind::kIndex) continue;
          taker.indexes.push_back(p.index);
          taker.counts_on = taker.counts_on || !p.after.empty();
        }
        const size_t count = taker.variable < 0 ? 1 : map.variables[static_cast<size_t>(taker.variable)].values.size();
        for (taker.value = 0; taker.value < count; ++taker.value) {
          if (taker.variable >= 0) values[static_cast<size_t>(taker.variable)] = taker.value;
          taker.pattern = pattern_of(map, name, values);
          (taker.pattern.is_rest ? rests_ : by_form_[taker.pattern.form]).push_back(taker);
        }
        if (taker.variable >= 0) values[static_cast<size_t>(taker.variable)] = 0;
      }
    }
  }
}

const std::vector<Taker>& Takers::of_form(const Key& key) const {
  const auto it = by_form_.find(key.form);
  return it == by_form_.end() ? none_ : it->second;
}

const Taker* Takers::rest_of(std::string_view key) const {
  const auto it = std::ranges::find_if(
      rests_, [&](const Taker& t) { return key.starts_with(t.pattern.before_rest) && key.size() > t.pattern.before_rest.size(); });
  return it == rests_.end() ? nullptr : &*it;
}

std::string_view adapter_of(std::string_view key) {
  constexpr std::string_view kTwice = "a module that PEFT keeps twice";
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"lora_", "a LoRA adapter"}, {".ia3_l", "an IA3 adapter"}, {".modules_to_save.", kTwice}, {".original_module.", kTwice}};
  for (const auto& [word, what] : kWords)
    if (key.find(word) != key.npos) return what;
  return {};
}

std::string original_of(const std::string& name) {
  const size_t dot = std::min(name.rfind('.'), name.size());
  return name.substr(0, dot) + ".original_module" + name.substr(dot);
}

Fit fit_of(const ModelMap& map, Side side, std::span<const std::string_view> keys) {
  const Takers takers(map, side);
  Fit fit;
  std::vector<uint64_t> found;
  for (const std::string_view text : keys) {
    const Key key = key_of(text);
    const bool is_taken = std::ranges::any_of(takers.of_form(key), [&](const Taker& t) { return fits(t.pattern, key, found); }) ||
                          takers.rest_of(text) != nullptr;
    if (is_taken) ++fit.taken;
    else if (fit.untaken.empty()) fit.untaken = text;
  }
  return fit;
}

size_t place_of_release(const ModelMap& map, std::string_view release) {
  const auto at =
      std::ranges::find_if(map.releases, [&](const std::string& since) { return is_release(release) && !is_before(release, since); });
  const std::string& newest = map.releases.front();
  const bool is_later = at == map.releases.begin() && is_before(newest, release) && !release.starts_with(newest + ".");
  if (at == map.releases.end() || is_later) {
    Problem p = make_problem(ProblemId::map_setting, {.path = map.name}, "release=" + std::string(release),
                             map.releases.back() + (map.releases.size() > 1 ? " to " + newest : ""));
    p.what = "the map has no names of this release";
    throw Error(std::move(p));
  }
  return static_cast<size_t>(at - map.releases.begin());
}

std::optional<size_t> place_of_release(const ModelMap& map, std::span<const std::string_view> keys) {
  const Takers takers(map, Side::kLeft);
  std::optional<size_t> place;
  std::vector<uint64_t> found;
  for (const std::string_view text : keys) {
    const Key key = key_of(text);
    const auto& of_form = takers.of_form(key);
    const auto taker = std::ranges::find_if(of_form, [&](const Taker& t) { return fits(t.pattern, key, found); });
    if (taker == of_form.end()) return {};
    for (const LineTensor& t : map.lines[taker->line].sides[0]) {
      const auto name = std::ranges::find_if(t.names, [&](const Name& n) { return &n == taker->name; });
      if (name == t.names.end() || t.names.size() == 1) continue;
      const auto its = static_cast<size_t>(name - t.names.begin());
      if (place.value_or(its) != its) return {};
      place = its;
    }
  }
  return place;
}

Side side_of(const ModelMap& map, std::span<const std::string_view> keys, bool are_published) {
  const Fit left = fit_of(map, Side::kLeft, keys), right = fit_of(map, Side::kRight, keys);
  if (left.taken == 0 && right.taken == 0)
    fail(ProblemId::map_side_unclear, {.path = map.name}, keys.empty() ? "no tensors" : shortened(keys[0]) + " and others");
  if (left.taken != right.taken) return left.taken > right.taken ? Side::kLeft : Side::kRight;
  return are_published ? Side::kRight : Side::kLeft;
}

}  // namespace dcp::maps
