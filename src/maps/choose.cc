#include "maps/choose.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "maps/config.h"

namespace dcp::maps {
namespace {

constexpr size_t kMaxProblems = 1000;  // that are listed by themselves

// What a part of the map finds in the checkpoint.
struct Attempt {
  std::vector<Match> matches;
  std::vector<uint32_t> partial;  // sources of matches that lack others
  std::vector<std::pair<Spot, std::string>> missing;
  uint64_t found = 0, lacking = 0;  // sources; of the missing ones, only the first are listed

  void miss(Spot spot, std::string name) {
    if (++lacking <= kMaxProblems) missing.emplace_back(spot, std::move(name));
  }
  void add(Attempt more) {
    std::ranges::move(more.matches, std::back_inserter(matches));
    partial.insert(partial.end(), more.partial.begin(), more.partial.end());
    for (auto& m : more.missing)
      if (missing.size() < kMaxProblems) missing.push_back(std::move(m));
    found += more.found;
    lacking += more.lacking;
  }
};

using Bound = std::vector<std::pair<Word, uint64_t>>;  // indexes that have a value

// What keys say of the map as a whole: which values the pieces of names have, and how far indexes go.
class Measure {
 public:
  struct Query {
    const ModelMap& map;
    const std::vector<Setting>& settings;
    const std::vector<std::string_view>& keys;
    const std::vector<bool>& is_active;  // by line
    Side from;
  };
  Measure(const Query& q, Sizes& sizes, Chosen& out)
      : map_(q.map), settings_(q.settings), keys_(q.keys), is_active_(q.is_active), sizes_(sizes), takers_(q.map, q.from), out_(out) {
    is_base_.resize(map_.words.size());
    for (const Line& line : map_.lines)
      for (const auto& side : line.sides)
        for (const LineTensor& t : side)
          for (const Name& n : t.names)
            for (const NamePart& p : n.parts)
              for (const Word w : p.after) is_base_[w] = true;
  }

  // The keys that have problems.
  std::vector<uint32_t> run() {
    choose_variables();
    measure();
    return std::move(problem_keys_);
  }

 private:
  template <class Visit>
  void for_each_fit(uint32_t source, const Visit& visit) {
    std::vector<uint64_t> found;
    const Key key = key_of(keys_[source]);
    for (const Taker& t : takers_.of_form(key))
      if (is_active_[t.line] && fits(t.pattern, key, found)) visit(t, found);
  }

  // Of the values of a piece of names, the one that most keys have.
  void choose_variables() {
    if (map_.variables.empty()) return;
    std::vector<std::vector<uint64_t>> counts;
    for (const Variable& v : map_.variables) counts.emplace_back(v.values.size());
    for (uint32_t s = 0; s < keys_.size(); ++s)
      for_each_fit(s, [&](const Taker& t, const auto&) {
        if (t.variable >= 0) ++counts[static_cast<size_t>(t.variable)][t.value];
      });
    for (size_t v = 0; v < counts.size(); ++v) {
      out_.variables[v] = static_cast<uint32_t>(std::ranges::max_element(counts[v]) - counts[v].begin());
      for (const Setting& s : settings_) {
        if (s.name != map_.variables[v].name) continue;
        const auto it = std::ranges::find(map_.variables[v].values, s.value);
        if (it == map_.variables[v].values.end())
          fail_at(map_, map_.variables[v].spot, ProblemId::map_setting, s.name + "=" + s.value, "one of the values in this line");
        out_.variables[v] = static_cast<uint32_t>(it - map_.variables[v].values.begin());
      }
    }
  }

  bool is_chosen(const Taker& t) const { return t.variable < 0 || out_.variables[static_cast<size_t>(t.variable)] == t.value; }

