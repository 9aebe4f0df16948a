#!/usr/bin/env python3
"""What trainers save, as torch.save and dcp.save write it: --model-only gives what the module takes, casts leave the optimizer alone.

    trainers.py DCPCTL forms    each trainer's dict: --model-only and load_state_dict, cast
    trainers.py DCPCTL optims   every optimizer of torch under names that say nothing: no tensor of it is cast or taken for model
    trainers.py DCPCTL modules  modules whose parameters are called like training state: all of them are model
"""
import itertools
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict  # noqa: E402

from case import check, finish, same  # noqa: E402

DCPCTL = Path(sys.argv[1])


def dcpctl(*arguments, exit_code=0):
    result = subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != exit_code:
        sys.exit(f"{arguments}: exit {result.returncode}, expected {exit_code}\n{result.stdout}{result.stderr}")
    return result


class Net(nn.Module):
    """Submodules and parameters that are called like what trainers keep."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
        self.state = nn.Linear(4, 4)
        self.scaler = nn.Linear(4, 4)
        self.optimus = nn.Linear(4, 4)
        self.optimizer_head = nn.Linear(4, 4)
        self.scheduler_proj = nn.Linear(4, 4)
        self.step_embed = nn.Embedding(4, 4)
        self.module = nn.ModuleDict({"net": nn.Linear(4, 4), "state": nn.ModuleList([nn.Linear(4, 4)])})
        self.model = nn.ModuleDict({"model": nn.ModuleDict({"model": nn.Linear(4, 4)})})
        self.step = nn.Parameter(torch.randn(3))
        self.epoch = nn.Parameter(torch.randn(()))
        self.register_buffer("seen", torch.tensor(7))
        for book in ["codebook", "norm"]:
            setattr(self, book, nn.Embedding(4, 4))
        for name in ["exp_avg", "exp_avg_sq"]:
            self.codebook.register_buffer(name, torch.randn(4, 4))
        self.norm.register_buffer("momentum_buffer", torch.randn(4))
        self.norm.register_buffer("step", torch.tensor(3))

    def forward(self, x):
        x = self.body(x) + self.step.sum() + self.epoch
        for layer in [self.state, self.scaler, self.optimus, self.optimizer_head, self.scheduler_proj, self.module["net"], self.module["state"][0]]:
            x = layer(x)
        return self.model["model"]["model"](x) + self.step_embed(torch.zeros(len(x), dtype=torch.int64))


def trained(model, make=lambda p: torch.optim.AdamW(p)):
    optimizer = make(list(model.parameters()))
    model(torch.randn(3, 4)).sum().backward()
    for _ in range(2):
        optimizer.step(lambda: torch.ones(())) if isinstance(optimizer, torch.optim.LBFGS) else optimizer.step()
    return optimizer


def forms():
    """name: (a trainer's dict, the components above its model)"""
    model = Net()
    optimizer = trained(model)
    plain, state = model.state_dict(), optimizer.state_dict()
    by_fqn = get_optimizer_state_dict(model, optimizer)
    flat = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1).state_dict()
    rng = torch.get_rng_state()

    def like():
        """What an optimizer of one's own keeps, by parameter."""
        return {k: torch.randn_like(v) for k, v in model.named_parameters()}

    own = {
        "optax": {"net": plain, "adam": {"m": like(), "v": like()}},
        "optax opt": {"net": plain, "opt": {"mu": like(), "nu": like(), "count": torch.tensor(3)}},
        "torchopt": {"policy": plain, "optimizer_g": [{"mu": like(), "nu": like()}, {"lr": 0.1}]},
        "list": {"net": plain, "optim_g": [like(), like()]},
        "momentum": {"policy": plain, "actor_optimizer": {"momentum": like()}},
        "slots in names": {"net": plain, "adam": {f"{slot}.{k}": v for slot in "mv" for k, v in like().items()}},
        "own name": {"net": plain, "z": {"m": like(), "v": like()}},
        "app own": {"app": {"policy": plain, "adamw": {"m": like(), "v": like()}}, "note": "x"},
    }
    return {name: (state, ("app", "policy") if "app" in state else (next(iter(state)),)) for name, state in own.items()} | {
        "bare": (plain, ()),
        "net": ({"net": plain, "opt": state}, ("net",)),
        "only": ({"model": plain}, ("model",)),
        "twice": ({"state_dict": {"model": plain}, "epoch": 1}, ("state_dict", "model")),
        "torchtune": ({"model": plain, "optimizer": state, "seed": 1, "epochs_run": 2, "total_epochs": 3, "max_steps_per_epoch": None}, ("model",)),
        "nanogpt": ({"model": plain, "optimizer": state, "model_args": {"n_layer": 2, "bias": False}, "iter_num": 5, "best_val_loss": torch.tensor(1.5),
                     "config": {"out_dir": "x"}}, ("model",)),
        "composer": ({"state": {"model": plain, "optimizers": {"AdamW": state}, "schedulers": {"StepLR": scheduler}, "run_name": "x", "timestamp": {"iteration": 1, "epoch": 2},
                                "train_metrics": {"Loss": {"sum_loss": torch.tensor(0.5)}}}, "rng": [{"torch": rng}]}, ("state", "model")),
        "tutorial": ({"epoch": 1, "model_state_dict": plain, "optimizer_state_dict": state, "loss": torch.tensor(0.5), "count": torch.tensor(5)}, ("model_state_dict",)),
        "app": ({"app": {"model": plain, "optim": state}}, ("app", "model")),
        "app fqn": ({"app": {"model": plain, "optim": by_fqn}, "note": "x"}, ("app", "model")),
        "lightning": ({"epoch": 1, "global_step": 2, "pytorch-lightning_version": "2", "state_dict": plain, "loops": {"fit_loop": {"state_dict": {}}}, "callbacks": {"c": {"score": torch.tensor(0.5)}},
                       "optimizer_states": [state], "lr_schedulers": [scheduler], "hparams_name": "kwargs", "hyper_parameters": {"lr": 1}}, ("state_dict",)),
        "deepspeed": ({"module": plain, "optimizer": state, "global_steps": 1, "ds_version": "0.1", "ds_config": {"a": 1}, "dp_world_size": 1}, ("module",)),
        "titan": ({**plain, "optimizer": flat, "lr_scheduler": scheduler, "train_state": {"step": torch.tensor(1, dtype=torch.int32)}, "ntokens": 5}, ()),
        "actor": ({"policy": plain, "actor_optimizer": state, "sched": scheduler, "returns": torch.tensor(0.5)}, ("policy",)),
        "own slots": ({"policy": plain, "zz": {"state": {k: {"aaa": v + 0.5, "count": torch.tensor(3.5)} for k, v in plain.items() if v.is_floating_point()}}}, ("policy",)),
        "own dicts": ({"policy": plain, "zz": {k: {"aaa": v + 0.5} for k, v in plain.items() if v.is_floating_point()}}, ("policy",)),
        "params": ({"params": plain}, ("params",)),
        # One flat dict, as Megatron-Core's distributed optimizer and trainers of their own write it.
        "megatron": ({**plain, **{f"optimizer.distributed.dp_group_idx_0.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_0.{s}": torch.randn(99) for s in ["param", "exp_avg", "exp_avg_sq"]}}, ()),
        "chained": ({**plain, **{f"chained_{n}.optimizer.state.fp32_param.{k}": v for n, (k, v) in enumerate(like().items())}, "optimizer.grad_scaler.scale": torch.tensor(2.0)}, ()),
        "flat run": ({**plain, **{f"optimizer.{slot}.{k}": v for slot in "mv" for k, v in like().items()}, "lr_scheduler.last_lr": torch.rand(2), "rng_state.cpu": rng}, ()),
        # What no module has, since its state dict is flat.
        "queue": ({"backbone": plain, "optimizer": state, "queue": torch.randn(4, 8), "class_weight": torch.rand(3)}, ("backbone",)),
        "titan more": ({**plain, "optimizer": flat, "metrics": {"confusion": torch.rand(4, 4)}, "replay": {"obs": torch.rand(9, 4)}}, ()),
        "train state": ({"train_state": {"model": plain, "optimizer": state, "step": 3}}, ("train_state", "model")),
        "train state, as in JAX": ({"train_state": {"params": plain, "opt_state": state, "step": 3}}, ("train_state", "params")),
        "flat opt": ({"net": plain, "o": flat, "cuda_rng": rng, "running": {"loss": torch.zeros(9)}}, ("net",)),
    }


