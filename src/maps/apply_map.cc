#include "maps/apply_map.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/problem.h"
#include "maps/choose.h"
#include "maps/config.h"
#include "maps/run_keys.h"
#include "maps/sizes.h"
#include "select/quantized.h"
#include "select/select.h"

namespace dcp::maps {
namespace {

// Axes whose size shows only when a dim is divided by sizes of the model: d in (h d), with h from config.json. One shape alone does not
// show that h is wrong, but Q and K of a layer then have different d.

class DividedAxes {
 public:
  DividedAxes(const ModelMap& map, const Sizes& sizes) : map_(map), sizes_(sizes) {}
  // Throws map_size_differs if a line of the same branch has another size for the axis at the same indexes.
  void check(const Match& match, std::span<const Shaped> tensors, const Values& values, const std::vector<std::string_view>& keys);

 private:
  void check(const Match& match, const Shaped& tensor, const Axis& dim, const Values& values, const std::vector<std::string_view>& keys);

  struct Found {
    uint64_t size = 0;
    uint32_t line = 0, source = 0;
  };
  // Branch, indexes and their values, axis.
  using Place = std::tuple<std::vector<std::pair<uint32_t, uint32_t>>, std::vector<std::pair<Word, uint64_t>>, Word>;

  const ModelMap& map_;
  const Sizes& sizes_;
  std::map<Place, Found> found_;
};

// Whether config.json or a setting gives it: neither a number, nor what names or shapes show.
bool is_of_model(const ModelMap& map, const Values& values, Word w) {
  using From = Known::From;
  return !map.is_index[w] && (values[w].from == From::kSizeLine || values[w].from == From::kSetting);
}

void DividedAxes::check(const Match& match, std::span<const Shaped> tensors, const Values& values,
                        const std::vector<std::string_view>& keys) {
  for (const Shaped& t : tensors)
    for (const Axis& dim : t.tensor->dims)
      if (dim.kind == Axis::Kind::kProduct) check(match, t, dim, values, keys);
}

void DividedAxes::check(const Match& match, const Shaped& tensor, const Axis& dim, const Values& values,
                        const std::vector<std::string_view>& keys) {
  const std::vector<Word> words = words_of(dim);
  std::string of_model;
  for (const Word w : words)
    if (sizes_.is_global(w) && is_of_model(map_, values, w)) of_model += (of_model.empty() ? "" : ", ") + sizes_.describe(w, values, keys);
  if (of_model.empty()) return;
  const Line& line = map_.lines[match.line];
  std::vector<std::pair<uint32_t, uint32_t>> branch;
  for (const Within& w : line.within) branch.emplace_back(w.block, w.branch);
  std::vector<std::pair<Word, uint64_t>> at;
  for (size_t i = 0; i < line.outer.size(); ++i) at.emplace_back(line.outer[i], match.outer[i]);
  std::ranges::sort(at);
  for (const Word w : words) {
    if (sizes_.is_global(w) || !values[w]) continue;
    const Found here{values[w].value, match.line, tensor.source};
    const auto [it, is_new] = found_.try_emplace(Place{branch, at, w}, here);
    const Found& before = it->second;
    if (is_new || before.size == here.size) continue;
    const auto text_of = [&](const Found& f) {
      return map_.word(w) + " = " + std::to_string(f.size) + " in " + shortened(keys[f.source]) + " (line " +
             std::to_string(map_.lines[f.line].spot.line) + ")";
    };
    Problem p =
        problem_at(map_, dim.spot, ProblemId::map_size_differs, text_of(before) + " and " + text_of(here), "one size, given " + of_model);
    p.what = "one axis has two sizes in a layer";
    p.hint = "check config.json, or name the axes differently in the map";
    p.place.tensor = keys[tensor.source];
    throw Error(std::move(p));
  }
}

constexpr size_t kMaxProblems = 1000;

using Keys = std::vector<std::string_view>;

Keys keys_of(const std::vector<MapSource>& sources) {
  Keys keys;
  for (const MapSource& s : sources) keys.push_back(s.key);
  return keys;
}

// One tensor of those that a match of a line has.
struct Instance : IndexNumbers {
  const Values& values;
};

bool is_optional(const ModelMap& map, const Line& line) {
  return std::ranges::any_of(line.within, [&](const Within& w) {
    return std::ranges::any_of(map.blocks[w.block].branches, [](const Branch& b) { return b.nodes.empty(); });
  });
}

// The blocks that a tensor is made of.
class Blocks {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  Blocks(const ModelMap& map, const std::vector<MapSource>& sources, const Limits& limits, Side from, bool may_mix_dtypes)
      : map_(map), sources_(sources), limits_(limits), from_(from), may_mix_dtypes_(may_mix_dtypes) {}

