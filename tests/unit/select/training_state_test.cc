// What is model and what is training state: a table of keys for each of the five rules of docs/model-only.md.
#include "select/training_state.h"

#include <catch2/catch_test_macros.hpp>

#include "select/told_state.h"

using namespace dcp;
using namespace dcp::test;

TEST_CASE("rule 1: an optimizer is found by param_groups beside state, whatever it is called") {
  const Lines z{"model: net", "z: param_groups"};
  CHECK(told({"net/0.weight", "z/state/0/anything", "!z/param_groups/#0/lr"}) == z);
  CHECK(told({"net/0.weight", "z/state/0/anything", "!z/param_groups"}) == z);                     // one object, as torch before 2.4
  CHECK(told({"net/0.weight", "z/state/0/anything", "z/param_groups/#0/lr []"}) == z);             // a learning rate that is a tensor
  CHECK(told({"net/0.weight", "!z/param_groups/#0/lr"}) == z);                                     // SGD has no state
  CHECK(told({"net/0.weight", "z/state.0.weight.anything", "!z/param_groups.0.weight.lr"}) == z);  // flattened, as by torchtitan
  CHECK(told({"net/0.weight", "z/state/0/x", "!z/param_groups/#0/lr", "z/slow/0/y"}) == z);        // and what it keeps beside them
  CHECK(told({"app/net/0.weight", "app/z/state/0/x", "!app/z/param_groups"}) == Lines{"model: app.net", "app.z: param_groups"});
  CHECK(told({"state/0/x", "!param_groups/#0/lr"}) == Lines{"param_groups: param_groups", "state: param_groups"});
  CHECK(told({"param_groups.0.weight", "state.weight"}) == Lines{"model: "});  // a list of parameters that is called so
}

TEST_CASE("rule 1: an optimizer is found by what it keeps of a tensor") {
  for (const char* slot : {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "acc_delta", "exp_inf"}) {
    const std::string name = slot;
    CAPTURE(name);
    const Lines z{"model: net", "z: slots"}, flat_z{"model: ", "z: slots"};
    CHECK(told({"net/0.weight", "z/state/0/" + name, "z/state/1/other"}) == z);
    CHECK(told({"net/A_log", "net/0.weight", "z/state/A_log/" + name}) == z);
    CHECK(told({"net/0.weight", "z/state.0.weight." + name, "z/state.A_log.other"}) == z);
    CHECK(told({"net/0.weight", "z/" + name + "/0.weight"}) == z);
    CHECK(told({"0.weight", "z.state." + name + ".0.weight", "z.state.other.0.weight"}) == flat_z);  // Megatron's
    CHECK(flat({"0/weight", "z/state/0/" + name, "z/state/1/other"}) == flat_z);
    CHECK(flat({"A_log", "A_log." + name}) == Lines{"model: ", "A_log." + name + ": slots"});
    CHECK(flat({"0.weight", name + ".0.weight"}) == Lines{"model: ", name + ": slots"});
    // A module's averages, in buffers.
    CHECK(told({"net/0.weight", "net/book." + name, "net/state.book." + name}) == Lines{"model: net"});
    CHECK(told({"0.weight", "book." + name, "state.book." + name}) == Lines{"model: "});
    CHECK(flat({"0.weight", "book." + name, "state." + name}) == Lines{"model: "});
    CHECK(told({"state/model/0.weight", "state/model/book." + name, "state/o/state/0/" + name}) ==
          Lines{"model: state.model", "state.o: slots"});
  }
  CHECK(flat({"0.weight", "z.state.0.step []", "z.state.0.sum"}) == Lines{"model: ", "z: slots"});
  CHECK(flat({"0.weight", "z.state.0.weight.step []", "z.state.0.weight.prev"}) == Lines{"model: ", "z: slots"});
  CHECK(flat({"state.0.weight", "state.0.step []"}) == Lines{"model: "});  // a list of modules
}

