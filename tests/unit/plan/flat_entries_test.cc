// Which keys torch up to 2.3 makes of a state dict.
#include <catch2/catch_test_macros.hpp>

#include "catalog/made_blobs.h"
#include "plan/opened.h"
#include "plan/tree.h"

using namespace dcp;
using namespace dcp::test;

namespace {

using Paths = std::vector<std::vector<std::string>>;  // "#3" is a list position

std::string key_of(const std::vector<std::string>& path) {
  std::string key;
  for (const std::string& part : path) key += (key.empty() ? "" : ".") + (part.starts_with('#') ? part.substr(1) : part);
  return key;
}

struct Flat {
  explicit Flat(const Paths& blobs, const Paths& tensors) {
    MadeCheckpoint made;
    for (const auto& path : tensors) made.tensors.push_back({key_of(path), DType::int8, {2}, {whole_chunk({2})}, path});
    for (const auto& path : blobs) {
      made.blobs.push_back(number_blob(key_of(path), 3));
      made.blobs.back().path = path;
    }
    made.put(io, "ckpt");
    opened.emplace(io);
  }
  // Keys in order; those of containers in brackets.
  std::string keys() const {
    const FlatEntries flat = flat_terminal(opened->catalog, opened->selection, {});
    std::string text;
    for (uint32_t e = 0; e < flat.entries.size(); ++e) {
      const std::string key(flat.entries[e].key);
      text += (text.empty() ? "" : " ") + (flat.terminal.contains(e) ? "[" + key + "]" : key);
    }
    return text;
  }
  FakeIo io;
  std::optional<Opened> opened;
};

}  // namespace

TEST_CASE("a dict or list without a tensor below it is one key, the outermost of them") {
  CHECK(Flat({{"lr", "last_epoch"}, {"lr", "deep", "a"}, {"epoch"}}, {{"model", "w"}}).keys() == "model.w [lr] epoch");
  CHECK(Flat({{"lr", "last_epoch"}}, {{"lr", "t"}}).keys() == "lr.t lr.last_epoch");
  CHECK(Flat({{"o", "groups", "#0", "lr"}, {"o", "groups", "#1", "lr"}, {"o", "state", "w", "flags", "x"}}, {{"o", "state", "w", "step"}})
            .keys() == "o.state.w.step [o.groups] [o.state.w.flags]");
  CHECK(Flat({{"m", "#1", "k"}, {"m", "#2"}}, {{"m", "#0"}}).keys() == "m.0 [m.1] m.2");
  CHECK(Flat({{"epoch"}, {"step"}}, {}).keys() == "epoch step");
}

TEST_CASE("such a key's path leads to the container, and newer torch has a key for each leaf") {
  const Flat made({{"a", "b.c", "x"}, {"a", "b.c", "y"}}, {{"a", "w"}});
  const FlatEntries old = flat_terminal(made.opened->catalog, made.opened->selection, {});
  REQUIRE(old.entries.size() == 2);
  CHECK(old.entries[1].key == "a.b.c");
  const auto path = made.opened->selection.path(old.entries[1]);
  REQUIRE(path.size() == 2);
  CHECK(path[1].name == "b.c");
  CHECK(old.tree->node(old.terminal.at(1)).children.size() == 2);
  CHECK(flat_leaves(made.opened->selection).entries.size() == 3);
}
