#!/usr/bin/env python3
"""A checkpoint of 10,000 tensors: a mixture of experts in 45 layers with its optimizer, as two ranks of a trainer save it.

    large.py FOLDER
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bad"))

from recipes import Checkpoint, Item, Pairs, Tensor, archive, dump, tensor_item  # noqa: E402

LAYERS, EXPERTS = 45, 22


class Large(Checkpoint):
    """Files are joined once: each item appended to bytes would copy megabytes."""

    made = None

    def files(self):
        if self.made is None:
            pieces, ends, entries = {}, {}, []
            for item in self.items:
                data = item.data.bytes()
                at = ends.get(item.file, 0)
                entries.append(item.op(at, len(data)))
                pieces.setdefault(item.file, []).append(data)
                ends[item.file] = at + len(data)
            self.made = {name: b"".join(of) for name, of in pieces.items()}, Pairs(entries)
        return self.made


def parameters():
    """(name, shape, is cut in two)"""
    yield "tok_embeddings.weight", (32, 4), True
    for layer in range(LAYERS):
        at = f"layers.{layer}."
        for w in ("wq", "wk", "wv", "wo"):
            yield f"{at}attention.{w}.weight", (8, 4), True
        yield f"{at}attention_norm.weight", (4,), False
        yield f"{at}ffn_norm.weight", (4,), False
        yield f"{at}moe.router.gate.weight", (EXPERTS, 4), False
        yield f"{at}moe.expert_bias", (EXPERTS,), False
        for expert in range(EXPERTS):
            for w in ("w1", "w2", "w3"):
                yield f"{at}moe.experts.{expert}.{w}.weight", (4, 4), False
    yield "norm.weight", (4,), False
    yield "output.weight", (32, 4), True


def main(folder):
    made = Large(Path(folder), {}, [], [], {})

    def add_tensor(path, shape, is_cut):
        key = ".".join(path)
        rows = shape[0] // 2 if is_cut else shape[0]
        rest = shape[1:]
        offsets = [(rank * rows, *(0 for _ in rest)) for rank in range(2 if is_cut else 1)]
        made.tensors[key] = Tensor(shape, [(o, (rows, *rest)) for o in offsets])
        made.paths[key] = path
        count = rows * (rest[0] if rest else 1)
        for rank, o in enumerate(offsets):
            holder = rank if is_cut else len(made.items) % 2
            made.items.append(Item(key, o, f"__{holder}_0.distcp", tensor_item([len(made.items) % 7] * count, (rows, *rest))))

    def add_object(path, value):
        key = ".".join(path)
        made.blobs.append(key)
        made.paths[key] = path
        made.items.append(Item(key, None, "__0_0.distcp", archive(dump(value, 2))))

    for name, shape, is_cut in parameters():
        add_tensor(("model", name), shape, is_cut)
        for slot in ("exp_avg", "exp_avg_sq"):
            add_tensor(("optimizer", "state", name, slot), shape, is_cut)
    add_tensor(("rng_state",), (16,), False)
    for name in ("lr", "weight_decay", "eps"):
        add_object(("optimizer", "param_groups", name), 1)
    add_object(("train_state", "step"), 1000)
    add_object(("train_state", "ntokens_seen"), 8388608000)
    add_object(("lr_scheduler", "last_epoch"), 1000)
    made.write()
    assert len(made.tensors) == 10_000, len(made.tensors)


if __name__ == "__main__":
    main(sys.argv[1])
