#!/usr/bin/env python3
"""Maps of Megatron-Core against what it builds and saves itself: tiny models on a CPU, saved by its own torch_dist saver.

    megatron_core.py DCPCTL [MODEL...]

Each is published, loaded by transformers without a stray key, and gives the logits of Megatron's own model; what comes back is what was saved,
bit for bit, and Megatron loads it. Exits 77 (skipped) where megatron-core or transformers is not installed.
"""
import contextlib
import copy
import functools
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest.mock
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
os.environ["TORCHDYNAMO_DISABLE"] = "1"  # it would compile activations, which takes Python's headers and longer than the tests
sys.path.append(str(Path(__file__).resolve().parent.parent.parent / ".venv-maps"))  # ./dev test makes it

SMALL = {"vocab_size": 80, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
         "pad_token_id": 0, "rms_norm_eps": 1e-6}  # fmt: skip
EXPERTS = {**SMALL, "head_dim": 16, "num_experts": 5, "moe_intermediate_size": 20, "num_experts_per_tok": 2, "norm_topk_prob": True}
DEEPSEEK = {**SMALL, "num_key_value_heads": 4, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 20,
            "num_experts_per_tok": 2, "q_lora_rank": 16, "kv_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
            "first_k_dense_replace": 1, "routed_scaling_factor": 1.0, "rope_interleave": True}  # fmt: skip
