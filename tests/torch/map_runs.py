#!/usr/bin/env python3
"""Whole runs, with the state of their optimizers, from trainer to trainer: each side trains on from what came out as the other would have.

    map_runs.py DCPCTL [MODEL...] [--seed N]

torchtitan's own model and its optimizer's own form of state, and a plain AdamW over transformers' model, on a CPU. Two programs round differently
what they compute of the same numbers: the losses of one have to be far nearer to the other's than those of a run whose optimizer lost or confused a
part of its state. Exits 77 (skipped) where these packages are not installed.
"""
import argparse
import contextlib
import copy
import importlib.util
import subprocess
import sys
import tempfile
import unittest.mock
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
parser = argparse.ArgumentParser()
parser.add_argument("dcpctl", type=Path)
parser.add_argument("models", nargs="*")
parser.add_argument("--seed", type=int, default=1)
arguments = parser.parse_args()
DCPCTL, ONLY, SEED = arguments.dcpctl, arguments.models, arguments.seed
sys.path.append(str(Path(__file__).resolve().parent.parent.parent / ".venv-maps"))  # ./dev test makes it
if missing := [p for p in ("transformers", "torchtitan") if importlib.util.find_spec(p) is None]:
    print(f"skipped: {', '.join(missing)} not installed")
    sys.exit(77)

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import transformers  # noqa: E402
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict  # noqa: E402
from torchtitan.components.optimizer.utils import get_flat_optim_state_dict, init_optim_state, load_flat_optim_state_dict  # noqa: E402

from case import check, finish  # noqa: E402
from titan_models import trainer_models  # noqa: E402

transformers.logging.set_verbosity_error()
torch.set_default_dtype(torch.float64)
# No token is padding: transformers gives its embedding no gradient, torchtitan does.
SIZES = {"vocab_size": 80, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
         "pad_token_id": None}  # fmt: skip
MODELS = {"llama": ("Llama", SIZES), "qwen3_moe": ("Qwen3Moe", {**SIZES, "head_dim": 16, "num_experts": 5, "moe_intermediate_size": 20,
                                                               "num_experts_per_tok": 2})}  # fmt: skip


def dcpctl(*arguments):
    result = subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{arguments}: exit {result.returncode}\n{result.stdout}{result.stderr}")


def grouped_mm(rows, matrices, offs, bias=None, out_dtype=None):
    """What torch's own does, which is not made for double."""
    starts = [0, *offs.tolist()]
    return torch.cat([rows[a:b] @ m for a, b, m in zip(starts, starts[1:], matrices)])


@contextlib.contextmanager
def in_double():
    """All is double, also what these models always compute in float32 or bfloat16: AdamW divides by what may be next to nothing, and experts are
    chosen, so that training makes of float32's noise what looks like the effect of a lost state."""
    double = torch.Tensor.double
    with unittest.mock.patch.multiple(torch, float32=torch.float64, float=torch.float64, bfloat16=torch.float64, _grouped_mm=grouped_mm):
        with unittest.mock.patch.multiple(torch.Tensor, float=double, bfloat16=double):
            yield


class Run:
    """A model and AdamW over it; two groups, as trainers have them that do not decay norms."""

    named = False

    def __init__(self, model):
        self.model = model.train()
        parameters = list(model.named_parameters())
        decayed, others = [[(n, p) if self.named else p for n, p in parameters if (p.dim() > 1) == large] for large in (True, False)]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))

    @in_double()
    def train(self, steps, seed):
        losses = []
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            tokens = torch.randint(0, 80, (4, 13), generator=generator)
            out = self.model(tokens[:, :-1])
            logits = getattr(out, "logits", out)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(loss.item())
        return losses


class Titan(Run):
    named = True

    def state(self):
        init_optim_state(self.optimizer)
        return {**self.model.state_dict(), "optimizer": get_flat_optim_state_dict(self.optimizer), "train_state": {"step": torch.tensor(3)}}

    def load(self, folder):
        state = self.state()
        state = {k: v for k, v in state.items() if k != "train_state" and not k.endswith("expert_bias_E")}  # which balances the load: it is not published
        dcp.load(state, checkpoint_id=folder, no_dist=True)
        optimizer = state.pop("optimizer")
        self.model.load_state_dict(state, strict=False)
        load_flat_optim_state_dict(self.optimizer, optimizer)


