"""llama.py FOLDER [RUN.safetensors]: a tiny Llama as it is published, with its config.json; and with what AdamW keeps of each parameter."""
import json
import os
import sys

import tensors

VOCAB, HIDDEN, HEADS, GROUPS, HEAD, WIDE, LAYERS = 32, 16, 4, 2, 4, 24, int(os.environ.get("LAYERS", "2"))
shapes = {"model.embed_tokens.weight": [VOCAB, HIDDEN], "model.norm.weight": [HIDDEN], "lm_head.weight": [VOCAB, HIDDEN]}
for layer in range(LAYERS):
    at = f"model.layers.{layer}."
    shapes |= {at + f"{name}_layernorm.weight": [HIDDEN] for name in ("input", "post_attention")}
    for name, rows in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
        shapes[at + f"self_attn.{name}_proj.weight"] = [rows * HEAD, HIDDEN]
    shapes[at + "self_attn.o_proj.weight"] = [HIDDEN, HEADS * HEAD]
    shapes |= {at + f"mlp.{name}_proj.weight": [WIDE, HIDDEN] for name in ("gate", "up")}
    shapes[at + "mlp.down_proj.weight"] = [HIDDEN, WIDE]
model = tensors.numbered(shapes)
os.makedirs(sys.argv[1])
tensors.write(sys.argv[1] + "/model.safetensors", model)
with open(sys.argv[1] + "/config.json", "w") as file:
    json.dump({"model_type": "llama", "num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS,
               "vocab_size": VOCAB, "intermediate_size": WIDE, "dtype": "float32"}, file)  # fmt: skip
if len(sys.argv) > 2:
    state = {f"optimizer.state.{key}.{slot}": value for key, value in model.items() for slot in ("exp_avg", "exp_avg_sq")}
    steps = {f"optimizer.state.{key}.step": ([], [1000]) for key in model}
    tensors.write(sys.argv[2], model | state | steps)