TEST_CASE("rule 2: names of a trainer's, and of optimizers where a model stands elsewhere") {
  for (const char* name : {"optim", "optimizer", "optimizers", "optimizer_0", "optimizer1", "opt_state", "lr_scheduler", "dataloader",
                           "rng_state", "train_state"}) {
    CAPTURE(name);
    const std::string n = name;
    CHECK(told({"w", n + "/x"}) == Lines{"model: ", n + ": name"});
    CHECK(told({"0.weight", n + "/x"}) == Lines{"model: ", n + ": name"});
    CHECK(told({"0.weight", "!" + n}) == Lines{"model: ", n + ": name"});
    CHECK(told({"0.weight", n + ".x"}) == Lines{"model: ", n + ": name"});
    CHECK(flat({"a/w", n + "/x"}) == Lines{"model: ", n + ": name"});
    CHECK(told({"0.weight", n}) == Lines{"model: "});  // a module's parameter
    CHECK(told({"model/w", "model/" + n + "/x"}) == Lines{"model: model"});
    CHECK(flat({"a/w", "b/" + n + "/x"}) == Lines{"model: "});
  }
  CHECK(told({"0.weight", "!epoch", "!step", "!seed"}) == Lines{"model: ", "epoch: name", "seed: beside", "step: name"});
  CHECK(told({"0.weight", "chained_0.optimizer.x", "chained_1.lr_scheduler.y"}) ==
        Lines{"model: ", "chained_0.optimizer: name", "chained_1.lr_scheduler: name"});
  for (const char* name : {"opt", "adam", "optim_g", "optimizerG", "actor_optimizer", "Adam", "muon_state"}) {
    CAPTURE(name);
    const std::string n = name;
    CHECK(told({"model/w", n + "/x"}) == Lines{"model: model", n + ": name"});
    CHECK(told({"policy/0.weight", n + "/#0/m/0.weight"}) == Lines{"model: policy", n + ": name"});
    CHECK(told({n + "/0.weight"}) == Lines{"model: " + n});  // nothing else is a model
    CHECK(told({"model/" + n + "/weight"}) == Lines{"model: model"});
  }
  // JAX's TrainState holds the model.
  CHECK(told({"train_state/params/w", "train_state/opt_state/m", "!train_state/step"}) ==
        Lines{"model: train_state.params", "train_state.opt_state: name", "train_state.step: name"});
}

TEST_CASE("rule 3: the model") {
  for (const char* name : {"model", "module", "net", "state_dict", "params", "model_state_dict"}) {
    CAPTURE(name);
    const std::string n = name;
    CHECK(told({n + "/w", "loss [3]"}) == Lines{"model: " + n, "loss: beside"});
    CHECK(told({n + "/a/weight", n + "/b/weight", "!note"}) == Lines{"model: " + n, "note: beside"});
  }
  CHECK(told({"policy/0.weight", "queue", "!note"}) == Lines{"model: policy", "note: beside", "queue: beside"});
  CHECK(told({"state_dict/model/0.weight", "!epoch"}) == Lines{"model: state_dict.model", "epoch: name"});
  CHECK(told({"model/model.0.weight"}) == Lines{"model: model"});
  // Without either: the only dict that has tensors beside what is a trainer's, or all.
  CHECK(told({"app/w", "!note"}) == Lines{"model: app", "note: beside"});
  CHECK(told({"a/weight", "b/weight", "opt/weight"}) == Lines{"model: "});
  CHECK(told({"w", "b []"}) == Lines{"model: "});
  CHECK(told({"loss []", "!o/param_groups"}) == Lines{"loss: beside", "o: param_groups"});
  CHECK(told({"!last_epoch", "!gamma"}) == Lines{"model: "});
  CHECK(flat({"policy/0.weight", "queue"}) == Lines{"model: "});
  CHECK(told({}).empty());
  const TrainingState s = find_training_state(catalog_of({"model/w", "policy/0.weight", "head/weight"}));
  REQUIRE(s.models.size() == 3);
  CHECK((s.models[0].sign == Sign::kSecond && s.models[1].sign == Sign::kName && s.models[2].sign == Sign::kTensorNames));
}

