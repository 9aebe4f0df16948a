#!/usr/bin/env python3
"""A published model that lacks a tensor which its class loads, or has one of another shape than config.json says, is refused beside that config.json.

    refusals.py DCPCTL [MODEL...]    tiny models of these types, or of all that a built-in map of transformers is for

Each tensor is left out in turn: refused (exit 1), unless from_pretrained misses none without it. Each loses a row in turn: refused, and a finding
of verify. Exits 77 (skipped) where transformers is not installed.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.torch import load_file, save_file

from case import check, finish
from tiny_models import LeftOut, built, families_of, leaves, transformers

DCPCTL, ONLY = Path(sys.argv[1]), sys.argv[2:]
FOLDER = Path(__file__).resolve().parent.parent.parent / "src/maps/builtin"
OPTIONS = ("attention_bias", "mlp_bias", "use_qk_norm", "qkv_bias", "use_bias")
# What nothing in config.json says, or says only by layer: dims of layers that differ, and layers of which some have a tensor.
NOT_SEEN = {"cosmos3_omni": "deepstack_merger", "gemma4_unified": "self_attn", "glm4_moe_lite": "kv_a_proj|q_b_proj", "granitemoehybrid": "layernorm|mamba|output|^model.norm",
            "hy_v4": "indexer|hc_scale", "laguna": "g_proj", "mimo_v2_flash": "[kv]_proj|sink", "mistral_large4_text": "wkv|rotary", "paddleocr_vl": "position_embedding",
            "pi0": "position_embedding", "qwen3_5": "visual", "qwen3_5_moe": "visual", "shieldgemma2": "position_embedding", "videomae": "decoder.head"}  # fmt: skip


def exit_of(*arguments):
    return subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True).returncode


def consolidated(folder):
    return exit_of("consolidate", folder, folder.parent / "out", "--assets", folder, "--max-shard-size", "1GB", "--dry-run")


def of_model(model, scratch):
    name = model.config.model_type
    hf, changed = scratch / "hf", scratch / "changed"
    model.save_pretrained(hf)
    changed.mkdir()
    shutil.copy(hf / "config.json", changed)
    state = {}
    for file in hf.glob("*.safetensors"):
        state.update(load_file(file))
    check(consolidated(hf) == 0 and exit_of("verify", hf) == 0, f"{name}: it is whole")
    seen = set()
    for key in reversed(sorted(state)):  # of each kind, one that is not in the first layer
        kind = re.sub(r"\d+", "N", key)
        if kind in seen or re.search(NOT_SEEN.get(name, "^$"), key) or not state[key].is_floating_point():
            continue
        seen.add(kind)
        less = {k: v for k, v in state.items() if k != key}
        save_file(less, changed / "model.safetensors", metadata={"format": "pt"})
        if consolidated(changed) != 1:
            _, info = type(model).from_pretrained(changed, output_loading_info=True)
            check(not info["missing_keys"], f"{name}: lacks {key}")
        if state[key].dim() and state[key].shape[0] > 1:
            save_file({**less, key: state[key][:-1].clone()}, changed / "model.safetensors", metadata={"format": "pt"})
            check((consolidated(changed), exit_of("verify", changed)) == (1, 1), f"{name}: {key} of {tuple(state[key].shape)} lacks a row")


def models():
    """Of each type, as it is by default and with each option that gives it more tensors or fewer."""
    for model_type in sorted(set().union(*(families_of(f.read_text()) for f in FOLDER.glob("*.transformers.map")))):
        if model_type not in transformers.CONFIG_MAPPING or (ONLY and model_type not in ONLY):
            continue
        try:
            base = built(model_type, {"num_key_value_heads": 4} if "kv_lora_rank" in transformers.CONFIG_MAPPING[model_type]().to_dict() else {})
        except LeftOut:
            continue
        yield base
        for path, value in leaves(base.config.to_dict()).items():
            if path.split(".")[-1] in OPTIONS and isinstance(value, bool):
                yield built(model_type, {}, {path: not value})


for model in models():
    with tempfile.TemporaryDirectory() as scratch:
        of_model(model.float(), Path(scratch))
finish()
