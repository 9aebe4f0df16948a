#!/usr/bin/env python3
"""Whole runs, with the state of their optimizers, from trainer to trainer: each side trains on from what came out as the other would have.

    map_runs.py DCPCTL [MODEL...] [--seed N]

torchtitan's own model and its optimizer's own form of state, and a plain AdamW over transformers' model, on a CPU. Two programs round differently
what they compute of the same numbers: the losses of one have to be far nearer to the other's than those of a run whose optimizer lost or confused a
part of its state. Exits 77 (skipped) where these packages are not installed.
"""
import argparse
import copy
import importlib.util
import subprocess
import sys
import tempfile
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
from torchtitan.components.optimizer.utils import init_optim_state  # noqa: E402

from case import finish  # noqa: E402
from titan_models import trainer_models  # noqa: E402
from training import Run, Titan, in_double, trains_on  # noqa: E402

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
