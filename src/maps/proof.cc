#include "maps/proof.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/text.h"
#include "maps/names.h"
#include "maps/sizes.h"

namespace dcp::maps {
namespace {

using Axes = std::vector<Word>;  // sorted

struct BlockAt {
  uint32_t tensor = 0, block = 0;
};

class Proof {
 public:
  Proof(ModelMap& map, const Limits& limits) : map_(map), limits_(limits) {}

  void run() {
    for (Line& line : map_.lines) {
      for (const auto& side : line.sides)
        for (const LineTensor& t : side) counted_on(t);
      line.outer = outer(line);
      if (!line.is_rest) pair(line);
    }
    for (const Node& n : map_.nodes) indexes(n);
    for (const Side side : {Side::kLeft, Side::kRight}) apart(side);
  }

 private:
  std::string names_of(const Axes& axes) const {
    return axes.empty() ? "no axes" : joined(axes, " ", [&](Word w) { return map_.word(w); });
  }

  // What an index counts on from holds for the whole map.
  void counted_on(const LineTensor& t) const {
    for (const Name& name : t.names)
      for (const NamePart& p : name.parts)
        for (const Word w : p.after)
          if (!map_.is_index[w] && !std::ranges::any_of(map_.sizes, [&](const Size& s) { return s.word == w && !s.is_local; }))
            fail_at(map_, name.spot, ProblemId::map_syntax, "an index that counts on from " + map_.word(w),
                    "the name of an index or a size");
  }

  static Axes outer(const Line& line) {
    Axes common;
    bool is_first = true;
    for (const auto& side : line.sides) {
      for (const LineTensor& t : side) {
        if (is_first) common = t.indexes;
        else std::erase_if(common, [&](Word w) { return std::ranges::find(t.indexes, w) == t.indexes.end(); });
        is_first = false;
      }
    }
    return common;
  }

  void pair(Line& line) {
    std::array<std::map<Axes, BlockAt>, 2> blocks;
    const bool has_both = !line.sides[0].empty() && !line.sides[1].empty();
    for (size_t s = 0; s < 2; ++s) {
      for (uint32_t t = 0; t < line.sides[s].size(); ++t) multiply_out(line.sides[s][t], t, blocks[s]);
    }
    if (!has_both) return;
    for (size_t s = 0; s < 2; ++s) {
      for (const auto& [axes, piece] : blocks[s]) {
        const auto it = blocks[1 - s].find(axes);
        if (it == blocks[1 - s].end()) {
          if (is_padding(axes)) continue;
          const std::string_view here = name_of(static_cast<Side>(s)), there = name_of(static_cast<Side>(1 - s));
          fail_at(map_, line.sides[s][piece.tensor].spot, ProblemId::map_axes_differ,
                  "a part with " + names_of(axes) + " on the " + std::string(here),
                  blocks[1 - s].size() == 1
                      ? "it on the " + std::string(there) + ", where there is " + names_of(blocks[1 - s].begin()->first)
                      : "it on the " + std::string(there));
        }
        if (s == 0) line.pairs.push_back({{piece.tensor, it->second.tensor}, {piece.block, it->second.block}});
      }
    }
  }

  bool is_padding(const Axes& axes) const {
    return std::ranges::any_of(axes, [&](Word w) { return map_.word(w).starts_with("pad"); });
  }

  void multiply_out(const LineTensor& t, uint32_t tensor, std::map<Axes, BlockAt>& blocks) const {
    const auto one = [](Word) { return uint64_t{1}; };
    std::vector<Axes> all{t.indexes};
    for (const Axis& dim : t.dims) {
      const Extent extent = expand(map_, dim, one, limits_.map_blocks);
      if (all.size() * extent.parts.size() > limits_.map_blocks)
        fail_at(map_, dim.spot, ProblemId::map_too_many, "more than " + std::to_string(limits_.map_blocks) + " parts of a tensor",
                "fewer sums");
      std::vector<Axes> next;
      for (const Axes& before : all) {
        for (const Part& part : extent.parts) {
          Axes& axes = next.emplace_back(before);
          for (const Step& step : part.steps) axes.push_back(step.word);
        }
      }
      all = std::move(next);
    }
    for (uint32_t b = 0; b < all.size(); ++b) {
      std::ranges::sort(all[b]);
      if (const auto twice = std::ranges::adjacent_find(all[b]); twice != all[b].end())
        fail_at(map_, t.spot, ProblemId::map_axis_twice, map_.word(*twice) + " in " + to_text(map_, t.names[0]),
                "each axis or number once");
      if (!blocks.try_emplace(all[b], BlockAt{tensor, b}).second)
        fail_at(map_, t.spot, ProblemId::map_parts_alike, "two parts with " + names_of(all[b]));
      if (blocks.size() > limits_.map_blocks)
        fail_at(map_, t.spot, ProblemId::map_too_many, "more than " + std::to_string(limits_.map_blocks) + " parts of a side",
                "fewer tensors or sums");
    }
  }