TEST_CASE("rule 4: several models, and one in pieces") {
  const std::string opt = "!o/param_groups";
  CHECK(told({"model/0.weight", "ema/0.weight", opt}) == Lines{"model: ema", "model: model", "o: param_groups"});
  CHECK(told({"model/0.weight", "head/weight", opt}) == Lines{"model: head", "model: model", "o: param_groups"});
  CHECK(told({"model/alpha", "ema/alpha", opt}) == Lines{"model: ema", "model: model", "o: param_groups"});
  CHECK(told({"0.weight", "ema/0.weight"}) == Lines{"model: ", "model: ema"});
  CHECK(told({"G/0.weight", "D/0.weight", "noise"}) == Lines{"model: D", "model: G", "noise: beside"});
  CHECK(told({"params/a/bias", "ema/a/bias", "ema/b/bias"}) == Lines{"model: ema", "model: params"});
  CHECK(told({"a/model/w", "b/model/w"}) == Lines{"model: a.model", "model: b.model"});
  CHECK(told({"D/0.weight", "/G/0.weight"}) == Lines{"model: .G", "model: D"});  // as --root takes it
  CHECK(told({"nets/#0/0.weight", "nets/#1/0.weight"}) == Lines{"model: nets.0", "model: nets.1"});
  // The stages of a pipeline have no key in common, and some that differ in numbers.
  CHECK(told({"model_parts/#0/0.weight", "model_parts/#1/1.weight"}) == Lines{"model: model_parts"});
  CHECK(told({"model0/0.weight", "model1/1.weight", opt}) == Lines{"model: ", "o: param_groups"});
  CHECK(told({"net1/main.0.weight", "net2/critic.0.weight"}) == Lines{"model: net1", "model: net2"});
  const TrainingState s = find_training_state(catalog_of({"pp_0/model/0.weight", "!pp_0/o/param_groups", "pp_1/model/1.weight"}));
  REQUIRE(s.models.size() == 1);
  CHECK((s.models[0].path.empty() && s.models[0].components == 2 && s.models[0].keys == 2));
}

TEST_CASE("rule 5: a module's state dict is flat, and all else is beside it") {
  CHECK(told({"0.weight", "stats/mean [3]"}) == Lines{"model: ", "stats: beside"});
  CHECK(told({"model/0.weight", "model/stats/mean [3]"}) == Lines{"model: model", "model.stats: beside"});
  CHECK(told({"0.weight", "!0._extra_state", "!tokens", "!optimizer"}) == Lines{"model: ", "optimizer: name", "tokens: beside"});
  CHECK(told({"0.weight", "!tokens"}) == Lines{"model: "});  // nothing else is a trainer's
  CHECK(told({"a.weight", "!a._extra_state/recipe", "a._extra_state/amax [3]", "!o/param_groups"}) == Lines{"model: ", "o: param_groups"});
}

TEST_CASE("flat keys that repeat the names and shapes of most tensors are in doubt") {
  const auto doubt = [](const Lines& lines) { return find_training_state(catalog_of(lines, false)).doubtful_globs; };
  CHECK(doubt({"0.weight", "0.bias [2]", "adam.m.0.weight", "adam.m.0.bias [2]", "adam.t []"}) == Lines{"adam.*"});
  CHECK(doubt({"net.0.weight", "net.0.bias [2]", "z.state.0.weight.a", "z.state.0.bias.a [2]"}) == Lines{"z.state.*"});
  CHECK(doubt({"0.weight", "1.weight", "0.weight.master", "1.weight.master"}) == Lines{"*.master"});
  CHECK(doubt({"0.weight", "1.weight", "2.weight", "adam.m.0.weight"}).empty());                 // not of most
  CHECK(doubt({"0.weight", "1.weight", "0.weight.absmax [7]", "1.weight.absmax [7]"}).empty());  // in other shapes
  CHECK(doubt({"student.0.weight", "teacher.0.weight"}).empty());                                // modules
}

TEST_CASE("sums, and what holds state") {
  const TrainingState s =
      find_training_state(catalog_of({"model/a.weight", "!model/a.note", "z/state/0/exp_avg [3]", "!z/param_groups", "!z/x"}));
  REQUIRE(s.models.size() == 1);
  CHECK((s.models[0].keys == 2 && s.models[0].tensors == 1 && s.models[0].tensor_bytes == 16 && s.models[0].components == 1));
  REQUIRE(s.groups.size() == 1);
  CHECK((s.groups[0].keys == 3 && s.groups[0].tensors == 1 && s.groups[0].tensor_bytes == 12));
  CHECK(s.keys == 3);
  const auto has_state = [](const Lines& lines) { return find_training_state(catalog_of(lines)).has_state(); };
  CHECK(has_state({"model/0.weight", "opt/state/0/exp_avg", "!opt/param_groups/#0/lr"}));
  CHECK(has_state({"model/0.weight", "!lr_scheduler/last_epoch"}));
  CHECK(has_state({"model/0.weight", "rng/cuda"}));  // tensors of a trainer's
  CHECK_FALSE(has_state({"model/0.weight", "!config/dim"}));
}