def saved(state, folder):
    """The state as a .pt file and as a DCP folder."""
    torch.save(state, folder / "in.pt")
    dcp.save(state, checkpoint_id=folder / "dcp", no_dist=True)
    return folder / "in.pt", folder / "dcp"


def leaves(state, path=()):
    for key, value in state.items() if isinstance(state, dict) else enumerate(state):
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))
        elif isinstance(value, torch.Tensor):
            yield (*path, key), value


def at(state, path):
    """A DCP checkpoint's keys are text where the dict's are numbers."""
    for key in path:
        if isinstance(state, dict):
            state = state[key if key in state else str(key)]
        else:
            state = state[int(key)]
    return state


def takes(model, out, what):
    try:
        model.load_state_dict(torch.load(out, weights_only=True))
    except (RuntimeError, KeyError, AttributeError) as error:
        check(False, f"{what}: {error}")


def loads(out, wanted, what):
    fresh = Net(seed=9)
    takes(fresh, out, what)
    for key, value in fresh.state_dict().items():
        check(torch.equal(value, wanted[key]), f"{what}: {key}")


def casts_the_model(source, state, root, what):
    """Floating-point tensors under the root are bfloat16, nothing else is."""
    out = source.with_name("cast.pt")
    dcpctl("consolidate", source, out, "--dtype", "bf16", "--no-sync", "--force")
    cast = torch.load(out, weights_only=False)
    model = {(*root, key) for key in at(state, root)} if root else set((key,) for key in Net().state_dict())
    for path, value in leaves(state):
        wanted = torch.bfloat16 if path in model and value.is_floating_point() else value.dtype
        same(at(cast, path).dtype, wanted, f"{what}: dtype of {path}")


