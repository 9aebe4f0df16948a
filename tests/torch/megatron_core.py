#!/usr/bin/env python3
"""Maps of Megatron-Core against what it builds and saves itself: tiny models on a CPU, saved by its own torch_dist saver.

    megatron_core.py DCPCTL [MODEL...]

Each is published, loaded by transformers without a stray key, and gives the logits of Megatron's own model; what comes back is what was saved,
bit for bit, and Megatron loads it. Exits 77 (skipped) where megatron-core or transformers is not installed.
"""
import contextlib
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
    "qwen3": ("Qwen3", {**SMALL, "head_dim": 16}),
    "qwen3_moe": ("Qwen3Moe", EXPERTS),
    "mixtral": ("Mixtral", {**SMALL, "num_local_experts": 3, "sliding_window": None}),
    "deepseek_v3": ("DeepseekV3", DEEPSEEK),
    "gpt_oss": ("GptOss", {**SMALL, "head_dim": 8, "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 64,
                           "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
}
PADDED = 96  # rows of the vocabulary as Megatron holds it


# What layers of Megatron's own name otherwise than those with Transformer Engine, whose names the maps write.
EXPERT_NORM = ("mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm.")
ENGINES = {"qwen3_moe": (EXPERT_NORM,), "mixtral": (EXPERT_NORM,), "gpt_oss": (EXPERT_NORM,),
           "deepseek_v3": ((".q_layernorm.", ".linear_q_up_proj.layer_norm_"), (".kv_layernorm.", ".linear_kv_up_proj.layer_norm_"),
                           ("layers.0.pre_mlp_layernorm.", "layers.0.mlp.linear_fc1.layer_norm_"))}  # fmt: skip


def trainer_config(c):
    """Megatron's configuration of transformers' model `c`."""
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig
    import torch

    k, experts = c.model_type, getattr(c, "num_experts", None) or getattr(c, "num_local_experts", None) or getattr(c, "n_routed_experts", None)
    sizes = {"num_layers": c.num_hidden_layers, "hidden_size": c.hidden_size, "num_attention_heads": c.num_attention_heads,
             "num_query_groups": c.num_key_value_heads, "ffn_hidden_size": c.intermediate_size, "layernorm_epsilon": c.rms_norm_eps}  # fmt: skip
    plain = {"use_cpu_initialization": True, "gated_linear_unit": True, "activation_func": torch.nn.functional.silu, "add_bias_linear": k == "gpt_oss",
             "add_qkv_bias": k in ("qwen2", "gpt_oss"), "normalization": "RMSNorm", "hidden_dropout": 0.0, "attention_dropout": 0.0,
             "bias_activation_fusion": False, "masked_softmax_fusion": False, "bias_dropout_fusion": False, "gradient_accumulation_fusion": False,
             "apply_rope_fusion": False, "qk_layernorm": k in ("qwen3", "qwen3_moe", "deepseek_v3")}  # fmt: skip
    if experts:
        plain |= {"num_moe_experts": experts, "moe_ffn_hidden_size": getattr(c, "moe_intermediate_size", None) or c.intermediate_size,
                  "moe_router_topk": c.num_experts_per_tok, "moe_router_load_balancing_type": "none", "moe_token_dispatcher_type": "allgather",
                  "moe_aux_loss_coeff": 0.0, "moe_permute_fusion": False}  # fmt: skip
    if k == "gpt_oss":
        from megatron.core.activations import quick_gelu

        plain |= {"softmax_type": "learnable", "activation_func": quick_gelu, "glu_linear_offset": 1.0, "activation_func_clamp_value": 7.0}
    if k != "deepseek_v3":
        return TransformerConfig(**sizes, **plain, kv_channels=getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads)
    plain |= {"moe_router_score_function": "sigmoid", "moe_router_enable_expert_bias": True, "moe_layer_freq": [0, 1, 1],
              "moe_shared_expert_intermediate_size": c.moe_intermediate_size * c.n_shared_experts}  # fmt: skip
    return MLATransformerConfig(**sizes, **plain, q_lora_rank=c.q_lora_rank, kv_lora_rank=c.kv_lora_rank, qk_head_dim=c.qk_nope_head_dim,
                                qk_pos_emb_head_dim=c.qk_rope_head_dim, v_head_dim=c.v_head_dim, rope_type="rope", rotary_interleaved=False,
                                multi_latent_attention=True)  # fmt: skip


def trainer_model(c):
    import torch
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec

    config = trainer_config(c)
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
    dcpctl("consolidate", scratch / "ckpt", scratch / "out", "--map", "auto", "--assets", scratch, "--max-shard-size", "1GB")
    loaded, info = getattr(transformers, f"{family}ForCausalLM").from_pretrained(scratch / "out", output_loading_info=True, attn_implementation="eager")
    check(not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), f"{name}: every key is loaded, and no other: {info}")
    tokens, positions = torch.arange(24).reshape(2, 12), torch.arange(12).expand(2, 12)
    mask = torch.triu(torch.ones(12, 12, dtype=torch.bool), 1)[None, None]
    with torch.no_grad():
        ours, theirs = loaded.eval()(tokens).logits, model(tokens, positions, mask)[..., : c.vocab_size]
    difference = (ours - theirs).abs().max().item()
    check(difference < 1e-4, f"{name}: the logits of Megatron's own model: {difference} of {theirs.abs().max().item()}")

    choice = [] if name in ("deepseek_v3",) else ["--set", "layers=stacked"]
    dcpctl("convert", scratch / "out", scratch / "back", "--map", f"{c.model_type}.megatron", "--set", f"pad={PADDED - c.vocab_size}", "--world-size", "3", *choice)
    engines = lambda key: functools.reduce(lambda k, names: k.replace(*names), ENGINES.get(name, ()), key)
    saved, back = {engines(k): v for k, v in tensors_of(scratch / "ckpt").items()}, tensors_of(scratch / "back")
    check(sorted(saved) == sorted(back), f"{name}: keys that come back: {sorted(set(saved) ^ set(back))}")
    for key in saved.keys() & back.keys():
        check(torch.equal(saved[key], back[key]), f"{name}: {key} comes back")
    for file in ("common.pt", "metadata.json"):  # Megatron's own, beside the tensors
        (scratch / "back" / file).write_bytes((scratch / "ckpt" / file).read_bytes())
    wanted = {k: v for k, v in trainer_model(c).sharded_state_dict().items() if not k.endswith("_extra_state")}
    for tensor in wanted.values():
        tensor.key = engines(tensor.key)
    own = model.state_dict()
    for key, tensor in dist_checkpointing.load(wanted, str(scratch / "back")).items():
        if isinstance(tensor, torch.Tensor) and key in own:
            check(torch.equal(tensor, own[key]), f"{name}: Megatron loads {key}")