  // The ranges of indexes: of those without a declared size, up to the highest number.
  void measure() {
    seen_.resize(map_.words.size());
    const Values declared = sizes_.global();
    for (const bool counts_on : {false, true}) {
      for (uint32_t s = 0; s < keys_.size(); ++s) measure(s, counts_on, declared);
      for (Word w = 0; w < seen_.size(); ++w) {
        if (!declared[w] && !seen_[w].numbers.empty()) sizes_.set_index(w, seen_[w].numbers.size(), seen_[w].source);
      }
    }
    for (Word w = 0; w < seen_.size(); ++w) {
      const auto gap = std::ranges::find(seen_[w].numbers, false);
      if (declared[w] || gap == seen_[w].numbers.end()) continue;
      fail_gap(w, static_cast<uint64_t>(gap - seen_[w].numbers.begin()), seen_[w].numbers.size() - 1);
    }
  }

  [[noreturn]] void fail_gap(Word w, uint64_t gap, uint64_t highest) const {
    Problem p = problem_at(map_, seen_[w].spot, ProblemId::map_index_gap, "no " + std::to_string(gap) + " for {" + map_.word(w) + "}",
                           "0 to " + std::to_string(highest));
    p.place.tensor = keys_[seen_[w].source];
    throw Error(std::move(p));
  }

  void measure(uint32_t source, bool counts_on, const Values& declared) {
    bool is_shared = false, is_within = false;
    const Taker* beyond = nullptr;
    const Name*& name = out_.name[source];
    std::vector<uint64_t> too_high;
    for_each_fit(source, [&](const Taker& t, const auto&) { is_shared = is_shared || (t.counts_on && is_chosen(t)); });
    if (is_shared != counts_on) return;
    for_each_fit(source, [&](const Taker& t, const std::vector<uint64_t>& found) {
      if (!is_chosen(t)) return;
      if (name == nullptr) name = t.name;
      if (is_in_range(t, found, source, declared, is_shared)) is_within = true;
      else beyond = &t, too_high = found;
    });
    if (name == nullptr || is_within) return;
    problem_keys_.push_back(source);
    const Taker& t = *beyond;
    std::string ranges;
    for (const Word w : t.indexes)
      if (sizes_.global()[w]) ranges += (ranges.empty() ? "below " : ", below ") + sizes_.describe(w, sizes_.global(), keys_);
    std::string numbers;
    for (const uint64_t number : too_high) numbers += (numbers.empty() ? "" : " and ") + std::to_string(number);
    Problem p = problem_at(map_, t.name->spot, ProblemId::map_size_differs, numbers, ranges);
    p.what = "more of these than the map's sizes say";
    p.place.tensor = keys_[source];
    out_.problems.push_back(std::move(p));
  }

  // Whether the numbers are within the taker's ranges; widens those that names decide.
  bool is_in_range(const Taker& t, const std::vector<uint64_t>& found, uint32_t source, const Values& declared, bool is_shared) {
    std::vector<std::pair<Word, uint64_t>> numbers;
    size_t i = 0;
    for (const NamePart& p : t.name->parts) {
      if (p.kind != NamePart::Kind::kIndex) continue;
      uint64_t start = p.plus;
      for (const Word w : p.after) start += sizes_.need(w, sizes_.global(), t.name->spot);
      const uint64_t number = found[i++];
      if (number < start) return false;
      if (is_shared && is_base_[p.index]) {  // where {m+l} may follow, {l} must know its end
        if (number - start >= sizes_.need(p.index, sizes_.global(), t.name->spot)) return false;
        continue;
      }
      if (declared[p.index] && number - start >= declared[p.index].value) return false;
      numbers.emplace_back(p.index, number - start);
    }
    for (const auto& [w, number] : numbers) {
      Seen& seen = seen_[w];
      if (declared[w]) continue;
      if (number >= seen.numbers.size()) {
        seen.spot = t.name->spot;
        seen.source = source;
        if (number >= keys_.size()) fail_gap(w, seen.numbers.size(), number);
        seen.numbers.resize(number + 1);
      }
      seen.numbers[number] = true;
    }
    return true;
  }

