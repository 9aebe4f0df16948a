// What is a model of its own, a piece of one, and what stands beside it: tables of keys.
#include <catch2/catch_test_macros.hpp>

#include "catalog/told_state.h"
#include "catalog/training_state.h"

using namespace dcp;
using namespace dcp::test;

TEST_CASE("copies of a model, and modules, repeat names and shapes too") {
  CHECK(told({"model/0.weight", "ema/0.weight", "teacher/0.weight"}) == Lines{"model: ema", "model: model", "model: teacher"});
  for (const char* name : {"ema", "teachers", "target_nets", "swa_model"}) {
    CAPTURE(name);
    const std::string n = name;
    Lines several{"model: " + n + ".a", "model: " + n + ".b", "model: model"};
    std::ranges::sort(several);
    CHECK(told({"model/0.weight", n + "/a/0.weight", n + "/b/0.weight"}) == several);
  }
  CHECK(told({"model/0.weight", "z/ema/0.weight", "z/teacher/0.weight"}) == Lines{"model: model", "model: z.ema", "model: z.teacher"});
  for (const char* name : {"best", "clients", "opponents", "snapshots"}) {
    CAPTURE(name);
    const std::string n = name;
    CHECK(told({"actor/0.weight", n + "/#0/0.weight", n + "/#1/0.weight"}) ==
          Lines{"model: actor", "model: " + n + ".0", "model: " + n + ".1"});
  }
  // Modules that are called like optimizers.
  for (const char* name : {"adam", "opt", "optim_g"}) {
    CAPTURE(name);
    const std::string n = name;
    CHECK(told({"model/a.weight", "model/" + n + ".m.a.weight", "model/" + n + ".v.a.weight"}) == Lines{"model: model"});
    CHECK(told({"model/a/weight", "model/" + n + "/m/a/weight", "model/" + n + "/v/a/weight"}) == Lines{"model: model"});
    CHECK(told({"a/weight", "a/bias", n + "/weight", n + "/bias"}) == Lines{"model: "});
    CHECK(flat({"a/weight", "a/bias", n + "/x/weight", n + "/x/bias"}) == Lines{"model: "});
    CHECK(flat({"a/layers.0.w", "a/layers.1.w", n + "/layers.0.w", n + "/layers.1.w"}) == Lines{"model: "});
  }
  CHECK(told({"shared/weight", "shared/bias", "experts/#0/weight", "experts/#0/bias", "experts/#1/weight", "experts/#1/bias"}) ==
        Lines{"model: "});
}

TEST_CASE("a module's state dict is flat: what is not, beside it, is none of its own") {
  const std::string opt = "!o/param_groups";
  CHECK(told({"backbone/0.weight", "queue", "class_weight [3]"}) == Lines{"model: backbone", "class_weight: beside", "queue: beside"});
  CHECK(told({"G/0.weight", "D/1.weight", "noise", opt}) == Lines{"model: D", "model: G", "noise: beside", "o: param_groups"});
  CHECK(told({"0.weight", "ema/0.weight", opt}) == Lines{"model: ", "model: ema", "o: param_groups"});
  CHECK(told({"0.weight", "stats/confusion", opt}) == Lines{"model: ", "o: param_groups", "stats: beside"});
  CHECK(told({"train_state/model/0.weight", "!train_state/step", "!train_state/o/param_groups"}) ==
        Lines{"model: train_state.model", "train_state.o: param_groups", "train_state.step: name"});
  CHECK(told({"train_state/params/0.weight", "train_state/opt_state/m", "!train_state/step"}) ==
        Lines{"model: train_state.params", "train_state.opt_state: name", "train_state.step: name"});
  CHECK(told({"global_step_10/model/0.weight", "!global_step_10/o/param_groups"}) ==
        Lines{"model: global_step_10.model", "global_step_10.o: param_groups"});
  CHECK(told({"model/0.weight", "train_state/step [1]", opt}) == Lines{"model: model", "o: param_groups", "train_state: name"});
  CHECK(told({"model/0.weight", "opt_proj/weight [3]", opt}) == Lines{"model: model", "model: opt_proj", "o: param_groups"});
  // But for the dicts that its get_extra_state() returned.
  for (const std::string& extra : {std::string("a._extra_state/amax [3]"), std::string("a._extra_state/x/step")}) {
    CHECK(told({"a.weight", extra}) == Lines{"model: "});
    CHECK(told({"a.weight", "!a._extra_state/recipe", extra, opt}) == Lines{"model: ", "o: param_groups"});
    CHECK(told({"model/a.weight", "model/" + extra, opt}) == Lines{"model: model", "o: param_groups"});
  }
}

