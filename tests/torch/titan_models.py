"""Torchtitan's own models, tiny, as they run on a CPU."""


def trainer_models():
    """Name, model, and what transformers' configuration of the same form has besides maps.py's."""
    import torchtitan.models.deepseek_v3 as deepseek
    import torchtitan.models.llama3 as llama
    import torchtitan.models.qwen3 as qwen
    from torchtitan.models.common import ComplexRoPE, CosSinRoPE, Embedding, Linear, RMSNorm
    from torchtitan.models.common.attention import ScaledDotProductAttention

    for module in (deepseek, llama, qwen):  # what they are built with otherwise runs on a GPU
        module.get_attention_config = lambda _: ScaledDotProductAttention.Config()

    def built(kind, layers, eps, **more):
        return kind.Config(dim=32, vocab_size=80, layers=layers, norm=RMSNorm.Config(normalized_shape=32, eps=eps), **more,
                           tok_embeddings=Embedding.Config(num_embeddings=80, embedding_dim=32), lm_head=Linear.Config(in_features=32, out_features=80)).build()  # fmt: skip

    shared = {"n_layers": 3, "dim": 32, "n_heads": 4, "attn_backend": ""}
    experts = {"moe_hidden_dim": 20, "moe_comm_backend": "standard"}
    rope = {"max_seq_len": 64, "theta": 10000.0}
    yield "llama", built(llama.Llama3Model, llama._build_llama3_layers(**shared, n_kv_heads=2, hidden_dim=48, rope=ComplexRoPE.Config(dim=8, **rope)), 1e-5), {"rms_norm_eps": 1e-5}  # fmt: skip
    layers = qwen._build_qwen3_moe_layers(**shared, **experts, n_kv_heads=2, head_dim=16, num_experts=5, top_k=2, rope=CosSinRoPE.Config(dim=16, **rope))
    yield "qwen3_moe", built(qwen.Qwen3Model, layers, 1e-6), {"norm_topk_prob": True}
    layers = deepseek._build_dsv3_layers(**shared, **experts, n_dense_layers=1, q_lora_rank=16, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=8,
                                         v_head_dim=8, mscale=1.0, dense_hidden_dim=48, num_experts=4, num_shared_experts=1, router_top_k=2,
                                         router_score_func="sigmoid", router_route_norm=True, non_blocking_capacity_factor=None,
                                         rope=ComplexRoPE.Config(dim=8, **rope))  # fmt: skip
    more = {"rms_norm_eps": 1e-5, "n_shared_experts": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.0}
    yield "deepseek_v3", built(deepseek.DeepSeekV3Model, layers, 1e-5, mtp_layers=[]), more
