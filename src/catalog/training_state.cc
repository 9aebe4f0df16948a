#include "catalog/training_state.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "catalog/state_names.h"
#include "catalog/state_tree.h"

namespace dcp {
namespace {

using Dir = StateTree::Dir;

class Sorter {
 public:
  explicit Sorter(const Catalog& c) : c_(c), tree_(c), signs_(tree_.signs()) {}

  TrainingState sort() {
    find_models();
    place();
    return std::move(out_);
  }

 private:
  // A subtree that is a model or a piece of one.
  struct Root {
    uint32_t dir;
    uint32_t model;     // pieces of one model have the same number
    uint32_t stripped;  // components that load_state_dict does not know
    uint32_t named;     // the dir whose path names the model
  };

  void find_models() {
    if (!c_.has_planner_data) return add_model(0);
    open_ = {0};
    while (!open_.empty()) {
      const Descent d = descend(open_.back());
      open_.pop_back();
      if (d.parts.empty() && d.end == 0 && tree_.dir(0).fqns > 0 && !tree_.dir(0).holds_named) add_flat_model();
      else if (d.parts.empty()) add_model(is_list_of_ranks(d.end) ? d.end : d.root);
      else if (are_pieces(d.parts)) add_pieces(d.end, d.parts);
      else open_.insert(open_.end(), d.parts.begin(), d.parts.end());
    }
  }

  // Down from a dict as long as all of the model is in one child.
  struct Descent {
    uint32_t root;  // the deepest that is sure to be a model's
    uint32_t end;
    std::vector<uint32_t> parts;  // of `end`: several, or none
  };
  Descent descend(uint32_t from) {
    Descent d{from, from, parts_of(from)};
    while (d.parts.size() == 1) {
      const Dir& part = tree_.dir(d.parts[0]);
      uint64_t in_dicts = 0;  // tensors of `whole`
      for (const uint32_t c : tree_.children(d.end)) in_dicts += tree_.dir(c).open_tensors();
      const bool is_all = part.fqns > 0 && part.open_tensors() == in_dicts;
      const bool sure = is_root_name(part.name) || tree_.is_trainers(d.end) || is_all;
      d.end = d.parts[0];
      if (sure) d.root = d.end;
      d.parts = parts_of(d.end);
    }
    return d;
  }
  bool holds_model(uint32_t d) const { return tree_.dir(d).holds_fqns || tree_.dir(d).holds_named; }
  // What each rank of a trainer holds: a model, and more.
  bool is_list_of_ranks(uint32_t at) const {
    const auto is_ranks = [&](uint32_t c) { return tree_.dir(c).is_numbered && (holds_model(c) || tree_.dir(c).open_tensors() == 0); };
    return holds_model(at) && tree_.dir(at).fqns == 0 && std::ranges::all_of(tree_.children(at), is_ranks);
  }

  // The pieces in a list have numbers for names. If they have keys in common, they are models themselves, or hold one each.
  void add_model(uint32_t root) {
    std::vector<uint32_t> pieces;
    for (const uint32_t c : tree_.children(root))
      if (tree_.dir(c).open_tensors() > 0) pieces.push_back(c);
    // Below no root they need a state dict, with dots in its names: a module's own children may have numbers, too.
    const auto may_be_piece = [&](uint32_t c) { return tree_.dir(c).is_numbered && (root != 0 || holds_model(c)); };
    const bool is_list = !pieces.empty() && tree_.dir(root).parameters == 0 && std::ranges::all_of(pieces, may_be_piece);
    if (is_list && are_disjoint(pieces)) return add_pieces(root, pieces);
    const auto is_whole = [&](uint32_t c) { return tree_.dir(c).name.empty() || holds_model(c); };
    if (!is_list || !std::ranges::all_of(pieces, is_whole)) pieces.assign(1, root);
    for (const uint32_t p : pieces) {
      if (p != root && holds_model(p) && tree_.dir(p).fqns == 0) open_.push_back(p);
      else roots_.push_back({p, models_++, tree_.dir(p).depth, p});
    }
  }
  // A module's state dict is flat, so dicts beside its keys are none of its own: they are models if they are state dicts themselves, and beside
  // the model if nothing in them is called like a parameter.
  void add_flat_model() {
    roots_.push_back({0, models_++, 0, 0});
    for (const uint32_t c : tree_.children(0)) {
      if (tree_.dir(c).open_tensors() == 0 || tree_.dir(c).in_extra_state) continue;
      if (tree_.dir(c).holds_fqns) open_.push_back(c);
      else if (tree_.dir(c).module_like == 0) beside_.push_back(c);
    }
  }
  // A piece may have a root of its own: pp_rank_0.model, pp_rank_1.model.
  void add_pieces(uint32_t at, std::span<const uint32_t> pieces) {
    std::vector<uint32_t> roots;
    for (const uint32_t p : pieces) {
      const Descent d = descend(p);
      roots.push_back(d.parts.empty() ? d.root : p);
    }
    const auto depth = [&](uint32_t d) { return tree_.dir(d).depth; };
    if (!std::ranges::all_of(roots, [&](uint32_t r) { return depth(r) == depth(roots[0]); })) roots.assign(pieces.begin(), pieces.end());
    for (const uint32_t r : roots) roots_.push_back({r, models_, depth(r), at});
    ++models_;
  }

