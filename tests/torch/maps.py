#!/usr/bin/env python3
"""Model maps against the programs that they speak of: tiny models of transformers, and what torchtitan's own adapters make of them.

    maps.py DCPCTL transformers   what transformers holds in memory is published bit for bit as it publishes it, loads without a missing,
                                  unexpected or mismatched key, gives the same logits, and comes back; where config.json says another size,
                                  what transformers would refuse is refused, and nothing else
    maps.py DCPCTL torchtitan     what torchtitan's adapters make of a published model is what the map makes of it, and the other way round;
                                  what torchtitan's own models compute is what transformers computes with what is published of them
    maps.py DCPCTL megatron       what megatron_layout.py makes of a published model, layers numbered and stacked, padded vocabulary: both directions

Names of models after that choose some. Exits 77 (skipped) where these packages are not installed.
"""
import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest.mock
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
DCPCTL, WHAT, ONLY = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
FOLDER = Path(__file__).resolve().parent.parent.parent / "src/maps/builtin"
sys.path.append(str(Path(__file__).resolve().parent.parent.parent / ".venv-maps"))  # ./dev test makes it
if missing := [p for p in {"transformers", WHAT} - {"megatron"} if importlib.util.find_spec(p) is None]:
    print(f"skipped: {', '.join(missing)} not installed")
    sys.exit(77)

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from case import check, finish  # noqa: E402
from megatron_layout import megatron_state  # noqa: E402
from tiny_models import as_loaded, dcp_state, facts, families_of, keep_lines, published  # noqa: E402
from titan_models import models_with_masks, stand_in_for_fla, trainer_models  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
SMALL = {"vocab_size": 80, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
         "pad_token_id": 0}  # fmt: skip
