#include "maps/run_state.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "maps/run_keys.h"

namespace dcp::maps {
namespace {

// Of "a.b.", too: what stands before names ends with a dot.
void add_words(std::string_view text, std::vector<std::string>& parts) {
  for (const std::string_view part : split(text, '.')) parts.emplace_back(part);
  if (parts.back().empty()) parts.pop_back();
}

class Follower {
 public:
  Follower(const Catalog& catalog, const RunKeys& keys, const RunTarget& to, Mapping& made)
      : catalog_(catalog), keys_(keys), to_(to), made_(made) {
    for (uint32_t p = 0; p < keys.optimized.size(); ++p) by_tensor_[keys.optimized[p].tensor] = p;
    for (const auto& has : keys.has) is_moved_.emplace_back(has.size());
    if (to.side == Side::kLeft) pattern_ = to.map.state;
  }

  RunState run(const Mapping& optimized) {
    under_root();
    const std::set<std::string_view> copies(optimized.copies.begin(), optimized.copies.end());
    for (const IndexMap& target : optimized.targets)
      if (!copies.contains(target.key)) follow(target);
    for (uint32_t p = 0; p < keys_.has.size(); ++p)
      for (size_t i = 0; i < keys_.has[p].size(); ++i)
        if (!is_moved_[p][i]) leave(keys_.has[p][i].second, "its parameter is not written");
    for (const KeyRef ref : keys_.unplaced) leave(ref, "none of the model's parameters");
    for (const KeyRef ref : keys_.kept) keep(ref);
    for (const ParamGroup& g : keys_.groups) follow(g);
    std::ranges::sort(made_.targets, {}, &IndexMap::key);
    std::ranges::sort(out_.becomes, {}, &Becomes::key);
    return std::move(out_);
  }

 private:
  // Of the target's state: {slot} before {name}, as Megatron has it, which has no groups there; else groups by parameter.
  bool is_by_slot() const { return pattern_.find("{slot}") < pattern_.find("{name}"); }
  bool is_by_parameter() const { return !pattern_.empty() && !is_by_slot(); }

  void follow(const ParamGroup& g) {
    for (const BlobId list : g.lists) {
      if (is_by_slot()) leave(KeyRef::blob_at(list), no_groups());
      else if (pattern_.empty())
        out_.objects.push_back(
            {.key = std::string(key(KeyRef::blob_at(list))), .path = {}, .same = {list}, .lists_parameters = true, .each_of = {}});
    }
    for (const auto& [value, blob] : g.values) {
      if (is_by_slot()) {
        leave(KeyRef::blob_at(blob), no_groups());
      } else if (is_by_parameter() && !g.lists.empty()) {
        ObjectMap each{.key = {}, .path = {}, .same = {blob}, .lists_parameters = false, .each_of = g.lists[0]};
        name(each.key, each.path, {.top = g.top, .name = value, .in_groups = true}, "{name}");
        out_.objects.push_back(std::move(each));
      } else {
        keep(KeyRef::blob_at(blob));
      }
    }
  }
  std::string no_groups() const { return "a value of a group, which " + to_.map.name + " has no place for"; }

  std::string_view key(KeyRef ref) const { return catalog_.key(ref); }

  void follow(const IndexMap& target) {
    std::vector<uint32_t> from;  // parameters
    for (const IndexBlock& b : target.blocks) {
      if (b.source == IndexBlock::kZeros) continue;
      const uint32_t p = by_tensor_.at(b.source);
      if (std::ranges::find(from, p) == from.end()) from.push_back(p);
    }
    Becomes& becomes = out_.becomes.emplace_back(Becomes{.key = target.key, .from = {}});
    std::set<uint32_t> slots;
    for (const uint32_t p : from) {
      becomes.from.push_back(keys_.optimized[p].key);
      for (const auto& [slot, ref] : keys_.has[p]) slots.insert(slot);
    }
    for (const uint32_t slot : slots) follow(target, slot, from);
  }

  const KeyRef* take(uint32_t parameter, uint32_t slot) {
    const auto& has = keys_.has[parameter];
    for (size_t i = 0; i < has.size(); ++i) {
      if (has[i].first != slot) continue;
      is_moved_[parameter][i] = true;
      return &has[i].second;
    }
    return nullptr;
  }

  // One slot of all parameters that become one.
  void follow(const IndexMap& target, uint32_t number, const std::vector<uint32_t>& from) {
    const Slot& slot = keys_.slots[number];
    std::vector<KeyRef> refs;
    const Parameter* lacking = nullptr;
    for (const uint32_t p : from) {
      if (const KeyRef* const ref = take(p, number)) refs.push_back(*ref);
      else lacking = &keys_.optimized[p];
    }
    if (lacking != nullptr) return differ(refs[0], target, "no " + slot.name + " of " + shortened(lacking->key));
    if (std::ranges::any_of(refs, [&](KeyRef r) { return r.is_blob() != refs[0].is_blob(); }))
      return differ(refs[0], target, "objects and tensors");
    if (!refs[0].is_blob() && slot.name != "step" && has_shapes(refs, from)) return move(target, slot, from, refs);
    for (const KeyRef r : refs)
      if (!r.is_blob() && catalog_.elements(catalog_.tensors[r.tensor()]) != 1)
        return leave(r, "a tensor of another shape than its parameter");
    if (is_by_slot()) {
      for (const KeyRef r : refs) leave(r, "one value for each parameter, where " + to_.map.name + " has one for all");
      return;
    }
    copy(target, slot, refs);
  }