  // The children of a dict of a trainer that hold models. None: the dict itself is a module's, as far as can be seen.
  std::vector<uint32_t> parts_of(uint32_t at) {
    const Dir& d = tree_.dir(at);
    std::vector<uint32_t> named, others;
    for (const uint32_t c : tree_.children(at))
      if (tree_.dir(c).open_tensors() > 0) (is_root_name(tree_.dir(c).name) && !d.in_model ? named : others).push_back(c);
    if (named.empty() && others.empty()) return {};
    if (d.fqns > 0 && !named.empty()) out_.has_parameters_beside = true;
    // A module's state dict is flat: beside one, tensors are none of its parameters (a queue, noise), whatever they are called.
    const bool beside_flat = std::ranges::any_of(others, [&](uint32_t c) { return tree_.dir(c).fqns > 0; });
    const bool may_be_module = named.empty() && !beside_flat && (d.parameters > 0 || (d.floats > 0 && !tree_.is_trainers(at)));
    if (d.fqns > 0 || may_be_module) return {};
    if (named.empty() && std::ranges::all_of(others, [&](uint32_t c) { return tree_.dir(c).is_numbered; })) return {};

    std::vector<uint32_t> parts = named;
    const auto is_module_like = [&](uint32_t c) { return tree_.dir(c).module_like > 0 || (named.empty() && tree_.dir(c).wide > 0); };
    std::ranges::copy_if(others, std::back_inserter(parts), is_module_like);
    if (!named.empty()) add_alike(named, others, parts);
    if (parts.empty()) parts = others;
    if (parts.size() == 1) return parts;
    const auto all = [&](auto&& is) { return std::ranges::all_of(parts, is); };
    const bool several = !named.empty() || are_pieces(parts) || tree_.is_trainers(at) || all([&](uint32_t c) { return holds_model(c); });
    return several ? parts : std::vector<uint32_t>();
  }

  // For each key the one of `tops` that it lies below, as an index.
  std::vector<uint32_t> below(std::span<const uint32_t> tops) const {
    std::vector<uint32_t> of(tree_.dirs(), kNone);
    for (uint32_t i = 0; i < tops.size(); ++i) of[tops[i]] = i;
    for (uint32_t i = 1; i < tree_.dirs(); ++i)
      if (of[i] == kNone) of[i] = of[tree_.dir(i).parent];
    return of;
  }

  // Parameters of any name make a copy of a model (`ema`) where the model has the same ones. Asked once: the second time would be below a
  // model.
  void add_alike(std::span<const uint32_t> named, std::span<const uint32_t> others, std::vector<uint32_t>& parts) {
    if (others.empty() || checked_alike_) return;
    checked_alike_ = true;
    const std::vector<uint32_t> in_named = below(named), in_others = below(others);
    std::unordered_set<StringId> names;
    for (size_t k = 0; k < tree_.keys(); ++k)
      if (tree_.tensor(k) && in_named[tree_.dir_of(k)] != kNone) names.insert(tree_.leaf_id(k));
    std::vector<bool> alike(others.size());
    for (size_t k = 0; k < tree_.keys(); ++k)
      if (const uint32_t i = in_others[tree_.dir_of(k)];
          i != kNone && tree_.tensor(k) && !signs_[k] && tree_.leaf_id(k) != kNone && names.contains(tree_.leaf_id(k)))
        alike[i] = true;
    for (size_t i = 0; i < others.size(); ++i)
      if (alike[i] && tree_.dir(others[i]).module_like == 0) parts.push_back(others[i]);
  }