  // For each block of the target the tensor and block that it is; kNone: padding.
  std::vector<std::pair<uint32_t, uint32_t>> pairs_of(const Line& line, uint32_t target, size_t blocks) const {
    const auto to = static_cast<size_t>(other(from_)), from = static_cast<size_t>(from_);
    std::vector<std::pair<uint32_t, uint32_t>> all(blocks, {kNone, 0});
    for (const Pair& p : line.pairs)
      if (p.tensor[to] == target) all[p.block[to]] = {p.tensor[from], p.block[from]};
    return all;
  }

  void zeros(IndexMap& made, const Piece& piece) {
    IndexBlock block{.target_at = piece.at, .source_at = {}, .axes = {}};
    for (const Piece::Along& a : piece.axes) {
      if (a.size == 0) return;
      if (a.size > 1)
        block.axes.push_back({.size = static_cast<int64_t>(a.size), .target_dim = a.dim, .target_step = static_cast<int64_t>(a.step)});
    }
    count(block);
    made.blocks.push_back(std::move(block));
  }

  // One block for each combination of the numbers that only the source's name has: along them the target is cut.
  void add(IndexMap& made, const Instance& one, const Piece& to, uint32_t tensor, const Piece& from) {
    IndexBlock whole{.target_at = to.at, .source_at = from.at, .axes = {}};
    std::vector<Piece::Along> cuts;
    std::vector<uint64_t> cut_sizes;
    for (const Piece::Along& a : to.axes) {
      if (a.size == 0) return;
      const auto b = std::ranges::find(from.axes, a.word, &Piece::Along::word);
      if (b == from.axes.end()) {
        cuts.push_back(a);
        cut_sizes.push_back(a.size);
      } else if (a.size > 1) {
        whole.axes.push_back({.size = static_cast<int64_t>(a.size),
                              .target_dim = a.dim,
                              .target_step = static_cast<int64_t>(a.step),
                              .source_dim = b->dim,
                              .source_step = static_cast<int64_t>(b->step)});
      }
    }
    for (const Piece::Along& b : from.axes)
      if (std::ranges::find(to.axes, b.word, &Piece::Along::word) == to.axes.end())
        whole.source_at[b.dim] += static_cast<int64_t>(one.of(b.word) * b.step);
    const std::vector<Word> its = inner_of(one.line, one.line.on(from_)[tensor]);
    for_each_value(cut_sizes, [&](const std::vector<uint64_t>& cut) {
      IndexBlock block = whole;
      for (size_t i = 0; i < cuts.size(); ++i) block.target_at[cuts[i].dim] += static_cast<int64_t>(cut[i] * cuts[i].step);
      uint64_t place = 0;
      for (const Word w : its) {
        const auto c = std::ranges::find(cuts, w, &Piece::Along::word);
        const uint64_t number = c != cuts.end() ? cut[static_cast<size_t>(c - cuts.begin())] : one.of(w);
        place = place * one.values[w].value + number;
      }
      block.source = one.match.sources[tensor][place];
      count(block);
      made.blocks.push_back(std::move(block));
    });
  }

