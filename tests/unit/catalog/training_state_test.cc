// What is model and what is training state: tables of keys.
#include "catalog/training_state.h"

#include <catch2/catch_test_macros.hpp>

#include "catalog/told_state.h"

using namespace dcp;
using namespace dcp::test;

TEST_CASE("an optimizer is told by param_groups beside state, whatever it is called") {
  const Lines optimizer{"model: net", "z: param_groups"};
  CHECK(told({"net/0.weight", "z/state/0/anything", "!z/param_groups/#0/lr", "!z/more"}) == optimizer);
  CHECK(told({"net/0.weight", "z/state/0/anything", "!z/param_groups"}) == optimizer);          // one object, as torch before 2.4
  CHECK(told({"net/0.weight", "z/state/0/anything", "z/param_groups/#0/lr []"}) == optimizer);  // a learning rate that is a tensor
  CHECK(told({"net/0.weight", "!z/param_groups/#0/lr"}) == optimizer);                          // SGD has no state
  CHECK(told({"net/0.weight", "z/state.0.weight.anything", "!z/param_groups.0.weight.lr"}) == optimizer);  // torchtitan's flattened form
  CHECK(told({"app/net/0.weight", "app/z/state/0/anything", "!app/z/param_groups/#0/lr"}) ==
        Lines{"model: app.net", "app.z: param_groups"});
  CHECK(told({"net/0.weight", "z/#0/state/0/anything", "!z/#0/param_groups/#0/lr", "!z/#1/param_groups/#0/lr"}) == optimizer);
  // The state dict of an optimizer itself.
  CHECK(told({"state/0/anything", "!param_groups/#0/lr"}) == Lines{"param_groups: param_groups", "state: param_groups"});
  // Without planner data.
  CHECK(flat({"net/0.weight", "z/state/0/anything", "!z/param_groups/#0/lr"}) == Lines{"model: ", "z: param_groups"});
  CHECK(flat({"app/net/0.weight", "app/z/state/0/anything", "!app/z/param_groups/#0/lr"}) == Lines{"model: ", "app.z: param_groups"});
  // A list of parameters that is called like it.
  CHECK(told({"param_groups.0.weight", "state.weight"}) == Lines{"model: "});
}

TEST_CASE("an optimizer is told by what it keeps of parameters") {
  for (const char* slot : {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "acc_delta", "exp_inf"}) {
    const std::string name = slot;
    CAPTURE(name);
    const Lines z{"model: net", "z: slots"};
    CHECK(told({"net/0.weight", "z/state/0/" + name}) == z);
    CHECK(told({"net/0.weight", "z/state/0/" + name, "z/state/1/other"}) == z);
    CHECK(told({"net/0.weight", "z/state/0.weight/" + name}) == z);
    CHECK(told({"net/0.weight", "z/state.0.weight." + name}) == z);
    CHECK(told({"net/0.weight", "z/state.model.state.0.weight." + name}) == z);  // `model` and `state` are modules here
    CHECK(told({"0.weight", "z.state." + name + ".0.weight", "z.state.master.0.weight"}) == Lines{"model: ", "z: slots"});  // Megatron's
    CHECK(flat({"0/weight", "z/state/" + name + "/0.weight"}) == Lines{"model: ", "z: slots"});
    CHECK(flat({"0/weight", "z/state/0/" + name}) == Lines{"model: ", "z: slots"});
    // One slot of one parameter beside it, or of all below the slot's name.
    CHECK(flat({"0.weight", "0.weight." + name, "1.bias"}) == Lines{"model: ", "0: slots"});
    CHECK(told({"model/0.weight", "model/0.weight." + name}) == Lines{"model: model", "model: slots"});
    CHECK(flat({"0.weight", "1.weight", name + ".0.weight", name + ".1.weight"}) == Lines{"model: ", name + ": slots"});
    CHECK(told({"net/0.weight", name + "/0.weight"}) == Lines{"model: net", name + ": slots"});
    CHECK(flat({"0.weight", name + ".0.weight", name + ".2.weight"}) == Lines{"model: "});
    CHECK(flat({"weight", name + ".weight"}) == Lines{"model: "});
  }
  CHECK(told({"net/0.weight", "z/state/0/step []", "z/state/0/sum"}) == Lines{"model: net", "z: slots"});
  CHECK(told({"net/0.weight", "z/state/0.weight/step []", "z/state/0.weight/sum"}) == Lines{"model: net", "z: slots"});
  CHECK(told({"net/0.weight", "z/exp_avg/0.weight", "z/exp_avg_sq/0.weight", "!z/lr"}) == Lines{"model: net", "z: slots"});
  CHECK(told({"net/0.weight", "exp_avg/0.weight", "exp_avg_sq/0.weight"}) == Lines{"model: net", "exp_avg: slots", "exp_avg_sq: slots"});
  CHECK(told({"net/0.weight", "z/0.weight/exp_avg", "z/0.weight/step []"}) == Lines{"model: net", "z: slots"});
}

