"""Tiny models of transformers, and the elements that they publish: each in memory gets a number of its own, so that what save_pretrained writes
shows where each has gone. Importing it exits with 77 (skipped) where transformers is not installed."""
import hashlib
import importlib.util
import re
import subprocess
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
sys.path.append(str(Path(__file__).resolve().parent.parent.parent / ".venv-maps"))  # ./dev test makes it
if importlib.util.find_spec("transformers") is None:
    print("skipped: transformers not installed")
    sys.exit(77)

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch.distributed.checkpoint.format_utils import _EmptyStateDictLoadPlanner  # noqa: E402
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict  # noqa: E402
from transformers.conversion_mapping import _MODEL_TO_CONVERSION_PATTERN, _build_checkpoint_conversion_mapping  # noqa: E402
from transformers.core_model_loading import revert_weight_conversion  # noqa: E402
from transformers.models.auto import modeling_auto as auto  # noqa: E402

from case import check  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
# Sizes of tiny models; no two of those that may meet in one tensor are the same, and there are layers enough for each of their kinds.
TINY = {"vocab_size": 80, "hidden_size": 32, "d_model": 32, "intermediate_size": 48, "ffn_dim": 48, "num_hidden_layers": 9, "num_layers": 9, "n_layer": 9,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "moe_intermediate_size": 20, "expert_ffn_hidden_size": 20,
        "shared_expert_intermediate_size": 24, "num_experts": 5, "num_local_experts": 5, "n_routed_experts": 5, "moe_num_experts": 5,
        "num_experts_per_tok": 2, "moe_topk": 2, "moe_k": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 12,
        "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1, "max_position_embeddings": 64, "pad_token_id": 0,
        "depth": 2, "num_heads": 2, "patch_size": 2, "image_size": 8, "embed_dim": 16, "out_hidden_size": 32, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16, "num_position_embeddings": 16, "spatial_merge_size": 1,
        "index_n_heads": 2, "index_head_dim": 8, "num_nextn_predict_layers": 0, "encoder_layers": 2, "decoder_layers": 3, "bos_token_id": 1,
        "eos_token_id": 2, "image_token_id": 3, "video_token_id": 4, "tie_word_embeddings": False, "mlp_only_layers": [], "layer_types": None,
        "fullatt_block_indexes": [1], "deepstack_visual_indexes": [0], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_expand": 2, "mamba_d_state": 16,
        "shared_intermediate_size": 24, "num_dense_layers": 1, "moe_num_shared_experts": 1, "moe_layer_start_index": 1, "image_token_index": 3,
        "vision_feature_layer": -1, "projection_dim": 16, "text_hidden_size": 32}  # fmt: skip
VISION = {"num_hidden_layers": 2, "num_layers": 2, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 2,
          "head_dim": 8, "d_model": 16}  # fmt: skip
CLASSES = {"shieldgemma2": "ShieldGemma2ForImageClassification", "qwen3_5": "Qwen3_5ForConditionalGeneration",
           "qwen3_5_moe": "Qwen3_5MoeForConditionalGeneration"}  # where the first that transformers lists is not the published one


class LeftOut(Exception):
    pass


def tiny(config_class, more, is_vision=False):
    """Arguments for a tiny configuration: what it has of TINY, and the same of configurations in it."""
    default = config_class()
    known = default.to_dict()
    wanted = {**TINY, **(VISION if is_vision else {}), **more}
    arguments = {k: v for k, v in wanted.items() if k in known or getattr(default, k, None) is not None}
    if "layer_types" not in getattr(config_class, "__dataclass_fields__", {}):
        arguments.pop("layer_types", None)  # made of other arguments
    for name, inner in getattr(config_class, "sub_configs", {}).items():
        inner = type(getattr(default, name)) if getattr(default, name, None) is not None else inner
        if inner is not transformers.AutoConfig:
            arguments[name] = tiny(inner, more, is_vision or not re.search("text|llm|language", name)) | {"model_type": inner.model_type}
    return arguments


def configured(model_type, more, at={}):
    """A tiny configuration, with other values at some paths."""
    config_class = transformers.CONFIG_MAPPING[model_type]
    arguments = tiny(config_class, more)
    base = config_class(**arguments) if at else None
    for path, value in at.items():
        *above, key = path.split(".")
        inner, config = arguments, base
        for name in above:
            inner, config = inner.setdefault(name, {}), getattr(config, name)
        for other in [a for a, b in config.attribute_map.items() if b == key]:  # other names of it
            inner.pop(other, None)
        inner[key] = value
    return config_class(**arguments)


def class_for(config):
    if config.model_type in CLASSES:
        return getattr(transformers, CLASSES[config.model_type])
    for tasks in (auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, auto.MODEL_FOR_PRETRAINING_MAPPING, auto.MODEL_MAPPING):
        if type(config) in tasks:
            model_class = tasks[type(config)]
            return model_class[0] if isinstance(model_class, tuple) else model_class
    raise LeftOut("no model of its own")


def shapes_of(config):
    """Of what it has in memory."""
    with torch.device("meta"):
        return {k: tuple(t.shape) for k, t in class_for(config)(config).state_dict().items()}


def built(model_type, more, at={}):
    config = configured(model_type, more, at)
    size = sum(torch.Size(shape).numel() for shape in shapes_of(config).values())
    if size > 12e6:
        raise LeftOut(f"a tiny one still has {size} elements")
    return class_for(config)(config)


def leaves(config, at=""):
    """{path: value} of what a configuration says, and of those in it."""
    found = {}
    for key, value in config.items():
        found.update(leaves(value, f"{at}{key}.") if isinstance(value, dict) and key.endswith("config") else {at + key: value})
    return found