  DType dtype_of(const IndexMap& made, const Line& line, std::optional<uint32_t> first) const {
    std::optional<uint32_t> from;
    DType dtype = first ? sources_[*first].dtype : DType::float32;
    for (const IndexBlock& b : made.blocks) {
      if (b.source == IndexBlock::kZeros) continue;
      const DType its = sources_[b.source].dtype;
      if (!from) dtype = its, from = b.source;
      if (its == dtype) continue;
      if (!may_mix_dtypes_) {
        Problem p = problem_at(map_, line.spot, ProblemId::map_dtypes_differ,
                               std::string(facts_of(dtype).name) + " of " + shortened(sources_[*from].key) + " and " +
                                   std::string(facts_of(its).name) + " of " + shortened(sources_[b.source].key));
        p.place.tensor = made.key;
        throw Error(std::move(p));
      }
      if (bytes_of(its) == bytes_of(dtype)) dtype = DType::float32;  // float16 and bfloat16
      else if (bytes_of(its) > bytes_of(dtype)) dtype = its;
    }
    return dtype;
  }

  IndexMap identity(std::string key, uint32_t source) {
    const MapSource& s = sources_[source];
    IndexMap made{.key = std::move(key), .dtype = s.dtype, .shape = s.shape, .blocks = {}};
    if (std::ranges::find(s.shape, 0) != s.shape.end()) return made;
    IndexBlock block{
        .source = source, .target_at = std::vector<int64_t>(s.shape.size()), .source_at = std::vector<int64_t>(s.shape.size()), .axes = {}};
    for (uint32_t d = 0; d < s.shape.size(); ++d)
      if (s.shape[d] > 1) block.axes.push_back({.size = s.shape[d], .target_dim = d, .target_step = 1, .source_dim = d, .source_step = 1});
    count(block);
    made.blocks.push_back(std::move(block));
    return made;
  }

 private:
  void count(const IndexBlock& block) {
    pieces_ += 1 + block.axes.size();
    if (pieces_ > limits_.map_pieces)
      fail(ProblemId::map_too_many, {.path = map_.name}, "more than " + std::to_string(limits_.map_pieces) + " blocks and axes");
  }

  const ModelMap& map_;
  const std::vector<MapSource>& sources_;
  const Limits& limits_;
  const Side from_;
  const bool may_mix_dtypes_;
  uint64_t pieces_ = 0;
};

Problem difference(const ModelMap& map, const Line& line, const std::string& tensor, const std::string& same_as) {
  Problem p = problem_at(map, line.spot, ProblemId::map_tied_differ, "a value different from that in " + shortened(same_as),
                         "the same: they are tied");
  p.place.tensor = tensor;
  if (!line.conditions.empty()) {
    p.names = {line.conditions[0].paths[0] + (line.conditions[0].unless ? "=true" : "=false")};
    p.remedy = Remedy::kSetting;
    return p;
  }
  p.hint = "a map without this line treats them as two";
  return p;
}

const Taker* rest_of(const Takers& takers, std::string_view key, const ModelMap& map, const Config& config) {
  const Taker* const t = takers.rest_of(key);
  return t != nullptr && holds(map.lines[t->line].conditions, config) ? t : nullptr;
}

// Throws it unless it is to be listed.
template <class Make>
std::optional<Problem> wrong_sizes(bool are_listed, const Make& make) {
  try {
    make();
  } catch (const Error& e) {
    if (!are_listed || !is_of_sizes(e.problem())) throw;
    return e.problem();
  }
  return {};
}

// Of ModelMap::releases.
size_t written_place(const ModelMap& map, const std::vector<Setting>& settings) {
  const auto release = std::ranges::find(settings, "release", &Setting::name);
  return release == settings.end() || map.releases.empty() ? 0 : place_of_release(map, release->value);
}

class Application {
 public:
  Application(const ModelMap& map, const Config& config, const MapOptions& options, const std::vector<MapSource>& sources,
              const Limits& limits)
      : map_(map),
        config_(config),
        options_(options),
        sources_(sources),
        limits_(limits),
        keys_(keys_of(sources)),
        sizes_(map, config, options.settings),
        from_(options.from ? *options.from : side_of(map, keys_, options.are_published)),
        written_(from_ == Side::kLeft ? 0 : written_place(map, options.settings)),
        blocks_(map, sources, limits, from_, options.may_mix_dtypes) {}

