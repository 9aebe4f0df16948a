// Which keys, under which names: tables of cases. A case is a list of keys with their paths ("a/b/#0"; "" for no planner data) and what
// is left of them.
#include "select/select.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/build.h"
#include "catalog/made_checkpoint.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

struct Key {
  std::string key;
  std::string path = {};  // components joined by '/'
  bool blob = false;
};

Catalog catalog_of(const std::vector<Key>& keys, bool planner_data = true) {
  MadeCheckpoint made;
  made.planner_data = planner_data;
  const auto split = [](const std::string& text) {
    Lines parts;
    for (size_t at = 0; at <= text.size() && !text.empty();) {
      const size_t end = std::min(text.find('/', at), text.size());
      parts.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return parts;
  };
  for (const Key& k : keys) {
    if (k.blob) made.blobs.push_back({.key = k.key, .pickle = {}, .path = split(k.path)});
    else made.tensors.push_back({.key = k.key, .dtype = DType::float32, .dims = {1}, .chunks = {whole_chunk({1})}, .path = split(k.path)});
  }
  return build_catalog(made.content(), "ckpt", "ckpt").catalog;
}

// "key = path" of each entry that is left; only the key where the path spells the same.
Lines left(const Catalog& catalog, const SelectOptions& options) {
  const Selection s = select_keys(catalog, options);
  Lines lines;
  for (const Entry& e : s.entries) {
    std::string path;
    for (const PathPart& p : s.path(e))
      path += (path.empty() ? "" : "/") + (p.position >= 0 ? "#" + std::to_string(p.position) : std::string(p.name));
    lines.push_back(path == e.key ? path : std::string(e.key) + " = " + path);
  }
  return lines;
}
std::string refusal(const Catalog& catalog, const SelectOptions& options) {
  return error_line([&] { select_keys(catalog, options); });
}

using RuleKind = KeyRule::Kind;
KeyRule in(const std::string& glob) { return {RuleKind::kInclude, glob}; }
KeyRule out(const std::string& glob) { return {RuleKind::kExclude, glob}; }
KeyRule exactly(const std::string& key) { return {RuleKind::kKey, key}; }

// A trainer's checkpoint through dcp.save({"app": AppState}).
const std::vector<Key> kApp{{"app.model.layers.0.w", "app/model/layers.0.w"},
                            {"app.model.layers.1.w", "app/model/layers.1.w"},
                            {"app.optim.state.layers.0.w.exp_avg", "app/optim/state/layers.0.w/exp_avg"},
                            {"app.optim.param_groups.0.lr", "app/optim/param_groups/#0/lr", true}};

}  // namespace

TEST_CASE("rules: the last match wins, and the first rule says how all begins") {
  const Catalog c = catalog_of({{"a.w"}, {"a.b"}, {"b.w"}});
  const auto keys = [&](std::vector<KeyRule> rules) { return left(c, {.rules = std::move(rules)}); };
  CHECK(keys({}) == Lines{"a.w", "a.b", "b.w"});
  CHECK(keys({in("a*")}) == Lines{"a.w", "a.b"});
  CHECK(keys({out("a*")}) == Lines{"b.w"});
  CHECK(keys({in("a*"), out("*.b")}) == Lines{"a.w"});
  CHECK(keys({out("*.b"), in("a*")}) == Lines{"a.w", "a.b", "b.w"});
  CHECK(keys({out("*"), in("b.*")}) == Lines{"b.w"});
  CHECK(keys({exactly("a.b")}) == Lines{"a.b"});
  CHECK(keys({exactly("a.b"), exactly("b.w")}) == Lines{"a.b", "b.w"});
  CHECK(keys({in("?.w")}) == Lines{"a.w", "b.w"});
  CHECK(keys({in("[ab].w"), out("[!a]*")}) == Lines{"a.w"});
  CHECK(keys({in("*")}) == Lines{"a.w", "a.b", "b.w"});  // `*` crosses dots
}

TEST_CASE("rules: a dict that is no key means all below it") {
  const auto app = [](std::vector<KeyRule> rules) { return left(catalog_of(kApp), {.rules = std::move(rules)}).size(); };
  CHECK(app({out("app.optim")}) == 2);
  CHECK(app({in("app.model")}) == 2);
  CHECK(app({in("app"), out("app.model.layers.0")}) == 3);
  // One that is a key is that key alone.
  const Catalog both = catalog_of({{"a"}, {"a.b"}});
  CHECK(left(both, {.rules = {in("a")}}) == Lines{"a"});
  CHECK(left(both, {.rules = {out("a")}}) == Lines{"a.b"});
  CHECK(refusal(catalog_of(kApp), {.rules = {exactly("app.optim")}}).starts_with("ckpt: no such key: app.optim"));
}

