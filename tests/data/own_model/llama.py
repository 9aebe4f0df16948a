"""llama.py FOLDER: a tiny Llama as it is published, with its config.json."""
import json
import os
import struct
import sys

VOCAB, HIDDEN, HEADS, GROUPS, HEAD, WIDE, LAYERS = 32, 16, 4, 2, 4, 24, 2
shapes = {"model.embed_tokens.weight": [VOCAB, HIDDEN], "model.norm.weight": [HIDDEN], "lm_head.weight": [VOCAB, HIDDEN]}
for layer in range(LAYERS):
    at = f"model.layers.{layer}."
    shapes |= {at + f"{name}_layernorm.weight": [HIDDEN] for name in ("input", "post_attention")}
    for name, rows in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
        shapes[at + f"self_attn.{name}_proj.weight"] = [rows * HEAD, HIDDEN]
    shapes[at + "self_attn.o_proj.weight"] = [HIDDEN, HEADS * HEAD]
    shapes |= {at + f"mlp.{name}_proj.weight": [WIDE, HIDDEN] for name in ("gate", "up")}
    shapes[at + "mlp.down_proj.weight"] = [HIDDEN, WIDE]
header, data = {}, b""
for key, shape in sorted(shapes.items()):
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    payload = struct.pack(f"<{count}f", *((len(header) + i / count) for i in range(count)))
    header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
    data += payload
text = json.dumps(header).encode()
os.makedirs(sys.argv[1])
with open(sys.argv[1] + "/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
with open(sys.argv[1] + "/config.json", "w") as file:
    json.dump({"model_type": "llama", "num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS,
               "vocab_size": VOCAB, "intermediate_size": WIDE, "dtype": "float32"}, file)  # fmt: skip