MODELS = {  # name: transformers' class, its sizes
    "llama": ("Llama", SMALL),
    "llama_tied": ("Llama", {**SMALL, "tie_word_embeddings": True}),
    "mistral": ("Mistral", {**SMALL, "head_dim": 12, "sliding_window": None}),
    "qwen2": ("Qwen2", SMALL),
    "smollm3": ("SmolLM3", {**SMALL, "no_rope_layer_interval": 2}),
    "qwen3": ("Qwen3", {**SMALL, "head_dim": 16}),
    "phi3": ("Phi3", {**SMALL, "sliding_window": None}),
    "qwen3_moe": ("Qwen3Moe", EXPERTS),
    "qwen2_moe": ("Qwen2Moe", {**EXPERTS, "head_dim": 8, "shared_expert_intermediate_size": 24}),
    "glm4_moe": ("Glm4Moe", {**DEEPSEEK, "num_key_value_heads": 2, "head_dim": 8, "use_qk_norm": True, "attention_bias": True,
                             "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}),
    "mixtral": ("Mixtral", {**SMALL, "num_local_experts": 3, "sliding_window": None}),
    "deepseek_v3": ("DeepseekV3", DEEPSEEK),
    "gpt_oss": ("GptOss", {**SMALL, "head_dim": 8, "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 64,
                           "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
}
MODELS["qwen3_next"] = ("Qwen3Next", {**SMALL, "head_dim": 16, "num_experts": 0, "layer_types": ["full_attention"] * 3,  # its attention that has gates
                                      "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}})  # fmt: skip
PADDED = 96  # rows of the vocabulary as Megatron holds it


# What layers of Megatron's own name otherwise than those with Transformer Engine, whose names the maps write.
EXPERT_NORM = ("mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm.")
GLM_NORMS = tuple((f"layers.{n}.mlp.linear_fc1.layer_norm_", f"layers.{n}.pre_mlp_layernorm.") for n in (1, 2))  # those before experts
ENGINES = {"qwen3_moe": (EXPERT_NORM,), "qwen2_moe": (EXPERT_NORM,), "glm4_moe": GLM_NORMS, "mixtral": (EXPERT_NORM,), "gpt_oss": (EXPERT_NORM,),
           "deepseek_v3": ((".q_layernorm.", ".linear_q_up_proj.layer_norm_"), (".kv_layernorm.", ".linear_kv_up_proj.layer_norm_"),
                           ("layers.0.pre_mlp_layernorm.", "layers.0.mlp.linear_fc1.layer_norm_"))}  # fmt: skip


def map_of(name, c, scratch):
    """The built-in one. For attention with output gates there is none, since the norm of Qwen3-Next's recurrent layers is another in Megatron (less
    one): of its other layers it is Qwen3's, with the gate of each head behind its query."""
    if name != "qwen3_next":
        return f"{c.model_type}.megatron"
    text = (Path(__file__).resolve().parents[2] / "src/maps/builtin/qwen3.megatron.map").read_text()
    text = text.replace("family qwen3", "family qwen3_next").replace("(n (q + k + v))", "(n (m q + m b + k + v))").replace("[(n q) i]", "[(n m (q + b)) i]")
    own = scratch / "gated.map"
    own.write_text(text.replace("[(n q)]", "[(n m (q + b))]").replace("size   v = k", "size   v = k\nsize   m = num_attention_heads / n\nsize   q = k\nsize   b = k"))
    return own


def engine_key(name, key):
    return functools.reduce(lambda k, names: k.replace(*names), ENGINES.get(name, ()), key)


def trainer_config(c, **more):
    """Megatron's configuration of transformers' model `c`."""
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig
    import torch

    k, experts = c.model_type, getattr(c, "num_experts", None) or getattr(c, "num_local_experts", None) or getattr(c, "n_routed_experts", None)
    sizes = {"num_layers": c.num_hidden_layers, "hidden_size": c.hidden_size, "num_attention_heads": c.num_attention_heads,
             "num_query_groups": c.num_key_value_heads, "ffn_hidden_size": c.intermediate_size, "layernorm_epsilon": c.rms_norm_eps}  # fmt: skip
    plain = {"use_cpu_initialization": True, "gated_linear_unit": True, "activation_func": torch.nn.functional.silu, "add_bias_linear": k == "gpt_oss",
             "add_qkv_bias": k in ("qwen2", "qwen2_moe", "glm4_moe", "gpt_oss"), "normalization": "RMSNorm", "hidden_dropout": 0.0, "attention_dropout": 0.0,
             "bias_activation_fusion": False, "masked_softmax_fusion": False, "bias_dropout_fusion": False, "gradient_accumulation_fusion": False,
             "apply_rope_fusion": False, "qk_layernorm": k in ("qwen3", "qwen3_moe", "qwen3_next", "deepseek_v3", "glm4_moe"),
             "attention_output_gate": k == "qwen3_next", **more}  # fmt: skip
    if experts:
        plain |= {"num_moe_experts": experts, "moe_ffn_hidden_size": getattr(c, "moe_intermediate_size", None) or c.intermediate_size,
                  "moe_router_topk": c.num_experts_per_tok, "moe_router_load_balancing_type": "none", "moe_token_dispatcher_type": "allgather",
                  "moe_aux_loss_coeff": 0.0, "moe_permute_fusion": False}  # fmt: skip
    if k == "smollm3":
        plain |= {"no_rope_freq": [1 - has_rope for has_rope in c.no_rope_layers]}
    if k == "gpt_oss":
        from megatron.core.activations import quick_gelu

        plain |= {"softmax_type": "learnable", "activation_func": quick_gelu, "glu_linear_offset": 1.0, "activation_func_clamp_value": 7.0}
    if k == "qwen2_moe":
        plain |= {"moe_shared_expert_intermediate_size": c.shared_expert_intermediate_size, "moe_shared_expert_gate": True}
    if k in ("deepseek_v3", "glm4_moe"):
        plain |= {"moe_router_score_function": "sigmoid", "moe_router_enable_expert_bias": True, "moe_layer_freq": [0, 1, 1],
                  "moe_shared_expert_intermediate_size": c.moe_intermediate_size * c.n_shared_experts}  # fmt: skip
    if k != "deepseek_v3":
        return TransformerConfig(**sizes, **plain, kv_channels=getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads)
    return MLATransformerConfig(**sizes, **plain, q_lora_rank=c.q_lora_rank, kv_lora_rank=c.kv_lora_rank, qk_head_dim=c.qk_nope_head_dim,
                                qk_pos_emb_head_dim=c.qk_rope_head_dim, v_head_dim=c.v_head_dim, rope_type="rope", rotary_interleaved=False,
                                multi_latent_attention=True)  # fmt: skip


def trainer_model(c, **more):
    import torch
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec

    config = trainer_config(c, **more)
    if isinstance(getattr(config, "moe_layer_freq", 1), list):
        spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization="RMSNorm")
    else:
        spec = get_gpt_layer_local_spec(num_experts=config.num_moe_experts, qk_layernorm=config.qk_layernorm, normalization="RMSNorm")
    model = GPTModel(config, spec, vocab_size=PADDED, max_sequence_length=64, position_embedding_type="rope", rotary_base=c.rope_parameters["rope_theta"],
                     share_embeddings_and_output_weights=bool(c.tie_word_embeddings)).eval()  # fmt: skip
    torch.manual_seed(len(c.model_type))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            torch.nn.init.normal_(parameter, std=0.2)
            if "word_embeddings" in name or "output_layer" in name:
                parameter[c.vocab_size :] = 0
    return model


def dcpctl(*arguments):
    result = subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{arguments}: exit {result.returncode}\n{result.stdout}{result.stderr}")


def tensors_of(folder):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.format_utils import _EmptyStateDictLoadPlanner
    from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

    state = {}
    _load_state_dict(state, storage_reader=dcp.FileSystemReader(folder), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    flat = lambda d, at="": {k: v for n, x in d.items() for k, v in (flat(x, f"{at}{n}.") if isinstance(x, dict) else {at + str(n): x}).items()}
    return {k: v for k, v in flat(state).items() if isinstance(v, torch.Tensor)}


def run(name, scratch):
    import torch
    import transformers
    from case import check
    from megatron.core import dist_checkpointing

    family, sizes = MODELS[name]
    c = getattr(transformers, f"{family}Config")(**sizes)
    c.save_pretrained(scratch)
    model = trainer_model(c)
    (scratch / "ckpt").mkdir()
    dist_checkpointing.save(model.sharded_state_dict(), str(scratch / "ckpt"))
    used = "auto" if name != "qwen3_next" else map_of(name, c, scratch)
    dcpctl("consolidate", scratch / "ckpt", scratch / "out", "--map", used, "--assets", scratch, "--max-shard-size", "1GB")
    loaded, info = getattr(transformers, f"{family}ForCausalLM").from_pretrained(scratch / "out", output_loading_info=True, attn_implementation="eager")
    check(not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), f"{name}: every key is loaded, and no other: {info}")
    tokens, positions = torch.arange(24).reshape(2, 12), torch.arange(12).expand(2, 12)
    mask = torch.triu(torch.ones(12, 12, dtype=torch.bool), 1)[None, None]
    less_one = name == "qwen3_next"  # the weights of its norms, as Megatron's with zero-centered gamma, which torch's norm on a CPU is not
    norm = lambda n, x: torch.nn.functional.rms_norm(x, n.normalized_shape, n.weight + less_one, n.eps)
    with torch.no_grad(), unittest.mock.patch.object(torch.nn.RMSNorm, "forward", norm):
        ours, theirs = loaded.eval()(tokens).logits, model(tokens, positions, mask)[..., : c.vocab_size]
    difference = (ours - theirs).abs().max().item()
    check(difference < 1e-4, f"{name}: the logits of Megatron's own model: {difference} of {theirs.abs().max().item()}")

    comes_back(name, c, model, scratch)
    layout = {"singleton_local_shards": True}  # each expert, gate and up by themselves
    (scratch / "apart").mkdir()
    dist_checkpointing.save(model.sharded_state_dict(metadata=layout), str(scratch / "apart"))
    dcpctl("consolidate", scratch / "apart", scratch / "same", "--map", used, "--assets", scratch, "--max-shard-size", "1GB")
    for file in sorted((scratch / "out").iterdir()):
        check((scratch / "same" / file.name).read_bytes() == file.read_bytes(), f"{name}: {file.name} is published of experts apart")
    comes_back(name, c, model, scratch, "apart", layout)


def comes_back(name, c, model, scratch, folder="ckpt", layout=None):
    """The published model becomes again what Megatron has saved in `folder`, which it loads."""
    import torch
    from case import check
    from megatron.core import dist_checkpointing

    choice = ["--set", "layers=stacked"] if name not in ("deepseek_v3", "glm4_moe") else []
    if layout is not None:
        choice = ["--set", "glu=apart", *(["--set", "layers=numbered"] if choice else [])]
    out = scratch / f"{folder}-back"
    dcpctl("convert", scratch / "out", out, "--map", map_of(name, c, scratch), "--set", f"pad={PADDED - c.vocab_size}", "--world-size", "3", *choice)
    saved, back = {engine_key(name, k): v for k, v in tensors_of(scratch / folder).items()}, tensors_of(out)
    check(sorted(saved) == sorted(back), f"{name}: keys of {folder} that come back: {sorted(set(saved) ^ set(back))}")
    for key in saved.keys() & back.keys():
        check(torch.equal(saved[key], back[key]), f"{name}: {key} of {folder} comes back")
    for file in ("common.pt", "metadata.json"):  # Megatron's own, beside the tensors
        (out / file).write_bytes((scratch / folder / file).read_bytes())
    wanted = {k: v for k, v in trainer_model(c).sharded_state_dict(metadata=layout).items() if not k.endswith("_extra_state")}
    for tensor in wanted.values():
        tensor.key = engine_key(name, tensor.key)
    own = model.state_dict()
    for key, tensor in dist_checkpointing.load(wanted, str(out)).items():
        if isinstance(tensor, torch.Tensor) and key in own:
            check(torch.equal(tensor, own[key]), f"{name}: Megatron loads {key} of {folder}")


def optimizer_of(model, inner):
    """Megatron's own around a torch optimizer."""
    import torch
    from megatron.core.optimizer.optimizer import FP32Optimizer
    from megatron.core.optimizer.optimizer_config import OptimizerConfig
    from torchtitan.components.optimizer.utils import init_optim_state

    tensor = torch.tensor  # of its scale it makes one on a GPU
    with unittest.mock.patch.object(torch, "tensor", lambda *args, device=None, **kwargs: tensor(*args, **kwargs)):
        return FP32Optimizer(inner, OptimizerConfig(optimizer="adam", lr=1e-2), lambda *_: init_optim_state(inner))


def with_optimizer(name, scratch):
    """The state of Megatron's own optimizer, saved by parameter, goes with its model to the published names and back."""
    import torch
    import transformers
    from case import check
    from megatron.core import dist_checkpointing

    family, sizes = MODELS[name]
    c = getattr(transformers, f"{family}Config")(**sizes)
    c.save_pretrained(scratch)
    model = trainer_model(c)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    inner.step()
    optimizer = optimizer_of(model, inner)
    state = {**model.sharded_state_dict()}
    (scratch / "run").mkdir()
    dist_checkpointing.save({**state, "optimizer": optimizer.sharded_state_dict(state)}, str(scratch / "run"))
    choice = ("--set", f"pad={PADDED - c.vocab_size}", "--set", "layers=stacked", "--config", scratch / "config.json")
    dcpctl("reshard", scratch / "run", scratch / "published", "--world-size", 2, "--map", f"{c.model_type}.megatron", *choice[-2:])
    published, query = tensors_of(scratch / "published"), "layers.0.self_attn.q_proj.weight"
    check(f"optimizer.state.model.{query}.exp_avg" in published and f"model.{query}" in published, f"{name}: names of published state: {sorted(published)[:3]}")
    dcpctl("reshard", scratch / "published", scratch / "home", "--world-size", 2, "--map", f"{c.model_type}.megatron", *choice)
    saved, back = {engine_key(name, k): v for k, v in tensors_of(scratch / "run").items()}, tensors_of(scratch / "home")
    check(sorted(saved) == sorted(back), f"{name}: keys of a run that come back: {sorted(set(saved) ^ set(back))[:6]}")
    for key in saved.keys() & back.keys():
        padded = key.endswith(("word_embeddings.weight", "output_layer.weight"))
        rows = slice(0, c.vocab_size if padded else None)
        check(torch.equal(saved[key][rows], back[key][rows]), f"{name}: {key} of a run comes back")


def from_trainer_to_trainer(name, scratch):
    """A run of torchtitan goes on in Megatron as torchtitan goes on with it, and the other way round."""
    import torch
    import torch.distributed.checkpoint as dcp
    import transformers
    from megatron.core import dist_checkpointing
    from titan_models import trainer_models
    from training import Run, Titan, in_double, trains_on

    class Megatron(Run):
        def __init__(self, model):
            super().__init__(model)
            for group in self.optimizer.param_groups:  # by which Megatron knows them
                group |= {"wd_mult": float(group["weight_decay"] > 0), "lr_mult": 1.0, "is_expert_parallel": False, "is_decoupled_lr": False}

        def logits(self, tokens):
            length = tokens.shape[1]
            mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)[None, None]
            return self.model(tokens, torch.arange(length).expand(tokens.shape), mask)[..., : c.vocab_size]

        def state(self, is_loading=False):
            wanted = {k: v for k, v in self.model.sharded_state_dict().items() if not k.endswith("_extra_state")}
            for tensor in wanted.values():
                tensor.key = engine_key(name, tensor.key)
            return {**wanted, "optimizer": optimizer_of(self.model, self.optimizer).sharded_state_dict(wanted, is_loading)}

        def load(self, folder):
            state = dist_checkpointing.load(self.state(is_loading=True), str(folder))
            optimizer_of(self.model, self.optimizer).load_state_dict(state.pop("optimizer"))
            self.model.load_state_dict(state, strict=False)

    family, sizes = MODELS[name]
    torch.set_default_dtype(torch.float64)
    with in_double():
        titan_model, more = next((model, more) for model_name, model, more in trainer_models() if model_name == name)
        c = getattr(transformers, f"{family}Config")(**{**sizes, **more})
        c.save_pretrained(scratch)
        megatron = Megatron(trainer_model(c, params_dtype=torch.float64))
    torch.manual_seed(1)
    for parameter in titan_model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    titan, again = Titan(titan_model), Titan(copy.deepcopy(titan_model))
    titan.train(3, seed=2)
    dcp.save(titan.state(), checkpoint_id=scratch / "titan", no_dist=True)
    moved, back = scratch / "moved", scratch / "back"
    options = ("--set", f"pad={PADDED - c.vocab_size}", "--set", "layers=stacked", "--config", scratch / "config.json", "--world-size", 2)
    # Megatron has one step and one lr for all, in its own file, which a run of its own of as many steps has.
    dcpctl("reshard", scratch / "titan", moved, "--map", f"{name}.torchtitan", "--to-map", f"{name}.megatron", "--unmapped", "drop", *options)
    megatron.train(3, seed=9)
    (scratch / "own").mkdir()
    dist_checkpointing.save(megatron.state(), str(scratch / "own"))
    for file in ("common.pt", "metadata.json"):
        (moved / file).write_bytes((scratch / "own" / file).read_bytes())
    megatron.load(moved)
    trains_on(f"{name}: Megatron trains on as torchtitan does", megatron, titan.train(4, 3), 3)

    (scratch / "later").mkdir()
    dist_checkpointing.save(megatron.state(), str(scratch / "later"))
    dcpctl("reshard", scratch / "later", back, "--map", f"{name}.megatron", "--to-map", f"{name}.torchtitan", *options[-4:])
    again.load(back, steps=7)
    trains_on(f"{name}: torchtitan trains on as Megatron does", again, megatron.train(4, 4), 4)
    torch.set_default_dtype(torch.float32)


def main():
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    from case import finish

    torch.cuda.current_device = lambda: torch.device("cpu")  # it is made for GPUs
    torch.cuda.synchronize = lambda *_: None
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        from megatron.core import parallel_state
        from megatron.core.tensor_parallel import random
        from megatron.core.transformer import multi_latent_attention
        from megatron.core.transformer.dot_product_attention import DotProductAttention
        from megatron.core.transformer.moe import moe_utils

        parallel_state.initialize_model_parallel()
        random.CudaRNGStatesTracker.fork = lambda *_: contextlib.nullcontext()
        init = DotProductAttention.__init__  # latent attention gives its own sizes, which only Transformer Engine's takes
        DotProductAttention.__init__ = lambda self, *args, k_channels=None, v_channels=None, **kwargs: init(self, *args, **kwargs)
        moe_utils.te_general_gemm = None  # both are asked for where Transformer Engine is not installed
        multi_latent_attention.TELinear = type("TELinear", (), {})
        for name in MODELS:
            if not ONLY or name in ONLY:
                with tempfile.TemporaryDirectory() as scratch:
                    run(name, Path(scratch))
                if name in ("llama", "qwen3_moe"):
                    with tempfile.TemporaryDirectory() as scratch:
                        from_trainer_to_trainer(name, Path(scratch))
                    with tempfile.TemporaryDirectory() as scratch:
                        with_optimizer(name, Path(scratch))
        torch.distributed.destroy_process_group()
    finish()


if __name__ == "__main__":  # its saver starts processes that import this file
    DCPCTL, ONLY = Path(sys.argv[1]), sys.argv[2:]
    if missing := [p for p in ("transformers", "megatron") if importlib.util.find_spec(p) is None]:
        print(f"skipped: {', '.join(missing)} not installed")
        sys.exit(77)
    main()
