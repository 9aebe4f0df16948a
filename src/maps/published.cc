#include "maps/published.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "maps/apply_map.h"
#include "maps/builtin.h"
#include "maps/names.h"
#include "maps/sizes.h"

namespace dcp::maps {
namespace {

struct Dim {
  std::string_view ending;  // of a tensor of the language model
  size_t dim = 0;
  std::string_view size;  // in config.json
};
constexpr Dim kDims[] = {
    {".embed_tokens.weight", 0, "vocab_size"},
    {".embed_tokens.weight", 1, "hidden_size"},
    {"lm_head.weight", 0, "vocab_size"},
    {"lm_head.weight", 1, "hidden_size"},
    {".input_layernorm.weight", 0, "hidden_size"},
    {".self_attn.q_proj.weight", 1, "hidden_size"},
    {".mlp.gate_proj.weight", 0, "intermediate_size"},
    {".mlp.gate_proj.weight", 1, "hidden_size"},
};

bool is_of_language(std::string_view key) {
  for (const std::string_view word : {"vis", "audio", "image", "multi_modal", "mtp"})
    if (key.find(word) != key.npos) return false;
  return key.starts_with("model.") || key.starts_with("lm_head.") || key.starts_with("language_model.");
}

// A value that is not a number, such as a list with one per layer, is not compared.
std::optional<std::pair<std::string, uint64_t>> number_of(const Config& config, std::string_view size) {
  for (const std::string& path : {std::string(size), "text_config." + std::string(size)}) {
    try {
      if (const auto number = config.number(path)) return std::pair(path, *number);
    } catch (const Error&) {
      return {};
    }
  }
  return {};
}

// Layers may differ in it: none has the size of config.json.
std::optional<Problem> difference_of(const Dim& dim, const Config& config, const std::vector<MapSource>& published) {
  const auto size = number_of(config, dim.size);
  if (!size) return {};
  const MapSource* other = nullptr;
  for (const MapSource& s : published) {
    if (!s.key.ends_with(dim.ending) || !is_of_language(s.key) || dim.dim >= s.shape.size()) continue;
    if (static_cast<uint64_t>(s.shape[dim.dim]) == size->second) return {};
    if (other == nullptr) other = &s;
  }
  if (other == nullptr) return {};
  return make_problem(ProblemId::map_config, {.path = config.path(), .tensor = std::string(other->key)},
                      size->first + " = " + std::to_string(size->second),
                      std::to_string(other->shape[dim.dim]) + ", by the shape " + shape_text(other->shape));
}

}  // namespace

std::vector<Problem> differences(const Config& config, const std::vector<MapSource>& published) {
  std::vector<Problem> all;
  const auto add = [&](Problem p) {
    p.what = "the model differs from its configuration and will not load";
    all.push_back(std::move(p));
  };
  if (const auto map = family_map(config.model_type(), "transformers", Limits())) {
    try {
      const MapOptions options{.from = Side::kRight, .unmapped = Unmapped::kDrop, .lists_sizes = true, .may_mix_dtypes = true};
      for (Problem& p : apply_map(*map, config, options, published, Limits()).problems)
        if (is_of_sizes(p)) add(std::move(p));
    } catch (const Error& e) {
      if (is_of_sizes(e.problem())) add(e.problem());  // another map says what is missing or has no place
    }
  }
  for (const Dim& dim : kDims) {
    std::optional<Problem> p = difference_of(dim, config, published);
    if (p && std::ranges::none_of(all, [&](const Problem& o) { return o.place.tensor == p->place.tensor; })) add(std::move(*p));
  }
  return all;
}

namespace {

// The condition that config.json does not meet, of a line for tensors that only some models of the family have.
const Condition* unmet_of(const ModelMap& map, const Line& line, const Config& config) {
  for (const Within& w : line.within) {
    const std::vector<Condition>& required = map.blocks[w.block].required;
    const auto unmet = std::ranges::find_if(required, [&](const Condition& c) { return !holds({c}, config); });
    if (unmet != required.end()) return &*unmet;
  }
  return nullptr;
}

// Of all lines with a tensor of this name, below any root, if none has it whatever config.json says.
const Condition* unmet_of(const ModelMap& map, const Takers& takers, std::string_view name, const Config& config) {
  std::vector<uint64_t> numbers;
  for (;; name.remove_prefix(name.find('.') + 1)) {
    const Condition* unmet = nullptr;
    const Key key = key_of(name);
    for (const Taker& t : takers.of_form(key)) {
      if (!fits(t.pattern, key, numbers)) continue;
      unmet = unmet_of(map, map.lines[t.line], config);
      if (unmet == nullptr) return nullptr;
    }
    if (unmet != nullptr || name.find('.') == name.npos) return unmet;
  }
}

bool is_quantized(const Config& config) { return config.has("quantization_config") || config.has("compression_config"); }

std::vector<std::string_view> keys_of(const std::vector<MapSource>& sources) {
  std::vector<std::string_view> keys;
  for (const MapSource& s : sources) keys.push_back(s.key);
  return keys;
}

// map_tensor_missing
std::vector<Problem> missing_of(const ModelMap& map, const Config& config, const std::vector<MapSource>& published) {
  std::vector<Problem> missing;
  try {
    const MapOptions options{.from = Side::kRight, .unmapped = Unmapped::kDrop, .lists_sizes = true, .may_mix_dtypes = true};
    for (Problem& p : apply_map(map, config, options, published, Limits()).problems)
      if (p.id == ProblemId::map_tensor_missing) missing.push_back(std::move(p));
  } catch (const Error&) {  // sizes, which are compared by themselves
  }
  return missing;
}

}  // namespace

std::vector<Problem> unused(const Config& config, std::span<const std::string_view> published) {
  const auto map = published_map(config.model_type(), Limits());
  if (!map || is_quantized(config)) return {};
  const Takers takers(*map, Side::kRight);
  std::map<std::string, std::vector<std::string>> keys_of;
  for (const std::string_view key : published)
    if (const Condition* const c = unmet_of(*map, takers, key, config)) keys_of[c->paths[0]].emplace_back(key);
  std::vector<Problem> all;
  for (auto& [path, keys] : keys_of) {
    const std::string said = path + (config.has(path) ? " is false" : " is absent");
    Problem p = make_finding(ProblemId::map_unused, Severity::kWarning, {.path = config.path()},
                             said + ": " + counted(keys.size(), "tensor") + ", " + list_of(keys, 10));
    p.keys = std::move(keys);
    all.push_back(std::move(p));
  }
  return all;
}

std::optional<Problem> lacking(const Config& config, const std::vector<MapSource>& published) {
  const auto map = published_map(config.model_type(), Limits());
  if (!map || is_quantized(config) || config.architecture() != class_of(config.model_type(), Limits())) return {};
  const std::vector<std::string_view> keys = keys_of(published);
  const uint64_t taken = fit_of(*map, Side::kRight, keys).taken;
  const bool are_in_memory = fit_of(*map, Side::kLeft, keys).taken > taken;  // which transformers loads, too
  const bool has_adapter = std::ranges::any_of(keys, [](std::string_view key) { return !adapter_of(key).empty(); });
  if (2 * taken <= keys.size() || are_in_memory || has_adapter) return {};
  std::vector<std::string> missing;
  for (Problem& p : missing_of(*map, config, published)) missing.push_back(std::move(p.place.tensor));
  if (missing.empty()) return {};
  Problem p = make_finding(ProblemId::model_differs, Severity::kDamage, {.path = config.path()},
                           counted(missing.size(), "tensor") + " that " + map->name + " needs " + (missing.size() == 1 ? "is" : "are") +
                               " missing, " + list_of(missing, 10));
  p.hint = "transformers loads the model with new, random values for what is missing";
  p.names = std::move(missing);
  return p;
}

std::vector<Problem> unmade(const Config& config, const std::vector<MapSource>& published) {
  const auto map = published_map(config.model_type(), Limits());
  if (!map || 2 * fit_of(*map, Side::kRight, keys_of(published)).taken <= published.size()) return {};
  return missing_of(*map, config, published);
}

struct ConfigShapes::Names {
  explicit Names(Config its) : config(std::move(its)), map(family_map(config.model_type(), "transformers", Limits())) {
    try {
      if (!map) return;
      left.emplace(*map, Side::kLeft);
      right.emplace(*map, Side::kRight);
      sizes.emplace(*map, config, std::vector<Setting>());
    } catch (const Error&) {  // it lacks what the map needs
    }
  }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  std::optional<std::vector<int64_t>> of(const Taker& taker, Side side) const {
    for (const LineTensor& t : map->lines[taker.line].on(side)) {
      const bool is_named = std::ranges::any_of(t.names, [&](const Name& n) { return &n == taker.name; });
      if (!is_named || !t.has_axes) continue;
      try {
        return grid_of(*map, t, [&](Word w, Spot spot) { return sizes->need(w, sizes->global(), spot); }, Limits()).shape;
      } catch (const Error&) {
        return {};
      }
    }
    return {};
  }

