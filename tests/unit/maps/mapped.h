// Tensors whose elements know who they are, and a map carried out on them one element at a time: what a resolved map says, as plainly as it
// can be done.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/error_line.h"
#include "maps/apply_map.h"
#include "maps/config.h"
#include "maps/model_map.h"

namespace dcp::test {

using Shape = std::vector<int64_t>;

// An element: which tensor, and where in it. -1 is a zero of a padding; -2 is what no block has written.
struct MadeTensor {
  Shape shape;
  std::vector<int64_t> elements;
};
using MadeTensors = std::map<std::string, MadeTensor>;

inline int64_t volume_of(const Shape& shape) {
  int64_t all = 1;
  for (const int64_t d : shape) all *= d;
  return all;
}

// Each element of all tensors another number.
inline MadeTensors made(const std::vector<std::pair<std::string, Shape>>& list) {
  MadeTensors all;
  int64_t next = 0;
  for (const auto& [key, shape] : list) {
    MadeTensor& t = all[key];
    t = {shape, {}};
    for (int64_t n = volume_of(shape); n > 0; --n) t.elements.push_back(next++);
  }
  return all;
}

// A map, a configuration and settings that are tried on several checkpoints.
struct Trial {
  std::string map;
  std::string config = "{}";
  std::vector<std::string> sets{};
  maps::MapOptions options{};

  maps::ModelMap read() const { return maps::read_map(map, "a.map", {}); }
  maps::Mapping resolve(const MadeTensors& tensors) const { return resolve(read(), tensors); }
  maps::Mapping resolve(const maps::ModelMap& model, const MadeTensors& tensors) const {
    maps::MapOptions o = options;
    for (const std::string& s : sets) o.settings.push_back({s.substr(0, s.find('=')), s.substr(s.find('=') + 1)});
    std::vector<maps::MapSource> sources;
    for (const auto& [key, t] : tensors) sources.push_back({.key = key, .dtype = DType::float32, .shape = t.shape});
    return maps::apply_map(model, maps::Config::read(config, "config.json", {}), o, sources, {});
  }
};

inline MadeTensor carried_out(const IndexMap& map, const MadeTensors& sources) {
  std::vector<const MadeTensor*> by_id;
  for (const auto& [key, t] : sources) by_id.push_back(&t);
  MadeTensor out{map.shape, std::vector<int64_t>(static_cast<size_t>(volume_of(map.shape)), -2)};
  const auto place = [](const Shape& shape, const Shape& at) {
    int64_t all = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (at[d] < 0 || at[d] >= shape[d]) throw std::runtime_error("an element outside its tensor");
      all = all * shape[d] + at[d];
    }
    return static_cast<size_t>(all);
  };
  for (const IndexBlock& block : map.blocks) {
    int64_t count = 1;
    for (const IndexAxis& a : block.axes) count *= a.size;
    for (int64_t n = 0; n < count; ++n) {
      Shape to = block.target_at, from = block.source_at;
      int64_t left = n;
      for (const IndexAxis& a : block.axes) {
        const int64_t i = left % a.size;
        left /= a.size;
        to[a.target_dim] += i * a.target_step;
        if (block.source != IndexBlock::kZeros) from[a.source_dim] += i * a.source_step;
      }
      int64_t& element = out.elements[place(map.shape, to)];
      if (element != -2) throw std::runtime_error("an element of " + map.key + " is written twice");
      element = block.source == IndexBlock::kZeros ? -1 : by_id[block.source]->elements[place(by_id[block.source]->shape, from)];
    }
  }
  if (std::ranges::find(out.elements, -2) != out.elements.end()) throw std::runtime_error("an element of " + map.key + " is not written");
  return out;
}

inline MadeTensors carried_out(const maps::Mapping& resolved, const MadeTensors& sources) {
  if (!resolved.problems.empty()) throw Error(resolved.problems[0]);
  MadeTensors out;
  for (const IndexMap& map : resolved.targets) out[map.key] = carried_out(map, sources);
  return out;
}

inline bool operator==(const MadeTensor& a, const MadeTensor& b) { return a.shape == b.shape && a.elements == b.elements; }

inline std::vector<std::string> keys_of(const MadeTensors& tensors) {
  std::vector<std::string> all;
  for (const auto& [key, t] : tensors) all.push_back(key);
  return all;
}

}  // namespace dcp::test
