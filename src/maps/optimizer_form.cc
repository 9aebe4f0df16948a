#include "maps/optimizer_form.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "maps/index_map.h"
#include "pickle/graph.h"
#include "pickle/writer.h"
#include "select/rename.h"

namespace dcp::maps {
namespace {

constexpr std::string_view kState = "state", kGroups = "param_groups", kParams = "params";

std::string text_of(const PathPart& part) { return joined({&part, 1}); }

// A component `section` with others below it, or one that begins with it; npos: none.
size_t section_in(std::span<const PathPart> path, std::string_view section, bool& is_nested) {
  for (size_t i = 0; i < path.size(); ++i) {
    is_nested = path[i].name == section;
    if (is_nested || (path[i].name.starts_with(section) && path[i].name.substr(section.size()).starts_with('.'))) return i;
  }
  return std::string::npos;
}

// One hyperparameter: its name, and what is below it in a dict.
struct Hyperparameter {
  Entry entry;
  std::vector<PathPart> rest;
};

struct Group {
  std::vector<Hyperparameter> values;
  std::vector<std::string> parameters;
  std::optional<BlobId> list;   // nested: of its parameters
  std::optional<BlobId> names;  // of these, where the list has numbers
};

struct Optimizer {
  std::vector<PathPart> top;
  bool is_nested = false;
  Entry first{};                                      // of its groups, for messages
  std::map<uint64_t, Group> groups;                   // by number; flat: of one parameter each, in the trainer's order
  std::unordered_map<std::string_view, uint64_t> of;  // flat: the group of a parameter
  std::unordered_map<std::string, std::string> name;  // nested: of numbered parameters
  bool is_changed = false;
};

// What both of the following classes know.
class Keys {
 protected:
  Keys(const SourceFacts& source, const Selection& selection) : source_(source), catalog_(source.catalog), selected_(selection) {}

  Problem problem(const Entry& e, std::string got, std::string expected) const {
    return make_problem(ProblemId::optimizer_form, {.path = catalog_.path, .tensor = std::string(e.key), .object = e.is_blob()},
                        std::move(got), std::move(expected));
  }
  [[noreturn]] void refuse(const Entry& e, std::string got, std::string expected) const {
    throw Error(problem(e, std::move(got), std::move(expected)));
  }

  // Of a key of this optimizer's state, what is below `state`, if it is nested, or the component after `state.`; else nothing.
  std::vector<PathPart> in_state(const Optimizer& o, const Entry& e) const {
    const std::span<const PathPart> path = selected_.path(e);
    const size_t above = o.top.size();
    if (selected_.state.is_model(e.ref) || path.size() <= above || !std::ranges::equal(path.first(above), o.top)) return {};
    const std::string_view word = path[above].name;
    if (o.is_nested)
      return word == kState ? std::vector<PathPart>(path.begin() + static_cast<int64_t>(above) + 1, path.end()) : std::vector<PathPart>();
    if (!word.starts_with(kState) || !word.substr(kState.size()).starts_with('.')) return {};
    std::vector<PathPart> rest{{word.substr(kState.size() + 1)}};
    rest.insert(rest.end(), path.begin() + static_cast<int64_t>(above) + 1, path.end());
    return rest;
  }

  const SourceFacts source_;
  const Catalog& catalog_;

 private:
  const Selection& selected_;
};

// Finds the optimizers of a selection, and the names of their parameters.
class OptimizerReader : Keys {
 public:
  OptimizerReader(const SourceFacts& source, const Limits& limits, const Selection& selection)
      : Keys(source, selection), limits_(limits), s_(selection) {}

  std::map<std::string, Optimizer> run() {
    for (const Entry& e : s_.entries)
      if (!s_.state.is_model(e.ref)) learn(e);
    if (optimizers_.empty()) fail(ProblemId::optimizer_form, {.path = catalog_.path}, "no param_groups", "an optimizer's state");
    for (auto& [top, o] : optimizers_)
      for (auto& [number, g] : o.groups)
        if (o.is_nested) read_list(o, g);
    return std::move(optimizers_);
  }