  // Those that all lines of a block have.
  Axes indexes(const Node& node) {
    if (!node.is_block) return map_.lines[node.at].outer;
    Axes common;
    bool is_first = true;
    for (const Branch& branch : map_.blocks[node.at].branches) {
      for (const Node& inner : branch.nodes) {
        const Axes its = indexes(inner);
        if (is_first) common = its;
        else std::erase_if(common, [&](Word w) { return std::ranges::find(its, w) == its.end(); });
        is_first = false;
      }
    }
    if (Block& block = map_.blocks[node.at]; block.required.empty()) block.indexes = common;
    return common;
  }

  struct Taker {
    uint32_t line = 0;
    const Name* name = nullptr;
    Pattern pattern;
    int64_t variable = -1, value = 0;
  };

  // No two lines have a name in common.
  void apart(Side side) const {
    std::unordered_map<std::string, std::vector<Taker>> by_form;
    for (uint32_t l = 0; l < map_.lines.size(); ++l) {
      for (const LineTensor& t : map_.lines[l].on(side))
        for (const Name& name : t.names)
          for (Taker& taker : takers(l, name)) {
            auto& group = by_form[taker.pattern.is_rest ? std::string("{*}") : taker.pattern.form];
            for (const Taker& o : group) check(o, taker, side);
            group.push_back(std::move(taker));
          }
    }
  }

  std::vector<Taker> takers(uint32_t line, const Name& name) const {
    std::vector<uint32_t> values(map_.variables.size());
    std::vector<Taker> all;
    const auto used = std::ranges::find(name.parts, NamePart::Kind::kVariable, &NamePart::kind);
    if (used == name.parts.end()) {
      all.push_back({line, &name, pattern_of(map_, name, values)});
      return all;
    }
    if (std::ranges::count(name.parts, NamePart::Kind::kVariable, &NamePart::kind) > 1)
      fail_at(map_, name.spot, ProblemId::map_syntax, "two pieces in " + to_text(map_, name), "at most one '$' in a name");
    for (uint32_t& v = values[used->variable]; v < map_.variables[used->variable].values.size(); ++v)
      all.push_back({line, &name, pattern_of(map_, name, values), used->variable, v});
    return all;
  }

  void check(const Taker& a, const Taker& b, Side side) const {
    if (a.variable >= 0 && a.variable == b.variable && a.value != b.value) return;
    if ((a.line != b.line && are_parted(map_.lines[a.line], map_.lines[b.line])) || !overlap(a.pattern, b.pattern)) return;
    fail_at(map_, b.name->spot, ProblemId::map_lines_overlap,
            to_text(map_, *b.name) + " on the " + std::string(name_of(side)) + ", and " + to_text(map_, *a.name) + " in line " +
                std::to_string(a.name->spot.line));
  }

  static bool are_parted(const Line& a, const Line& b) {
    for (const Within& x : a.within)
      for (const Within& y : b.within)
        if (x.block == y.block && x.branch != y.branch) return true;
    for (const Condition& x : a.conditions)
      for (const Condition& y : b.conditions)
        if (x.unless != y.unless && x.paths == y.paths) return true;
    return false;
  }

  ModelMap& map_;
  const Limits& limits_;
};

}  // namespace

void prove(ModelMap& map, const Limits& limits) { Proof(map, limits).run(); }

}  // namespace dcp::maps