  struct Seen {
    std::vector<bool> numbers;
    uint32_t source = 0;  // with the highest
    Spot spot;
  };

  const ModelMap& map_;
  const std::vector<Setting>& settings_;
  const std::vector<std::string_view>& keys_;
  const std::vector<bool>& is_active_;
  Sizes& sizes_;
  Takers takers_;
  std::vector<bool> is_base_;  // by word: another index counts on from it
  std::vector<Seen> seen_;     // by word
  std::vector<uint32_t> problem_keys_;
  Chosen& out_;
};

class Choice {
 public:
  Choice(const ChooseQuery& q, Sizes& sizes, const Limits& limits)
      : map_(q.map),
        from_(q.from),
        config_(q.config),
        settings_(q.settings),
        keys_(q.keys),
        may_lack_(q.may_lack),
        may_be_filled_(q.may_be_filled),
        sizes_(sizes),
        limits_(limits) {
    for (const Line& line : map_.lines) is_active_.push_back(holds(line.conditions, config_));
    for (uint32_t i = 0; i < keys_.size(); ++i) by_key_[keys_[i]] = i;
    out_.variables.resize(map_.variables.size());
    out_.name.resize(keys_.size());
    out_.is_taken.resize(keys_.size());
  }

  Chosen run() {
    std::vector<uint32_t> problem_keys = Measure({map_, settings_, keys_, is_active_, from_}, sizes_, out_).run();
    Attempt all = attempt(map_.nodes, {});
    for (const Match& m : all.matches)
      for (const auto& tensor : m.sources)
        for (const uint32_t s : tensor) out_.is_taken[s] = true;
    problem_keys.insert(problem_keys.end(), all.partial.begin(), all.partial.end());
    for (const uint32_t s : problem_keys) out_.is_taken[s] = true;  // another problem names what is wrong with them
    for (auto& [spot, name] : all.missing) {
      Problem p = problem_at(map_, spot, ProblemId::map_tensor_missing);
      if (const std::string original = original_of(name); by_key_.contains(original)) {
        p.got = "only " + original + ", of " + std::string(adapter_of(original));
        p.hint = "merge the adapter first, with PEFT's merge_and_unload";
      }
      p.place.tensor = std::move(name);
      out_.problems.push_back(std::move(p));
    }
    if (all.lacking > all.missing.size())
      out_.problems.back().got = "and " + std::to_string(all.lacking - all.missing.size()) + " more are missing";
    hint_at_ties();
    out_.matches = std::move(all.matches);
    return std::move(out_);
  }

 private:
  // The ranges of `words`; nothing if one is not known.
  std::optional<std::vector<uint64_t>> ranges_of(const std::vector<Word>& words) const {
    std::vector<uint64_t> all;
    for (const Word w : words) {
      if (!sizes_.global()[w]) return {};
      all.push_back(sizes_.global()[w].value);
    }
    return all;
  }

  void count(uint64_t more, Spot spot) {
    looked_for_ += more;
    if (more > limits_.map_targets || looked_for_ > limits_.map_targets)
      fail_at(map_, spot, ProblemId::map_too_many, "more than " + std::to_string(limits_.map_targets) + " tensors to look for", "fewer");
  }
  uint64_t product(const std::vector<uint64_t>& sizes) const {
    uint64_t all = 1;
    for (const uint64_t s : sizes) all = checked_mul(all, s).value_or(UINT64_MAX);
    return all;
  }

  // Each value of `words` that goes with `bound`. False: a range is not known.
  template <class Visit>
  bool extend(const std::vector<Word>& words, const Bound& bound, Spot spot, const Visit& visit) {
    std::vector<Word> free;
    for (const Word w : words)
      if (std::ranges::find(bound, w, &Bound::value_type::first) == bound.end()) free.push_back(w);
    const auto ranges = ranges_of(free);
    if (!ranges) return false;
    count(product(*ranges), spot);
    for_each_value(*ranges, [&](const std::vector<uint64_t>& at) {
      Bound next = bound;
      for (size_t i = 0; i < free.size(); ++i) next.emplace_back(free[i], at[i]);
      visit(next);
    });
    return true;
  }