 private:
  void learn(const Entry& e) {
    const std::span<const PathPart> path = s_.path(e);
    bool is_nested = false;
    const size_t at = section_in(path, kGroups, is_nested);
    if (at == std::string::npos) return;
    const std::span<const PathPart> below = path.subspan(at + 1);
    if (is_nested && below.size() < 2) {
      Problem p = problem(e, "groups in one object, as torch before 2.4 saves them", "a key for each hyperparameter");
      p.remedy = Remedy::kSplitObjects;
      throw Error(std::move(p));
    }
    Optimizer& o = optimizers_[joined(path.first(at))];
    if (o.groups.empty()) {
      o.top.assign(path.begin(), path.begin() + static_cast<int64_t>(at));
      o.is_nested = is_nested;
      o.first = e;
    } else if (o.is_nested != is_nested) {
      refuse(e, "the other form than " + std::string(o.first.key), "one form");
    }
    if (!is_nested) return learn_flat(o, e, path[at].name.substr(kGroups.size() + 1), below);
    const std::string number = text_of(below[0]);
    if (!is_number(number)) refuse(e, "no number of a group", "param_groups as a list");
    Group& g = o.groups[std::stoull(number)];
    const bool is_whole = e.is_blob() && below.size() == 2;
    if (is_whole && below[1].name == kParams) {
      g.list = e.blob();
      return;
    }
    if (is_whole && below[1].name == "param_names") g.names = e.blob();
    g.values.push_back({e, {below.begin() + 1, below.end()}});
  }

  // NAME.lr
  void learn_flat(Optimizer& o, const Entry& e, std::string_view word, std::span<const PathPart> below) {
    const size_t dot = word.rfind('.');
    if (dot == word.npos) refuse(e, "no parameter's name", "param_groups.NAME.lr");
    const auto [of, is_new] = o.of.try_emplace(word.substr(0, dot), o.groups.size());
    Group& g = o.groups[of->second];
    if (is_new) g.parameters.emplace_back(of->first);
    Hyperparameter& value = g.values.emplace_back(e, std::vector<PathPart>{{word.substr(dot + 1)}});
    value.rest.insert(value.rest.end(), below.begin(), below.end());
  }

  void read_list(Optimizer& o, Group& g) {
    const Entry& any = g.values.empty() ? o.first : g.values[0].entry;
    if (!g.list) refuse(any, "a group without params", "a list of its parameters");
    ParameterList list = read_parameters(source_, *g.list, ProblemId::optimizer_form, limits_);
    if (list.are_numbers) {
      const std::vector<std::string> names =
          g.names ? read_parameters(source_, *g.names, ProblemId::optimizer_form, limits_).names : names_in_model(o, list.names);
      if (names.size() != list.names.size())
        refuse(any, counted(list.names.size(), "numbered parameter") + " and " + counted(names.size(), "name"), "as many of both");
      for (size_t i = 0; i < names.size(); ++i) o.name[list.names[i]] = names[i];
      list.names = names;
    }
    g.parameters = std::move(list.names);
  }

  // An optimizer of model.parameters() numbers them in the order of the model's state dict.
  std::vector<std::string> names_in_model(const Optimizer& o, const std::vector<std::string>& numbers) const {
    const auto doubt = [&](std::string got) {
      Problem p = problem(o.first, std::move(got), "param_names, or one group in the model's order");
      p.hint = "torch's get_optimizer_state_dict names them, and so does an optimizer of named_parameters()";
      throw Error(std::move(p));
    };
    if (o.groups.size() > 1) doubt("numbered parameters in several groups");
    if (s_.state.models.size() != 1) doubt("numbered parameters and " + counted(s_.state.models.size(), "model"));
    std::vector<std::string> names;
    std::unordered_map<std::string_view, TensorId> parameter;  // by its number
    for (const Entry& e : s_.entries) {
      if (e.is_blob() || !s_.state.is_model(e.ref)) continue;
      if (names.size() < numbers.size()) parameter[numbers[names.size()]] = e.tensor();
      const std::vector<PathPart> path = source_path(catalog_, e);
      names.push_back(
          without_wrappers(joined(std::span(path).subspan(std::min<size_t>(s_.state.model_of(e.ref).components, path.size() - 1)))));
    }
    if (names.size() != numbers.size())
      doubt(counted(numbers.size(), "numbered parameter") + " and " + counted(names.size(), "tensor") + " of the model");
    for (const Entry& e : s_.entries) {
      const std::vector<PathPart> rest = e.is_blob() ? std::vector<PathPart>() : in_state(o, e);
      const auto of = rest.empty() ? parameter.end() : parameter.find(rest[0].name);
      if (of != parameter.end() && !has_place_of(e.tensor(), of->second))
        doubt("state in another shape than " + shortened(catalog_.key(catalog_.tensors[of->second])) + ", whose place in the model it has");
    }
    return names;
  }

  // A value for each element, or for each of a dim.
  bool has_place_of(TensorId state, TensorId parameter) const {
    const Dims is = catalog_.dims(catalog_.tensors[state]), wanted = catalog_.dims(catalog_.tensors[parameter]);
    return volume(is) == 1 || std::ranges::equal(is, wanted, [](int64_t a, int64_t b) { return a == b || a == 1; });
  }

