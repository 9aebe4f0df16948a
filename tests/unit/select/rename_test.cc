#include "select/rename.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/build.h"
#include "catalog/made_checkpoint.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

// "key = path" of tensors whose paths are these, named by joining them.
Lines names(const std::vector<Lines>& paths, const SelectOptions& options) {
  MadeCheckpoint made;
  for (const Lines& path : paths) {
    std::string key;
    for (const std::string& p : path) key += (key.empty() ? "" : ".") + p.substr(p.starts_with('#'));
    made.tensors.push_back({.key = key, .dtype = DType::float32, .dims = {1}, .chunks = {whole_chunk({1})}, .path = path});
  }
  const Catalog catalog = build_catalog(made.content(), "ckpt", "ckpt").catalog;
  const Selection s = select_keys(catalog, options);
  Lines lines;
  for (const Entry& e : s.entries) {
    std::string path;
    for (const PathPart& p : s.path(e))
      path += (path.empty() ? "" : "/") + (p.position >= 0 ? "#" + std::to_string(p.position) : std::string(p.name));
    lines.push_back(std::string(e.key) + " = " + path);
  }
  return lines;
}

}  // namespace

TEST_CASE("prefixes of wrappers") {
  CHECK(without_wrappers("_orig_mod.layers.0.w") == "layers.0.w");
  CHECK(without_wrappers("layers._fsdp_wrapped_module._checkpoint_wrapped_module.w") == "layers.w");
  CHECK(without_wrappers("module._orig_mod.module.w") == "w");
  CHECK(without_wrappers("layers.module.w") == "layers.module.w");  // DDP wraps the whole
  CHECK(without_wrappers("my_orig_mod.w") == "my_orig_mod.w");
  CHECK(without_wrappers("a._orig_mod._orig_mod.w") == "a.w");
  CHECK(without_wrappers("module.") == "module.");
  CHECK(without_wrappers("").empty());
  CHECK(without_wrappers("a._orig_mod.") == "a.");
  std::string wrapped;
  for (int i = 0; i < 300'000; ++i) wrapped += i % 2 ? "module." : "_orig_mod.";
  CHECK(without_wrappers(wrapped + "w") == "w");
}

TEST_CASE("steps that a new name keeps stay steps") {
  CHECK(names({{"a", "#1", "b", "c"}}, {.renames = {{"c$", "d.e"}}}) == Lines{"a.1.b.d.e = a/#1/b/d.e"});
  CHECK(names({{"a", "#1", "b", "c"}}, {.renames = {{"^a.1", "a.12"}}}) == Lines{"a.12.b.c = a/12.b.c"});
  CHECK(names({{"a", "b", "c"}}, {.renames = {{"c$", ""}}}) == Lines{"a.b. = a/b."});
}

TEST_CASE("cleaned names keep their nesting") {
  CHECK(names({{"model", "_orig_mod.w"}, {"model", "b"}}, {.clean_fqns = true}) == Lines{"model.w = model/w", "model.b = model/b"});
  CHECK(error_line([] { names({{"model", "_orig_mod.w"}, {"model", "w"}}, {.clean_fqns = true}); }) ==
        "ckpt: tensor 'model.w': two keys have the same name in the output: 'model.w', which is also the name of 'model._orig_mod.w'");
}

TEST_CASE("regular expressions, one after the other, then the map of whole names") {
  const std::vector<Lines> paths{{"model", "layers", "w0"}, {"model", "layers", "#1"}};
  CHECK(names(paths, {.renames = {{"layers\\.w(\\d)", "blocks.\\1.weight"}}}) ==
        Lines{"model.blocks.0.weight = model/blocks.0.weight", "model.layers.1 = model/layers/#1"});
  CHECK(names(paths, {.renames = {{"^model\\.", ""}, {"layers", "h"}}}) == Lines{"h.w0 = h.w0", "h.1 = h.1"});
  CHECK(names(paths, {.renames = {{"w0", "$1\\\\x"}}}).at(0) == "model.layers.$1\\x = model/layers/$1\\x");
  CHECK(names(paths, {.renames = {{"w(0)", "\\12"}}}).at(0) == "model.layers.02 = model/layers/02");
  CHECK(names(paths, {.renames = {{"^model\\.", ""}}, .rename_map = {{"layers.w0", "head"}, {"model.layers.1", "no"}}}) ==
        Lines{"head = head", "layers.1 = layers.1"});
  CHECK(error_id([&] { names(paths, {.renames = {{"(", ""}}}); }) == "usage");
}

TEST_CASE("names that a rename makes equal") {
  CHECK(error_line([] { names({{"a1"}, {"a2"}}, {.renames = {{"\\d", ""}}}); }) ==
        "ckpt: tensor 'a2': two keys have the same name in the output: 'a', which is also the name of 'a1'");
  CHECK(error_line([] { names({{"a1"}, {"a2"}, {"b1"}, {"b2"}}, {.renames = {{"\\d", ""}}}); }) ==
        "ckpt: two keys have the same name in the output: 'a' of a1, a2; 'b' of b1, b2");
}

TEST_CASE("a root that is put above all") {
  CHECK(names({{"model", "w"}, {"l", "#0"}}, {.add_root = "app"}) == Lines{"app.model.w = app/model/w", "app.l.0 = app/l/#0"});
  CHECK(names({{"model", "w"}}, {.model_only = true, .add_root = "net"}) == Lines{"net.w = net/w"});
  CHECK(names({{"w"}, {"l", "#0"}}, {.add_root = "app.model"}) == Lines{"app.model.w = app/model/w", "app.model.l.0 = app/model/l/#0"});
  CHECK(names({{"a.w"}}, {.add_root = "model", .renames = {{"a\\.", "b."}}}) == Lines{"model.b.w = model/b.w"});
  for (const char* wrong : {".", "a.", ".a", "a..b"}) CHECK(error_id([&] { names({{"w"}}, {.add_root = wrong}); }) == "usage");
}

TEST_CASE("names that still hold a wrapper's prefix are counted") {
  MadeCheckpoint made;
  for (const char* key : {"_orig_mod.w", "b", "x._flat_param"})
    made.tensors.push_back({.key = key, .dtype = DType::float32, .dims = {1}, .chunks = {whole_chunk({1})}});
  const Catalog catalog = build_catalog(made.content(), "ckpt", "ckpt").catalog;
  const Selection s = select_keys(catalog, {});
  CHECK(s.wrapped == 1);
  CHECK(s.wrapped_example == "_orig_mod.w");
  CHECK(s.renamed == 0);
  const Selection clean = select_keys(catalog, {.clean_fqns = true});
  CHECK(clean.wrapped == 0);
  CHECK(clean.renamed == 1);
  CHECK(clean.flat_parameters == 1);  // no prefix that could be stripped
  CHECK(clean.flat_example == "x._flat_param");
}

TEST_CASE("names and rules without effect are told, and a key counts once however often it is renamed") {
  MadeCheckpoint made;
  for (const char* key : {"_orig_mod.w", "b"})
    made.tensors.push_back({.key = key, .dtype = DType::float32, .dims = {1}, .chunks = {whole_chunk({1})}});
  const Catalog catalog = build_catalog(made.content(), "ckpt", "ckpt").catalog;
  const Selection s = select_keys(catalog, {.rules = {{KeyRule::Kind::kExclude, "nobody*"}},
                                            .clean_fqns = true,
                                            .renames = {{"^w$", "x"}, {"q", "z"}},
                                            .rename_map = {{"x", "y"}, {"none", "n"}}});
  CHECK(s.renamed == 1);
  CHECK(s.entries[0].key == "y");
  CHECK(s.unmatched == std::vector<UnmatchedRule>{{"exclude", "nobody*"}, {"rename", "q=>z"}});
  CHECK(s.unmapped == Lines{"none"});
  CHECK(error_line([&] { select_keys(catalog, {.renames = {{"(w)", "\\2"}}}); }) ==
        "got rename '(w)=>\\2', expected a replacement that names groups 1 to 1");
}
