// The values of sizes, and their origins. Sizes of `size` lines and indexes hold for the whole map, all other axes for one match of a line.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

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
  const Tensor* tensor = nullptr;
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

}  // namespace dcp::maps
