#include "catalog/mirrored_state.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "catalog/state_names.h"
#include "catalog/state_tree.h"

namespace dcp {
namespace {

constexpr size_t kLevels = 3;      // words between a top and the names that it repeats: `adam`, `adam.m`, `adam.0.m`
constexpr size_t kReferences = 4;  // dirs that hold the same name: more are as good as these

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}
uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>{}(text); }

// Tensors below a prefix of a level of a top, and how many of them each dir that could be repeated has as well.
struct Repeated {
  uint32_t top = kNone;
  uint64_t tensors = 0;
  bool has_dots = false;       // in its names,
  bool in_state_dict = false;  // and in one component of a path
  std::array<uint32_t, kReferences> of{kNone, kNone, kNone, kNone};
  std::array<uint64_t, kReferences> found{};
};

class MirrorFinder {
 public:
  MirrorFinder(const Catalog& c, const StateTree& tree, const std::vector<MirrorQuestion>& questions)
      : c_(c), tree_(tree), top_(tree.dirs(), kNone), is_optimizers_(tree.dirs()) {
    std::vector<bool> holds_top(tree.dirs());
    for (const MirrorQuestion& q : questions) {
      top_[q.dir] = q.dir;
      is_optimizers_[q.dir] = q.is_optimizers;
      holds_top[tree.dir(q.dir).parent] = true;
    }
    mark(holds_top);
  }

  std::vector<Mirror> find() {
    for (size_t k = 0; k < tree_.keys(); ++k)
      if (counts(k)) note_names(k);
    for (size_t k = 0; k < tree_.keys(); ++k)
      if (counts(k) && top_[tree_.dir_of(k)] != kNone) look(k);
    return verdict();
  }

 private:
  // Whose names may be repeated: roots of models, and what stands beside a top or holds it. Of each path the highest and the deepest.
  void mark(const std::vector<bool>& holds_top) {
    highest_.assign(tree_.dirs(), 0);
    deepest_.assign(tree_.dirs(), 0);
    for (uint32_t d = 1; d < tree_.dirs(); ++d) {
      const StateTree::Dir& dir = tree_.dir(d);
      if (top_[d] == kNone) top_[d] = top_[dir.parent];
      const bool is_marked = is_root_name(dir.name) || holds_top[dir.parent] || holds_top[d];
      highest_[d] = highest_[dir.parent] == 0 && is_marked ? d : highest_[dir.parent];
      deepest_[d] = is_marked ? d : deepest_[dir.parent];
    }
  }

  bool counts(size_t k) const { return tree_.tensor(k) && !tree_.signs()[k] && c_.elements(*tree_.tensor(k)) > 1; }
  std::string_view below(size_t k, uint32_t dir) const {
    const std::string_view key = tree_.key(k);
    return key.substr(std::min<uint64_t>(tree_.dir(dir).text_end, key.size()));
  }
  uint64_t named(size_t k, std::string_view name) const {
    uint64_t hash = hash_of(name);
    for (const int64_t size : c_.dims(*tree_.tensor(k))) hash = mixed(hash, static_cast<uint64_t>(size));
    return hash;
  }

  void note_names(size_t k) {
    const uint32_t at = tree_.dir_of(k);
    uint32_t last = kNone;
    for (const uint32_t dir : {uint32_t{0}, highest_[at], deepest_[at]}) {
      if (dir == last) continue;
      last = dir;
      std::array<uint32_t, kReferences>& of = names_.try_emplace(named(k, below(k, dir)), kNoDirs).first->second;
      if (const auto free = std::ranges::find(of, kNone); free != of.end()) *free = dir;
    }
  }

  void look(size_t k) {
    const uint32_t top = top_[tree_.dir_of(k)];
    ++totals_[top];
    const std::string_view all = below(k, top);
    std::string_view name = all;
    for (size_t level = 0; level < kLevels && !name.empty(); ++level) {
      Repeated& r = prefixes_[level][mixed(top, hash_of(all.substr(0, all.size() - name.size())))];
      r.top = top;
      ++r.tensors;
      r.has_dots = r.has_dots || r.tensors > 1 || has_dots(name);
      r.in_state_dict = r.in_state_dict || (has_dots(name) && has_dots(tree_.leaf(k)));
      if (const auto it = names_.find(named(k, name)); it != names_.end())
        for (const uint32_t dir : it->second)
          if (dir != kNone && top_[dir] != top) add(r, dir);
      const size_t dot = name.find('.');
      name = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
    }
  }
  static void add(Repeated& r, uint32_t dir) {
    for (size_t i = 0; i < kReferences; ++i) {
      if (r.of[i] == kNone) r.of[i] = dir;
      if (r.of[i] != dir) continue;
      ++r.found[i];
      return;
    }
  }

  bool is_repetition(const Repeated& r, size_t level) const {
    for (size_t i = 0; i < kReferences; ++i) {
      if (r.found[i] != r.tensors) continue;
      const bool any_names = level > 0 && r.has_dots && (is_optimizers_[r.top] || is_root_name(tree_.dir(r.of[i]).name));
      if (r.in_state_dict || any_names) return true;
    }
    return false;
  }

  std::vector<Mirror> verdict() const {
    std::vector<Mirror> out(tree_.dirs(), Mirror::kAbsent);
    for (size_t level = 0; level < kLevels; ++level) {
      struct Sum {
        uint64_t prefixes = 0, tensors = 0;
      };
      std::unordered_map<uint32_t, Sum> sums;  // by top
      for (const auto& [prefix, r] : prefixes_[level]) {
        if (!is_repetition(r, level)) continue;
        Sum& sum = sums[r.top];
        ++sum.prefixes;
        sum.tensors += r.tensors;
      }
      for (const auto& [top, sum] : sums)
        if (2 * sum.tensors > totals_.at(top))
          out[top] = std::max(out[top], level == 0 ? Mirror::kItself : sum.prefixes == 1 ? Mirror::kOnce : Mirror::kTwice);
    }
    return out;
  }

  static constexpr std::array<uint32_t, kReferences> kNoDirs{kNone, kNone, kNone, kNone};
  const Catalog& c_;
  const StateTree& tree_;
  std::vector<uint32_t> top_;  // by dir, as the next: the top at or above it
  std::vector<bool> is_optimizers_;
  std::vector<uint32_t> highest_, deepest_;                                // 0: the root itself
  std::unordered_map<uint64_t, std::array<uint32_t, kReferences>> names_;  // with their shapes: dirs that have them
  std::array<std::unordered_map<uint64_t, Repeated>, kLevels> prefixes_;
  std::unordered_map<uint32_t, uint64_t> totals_;  // by top
};

}  // namespace

std::vector<Mirror> find_mirrors(const Catalog& catalog, const StateTree& tree, const std::vector<MirrorQuestion>& questions) {
  return questions.empty() ? std::vector<Mirror>(tree.dirs(), Mirror::kAbsent) : MirrorFinder(catalog, tree, questions).find();
}

}  // namespace dcp
