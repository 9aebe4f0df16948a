// The values of sizes, and their origins. Sizes of `size` lines and indexes hold for the whole map, all other axes for one match of a line.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "maps/config.h"
#include "maps/model_map.h"

namespace dcp::maps {

struct Known {
  enum class From : uint8_t { kNothing, kNumber, kSetting, kSizeLine, kNames, kShape };
  From from = From::kNothing;
  uint32_t at = 0;  // kSizeLine: in ModelMap::sizes; kNames, kShape: a source
  uint64_t value = 0;
  explicit operator bool() const { return from != From::kNothing; }
};

using Values = std::vector<Known>;  // by word

// A tensor of a line, and its shape in the checkpoint.
struct Shaped {
  const LineTensor* tensor = nullptr;
  std::span<const int64_t> shape;
  uint32_t source = 0;
};

class Sizes {
 public:
  // Starts from the settings and the configuration. Throws map_config, map_size_remainder.
  Sizes(const ModelMap& map, const Config& config, const std::vector<Setting>& settings);

  const Values& global() const { return global_; }
  bool is_global(Word word) const { return is_global_[word]; }
  void set_index(Word word, uint64_t size, uint32_t source);

  // Solves for what the shapes of one match tell, including sizes that hold for the whole map. Leaves the rest unknown.
  void learn(std::span<const Shaped> tensors);
  // All axes of one match. Throws map_size_unknown, map_size_differs, map_size_remainder; `keys` are the names of sources.
  Values solve(std::span<const Shaped> tensors, const std::vector<std::string_view>& keys) const;
  // The dims of one match whose sizes are known. Throws as solve().
  void compare(std::span<const Shaped> tensors, const std::vector<std::string_view>& keys) const;

  // "h = 4 (num_attention_heads of config.json)".
  std::string describe(Word word, const Values& values, const std::vector<std::string_view>& keys) const;
  // Its value; throws map_size_unknown at `spot`.
  uint64_t need(Word word, const Values& values, Spot spot) const;

 private:
  std::optional<uint64_t> evaluate(const Expression& e, const Values& values) const;
  std::vector<Word> unknown_in(const Axis& axis, const Values& values) const;
  bool learn_once(const Shaped& t, Values& values) const;
  bool evaluate_local(Values& values) const;
  void check(const Shaped& t, const Values& values, const std::vector<std::string_view>& keys, bool may_lack) const;
  Values solved(std::span<const Shaped> tensors) const;

  const ModelMap& map_;
  const Config& config_;
  std::vector<bool> is_global_;
  Values global_;
  std::vector<Word> same_;  // of `size u = g`: g
};

// The words of an axis, each once.
std::vector<Word> words_of(const Axis& axis);

// Expands a dim of products and sums: one part per choice of summands, and where its elements lie.

struct Step {
  Word word = 0;
  uint64_t size = 1, step = 1;  // in indices of the dim
};

struct Part {
  uint64_t offset = 0;
  std::vector<Step> steps;  // as the text names them
};

struct Extent {
  uint64_t size = 1;
  std::vector<Part> parts;  // in the order of the text, the last factor's summands changing fastest
};

// Sizes come from `size_of`. Throws map_too_many for more than `max` parts, and for a size beyond 62 bits.
Extent expand(const ModelMap& map, const Axis& axis, const std::function<uint64_t(Word)>& size_of, uint64_t max);

// The parts of a line's tensor: where each lies and along which words it extends, with the sizes of one match.

// A part of a tensor, expanded over its dims, with the sizes of one match.
struct Piece {
  std::vector<int64_t> at;  // in each dim
  struct Along {
    Word word = 0;
    uint32_t dim = 0;
    uint64_t size = 1, step = 1;
  };
  std::vector<Along> axes;
};

struct Grid {
  std::vector<int64_t> shape;
  std::vector<Piece> pieces;  // in the order in which the proof counts blocks
};

// Sizes come from `size_of`. Throws map_too_many.
Grid grid_of(const ModelMap& map, const LineTensor& tensor, const std::function<uint64_t(Word, Spot)>& size_of, const Limits& limits);

// Throws map_too_many unless a tensor can have so many elements.
void check_elements(const ModelMap& map, const LineTensor& tensor, const Grid& grid);

}  // namespace dcp::maps
