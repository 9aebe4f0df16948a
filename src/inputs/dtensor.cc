#include "inputs/dtensor.h"

namespace dcp {
namespace {

class DTensorReader {
 public:
  explicit DTensorReader(const PickleGraph& graph) : graph_(graph), m_(graph.machine()) {}

  std::optional<LocalShard> read(const Value& v) const {
    if (v.kind != Kind::kObject || graph_.global_of(v) != "torch._tensor._rebuild_from_type_v2") return {};
    const Value arguments = m_.arguments_of(v);
    if (arguments.kind != Kind::kTuple || arguments.n != 4) return {};
    const Value made_with = m_.element(arguments, 2), state = m_.element(arguments, 3);
    LocalShard shard;
    if (made_with.kind != Kind::kTuple || made_with.n < 3 || !numbers(m_.element(made_with, 2), shard.sizes)) return {};
    shard.local = attribute(state, "_local_tensor");
    if (const Value made = shard.local.kind == Kind::kObject ? m_.arguments_of(shard.local) : Value{};
        made.kind == Kind::kTuple && made.n > 2)
      numbers(m_.element(made, 2), shard.local_sizes);
    const Value spec = state_of(attribute(state, "_spec"));
    if (shard.local.kind != Kind::kObject || !placements(attribute(spec, "placements"), shard.placements)) return {};
    if (!coordinate(attribute(state_of(attribute(spec, "mesh")), "_coordinate_on_dim"), shard)) return {};
    return shard;
  }

 private:
  Value state_of(const Value& object) const { return object.kind == Kind::kObject ? m_.state_of(object) : Value{}; }

  // An attribute in an object's state, which is a dict, or a pair of dicts of attributes and slots (__reduce_ex__). kUnset: there is none.
  Value attribute(const Value& state, std::string_view name) const {
    if (state.kind == Kind::kTuple && state.n == 2) {
      const Value found = attribute(m_.element(state, 1), name);
      return found.kind != Kind::kUnset || m_.element(state, 0).kind != Kind::kDict ? found : attribute(m_.element(state, 0), name);
    }
    if (state.kind != Kind::kDict) return {};
    Value key, value, found;
    for (auto it = m_.items(state); it.next(key) && it.next(value);)
      if (m_.is_text(key, name)) found = value;
    return found;
  }

  bool numbers(const Value& tuple, std::vector<int64_t>& out) const {
    if (tuple.kind != Kind::kTuple && tuple.kind != Kind::kList) return false;
    Value n;
    for (auto it = m_.items(tuple); it.next(n);) {
      if (n.kind != Kind::kInt || n.integer() < 0 || out.size() >= kMaxDims) return false;
      out.push_back(n.integer());
    }
    return true;
  }

  bool coordinate(const Value& v, LocalShard& shard) const {
    if (v.kind == Kind::kNil) return true;
    std::vector<int64_t> of_dim;
    if (!numbers(v, of_dim) || of_dim.size() != shard.placements.size()) return false;
    for (const int64_t n : of_dim) {
      if (n >= static_cast<int64_t>(kMaxRanks)) return false;
      shard.coordinate.push_back(static_cast<uint32_t>(n));
    }
    return true;
  }

  bool placements(const Value& list, std::vector<Placement>& out) const {
    if (list.kind != Kind::kTuple && list.kind != Kind::kList) return false;
    Value v;
    for (auto it = m_.items(list); it.next(v);) {
      if (v.kind != Kind::kObject || out.size() >= kMaxDims) return false;
      const std::string cls = graph_.global_of(v);
      Placement p;
      if (cls.ends_with(".Shard")) p.kind = Placement::Kind::kShard;
      else if (cls.ends_with("._StridedShard")) p.kind = Placement::Kind::kStrided;
      else if (!cls.ends_with(".Replicate")) return false;  // Partial: the sum over the ranks is the tensor
      if (p.kind != Placement::Kind::kReplicate) {
        Value dim = attribute(m_.state_of(v), "dim");
        if (const Value made_with = m_.arguments_of(v); dim.kind == Kind::kUnset && made_with.kind == Kind::kTuple && made_with.n > 0)
          dim = m_.element(made_with, 0);
        if (dim.kind != Kind::kInt || dim.integer() < 0 || dim.integer() >= static_cast<int64_t>(kMaxDims)) return false;
        p.dim = dim.integer();
      }
      out.push_back(p);
    }
    return true;
  }

  static constexpr size_t kMaxDims = 64;  // as torch

  const PickleGraph& graph_;
  const PickleMachine& m_;
};

}  // namespace

std::optional<LocalShard> read_dtensor(const PickleGraph& graph, const StateDict::Leaf& leaf) {
  if (!leaf.tensor.cls.ends_with(".DTensor")) return {};
  return DTensorReader(graph).read(leaf.value);
}

}  // namespace dcp
