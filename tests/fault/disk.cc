#include "disk.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace dcp::fault {
namespace {

// "out/a" -> "out", "a"; "a" -> "", "a".
std::pair<std::string, std::string> split(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::pair(std::string(), path) : std::pair(path.substr(0, slash), path.substr(slash + 1));
}

constexpr uint64_t kContents = 3;  // of a file that is not synced: old, new, zeros

}  // namespace

Disk::Disk(const Files& files) : root_(std::make_shared<Node>()) {
  root_->folder = true;
  for (const auto& [name, content] : files) {
    const bool folder = name.ends_with('/');
    const auto [above, last] = split(folder ? name.substr(0, name.size() - 1) : name);
    auto node = std::make_shared<Node>();
    node->folder = folder;
    node->durable = node->current = content;
    const NodePtr holder = folder_at(above);
    const NodePtr known = holder->names.contains(last) ? holder->names[last] : node;
    holder->names[last] = holder->durable_names[last] = known;
  }
}

// Made, with those above it, where it is not there: a list of files need not name their folders.
Disk::NodePtr Disk::folder_at(const std::string& path) {
  if (path.empty()) return root_;
  const auto [above, last] = split(path);
  const NodePtr holder = folder_at(above);
  NodePtr& node = holder->names[last];
  if (!node) {
    node = std::make_shared<Node>();
    node->folder = true;
    holder->durable_names[last] = node;
  }
  return node;
}

Disk::NodePtr Disk::at(const std::string& path) const {
  NodePtr node = root_;
  for (size_t begin = 0; begin < path.size();) {
    const size_t slash = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, slash - begin);
    if (name != ".") node = node->names.at(name);
    begin = slash + 1;
  }
  return node;
}

bool Disk::holds(const std::string& path) const {
  try {
    at(path);
    return true;
  } catch (const std::out_of_range&) {
    return false;
  }
}

Disk::NodePtr Disk::parent(const std::string& path) const { return at(split(path).first); }

void Disk::change_name(const std::string& folder, NameChange change) {
  const NodePtr holder = at(folder);
  if (!change.removed.empty()) holder->names.erase(change.removed);
  if (!change.added.empty()) holder->names[change.added] = change.node;
  holder->pending.push_back(std::move(change));
}

void Disk::apply(const Change& c) {
  const auto [folder, name] = split(c.path);
  switch (c.call) {
    case Call::kCreate:
    case Call::kMakeFolder: {
      if (parent(c.path)->names.contains(name)) return;  // opened again
      auto node = std::make_shared<Node>();
      node->folder = c.call == Call::kMakeFolder;
      return change_name(folder, {.removed = {}, .added = name, .node = node});
    }
    case Call::kAllocate: at(c.path)->current.resize(c.offset); return;
    case Call::kWrite: {
      std::string& bytes = at(c.path)->current;
      bytes.resize(std::max<size_t>(bytes.size(), c.offset + c.bytes.size()));
      bytes.replace(c.offset, c.bytes.size(), c.bytes);
      return;
    }
    case Call::kSync: {
      const NodePtr node = at(c.path);
      node->durable = node->current;
      return;
    }
    case Call::kSyncFolder: {
      const NodePtr node = at(c.path);
      node->durable_names = node->names;
      node->pending.clear();
      return;
    }
    case Call::kRename: {
      const auto [to_folder, to_name] = split(c.to);
      if (to_folder != folder) throw std::logic_error("a rename between folders");
      return change_name(folder, {.removed = name, .added = to_name, .node = at(c.path)});
    }
    case Call::kLink: {
      const auto [to_folder, to_name] = split(c.to);
      NodePtr node = holds(c.path) ? at(c.path) : nullptr;
      if (!node) {
        node = std::make_shared<Node>();
        node->durable = node->current = c.bytes;
      }
      return change_name(to_folder, {.removed = {}, .added = to_name, .node = std::move(node)});
    }
    case Call::kRemove:
      if (parent(c.path)->names.contains(name)) change_name(folder, {.removed = name, .added = {}, .node = nullptr});
      return;
    default: return;
  }
}

// Everything that may have more than one state, each node once.
void Disk::collect(const NodePtr& node, std::vector<NodePtr>& open) const {
  if (std::ranges::find(open, node) != open.end()) return;
  if (!node->folder) {
    if (node->durable != node->current) open.push_back(node);
    return;
  }
  if (!node->pending.empty()) open.push_back(node);
  for (const auto& [name, child] : node->durable_names) collect(child, open);
  for (const NameChange& c : node->pending)
    if (c.node) collect(c.node, open);
}

void Disk::build(const NodePtr& node, const std::string& prefix, const std::map<const Node*, uint64_t>& choices, Files& out) const {
  const auto chosen = choices.find(node.get());
  const uint64_t choice = chosen == choices.end() ? 0 : chosen->second;
  if (!node->folder) {
    out[prefix] = choice == 0 ? node->durable : choice == 1 ? node->current : std::string(node->current.size(), '\0');
    return;
  }
  if (!prefix.empty()) out[prefix + "/"] = "";
  Names names = node->durable_names;
  for (size_t i = 0; i < node->pending.size(); ++i) {
    if (!(choice >> i & 1)) continue;
    const NameChange& c = node->pending[i];
    if (!c.removed.empty()) names.erase(c.removed);
    if (!c.added.empty()) names[c.added] = c.node;
  }
  for (const auto& [name, child] : names) build(child, prefix.empty() ? name : prefix + "/" + name, choices, out);
}

void Disk::each_state(uint64_t most, std::mt19937_64& random, const std::function<void(const Files&)>& fn) const {
  std::vector<NodePtr> open;
  collect(root_, open);
  std::vector<uint64_t> sizes;
  uint64_t all = 1;
  for (const NodePtr& node : open) {
    sizes.push_back(node->folder ? uint64_t{1} << std::min<size_t>(node->pending.size(), 16) : kContents);
    all = all > most ? all : all * sizes.back();
  }
  std::set<Files> seen;
  for (uint64_t n = 0; n < std::min(all, most); ++n) {
    std::map<const Node*, uint64_t> choices;
    uint64_t rest = n;
    for (size_t i = 0; i < open.size(); ++i) {
      choices[open[i].get()] = all <= most ? rest % sizes[i] : n == 0 ? 0 : n == 1 && open[i]->folder ? sizes[i] - 1 : random() % sizes[i];
      rest /= sizes[i];
    }
    Files files;
    build(root_, "", choices, files);
    if (seen.insert(files).second) fn(files);
  }
}

}  // namespace dcp::fault
