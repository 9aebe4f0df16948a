#include "items/idle_parameters.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/text.h"
#include "catalog/state_dict.h"
#include "catalog/torch_files.h"
#include "format/blob.h"
#include "items/item_source.h"
#include "select/globs.h"

namespace dcp {
namespace {

constexpr std::string_view kGroups = "param_groups", kParams = "params";
constexpr std::string_view kHyperparameters[] = {"lr", "initial_lr", "betas", "eps", "weight_decay", "momentum"};
constexpr uint64_t kMaxItem = 64 * kMiB;

bool is_integer(std::string_view word) { return !word.empty() && word.find_first_not_of("0123456789") == word.npos; }

std::string_view last_word(std::string_view key) { return key.substr(key.rfind('.') + 1); }

// Where `param_groups` begins as a component of the key; npos: nowhere.
size_t groups_in(std::string_view key) {
  for (size_t at = key.find(kGroups); at != key.npos; at = key.find(kGroups, at + 1)) {
    const size_t end = at + kGroups.size();
    if ((at == 0 || key[at - 1] == '.') && (end == key.size() || key[end] == '.')) return at;
  }
  return key.npos;
}

class Finder {
 public:
  Finder(DataFiles& files, const Catalog& catalog, const Limits& limits) : files_(files), catalog_(catalog), limits_(limits) {
    limits_.item_pickle_bytes = limits_.blob_bytes = kMaxItem;
  }

  std::vector<Problem> find() {
    std::vector<std::string_view> keys;
    for (const KeyRef ref : catalog_.order) {
      if (!is_empty(ref)) keys.push_back(catalog_.key(ref));
      if (const size_t at = groups_in(catalog_.key(ref)); at != std::string_view::npos) note(ref, at);
    }
    const KnownKeys known(std::move(keys));
    std::vector<Problem> notes;
    for (const auto& [optimizer, parameters] : parameters_) judge(optimizer, parameters, known, notes);
    return notes;
  }

 private:
  // An empty dict of a torch.save file.
  bool is_empty(KeyRef ref) const {
    return ref.is_blob() && catalog_.traits().in_torch_files &&
           catalog_.torch->items[catalog_.item_of(ref.blob())].value.kind == Kind::kUnset;
  }

  void note(KeyRef ref, size_t at) {
    const std::string_view key = catalog_.key(ref), optimizer = key.substr(0, at);
    const std::string_view rest = key.substr(std::min(at + kGroups.size() + 1, key.size())), last = last_word(rest);
    if (ref.is_blob() && (rest.empty() || is_integer(rest) || last == kParams)) return read_lists(ref.blob(), optimizer);
    if (last.size() == rest.size() || std::ranges::find(kHyperparameters, last) == std::end(kHyperparameters)) return;
    const std::string_view parameter = rest.substr(0, rest.size() - last.size() - 1);
    if (!is_integer(parameter)) parameters_[std::string(optimizer)].emplace(parameter);
  }

  void read_lists(BlobId blob, std::string_view optimizer) {
    const ItemId id = catalog_.item_of(blob);
    if (catalog_.items[id].file == kNone) return;
    const std::string_view key = catalog_.key(catalog_.blobs[blob]);
    if (catalog_.traits().in_torch_files) {
      const PickleGraph& graph = *catalog_.torch->files[catalog_.items[id].file]->graph;
      if (last_word(key) == kParams) take(graph, catalog_.torch->items[id].value, optimizer);
      return;
    }
    try {
      const Place place = catalog_.place_of(id, key);
      std::vector<std::byte> bytes;
      decode_item(files_, catalog_.items[id], place, kMaxItem, [&](Bytes block) { bytes.insert(bytes.end(), block.begin(), block.end()); });
      MemorySource source(bytes);
      const BlobItem item = read_blob_item(source, place, limits_);
      const PickleGraph graph(item.pickle, item.pickle_place, limits_);
      StateDict(graph, place, limits_).flatten_any([&](const StateDict::Leaf& leaf) {
        if (last_word(leaf.key.empty() ? key : leaf.key) == kParams) take(graph, leaf.value, optimizer);
      });
    } catch (const Error& e) {
      if (!can_be_collected(e.problem().id)) throw;
    }
  }

  void take(const PickleGraph& graph, const Value& list, std::string_view optimizer) {
    if (list.kind != Kind::kList) return;
    std::set<std::string, std::less<>>& parameters = parameters_[std::string(optimizer)];
    PickleMachine::Items items = graph.machine().items(list);
    for (Value v; items.next(v);) {
      if (v.kind == Kind::kText) parameters.emplace(graph.machine().text(v));
      else if (v.kind == Kind::kInt) parameters.insert(std::to_string(v.integer()));
    }
  }

  void judge(const std::string& optimizer, const std::set<std::string, std::less<>>& parameters, const KnownKeys& keys,
             std::vector<Problem>& notes) const {
    const auto has_state = [&](const std::string& key) { return keys.has(key) || keys.has_below(key); };
    const std::string state = optimizer + "state";
    std::vector<std::string_view> idle;
    for (const std::string& p : parameters)
      if (!has_state(state + "." + p)) idle.push_back(p);
    // State under other names, or in one object, says nothing about single parameters.
    if (idle.empty() || (idle.size() == parameters.size() && has_state(state))) return;
    const std::string of = optimizer.empty() ? "" : " of '" + optimizer.substr(0, optimizer.size() - 1) + "'";
    notes.push_back(make_finding(
        ProblemId::parameters_idle, Severity::kNote, {.path = catalog_.path},
        grouped(idle.size()) + " of " + counted(parameters.size(), "parameter") + of + ", such as '" + shortened(idle.front()) + "'"));
  }

  DataFiles& files_;
  const Catalog& catalog_;
  Limits limits_;
  std::map<std::string, std::set<std::string, std::less<>>> parameters_;  // by the text before `param_groups`
};

}  // namespace

std::vector<Problem> find_idle_parameters(DataFiles& files, const Catalog& catalog, const Limits& limits) {
  return Finder(files, catalog, limits).find();
}

}  // namespace dcp
