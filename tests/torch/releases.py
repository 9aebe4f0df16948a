#!/usr/bin/env python3
"""Maps of models read the names of every release of torchtitan: its own models' state dicts, published by its own adapter where it has one.

    releases.py DCPCTL FOLDER [RELEASE...]

FOLDER/RELEASE has the package of that release, which ./dev check releases puts there. Its models are built, not trained: what it imports beside them
stands in as a mock.
"""
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

warnings.filterwarnings("ignore")
ROOT = Path(__file__).resolve().parent.parent.parent
DCPCTL, FOLDER, ONLY = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
FORM = {"dim": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 80}
HF = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 80}
# By release: family, module, its model, arguments, those of its experts; what config.json says beside HF.
LLAMA = ("llama", "models.llama3", "Transformer", "TransformerModelArgs", {**FORM, "n_kv_heads": 2}, None, {"num_key_value_heads": 2})
QWEN = {**FORM, "n_kv_heads": 2, "head_dim": 16, "hidden_dim": 48}
AS_QWEN = {"num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48}
QWEN3 = ("qwen3", "models.qwen3", "Qwen3Model", "Qwen3ModelArgs", QWEN, None, AS_QWEN)
QWEN3_MOE = ("qwen3_moe", "models.qwen3", "Qwen3Model", "Qwen3ModelArgs", {**QWEN, "moe_enabled": True, "moe_inter_dim": 20}, {"num_experts": 5, "num_shared_experts": 0, "top_k": 2},
             {**AS_QWEN, "num_experts": 5, "moe_intermediate_size": 20})  # fmt: skip
DEEPSEEK = ("deepseek_v3", "models.deepseek_v3", "DeepSeekV3Model", "DeepSeekV3ModelArgs",
            {**FORM, "inter_dim": 48, "moe_inter_dim": 20, "n_dense_layers": 1, "q_lora_rank": 16, "kv_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
             "v_head_dim": 8}, {"num_experts": 4, "num_shared_experts": 1, "top_k": 2},
            {"n_routed_experts": 4, "first_k_dense_replace": 1, "n_shared_experts": 1, "q_lora_rank": 16, "kv_lora_rank": 12, "qk_nope_head_dim": 8,
             "qk_rope_head_dim": 8, "v_head_dim": 8, "intermediate_size": 48, "moe_intermediate_size": 20})  # fmt: skip
GPT = {**FORM, "n_kv_heads": 2, "head_dim": 16, "moe_inter_dim": 20}
AS_GPT = {"num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 4, "intermediate_size": 20}
RELEASES = {"0.1.0": [LLAMA], "0.2.0": [LLAMA, QWEN3, QWEN3_MOE, DEEPSEEK],
            "0.2.1": [LLAMA, QWEN3, QWEN3_MOE, DEEPSEEK],  # its gpt-oss lacks the bias of the router, which the published model needs
            "0.2.2": [LLAMA, QWEN3, QWEN3_MOE, DEEPSEEK, ("gpt_oss", "models.gpt_oss", "GptOssModel", "GptOssModelArgs", GPT, {"num_experts": 4, "num_shared_experts": 0, "gate_bias": True}, AS_GPT)]}  # fmt: skip


NEWEST = "0.3"  # its own models are those of tests/torch/maps.py
# Columns of the table in docs/migrate.md.
COLUMNS = {"llama": "Llama", "qwen3": "Qwen3", "qwen3_moe": "Qwen3", "deepseek_v3": "DeepSeek-V3", "gpt_oss": "gpt-oss"}


def table():
    """By release and column, the names that the page says, without what "..." stands for."""
    lines = [[c.strip() for c in line.strip("|\n").split("|")] for line in open(ROOT / "docs/migrate.md") if line.startswith("| ")]
    head = next(n for n, cells in enumerate(lines) if cells[0] == "torchtitan")
    rows = {}
    for releases, *cells in itertools.takewhile(lambda row: re.fullmatch("[0-9., ]+", row[0]), lines[head + 2 :]):
        for release in releases.split(", "):
            for column, cell in zip(lines[head][1:], cells):
                like = re.fullmatch(r"as (\S+)", cell)
                rows[release, column] = like[1] if like else [name.strip(".") for name in re.findall("`([^`]+)`", cell)]
    return {(release, column): rows[names, column] if isinstance(names, str) else names for (release, column), names in rows.items()}


def not_said(family, release, keys):
    """What the page says of a release and its state dict does not have. Some models have no experts, or no balance of them that is published."""
    names = table()[release, COLUMNS[family]]
    absent = [n for n in names if not any(f".{n}" in f".{k}" for k in keys)]
    if family == "qwen3":
        absent = [n for n in absent if "expert" not in n]
    if family == "qwen3_moe" and release == NEWEST:
        absent = [n for n in absent if "expert_bias" not in n]
    return absent if names else [f"nothing of {release}"]


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """What a release imports beside its models."""

    NAMES = {"PIL", "blobfile", "datasets", "einops", "tiktoken", "tokenizers", "tomli", "torchft", "torchvision", "wandb"}

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.NAMES else None

    def create_module(self, spec):
        return mock.MagicMock(name=spec.name, __path__=[], __spec__=spec)

    def exec_module(self, module):
        pass


def gpt_oss_is_published(release):
    if release == "0.2.0":
        return any(importlib.util.find_spec(f"torchtitan.{folder}.gpt_oss") for folder in ("models", "experiments"))
    import torch

    titan = importlib.import_module("torchtitan.experiments.gpt_oss")
    with torch.device("meta"):
        arguments = titan.GptOssModelArgs(**GPT, moe_args=titan.MoEArgs(num_experts=4, num_shared_experts=0))
        return any("router.gate.bias" in k for k in titan.GptOssModel(arguments).state_dict())


def try_release(release):
    """In a process of its own: each release is called torchtitan."""
    sys.meta_path.append(Absent())
    sys.path.insert(0, str(FOLDER / release))
    sys.path.append(str(ROOT / ".venv-maps"))
    import torch
    from safetensors.torch import load_file, save_file

    sys.modules["torch.utils.tensorboard"] = mock.MagicMock()
    failed = 0
    if release in ("0.2.0", "0.2.1"):
        wrong = gpt_oss_is_published(release)
        print(f"torchtitan {release}, gpt_oss: {'FAILED' if wrong else 'not to be published'}")
        failed += wrong
    for family, module, model, args, form, experts, config in RELEASES[release]:
        titan = importlib.import_module(f"torchtitan.{module}")
        assert str(FOLDER / release) in titan.__file__
        arguments = getattr(titan, args)(**form, **({"moe_args": titan.MoEArgs(**experts)} if experts else {}))
        arguments.moe_impl = "standard"  # set by its trainer
        torch.manual_seed(1)
        with torch.device("meta"):
            names = getattr(titan, model)(arguments).state_dict()
        state = {k: torch.randn(v.shape) for k, v in names.items() if k != "freqs_cis"}  # 0.1.0 keeps its rotary angles
        adapters = [getattr(titan, n) for n in dir(titan) if n.endswith("StateDictAdapter") and n != "StateDictAdapter"]
        with tempfile.TemporaryDirectory() as scratch:
            source, out, description = Path(scratch, "model.pt"), Path(scratch, "out.safetensors"), Path(scratch, "config.json")
            torch.save(state, source)
            description.write_text(json.dumps({"model_type": family, **HF, **config}))
            command = [DCPCTL, "consolidate", source, out, "--map", "auto", "--config", description, "--no-sync"]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode != 0:
                print(f"FAILED: torchtitan {release}, {family}: {result.stderr}")
                failed += 1
                continue
            got = load_file(out)
            if adapters and family != "gpt_oss":  # whose experts torchtitan publishes in another form
                wanted = adapters[0](arguments, None).to_hf(dict(state))
                wrong = [k for k in sorted(got.keys() | wanted.keys()) if k not in got or k not in wanted or not torch.equal(got[k], wanted[k])]
            else:
                moved = sorted(tuple(t.flatten().sort().values.tolist()) for t in got.values())
                wrong = [] if moved == sorted(tuple(t.flatten().sort().values.tolist()) for k, t in state.items() if "expert_bias" not in k) else ["elements"]
            # And back: the names of that release, not those of the newest.
            again = Path(scratch, "again.pt")
            command = [DCPCTL, "convert", out, again, "--map", f"{family}.torchtitan", "--set", f"release={release}", "--config", description, "--no-sync"]
            result = subprocess.run(command, capture_output=True, text=True)
            back = torch.load(again) if result.returncode == 0 else {}
            wrong += not_said(family, release, state)
            newest = Path(scratch, "newest.pt")
            subprocess.run([*command[:3], newest, *command[4:7], f"release={NEWEST}", *command[8:]], check=True, capture_output=True)
            wrong += not_said(family, NEWEST, torch.load(newest))
            balances = {k for k in state if "expert_bias" in k}  # of training alone, where no published tensor keeps it
            wrong += [k for k in sorted(back.keys() | state.keys() - (balances - back.keys())) if k not in back or k not in state or not torch.equal(back[k], state[k])]
            print(f"torchtitan {release}, {family}: {len(got)} tensors{', FAILED: ' + str(wrong[:5]) if wrong else ''}")
            failed += bool(wrong)
    return failed


if len(ONLY) == 1:
    sys.exit(try_release(ONLY[0]))
failures = sum(subprocess.run([sys.executable, "-B", __file__, DCPCTL, FOLDER, r]).returncode for r in ONLY or RELEASES)
print(f"{failures} failures")
sys.exit(1 if failures else 0)
