#!/usr/bin/env python3
"""What dcpctl publishes by the maps that map_texts.py has made is what from_pretrained loads, without a stray key, and computes the same.

    from_pretrained.py DCPCTL FOLDER [MODEL...]   by the maps in FOLDER, for all of their models or for these

Exits 77 (skipped) where transformers is not installed.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp

from case import check, finish
from tiny_models import as_loaded, built, families_of, made_maps, transformers

DCPCTL, FOLDER, ONLY = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
TOKENS = torch.arange(5, 17).reshape(2, 6)
# What a model is called with where token ids alone will not do, and what a tiny one needs to be called at all.
INPUTS = {"granitemoehybrid": {"input_ids": TOKENS, "use_cache": False},
          "lfm3_vl_vision": {"pixel_values": torch.rand(4, 24), "grid_thw": torch.tensor([[1, 2, 2]])},
          "pi0": {"state": torch.rand(2, 32), "noise": torch.rand(2, 50, 32), "timestep": torch.rand(2), "pixel_values": torch.rand(2, 1, 3, 8, 8),
                  "input_ids": torch.cat([torch.full((2, 16), 3), TOKENS], 1), "attention_mask": torch.ones(2, 22, dtype=torch.long),
                  "pixel_attention_mask": torch.ones(2, 1, dtype=torch.bool)},
          "timesfm2_5": {"past_values": torch.rand(2, 64)},
          "videomae": {"pixel_values": torch.rand(1, 16, 3, 8, 8), "bool_masked_pos": torch.arange(128).reshape(1, -1) % 2 == 0}}  # fmt: skip
CALLABLE = {"paddleocr_vl": {"head_dim": 128}, "shieldgemma2": {"vocab_size": 10800}}


def outputs(model):
    """Each tensor that the model computes of some input."""
    with torch.no_grad():
        torch.manual_seed(1)
        made = model.eval()(**INPUTS.get(model.config.model_type, {"input_ids": TOKENS}))
        return {k: v for k, v in made.items() if isinstance(v, torch.Tensor)}


def frozen(model, folder):
    """A run without its vision tower is refused; with the published model it is whole: the tower is that one's."""
    name, state = model.config.model_type, model.state_dict()
    tower = [key for key in state if re.search("visual|vision", key)]
    if not 0 < len(tower) < len(state):
        return
    trained = {key: value if key in tower or not value.is_floating_point() else value + 1 for key, value in state.items()}
    dcp.save({"model": {k: v for k, v in trained.items() if k not in tower}}, checkpoint_id=folder / "part", no_dist=True)
    run = lambda *more: subprocess.run([DCPCTL, "consolidate", folder / "part", folder / "filled", "--assets", folder / "hf", *more], capture_output=True, text=True)
    refused = run()
    check(refused.returncode == 1 and "--fill-from" in refused.stderr and not (folder / "filled").exists(), f"{name}: lacks its tower: {refused.stderr}")
    filled = run("--fill-from", folder / "hf")
    check(filled.returncode == 0 and "took " in filled.stderr, f"{name}: filled: {filled.stderr}")
    loaded, info = type(model).from_pretrained(folder / "filled", output_loading_info=True)
    check(not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), f"{name}: filled: {info}")
    ours = loaded.state_dict()
    check(ours.keys() == trained.keys() and all(torch.equal(ours[k], trained[k]) for k in trained), f"{name}: the trained weights and the tower")


def lacking(model, folder):
    """verify misses what transformers misses, and nothing in a whole model."""
    name = model.config.model_type
    run = lambda *arguments: subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    whole = run("verify", folder / "out", "--quick")
    check(whole.returncode == 0 and "config.json" not in whole.stdout, f"{name}: verify: {whole.stdout}")
    model.save_pretrained(folder / "memory", save_original_format=False)
    whole = run("verify", folder / "memory", "--quick")
    check(whole.returncode == 0, f"{name}: saved with the names in memory: {whole.stdout}")
    keys = sorted(json.loads((folder / "out/model.safetensors.index.json").read_text())["weight_map"])
    for key in {keys[0], keys[len(keys) // 2], keys[-1]}:
        made = run("convert", folder / "out", folder / "lacking", "--exclude", key, "--map", "none", "--assets", folder / "out", "--max-shard-size", "1MB", "--force")
        check(made.returncode == 0, f"{name}: {made.stderr}")
        try:
            missing = type(model).from_pretrained(folder / "lacking", output_loading_info=True)[1]["missing_keys"]
        except RuntimeError as error:  # of several experts one is missing
            missing = str(error)
        verified = run("verify", folder / "lacking", "--quick")
        check((verified.returncode, key in verified.stdout) == ((1, True) if missing else (0, False)), f"{name}: {missing}: {verified.stdout}")


def loads(model_type, folder):
    """What dcpctl publishes of a model with random weights is that model for transformers."""
    torch.manual_seed(len(model_type))
    latent = "kv_lora_rank" in transformers.CONFIG_MAPPING[model_type]().to_dict()
    model = built(model_type, CALLABLE.get(model_type, {"num_key_value_heads": 4} if latent else {})).float()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    model.save_pretrained(folder / "hf")
    dcp.save({"model": model.state_dict()}, checkpoint_id=folder / "ckpt", no_dist=True)
    run = lambda *arguments: subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    made = run("consolidate", folder / "ckpt", folder / "out", "--model-only", "--map", "auto", "--assets", folder / "hf", "--max-shard-size", "1MB")
    check(made.returncode == 0, f"{model_type}: {made.stderr}")
    verified = run("verify", folder / "out", "--map", "auto")
    check(verified.returncode == 0 and "architectures" not in made.stderr + verified.stderr, f"{model_type}: verify: {made.stderr} {verified.stderr}")
    loaded, info = type(model).from_pretrained(folder / "out", output_loading_info=True)
    check(not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), f"{model_type}: every key is loaded, and no other: {info}")
    ours, theirs = loaded.state_dict(), model.state_dict()
    check(ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in theirs), f"{model_type}: the same weights")
    as_loaded(DCPCTL, type(model), folder)
    lacking(model, folder)
    frozen(model, folder)
    ours, theirs = outputs(loaded), outputs(model)
    check(len(theirs) > 0 and all(torch.allclose(ours[k], theirs[k], atol=1e-6) for k in theirs), f"{model_type}: computes the same")


for file in made_maps(FOLDER):
    for model_type in sorted(families_of(file.read_text())):
        if not ONLY or model_type in ONLY:
            with tempfile.TemporaryDirectory() as scratch:
                loads(model_type, Path(scratch))
if not ONLY or "qwen3_5" in ONLY:  # its map is written by hand
    with tempfile.TemporaryDirectory() as scratch:
        model = built("qwen3_5", {}).float()
        model.save_pretrained(Path(scratch) / "hf")
        frozen(model, Path(scratch))
finish()