def doubt_in(source, glob, what):
    """Flat keys that may be an optimizer's or weights: both commands ask, and work with what they name."""
    if glob is None:
        return []
    out = source.with_name("asked.safetensors")
    for command, option, value in [("consolidate", "--exclude", glob), ("cast", "--dtype-rule", f"{glob}=keep")]:
        arguments = [command, source, out, *(["--model-only"] if command == "consolidate" else ["--dtype", "bf16"]), "--no-sync"]
        refused = dcpctl(*arguments, exit_code=2)
        check(f": {option} '{value}'" in refused.stderr, f"{what}, safetensors: {refused.stderr}")
        check(not out.exists(), f"{what}, safetensors: something was written")
        dcpctl(*arguments, option, value)
        out.unlink()
    return ["--dtype-rule", f"{glob}=keep"]


def run_forms(scratch):
    for name, (state, root) in forms().items():
        folder = scratch / name.replace(" ", "-")
        folder.mkdir()
        for source in saved(state, folder):
            what = f"{name}, {source.name}"
            out = folder / "model.pt"
            if name == "own name":  # copies of a model, or an optimizer's slots
                refused = dcpctl("consolidate", source, out, "--model-only", "--no-sync", "--force", exit_code=2)
                check("--root net, --root z.m, --root z.v" in refused.stderr, f"{what}: {refused.stderr}")
                dcpctl("consolidate", source, out, "--model-only", "--root", "net", "--no-sync", "--force")
                loads(out, at(state, root), what)
                continue
            result = dcpctl("consolidate", source, out, "--model-only", "--no-sync", "--force")
            loads(out, at(state, root), what)
            left_out = [line for line in result.stderr.splitlines() if "non-model key" in line]
            same(len(left_out), int(name not in ("bare", "only", "params")), f"{what}: what is left out is told in one line")
            casts_the_model(source, state, root, what)
            shown = json.loads(dcpctl("inspect", source, "--json").stdout)
            same([m["root"] for m in shown.get("models", [])], [".".join(root)], f"{what}: the model in inspect")
            same(sum(not t.get("training_state", False) for t in shown["tensors"]), len(at(state, root)) if root else len(Net().state_dict()), f"{what}: tensors of the model in inspect")
        # Without paths: only the keys' own structure and first words speak.
        tensors = {".".join(map(str, path)): value.clone() for path, value in leaves(state)}
        save_file(tensors, folder / "in.safetensors")
        rules = doubt_in(folder / "in.safetensors", {"optax": "adam.*", "optax opt": "opt.*", "torchopt": "optimizer_g.*", "list": "optim_g.*", "momentum": "actor_optimizer.*",
                                                     "slots in names": "adam.*", "own slots": "zz.state.*", "own dicts": "zz.*"}.get(name), name)  # fmt: skip
        dcpctl("cast", folder / "in.safetensors", folder / "cast.safetensors", "--dtype", "bf16", *rules, "--no-sync")
        shown = json.loads(dcpctl("inspect", folder / "cast.safetensors", "--json").stdout)
        dtypes = {t["key"]: t["dtype"] for t in shown["tensors"]}
        for path, value in leaves(state):
            if path == ("epoch",):
                continue  # a scalar beside an optimizer: here it could be a trainer's
            if name in ("own name", "app own") or name.startswith("train state"):
                continue  # modules of a model without paths may be like that
            if path[: len(root)] == root and (root or path[0] in Net().state_dict()):
                same(dtypes[".".join(map(str, path))], "bfloat16" if value.is_floating_point() else "int64", f"{name}, safetensors: dtype of {path}")
            elif name == "own slots" or {"exp_avg", "exp_avg_sq", "step"} & set(str(path[-1]).split(".")):
                same(dtypes[".".join(map(str, path))], str(value.dtype)[6:], f"{name}, safetensors: dtype of {path}")


