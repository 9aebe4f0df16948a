#!/usr/bin/env python3
"""Model maps against the programs that they speak of: tiny models of transformers, and what torchtitan's own adapters make of them.

    maps.py DCPCTL transformers   what transformers holds in memory is published bit for bit as it publishes it, loads without a missing,
                                  unexpected or mismatched key, gives the same logits, and comes back
    maps.py DCPCTL torchtitan     what torchtitan's adapters make of a published model is what the map makes of it, and the other way round

Exits 77 (skipped) where these packages are not installed.
"""
import hashlib
import importlib
import importlib.util
import re
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
DCPCTL, WHAT = Path(sys.argv[1]), sys.argv[2]
sys.path.append(str(Path(__file__).resolve().parent.parent.parent / ".venv-maps"))  # ./dev test makes it
if missing := [p for p in {"transformers", WHAT} if importlib.util.find_spec(p) is None]:
    print(f"skipped: {', '.join(missing)} not installed")
    sys.exit(77)

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict  # noqa: E402
from torch.distributed.checkpoint.format_utils import _EmptyStateDictLoadPlanner  # noqa: E402

from case import check, finish  # noqa: E402

transformers.logging.set_verbosity_error()
SMALL = {"vocab_size": 80, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
EXPERTS = {**SMALL, "head_dim": 16, "num_experts": 5, "moe_intermediate_size": 20, "num_experts_per_tok": 2}
DEEPSEEK = {**SMALL, "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 20, "num_experts_per_tok": 2,
            "q_lora_rank": 16, "kv_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1}  # fmt: skip
MODELS = {  # name: class, sizes
    "llama": ("Llama", SMALL),
    "llama_tied": ("Llama", {**SMALL, "tie_word_embeddings": True}),
    "llama_biases": ("Llama", {**SMALL, "attention_bias": True, "mlp_bias": True}),
    "mistral": ("Mistral", {**SMALL, "head_dim": 12}),
    "qwen3": ("Qwen3", {**SMALL, "head_dim": 16}),
    "qwen3_tied": ("Qwen3", {**SMALL, "head_dim": 16, "tie_word_embeddings": True}),
    "qwen3_moe": ("Qwen3Moe", EXPERTS),
    "qwen3_moe_mixed": ("Qwen3Moe", {**EXPERTS, "mlp_only_layers": [1]}),
    "mixtral": ("Mixtral", {**SMALL, "num_local_experts": 3}),
    "deepseek_v3": ("DeepseekV3", DEEPSEEK),
    "deepseek_v3_one_rank": ("DeepseekV3", {**DEEPSEEK, "q_lora_rank": None}),
    "gpt_oss": ("GptOss", {**SMALL, "head_dim": 8, "num_local_experts": 3, "num_experts_per_tok": 2}),
}
IN_MEMORY = ["llama", "llama_tied", "llama_biases", "mistral", "qwen3_moe", "qwen3_moe_mixed", "mixtral", "deepseek_v3", "deepseek_v3_one_rank"]
ADAPTERS = {  # name: torchtitan's folder, its adapter
    "llama": ("llama3", "Llama3StateDictAdapter"),
    "llama_tied": ("llama3", "Llama3StateDictAdapter"),
    "mistral": ("llama3", "Llama3StateDictAdapter"),
    "qwen3": ("qwen3", "Qwen3StateDictAdapter"),
    "qwen3_tied": ("qwen3", "Qwen3StateDictAdapter"),
    "qwen3_moe": ("qwen3", "Qwen3StateDictAdapter"),
    "qwen3_moe_mixed": ("qwen3", "Qwen3StateDictAdapter"),
    "deepseek_v3": ("deepseek_v3", "DeepSeekV3StateDictAdapter"),
    "deepseek_v3_one_rank": ("deepseek_v3", "DeepSeekV3StateDictAdapter"),
}


def dcpctl(*arguments):
    result = subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{arguments}: exit {result.returncode}\n{result.stdout}{result.stderr}")


def facts(state):
    """Dtype, shape and digest of each tensor."""
    bits = lambda t: hashlib.sha256(t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()
    return {k: (str(t.dtype), tuple(t.shape), bits(t)) for k, t in state.items()}


def published(folder):
    state = {}
    for file in sorted(folder.glob("*.safetensors")):
        state.update(load_file(file))
    return state


def made(name):
    family, sizes = MODELS[name]
    torch.manual_seed(len(name))
    config = getattr(transformers, f"{family}Config")(**sizes)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def dcp_state(folder, root=""):
    state = {}
    _load_state_dict(state, storage_reader=dcp.FileSystemReader(folder), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state[root] if root else state


def from_memory(name, scratch):
    model = made(name)
    model.save_pretrained(scratch / "hf")
    dcp.save({"model": model.state_dict()}, checkpoint_id=scratch / "ckpt", no_dist=True)
    dcpctl("consolidate", scratch / "ckpt", scratch / "out", "--model-only", "--map", "auto", "--assets", scratch / "hf", "--max-shard-size", "40KB")
    check(facts(published(scratch / "out")) == facts(published(scratch / "hf")), f"{name}: what is published")
    loaded, info = type(model).from_pretrained(scratch / "out", output_loading_info=True)
    check(not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), f"{name}: every key is loaded, and no other: {info}")
    tokens = torch.arange(12).reshape(2, 6)
    with torch.no_grad():
        difference = (loaded.eval()(tokens).logits - model(tokens).logits).abs().max().item()
    check(difference < 1e-4, f"{name}: the same logits: {difference}")
    dcpctl("convert", scratch / "hf", scratch / "back", "--map", f"{model.config.model_type}.transformers", "--add-root", "model", "--world-size", "3")
    check(facts(dcp_state(scratch / "back", "model")) == facts(model.state_dict()), f"{name}: what comes back")


def adapted(name, model, hf):
    """What torchtitan's adapter makes of a published model, asked with the few facts of its model's configuration that it reads."""
    folder, adapter = ADAPTERS[name]
    c = model.config
    attention = types.SimpleNamespace(n_heads=c.num_attention_heads, n_kv_heads=c.num_key_value_heads, head_dim=getattr(c, "head_dim", None),
                                      q_lora_rank=getattr(c, "q_lora_rank", 0) or 0)  # fmt: skip
    experts = types.SimpleNamespace(num_experts=getattr(c, "num_experts", None) or getattr(c, "n_routed_experts", None))
    layers = [types.SimpleNamespace(attention=attention, moe=experts)] * c.num_hidden_layers
    config = types.SimpleNamespace(layers=layers, dim=c.hidden_size, enable_weight_tying=c.tie_word_embeddings, mtp_layers=[])
    a = getattr(importlib.import_module(f"torchtitan.models.{folder}.state_dict_adapter"), adapter)(config, None)
    a._validate_hf_rope_config = lambda *_: None
    return {k: v.clone() for k, v in a.from_hf(dict(hf)).items()}


def from_adapter(name, scratch):
    model = made(name)
    model.save_pretrained(scratch / "hf")
    hf = published(scratch / "hf")
    trained = adapted(name, model, hf)
    dcp.save(trained, checkpoint_id=scratch / "ckpt", no_dist=True)
    dcpctl("consolidate", scratch / "ckpt", scratch / "out.safetensors", "--map", "auto", "--config", scratch / "hf/config.json")
    check(facts(load_file(scratch / "out.safetensors")) == facts(hf), f"{name}: what is published")
    dcpctl("convert", scratch / "hf", scratch / "back", "--map", f"{model.config.model_type}.torchtitan", "--world-size", "3")
    check(facts(dcp_state(scratch / "back")) == facts(trained), f"{name}: what the trainer loads")


for case, run in [(n, from_memory) for n in IN_MEMORY] if WHAT == "transformers" else [(n, from_adapter) for n in ADAPTERS]:
    with tempfile.TemporaryDirectory() as folder:
        run(case, Path(folder))
finish()