  Attempt attempt(const std::vector<Node>& nodes, const Bound& bound) {
    Attempt all;
    for (const Node& n : nodes) {
      if (n.is_block) {
        const Block& block = map_.blocks[n.at];
        if (!extend(block.indexes, bound, block.spot, [&](const Bound& next) { all.add(pick(block, next)); }) && !may_be_empty(block) &&
            !may_lack_ && !may_be_filled_)
          miss_first(block.branches[0], all);
        continue;
      }
      const Line& line = map_.lines[n.at];
      if (!is_active_[n.at] || line.is_rest) continue;
      if (line.on(from_).empty()) {
        all.matches.push_back({.line = n.at, .outer = {}, .sources = {}});
        continue;
      }
      if (!extend(line.outer, bound, line.spot, [&](const Bound& next) { find(n.at, next, all); }) && !is_lenient(line))
        all.miss(line.spot, to_text(map_, line.on(from_)[0].names[0]));
    }
    return all;
  }

  bool may_be_empty(const Block& block) const {
    return std::ranges::any_of(block.branches, [](const Branch& b) { return b.nodes.empty(); });
  }
  void miss_first(const Branch& branch, Attempt& all) const {
    for (const Node& n : branch.nodes) {
      if (n.is_block) return miss_first(map_.blocks[n.at].branches[0], all);
      if (!map_.lines[n.at].on(from_).empty())
        return all.miss(map_.lines[n.at].spot, to_text(map_, map_.lines[n.at].on(from_)[0].names[0]));
    }
  }
  // What is the same as another may be left out on either side.
  bool is_lenient(const Line& line) const {
    return may_lack_ || may_be_filled_ ||
           std::ranges::any_of(line.sides, [](const auto& side) { return !side.empty() && !side[0].same_as.empty(); });
  }

  // Of branches that are whole, the one asked for, else the one with the most tensors, else the first whose conditions hold.
  Attempt pick(const Block& block, const Bound& bound) {
    if (!may_lack_ && !block.required.empty() && holds(block.required, config_)) return attempt(block.branches[0].nodes, bound);
    std::vector<Attempt> all;
    for (const Branch& branch : block.branches) all.push_back(attempt(branch.nodes, bound));
    const auto requested = asked_for(block);
    size_t best = 0;
    const auto rank = [&](size_t b) {
      const bool has_any = all[b].found > 0, is_whole = all[b].lacking == 0;
      // State may lack parameters, which does not make another branch its form.
      const bool is_form =
          !may_lack_ || from_ == Side::kLeft || (requested ? requested == b : holds(block.branches[b].conditions, config_));
      return std::tuple(has_any && is_form, has_any && is_whole, has_any, !has_any && is_whole, has_any && is_whole && requested == b,
                        all[b].found, requested == b, holds(block.branches[b].conditions, config_));
    };
    for (size_t b = 1; b < all.size(); ++b)
      if (rank(b) > rank(best)) best = b;
    return std::move(all[best]);
  }

  std::optional<size_t> asked_for(const Block& block) const {
    for (const Setting& s : settings_) {
      if (block.choice.empty() || s.name != block.choice) continue;
      const auto it = std::ranges::find(block.branches, s.value, &Branch::name);
      if (it == block.branches.end())
        fail_at(map_, block.spot, ProblemId::map_setting, s.name + "=" + s.value, "the name of one of these branches");
      return static_cast<size_t>(it - block.branches.begin());
    }
    return {};
  }