EXPERTS = {**SMALL, "head_dim": 16, "num_experts": 5, "moe_intermediate_size": 20, "num_experts_per_tok": 2}
SHARED = {**EXPERTS, "shared_expert_intermediate_size": 24}
DEEPSEEK = {**SMALL, "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 20, "num_experts_per_tok": 2,
            "q_lora_rank": 16, "kv_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1}  # fmt: skip
RECURRENT = {"num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
IMAGES = {"depth": 2, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "out_hidden_size": 32, "patch_size": 2, "num_position_embeddings": 16}
MODELS = {  # name: class, sizes
    "llama": ("Llama", SMALL),
    "llama_tied": ("Llama", {**SMALL, "tie_word_embeddings": True}),
    "llama_biases": ("Llama", {**SMALL, "attention_bias": True, "mlp_bias": True}),
    "mistral": ("Mistral", {**SMALL, "head_dim": 12}),
    "granite": ("Granite", SMALL),
    "qwen2": ("Qwen2", SMALL),
    "qwen2_tied": ("Qwen2", {**SMALL, "tie_word_embeddings": True}),
    "qwen2_moe": ("Qwen2Moe", {**SHARED, "mlp_only_layers": [1]}),
    "qwen3": ("Qwen3", {**SMALL, "head_dim": 16}),
    "qwen3_tied": ("Qwen3", {**SMALL, "head_dim": 16, "tie_word_embeddings": True}),
    "qwen3_moe": ("Qwen3Moe", EXPERTS),
    "qwen3_moe_mixed": ("Qwen3Moe", {**EXPERTS, "mlp_only_layers": [1]}),
    "qwen3_5_text": ("Qwen3_5Text", {**SMALL, "head_dim": 16, **RECURRENT}),
    "qwen3_5_moe_text": ("Qwen3_5MoeText", {**SHARED, **RECURRENT}),
    "qwen3_5": ("Qwen3_5", {"text_config": {**SMALL, "head_dim": 16, **RECURRENT}, "vision_config": IMAGES}),
    "qwen3_5_moe": ("Qwen3_5Moe", {"text_config": {**SHARED, **RECURRENT}, "vision_config": IMAGES}),
    "gemma": ("Gemma", {**SMALL, "head_dim": 12}),
    "gemma_untied": ("Gemma", {**SMALL, "head_dim": 12, "attention_bias": True, "tie_word_embeddings": False}),
    "gemma2": ("Gemma2", {**SMALL, "head_dim": 12}),
    "gemma2_biases": ("Gemma2", {**SMALL, "head_dim": 12, "attention_bias": True}),
    "gemma3_text": ("Gemma3Text", {**SMALL, "head_dim": 12}),
    "gemma3_text_biases": ("Gemma3Text", {**SMALL, "head_dim": 12, "attention_bias": True}),
    "mixtral": ("Mixtral", {**SMALL, "num_local_experts": 3}),
    "deepseek_v3": ("DeepseekV3", DEEPSEEK),
    "deepseek_v3_one_rank": ("DeepseekV3", {**DEEPSEEK, "q_lora_rank": None}),
    "deepseek_v3_mtp": ("DeepseekV3", DEEPSEEK),  # what predicts a further token is added where it is published
    "glm4_moe": ("Glm4Moe", {**DEEPSEEK, "num_key_value_heads": 2, "head_dim": 8, "use_qk_norm": True, "attention_bias": True}),
    "glm4_moe_plain": ("Glm4Moe", {**DEEPSEEK, "num_key_value_heads": 2, "head_dim": 8}),
    # Of families whose maps are made: models that have other tensors than most.
    "deepseek_v2_one_rank": ("DeepseekV2", {**DEEPSEEK, "q_lora_rank": None}),
    "deepseek_v2_biases": ("DeepseekV2", {**DEEPSEEK, "q_lora_rank": None, "attention_bias": True, "mlp_bias": True}),
    "glm4_moe_lite_one_rank": ("Glm4MoeLite", {**DEEPSEEK, "q_lora_rank": None, "mlp_layer_types": ["dense", "sparse", "sparse"]}),
    "qwen3_next_mixed": ("Qwen3Next", {**SHARED, **RECURRENT, "mlp_only_layers": [1, 3]}),
    "qwen3_next_sparse": ("Qwen3Next", {**SHARED, **RECURRENT, "decoder_sparse_step": 2}),
    "flint_mixed": ("Flint", {**EXPERTS, "mlp_only_layers": [1]}),
    "mellum_mixed": ("Mellum", {**EXPERTS, "mlp_layer_types": ["dense", "sparse", "sparse"]}),
    "lfm3_no_gate": ("Lfm3", {**SMALL, "use_attention_gate": False}),
    "granitemoeshared_none": ("GraniteMoeShared", {**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "glm4": ("Glm4", {**SMALL, "head_dim": 12}),
    "glm4_plain": ("Glm4", {**SMALL, "head_dim": 12, "attention_bias": False, "tie_word_embeddings": True}),
    "smollm3": ("SmolLM3", {**SMALL, "no_rope_layer_interval": 2}),
    "smollm3_untied": ("SmolLM3", {**SMALL, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False}),
    "olmo2": ("Olmo2", SMALL),
    "olmo3": ("Olmo3", {**SMALL, "attention_bias": True}),
    "olmoe": ("Olmoe", {**SMALL, "num_experts": 4, "num_experts_per_tok": 2}),
    "gpt_oss": ("GptOss", {**SMALL, "head_dim": 8, "num_local_experts": 3, "num_experts_per_tok": 2}),
    "phi3": ("Phi3", SMALL),
    "muse_glimmer": ("MuseGlimmer", {"text_config": {**SMALL, "head_dim": 16}, "out_hidden_size": 24, "projector_hidden_size": 20,
                                     "vision_config": {"num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}}),
    "kimi_k25": ("Kimi_K25", {"text_config": DEEPSEEK, "projection_hidden_size": 8, "tie_word_embeddings": False,
                              "vision_config": {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12,
                                                "patch_size": 2, "pos_emb_height": 4, "pos_emb_width": 4}}),
}  # fmt: skip
MAP_OF = {t: text for f in FOLDER.glob("*.map") if "\nclass " in (text := f.read_text()) for t in families_of(text)}
IN_MEMORY = [name for name in MODELS if name not in ("qwen3_tied", "muse_glimmer", "kimi_k25", "deepseek_v3_mtp")]
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
    "deepseek_v3_mtp": ("deepseek_v3", "DeepSeekV3StateDictAdapter"),
    "gpt_oss": ("gpt_oss", "GptOssStateDictAdapter"),
    "qwen3_5": ("qwen3_5", "Qwen35StateDictAdapter"),
    "qwen3_5_moe": ("qwen3_5", "Qwen35StateDictAdapter"),
    "muse_glimmer": ("muse_glimmer", "MuseGlimmerStateDictAdapter"),
    "kimi_k25": ("kimi_k2_7", "KimiK25StateDictAdapter"),
}


def dcpctl(*arguments):
    result = subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{arguments}: exit {result.returncode}\n{result.stdout}{result.stderr}")


def with_more(sizes, more):
    return {**sizes, **{k: with_more(sizes.get(k, {}), v) if isinstance(v, dict) else v for k, v in more.items()}}


def family_of(name, more={}):
    """transformers' model and its configuration."""
    family, sizes = MODELS[name]
    task = "ForConditionalGeneration" if "vision_config" in sizes else "ForCausalLM"
    return getattr(transformers, family.removesuffix("Text") + task), getattr(transformers, f"{family}Config")(**with_more(sizes, more))


def made(name):
    torch.manual_seed(len(name))
    kind, config = family_of(name)
    model = kind(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def from_memory(name, scratch):
    model = made(name)
    model.save_pretrained(scratch / "hf")
    dcpctl("verify", scratch / "hf")
    config = json.loads((scratch / "hf/config.json").read_text())
    architectures = config.pop("architectures")
    if config.get("tie_word_embeddings") == type(model.config)().tie_word_embeddings:  # older releases leave out what is the class's default
        del config["tie_word_embeddings"]
    (scratch / "hf/config.json").write_text(json.dumps(config))
    dcp.save({"model": model.state_dict()}, checkpoint_id=scratch / "ckpt", no_dist=True)
    dcpctl("consolidate", scratch / "ckpt", scratch / "out", "--model-only", "--map", "auto", "--assets", scratch / "hf", "--max-shard-size", "40KB")
    check(facts(published(scratch / "out")) == facts(published(scratch / "hf")), f"{name}: what is published")
    check(json.loads((scratch / "out/config.json").read_text())["architectures"] == architectures, f"{name}: the class that is published")
    loaded, info = type(model).from_pretrained(scratch / "out", output_loading_info=True)
    check(not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), f"{name}: every key is loaded, and no other: {info}")
    tokens = torch.arange(12).reshape(2, 6)
    with torch.no_grad():
        difference = (loaded.eval()(tokens).logits - model(tokens).logits).abs().max().item()
    check(difference < 1e-4, f"{name}: the same logits: {difference}")
    dcpctl("convert", scratch / "hf", scratch / "back", "--map", f"{model.config.model_type}.transformers", "--add-root", "model", "--world-size", "3")
    check(facts(dcp_state(scratch / "back", "model")) == facts(model.state_dict()), f"{name}: what comes back")
    as_loaded(DCPCTL, type(model), scratch)
    lines = [line for line in MAP_OF[model.config.model_type].splitlines() if line.startswith("keep ")]
    check(lines == keep_lines(model), f"{name}: what the map keeps in float32: {lines}, {keep_lines(model)}")
    other_sizes(name, model, scratch)


def other_sizes(name, model, scratch):
    config = json.loads((scratch / "hf/config.json").read_text())
    text = config.get("text_config", config)
    shapes = {k: v.shape for k, v in model.state_dict().items()}
    for key in [k for k, v in text.items() if type(v) is int and v > 0 and not k.endswith(("_token_id", "_layers"))]:
        right, text[key] = text[key], 2 * text[key]
        try:
            with torch.device("meta"):
                other = type(model)(type(model.config).from_dict(json.loads(json.dumps(config))))
            others = {k: v.shape for k, v in other.state_dict().items()}
            refused = others != shapes
        except Exception:  # no model is like that
            others, refused = shapes, True
        (scratch / "other.json").write_text(json.dumps(config))
        text[key] = right
        if others.keys() != shapes.keys():  # which layers have experts is no size
            continue
        run = lambda *words: subprocess.run([DCPCTL, *map(str, words), "--config", scratch / "other.json"], capture_output=True, text=True)
        published_ones = run("verify", scratch / "hf", "--map", "auto", "--quick")
        check(published_ones.returncode == (3 if refused else 0), f"{name}: twice {key}: verify: {published_ones}")
        out = scratch / f"{key}.safetensors"
        publishing = run("consolidate", scratch / "ckpt", out, "--model-only", "--map", "auto")
        check((publishing.returncode, out.exists()) == ((3, False) if refused else (0, True)), f"{name}: twice {key}: {publishing}")


def as_adapter_reads(name, hf):
    """What is published, in the form that an adapter takes where it is not the one that transformers loads."""
    state = dict(hf)
    if name == "gpt_oss":  # experts transposed, as in the quantised release
        for key in [k for k in hf if k.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
            state[key + "_blocks"] = state.pop(key).mT.contiguous()
    if name == "qwen3_5_moe":  # experts of a layer in one tensor, transposed
        for layer in range(4):
            prefix = f"model.language_model.layers.{layer}.mlp.experts."
            part = lambda x: torch.stack([state.pop(f"{prefix}{e}.{x}_proj.weight") for e in range(5)])
            state[prefix + "gate_up_proj"] = torch.cat([part("gate"), part("up")], dim=1).mT.contiguous()
            state[prefix + "down_proj"] = part("down").mT.contiguous()
    return state


def adapter_of(name):
    folder, adapter = ADAPTERS[name]
    return getattr(importlib.import_module(f"torchtitan.models.{folder}.state_dict_adapter"), adapter)


def adapted(name, model, hf):
    """What torchtitan's adapter makes of a published model, asked with the few facts of its model's configuration that it reads."""
    c = getattr(model.config, "text_config", model.config)
    attention = types.SimpleNamespace(n_heads=c.num_attention_heads, n_kv_heads=c.num_key_value_heads, head_dim=getattr(c, "head_dim", None),
                                      q_lora_rank=getattr(c, "q_lora_rank", 0) or 0)  # fmt: skip
    experts = types.SimpleNamespace(num_experts=getattr(c, "num_experts", None) or getattr(c, "n_routed_experts", None))
    rows = lambda what: types.SimpleNamespace(out_features=getattr(c, f"linear_num_{what}_heads", 0) * getattr(c, f"linear_{what}_head_dim", 0))
    recurrent = types.SimpleNamespace(in_proj_q=rows("key"), in_proj_v=rows("value"))
    layers = [types.SimpleNamespace(attention=attention, moe=experts, delta_net=recurrent)] * c.num_hidden_layers
    images = types.SimpleNamespace(num_heads=2, patch_size=2, in_channels=3)
    config = types.SimpleNamespace(layers=layers, dim=c.hidden_size, enable_weight_tying=c.tie_word_embeddings,
                                   mtp_layers=layers[:1] if name == "deepseek_v3_mtp" else [], vision_encoder=images)
    a = adapter_of(name)(config, None)
    a._validate_hf_rope_config = lambda *_: None
    trained = {k: v.clone() for k, v in a.from_hf(as_adapter_reads(name, hf)).items()}
    # The adapter of gpt-oss has the names of an older model.
    named = {"mlp1_weight": "mlp1_weight_EGD", "mlp1_bias": "mlp1_bias_EG", "mlp2_weight": "mlp2_weight_EDF", "mlp2_bias": "mlp2_bias_ED"}
    return {re.sub(r"mlp[12]_(weight|bias)$", lambda m: named[m.group()], k): v for k, v in trained.items()}


def add_images(folder):
    """Makes of a published DeepSeek-V3 a Kimi K2.5, which transformers 5.24 does not save under the names that it loads."""
    shapes = {"mm_projector.pre_norm": (8,), "mm_projector.proj.0": (32, 32), "mm_projector.proj.2": (32, 32), "vision_tower.encoder.final_layernorm": (8,),
              "vision_tower.patch_embed.proj": (8, 3, 2, 2)}  # fmt: skip
    for b in range(2):
        block = {"norm0": (8,), "norm1": (8,), "wo": (8, 8), "wqkv": (24, 8), "mlp.fc0": (12, 8), "mlp.fc1": (8, 12)}
        shapes |= {f"vision_tower.encoder.blocks.{b}.{k}": v for k, v in block.items()}
    state = {f"language_model.{k}": v for k, v in published(folder).items()} | {"vision_tower.patch_embed.pos_emb.weight": torch.rand(4, 4, 8)}
    for name, shape in shapes.items():
        state |= {f"{name}.weight": torch.rand(shape), f"{name}.bias": torch.rand(shape[0])}
    save_file(state, folder / "model.safetensors")
    kind, config = family_of("kimi_k25")
    config.save_pretrained(folder)
    _, info = kind.from_pretrained(folder, output_loading_info=True)
    check(not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), f"kimi_k25: every key is loaded, and no other: {info}")


def add_further_token(folder):
    """A layer behind the others, as DeepSeek-V3 is published; transformers passes it over."""
    state = published(folder)
    layer = {k.replace("layers.2.", "layers.3."): torch.rand_like(v) for k, v in state.items() if ".layers.2." in k}
    layer |= {f"model.layers.3.{k}.weight": torch.rand(32) for k in ("enorm", "hnorm", "shared_head.norm")}
    save_file({**state, **layer, "model.layers.3.eh_proj.weight": torch.rand(32, 64)}, folder / "model.safetensors")


def without_biases(name, trained, model, scratch):
    """Where config.json says that the model has biases, of which the trainer's map makes none, it is refused."""
    for option in ("attention_bias", "mlp_bias"):
        if getattr(model.config, option, True):
            continue
        config = type(model.config)(**{**model.config.to_dict(), option: True})
        with torch.device("meta"):
            lacking = type(model)(config).state_dict().keys() - model.state_dict().keys()
        config.architectures = [type(model).__name__]
        config.save_pretrained(scratch / option)
        result = subprocess.run([DCPCTL, "consolidate", trained, scratch / "no", "--assets", scratch / option], capture_output=True, text=True)
        says = not lacking or any(key in result.stderr for key in lacking)
        check(result.returncode == (1 if lacking else 0) and says and (scratch / "no").exists() != bool(lacking), f"{name}: {option}: {result.stderr}")
        shutil.rmtree(scratch / "no", ignore_errors=True)


def from_adapter(name, scratch):
    model = made("deepseek_v3" if name == "kimi_k25" else name)
    model.save_pretrained(scratch / "hf")
    if name == "kimi_k25":
        add_images(scratch / "hf")
    if name == "deepseek_v3_mtp":
        add_further_token(scratch / "hf")
    hf = published(scratch / "hf")
    trained = adapted(name, model, hf)
    dcp.save(trained, checkpoint_id=scratch / "ckpt", no_dist=True)
    dcpctl("consolidate", scratch / "ckpt", scratch / "out.safetensors", "--map", "auto", "--config", scratch / "hf/config.json")
    check(facts(load_file(scratch / "out.safetensors")) == facts(hf), f"{name}: what is published")
    family = name if name == "kimi_k25" else model.config.model_type
    dcpctl("convert", scratch / "hf", scratch / "back", "--map", f"{family}.torchtitan", "--world-size", "3")
    check(facts(dcp_state(scratch / "back")) == facts(trained), f"{name}: what the trainer loads")
    if name != "kimi_k25":  # not of its class
        without_biases(name, scratch / "ckpt", model, scratch)


def published_of(name, trained, more, scratch):
    """transformers' model with what is published of a trainer's."""
    torch.manual_seed(len(name))
    kind, config = family_of(name, more)
    for key, parameter in trained.named_parameters():
        torch.nn.init.normal_(parameter, std=0.5 if "vision_encoder" in key else 0.2)
    for key, buffer in trained.named_buffers():
        if key.endswith("expert_bias_E") and hasattr(config.get_text_config(), "n_routed_experts"):  # others are not published
            torch.nn.init.normal_(buffer, std=0.05)
    config.save_pretrained(scratch)
    dcp.save(trained.state_dict(), checkpoint_id=scratch / "ckpt", no_dist=True)
    dcpctl("consolidate", scratch / "ckpt", scratch / "out", "--map", "auto", "--assets", scratch, "--max-shard-size", "1GB")
    return kind.from_pretrained(scratch / "out").eval()


def same_logits(name, loaded, trained, tokens, ours={}, theirs={}):
    with torch.no_grad(), unittest.mock.patch.object(torch.Tensor, "bfloat16", lambda t: t):  # experts are multiplied in bfloat16 otherwise
        ours, theirs = loaded(tokens, **ours).logits, trained.eval()(tokens, **theirs)
    difference = (ours - theirs).abs().max().item()
    check(difference < 5e-5, f"{name}: the logits of the trainer's own model: {difference} of {theirs.abs().max().item()}")


def from_trainer(name, trained, more, scratch):
    same_logits(name, published_of(name, trained, more, scratch), trained, torch.arange(24).reshape(2, 12))


@torch.compiler.set_stance("force_eager")
def from_trainer_with_masks(name, trained, more, image, scratch):
    placeholder, positions = 79, torch.arange(24)[None]
    tokens = positions.clone()
    loaded = published_of(name, trained, {**more, "image_token_id": placeholder} if image else more, scratch)
    ours, theirs = {}, {"positions": positions, "attention_masks": trained.get_attention_masks(positions)}
    if image:
        form, as_published = image
        tokens[:, 5:9] = placeholder
        # Square: of other images, torchtitan's Muse Glimmer takes the position embeddings column by column.
        patches, grid = torch.rand(16, *form), torch.tensor([[1, 4, 4]])
        ours |= {"pixel_values": as_published(patches), "image_grid_thw": grid}
        theirs |= {"pixel_values": patches.flatten(1)[None], "grid_thw": grid, "special_tokens": {"image_id": placeholder, "video_id": placeholder}}
        if hasattr(loaded.model, "get_rope_index"):  # positions of three axes, which torchtitan takes from its data
            ours["position_ids"], _ = loaded.model.get_rope_index(tokens, (tokens == placeholder).int(), image_grid_thw=grid)
            theirs["mrope_positions"] = ours["position_ids"].permute(1, 2, 0)
    same_logits(name, loaded, trained, tokens, ours, theirs)


MEGATRON = {  # name: how its layers are held
    "llama": ("numbered", "stacked"), "llama_tied": ("stacked",), "mistral": ("stacked",), "qwen2": ("numbered", "stacked"), "qwen2_tied": ("numbered",),
    "qwen3": ("numbered", "stacked"), "qwen3_moe": ("numbered", "stacked"), "qwen3_moe_mixed": ("numbered",), "mixtral": ("numbered", "stacked"),
    "deepseek_v3": ("numbered",), "deepseek_v3_one_rank": ("numbered",), "smollm3": ("numbered", "stacked"),
}  # fmt: skip


def from_megatron(name, scratch):
    model = made(name)
    model.save_pretrained(scratch / "hf")
    hf = published(scratch / "hf")
    for layers in MEGATRON[name]:
        trained = megatron_state(hf, model.config, pad=16, stacked=layers == "stacked")
        dcp.save(trained, checkpoint_id=scratch / layers, no_dist=True)
        out, back = scratch / f"{layers}.safetensors", scratch / f"{layers}-back"
        dcpctl("consolidate", scratch / layers, out, "--map", "auto", "--config", scratch / "hf/config.json")
        check(facts(load_file(out)) == facts(hf), f"{name}, {layers}: what is published")
        choice = ["--set", f"layers={layers}"] if len(MEGATRON[name]) > 1 or layers == "numbered" and "deepseek" not in name else []
        dcpctl("convert", scratch / "hf", back, "--map", f"{model.config.model_type}.megatron", "--set", "pad=16", "--world-size", "3", *choice)
        check(facts(dcp_state(back)) == facts(trained), f"{name}, {layers}: what the trainer loads")
        without_biases(f"{name}, {layers}", scratch / layers, model, scratch)


cases = [(from_memory, n) for n in IN_MEMORY] if WHAT == "transformers" else [(from_adapter, n) for n in ADAPTERS]
if WHAT == "megatron":
    cases = [(from_megatron, n) for n in MEGATRON]
if WHAT == "torchtitan":
    stand_in_for_fla()
    cases += [(from_trainer, *one) for one in trainer_models()] + [(from_trainer_with_masks, *one) for one in models_with_masks()]
for run, *case in cases:
    if ONLY and case[0] not in ONLY:
        continue
    with tempfile.TemporaryDirectory() as folder:
        run(*case, Path(folder))
finish()
