#include "maps/kept.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "maps/keys.h"

namespace dcp::maps {
namespace {

// The first answer for the name and what is below its components.
template <class Ask>
std::optional<bool> first_below(std::string_view name, const Ask& ask) {
  for (;; name.remove_prefix(name.find('.') + 1)) {
    if (const std::optional<bool> answer = ask(name)) return answer;
    if (name.find('.') == name.npos) return {};
  }
}

// A map of transformers has the names in memory on its left side; of a published name its line says which that is.
class Kept {
 public:
  Kept(const ModelMap& map, std::vector<std::string> pieces)
      : map_(map), pieces_(std::move(pieces)), published_(map_, Side::kRight), is_kept_(map_.lines.size()) {
    const bool is_of_memory = std::string_view(map_.name).substr(0, map_.name.rfind(".map")).ends_with(".transformers");
    for (size_t l = 0; l < map_.lines.size(); ++l)
      for (const Tensor& t : map_.lines[l].sides[is_of_memory ? 0 : 1])
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
  bool has_piece(std::string_view name) const {
    return std::ranges::any_of(pieces_, [&](const std::string& piece) { return name.find(piece) != name.npos; });
  }

  const ModelMap map_;
  const std::vector<std::string> pieces_;
  const Takers published_;
  std::vector<bool> is_kept_;  // by line
};

}  // namespace

KeepsFloat32 kept_in_float32(const ModelMap& map, DType as) {
  std::vector<std::string> pieces;
  for (const Keep& k : map.keeps)
    if (bytes_of(as) < bytes_of(DType::float32) && (!k.only_float16 || as == DType::float16)) pieces.push_back(k.piece);
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