  bool has_shapes(const std::vector<KeyRef>& refs, const std::vector<uint32_t>& from) const {
    for (size_t i = 0; i < refs.size(); ++i)
      if (!std::ranges::equal(dims(refs[i].tensor()), dims(keys_.optimized[from[i]].tensor))) return false;
    return true;
  }
  Dims dims(TensorId t) const { return catalog_.dims(catalog_.tensors[t]); }

  // By the blocks that move the parameter.
  void move(const IndexMap& target, const Slot& slot, const std::vector<uint32_t>& from, const std::vector<KeyRef>& refs) {
    IndexMap state = target;
    name(state.key, state.path, slot, target.key);
    state.dtype = catalog_.tensors[refs[0].tensor()].dtype;
    for (const KeyRef r : refs)
      if (catalog_.tensors[r.tensor()].dtype != state.dtype)
        return differ(r, target, "a dtype different from that of " + shortened(key(refs[0])));
    for (IndexBlock& b : state.blocks) {
      if (b.source == IndexBlock::kZeros) continue;
      const uint32_t p = by_tensor_.at(b.source);
      b.source = refs[static_cast<size_t>(std::ranges::find(from, p) - from.begin())].tensor();
    }
    made_.targets.push_back(std::move(state));
  }

  // The first; the others must be the same.
  void copy(const IndexMap& target, const Slot& slot, const std::vector<KeyRef>& refs) {
    ObjectMap object;
    name(object.key, object.path, slot, target.key);
    if (refs[0].is_blob()) {
      for (const KeyRef r : refs) object.same.push_back(r.blob());
      out_.objects.push_back(std::move(object));
      return;
    }
    IndexMap first = identity(catalog_, refs[0].tensor());
    for (size_t i = 1; i < refs.size(); ++i) {
      const IndexMap its = identity(catalog_, refs[i].tensor());
      if (its.shape != first.shape || its.dtype != first.dtype) return differ(refs[i], target, "another dtype or shape");
      if (!compared_.emplace(refs[0], refs[i]).second) continue;  // by another part of the same parameters
      made_.ties.push_back(
          {.tensor = its,
           .same_as = first,
           .difference = state_differs(catalog_, refs[i], "a value different from that of " + shortened(key(refs[0])), target.key)});
    }
    first.key = std::move(object.key);
    first.path = std::move(object.path);
    made_.targets.push_back(std::move(first));
  }

  // What is kept of `parameter`, as the target names it.
  void name(std::string& key, std::vector<std::string>& path, const Slot& slot, const std::string& parameter) const {
    path.clear();
    if (is_by_slot()) {
      key = pattern_;
      key.replace(key.find("{slot}"), 6, slot.name);
      key.replace(key.find("{name}"), 6, parameter);
      return;
    }
    const std::string top = pattern_.empty() ? slot.top : pattern_.substr(0, pattern_.find("state.{name}"));
    const std::string section = slot.in_groups ? "param_groups" : "state", rest = parameter + "." + slot.name;
    key = top + section + "." + rest;
    add_words(top, path);
    if (slot.is_nested && pattern_.empty()) path.insert(path.end(), {section, parameter, slot.name});
    else path.push_back(section + "." + rest);
  }

  void differ(KeyRef ref, const IndexMap& target, std::string got) {
    made_.problems.push_back(state_differs(catalog_, ref, std::move(got), target.key));
  }

  void leave(KeyRef ref, std::string why) {
    if (to_.unmapped == Unmapped::kKeep) return keep(ref);
    if (to_.unmapped == Unmapped::kDrop) {
      if (!ref.is_blob()) made_.left_out.push_back(ref.tensor());
      return;
    }
    if (!reported_.insert(ref).second) return;
    Problem p = make_problem(ProblemId::map_key_unmapped, {.path = catalog_.path, .tensor = std::string(key(ref)), .object = ref.is_blob()},
                             std::move(why));
    if (to_.map.name.ends_with(".megatron"))
      p.hint = "Megatron-Core keeps step and groups in its own file, common.pt, which any run of as many steps has: leave out *.step and "
               "*param_groups*";
    made_.problems.push_back(std::move(p));
  }
  void keep(KeyRef ref) {
    if (ref.is_blob())
      out_.objects.push_back({.key = std::string(key(ref)), .path = {}, .same = {ref.blob()}, .lists_parameters = false, .each_of = {}});
    else made_.targets.push_back(identity(catalog_, ref.tensor()));
  }

  void under_root() {
    const std::string root = to_.root.value_or(keys_.root);
    for (IndexMap& m : made_.targets) {
      if (root.empty()) return;
      add_words(root, m.path);
      m.path.push_back(m.key);
      m.key = root + "." + m.key;
    }
  }

  const Catalog& catalog_;
  const RunKeys& keys_;
  const RunTarget& to_;
  Mapping& made_;
  std::unordered_map<TensorId, uint32_t> by_tensor_;  // parameters
  std::vector<std::vector<bool>> is_moved_;           // as RunKeys::has
  std::set<KeyRef> reported_;
  std::set<std::pair<KeyRef, KeyRef>> compared_;
  std::string pattern_;  // of state's names; "": as torch's get_optimizer_state_dict
  RunState out_;
};

}  // namespace

Problem state_differs(const Catalog& catalog, KeyRef ref, std::string got, std::string_view target) {
  Problem p =
      make_problem(ProblemId::map_tied_differ, {.path = catalog.path, .tensor = std::string(catalog.key(ref)), .object = ref.is_blob()},
                   std::move(got), "the same for all that becomes " + shortened(target));
  p.what = "the optimizer state of parameters that are merged differs";
  p.hint = "use a map that does not merge them";
  return p;
}

RunState follow(const Catalog& catalog, const RunKeys& keys, const RunTarget& to, const Mapping& optimized, Mapping& made) {
  return Follower(catalog, keys, to, made).run(optimized);
}

}  // namespace dcp::maps
