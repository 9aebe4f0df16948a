"""What `./dev bench maps` rewrites.

map_models.py KIND FOLDER: KIND.safetensors with a trainer's names in FOLDER, beside config.json and, unless a built-in map does it, a map.
  rotary      4 GiB of Llama's tensors, as torchtitan names them
  stacked     4 GiB of experts [64, 2816, 2048], to be split; transposed: to be transposed, too
map_models.py deepseek FOLDER: the .metadata of DeepSeek-V3 (671B) as torchtitan saves it on 2,048 ranks, and its config.json; no data.
"""
import json
import pickle
import random
import struct
import sys
from pathlib import Path

import torch
from torch.distributed.checkpoint import metadata as m
from torch.distributed.checkpoint.filesystem import _StorageInfo

EXPERTS = "layers.{{l}}.{name} [e {left}] = model.layers.{{l}}.mlp.experts.{{e}}.{name}.weight [{right}]\n"


def rotary():
    layers, dim, hidden, vocab = 9, 4096, 12288, 32000
    shapes = {"tok_embeddings.weight": [vocab, dim], "norm.weight": [dim], "output.weight": [vocab, dim]}
    for i in range(layers):
        shapes |= {f"layers.{i}.attention.w{x}.weight": [dim, dim] for x in "qkvo"}
        shapes |= {f"layers.{i}.feed_forward.w{x}.weight": [hidden, dim] for x in "13"}
        shapes |= {f"layers.{i}.feed_forward.w2.weight": [dim, hidden]}
        shapes |= {f"layers.{i}.{x}_norm.weight": [dim] for x in ("attention", "ffn")}
    return shapes, {"model_type": "llama", "num_hidden_layers": layers, "num_attention_heads": 32}, None


def experts(right):
    layers = 2
    shapes = {f"layers.{i}.w{x}": [64, 2816, 2048] for i in range(layers) for x in "123"}
    text = "family bench\nsize l = num_hidden_layers\nsize e = num_experts\n"
    return shapes, {"num_hidden_layers": layers, "num_experts": 64}, text + "".join(EXPERTS.format(name=f"w{x}", left="f d", right=right) for x in "123")


def write_safetensors(path, shapes):
    header, at = {}, 0
    for key, shape in shapes.items():
        size = 2 * torch.Size(shape).numel()
        header[key] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    block = random.Random(1).randbytes(64 << 20)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, at, len(block)):
            f.write(block[: at - begin])


def deepseek(folder):
    layers, dense, ranks, dim, experts = 61, 3, 2048, 7168, 256
    matrices = {"tok_embeddings.weight": (129280, dim), "norm.weight": (dim,), "lm_head.weight": (129280, dim)}
    stacks = {}
    for i in range(layers):
        p = f"layers.{i}."
        matrices |= {p + "attention.wq_a.weight": (1536, dim), p + "attention.q_norm.weight": (1536,), p + "attention.wq_b.weight": (24576, 1536),
                     p + "attention.wkv_a.weight": (576, dim), p + "attention.kv_norm.weight": (512,), p + "attention.wkv_b.weight": (32768, 512),
                     p + "attention.wo.weight": (dim, 16384), p + "attention_norm.weight": (dim,), p + "ffn_norm.weight": (dim,)}  # fmt: skip
        where, hidden = ("feed_forward.", 18432) if i < dense else ("moe.shared_experts.", 2048)
        matrices |= {f"{p}{where}w{x}.weight": (dim, hidden) if x == "2" else (hidden, dim) for x in "123"}
        if i >= dense:
            inner = p + "moe.routed_experts.inner_experts."
            stacks |= {inner + "w1_EFD": (experts, 2048, dim), inner + "w2_EDF": (experts, dim, 2048), inner + "w3_EFD": (experts, 2048, dim)}
            matrices[p + "moe.router.gate.weight"] = (experts, dim)
            matrices[p + "moe.expert_bias_E"] = (experts,)
    tensors, at, by_rank = {}, [0] * ranks, [[] for _ in range(ranks)]

    def add(key, shape, boxes):
        chunks = []
        for rank, (offsets, sizes) in enumerate(boxes):
            offsets, sizes = torch.Size(offsets), torch.Size(sizes)
            chunks.append(m.ChunkStorageMetadata(offsets, sizes))
            length = 1577 + 2 * sizes.numel()
            by_rank[rank].append((m.MetadataIndex(key, offsets, rank), _StorageInfo(f"__{rank}_0.distcp", at[rank], length)))
            at[rank] += length
        tensors[key] = m.TensorStorageMetadata(m.TensorProperties(dtype=torch.bfloat16), torch.Size(shape), chunks)

    for key, shape in matrices.items():  # rows, by FSDP2
        rows, rest = -(-shape[0] // ranks), shape[1:]
        add(key, shape, [((r, *(0 for _ in rest)), (min(rows, shape[0] - r), *rest)) for r in range(0, shape[0], rows)])
    groups, within = 64, 32  # experts by expert parallelism, and their rows by FSDP2
    for key, (e, f, d) in stacks.items():
        add(key, (e, f, d), [((g * e // groups, s * f // within, 0), (e // groups, f // within, d)) for g in range(groups) for s in range(within)])
    storage = {index: info for rank in by_rank for index, info in rank}  # in this order torch gathers it
    with open(folder / ".metadata", "wb") as out:
        pickle.dump(m.Metadata(tensors, {k: (k,) for k in tensors}, storage, m.StorageMeta(), "1.0.0"), out)
    config = {"model_type": "deepseek_v3", "num_hidden_layers": layers, "n_routed_experts": experts, "num_nextn_predict_layers": 1}
    (folder / "config.json").write_text(json.dumps(config))


kind, folder = sys.argv[1], Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
if kind == "deepseek":
    deepseek(folder)
else:
    shapes, config, text = {"rotary": rotary, "stacked": lambda: experts("f d"), "transposed": lambda: experts("d f")}[kind]()
    write_safetensors(folder / f"{kind}.safetensors", shapes)
    (folder / "config.json").write_text(json.dumps(config))
    if text:
        (folder / f"{kind}.map").write_text(text)