TEST_CASE("rules that match nothing: refused where something is written, told elsewhere") {
  const Catalog c = catalog_of({{"a.w"}, {"a.b"}, {"b.w"}});
  const auto refused = [&](std::vector<KeyRule> rules) { return refusal(c, {.rules = std::move(rules), .unmatched = Unmatched::kRefuse}); };
  CHECK(refused({out("c*")}) == "ckpt: no key matches: exclude 'c*'");
  CHECK(refused({in("c*")}) == "ckpt: no key matches: include 'c*'");  // and not that nothing is left
  CHECK(refused({in("a*"), in("c*")}) == "ckpt: no key matches: include 'c*'");
  CHECK(refused({in("a*"), out("c*")}) == "ckpt: no key matches: exclude 'c*'");
  CHECK(refused({exactly("c")}) == "ckpt: no such key: c");
  // One of several excludes is enough.
  CHECK(refused({out("c*"), out("b*")}) == "no error");
  CHECK(refused({out("c*"), out("d*")}) == "ckpt: no key matches: exclude 'c*'");
  CHECK(refused({in("c*"), out("a*")}) == "ckpt: no key matches: include 'c*'");
  const auto renames = [&](const std::string& regex, const std::string& to, Unmatched unmatched) {
    return refusal(c, {.unmatched = unmatched, .renames = {{regex, to}}});
  };
  CHECK(renames("^c", "d", Unmatched::kRefuse) == "ckpt: no key matches: rename '^c=>d'");
  CHECK(renames("^a", "a", Unmatched::kRefuse) == "no error");  // found, if nothing changes
  CHECK(renames("^c", "d", Unmatched::kTell) == "no error");

  const Selection told = select_keys(c, {.rules = {out("c*"), exactly("e"), in("a*")}, .unmatched = Unmatched::kTell});
  CHECK(told.unmatched == std::vector<UnmatchedRule>{{"exclude", "c*"}, {"key", "e"}});
  CHECK(select_keys(c, {.rules = {out("c*")}}).unmatched == std::vector<UnmatchedRule>{{"exclude", "c*"}});
}

TEST_CASE("a key that is not there") {
  const Catalog c = catalog_of({{"w", "model/w"}});
  CHECK(refusal(c, {.rules = {exactly("v")}}) == "ckpt: no such key: v");
  CHECK(refusal(c, {.rules = {in("*"), exactly("v")}}) == "ckpt: no such key: v");
  // Other text of the metadata is no key: a dtype, a path component, a data file.
  for (const char* text : {"float32", "model", "__0_0.distcp"})
    CHECK(refusal(c, {.rules = {in("*"), exactly(text)}}) == "ckpt: no such key: " + std::string(text));
}

TEST_CASE("nothing that is left is an error, unless there was nothing") {
  const Catalog c = catalog_of({{"a"}, {"b", "", true}});
  CHECK(refusal(c, {.rules = {in("x*")}}) == "ckpt: no key is left after selection");
  CHECK(refusal(catalog_of({{"b", "", true}}), {.tensors_only = true}) == "ckpt: no key is left after selection");
  CHECK(refusal(catalog_of({{"optim.a"}}), {.model_only = true}).ends_with(": nothing that is model"));  // a flat key's first word
  CHECK(refusal(catalog_of({{"optim.a", "optim/a"}}), {.model_only = true}) ==
        "ckpt: no key is left after selection: nothing that is model");
  CHECK(left(catalog_of({}), {.model_only = true}).empty());
}

TEST_CASE("what is dropped is counted") {
  const Catalog c =
      catalog_of({{"a", "model/a"}, {"b", "optim/b"}, {"c", "optim/c"}, {"d", "step", true}, {"e", "model/e", true}, {"f", "model/f"}});
  const Selection s = select_keys(c, {.rules = {out("f")}, .model_only = true, .tensors_only = true});
  CHECK(s.entries.size() == 1);
  CHECK(s.dropped_by_rules.keys == 1);
  CHECK(s.dropped_blobs.size() == 1);  // the model's
  CHECK(s.dropped_non_model.keys == 3);
  CHECK(s.dropped_top == Lines{"d", "optim"});
  CHECK(s.stripped_root == "model");
}