TEST_CASE("an optimizer is told by the names of parameters elsewhere") {
  const Lines z{"model: policy", "z: slots"};
  CHECK(told({"policy/0.weight", "policy/0.bias", "z/state/0.weight/aaa", "z/state/0.bias/aaa"}) == z);
  CHECK(told({"policy/0.weight", "z/state.0.weight.aaa", "z/state.0.weight.count []"}) == z);
  CHECK(told({"policy/0.weight [1]", "z/state/0.weight/aaa [1]", "z/state/n [1]"}) == z);
  CHECK(told({"policy/weight", "policy/bias", "z/state/weight/aaa", "z/state/bias/aaa"}) == z);
  CHECK(told({"policy/0.weight", "policy/1.weight", "z/0.weight/aaa", "z/0.weight/bbb"}) == z);
  CHECK(told({"policy/a.state.0.weight", "z/state/a.state.0.weight/aaa", "z/state/a.state.0.weight/state/aaa"}) == z);
  CHECK(told({"app/policy/0.weight", "app/z/state/0.weight/aaa"}) == Lines{"model: app.policy", "app.z: slots"});
  CHECK(told({"0.weight", "z/state/0.weight/aaa"}) == Lines{"model: ", "z: slots"});
  CHECK(flat({"policy/0.weight", "z/state/0.weight/aaa"}) == Lines{"model: ", "z: slots"});
  CHECK(flat({"s/state/policy/0.weight", "s/state/z/state/0.weight/aaa"}) == Lines{"model: ", "s.state.z: slots"});
  // Not all of it, or by chance, or a module's.
  for (const Lines& keys : {Lines{"a.0.weight", "b.state.0.weight.g", "b.state.0.bias"}, Lines{"a.weight", "b.state.weight.g"},
                            Lines{"a.0.weight", "model.b.state.0.weight.g"}, Lines{"b.state.0.weight", "b.state.0.weight.absmax"}}) {
    CAPTURE(keys);
    CHECK(told(keys) == Lines{"model: "});
    CHECK(flat(keys) == Lines{"model: "});
  }
  CHECK(told({"model/a.weight", "model/a.weight/x"}) == Lines{"model: model"});
}