  Mapping run() {
    out_.from = from_;
    out_.notes = map_.notes;
    refuse_quantized(keys_);
    chosen_ = choose({map_, from_, config_, options_.settings, keys_, options_.is_state, options_.may_be_filled}, sizes_, limits_);
    out_.problems = std::move(chosen_.problems);
    learn();
    check_memory();
    for (const Match& m : chosen_.matches)
      if (auto p = wrong_sizes(options_.lists_sizes, [&] { make(m); })) add_problem(std::move(*p));
    rest();
    std::ranges::sort(out_.targets, {}, &IndexMap::key);
    const auto twice = std::ranges::adjacent_find(out_.targets, {}, &IndexMap::key);
    if (twice != out_.targets.end()) fail(ProblemId::map_name_twice, {.path = map_.name, .tensor = twice->key});
    for (auto& [tie, name] : ties_of_targets_) tie_to_target(std::move(tie), name);
    return std::move(out_);
  }

 private:
  // The one that is written, of the names of a target.
  const Name& name_of(const LineTensor& target) const { return target.names[std::min(written_, target.names.size() - 1)]; }

  // Of a tensor whose numbers are several sources, the first, and those of another shape, which no sizes fit.
  std::vector<Shaped> shaped(const Match& m) const {
    std::vector<Shaped> all;
    const Line& line = map_.lines[m.line];
    for (size_t t = 0; t < m.sources.size(); ++t)
      for (size_t i = 0; i < m.sources[t].size(); ++i) {
        const uint32_t s = m.sources[t][i];
        if (i > 0 && sources_[s].shape == sources_[m.sources[t][0]].shape) continue;
        all.push_back({&line.on(from_)[t], sources_[s].shape, s});
      }
    return all;
  }

  // Sizes that hold for the whole map may show in one line, and be used by another. One match of a line shows what all do.
  void learn() {
    std::vector<const Match*> firsts;
    std::vector<bool> is_seen(map_.lines.size());
    for (const Match& m : chosen_.matches) {
      if (is_seen[m.line] || m.sources.empty() || map_.lines[m.line].moves_nothing) continue;
      is_seen[m.line] = true;
      firsts.push_back(&m);
    }
    const auto known = [&] { return std::ranges::count_if(sizes_.global(), [](const Known& k) { return static_cast<bool>(k); }); };
    for (auto before = known();; before = known()) {
      for (const Match* m : firsts) sizes_.learn(shaped(*m));
      if (known() == before) return;
    }
  }

  void make(const Match& m) {
    const Line& line = map_.lines[m.line];
    if (line.on(from_).empty()) {
      for (const LineTensor& t : line.on(other(from_)))
        if (t.same_as.empty() && !is_optional(map_, line)) out_.not_made.push_back(to_text(map_, name_of(t)));
      return;
    }
    const std::vector<Shaped> tensors = shaped(m);
    if (line.moves_nothing) sizes_.compare(tensors, keys_);
    const Values values = line.moves_nothing ? sizes_.global() : sizes_.solve(tensors, keys_);
    divided_.check(m, tensors, values, keys_);
    if (line.on(other(from_)).empty())
      for (const auto& tensor : m.sources) out_.left_out.insert(out_.left_out.end(), tensor.begin(), tensor.end());
    for (uint32_t t = 0; t < line.on(other(from_)).size(); ++t) make(m, line, t, values);
    if (!m.is_copy && !line.on(from_)[0].same_as.empty()) tie_sources(m, line);
  }