TEST_CASE("model only: state that is no model goes, the root they share is stripped") {
  const auto model = [](const std::vector<Key>& keys) { return left(catalog_of(keys), {.model_only = true}); };
  CHECK(model(kApp) == Lines{"layers.0.w", "layers.1.w"});
  // torchtitan: the model's own keys flat on top, state of training beside them.
  CHECK(model({{"tok_embeddings.weight"},
               {"layers.0.w"},
               {"optimizer.state.x", "optimizer/state.x"},
               {"lr_scheduler", "", true},
               {"train_state", "", true},
               {"dataloader", "dataloader", true}}) == Lines{"tok_embeddings.weight", "layers.0.w"});
  // Lightning: {"state_dict": {...}, "optimizers": [...], "epoch": ...}
  CHECK(model({{"state_dict.model.w", "state_dict/model.w"},
               {"state_dict.model.b", "state_dict/model.b"},
               {"optimizers.0.state", "optimizers/#0/state"},
               {"epoch", "epoch", true},
               {"loops.fit", "loops/fit", true}}) == Lines{"model.w", "model.b"});
  // Nested roots go down to the deepest one.
  CHECK(model({{"state_dict.model.w", "state_dict/model/w"}, {"state_dict.model.b", "state_dict/model/b"}}) == Lines{"w", "b"});
  // Roots that say `model` are stripped, and the one subtree beside a trainer's state.
  CHECK(model({{"net.w", "net/w"}, {"net.b", "net/b"}}) == Lines{"w", "b"});
  CHECK(model({{"enc.w", "enc/w"}, {"enc.b", "enc/b"}}) == Lines{"enc.w = enc/w", "enc.b = enc/b"});
  CHECK(model({{"enc.w", "enc/w"}, {"optimizer", "", true}}) == Lines{"w"});
  CHECK(model({{"net.model.w", "net/model/w"}}) == Lines{"w"});
  // Pieces of a pipeline are one dict. If they have keys in common, they are several models.
  CHECK(model({{"model.0.0.bias", "model/#0/0.bias"}, {"model.1.1.bias", "model/#1/1.bias"}}) == Lines{"0.bias", "1.bias"});
  const Catalog list = catalog_of({{"a.model.0.0.bias", "a/model/#0/0.bias"}, {"a.model.1.0.bias", "a/model/#1/0.bias"}});
  CHECK(refusal(list, {.model_only = true}) == "ckpt: there are several models: root a.model.0, root a.model.1");
  CHECK(left(list, {.root = "a.model.1"}) == Lines{"0.bias"});
  CHECK(model({{"model0.w0", "model0/w0"}, {"model1.w1", "model1/w1"}, {"optimizer", "", true}, {"loss", "loss"}}) == Lines{"w0", "w1"});
  CHECK(model({{"model", "model"}}) == Lines{"model"});  // the leaf is no root
}

TEST_CASE("model only: scalars and objects beside the root do not keep it from being stripped") {
  const Catalog c = catalog_of(
      {{"model.w", "model/w"}, {"model.note", "model/note", true}, {"loss", "loss"}, {"seed", "seed", true}, {"args.lr", "args/lr", true}});
  CHECK(left(c, {.model_only = true}) == Lines{"w", "note"});
  CHECK(left(c, {.model_only = true, .keep_root = true}) == Lines{"model.w = model/w", "model.note = model/note"});
  const Selection s = select_keys(c, {.model_only = true});
  CHECK(s.stripped_root == "model");
  CHECK(s.dropped_top == Lines{"args", "loss", "seed"});
  CHECK(s.dropped_non_model.keys == 3);
}

TEST_CASE("model only: several models are refused unless one is chosen or their roots are kept") {
  const Catalog c = catalog_of({{"model.w", "model/w"},
                                {"ema.w", "ema/w"},
                                {"x.teacher.weight", "x/teacher/weight"},
                                {"x.optim.a", "x/optim/a"},
                                {"x.n", "x/n", true}});
  CHECK(refusal(c, {.model_only = true}) == "ckpt: there are several models: root ema, root model, root x.teacher");
  CHECK(left(c, {.model_only = true, .root = "model"}) == Lines{"w"});
  CHECK(left(c, {.model_only = true, .root = "x"}) == Lines{"weight"});
  CHECK(left(c, {.model_only = true, .root = "x.teacher"}) == Lines{"weight"});
  CHECK(left(c, {.rules = {out("ema.*"), out("x.*")}, .model_only = true}) == Lines{"w"});
  CHECK(left(c, {.model_only = true, .keep_root = true}) ==
        Lines{"model.w = model/w", "ema.w = ema/w", "x.teacher.weight = x/teacher/weight"});
  CHECK(left(c, {}).size() == 5);
  std::vector<Key> many;
  for (int i = 10; i < 40; ++i) many.push_back({"m" + std::to_string(i) + ".0.weight", "m" + std::to_string(i) + "/0.weight"});
  many.push_back({"optimizer", "", true});
  CHECK(refusal(catalog_of(many), {.model_only = true}).ends_with("root m25 and 14 more"));
}