TEST_CASE("what stands beside the model is not model") {
  const std::string opt = "!o/param_groups";
  CHECK(told({"model/0.weight", "!seed", "!a/b", "loss []", "queue", "stats/mean [3]"}) ==
        Lines{"model: model", "a: beside", "loss: beside", "queue: beside", "seed: beside", "stats: beside"});
  CHECK(told({"state/model/0.weight", "!state/run", "!state/t/epoch", "!state/t/x"}) ==
        Lines{"model: state.model", "state.run: beside", "state.t: name"});
  CHECK(told({"policy/0.weight", "!optimizer/param_groups", "loss []"}) ==
        Lines{"model: policy", "loss: beside", "optimizer: param_groups"});
  // A bare state dict with a trainer's objects beside; an object of a module is one.
  CHECK(told({"0.weight", "!0._extra_state", "!0._packed_params.dtype", "!tokens", "!optimizer"}) ==
        Lines{"model: ", "optimizer: name", "tokens: beside"});
  CHECK(told({"0.weight", "!tokens"}) == Lines{"model: "});
  // A parameter beside the root: all of it is the model.
  CHECK(told({"model/0.weight", "lm_head.weight"}) == Lines{"model: "});
  CHECK(find_training_state(catalog_of(Lines{"model/0.weight", "lm_head.weight"})).has_parameters_beside);
  // Nested modules.
  CHECK(told({"a/weight", "b/weight"}) == Lines{"model: "});
  CHECK(told({"model/a/weight", "model/net/weight"}) == Lines{"model: model"});
  CHECK(told({"app/a/weight", "!x"}) == Lines{"model: app", "x: beside"});
  // A dict that holds all of a module is a root, whatever it is called; one of nested dicts may be a module's.
  CHECK(told({"params/0.weight", "params/0.bias"}) == Lines{"model: params"});
  CHECK(told({"app/params/0.weight"}) == Lines{"model: app.params"});
  CHECK(told({"model/model/0.weight"}) == Lines{"model: model.model"});
  CHECK(told({"model/model.0.weight"}) == Lines{"model: model"});
  CHECK(told({"params/0.weight", "stats/mean [3]"}) == Lines{"model: "});
  // Nothing but state, and what a trainer counts beside an optimizer; the model may be an object.
  CHECK(told({"loss []", opt}) == Lines{"loss: beside", "o: param_groups"});
  CHECK(told({"queue [9]", "!model", "o/state/0/exp_avg [2]", "o/state/0/step []", opt}) ==
        Lines{"model: beside", "o: param_groups", "queue: beside"});
  CHECK(told({"w [2]", "loss []", "o/state/0/exp_avg [2]", opt}) == Lines{"model: ", "o: param_groups"});
  CHECK(told({"w []", "o/state/0/exp_avg []", opt}) == Lines{"model: ", "o: param_groups"});
  CHECK(told({"w", opt}) == Lines{"model: ", "o: param_groups"});
  CHECK(told({"optim/state/0/exp_avg", "!lr"}) == Lines{"lr: beside", "optim: slots"});
  CHECK(told({}).empty());
}