  // By the numbers in names: a map of one line may make any number of tensors.
  void check_memory() const {
    constexpr uint64_t kMinBytes = 1000, kMaxBytes = 1600;  // bytes that the plan of a tensor takes, from its name to its header
    uint64_t all = 0;
    for (const Match& m : chosen_.matches)
      for (const LineTensor& t : map_.lines[m.line].on(other(from_))) {
        uint64_t its = 1;
        for (const Word w : inner_of(map_.lines[m.line], t)) its = checked_mul(its, sizes_.global()[w].value).value_or(limits_.map_targets);
        all += std::min(its, limits_.map_targets);
      }
    if (all > limits_.map_targets || all * kMinBytes <= options_.memory_bytes) return;
    throw Error(with_remedy(make_problem(ProblemId::memory_cap, {.path = map_.name}, std::to_string(all) + " tensors to make"),
                            Remedy::kMoreMemory, all * kMaxBytes + 128 * kMiB));
  }

  // All targets of one tensor of a line: one for each combination of the numbers that only its name has.
  void make(const Match& m, const Line& line, uint32_t t, const Values& values) {
    const LineTensor& target = line.on(other(from_))[t];
    if ((!target.has_axes || line.moves_nothing) && !m.sources[0].empty()) {
      const Instance one{{line, m, {}, {}}, values};
      return add(one, target, blocks_.identity(written_name(one, name_of(target)), m.sources[0][0]));
    }
    const std::vector<Word> inner = inner_of(line, target);
    std::vector<uint64_t> ranges;
    for (const Word w : inner) ranges.push_back(sizes_.need(w, values, target.spot));
    const auto grid_with = [&](const LineTensor& of) {
      return grid_of(map_, of, [&](Word w, Spot spot) { return sizes_.need(w, values, spot); }, limits_);
    };
    const Grid grid = grid_with(target);
    check_elements(map_, target, grid);
    std::vector<Grid> from;
    for (const LineTensor& s : line.on(from_)) from.push_back(grid_with(s));
    const auto pairs = blocks_.pairs_of(line, t, grid.pieces.size());
    for_each_value(ranges, [&](const std::vector<uint64_t>& at) {
      const Instance one{{line, m, inner, at}, values};
      IndexMap made{.key = written_name(one, name_of(target)), .shape = grid.shape, .blocks = {}};
      std::optional<uint32_t> first;
      for (uint32_t b = 0; b < grid.pieces.size(); ++b) {
        const auto [tensor, block] = pairs[b];
        if (tensor == Blocks::kNone) blocks_.zeros(made, grid.pieces[b]);
        else blocks_.add(made, one, grid.pieces[b], tensor, from[tensor].pieces[block]);
      }
      for (const auto& tensor : m.sources)
        if (!first && !tensor.empty()) first = tensor[0];
      if (std::ranges::find(made.shape, 0) != made.shape.end()) made.blocks.clear();
      made.dtype = blocks_.dtype_of(made, line, first);
      add(one, target, std::move(made));
    });
  }

  std::string written_name(const Instance& one, const Name& name) const {
    for (const NamePart& p : name.parts)
      for (const Word w : p.after) sizes_.need(w, one.values, name.spot);
    return written(map_, name, chosen_.variables, one.values, [&](Word w) { return one.of(w); });
  }

  void add(const Instance& one, const LineTensor& target, IndexMap made) {
    if (target.same_as.empty()) {
      if (out_.targets.size() == limits_.map_targets)
        fail_at(map_, one.line.spot, ProblemId::map_too_many, "more than " + std::to_string(limits_.map_targets) + " tensors", "fewer");
      if (one.match.is_copy) out_.copies.push_back(made.key);
      out_.targets.push_back(std::move(made));
      return;
    }
    std::string name = written_name({one, sizes_.global()}, target.same_as[0]);
    Problem p = difference(map_, one.line, made.key, name);
    ties_of_targets_.emplace_back(Tie{std::move(made), {}, std::move(p)}, std::move(name));
  }

  void add_problem(Problem p) {
    if (out_.problems.size() < kMaxProblems) out_.problems.push_back(std::move(p));
  }

