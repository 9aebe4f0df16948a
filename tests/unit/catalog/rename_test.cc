#include "catalog/rename.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/build.h"
#include "catalog/made_checkpoint.h"

using namespace dcp;
using namespace dcp::test;

namespace {

Catalog catalog_of(const std::vector<std::vector<std::string>>& paths) {
  MadeCheckpoint made;
  for (const auto& path : paths) {
    std::string key;
    for (const std::string& part : path) key += (key.empty() ? "" : ".") + (part.starts_with('#') ? part.substr(1) : part);
    made.blobs.push_back({.key = key, .pickle = {}});
    made.blobs.back().path = path;
  }
  return build_catalog(made.content(), "ckpt", "ckpt");
}

// Final keys with their paths: "a.b = a|b".
std::vector<std::string> names(const Catalog& catalog, const SelectOptions& options) {
  const Selection s = select_keys(catalog, options);
  std::vector<std::string> out;
  for (const Entry& e : s.entries) {
    std::string text = std::string(e.key) + " =";
    for (const PathPart& p : s.path(e)) text += (text.ends_with('=') ? " " : "|") + (p.position >= 0 ? "#" + std::to_string(p.position) : std::string(p.name));
    out.push_back(text);
  }
  return out;
}
std::string renamed(const std::vector<std::string>& path, std::vector<RenameRule> rules) {
  return names(catalog_of({path}), {.renames = std::move(rules)}).front();
}

}  // namespace

TEST_CASE("prefixes of wrappers go wherever they stand as a component") {
  CHECK(without_wrappers("_orig_mod.layers.0._checkpoint_wrapped_module.w") == "layers.0.w");
  CHECK(without_wrappers("module.module._fsdp_wrapped_module.w") == "w");
  CHECK(without_wrappers("my_orig_mod.w") == "my_orig_mod.w");
  CHECK(without_wrappers("layers.module.w") == "layers.module.w");  // DDP's prefix stands at the start only
  CHECK(without_wrappers("module") == "module");
  CHECK(without_wrappers("_orig_mod._orig_mod.w") == "w");
}

TEST_CASE("--clean-fqns keeps the components of the path") {
  const Catalog c = catalog_of({{"model", "module.w"}, {"optim", "state", "_orig_mod.w", "exp_avg"}});
  CHECK(names(c, {.clean_fqns = true}) == std::vector<std::string>{"model.w = model|w", "optim.state.w.exp_avg = optim|state|w|exp_avg"});
  const Selection s = select_keys(c, {});
  CHECK(s.wrapped == 2);
  CHECK(s.wrapped_example == "model.module.w");
  CHECK(select_keys(c, {.clean_fqns = true}).wrapped == 0);
}

TEST_CASE("leading components that a new name keeps stay components") {
  CHECK(renamed({"model", "layers.0.w"}, {{"layers", "blocks"}}) == "model.blocks.0.w = model|blocks.0.w");
  CHECK(renamed({"model", "layers.0.w"}, {{"^model\\.", ""}}) == "layers.0.w = layers.0.w");
  CHECK(renamed({"a", "b", "c"}, {{"c$", "d.e"}}) == "a.b.d.e = a|b|d.e");
  CHECK(renamed({"a", "#0", "c"}, {{"c$", "d"}}) == "a.0.d = a|#0|d");
  CHECK(renamed({"a", "b"}, {{".*", "a."}}) == "a. = a.");
}

TEST_CASE("groups, dollars and rules one after the other") {
  CHECK(renamed({"layers.3.w"}, {{"layers\\.(\\d+)\\.(\\w)", "h.\\1.\\2\\2"}}) == "h.3.ww = h.3.ww");
  CHECK(renamed({"w"}, {{"w", "$1&\\\\"}}) == "$1&\\ = $1&\\");
  CHECK(renamed({"w"}, {{"w", "v"}, {"v", "u"}}) == "u = u");
  CHECK(renamed({"w1"}, {{"(w)1", "\\12"}}) == "w2 = w2");
}

TEST_CASE("root, then rename, then the map of whole names") {
  const Catalog c = catalog_of({{"app", "model", "w"}, {"app", "model", "b"}, {"app", "optim", "lr"}});
  CHECK(names(c, {.root = "app.model", .add_root = "net", .renames = {{"^net\\.w$", "net.weight"}}, .rename_map = {{"net.b", "net.bias"}}}) ==
        std::vector<std::string>{"net.weight = net|weight", "net.bias = net|bias"});
}

TEST_CASE("two keys that become one, and a regular expression that is none") {
  const Catalog c = catalog_of({{"model", "w"}, {"ema", "w"}});
  CHECK(error_line([&] { select_keys(c, {.renames = {{"^(model|ema)\\.", ""}}}); }) ==
        "ckpt: tensor 'ema.w': two keys have the same name in the output (got w)");
  CHECK(error_line([&] { select_keys(c, {.renames = {{"(", ""}}}); }) ==
        "the command line is wrong (got --rename '(', expected a regular expression)");
}
