#include "maps/keys.h"

#include <algorithm>
#include <utility>

namespace dcp::maps {

Takers::Takers(const ModelMap& map, Side side) {
  std::vector<uint32_t> values(map.variables.size());
  for (uint32_t l = 0; l < map.lines.size(); ++l) {
    for (const Tensor& t : map.lines[l].sides[static_cast<size_t>(side)]) {
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

Side side_of(const ModelMap& map, std::span<const std::string_view> keys, bool are_published) {
  const Fit left = fit_of(map, Side::kLeft, keys), right = fit_of(map, Side::kRight, keys);
  if (left.taken == 0 && right.taken == 0)
    fail(ProblemId::map_side_unclear, {.path = map.name}, keys.empty() ? "no tensors" : shortened(keys[0]) + " and others");
  if (left.taken != right.taken) return left.taken > right.taken ? Side::kLeft : Side::kRight;
  return are_published ? Side::kRight : Side::kLeft;
}

}  // namespace dcp::maps