  void tie_to_target(Tie tie, const std::string& name) {
    const auto it = std::ranges::lower_bound(out_.targets, name, {}, &IndexMap::key);
    if (it == out_.targets.end() || it->key != name) return;  // it is missing, which another line says
    tie.same_as = *it;
    add(std::move(tie));
  }
  void add(Tie tie) {
    if (tie.tensor.shape != tie.same_as.shape || tie.tensor.dtype != tie.same_as.dtype) return add_problem(std::move(tie.difference));
    out_.ties.push_back(std::move(tie));
  }

  // The tensor is there, though another could stand for it.
  void tie_sources(const Match& m, const Line& line) {
    const LineTensor& t = line.on(from_)[0];
    const std::vector<Word> inner = inner_of(line, t);
    std::vector<uint64_t> ranges;
    for (const Word w : inner) ranges.push_back(sizes_.need(w, sizes_.global(), t.spot));
    if (by_key_.empty())
      for (uint32_t s = 0; s < keys_.size(); ++s) by_key_[keys_[s]] = s;
    size_t i = 0;
    for_each_value(ranges, [&](const std::vector<uint64_t>& at) {
      const uint32_t source = m.sources[0][i++];
      const auto it = by_key_.find(written_name({{line, m, inner, at}, sizes_.global()}, t.same_as[0]));
      if (it == by_key_.end()) return;  // it is missing, which another line says
      std::string tensor(keys_[source]), same_as(keys_[it->second]);
      Problem p = difference(map_, line, tensor, same_as);
      add(Tie{blocks_.identity(std::move(tensor), source), blocks_.identity(std::move(same_as), it->second), std::move(p)});
    });
  }