  const Limits& limits_;
  const Selection& s_;
  std::map<std::string, Optimizer> optimizers_;  // by what is above
};

class Reformer : Keys {
 public:
  Reformer(const SourceFacts& source, OptimizerForm form, const Limits& limits, Selection& selection)
      : Keys(source, selection), form_(form), limits_(limits), s_(selection) {}

  Reformed run() {
    // On several ranks torch names keys in the metadata by the rank that wrote them, but their paths as the trainer has them.
    std::ranges::stable_sort(s_.entries, {}, [&](const Entry& e) { return place_of(e); });
    optimizers_ = OptimizerReader(source_, limits_, s_).run();
    for (auto& [top, o] : optimizers_) prepare(o);
    std::vector<Entry> before = std::move(s_.entries);
    s_.entries.clear();
    for (const Entry& e : before)
      if (!moves(e)) s_.entries.push_back(e);
    for (auto& [top, o] : optimizers_)
      if (o.is_changed) add_groups(o);
    out_.optimizers = optimizers_.size();
    return std::move(out_);
  }

 private:
  uint32_t place_of(const Entry& e) const {
    return e.is_blob() ? catalog_.blobs[e.blob()].path.first : catalog_.tensors[e.tensor()].path.first;
  }

  // --- the parameters of each group, and which have the same one

  void prepare(Optimizer& o) {
    if (o.is_nested) {
      o.is_changed = form_ == OptimizerForm::kFlat || !o.name.empty();
    } else if (form_ == OptimizerForm::kNested) {
      join_groups(o);
      o.is_changed = true;
    }
    out_.changed += o.is_changed ? 1 : 0;
    out_.groups += o.groups.size();
    for (const auto& [number, g] : o.groups) out_.parameters += g.parameters.size();
  }

  // Parameters one after another with the same hyperparameters are a group.
  void join_groups(Optimizer& o) {
    std::map<uint64_t, Group> joined_groups;
    for (auto& [number, g] : o.groups) {
      Group* const last = joined_groups.empty() ? nullptr : &joined_groups.rbegin()->second;
      if (last != nullptr && are_same(*last, g)) {
        for (size_t i = 0; i < g.values.size(); ++i) tie(last->values[i].entry, g.values[i].entry);
        last->parameters.push_back(g.parameters[0]);
      } else {
        joined_groups.emplace(joined_groups.size(), std::move(g));
      }
    }
    for (const auto& [number, g] : joined_groups) out_.joined += g.parameters.size() > 1 ? 1 : 0;
    o.groups = std::move(joined_groups);
  }

  bool are_same(const Group& one, const Group& other) const {
    return std::ranges::equal(one.values, other.values, [&](const Hyperparameter& a, const Hyperparameter& b) {
      if (a.rest != b.rest || a.entry.is_blob() != b.entry.is_blob()) return false;
      if (!a.entry.is_blob()) return true;  // they are compared before anything is written
      const BlobItem &x = source_.resolved.blob(catalog_.item_of(a.entry.blob())).item,
                     &y = source_.resolved.blob(catalog_.item_of(b.entry.blob())).item;
      return std::ranges::equal(x.pickle, y.pickle) && (x.storages.empty() || &x == &y);
    });
  }

  void tie(const Entry& one, const Entry& other) {
    if (one.is_blob()) return;
    out_.ties.push_back({.tensor = identity(catalog_, other.tensor()),
                         .same_as = identity(catalog_, one.tensor()),
                         .difference = problem(other, "a value different from that of " + shortened(one.key), "the same in a group")});
  }

  // --- what they become

  bool is_in_groups(const Optimizer& o, const Entry& e) const {
    const std::span<const PathPart> path = s_.path(e);
    bool is_nested = false;
    return !s_.state.is_model(e.ref) && section_in(path, kGroups, is_nested) == o.top.size() &&
           std::ranges::equal(path.first(o.top.size()), o.top);
  }

  // Whether the key is one of an optimizer that changes. Of its state, the key in the other form is added at once.
  bool moves(const Entry& e) {
    for (const auto& [top, o] : optimizers_) {
      if (!o.is_changed) continue;
      if (is_in_groups(o, e)) return true;
      std::vector<PathPart> rest = in_state(o, e);
      if (rest.empty()) continue;
      if (!o.is_nested) rest = cut(o, e, rest);
      if (const auto name = o.name.find(text_of(rest[0])); name != o.name.end()) rest[0] = {keep(name->second)};
      else if (!o.name.empty()) refuse(e, "state of no parameter of a group", "a parameter of param_groups");
      add(e, o, kState, rest);
      return true;
    }
    return false;
  }

