// What a glob means among keys, and which one was meant by a glob that matches none.
#include "select/globs.h"

#include <catch2/catch_test_macros.hpp>

using namespace dcp;

namespace {

const KnownKeys kTrainer({"model.layers.0.weight", "model.layers.0.bias", "model.layers.10.weight", "model.norm.weight",
                          "optimizer.state.0.exp_avg", "optimizer.state.0.step", "optimizer.param_groups", "step", "a.b", "a.b.c",
                          "x[0].w"});

}  // namespace

TEST_CASE("a bare word that is no key but a dict means all below it") {
  CHECK(kTrainer.meant("optimizer") == "optimizer.*");
  CHECK(kTrainer.meant("model.layers.0") == "model.layers.0.*");
  CHECK(kTrainer.meant("optimizer.state.0") == "optimizer.state.0.*");
  for (const char* itself : {"step", "a.b", "optimizer.param_groups", "optim", "model.", "model.layer", "norm", "", "optimizer*", "mode?",
                             "[m]odel", "mod\\el", "x[0]"})
    CHECK(kTrainer.meant(itself) == itself);
}

TEST_CASE("the nearest glob is named for one that matches nothing") {
  const auto matches_whole = [](const std::string& glob) { return "a glob matches the whole key: '" + glob + "'"; };
  CHECK(kTrainer.hint_for("optim") == matches_whole("optimizer*"));
  CHECK(kTrainer.hint_for("optimizer.") == matches_whole("optimizer.*"));
  CHECK(kTrainer.hint_for("mod") == matches_whole("model*"));
  CHECK(kTrainer.hint_for("norm") == matches_whole("*.norm.*"));
  CHECK(kTrainer.hint_for("norm.weight") == matches_whole("*.norm.weight"));
  CHECK(kTrainer.hint_for("layers.0.*") == matches_whole("*.layers.0.*"));
  CHECK(kTrainer.hint_for("exp_avg") == matches_whole("*.exp_avg"));
  CHECK(kTrainer.hint_for("exp") == matches_whole("*exp*"));
  CHECK(kTrainer.hint_for("model.layers.1") == matches_whole("model.layers.10*"));
  CHECK(kTrainer.hint_for("optimzer") == matches_whole("optimizer*"));
  CHECK(kTrainer.hint_for("optimzer*") == "did you mean 'optimizer*'?");
  CHECK(kTrainer.hint_for("modle.layers.*") == "did you mean 'model.layers.*'?");
  CHECK(kTrainer.hint_for("*.wieght") == "did you mean '*.weight'?");
  CHECK(kTrainer.hint_for("model.nrm.weight") == "did you mean 'model.norm.weight'?");
  for (const char* far : {"", "vision_tower", "*.lora_A.*"}) CHECK(kTrainer.hint_for(far).empty());
  CHECK(KnownKeys(std::vector<std::string_view>()).hint_for("optim").empty());
}