  // {*}, and what no line takes.
  void rest() {
    const Takers takers(map_, from_);
    std::set<uint32_t> lines;  // that take a key
    for (uint32_t s = 0; s < keys_.size(); ++s) {
      if (chosen_.is_taken[s]) continue;
      const Taker* const taker = chosen_.name[s] != nullptr ? nullptr : rest_of(takers, keys_[s], map_, config_);
      if (taker != nullptr) {
        lines.insert(taker->line);
        const std::vector<LineTensor>& to = map_.lines[taker->line].on(other(from_));
        if (to.empty()) {
          out_.left_out.push_back(s);
          continue;
        }
        const Pattern pattern = pattern_of(map_, name_of(to[0]), chosen_.variables);
        out_.targets.push_back(blocks_.identity(pattern.before_rest + std::string(keys_[s].substr(taker->pattern.before_rest.size())), s));
      } else if (options_.unmapped == Unmapped::kKeep) {
        out_.targets.push_back(blocks_.identity(std::string(keys_[s]), s));
        out_.kept.emplace_back(keys_[s]);
      } else if (options_.unmapped == Unmapped::kDrop) {
        out_.left_out.push_back(s);
      } else {
        add_problem(unmapped(s));
      }
    }
    for (const Taker& t : takers.rests()) {
      const Line& line = map_.lines[t.line];
      if (!lines.contains(t.line) && !line.on(other(from_)).empty() && holds(line.conditions, config_) && !is_optional(map_, line))
        out_.not_made.push_back(to_text(map_, name_of(line.on(other(from_))[0])));
    }
  }
  Problem unmapped(uint32_t source) const {
    Problem p = make_problem(ProblemId::map_key_unmapped, {.path = map_.name});
    if (const Name* const name = chosen_.name[source]) {
      p = problem_at(map_, name->spot, ProblemId::map_key_unmapped);
      p.what = "the line of this key is not used";
      p.got = "another branch or another name of the same tensor, or a group that is not whole";
    } else if (const std::string_view adapter = adapter_of(keys_[source]); !adapter.empty()) {
      p.got = std::string(adapter) + ", " + std::string(kAdapterHint);
    }
    p.place.tensor = keys_[source];
    return p;
  }
  const ModelMap& map_;
  const Config& config_;
  const MapOptions& options_;
  const std::vector<MapSource>& sources_;
  const Limits& limits_;
  const Keys keys_;
  Sizes sizes_;
  DividedAxes divided_{map_, sizes_};
  const Side from_;
  const size_t written_;  // place in the names of a target
  Blocks blocks_;
  Chosen chosen_;
  std::unordered_map<std::string_view, uint32_t> by_key_;
  std::vector<std::pair<Tie, std::string>> ties_of_targets_;
  Mapping out_;
};

}  // namespace

Mapping apply_map(const ModelMap& map, Config config, const MapOptions& options, const std::vector<MapSource>& sources,
                  const Limits& limits) {
  apply_settings(map, options.settings, config);
  const size_t written = written_place(map, options.settings);
  if (options.is_state && (written == 0 || options.from == Side::kLeft)) config.set({"optimizer_state", "true"});
  return Application(map, config, options, sources, limits).run();
}

namespace {

void name_sources(IndexMap& map, const std::vector<TensorId>& ids) {
  for (IndexBlock& b : map.blocks)
    if (b.source != IndexBlock::kZeros) b.source = ids[b.source];
}

}  // namespace

SelectOptions before_map(SelectOptions select) {
  select.add_root.clear();
  select.no_extra_states = true;  // no map has them
  select.dtypes = {};
  return select;
}

std::vector<MapSource> sources_of(const Catalog& catalog, std::span<const Parameter> parameters) {
  std::vector<MapSource> sources;
  for (const Parameter& p : parameters) {
    const Tensor& t = catalog.tensors[p.tensor];
    sources.push_back({.key = p.key, .dtype = t.dtype, .shape = catalog.shape(t)});
  }
  return sources;
}

std::vector<MapSource> as_sources(const std::vector<IndexMap>& made) {
  std::vector<MapSource> sources;
  for (const IndexMap& m : made) sources.push_back({.key = m.key, .dtype = m.dtype, .shape = m.shape});
  return sources;
}

Mapping apply_to_selected(const ModelMap& map, Config config, const MapOptions& options, const Catalog& catalog,
                          std::span<const Parameter> parameters) {
  std::vector<TensorId> ids;
  for (const Parameter& p : parameters) ids.push_back(p.tensor);
  Mapping out = apply_map(map, std::move(config), options, sources_of(catalog, parameters), Limits());
  for (IndexMap& m : out.targets) name_sources(m, ids);
  for (Tie& t : out.ties) {
    name_sources(t.tensor, ids);
    name_sources(t.same_as, ids);
  }
  for (uint32_t& s : out.left_out) s = ids[s];
  return out;
}

Selection select_mapped(const Catalog& derived, const SelectOptions& options, Selection before, std::span<const BlobId> used) {
  SelectOptions last;
  last.add_root = options.add_root;
  last.dtypes = options.dtypes;
  Selection after = select_keys(derived, last);
  after.root = std::move(before.root);
  after.stripped_root = std::move(before.stripped_root);
  after.joined_pieces = before.joined_pieces;
  after.unmatched = std::move(before.unmatched);
  after.lacking = std::move(before.lacking);
  after.dropped_by_rules = std::move(before.dropped_by_rules);
  after.dropped_non_model = std::move(before.dropped_non_model);
  after.dropped_top = std::move(before.dropped_top);
  after.dropped_outside_root = std::move(before.dropped_outside_root);
  after.dropped_blobs = std::move(before.dropped_blobs);
  for (const Entry& e : before.entries)
    if (e.is_blob() && !std::ranges::binary_search(used, e.blob())) after.dropped_blobs.push_back(e.blob());
  after.dropped_states = before.dropped_states;
  after.renamed = before.renamed;
  after.unmapped = std::move(before.unmapped);
  return after;
}

void refuse_quantized(std::span<const std::string_view> keys) {
  const std::unordered_set<std::string_view> all(keys.begin(), keys.end());
  const HasKey has_key = [&](std::string_view key) { return all.contains(key); };
  for (const std::string_view key : keys)
    if (const auto pair = pair_of_companion(key, has_key))
      fail(ProblemId::map_quantized, {.tensor = pair->numbers}, "scales in " + shortened(pair->companion));
}

}  // namespace dcp::maps
