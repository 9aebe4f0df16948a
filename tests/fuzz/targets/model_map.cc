// A model map, a configuration and tensors that meet it. The input is the map, a line ----, config.json, another ---- and a tensor a line:
// its key, then its dims. What is resolved moves every element once, and the other direction brings it back.
#include <sstream>

#include "fuzz.h"
#include "unit/maps/mapped.h"

namespace dcp::fuzz {
namespace {

constexpr int64_t kMaxElements = 4096;

test::MadeTensors tensors_of(const std::string& text) {
  std::vector<std::pair<std::string, test::Shape>> list;
  std::istringstream lines(text);
  int64_t elements = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    if (!(words >> key)) continue;
    test::Shape shape;
    int64_t volume = 1;
    for (int64_t d = 0; words >> d && shape.size() < 8;) {
      if (d < 0 || d > kMaxElements || (volume *= d) > kMaxElements) return test::made(list);
      shape.push_back(d);
    }
    if ((elements += volume) > kMaxElements) break;
    list.emplace_back(std::move(key), std::move(shape));
  }
  return test::made(list);
}

bool has_zeros(const maps::Mapping& r) {
  for (const IndexMap& map : r.targets)
    for (const IndexBlock& b : map.blocks)
      if (b.source == IndexBlock::kZeros) return true;
  return false;
}

}  // namespace

void run(Bytes input) {
  std::string rest(as_text(input));
  std::vector<std::string> parts;
  for (size_t end = 0; parts.size() < 2 && (end = rest.find("\n----\n")) != std::string::npos; rest = rest.substr(end + 6))
    parts.push_back(rest.substr(0, end));
  parts.push_back(rest);
  parts.resize(3);
  const Limits limits{.map_bytes = 64 * kKiB, .map_blocks = 256, .map_targets = 1 << 12, .map_pieces = 1 << 16};
  const maps::ModelMap map = maps::read_map(parts[0], "a.map", limits);
  const maps::Config config = maps::Config::read(parts[1].empty() ? "{}" : parts[1], "config.json", limits);
  const test::MadeTensors tensors = tensors_of(parts[2]);
  const auto resolved = [&](std::optional<maps::Side> from, const test::MadeTensors& sources) {
    std::vector<maps::MapSource> list;
    for (const auto& [key, t] : sources) list.push_back({.key = key, .dtype = DType::float32, .shape = t.shape});
    return maps::apply_map(map, config, {.from = from}, list, limits);
  };
  const maps::Mapping there = resolved({}, tensors);
  if (!there.problems.empty()) return;
  int64_t elements = 0;
  for (const IndexMap& m : there.targets)
    if ((elements += test::volume_of(m.shape)) > 4 * kMaxElements) return;
  const test::MadeTensors made =
      test::carried_out(there, tensors);  // throws what is no Error for an element that is written twice or never
  // What is dropped, made up or made twice does not come back; what is named in several ways comes back under the first.
  const bool loses = !there.left_out.empty() || !there.ties.empty() || has_zeros(there) || !there.not_made.empty();
  if (loses || made.size() != there.targets.size()) return;
  try {
    const maps::Mapping back = resolved(maps::other(there.from), made);
    if (!back.problems.empty() || has_zeros(back)) return;
    const test::MadeTensors again = test::carried_out(back, made);
    for (const auto& [key, t] : again)
      if (tensors.contains(key)) must(t == tensors.at(key), "what comes back under its name is what it was");
  } catch (const Error&) {
    // Sizes that only the other side's shapes show.
  }
}

}  // namespace dcp::fuzz