TEST_CASE("an optimizer is told by the names and shapes that it repeats") {
  const auto with = [](Lines keys, const Lines& slots) {  // each slot has a tensor of each parameter
    Lines all = keys;
    for (const std::string& slot : slots)
      for (const std::string& key : keys) all.push_back(slot + key.substr(key.rfind('/') + 1));
    return all;
  };
  const Lines net{"net/0.weight", "net/0.bias [2]"}, policy{"policy/0.weight", "policy/0.bias [2]"};
  // Beside a model's root, and beside any other dict, one that is called like an optimizer.
  for (const char* name : {"adam", "opt", "optimizer_g", "actor_optimizer", "optim_g", "optimizerG", "Adam"}) {
    CAPTURE(name);
    const std::string n = name;
    for (const Lines& slots : {Lines{n + "/m/", n + "/v/"}, Lines{n + "/m/"}, Lines{n + "/#0/", n + "/#1/"}, Lines{n + "/m.", n + "/v."},
                               Lines{n + "/#0/mu/", n + "/#0/nu/"}, Lines{n + "/"}}) {
      CAPTURE(slots);
      CHECK(told(with(net, slots)) == Lines{"model: net", n + ": slots"});
      CHECK(told(with(policy, slots)) == Lines{"model: policy", n + ": slots"});
    }
    CHECK(told({"model/0.weight", n + "/net/row.weight [7]"}) == Lines{"model: model", n + ": name"});  // factored: no shape is repeated
    CHECK(flat({"net/0.weight", "net/0.bias", n + "/m/0.weight", n + "/m/0.bias", n + "/v/0.weight", n + "/v/0.bias"}) ==
          Lines{"model: ", n + ": slots"});
    CHECK(told({"0.weight", "0.bias [2]", n + "/m/0.weight", n + "/m/0.bias [2]"}) == Lines{"model: ", n + ": slots"});
    CHECK(told({"app/policy/0.weight", "app/" + n + "/m/0.weight"}) == Lines{"model: app.policy", "app." + n + ": slots"});
    CHECK(told({"state_dict/net/0.weight", "state_dict/" + n + "/m/0.weight"}) ==
          Lines{"model: state_dict.net", "state_dict." + n + ": slots"});
  }
  // Dicts of dicts, as JAX has them.
  CHECK(told({"params/a/w", "params/b/w", "opt/mu/a/w", "opt/mu/b/w", "opt/nu/a/w", "opt/nu/b/w"}) == Lines{"model: params", "opt: slots"});
  // Under a name that says nothing: several times, all of the names.
  CHECK(told(with(net, {"z/m/", "z/v/"})) == Lines{"model: net", "z: slots"});
  CHECK(told(with(policy, {"z/m/", "z/v/"})) == Lines{"model: policy", "z: slots"});
  CHECK(told(with(net, {"z/m/"})) == Lines{"model: net", "model: z.m"});
  CHECK(told({"net/0.weight", "net/1.weight [3]", "z/a/0.weight", "z/b/0.weight [3]"}) == Lines{"model: net", "model: z.a", "model: z.b"});
  // Two models with an optimizer each, one with that of both.
  CHECK(told({"gen/0.weight", "disc/0.weight [3]", "optim_g/m/0.weight", "optim_d/m/0.weight [3]"}) ==
        Lines{"model: disc", "model: gen", "optim_d: slots", "optim_g: slots"});
  CHECK(told({"gen/0.weight", "disc/0.weight [3]", "adam/m/gen.0.weight", "adam/m/disc.0.weight [3]"}) ==
        Lines{"model: disc", "model: gen", "adam: slots"});
}

TEST_CASE("parameters that are called like an optimizer's") {
  const Lines model{"model: "};
  for (const Lines& keys :
       {Lines{"state.weight", "state.step", "step"}, Lines{"state.0.weight", "state.0.step []"},
        Lines{"state.cell.step []", "state.cell.weight"}, Lines{"a.exp_avg", "a.weight"}, Lines{"state.exp_avg"},
        Lines{"optimus.weight", "step_embed.weight", "scheduler_proj.weight", "optimizer_head.weight"},
        Lines{"scaler.weight", "scheduler.weight", "rng.weight", "loops.0.weight", "epoch", "step []"},
        Lines{"net.weight", "module.weight", "model.weight"}, Lines{"model.model.weight", "model.state.weight", "lm_head.weight"}}) {
    CAPTURE(keys);
    CHECK(told(keys) == model);
    CHECK(flat(keys) == model);
    Lines below;
    for (const std::string& k : keys) below.push_back("model/" + k);
    CHECK(told(below) == Lines{"model: model"});
    below.push_back("!optimizer/param_groups/#0/lr");
    CHECK(told(below) == Lines{"model: model", "optimizer: param_groups"});
  }
  CHECK(told({"model/state.cell.exp_avg", "model/state.cell.weight"}) == Lines{"model: model"});
  // Averages that a module keeps in buffers; an optimizer keeps them of weights, too.
  const Lines buffers{"model/0.weight", "model/quantizer.exp_avg", "model/quantizer.exp_avg_sq", "model/quantizer.momentum_buffer",
                      "model/quantizer.step []"};
  CHECK(told(buffers) == Lines{"model: model"});
  CHECK(flat(buffers) == Lines{"model: "});
  CHECK(told({"model/0.weight", "z/model.A_log.exp_avg", "z/model.A_log.exp_avg_sq", "z/model.0.weight.exp_avg",
              "z/model.0.weight.exp_avg_sq"}) == Lines{"model: model", "z: slots"});
  CHECK(told({"model/A_log", "model/A_log.exp_avg", "model/A_log.exp_avg_sq"}) == Lines{"model: model", "model: slots"});
  CHECK(told({"model/optim/w", "app/model/step"}) == told({"app/model/step", "model/optim/w"}));
}

