// What a disk may hold after the power is lost: a model of a file system that promises what fsync promises, and nothing else.
//
// * The bytes of a file are on the disk when it was synced after they were written. Until then they are, or they are not, or the file has
// its
//   size and zeros.
// * A name made, moved or removed is on the disk when the folder that holds it was synced afterwards. Until then each of these changes is
// there or
//   is not, in any order; only a rename within a folder is one change.
// Journaling file systems promise more (ext4 keeps the order of names); NFS, FUSE and others do not.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fault_io.h"
#include "world.h"

namespace dcp::fault {

class Disk {
 public:
  explicit Disk(const Files& files);  // all of it durable
  void apply(const Change& change);

  // Calls fn with states that are possible now: all of them up to `most`, else a sample.
  void each_state(uint64_t most, std::mt19937_64& random, const std::function<void(const Files&)>& fn) const;

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  using Names = std::map<std::string, NodePtr>;
  struct NameChange {
    std::string removed, added;  // "" : none
    NodePtr node;
  };
  struct Node {
    bool folder = false;
    std::string durable, current;     // of a file
    Names names, durable_names;       // of a folder
    std::vector<NameChange> pending;  // of a folder: since it was synced
  };
  struct Choice;

  NodePtr at(const std::string& path) const;
  NodePtr folder_at(const std::string& path);
  bool holds(const std::string& path) const;
  NodePtr parent(const std::string& path) const;
  void change_name(const std::string& folder, NameChange change);
  void collect(const NodePtr& node, std::vector<NodePtr>& open) const;
  void build(const NodePtr& node, const std::string& prefix, const std::map<const Node*, uint64_t>& choices, Files& out) const;

  NodePtr root_;
};

}  // namespace dcp::fault