def with_optimizer(name, scratch):
    """The state of Megatron's own optimizer, saved by parameter, goes with its model to the published names and back."""
    import torch
    import transformers
    from case import check
    from megatron.core import dist_checkpointing
    from megatron.core.optimizer.optimizer import FP32Optimizer
    from megatron.core.optimizer.optimizer_config import OptimizerConfig

    family, sizes = MODELS[name]
    c = getattr(transformers, f"{family}Config")(**sizes)
    c.save_pretrained(scratch)
    model = trainer_model(c)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    inner.step()
    tensor = torch.tensor  # of its scale it makes one on a GPU
    with unittest.mock.patch.object(torch, "tensor", lambda *args, device=None, **kwargs: tensor(*args, **kwargs)):
        optimizer = FP32Optimizer(inner, OptimizerConfig(optimizer="adam", lr=1e-2), lambda *_: None)
    state = {**model.sharded_state_dict()}
    (scratch / "run").mkdir()
    dist_checkpointing.save({**state, "optimizer": optimizer.sharded_state_dict(state)}, str(scratch / "run"))
    choice = ("--set", f"pad={PADDED - c.vocab_size}", "--set", "layers=stacked", "--config", scratch / "config.json")
    dcpctl("reshard", scratch / "run", scratch / "published", "--world-size", 2, "--map", f"{c.model_type}.megatron", *choice[-2:])
    published, query = tensors_of(scratch / "published"), "layers.0.self_attn.q_proj.weight"
    check(f"optimizer.state.model.{query}.exp_avg" in published and f"model.{query}" in published, f"{name}: names of published state: {sorted(published)[:3]}")
    dcpctl("reshard", scratch / "published", scratch / "home", "--world-size", 2, "--map", f"{c.model_type}.megatron", *choice)
    engines = lambda key: functools.reduce(lambda k, names: k.replace(*names), ENGINES.get(name, ()), key)
    saved, back = {engines(k): v for k, v in tensors_of(scratch / "run").items()}, tensors_of(scratch / "home")
    check(sorted(saved) == sorted(back), f"{name}: keys of a run that come back: {sorted(set(saved) ^ set(back))[:6]}")
    for key in saved.keys() & back.keys():
        padded = key.endswith(("word_embeddings.weight", "output_layer.weight"))
        rows = slice(0, c.vocab_size if padded else None)
        check(torch.equal(saved[key][rows], back[key][rows]), f"{name}: {key} of a run comes back")


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
                        with_optimizer(name, Path(scratch))
        torch.distributed.destroy_process_group()
    finish()


if __name__ == "__main__":  # its saver starts processes that import this file
    DCPCTL, ONLY = Path(sys.argv[1]), sys.argv[2:]
    if missing := [p for p in ("transformers", "megatron") if importlib.util.find_spec(p) is None]:
        print(f"skipped: {', '.join(missing)} not installed")
        sys.exit(77)
    main()
