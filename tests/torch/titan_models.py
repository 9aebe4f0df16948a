"""Torchtitan's own models, tiny, as they run on a CPU."""
import sys
import types
from functools import partial

FORM = {"n_layers": 3, "dim": 32, "n_heads": 4, "attn_backend": "flex"}
HEADS = {"n_kv_heads": 2, "head_dim": 16}
EXPERTS = {"moe_hidden_dim": 20, "moe_comm_backend": "standard"}
DEEPSEEK = {**EXPERTS, "n_dense_layers": 1, "q_lora_rank": 16, "kv_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
            "mscale": 1.0, "dense_hidden_dim": 48, "num_experts": 4, "num_shared_experts": 1, "router_top_k": 2, "router_score_func": "sigmoid",
            "router_route_norm": True, "non_blocking_capacity_factor": None}  # fmt: skip
AS_DEEPSEEK = {"rms_norm_eps": 1e-5, "n_shared_experts": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.0}
ROPE = {"max_seq_len": 64, "theta": 10000.0}


def built(kind, layers, norm, **more):
    from torchtitan.models.common import Embedding, Linear

    return kind.Config(dim=32, vocab_size=80, layers=layers, norm=norm, tok_embeddings=Embedding.Config(num_embeddings=80, embedding_dim=32),
                       lm_head=Linear.Config(in_features=32, out_features=80), **more).build()  # fmt: skip


def with_small_eps(layers):
    """transformers normalizes DeepSeek's low ranks with this eps, whatever rms_norm_eps is."""
    for layer in layers:
        layer.attention.q_norm.eps = layer.attention.kv_norm.eps = 1e-6
    return layers


def trainer_models():
    """Name, model, and what transformers' configuration of the same form has besides maps.py's."""
    import torchtitan.models.deepseek_v3 as deepseek
    import torchtitan.models.llama3 as llama
    import torchtitan.models.qwen3 as qwen
    from torchtitan.models.common import ComplexRoPE, CosSinRoPE, RMSNorm
    from torchtitan.models.common.attention import ScaledDotProductAttention

    def model(kind, layers, eps, **more):
        for layer in layers:  # what they are built with otherwise trains on a GPU
            layer.attention.inner_attention = ScaledDotProductAttention.Config()
        return built(kind, layers, RMSNorm.Config(normalized_shape=32, eps=eps), **more)

    layers = llama._build_llama3_layers(**FORM, n_kv_heads=2, hidden_dim=48, rope=ComplexRoPE.Config(dim=8, **ROPE))
    yield "llama", model(llama.Llama3Model, layers, 1e-5), {"rms_norm_eps": 1e-5}
    rope = CosSinRoPE.Config(dim=16, **ROPE)
    for name in ("qwen3", "qwen3_tied"):
        layers = qwen._build_qwen3_layers(**FORM, **HEADS, hidden_dim=48, rope=rope)
        yield name, model(qwen.Qwen3Model, layers, 1e-6, enable_weight_tying=name == "qwen3_tied"), {}
    layers = qwen._build_qwen3_moe_layers(**FORM, **HEADS, **EXPERTS, num_experts=5, top_k=2, rope=rope)
    yield "qwen3_moe", model(qwen.Qwen3Model, layers, 1e-6), {"norm_topk_prob": True}
    layers = with_small_eps(deepseek._build_dsv3_layers(**FORM, **DEEPSEEK, rope=ComplexRoPE.Config(dim=8, **ROPE)))
    yield "deepseek_v3", model(deepseek.DeepSeekV3Model, layers, 1e-5, mtp_layers=[]), AS_DEEPSEEK


def stand_in_for_fla():
    """What torchtitan's Qwen3.5 takes from flash-linear-attention, which needs a GPU: transformers' own in plain torch, for one text at a time."""
    import torch
    from transformers.models.qwen3_5.modeling_qwen3_5 import causal_conv1d_fn, torch_chunk_gated_delta_rule

    def causal_conv1d(x, weight, activation, **_):
        return causal_conv1d_fn(x.mT, weight, activation=activation).mT, None

    def chunk_gated_delta_rule(*values, use_qk_l2norm_in_kernel, **_):
        return torch_chunk_gated_delta_rule(*values, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel)

    class Unused(torch.autograd.Function):
        pass

    has = {"modules.conv.causal_conv1d": {"causal_conv1d": causal_conv1d}, "modules.conv.triton.ops": {"CausalConv1dFunction": Unused},
           "ops.gated_delta_rule": {"chunk_gated_delta_rule": chunk_gated_delta_rule, "fused_recurrent_gated_delta_rule": None},
           "ops.gated_delta_rule.chunk": {"ChunkGatedDeltaRuleFunction": Unused},
           "ops.gated_delta_rule.fused_recurrent": {"FusedRecurrentFunction": Unused}}  # fmt: skip
    sys.modules |= {f"fla.{name}": types.SimpleNamespace(**values) for name, values in has.items()}


