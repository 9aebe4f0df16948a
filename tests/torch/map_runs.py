#!/usr/bin/env python3
"""Whole runs, with the state of their optimizers, from trainer to trainer: each side trains on from what came out as the other would have.

    map_runs.py DCPCTL [MODEL...]

torchtitan's own model and its optimizer's own form of state, and a plain AdamW over transformers' model, on a CPU. Exits 77 (skipped) where these
packages are not installed.
"""
import copy
import importlib.util
import subprocess
import sys
import tempfile
import unittest.mock
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
DCPCTL, ONLY = Path(sys.argv[1]), sys.argv[2:]
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
SIZES = {"vocab_size": 80, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
         "pad_token_id": 0}  # fmt: skip
MODELS = {"llama": ("Llama", SIZES), "qwen3_moe": ("Qwen3Moe", {**SIZES, "head_dim": 16, "num_experts": 5, "moe_intermediate_size": 20,
                                                               "num_experts_per_tok": 2})}  # fmt: skip


def dcpctl(*arguments):
    result = subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{arguments}: exit {result.returncode}\n{result.stdout}{result.stderr}")


class Run:
    """A model and AdamW over it; two groups, as trainers have them that do not decay norms."""

    named = False

    def __init__(self, model):
        self.model = model.train()
        parameters = list(model.named_parameters())
        decayed, others = [[(n, p) if self.named else p for n, p in parameters if (p.dim() > 1) == large] for large in (True, False)]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))

    def train(self, steps, seed):
        losses = []
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            tokens = torch.randint(0, 80, (4, 13), generator=generator)
            with unittest.mock.patch.object(torch.Tensor, "bfloat16", lambda t: t):  # experts are multiplied in bfloat16 otherwise
                out = self.model(tokens[:, :-1])
            logits = getattr(out, "logits", out)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
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


def alike(name, ours, theirs):
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    check(worst < 1e-4, f"{name}: {ours} and {theirs}")


def try_run(name, titan_model, more, scratch):
    family, sizes = MODELS[name]
    config = getattr(transformers, f"{family}Config")(**sizes, **more)
    config.save_pretrained(scratch)
    shared = ("--world-size", 2, "--config", scratch / "config.json")
    plain_model = lambda: getattr(transformers, f"{family}ForCausalLM")(config)

    titan = Titan(copy.deepcopy(titan_model))
    for parameter in titan.model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    titan.train(3, seed=5)
    dcp.save(titan.state(), checkpoint_id=scratch / "titan", no_dist=True)
    dcpctl("reshard", scratch / "titan", scratch / "plain", "--map", "auto", "--to-map", f"{name}.transformers", "--model-root", "model", *shared)
    plain = Plain(plain_model())
    plain.load(scratch / "plain", flat=True)
    expected = titan.train(4, seed=6)
    alike(f"{name}: a plain AdamW trains on as torchtitan does", plain.train(4, seed=6), expected)

    dcp.save(plain.state(), checkpoint_id=scratch / "later", no_dist=True)
    dcpctl("reshard", scratch / "later", scratch / "back", "--map", f"{name}.transformers", "--to-map", f"{name}.torchtitan", "--model-root", ".", *shared,
           "--unmapped", "drop")  # fmt: skip
    again = Titan(copy.deepcopy(titan_model))
    again.load(scratch / "back")
    alike(f"{name}: torchtitan trains on as a plain AdamW does", again.train(4, seed=7), plain.train(4, seed=7))

    dcpctl("reshard", scratch / "plain", scratch / "same", "--map", f"{name}.transformers", "--to-map", f"{name}.torchtitan", "--model-root", ".", *shared)
    dcpctl("diff", scratch / "titan", scratch / "same", "--exclude", "*expert_bias_E")


for name, model, more in trainer_models():
    if name in MODELS and (not ONLY or name in ONLY):
        with tempfile.TemporaryDirectory() as folder:
            try_run(name, model, more, Path(folder))
finish()