  // model0, model1: pieces of one model on the stages of a pipeline.
  bool are_pieces(std::span<const uint32_t> parts) {
    const std::string_view stem = without_number(tree_.dir(parts[0]).name);
    return std::ranges::all_of(parts, [&](uint32_t c) { return tree_.dir(c).name != stem && without_number(tree_.dir(c).name) == stem; }) &&
           are_disjoint(parts);
  }
  // Whether no key is in two of them, while some have names in common but for their numbers (layers.0.w and layers.7.w), as models of their own
  // need not. Asked of one list of dirs: the answer takes a look at every key.
  bool are_disjoint(std::span<const uint32_t> parts) {
    if (parts[0] == disjoint_) return true;
    if (checked_disjoint_) return false;
    checked_disjoint_ = true;
    const std::vector<uint32_t> in = below(parts);
    std::unordered_map<StringId, uint32_t> names;
    std::unordered_map<std::string, uint32_t> alike;
    bool are_alike = false;
    for (size_t k = 0; k < tree_.keys(); ++k) {
      const uint32_t i = in[tree_.dir_of(k)];
      if (i == kNone || signs_[k]) continue;
      if (names.try_emplace(tree_.leaf_id(k), i).first->second != i) return false;
      are_alike = are_alike || alike.try_emplace(without_numbers(tree_.leaf(k)), i).first->second != i;
    }
    if (are_alike) disjoint_ = parts[0];
    return are_alike;
  }

  // ---- the answer

  // The components of the path down to dir `d`; of a path too long to be typed the key.
  std::string up_to(size_t k, uint32_t d) const {
    constexpr size_t kLongest = 4096;
    const PathRange p = tree_.path(k);
    if (p.count == 0) return std::string(tree_.dir(d).name);
    std::string text;
    for (uint32_t i = p.first; i < p.first + tree_.dir(d).depth; ++i) {
      const PathElement e = c_.path_elements[i];
      text += i == p.first ? "" : ".";
      if (e.is_position()) text += std::to_string(e.list_position());
      else text += c_.strings[e.name_id()];
      if (text.size() > kLongest) return std::string(tree_.key(k));
    }
    return text;
  }

  bool is_object_beside(size_t k) const {
    const std::string_view name = tree_.leaf(k);
    const uint32_t d = tree_.dir_of(k);
    return !tree_.tensor(k) && !name.ends_with(kExtraState) && !tree_.dir(d).in_extra_state &&
           (tree_.dir(d).tensors == 0 || (d == 0 && !has_dots(name)));
  }

  // Tensors of a trainer's own dict that are called like no parameter (`loss`, `queue`) and have the shape of nothing that an optimizer keeps: the
  // model is an object, or elsewhere.
  bool are_all_beside_optimizer() const {
    if (tree_.dir(0).module_like > 0) return false;
    std::set<std::vector<int64_t>> kept;
    const auto shape = [&](size_t k) {
      const auto dims = c_.dims(*tree_.tensor(k));
      return std::vector<int64_t>(dims.begin(), dims.end());
    };
    for (size_t k = 0; k < tree_.keys(); ++k)
      if (tree_.tensor(k) && signs_[k] && *signs_[k] != StateSign::kName && tree_.leaf(k) != "step") kept.insert(shape(k));
    for (size_t k = 0; k < tree_.keys(); ++k) {
      if (!tree_.tensor(k) || signs_[k]) continue;
      const bool may_be_parameter = kept.empty() ? tree_.tensor(k)->rank > 0 : kept.contains(shape(k));
      if (tree_.dir_of(k) != 0 || may_be_parameter) return false;
    }
    return true;
  }

  void place() {
    std::vector<uint32_t> dirs;
    for (const Root& r : roots_) dirs.push_back(r.dir);
    dirs.insert(dirs.end(), beside_.begin(), beside_.end());
    const std::vector<uint32_t> root_of = below(dirs);
    const bool none = tree_.is_trainers() && (tree_.dir(0).open_tensors() == 0 || are_all_beside_optimizer());
    for (size_t k = 0; k < tree_.keys(); ++k) {
      if (signs_[k]) continue;
      const uint32_t r = root_of[tree_.dir_of(k)];
      if (none || r == kNone || r >= roots_.size() || (roots_[r].dir == 0 && tree_.is_trainers() && is_object_beside(k)))
        signs_[k] = StateSign::kBeside;
    }
    find_tops();
    std::vector<int32_t> places(tree_.keys()), number_of(models_, -1);
    for (size_t k = 0; k < tree_.keys(); ++k) {
      if (signs_[k]) {
        places[k] = group_of(k);
        StateGroup& g = out_.groups[static_cast<size_t>(places[k])];
        g.sign = std::min(g.sign, *signs_[k]);
        add(k, g);
        ++out_.keys;
        continue;
      }
      const Root& root = roots_[root_of[tree_.dir_of(k)]];
      int32_t& number = number_of[root.model];
      if (number < 0) {
        number = static_cast<int32_t>(out_.models.size());
        out_.models.push_back({.path = root.named == 0 ? "" : up_to(k, root.named), .components = root.stripped});
      }
      places[k] = ~number;
      add(k, out_.models[static_cast<size_t>(number)]);
    }
    answer(places);
  }
  template <class Sums>
  void add(size_t k, Sums& sums) const {
    ++sums.keys;
    if (!tree_.tensor(k)) return;
    ++sums.tensors;
    sums.tensor_bytes += c_.tensor_bytes(*tree_.tensor(k));
  }