  const Config config;
  const std::optional<ModelMap> map;
  std::optional<Sizes> sizes;
  std::optional<Takers> left, right;
};

ConfigShapes::ConfigShapes(Config config) : names_(std::make_unique<Names>(std::move(config))) {}
ConfigShapes::~ConfigShapes() = default;

std::optional<std::vector<int64_t>> ConfigShapes::of(std::string_view text) const {
  if (!names_->sizes) return {};
  const Key key = key_of(text);
  std::set<std::vector<int64_t>> shapes;
  std::vector<uint64_t> numbers;
  for (const Side side : {Side::kRight, Side::kLeft})
    for (const Taker& taker : (side == Side::kRight ? names_->right : names_->left)->of_form(key)) {
      if (!fits(taker.pattern, key, numbers)) continue;
      const auto shape = names_->of(taker, side);
      if (!shape) return {};
      shapes.insert(*shape);
    }
  return shapes.size() == 1 ? std::optional(*shapes.begin()) : std::nullopt;
}

namespace {

// The first answer for the name and what is below its components.
template <class Ask>
std::optional<bool> first_below(std::string_view name, const Ask& ask) {
  for (;; name.remove_prefix(name.find('.') + 1)) {
    if (const std::optional<bool> answer = ask(name)) return answer;
    if (name.find('.') == name.npos) return {};
  }
}

bool has_piece(const std::vector<std::string>& pieces, std::string_view name) {
  return std::ranges::any_of(pieces, [&](const std::string& piece) { return name.find(piece) != name.npos; });
}

// A map of transformers has the names in memory on its left side; of a published name its line says which that is.
class Kept {
 public:
  Kept(const ModelMap& map, std::vector<std::string> pieces)
      : map_(map), pieces_(std::move(pieces)), published_(map_, Side::kRight), is_kept_(map_.lines.size()) {
    const bool is_of_memory = std::string_view(map_.name).substr(0, map_.name.rfind(".map")).ends_with(".transformers");
    for (size_t l = 0; l < map_.lines.size(); ++l)
      for (const LineTensor& t : map_.lines[l].sides[is_of_memory ? 0 : 1])
        for (const Name& name : t.names) is_kept_[l] = is_kept_[l] || has_piece(to_text(map_, name));
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  bool operator()(std::string_view key) const {
    const auto as_published = first_below(key, [&](std::string_view name) { return kept_as_published(name); });
    return as_published ? *as_published : has_piece(key);
  }

 private:
  // nullopt: no published name.
  std::optional<bool> kept_as_published(std::string_view name) const {
    std::optional<bool> kept;
    std::vector<uint64_t> found;
    const Key key = key_of(name);
    for (const Taker& t : published_.of_form(key))
      if (fits(t.pattern, key, found)) kept = kept.value_or(false) || is_kept_[t.line];
    return kept;
  }
  bool has_piece(std::string_view name) const { return maps::has_piece(pieces_, name); }

  const ModelMap map_;
  const std::vector<std::string> pieces_;
  const Takers published_;
  std::vector<bool> is_kept_;  // by line
};

}  // namespace

namespace {

constexpr struct {
  std::string_view model_type, always, for_float16;
} kKept[] = {
#define DCPCTL_KEPT(model_type, always, for_float16) {model_type, always, for_float16},
#include "maps/kept.def"
#undef DCPCTL_KEPT
};

std::vector<std::string> pieces_for(const std::vector<Keep>& keeps, DType as) {
  std::vector<std::string> pieces;
  for (const Keep& k : keeps)
    if (bytes_of(as) < bytes_of(DType::float32) && (!k.only_float16 || as == DType::float16)) pieces.push_back(k.piece);
  return pieces;
}

// What types of models say, of names in memory and published.
struct KeptWords {
  std::vector<std::string> pieces, endings, other_endings;  // of names that are not kept
  std::vector<KeepsFloat32> maps;

