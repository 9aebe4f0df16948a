"""A published model's tensors as Megatron-Core's torch_dist checkpoints hold them, written from its documentation and independently of the maps."""
import torch


def by_group(parts, groups):
    """Q, K and V of each group of heads, one group after the other."""
    split = [p.reshape(groups, -1, *p.shape[1:]) for p in parts]
    return torch.cat(split, dim=1).flatten(0, 1).contiguous()


def attention(hf, c):
    if "self_attn.kv_b_proj.weight" in hf:
        names = {"linear_q_down_proj.weight": "q_a_proj.weight", "linear_q_up_proj.layer_norm_weight": "q_a_layernorm.weight",
                 "linear_q_up_proj.weight": "q_b_proj.weight", "linear_q_proj.weight": "q_proj.weight", "linear_kv_down_proj.weight": "kv_a_proj_with_mqa.weight",
                 "linear_kv_up_proj.layer_norm_weight": "kv_a_layernorm.weight", "linear_kv_up_proj.weight": "kv_b_proj.weight"}  # fmt: skip
        made = {k: hf["self_attn." + v] for k, v in names.items() if "self_attn." + v in hf}
        norm = "input_layernorm.weight"
    else:
        made = {}
        for kind in ("weight", "bias"):
            if f"self_attn.q_proj.{kind}" in hf:
                made[f"linear_qkv.{kind}"] = by_group([hf[f"self_attn.{x}_proj.{kind}"] for x in "qkv"], c.num_key_value_heads)
        for x in "qk":
            if f"self_attn.{x}_norm.weight" in hf:
                made[f"{x}_layernorm.weight"] = hf[f"self_attn.{x}_norm.weight"]
        norm = "self_attention.linear_qkv.layer_norm_weight"
    made["linear_proj.weight"] = hf["self_attn.o_proj.weight"]
    return {norm: hf["input_layernorm.weight"], **{"self_attention." + k: v for k, v in made.items()}}


def mlp(hf):
    fused = lambda prefix, up="up_proj", gate="gate_proj": torch.cat([hf[f"{prefix}.{gate}.weight"], hf[f"{prefix}.{up}.weight"]])
    made, norm = {}, hf["post_attention_layernorm.weight"]
    prefix, gate, up, down = ("block_sparse_moe", "w1", "w3", "w2") if "block_sparse_moe.gate.weight" in hf else ("mlp", "gate_proj", "up_proj", "down_proj")
    if prefix + ".gate.weight" not in hf:
        return {"mlp.linear_fc1.layer_norm_weight": norm, "mlp.linear_fc1.weight": fused("mlp"), "mlp.linear_fc2.weight": hf["mlp.down_proj.weight"]}
    count = hf[prefix + ".gate.weight"].shape[0]
    made["pre_mlp_layernorm.weight"] = norm
    made["mlp.router.weight"] = hf[prefix + ".gate.weight"]
    made["mlp.experts.experts.linear_fc1.weight"] = torch.stack([fused(f"{prefix}.experts.{e}", up, gate) for e in range(count)])
    made["mlp.experts.experts.linear_fc2.weight"] = torch.stack([hf[f"{prefix}.experts.{e}.{down}.weight"] for e in range(count)])
    if "mlp.gate.e_score_correction_bias" in hf:
        made["mlp.router.expert_bias"] = hf["mlp.gate.e_score_correction_bias"]
    if "mlp.shared_experts.up_proj.weight" in hf:
        made["mlp.shared_experts.linear_fc1.weight"] = fused("mlp.shared_experts")
        made["mlp.shared_experts.linear_fc2.weight"] = hf["mlp.shared_experts.down_proj.weight"]
    return made


def megatron_state(hf, c, pad, stacked):
    padded = lambda t: torch.cat([t, torch.zeros(pad, t.shape[1], dtype=t.dtype)])
    layers = []
    for n in range(c.num_hidden_layers):
        prefix = f"model.layers.{n}."
        own = {k.removeprefix(prefix): v for k, v in hf.items() if k.startswith(prefix)}
        layers.append({**attention(own, c), **mlp(own)})
    state = {"embedding.word_embeddings.weight": padded(hf["model.embed_tokens.weight"]), "decoder.final_layernorm.weight": hf["model.norm.weight"]}
    if "lm_head.weight" in hf:
        state["output_layer.weight"] = padded(hf["lm_head.weight"])
    if stacked:
        state |= {f"decoder.layers.{k}": torch.stack([layer[k] for layer in layers]) for k in layers[0]}
    else:
        state |= {f"decoder.layers.{n}.{k}": v for n, layer in enumerate(layers) for k, v in layer.items()}
    return {k: v.clone().contiguous() for k, v in state.items()}
