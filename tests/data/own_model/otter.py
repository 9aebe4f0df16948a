"""otter.py FOLDER: the made-up model of dcpctl-maps(7) as it is published: a layer without experts, and one with two."""
import json
import os
import sys

import tensors

shapes = {"model.embed.weight": [32, 8], "lm_head.weight": [32, 8], "model.layers.0.mlp.weight": [12, 8]}
for layer in range(2):
    shapes |= {f"model.layers.{layer}.{name}.weight": [rows, 8] for name, rows in (("q", 8), ("k", 4), ("v", 4))}
    shapes[f"model.layers.{layer}.norm.weight"] = [8]
shapes |= {f"model.layers.1.experts.{expert}.weight": [8, 12] for expert in range(2)}
os.makedirs(sys.argv[1])
tensors.write(sys.argv[1] + "/model.safetensors", tensors.numbered(shapes))
with open(sys.argv[1] + "/config.json", "w") as file:
    json.dump({"model_type": "otter", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32}, file)