  void find(uint32_t at, const Bound& bound, Attempt& all) {
    const Line& line = map_.lines[at];
    Match match{.line = at, .outer = {}, .sources = {}};
    for (const Word w : line.outer) match.outer.push_back(std::ranges::find(bound, w, &Bound::value_type::first)->second);
    Attempt here;
    for (const LineTensor& t : line.on(from_)) find(line, t, match, here);
    if (here.lacking == 0) here.matches.push_back(std::move(match));
    else
      for (const auto& tensor : match.sources) here.partial.insert(here.partial.end(), tensor.begin(), tensor.end());
    if (here.lacking == 0 || here.found > 0 || !is_lenient(line)) all.add(std::move(here));
  }

  void find(const Line& line, const LineTensor& t, Match& match, Attempt& here) {
    const std::vector<Word> inner = inner_of(line, t);
    const auto ranges = ranges_of(inner);
    std::vector<uint32_t>& sources = match.sources.emplace_back();
    if (!ranges) return here.miss(t.spot, to_text(map_, t.names[0]));
    count(product(*ranges), t.spot);
    for_each_value(*ranges, [&](const std::vector<uint64_t>& at) {
      const IndexNumbers numbers{line, match, inner, at};
      const auto name_of = [&](const Name& n) {
        return written(map_, n, out_.variables, sizes_.global(), [&](Word w) { return numbers.of(w); });
      };
      const uint32_t* found = nullptr;
      for (const Name& n : t.names) {
        if (const auto it = by_key_.find(name_of(n)); it != by_key_.end()) {
          if (found != nullptr) continue;  // the other name stays, and no line takes it
          found = &it->second;
        }
      }
      if (found == nullptr && !t.same_as.empty() && !line.on(other(from_)).empty()) {
        if (const auto it = by_key_.find(name_of(t.same_as[0])); it != by_key_.end()) found = &it->second, match.is_copy = true;
      }
      if (found == nullptr) return here.miss(t.spot, name_of(t.names[0]));
      ++here.found;
      sources.push_back(*found);
    });
  }

  // A tensor that would be made of another, if the configuration said that they are tied.
  void hint_at_ties() {
    for (Problem& p : out_.problems) {
      if (p.id != ProblemId::map_tensor_missing) continue;
      for (size_t l = 0; l < map_.lines.size(); ++l) {
        const Line& line = map_.lines[l];
        if (is_active_[l] || line.on(from_).empty() || line.on(from_)[0].same_as.empty() || line.conditions.empty()) continue;
        if (to_text(map_, line.on(from_)[0].names[0]) != p.place.tensor) continue;
        const Condition& c = line.conditions[0];
        p.expected = "it, or tied to " + to_text(map_, line.on(from_)[0].same_as[0]);
        p.names = {c.paths[0] + (c.unless ? "=false" : "=true")};
      }
    }
  }

  const ModelMap& map_;
  Side from_;
  const Config& config_;
  const std::vector<Setting>& settings_;
  const std::vector<std::string_view>& keys_;
  const bool may_lack_, may_be_filled_;
  Sizes& sizes_;
  const Limits& limits_;
  std::vector<bool> is_active_;  // by line
  std::unordered_map<std::string_view, uint32_t> by_key_;
  uint64_t looked_for_ = 0;
  Chosen out_;
};

}  // namespace

std::vector<Word> inner_of(const Line& line, const LineTensor& tensor) {
  std::vector<Word> all = tensor.indexes;
  std::erase_if(all, [&](Word w) { return std::ranges::find(line.outer, w) != line.outer.end(); });
  return all;
}

uint64_t IndexNumbers::of(Word w) const {
  const auto own = std::ranges::find(inner, w);
  if (own != inner.end()) return at[static_cast<size_t>(own - inner.begin())];
  return match.outer[static_cast<size_t>(std::ranges::find(line.outer, w) - line.outer.begin())];
}

Chosen choose(const ChooseQuery& query, Sizes& sizes, const Limits& limits) { return Choice(query, sizes, limits).run(); }

}  // namespace dcp::maps