OPTIMIZERS = {
    "Adadelta": {}, "Adafactor": {}, "Adagrad": {}, "Adam": {"amsgrad": True}, "AdamW": {"fused": True}, "Adamax": {}, "ASGD": {}, "LBFGS": {}, "NAdam": {}, "RAdam": {}, "RMSprop": {"centered": True, "momentum": 0.9},
    "Rprop": {}, "SGD": {}, "SGD momentum": {"momentum": 0.9},
}  # fmt: skip


def run_optims(scratch):
    for i, (name, options) in enumerate(OPTIMIZERS.items()):
        model = Net()
        optimizer = trained(model, lambda p: getattr(torch.optim, name.split()[0])(p, **options))
        called = ["opt", "optim_g", "optimizer1", "actor_optimizer", "adam", "z", "opt_state", "trainer"][i % 8]
        states = {"plain": optimizer.state_dict()}
        if name != "LBFGS":  # whose state torch does not name by parameter
            states |= {"fqn": get_optimizer_state_dict(model, optimizer), "flat": get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))}
        for form, optim in states.items():
            folder = scratch / f"{name.replace(' ', '-')}-{form}"
            folder.mkdir()
            for source in saved({"net": model.state_dict(), called: optim}, folder):
                what = f"{name}, {form}, called {called}, {source.name}"
                casts_the_model(source, {"net": model.state_dict(), called: optim}, ("net",), what)
                dcpctl("consolidate", source, folder / "model.pt", "--model-only", "--no-sync", "--force")
                loads(folder / "model.pt", model.state_dict(), what)


    # Optimizers of one's own keep what they have by position, under names of their own, and the model may have any name.
    model = Net()
    slots = [torch.randn_like(p) for p in model.parameters()]
    kept = {"adam": {"m": slots, "v": slots, "t": 5}, "opt": {i: {"m": t, "v": t} for i, t in enumerate(slots)}, "adam_m": slots, "sgd": {"buf": torch.randn(99)}, "optim_state": [{"m": t} for t in slots]}
    tries = {}
    for i, (called, optim) in enumerate(kept.items()):
        root = ["actor", "G", "params", "policy", "weights"][i]
        tries[f"by position in {called}"] = ({root: model.state_dict(), called: optim}, root)
    # What an optimizer keeps beside `state` and `param_groups`, and what one that is around it keeps.
    adam = trained(model).state_dict()
    wide = [p for p in model.parameters() if p.dim() > 1]
    around = {"lookahead": {**adam, "slow_state": {i: {"slow_buffer": torch.randn_like(p)} for i, p in enumerate(model.parameters())}},
              "masters": {"optimizer": adam, "fp32_from_fp16_params": [[torch.randn_like(p) for p in wide]]}}  # fmt: skip
    for (name, optim), root, called in itertools.product(around.items(), ["policy", "net", "model"], ["solver", "o", "opt"]):
        tries[f"{name} in {called} beside {root}"] = ({root: model.state_dict(), called: optim}, root)
    plain, short = model.state_dict(), nn.ModuleDict({"cls": nn.Linear(2, 2), "head": nn.Linear(2, 2)})
    short.register_parameter("scale", nn.Parameter(torch.ones(5)))
    tries["parameters without dots"] = ({"x": short.state_dict(), "y": {k: {"projector": v + 1, "count": torch.tensor(1.5)} for k, v in short.state_dict().items()}}, "x")
    for i, (name, (state, root)) in enumerate(tries.items()):
        folder = scratch / f"try-{i}"
        folder.mkdir()
        for source in saved(state, folder):
            what = f"{name}, {source.name}"
            casts_the_model(source, state, (root,), what)
            dcpctl("consolidate", source, folder / "model.pt", "--model-only", "--no-sync", "--force")
            if state[root].keys() == plain.keys():
                loads(folder / "model.pt", plain, what)
            else:
                takes(short, folder / "model.pt", what)


