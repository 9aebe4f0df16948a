#!/usr/bin/env python3
"""The text model within a model of images, published alone: config.json is its own, and what transformers loads by it is the trained model.

    text_parts.py DCPCTL

Exits 77 (skipped) where transformers is not installed.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp

from safetensors.torch import load_file

from case import check, finish
from tiny_models import transformers

DCPCTL = Path(sys.argv[1])
TEXT = {"vocab_size": 80, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
        "head_dim": 8, "pad_token_id": 0, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
        "linear_value_head_dim": 8}  # fmt: skip
IMAGES = {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "patch_size": 4, "image_size": 8}
MODELS = {  # class: arguments of its text model, and of the whole
    "Gemma3": ({}, {"vision_config": IMAGES, "mm_tokens_per_image": 4}),
    "Gemma3 untied": ({}, {"vision_config": IMAGES, "mm_tokens_per_image": 4, "tie_word_embeddings": False}),
    "Mistral3": ({"model_type": "mistral"}, {"vision_config": {"model_type": "pixtral", "head_dim": 8, **IMAGES}}),
    "Qwen3_5": ({}, {"vision_config": {"depth": 1, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "out_hidden_size": 32}}),
}  # fmt: skip
LOADED_AS = {"Gemma3": "Gemma3ForCausalLM", "Mistral3": "MistralForCausalLM", "Qwen3_5": "Qwen3_5ForCausalLM"}
OF_IMAGES = ("vision", "visual", "projector")


def publish(name, source, base, out, *more):
    arguments = ["consolidate", source, out, "--model-only", "--map", "auto", "--assets", base, "--dtype", "bf16", "--max-shard-size", "1GB", *more]
    made = subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    check(made.returncode == 0, f"{name}: {made.stderr}")
    verified = subprocess.run([DCPCTL, "verify", out, "--map", "auto"], capture_output=True, text=True)
    check(verified.returncode == 0 and "everything that transformers 5.24 loads is there" in verified.stderr, f"{name}: verify: {verified.stderr}")
    check("architectures" not in verified.stderr and "text_config" not in verified.stderr, f"{name}: verify: {verified.stderr}")


def rooted(name, source, folder):
    """Below the root that the text model has where it is published with images."""
    config, text = (folder / "hf/config.json").read_text(), {}
    publish(name, source, folder / "hf", folder / "rooted", "--add-root", "language_model")
    for file in folder.glob("hf/*.safetensors"):
        text |= {k: v.bfloat16() for k, v in load_file(file).items() if k.startswith("language_model.")}
    written = load_file(next(folder.glob("rooted/*.safetensors")))
    check(written.keys() == text.keys() and all(torch.equal(written[k], text[k]) for k in text), f"{name}: the names with images")
    now = json.loads((folder / "rooted/config.json").read_text())
    check(now["architectures"] == json.loads(config)["architectures"] and "text_config" in now, f"{name}: the configuration with images")


def same_model(name, kind, out, trained):
    config = json.loads((out / "config.json").read_text())
    check(config["architectures"] == [kind] and "text_config" not in config and config["dtype"] == "bfloat16", f"{name}: {config}")
    for loader in (transformers.AutoModelForCausalLM, getattr(transformers, kind)):
        loaded, info = loader.from_pretrained(out, output_loading_info=True, dtype=torch.float32)
        check(type(loaded).__name__ == kind, f"{name}: loaded as {type(loaded).__name__}")
        check(not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), f"{name}: every key is loaded, and no other: {info}")
        tokens = torch.arange(12).reshape(2, 6)
        with torch.no_grad():
            difference = (loaded.eval()(tokens).logits - trained(tokens).logits).abs().max().item()
        check(difference < 1e-4, f"{name}: the same logits: {difference}")


def tried(name, folder):
    family = name.split()[0]
    text, whole = MODELS[name]
    config_class, kind = getattr(transformers, f"{family}Config"), LOADED_AS[family]
    allowed = getattr(transformers, f"{family}TextConfig", None)
    text = {k: v for k, v in TEXT.items() if allowed is None or hasattr(allowed(), k)} | text
    torch.manual_seed(len(name))
    trained = getattr(transformers, f"{family}ForConditionalGeneration")(config_class(text_config=text, **whole)).eval()
    for parameter in trained.parameters():
        parameter.data.copy_(torch.randn(parameter.shape).mul(0.2).bfloat16())
    trained.save_pretrained(folder / "hf")
    state = trained.state_dict()
    part = {k: v for k, v in state.items() if not any(word in k for word in OF_IMAGES)}
    named_alone = {k.replace("model.language_model.", "model."): v for k, v in part.items()}
    for what, saved in (("whole", state), ("part", part), ("alone", named_alone)):
        if family == "Qwen3_5" and what != "alone":  # its map has the names of the whole
            continue
        dcp.save({"model": saved}, checkpoint_id=folder / what, no_dist=True)
        publish(f"{name}, {what}", folder / what, folder / "hf", folder / f"{what}-out", *(["--unmapped", "drop"] if what == "whole" else []))
        same_model(f"{name}, {what}", kind, folder / f"{what}-out", trained)


    if family != "Qwen3_5":
        rooted(f"{name}, rooted", folder / "part", folder)


for name in MODELS:
    with tempfile.TemporaryDirectory() as scratch:
        tried(name, Path(scratch))
finish()