TEST_CASE("several models, and one in pieces") {
  const std::string opt = "!o/param_groups";
  CHECK(told({"model/w", "ema/w", "teacher/0.weight", opt}) == Lines{"model: ema", "model: model", "model: teacher", "o: param_groups"});
  CHECK(told({"netG/weight", "netD/weight", opt}) == Lines{"model: netD", "model: netG", "o: param_groups"});
  CHECK(told({"gen/0.weight", "disc/0.weight"}) == Lines{"model: disc", "model: gen"});
  // Each in a dict of its own with what belongs to it.
  CHECK(told({"actor/weights/0.weight", "!actor/o/param_groups", "critic/weights/0.weight", "!critic/o/param_groups"}) ==
        Lines{"model: actor.weights", "model: critic.weights", "actor.o: param_groups", "critic.o: param_groups"});
  CHECK(told({"policy/0.weight", "z/shadow/0.weight", "!z/decay"}) == Lines{"model: policy", "model: z.shadow", "z.decay: beside"});
  CHECK(told({"epoch_1/w/0.weight", "epoch_2/w/0.weight"}) == Lines{"model: epoch_1.w", "model: epoch_2.w"});
  CHECK(told({"gens/a/0.weight", "gens/b/1.weight", "disc/0.weight"}) == Lines{"model: disc", "model: gens.a", "model: gens.b"});
  CHECK(told({"agents/#0/pi/0.weight", "agents/#0/score []", "agents/#1/pi/0.weight", "agents/#1/score []"}) ==
        Lines{"model: agents.0.pi", "model: agents.1.pi", "agents.0.score: beside", "agents.1.score: beside"});
  CHECK(told({"0/model/0.weight", "!0/o/param_groups", "1/model/0.weight", "!1/o/param_groups"}) ==
        Lines{"model: 0.model", "model: 1.model", "0.o: param_groups", "1.o: param_groups"});
  CHECK(told({"a/model/w", "b/model/w"}) == Lines{"model: a.model", "model: b.model"});
  CHECK(told({"state_dict/model/w", "state_dict/ema/weight"}) == Lines{"model: state_dict.ema", "model: state_dict.model"});
  CHECK(told({"net1/0.weight", "net2/0.weight"}) == Lines{"model: net1", "model: net2"});
  CHECK(told({"model0/0.weight", "model1/1.weight", opt}) == Lines{"model: ", "o: param_groups"});
  CHECK(told({"model/#0/w0", "model/#1/w1"}) == Lines{"model: model"});
  CHECK(told({"model/0/w", "model/1/v"}) == Lines{"model: model"});
  CHECK(told({"model/0/0.weight", "model/0/1.weight", "model/1/2.weight", "model/1/3.weight"}) == Lines{"model: model"});
  CHECK(told({"0/0.weight", "0/1.weight", "1/2.weight", "1/3.weight", opt}) == Lines{"model: ", "o: param_groups"});
  // Nothing in common but numbers: the generator and the discriminator of a GAN.
  CHECK(told({"net1/main.0.weight", "net2/critic.0.weight", opt}) == Lines{"model: net1", "model: net2", "o: param_groups"});
  CHECK(told({"models/#0/main.0.weight", "models/#1/critic.0.weight", opt}) ==
        Lines{"model: models.0", "model: models.1", "o: param_groups"});
  // Keys in common: models of their own.
  CHECK(told({"a/model/#0/w", "a/model/#1/w", "!loss"}) == Lines{"model: a.model.0", "model: a.model.1", "loss: beside"});
  CHECK(told({"models/#0/0.weight", "models/#1/0.weight", opt}) == Lines{"model: models.0", "model: models.1", "o: param_groups"});
  CHECK(told({"model/0/0.weight", "model/1/0.weight"}) == Lines{"model: model.0", "model: model.1"});
  CHECK(told({"model/0/weight", "model/1/weight"}) == Lines{"model: model"});  // modules
  // Pieces with a root of their own.
  const TrainingState ranks = find_training_state(catalog_of({"r_0/model/0.weight", "r_0/model/1.weight", "r_1/model/2.weight"}));
  REQUIRE(ranks.models.size() == 1);
  CHECK((ranks.models[0].path.empty() && ranks.models[0].components == 2));
  const Lines list{"ranks/#0/model/0.weight", "!ranks/#0/o/param_groups", "ranks/#1/model/1.weight", "!ranks/#1/o/param_groups"};
  CHECK(told(list) == Lines{"model: ranks", "ranks.0.o: param_groups", "ranks.1.o: param_groups"});
  CHECK(find_training_state(catalog_of(list)).models[0].components == 3);
  CHECK(told({"model/model/model.w"}) == Lines{"model: model.model"});
}
