#include "maps/derive_objects.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "pickle/graph.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

class ObjectDeriver {
 public:
  ObjectDeriver(const SourceFacts& source, const maps::RunState& run, Derived& derived)
      : from_(source.catalog), resolved_(source.resolved), run_(run), to_(derived) {}

  void run() {
    for (const maps::ObjectMap& o : run_.objects) {
      for (const BlobId other : o.same) check_same(o, other);
      if (!o.each_of) {
        add(o);
        continue;
      }
      for (const maps::Becomes* b : in_list(*o.each_of)) {
        maps::ObjectMap one = o;
        one.each_of.reset();
        put_name(one.key, b->key);
        for (std::string& part : one.path) put_name(part, b->key);
        add(one);
      }
    }
  }

 private:
  static void put_name(std::string& text, const std::string& name) {
    if (const size_t at = text.find("{name}"); at != text.npos) text.replace(at, 6, name);
  }

  void add(const maps::ObjectMap& o) {
    const BlobId blob = o.same.front();
    const ItemId source = from_.item_of(blob);
    Resolved& r = to_.resolved;
    const auto item = narrow<ItemId>(to_.catalog.items.size());
    if (o.lists_parameters) r.blobs[item].item = list(blob);
    else if (const auto [first, is_new] = first_.try_emplace(resolved_.first_of(source), item); is_new)
      r.blobs.emplace(item, resolved_.blob(source));
    else r.shared.emplace(item, first->second);
    to_.catalog.items.push_back(o.lists_parameters ? Item() : from_.items[source]);
    to_.catalog.saved_keys.push_back(to_.catalog.strings.intern(from_.key(from_.blobs[blob])));
    r.items.emplace_back();
    r.views.of.emplace_back();
    r.views.record.push_back(item);
    name(o, from_.blobs[blob]);
  }

  void name(const maps::ObjectMap& o, const Blob& source) {
    Catalog& c = to_.catalog;
    const auto first = narrow<uint32_t>(c.path_elements.size());
    for (const std::string& part : o.path) c.path_elements.push_back(PathElement::name(c.strings.intern(part)));
    for (uint32_t i = source.path.first; o.path.empty() && i < source.path.first + source.path.count; ++i) {
      const PathElement p = from_.path_elements[i];
      const auto text = [&] { return c.strings.intern(from_.strings[p.name_id()]); };
      c.path_elements.push_back(p.is_position() ? p : p.is_integer() ? PathElement::integer_name(text()) : PathElement::name(text()));
    }
    const StringId key = c.strings.intern(o.key);
    if (c.path_elements.size() == first) c.path_elements.push_back(PathElement::name(key));
    c.order.push_back(KeyRef::blob_at(c.blobs.size()));
    c.blobs.push_back({.key = key, .path = {first, narrow<uint32_t>(c.path_elements.size()) - first}});
  }

  std::string_view key(BlobId blob) const { return from_.key(from_.blobs[blob]); }
  const BlobItem& item(BlobId blob) const { return resolved_.blob(from_.item_of(blob)).item; }

  void check_same(const maps::ObjectMap& o, BlobId other) const {
    const BlobItem &one = item(o.same.front()), &its = item(other);
    if (std::ranges::equal(one.pickle, its.pickle) && (one.storages.empty() || other == o.same.front())) return;
    throw Error(
        maps::state_differs(from_, KeyRef::blob_at(other), "a value different from that of " + shortened(key(o.same.front())), o.key));
  }

  // The names in a list.
  std::set<std::string, std::less<>> names_in(BlobId blob) const {
    const BlobItem& source = item(blob);
    const PickleGraph graph(source.pickle, source.pickle_place, limits_);
    const PickleMachine& machine = graph.machine();
    const Place place{.path = from_.path, .tensor = std::string(key(blob)), .object = true};
    const std::string expected = "a list of names, as torch's get_optimizer_state_dict gives it";
    if (graph.root().kind != Kind::kList) fail(ProblemId::map_key_unmapped, place, machine.describe(graph.root()), expected);
    std::set<std::string, std::less<>> names;
    PickleMachine::Items items = machine.items(graph.root());
    for (Value v; items.next(v);) {
      if (v.kind != Kind::kText) fail(ProblemId::map_key_unmapped, place, "a parameter as " + machine.describe(v), expected);
      names.insert(maps::unwrapped(machine.text(v)));
    }
    return names;
  }

  // What the parameters of a list become.
  std::vector<const maps::Becomes*> in_list(BlobId blob) const {
    const std::set<std::string, std::less<>> names = names_in(blob);
    std::vector<const maps::Becomes*> all;
    for (const maps::Becomes& b : run_.becomes) {
      const auto has = [&](const std::string& name) { return names.contains(name); };
      if (std::ranges::none_of(b.from, has)) continue;
      if (const auto lacks = std::ranges::find_if_not(b.from, has); lacks != b.from.end())
        throw Error(maps::state_differs(from_, KeyRef::blob_at(blob), "not " + shortened(*lacks), b.key));
      all.push_back(&b);
    }
    return all;
  }

  BlobItem list(BlobId blob) const {
    std::string pickle;
    PickleWriter writer(pickle, PickleProtocol::k2);
    writer.begin();
    writer.op(Op::EMPTY_LIST);
    writer.op(Op::MARK);
    for (const maps::Becomes* b : in_list(blob)) writer.text(b->key);
    writer.op(Op::APPENDS);
    writer.end();
    BlobItem made{.pickle = {}, .pickle_place = item(blob).pickle_place, .storages = {}};
    made.pickle.assign(as_bytes(pickle).begin(), as_bytes(pickle).end());
    return made;
  }

  const Catalog& from_;
  const Resolved& resolved_;
  const maps::RunState& run_;
  Derived& to_;
  const Limits limits_{};
  std::unordered_map<ItemId, ItemId> first_;  // by item of the source
};

}  // namespace

void add_objects(const SourceFacts& source, const maps::RunState& run, Derived& derived) { ObjectDeriver(source, run, derived).run(); }

}  // namespace dcp