  void add(std::string_view words) {
    for (const std::string_view word : split(words, ' ')) {
      if (word.empty()) continue;
      if (word[0] == '=') endings.emplace_back(word.substr(1));
      else if (word[0] == '!') other_endings.emplace_back(word.substr(1));
      else pieces.emplace_back(word);
    }
  }
  bool empty() const { return pieces.empty() && endings.empty() && maps.empty(); }

  bool operator()(std::string_view key) const {
    const std::string name = numberless(key);
    const auto is_ending = [&](const std::string& ending) { return name == ending || name.ends_with("." + ending); };
    if (std::ranges::any_of(endings, is_ending)) return true;
    if (std::ranges::any_of(other_endings, is_ending)) return false;
    return has_piece(pieces, key) || std::ranges::any_of(maps, [&](const KeepsFloat32& keeps) { return keeps(key); });
  }

  // layers.*.norm
  static std::string numberless(std::string_view key) {
    std::string name;
    for (; !key.empty(); key.remove_prefix(std::min(key.find('.'), key.size() - 1) + 1)) {
      const std::string_view part = key.substr(0, key.find('.'));
      const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
      name += (name.empty() ? "" : ".") + std::string(is_number ? "*" : part);
    }
    return name;
  }
};

}  // namespace

KeepsFloat32 kept_of_types(const std::vector<std::string>& model_types, DType as) {
  if (bytes_of(as) >= bytes_of(DType::float32)) return {};
  KeptWords words;
  for (const std::string& type : model_types) {
    const auto map = published_map(type, Limits());
    KeepsFloat32 of_map = map ? kept_in_float32(*map, as) : KeepsFloat32();
    if (of_map) words.maps.push_back(std::move(of_map));
    const auto its = std::ranges::find(kKept, type, [](const auto& kept) { return kept.model_type; });
    if (map || its == std::end(kKept)) continue;
    words.add(its->always);
    if (as == DType::float16) words.add(its->for_float16);
  }
  return words.empty() ? KeepsFloat32() : words;
}

KeepsFloat32 kept_in_float32(const ModelMap& map, DType as) {
  std::vector<std::string> pieces = pieces_for(map.keeps, as);
  if (pieces.empty()) return {};
  return [kept = std::make_shared<const Kept>(map, std::move(pieces))](std::string_view key) { return (*kept)(key); };
}

KeepsFloat32 kept_too(KeepsFloat32 keeps, std::set<std::string> names) {
  if (names.empty()) return keeps;
  return [keeps = std::move(keeps), names = std::move(names)](std::string_view key) {
    const auto is_named = [&](std::string_view name) { return names.contains(std::string(name)) ? std::optional(true) : std::nullopt; };
    return first_below(key, is_named) || keeps(key);
  };
}

}  // namespace dcp::maps