class Clock(nn.Module):
    """Its parameters and buffers have the very names of what trainers keep."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.register_buffer("global_step", torch.tensor(5))
        for name in ["hparams", "opt_state", "optim", "optim_1", "optimizer", "rng_state", "lr_scheduler", "train_state", "dataloader", "scaler"]:
            self.register_parameter(name, nn.Parameter(torch.randn(3)))

    def forward(self, x):
        return self.body(x[:, :3]) + sum(p for p in self.parameters() if p.dim() == 1)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.tensor(5))
        self.register_buffer("initted", torch.tensor(True))
        self.ema_model = nn.Linear(3, 3)
        self.state = nn.ModuleList([nn.Linear(2, 2)])
        self.state[0].step = nn.Parameter(torch.ones(()))
        self.rng = nn.Linear(2, 2)
        self.loops = nn.Linear(2, 2)


class Averages(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.loss = nn.Module()
        self.loss.register_buffer("exp_avg", torch.randn(3))
        self.loss.register_buffer("step", torch.tensor(5))


def run_modules(scratch):
    for make in [Net, Clock, Counter, Averages, lambda: nn.ModuleDict({"model": nn.Linear(2, 2), "ema": nn.Linear(2, 2), "net": nn.Linear(2, 2)})]:
        model = make()
        plain = model.state_dict()
        folder = Path(tempfile.mkdtemp(dir=scratch))
        save_file({k: v.clone() for k, v in plain.items()}, folder / "in.safetensors")
        for source in [*saved(plain, folder), folder / "in.safetensors"]:
            what = f"{type(model).__name__} alone, {source.name}"
            dcpctl("consolidate", source, folder / "model.pt", "--model-only", "--no-sync", "--force")
            takes(model, folder / "model.pt", what)
            shown = json.loads(dcpctl("inspect", source, "--json").stdout)
            same(shown.get("training_state"), [], f"{what}: training state in inspect")
            dcpctl("consolidate", source, folder / "cast.safetensors", "--dtype", "bf16", "--no-sync", "--force")
            dtypes = {t["dtype"] for t in json.loads(dcpctl("inspect", folder / "cast.safetensors", "--json").stdout)["tensors"]}
            check("float32" not in dtypes, f"{what}: not all is cast")
    model = Clock()
    optimizer = trained(model).state_dict()
    for i, (root, called) in enumerate([("state_dict", "optimizer"), ("net", "opt"), ("policy", "z"), ("model", "adam"), ("G", "optim_g")]):
        folder = scratch / f"clock-{i}"
        folder.mkdir()
        state = {root: model.state_dict(), called: optimizer, "epoch": 3}
        for source in saved(state, folder):
            dcpctl("consolidate", source, folder / "model.pt", "--model-only", "--no-sync", "--force")
            takes(model, folder / "model.pt", f"Clock in {root}, {source.name}")
            casts_the_model(source, state, (root,), f"Clock in {root}, {source.name}")


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        {"forms": run_forms, "optims": run_optims, "modules": run_modules}[sys.argv[2]](Path(scratch))
    finish()


if __name__ == "__main__":
    main()