TEST_CASE("a module's state dict has parameters and buffers of any name") {
  const Lines names{"global_step []", "hparams [4]", "optim_1 [4]", "rng_state [4]", "scaler []"};
  for (const char* root : {"state_dict/", "net/", "policy/", ""}) {
    Lines keys{std::string(root) + "fc.weight", std::string(root) + "fc.bias [2]"};
    for (const std::string& n : names) keys.push_back(root + n);
    std::string model(root);
    if (!model.empty()) {
      model.pop_back();
      keys.insert(keys.end(), {"!z/param_groups/#0/lr", "z/state/0/exp_avg", "!epoch"});
    }
    CHECK(told(keys).front() == "model: " + model);
    CHECK(told(keys).size() == (model.empty() ? 1 : 3));
  }
  CHECK(flat({"fc.weight", "global_step []", "hparams [4]"}) == Lines{"model: "});
  CHECK(flat({"fc.weight", "global_step []", "optimizer/state/0/exp_avg"}) == Lines{"model: ", "global_step: name", "optimizer: slots"});

  // Averages of a module, beside what they are averages of.
  const Lines of_module{"net/book.embed",      "net/book.exp_avg", "net/book.exp_avg_sq",
                        "net/norm.weight [2]", "net/norm.step []", "net/norm.momentum_buffer [2]"};
  Lines with_optimizer = of_module;
  with_optimizer.insert(with_optimizer.end(), {"z/state/0/exp_avg", "!z/param_groups/#0/lr"});
  CHECK(told(of_module) == Lines{"model: net"});
  CHECK(told(with_optimizer) == Lines{"model: net", "z: param_groups"});
  CHECK(flat(of_module) == Lines{"model: "});
  CHECK(told({"net/fc.weight", "adam/book/embed", "adam/book/exp_avg", "adam/book/exp_avg_sq"}).back().starts_with("adam"));
}

TEST_CASE("all of an optimizer's dict is its own, and lists of tensors around it are") {
  CHECK(told({"policy/0.weight", "o/state/0/exp_avg", "!o/param_groups/#0/lr", "o/slow_state/0/slow_buffer"}) ==
        Lines{"model: policy", "o: param_groups"});
  CHECK(flat({"policy.0.weight", "o/state/0/exp_avg", "!o/param_groups/#0/lr", "o/slow_state/0/slow_buffer"}) ==
        Lines{"model: ", "o: param_groups"});
  CHECK(told({"policy/0.weight", "o/optimizer/state/0/exp_avg", "!o/optimizer/param_groups/#0/lr", "o/masters/#0/#0"}).front() ==
        "model: policy");
  CHECK(told({"app/model/0.weight", "app/state/0/exp_avg", "!app/param_groups/#0/lr"}).front() == "model: app.model");
}

TEST_CASE("names say it: whole components, with a number, not below a model") {
  for (const char* name : {"optim", "optimizer", "optimizers", "optimizer_0", "optimizer1", "opt_state", "optimizer_state_dict",
                           "lr_scheduler", "train_state", "dataloader", "rng_state", "hparams"}) {
    CAPTURE(name);
    const std::string n = name;
    CHECK(told({"w", n + "/x"}) == Lines{"model: ", n + ": name"});
    CHECK(told({"w", "!" + n}) == Lines{"model: ", n + ": name"});
    CHECK(flat({"a/w", n + "/x"}) == Lines{"model: ", n + ": name"});
    CHECK(told({"model/w", "model/" + n + "/x"}) == Lines{"model: model"});
    CHECK(told({"w", n + ".x"}) == Lines{"model: "});
    CHECK(flat({"a/w", "b/" + n + "/x"}) == Lines{"model: "});
  }
  // What modules are called as well needs a trainer beside it.
  for (const char* name : {"scheduler", "scaler", "rng", "epoch", "step", "iteration", "loops", "callbacks", "opt", "adam", "optim_g",
                           "optimizerG", "actor_optimizer", "cuda_rng_state"}) {
    CAPTURE(name);
    const std::string n = name;
    CHECK(told({"w", n + "/x"}) == Lines{"model: "});
    CHECK(flat({"a/w", n + "/x"}) == Lines{"model: "});
    CHECK(told({"model/w", n + "/x"}) == Lines{"model: model", n + ": name"});
    CHECK(told({"w", "!" + n + "/x"}) == Lines{"model: ", n + ": name"});
    CHECK(told({"w", n + " []", "!train_state"}) == Lines{"model: ", n + ": name", "train_state: name"});
    CHECK(told({"w", n + " [3]", "!train_state"}) == Lines{"model: ", "train_state: name"});  // no counter
    CHECK(flat({"a/w", n + "/x", "!train_state"}) == Lines{"model: ", n + ": name", "train_state: name"});
    CHECK(flat({"a/w", n + "/weight", "!train_state"}) == Lines{"model: ", "train_state: name"});  // a module
  }
}