  // NAME.exp_avg: the longest name of a parameter that it begins with, and the rest.
  std::vector<PathPart> cut(const Optimizer& o, const Entry& e, const std::vector<PathPart>& flat) const {
    const std::string_view word = flat[0].name;
    size_t dot = word.rfind('.');
    while (dot != word.npos && !o.of.contains(word.substr(0, dot))) dot = dot == 0 ? word.npos : word.rfind('.', dot - 1);
    if (dot == word.npos) refuse(e, "state of no parameter of a group", "a parameter of param_groups");
    std::vector<PathPart> parts{{word.substr(0, dot)}};
    for (const std::string_view part : split(word.substr(dot + 1), '.')) parts.push_back({part});
    parts.insert(parts.end(), flat.begin() + 1, flat.end());
    return parts;
  }

  void add_groups(const Optimizer& o) {
    for (const auto& [number, g] : o.groups) {
      if (form_ == OptimizerForm::kFlat) {
        for (const std::string& parameter : g.parameters)
          for (const Hyperparameter& value : g.values) {
            std::vector<PathPart> rest{{keep(parameter)}};
            rest.insert(rest.end(), value.rest.begin(), value.rest.end());
            add(value.entry, o, kGroups, rest, 2);
          }
        continue;
      }
      const PathPart place{{}, static_cast<int64_t>(number)};
      for (const Hyperparameter& value : g.values) {
        std::vector<PathPart> rest{place};
        rest.insert(rest.end(), value.rest.begin(), value.rest.end());
        add(value.entry, o, kGroups, rest);
      }
      Entry list = o.first;
      list.ref = KeyRef::blob_at(catalog_.blobs.size() + out_.lists.size());
      s_.state.of_blob.push_back(s_.state.place_of(o.first.ref));
      add(list, o, kGroups, std::vector<PathPart>{place, {kParams}});
      out_.lists.push_back({std::string(s_.entries.back().key), list_of_parameters(g.parameters)});
    }
  }

  // Flat: the section and the first `words` of the rest are one component.
  void add(Entry e, const Optimizer& o, std::string_view section, std::span<const PathPart> rest, size_t words = std::string::npos) {
    std::vector<PathPart> path = o.top;
    path.push_back({section});
    if (form_ == OptimizerForm::kFlat) {
      words = std::min(words, rest.size());
      path.back() = {keep(std::string(section) + "." + joined(rest.first(words)))};
      rest = rest.subspan(words);
    }
    path.insert(path.end(), rest.begin(), rest.end());
    e.first = static_cast<uint32_t>(s_.parts.size());
    e.count = static_cast<uint32_t>(path.size());
    s_.parts.insert(s_.parts.end(), path.begin(), path.end());
    e.key = keep(joined(path));
    s_.entries.push_back(e);
  }

  std::string_view keep(std::string text) { return s_.texts.emplace_back(std::move(text)); }

  const OptimizerForm form_;
  const Limits& limits_;
  Selection& s_;
  std::map<std::string, Optimizer> optimizers_;  // by what is above
  Reformed out_;
};

}  // namespace

Reformed reform(const SourceFacts& source, OptimizerForm form, const Limits& limits, Selection& selection) {
  return Reformer(source, form, limits, selection).run();
}

ParameterList read_parameters(const SourceFacts& source, BlobId blob, ProblemId id, const Limits& limits) {
  const Catalog& catalog = source.catalog;
  const BlobItem& item = source.resolved.blob(catalog.item_of(blob)).item;
  const PickleGraph graph(item.pickle, item.pickle_place, limits);
  const PickleMachine& machine = graph.machine();
  const auto refuse = [&](std::string got) {
    fail(id, {.path = catalog.path, .tensor = std::string(catalog.key(catalog.blobs[blob])), .object = true}, std::move(got),
         "a list of names, as torch's get_optimizer_state_dict gives it");
  };
  if (graph.root().kind != Kind::kList) refuse(machine.describe(graph.root()));
  ParameterList list;
  PickleMachine::Items items = machine.items(graph.root());
  for (Value v; items.next(v);) {
    const bool is_number = v.kind == Kind::kInt;
    if ((!is_number && v.kind != Kind::kText) || (!list.names.empty() && is_number != list.are_numbers))
      refuse("a parameter as " + machine.describe(v));
    list.are_numbers = is_number;
    list.names.push_back(is_number ? std::to_string(v.integer()) : std::string(machine.text(v)));
  }
  return list;
}

std::string list_of_parameters(const std::vector<std::string>& names) {
  std::string pickle;
  PickleWriter writer(pickle, PickleProtocol::k2);
  writer.begin();
  writer.op(Op::EMPTY_LIST);
  writer.op(Op::MARK);
  for (const std::string& name : names) writer.text(name);
  writer.op(Op::APPENDS);
  writer.end();
  return pickle;
}

}  // namespace dcp::maps
