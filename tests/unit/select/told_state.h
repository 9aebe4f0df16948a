// Catalogs for tables of what is model and what is training state. "opt/state/#0/exp_avg" is a key with its path, '!' before it an object, '.' in
// a component stays in it; `[4]` after it are its dims, [2, 2] unless given. Without planner data the slashes are dots.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "catalog/build.h"
#include "catalog/made_checkpoint.h"
#include "select/training_state.h"

namespace dcp::test {

using Lines = std::vector<std::string>;

inline Catalog catalog_of(const Lines& lines, bool planner_data = true) {
  MadeCheckpoint made;
  made.planner_data = planner_data;
  for (std::string line : lines) {
    const bool object = line.starts_with('!');
    if (object) line.erase(0, 1);
    Ints dims{2, 2};
    if (const size_t at = line.find(" ["); at != std::string::npos) {
      dims.clear();
      if (line[at + 2] != ']') dims.push_back(std::stoll(line.substr(at + 2)));
      line.resize(at);
    }
    Lines path;
    std::string key;
    for (size_t at = 0; at <= line.size();) {
      const size_t end = std::min(line.find('/', at), line.size());
      path.push_back(line.substr(at, end - at));
      key += (key.empty() ? "" : ".") + (path.back().starts_with('#') ? path.back().substr(1) : path.back());
      at = end + 1;
    }
    if (object) made.blobs.push_back({.key = key, .pickle = {}, .path = path});
    else made.tensors.push_back({.key = key, .dtype = DType::float32, .dims = dims, .chunks = {whole_chunk(dims)}, .path = path});
  }
  return build_catalog(made.content(), "ckpt", "ckpt").catalog;
}

// "model: ROOT", then "PATH: sign" of each group.
inline Lines told(const Lines& lines, bool planner_data = true) {
  static constexpr const char* kSigns[] = {"param_groups", "slots", "name", "beside"};
  const TrainingState s = find_training_state(catalog_of(lines, planner_data));
  Lines out;
  for (const KeyGroup& m : s.models) out.push_back("model: " + m.path);
  for (const KeyGroup& g : s.groups) out.push_back(g.path + ": " + kSigns[static_cast<size_t>(g.sign)]);
  return out;
}
inline Lines flat(const Lines& lines) { return told(lines, false); }

}  // namespace dcp::test
