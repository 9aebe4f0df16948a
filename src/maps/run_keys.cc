#include "maps/run_keys.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "select/rename.h"
#include "select/select.h"

namespace dcp::maps {
namespace {

// A key of an optimizer: TOP SECTION.REST
struct Cut {
  std::string_view top, rest;
  bool in_groups = false;
};
std::optional<Cut> cut(std::string_view key) {
  for (size_t at = 0; at != std::string_view::npos;) {
    for (const std::string_view section : {"state.", "param_groups."})
      if (key.substr(at).starts_with(section)) return Cut{key.substr(0, at), key.substr(at + section.size()), section != "state."};
    at = key.find('.', at);
    if (at != std::string_view::npos) ++at;
  }
  return {};
}

std::string name_in_model(const Selection& selection, const Entry& e) {
  const std::span<const PathPart> path = selection.path(e);
  const size_t above = std::min<size_t>(selection.state.model_of(e.ref).components, path.size() - 1);
  return unwrapped(above == 0 ? std::string(e.key) : joined(path.subspan(above)));
}

class Reader {
 public:
  Reader(const Catalog& catalog, const Selection& selection) : catalog_(catalog), selection_(selection) {}

  RunKeys run() {
    for (const Entry& e : selection_.entries) {
      if (!selection_.state.is_model(e.ref)) out_.any = true;
      else add_model(e);
    }
    if (out_.is_bare_model()) return std::move(out_);
    learn_parameters();
    out_.has.resize(out_.optimized.size());
    for (const Entry& e : selection_.entries)
      if (!selection_.state.is_model(e.ref)) place(e);
    return std::move(out_);
  }

 private:
  void add_model(const Entry& e) {
    const KeyGroup& root = selection_.state.model_of(e.ref);
    if (root_ != nullptr && root_->path != root.path) fail_several(catalog_, {root_->path, root.path});
    root_ = &root;
    out_.root = root.path;
    if (!e.is_blob()) out_.model.push_back({name_in_model(selection_, e), e.tensor()});
  }

  bool is_optimizers(const Entry& e) const { return selection_.state.is_optimizers(e.ref); }

  // Names before or behind the slots, each with the largest tensor that is kept of it.
  void learn_parameters() {
    for (const Entry& e : selection_.entries) {
      if (e.is_blob() || !is_optimizers(e)) continue;
      const std::optional<Cut> key = cut(e.key);
      if (!key || key->in_groups) continue;
      const size_t first = key->rest.find('.'), last = key->rest.rfind('.');
      if (first == std::string_view::npos) continue;
      const std::string_view before = key->rest.substr(0, first);
      const bool by_slot = is_slot(before) || before == "param";  // as Megatron's keys
      const std::string name = unwrapped(by_slot ? key->rest.substr(first + 1) : key->rest.substr(0, last));
      if (is_number(name)) continue;
      const auto [number, is_new] = by_key_.try_emplace(name, static_cast<uint32_t>(out_.optimized.size()));
      if (is_new) out_.optimized.push_back({name, e.tensor()});
      TensorId& known = out_.optimized[number->second].tensor;
      if (catalog_.elements(catalog_.tensors[e.tensor()]) > catalog_.elements(catalog_.tensors[known])) known = e.tensor();
    }
  }

  void place(const Entry& e) {
    const std::optional<Cut> key = is_optimizers(e) ? cut(e.key) : std::nullopt;
    if (key && place(e, *key)) return;
    if (is_optimizers(e) && !e.is_blob()) out_.unplaced.push_back(e.ref);
    else out_.kept.push_back(e.ref);
  }

  bool place(const Entry& e, const Cut& key) {
    const size_t first = key.rest.find('.'), last = key.rest.rfind('.');
    if (first == std::string_view::npos) return false;
    if (key.in_groups && e.is_blob() && is_number(key.rest.substr(0, first))) {
      ParamGroup& group = group_of(std::string(key.top), std::string(key.rest.substr(0, first)));
      const std::string name(key.rest.substr(first + 1));
      if (name == "params" || name == "param_names") group.lists.push_back(e.blob());
      else group.values.emplace_back(name, e.blob());
      return true;
    }
    const auto add = [&](std::string_view parameter, std::string_view name) {
      const auto it = by_key_.find(unwrapped(parameter));
      if (it == by_key_.end()) return false;
      const auto above = static_cast<size_t>(std::ranges::count(key.top, '.'));  // components
      const Slot slot{.top = std::string(key.top),
                      .name = std::string(name),
                      .in_groups = key.in_groups,
                      .is_nested = selection_.path(e).size() > above + 2};
      const auto [number, is_new] = slots_.try_emplace(slot, static_cast<uint32_t>(out_.slots.size()));
      if (is_new) out_.slots.push_back(slot);
      out_.has[it->second].emplace_back(number->second, e.ref);
      return true;
    };
    return add(key.rest.substr(0, last), key.rest.substr(last + 1)) ||
           (!key.in_groups && add(key.rest.substr(first + 1), key.rest.substr(0, first)));
  }

  ParamGroup& group_of(std::string top, std::string number) {
    const auto [at, is_new] = groups_.try_emplace({top, number}, out_.groups.size());
    if (is_new) out_.groups.push_back({.top = std::move(top), .number = std::move(number), .lists = {}, .values = {}});
    return out_.groups[at->second];
  }

  const Catalog& catalog_;
  const Selection& selection_;
  const KeyGroup* root_ = nullptr;
  std::unordered_map<std::string, uint32_t> by_key_;
  std::map<Slot, uint32_t> slots_;
  std::map<std::pair<std::string, std::string>, size_t> groups_;
  RunKeys out_;
};

}  // namespace

std::string unwrapped(std::string_view name) {
  constexpr std::string_view kPeft = "base_model.model.", kBase = ".base_layer.";
  std::string text = without_wrappers(name);
  if (text.starts_with(kPeft)) text.erase(0, kPeft.size());
  if (const size_t at = text.rfind(kBase); at != text.npos) text.erase(at, kBase.size() - 1);
  return text;
}

std::string of_text_model(std::string_view name) {
  constexpr std::string_view kWithin = "model.language_model.", kBefore = "language_model.";
  if (name.starts_with(kWithin)) return "model." + std::string(name.substr(kWithin.size()));
  for (const std::string_view next : {"model.", "lm_head."})
    if (name.starts_with(kBefore) && name.substr(kBefore.size()).starts_with(next)) return std::string(name.substr(kBefore.size()));
  return std::string(name);
}

std::vector<std::string_view> keys_of(const std::vector<Parameter>& parameters) {
  std::vector<std::string_view> keys;
  for (const Parameter& p : parameters) keys.push_back(p.key);
  return keys;
}

std::vector<Parameter> parameters_of(const Selection& selection) {
  std::vector<Parameter> all;
  for (const Entry& e : selection.entries)
    if (!e.is_blob()) all.push_back({unwrapped(e.key), e.tensor()});
  return all;
}

std::vector<Parameter> model_parameters(const Selection& selection) {
  std::vector<Parameter> all;
  if (selection.state.models.size() != 1) return all;
  for (const Entry& e : selection.entries)
    if (!e.is_blob() && selection.state.is_model(e.ref)) all.push_back({name_in_model(selection, e), e.tensor()});
  return all;
}

RunKeys run_keys(const Catalog& catalog, const Selection& selection) { return Reader(catalog, selection).run(); }

}  // namespace dcp::maps