def held(model_class, config, dtype):
    """The model that from_pretrained(dtype=...) makes, what it holds in memory, and what it would publish: without elements."""
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        with torch.device("meta"):
            model = model_class(config)
    finally:
        torch.set_default_dtype(default)
    plan = model._get_dtype_plan(dtype)
    pieces = re.compile("|".join(p.replace("*", ".*") for p in plan) or "^$")
    memory = {k: torch.empty_like(t, dtype=torch.float32 if pieces.search(k) else t.dtype, device="meta") for k, t in model.state_dict().items() if t.is_floating_point()}
    return model, memory, revert_weight_conversion(model, dict(memory))


def keep_lines(model):
    """What a map says of the tensors that are loaded in float32 whatever is asked for: transformers' lists, and parameters made so."""
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("meta"):
            wide = [k for k, t in type(model)(model.config).state_dict().items() if t.dtype == torch.float32]
    finally:
        torch.set_default_dtype(default)
    always, only_half = set(model._keep_in_fp32_modules_strict), set(model._keep_in_fp32_modules)
    always |= {re.split(r"\.\d+\.", k)[-1] for k in wide if not any(piece in k for piece in always)}
    lines = [f"keep   {' '.join(sorted(always))}"] if always else []
    return lines + ([f"keep   {' '.join(sorted(only_half - always))} for float16"] if only_half - always else [])


def facts(state):
    """Dtype, shape and digest of each tensor."""
    bits = lambda t: hashlib.sha256(t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()
    return {k: (str(t.dtype), tuple(t.shape), bits(t)) for k, t in state.items()}


def published(folder):
    state = {}
    for file in sorted(folder.glob("*.safetensors")):
        state.update(load_file(file))
    return state


def dcp_state(folder, root=""):
    state = {}
    _load_state_dict(state, storage_reader=dcp.FileSystemReader(folder), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state[root] if root else state


def as_loaded(dcpctl, kind, scratch):
    """What is cast is what from_pretrained(dtype=...) holds in memory, and would publish: of scratch/hf, and of scratch/ckpt without a map."""
    for short, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        loaded = kind.from_pretrained(scratch / "hf", dtype=dtype)
        loaded.save_pretrained(scratch / f"hf-{short}")
        out, own = scratch / f"out-{short}", scratch / f"own-{short}"
        run = lambda *words: subprocess.run([dcpctl, *map(str, words), "--dtype", short, "-q"], capture_output=True, text=True)
        made = run("consolidate", scratch / "ckpt", out, "--model-only", "--map", "auto", "--assets", scratch / "hf", "--max-shard-size", "1GB")
        ours, theirs = (sorted(facts(published(folder)).values()) for folder in (out, scratch / f"hf-{short}"))
        check(made.returncode == 0 and ours == theirs, f"{kind.__name__}: {short}, published {made}")  # a loaded ShieldGemma has other names
        made = run("cast", scratch / "ckpt", own, "--config", scratch / "hf/config.json")
        check(made.returncode == 0 and facts(dcp_state(own, "model")) == facts(loaded.state_dict()), f"{kind.__name__}: {short}, in memory {made}")


def numbered(model):
    """Each element of the state dict gets a number of its own; what is tied has the same."""
    next_number, state = 1, model.state_dict()
    for key, t in state.items():
        if not t.is_floating_point():
            continue
        t.data.copy_(torch.arange(next_number, next_number + t.numel(), dtype=torch.float64).reshape(t.shape))
        next_number += t.numel()
    return {k: v.clone() for k, v in model.state_dict().items() if v.is_floating_point()}


def where(numbers, of):
    """The box of `of` that the tensor is: (offsets, extents, dims of the tensor in the order of those of `of`), or None."""
    start = int(of.flatten()[0])
    flat = numbers.to(torch.int64).flatten() - start
    if flat.min() < 0 or flat.max() >= of.numel():
        return None
    at = torch.stack(torch.unravel_index(flat, of.shape)) if of.dim() else torch.zeros(0, 1)
    at = at.reshape(of.dim(), *numbers.shape)
    offsets = [int(a.min()) for a in at]
    extents = [int(a.max()) - o + 1 for a, o in zip(at, offsets)]
    order = []
    for d, extent in enumerate(extents):
        if extent == 1:
            continue
        along = [j for j in range(numbers.dim()) if numbers.shape[j] > 1 and not torch.equal(at[d].narrow(j, 0, 1), at[d].narrow(j, 1, 1))]
        if len(along) != 1 or numbers.shape[along[0]] != extent:
            return None
        order.append((d, along[0]))
    if torch.Size([numbers.shape[j] for _, j in order]).numel() != numbers.numel():
        return None
    expected = torch.stack([torch.full(numbers.shape, o) for o in offsets]) if offsets else at
    for d, j in order:
        expected[d] += torch.arange(extents[d]).reshape([-1 if k == j else 1 for k in range(numbers.dim())])
    return (offsets, extents, order) if torch.equal(expected, at.to(expected.dtype)) else None


def families():
    """Entries of conversion_mapping, and the type of model of each; those by class among them."""
    by_class = {}
    for names in (auto.MODEL_MAPPING_NAMES, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES):
        for model_type, classes in names.items():
            for one in classes if isinstance(classes, tuple) else (classes,):
                by_class.setdefault(one, model_type)
    entries = [*_build_checkpoint_conversion_mapping(), *_MODEL_TO_CONVERSION_PATTERN]
    return {e: e if e in transformers.CONFIG_MAPPING else by_class.get(e) for e in entries}


MADE_BY = "made by tests/torch/map_texts.py"


def made_maps(folder):
    return [f for f in folder.glob("*.map") if MADE_BY in f.read_text()]


def families_of(text):
    """The types of models that a map is for."""
    return {w for line in text.splitlines() if line.startswith("family ") for w in line.split()[1:]}