  // For each dir the highest one at or above it in which nothing is model.
  void find_tops() {
    std::vector<uint64_t> state(tree_.dirs());
    for (size_t k = 0; k < tree_.keys(); ++k) state[tree_.dir_of(k)] += signs_[k].has_value();
    for (uint32_t i = tree_.dirs(); i-- > 1;) state[tree_.dir(i).parent] += state[i];
    tops_.assign(tree_.dirs(), kNone);
    for (uint32_t i = 1; i < tree_.dirs(); ++i) {
      tops_[i] = tops_[tree_.dir(i).parent];
      if (tops_[i] == kNone && state[i] == tree_.dir(i).keys) tops_[i] = i;
    }
    group_of_dir_.assign(tree_.dirs(), -1);
  }

  int32_t group_of(size_t k) {
    const uint32_t top = tops_[tree_.dir_of(k)];
    if (top != kNone && group_of_dir_[top] >= 0) return group_of_dir_[top];
    // Below no such dir: keys with dots, of which the structure says where the optimizer begins, or a single key.
    std::string path = top != kNone
                           ? up_to(k, top)
                           : std::string(tree_.optimizer(k).top > 0 ? tree_.key(k).substr(0, tree_.optimizer(k).top) : tree_.key(k));
    const auto [it, fresh] = group_numbers_.try_emplace(std::move(path), static_cast<int32_t>(out_.groups.size()));
    if (fresh) out_.groups.push_back({.path = it->first, .sign = StateSign::kBeside});
    if (top != kNone) group_of_dir_[top] = it->second;
    return it->second;
  }

  // Groups and models sorted by their paths, and the keys' places in them.
  void answer(const std::vector<int32_t>& places) {
    const auto sorted = [](auto& list) {
      std::vector<uint32_t> order(list.size()), number(list.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, {}, [&](uint32_t i) -> const std::string& { return list[i].path; });
      std::remove_reference_t<decltype(list)> out;
      for (uint32_t i = 0; i < order.size(); ++i) {
        number[order[i]] = i;
        out.push_back(std::move(list[order[i]]));
      }
      list = std::move(out);
      return number;
    };
    const std::vector<uint32_t> groups = sorted(out_.groups), models = sorted(out_.models);
    out_.of_tensor.resize(c_.tensors.size());
    out_.of_blob.resize(c_.blobs.size());
    for (size_t k = 0; k < places.size(); ++k) {
      const int32_t place = places[k] < 0 ? ~static_cast<int32_t>(models[static_cast<size_t>(~places[k])])
                                          : static_cast<int32_t>(groups[static_cast<size_t>(places[k])]);
      const KeyRef ref = c_.order[k];
      (ref.is_blob() ? out_.of_blob[ref.blob()] : out_.of_tensor[ref.tensor()]) = place;
    }
  }

  const Catalog& c_;
  const StateTree tree_;
  std::vector<std::optional<StateSign>> signs_;  // by key
  std::vector<uint32_t> open_;                   // dirs whose models are to be found
  std::vector<Root> roots_;                      // none below another, but for the one of all
  std::vector<uint32_t> beside_;                 // dirs in that one in which nothing is model
  uint32_t models_ = 0;
  std::vector<uint32_t> tops_;
  std::vector<int32_t> group_of_dir_;
  std::unordered_map<std::string, int32_t> group_numbers_;
  bool checked_alike_ = false, checked_disjoint_ = false;
  uint32_t disjoint_ = kNone;  // the first of dirs that have no key in common
  TrainingState out_;
};

}  // namespace

bool TrainingState::is_full() const {
  const auto resumes = [](const StateGroup& g) { return g.sign != StateSign::kBeside || g.tensors > 0; };
  return !models.empty() && std::ranges::any_of(groups, resumes);
}

void fail_several(const Catalog& catalog, const std::vector<std::string>& paths) {
  Problem p = make_problem(ProblemId::several_models, {.path = catalog.path, .setting = "root"});
  for (const std::string& path : paths) {
    if (!path.empty()) p.names.push_back(path);
    else p.expected = "one of them, or all of them excluded: the keys around them are a model, too";
  }
  throw Error(std::move(p));
}

TrainingState find_training_state(const Catalog& catalog) { return Sorter(catalog).sort(); }

}  // namespace dcp
