#include "maps/model_map.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "maps/parse.h"
#include "maps/proof.h"

namespace dcp::maps {

ModelMap read_map(std::string_view text, std::string name, const Limits& limits) {
  ModelMap map = parse(text, std::move(name), limits);
  prove(map, limits);
  return map;
}

namespace {

// 0.2.1: its numbers, by which releases are compared. nullopt: it is none.
std::optional<std::vector<uint64_t>> numbers_of(std::string_view release) {
  std::vector<uint64_t> numbers;
  for (const std::string_view digits : split(release, '.')) {
    const auto number = decimal<uint64_t>(digits);
    if (!number) return {};
    numbers.push_back(*number);
  }
  while (numbers.back() == 0 && numbers.size() > 1) numbers.pop_back();  // 2.0 is 2
  return numbers;
}

}  // namespace

bool is_release(std::string_view text) { return numbers_of(text).has_value(); }
bool is_before(std::string_view a, std::string_view b) { return numbers_of(a) < numbers_of(b); }

std::string class_of(const ModelMap& map, std::string_view model_type) {
  const auto family = std::ranges::find(map.families, model_type);
  return map.classes.empty() || family == map.families.end() ? "" : map.classes[static_cast<size_t>(family - map.families.begin())];
}

Problem problem_at(const ModelMap& map, Spot spot, ProblemId id, std::string got, std::string expected) {
  Problem p = make_problem(id, {.path = map.name, .line = spot.line, .column = spot.column}, std::move(got), std::move(expected));
  if (spot.line > 0 && spot.line <= map.text.size()) p.quote = map.text[spot.line - 1];
  return p;
}

void fail_at(const ModelMap& map, Spot spot, ProblemId id, std::string got, std::string expected) {
  throw Error(problem_at(map, spot, id, std::move(got), std::move(expected)));
}

std::string to_text(const ModelMap& map, const Name& name) {
  std::string text;
  for (const NamePart& p : name.parts) {
    switch (p.kind) {
      case NamePart::Kind::kText: text += p.text; break;
      case NamePart::Kind::kRest: text += "{*}"; break;
      case NamePart::Kind::kVariable: text += "$" + map.variables[p.variable].name; break;
      case NamePart::Kind::kIndex:
        text += "{" + map.word(p.index);
        for (const Word w : p.after) text += "+" + map.word(w);
        if (p.plus > 0) text += "+" + std::to_string(p.plus);
        text += "}";
    }
  }
  return text;
}

std::string to_text(const ModelMap& map, const Axis& axis) {
  if (axis.kind == Axis::Kind::kOne) return "1";
  if (axis.kind == Axis::Kind::kAxis) return map.word(axis.word);
  const bool is_sum = axis.kind == Axis::Kind::kSum;
  std::string text = "(";
  for (size_t i = 0; i < axis.of.size(); ++i) {
    std::string part = to_text(map, axis.of[i]);
    // Products bind closer: in a sum they need no parentheses.
    if (is_sum && axis.of[i].kind == Axis::Kind::kProduct) part = part.substr(1, part.size() - 2);
    text += (i == 0 ? "" : is_sum ? " + " : " ") + part;
  }
  return text + ")";
}

}  // namespace dcp::maps