TEST_CASE("without planner data a key is one component, judged by what stands before its first dot") {
  const Catalog c = catalog_of({{"model.w"}, {"optimizer.state.w"}, {"encoder.optimizer.w"}}, false);
  CHECK(left(c, {.model_only = true}) == Lines{"model.w", "encoder.optimizer.w"});
  CHECK(select_keys(c, {.model_only = true}).dropped_top == Lines{"optimizer"});
  // A root is text then.
  CHECK(left(c, {.root = "model"}) == Lines{"w"});
  CHECK(left(c, {.root = "optimizer.state"}) == Lines{"w"});
  CHECK(refusal(c, {.root = "mode"}) == "ckpt: no key lies under this root (got mode, expected one of encoder, model, optimizer)");
}

TEST_CASE("a root at any depth is taken and stripped") {
  const Catalog c = catalog_of(kApp);
  CHECK(left(c, {.root = "app.model"}) == Lines{"layers.0.w", "layers.1.w"});
  CHECK(left(c, {.root = "app"}) == Lines{"model.layers.0.w = model/layers.0.w", "model.layers.1.w = model/layers.1.w",
                                          "optim.state.layers.0.w.exp_avg = optim/state/layers.0.w/exp_avg",
                                          "optim.param_groups.0.lr = optim/param_groups/#0/lr"});
  CHECK(left(c, {.root = "app.optim.param_groups.0"}) == Lines{"lr"});
  CHECK(left(c, {.root = "app.optim.state.layers.0.w"}) == Lines{"exp_avg"});  // a component may hold dots
  for (const std::string root : {"ap", "app.model.layers", "app.model.layers.0.w", "model", ".app"})
    CHECK(refusal(c, {.root = root}).starts_with("ckpt: no key lies under this root (got " + root));
  CHECK(refusal(c, {.root = "ap"}) == "ckpt: no key lies under this root (got ap, expected one of app)");
  const Selection s = select_keys(c, {.root = "app.model"});
  CHECK(s.dropped_outside_root.keys == 2);
  CHECK(s.root == "app.model");
  CHECK(s.stripped_root.empty());
  CHECK(left(c, {.model_only = true, .root = "app"}) == Lines{"layers.0.w", "layers.1.w"});  // the root first
}

TEST_CASE("model only: a model's parameters beside another's root are a second model") {
  const Catalog c = catalog_of({{"model.w", "model/w"}, {"lm_head.weight"}});
  CHECK(refusal(c, {.model_only = true}).starts_with("ckpt: there are several models (got root model"));
  CHECK(left(c, {.model_only = true, .root = "model"}) == Lines{"w"});
}

TEST_CASE("model only: flat keys in doubt are refused until they are excluded") {
  const Catalog c = catalog_of({{"0.weight"}, {"adam.m.0.weight"}});
  CHECK(refusal(c, {.model_only = true}) ==
        "ckpt: tensors that have the names and shapes of others may be a second model, or an optimizer's: exclude 'adam.*'");
  CHECK(left(c, {.rules = {{KeyRule::Kind::kExclude, "adam.*"}}, .model_only = true}) == Lines{"0.weight"});
  CHECK(left(c, {}) == Lines{"0.weight", "adam.m.0.weight"});
}

TEST_CASE("model only: the names of torch's tutorials, and of Lightning's .ckpt files") {
  const auto model = [](const std::vector<Key>& keys) { return left(catalog_of(keys), {.model_only = true}); };
  CHECK(model({{"model_state_dict.w", "model_state_dict/w"},
               {"optimizer_state_dict.state.0.step", "optimizer_state_dict/state/0/step"},
               {"epoch", "epoch", true}}) == Lines{"w"});
  CHECK(model({{"state_dict.w", "state_dict/w"},
               {"optimizer_states.0.state", "optimizer_states/#0/state"},
               {"pytorch-lightning_version", "pytorch-lightning_version", true},
               {"hyper_parameters.lr", "hyper_parameters/lr", true}}) == Lines{"w"});
}

TEST_CASE("source keys stay what they are") {
  const Catalog c = catalog_of(kApp);
  const Selection s = select_keys(c, {.root = "app.model"});
  CHECK(c.key(s.entries[1].ref) == "app.model.layers.1.w");
  CHECK(s.entries[1].key == "layers.1.w");
}
