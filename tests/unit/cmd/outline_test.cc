// The outline of `inspect`: what is one row, and how it fits a screen.
#include "report/outline.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "base/fake_io.h"
#include "base/text.h"
#include "catalog/made_checkpoint.h"
#include "inputs/open.h"

using namespace dcp;
using namespace dcp::cmd;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

// A checkpoint of float32 tensors of these keys, each of one element, or of two for keys that end in "2d".
struct Outlined {
  explicit Outlined(const Lines& keys) {
    MadeCheckpoint made;
    for (const std::string& key : keys)
      made.tensors.push_back(whole_tensor(key, DType::float32, key.ends_with("2d") ? Ints{1, 2} : Ints{1}));
    made.put(io, "ckpt");
    catalog = read_checkpoint(io, "ckpt", {}).catalog;
    selection = select_keys(catalog, {});
  }
  Lines labels(const OutlineOptions& options = {}) const {
    Lines lines;
    for (const OutlineRow& row : outline_of(catalog, selection, options))
      lines.push_back(row.label + (row.keys() > 1 ? " x" + std::to_string(row.keys()) : "") + (row.example ? "" : " folded"));
    return lines;
  }
  FakeIo io;
  Catalog catalog;
  Selection selection;
};

}  // namespace

TEST_CASE("numbers in names count by their value") {
  CHECK(natural_less("layers.2.w", "layers.10.w"));
  CHECK_FALSE(natural_less("layers.10.w", "layers.2.w"));
  CHECK(natural_less("a", "a.b"));
  CHECK(natural_less("a", "\xC3\xA9"));  // as bytes, whether or not char has a sign
  CHECK(natural_less("x.01", "x.1"));
  CHECK_FALSE(natural_less("x.1", "x.01"));
  CHECK_FALSE(natural_less("x", "x"));
  CHECK(natural_less("x.99999999999999999999998", "x.99999999999999999999999"));
}

TEST_CASE("keys that differ in numbers only are one row, and so are those that differ in their last component") {
  Lines keys{"emb"};
  for (int i = 0; i < 12; ++i)
    for (const char* name : {"q.weight", "q.bias", "norm.2d"}) keys.push_back("layers." + std::to_string(i) + "." + name);
  CHECK(Outlined(keys).labels() == Lines{"emb", "layers.{0..11}.norm.2d x12", "layers.{0..11}.q.{bias, weight} x24"});
}

TEST_CASE("what has gaps, other shapes or zeros in front is not told as a range") {
  CHECK(Outlined({"l.0.w", "l.2.w", "l.10.w"}).labels() == Lines{"l.{0, 2, 10}.w x3"});
  CHECK(Outlined({"l.0.w", "l.1.2d"}).labels() == Lines{"l.0.w", "l.1.2d"});
  CHECK(Outlined({"l.00.w", "l.01.w"}).labels() == Lines{"l.00.w", "l.01.w"});
}

TEST_CASE("an outline has no more rows than it may, and folds what is not model first") {
  Lines keys;
  for (char a = 'a'; a <= 'z'; ++a) {
    keys.push_back(std::string("model.") + a + ".weight");
    keys.push_back(std::string("optimizer.state.") + a + ".exp_avg");
  }
  const Outlined o(keys);
  CHECK(o.labels({.rows = 100}).size() == 52);
  const Lines some = o.labels({.rows = 30});
  REQUIRE(some.size() == 27);
  CHECK(some[0] == "model.a.weight");
  CHECK(some.back() == "optimizer.state x26 folded");
  CHECK(o.labels({.rows = 2}) == Lines{"model x26 folded", "optimizer x26 folded"});
  CHECK(o.labels({.depth = 1}) == Lines{"model x26 folded", "optimizer x26 folded"});
  CHECK(o.labels({.depth = 2}).size() == 27);
}

TEST_CASE("values that are shown stay apart where they differ, and are shown once where all are equal") {
  const Outlined o({"train_state.step", "train_state.tokens", "optimizer.state.0.step", "optimizer.state.1.step"});
  std::map<KeyRef, std::string> values;
  for (const Entry& e : o.selection.entries) values[e.ref] = e.key.ends_with("tokens") ? "64" : "7";
  const Lines apart{"optimizer.state.{0..1}.step = 7 x2", "train_state.step = 7", "train_state.tokens = 64"};
  CHECK(o.labels({.values = &values}) == apart);
  CHECK(o.labels() == Lines{"optimizer.state.{0..1}.step x2", "train_state.{step, tokens} x2"});
  CHECK(o.labels({.rows = 1, .values = &values}) == Lines{"optimizer x2 folded", "train_state x2 folded"});
}

TEST_CASE("at a depth, layers stand apart, and the largest first if asked") {
  const Outlined o({"l.0.w", "l.0.v", "l.1.2d", "n"});
  CHECK(o.labels({.depth = 1}) == Lines{"l x3 folded", "n"});
  CHECK(o.labels({.depth = 2}) == Lines{"l.0 x2 folded", "l.1 folded", "n"});
  CHECK(o.labels({.depth = 3}) == Lines{"l.0.v", "l.0.w", "l.1.2d", "n"});
  CHECK(o.labels({.by_size = true}).front() == "l.0.{v, w} x2");
}