class Plain(Run):
    def state(self, flat=False):
        init_optim_state(self.optimizer)
        options = StateDictOptions(flatten_optimizer_state_dict=flat)
        return {"model": self.model.state_dict(), "optimizer": get_optimizer_state_dict(self.model, self.optimizer, options=options)}

    def load(self, folder, flat=False):
        state = self.state(flat)
        dcp.load(state, checkpoint_id=folder, no_dist=True)
        self.model.load_state_dict(state["model"])
        options = StateDictOptions(flatten_optimizer_state_dict=flat)
        set_optimizer_state_dict(self.model, self.optimizer, state["optimizer"], options=options)


def swapped(slot):
    """Two parameters of a layer, of one shape, have each other's state."""

    def swap(run):
        by_shape = {}
        for name, parameter in run.model.named_parameters():
            first = by_shape.setdefault((name.split("layers.")[-1].split(".")[0], parameter.shape), parameter)
            if first is not parameter and parameter.dim() > 1:
                one, other = run.optimizer.state[first], run.optimizer.state[parameter]
                one[slot], other[slot] = other[slot], one[slot]
                return
        sys.exit("no two parameters of one shape")

    return swap


def forgotten(run):
    run.optimizer.state.clear()


CONTROLS = {"a fresh optimizer": forgotten, "exp_avg of two parameters swapped": swapped("exp_avg"), "exp_avg_sq of two parameters swapped": swapped("exp_avg_sq")}


def trains_on(what, run, expected, seed):
    """From here, `run` has the losses that the other had, and those with damaged state have not."""
    damaged = {control: copy.deepcopy(run) for control in CONTROLS}
    distance = lambda losses: max(abs(a - b) for a, b in zip(losses, expected, strict=True))
    noise = distance(run.train(4, seed))
    for control, other in damaged.items():
        CONTROLS[control](other)
        apart = distance(other.train(4, seed))
        print(f"{what}: {noise:.1e} apart, with {control} {apart:.1e}")
        check(noise * 1000 < apart, f"{what}: {noise} apart, with {control} {apart}")


def try_run(name, titan_model, more, scratch):
    family, sizes = MODELS[name]
    config = getattr(transformers, f"{family}Config")(**sizes, **more)
    config.save_pretrained(scratch)
    shared = ("--world-size", 2, "--config", scratch / "config.json")
    with in_double():
        plain = Plain(getattr(transformers, f"{family}ForCausalLM")(config))

    titan = Titan(copy.deepcopy(titan_model))
    torch.manual_seed(SEED)
    for parameter in titan.model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    titan.train(3, seed=SEED + 1)
    dcp.save(titan.state(), checkpoint_id=scratch / "titan", no_dist=True)
    dcpctl("reshard", scratch / "titan", scratch / "plain", "--map", "auto", "--to-map", f"{name}.transformers", "--model-root", "model", *shared)
    plain.load(scratch / "plain", flat=True)
    trains_on(f"{name}: a plain AdamW trains on as torchtitan does", plain, titan.train(4, SEED + 2), SEED + 2)

    dcp.save(plain.state(), checkpoint_id=scratch / "later", no_dist=True)
    dcpctl("reshard", scratch / "later", scratch / "back", "--map", f"{name}.transformers", "--to-map", f"{name}.torchtitan", "--model-root", ".", *shared,
           "--unmapped", "drop")  # fmt: skip
    again = Titan(copy.deepcopy(titan_model))
    again.load(scratch / "back")
    trains_on(f"{name}: torchtitan trains on as a plain AdamW does", again, plain.train(4, SEED + 3), SEED + 3)

    dcpctl("reshard", scratch / "plain", scratch / "same", "--map", f"{name}.transformers", "--to-map", f"{name}.torchtitan", "--model-root", ".", *shared)
    dcpctl("diff", scratch / "titan", scratch / "same", "--exclude", "*expert_bias_E")


with in_double():
    models = list(trainer_models())
for name, model, more in models:
    if name in MODELS and (not ONLY or name in ONLY):
        with tempfile.TemporaryDirectory() as folder:
            try_run(name, model, more, Path(folder))
finish()