def models_with_masks():
    """What trainer_models has, of models that attend by FlexAttention: on a CPU it does not train. And the shape of an image's patch in the trainer, with
    what transformers takes for such patches."""
    import torchtitan.models.gpt_oss as gpt
    import torchtitan.models.kimi_k2_7 as kimi
    import torchtitan.models.muse_glimmer as muse
    import torchtitan.models.qwen3_5 as qwen
    from torchtitan.distributed.utils import set_spmd_backend
    from torchtitan.models.common import ComplexRoPE, CosSinRoPE, RMSNorm
    from torchtitan.models.common.nn_modules import GELU

    set_spmd_backend("full_dtensor")  # the default asks for a mesh of ranks
    gpt._make_gptoss_attn_config = partial(gpt._make_gptoss_attn_config, n_heads=4, n_kv_heads=2, head_dim=8)
    yarn = {"scaling": "yarn", "rope_factor": 32, "truncate": False}
    layers = gpt._build_gptoss_layers(n_layers=3, dim=32, hidden_dim=48, num_experts=3, top_k=2, load_balance_coeff=1e-3, attn_backend="flex",
                                      moe_comm_backend="standard", rope=CosSinRoPE.Config(dim=8, max_seq_len=64, theta=150000.0, **yarn))  # fmt: skip
    yield "gpt_oss", built(gpt.GptOssModel, layers, RMSNorm.Config(normalized_shape=32)), {}, None

    recurrent = {"n_key_heads": 2, "n_value_heads": 4, "key_head_dim": 8, "value_head_dim": 8}
    form = {**FORM, **HEADS, **recurrent, "n_layers": 4, "rotary_dim": 8, "rope": qwen.MRoPE.Config(dim=8, mrope_section=[2, 1, 1], **ROPE)}
    images = qwen._qwen35_vision_encoder_config(dim=16, ffn_dim=24, num_layers=2, num_heads=2, patch_size=2, temporal_patch_size=2, spatial_merge_size=2,
                                                out_hidden_size=32, num_position_embeddings=16)  # fmt: skip
    images.merger.act_fn = GELU.Config()  # torchtitan approximates it by tanh, transformers does not
    dense = qwen._build_qwen35_layers(**form, hidden_dim=48)
    experts = qwen._build_qwen35_moe_layers(**form, **EXPERTS, num_experts=5, top_k=2, shared_expert_hidden_dim=24)
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}
    for name, layers in {"qwen3_5": dense, "qwen3_5_moe": experts}.items():
        model = built(qwen.Qwen35Model, layers, qwen._offset_norm(32), vision_encoder=images)
        yield name, model, {"text_config": {"rope_parameters": rope}}, ((3, 2, 2, 2), lambda patches: patches.flatten(1))

    images = muse.muse_glimmer_vision_encoder_config(latent_dim=16, num_layers=2, num_heads=2, mlp_ratio=1.5, pos_emb_grid_h=2, pos_emb_grid_w=2)
    model = muse._muse_glimmer_config(**FORM, **HEADS, vocab_size=80, max_seq_len=64, window_pattern=[8, 8, 8, 0], output_multiplier=0.5,
                                      vision_adapter_dim=20, vision_encoder=images,
                                      vision_adapter=muse.muse_glimmer_vision_adapter_config(input_dim=64, output_dim=20)).build()  # fmt: skip
    text = {"intermediate_size": 96, "qk_scale_factor": muse._SCALE_QUERY_NUMERATOR / 4, "sliding_window": 8, "output_multiplier": 0.5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}  # fmt: skip
    more = {"text_config": text, "vision_config": {"pos_emb_height": 2, "pos_emb_width": 2}, "out_hidden_size": 64}
    yield "muse_glimmer", model, more, ((3, 2, 14, 14), lambda patches: patches.transpose(1, 2).flatten(1))

    layers = with_small_eps(kimi._build_kimi_layers(**FORM, **DEEPSEEK, rope=ComplexRoPE.Config(dim=8, **ROPE)))
    images = kimi._vision_encoder_config(dim=8, ffn_dim=12, num_layers=2, num_heads=2, patch_size=2, init_pos_emb_height=4, init_pos_emb_width=4,
                                         text_hidden_size=32)  # fmt: skip
    model = built(kimi.KimiK25Model, layers, RMSNorm.Config(normalized_shape=32), mtp_layers=[], vision_encoder=images)
    yield "kimi_k25", model, {"text_config": AS_DEEPSEEK}, ((3, 1, 2, 2), lambda patches: patches.squeeze(2))