TEST_CASE("a run in flat keys is told by first words, and by names that repeat") {
  const Lines optimizer{"model: ", "optimizer: name"}, model{"model: "};
  CHECK(told({"0.weight", "optimizer.buckets.0.param [9]", "optimizer.buckets.0.exp_avg [9]", "optimizer.buckets.0.exp_avg_sq [9]"}) ==
        optimizer);
  CHECK(told({"0.weight", "optimizer.state.fp32_param.0.weight"}) == optimizer);
  CHECK(told({"0.weight", "optimizer.0.weight.master", "optimizer.groups.step []"}) == optimizer);
  CHECK(told({"0.weight", "optimizer.m.0.weight", "lr_scheduler.last [2]"}) == Lines{"model: ", "lr_scheduler: name", "optimizer: name"});
  CHECK(told({"0.weight", "optimizer.lstm.weight_ih_l0", "optimizer.lstm.bias_ih_l0 [2]", "dataloader.mean [2]"}) == model);  // modules
  CHECK(told({"net/optimizer.m.0.weight", "net/0.weight", "!o/param_groups"}) == Lines{"model: net", "o: param_groups"});
  CHECK(told({"0.weight", "loss.exp_avg [2]", "loss.step []"}) == model);
}

TEST_CASE("what is called like an optimizer, beside a state dict of any name") {
  for (const char* name : {"opt", "adam", "adam_m", "sgd", "actor_optimizer", "muon_state"}) {
    CAPTURE(name);
    const std::string n = name;
    const Lines wanted{"model: actor", n + ": name"};
    CHECK(told({"actor/0.weight", n + "/#0", n + "/#1"}) == wanted);
    CHECK(told({"actor/0.weight", n + "/m/#0", n + "/v/#0"}) == wanted);
    CHECK(told({"actor/0.weight", n + "/0/m", n + "/0/v"}) == wanted);
    CHECK(told({"actor/0.weight", n + "/buf"}) == wanted);
    CHECK(told({"agents/a/0.weight", n + "/buf"}) == Lines{"model: agents.a", n + ": name"});
  }
  CHECK(told({"actor/0.weight", "opt/1.weight"}) == Lines{"model: actor", "model: opt"});  // a state dict itself
  CHECK(told({"actor/weight", "opt/buf"}) == Lines{"model: "});                            // modules
}

TEST_CASE("sums of models and of state") {
  const TrainingState s =
      find_training_state(catalog_of({"model/a.weight", "!model/a.note", "z/state/0/exp_avg [3]", "!z/param_groups", "!z/x"}));
  REQUIRE(s.models.size() == 1);
  CHECK((s.models[0].keys == 2 && s.models[0].tensors == 1 && s.models[0].tensor_bytes == 16 && s.models[0].components == 1));
  REQUIRE(s.groups.size() == 1);
  CHECK((s.groups[0].keys == 3 && s.groups[0].tensors == 1 && s.groups[0].tensor_bytes == 12));
  CHECK(s.keys == 3);
}

TEST_CASE("full is what training resumes from; a model and what describes it is an export") {
  const auto is_full = [](const Lines& lines) { return find_training_state(catalog_of(lines)).is_full(); };
  CHECK(is_full({"model/0.weight", "opt/state/0/exp_avg", "!opt/param_groups/#0/lr"}));
  CHECK(is_full({"model/0.weight", "!lr_scheduler/last_epoch"}));
  CHECK(is_full({"model/0.weight", "rng/cuda"}));  // tensors of a trainer's
  CHECK_FALSE(is_full({"model/0.weight", "!config/dim"}));
  CHECK_FALSE(is_full({"opt/state/0/exp_avg", "!opt/param_groups/#0/lr"}));
}
