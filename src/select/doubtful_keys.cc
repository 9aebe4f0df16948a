#include "select/doubtful_keys.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace dcp {
namespace {

// The last component of its path; the key itself without one, and in place of what many keys may share.
std::string_view leaf(const Catalog& c, const Tensor& t) {
  if (t.path.count == 0) return c.key(t);
  const PathElement e = c.path_elements[t.path.first + t.path.count - 1];
  const std::string_view last = e.is_position() ? std::string_view() : c.strings[e.name_id()];
  return last.size() > c.key(t).size() ? c.key(t) : last;
}

uint64_t name_and_shape(const Catalog& c, std::string_view name, const Tensor& t) {
  uint64_t hash = std::hash<std::string_view>{}(name);
  for (const int64_t size : c.dims(t)) hash = (hash ^ static_cast<uint64_t>(size)) * 0x9E3779B97F4A7C15u;
  return hash;
}
// Calls fn(name) for the name and what is left of it without its first words, until it returns true.
template <class Fn>
void for_endings(std::string_view name, int words, Fn&& fn) {
  for (size_t dot = 0; words-- >= 0 && !fn(name); name.remove_prefix(dot + 1))
    if (dot = name.find('.'); dot == name.npos || name.find('.', dot + 1) == name.npos) return;
}

}  // namespace

void find_doubtful(const Catalog& c, TrainingState& state) {
  std::vector<std::pair<size_t, std::string_view>> repeats;  // and what may be the name of a tensor, or its end
  std::unordered_map<uint64_t, uint64_t> named;
  uint64_t others = 0, repeated = 0;
  const auto is_open = [&](size_t k) { return !c.order[k].is_blob() && state.is_model(c.order[k]); };
  const auto tensor = [&](size_t k) -> const Tensor& { return c.tensors[c.order[k].tensor()]; };
  for (size_t k = 0; k < c.order.size(); ++k) {
    if (!is_open(k)) continue;
    const std::string_view text = leaf(c, tensor(k)), first = text.substr(0, text.find('.')), but_last = text.substr(0, text.rfind('.'));
    if (first.size() < text.size() && names_optimizer(first)) repeats.emplace_back(k, text.substr(first.size() + 1));
    else if (but_last.size() < text.size() && is_parameter_name(but_last)) repeats.emplace_back(k, but_last);
    else ++others;
  }
  if (repeats.empty()) return;
  for (size_t k = 0, r = 0; k < c.order.size(); ++k) {
    if (r < repeats.size() && repeats[r].first == k) ++r;
    else if (is_open(k))
      for_endings(leaf(c, tensor(k)), 2, [&](std::string_view name) { return ++named[name_and_shape(c, name, tensor(k))], false; });
  }
  std::set<std::string> globs;
  for (const auto& [k, name] : repeats)
    for_endings(name, 3, [&](std::string_view ending) {
      const auto found = named.find(name_and_shape(c, ending, tensor(k)));
      if (found == named.end()) return false;
      repeated += std::exchange(found->second, 0);
      state.doubtful.push_back(c.order[k].tensor());
      const std::string_view text = leaf(c, tensor(k)), before = text.substr(0, static_cast<size_t>(ending.data() - text.data()));
      const std::string dir(c.key(tensor(k)).substr(0, c.key(tensor(k)).size() - text.size()));
      const std::string_view first = text.substr(0, text.find('.') + 1);
      if (before.empty()) globs.insert("*" + std::string(text.substr(ending.size())));
      else globs.insert(dir + std::string(names_optimizer(first.substr(0, first.size() - 1)) ? first : before) + "*");
      return true;
    });
  if (2 * repeated <= others) state.doubtful.clear();
  else state.doubtful_globs.assign(globs.begin(), globs.end());
  std::ranges::sort(state.doubtful);
}

void fail_doubtful(const Catalog& catalog, const TrainingState& state, Doubt doubt) {
  const bool is_dtype = doubt == Doubt::kWhichDtype;
  Problem p = make_problem(ProblemId::several_models, {.path = catalog.path, .setting = is_dtype ? "dtype_rule" : "exclude"});
  p.what = "tensors that have the names and shapes of others may be a second model, or an optimizer's";
  p.hint = is_dtype ? "keep their dtype so if they are an optimizer's, or cast all tensors if they are weights"
                    : "leave them out so if they are an optimizer's, or ask for all keys if they are weights";
  for (const std::string& glob : state.doubtful_globs) p.names.push_back("'" + glob + (is_dtype ? "=keep'" : "'"));
  throw Error(std::move(p));
}

}  // namespace dcp
