#!/usr/bin/env python3
"""plain_ranks.py DCPCTL disagree|shards|roles|references|constants|views|empty...: files of ranks with plain tensors, which say nothing of what they are.

Ranks that contradict each other about one key, and what each rank's to_local() is of a sharded model.
"""
import pickle

from case import check, compare, run_named, same, torch


def put(folder, ranks, part="model"):
    """One file for each rank's state dict, as verl names them."""
    folder.mkdir(exist_ok=True)
    for rank, state in enumerate(ranks):
        torch.save(state, folder / f"{part}_world_size_{len(ranks)}_rank_{rank}.pt")
    return folder


def put_listed(folder, items, world=2):
    """The same, as torch_checkpointing does."""
    folder.mkdir()
    (folder / "metadata.pkl").write_bytes(pickle.dumps({"metadata": {}, "world_size": world, "version": "2.0"}, 2))
    for item, ranks in items.items():
        for rank, state in enumerate(ranks):
            torch.save(state, folder / f"{item}_{rank}.pt")
    return folder


def whole_model(seed=0):
    torch.manual_seed(seed)
    shapes = {"embed.weight": (11, 6), "up.weight": (8, 6), "up.bias": (8,), "down.weight": (6, 8), "norm.weight": (6,), "head.weight": (11, 6)}
    return {key: torch.randn(shape) for key, shape in shapes.items()} | {"scale": torch.tensor(0.5)}


def local(model, world, dim=0, replicated=()):
    """What each rank's to_local() is. Sizes that cannot be divided give the last ranks less, or nothing."""

    def of(key, t, rank):
        if t.dim() <= dim or key in replicated:
            return t.clone()
        size = -(-t.shape[dim] // world)
        begin = min(rank * size, t.shape[dim])
        return t.narrow(dim, begin, min(size, t.shape[dim] - begin)).clone()

    return [{key: of(key, t, rank) for key, t in model.items()} for rank in range(world)]


def read(c, folder, *options, name="out.pt", exit_code=0):
    out = c.out / name
    out.unlink(missing_ok=True)
    result = c.run("consolidate", folder, out, "--no-sync", *options, exit_code=exit_code)
    check(out.exists() == (exit_code == 0), f"{options}: {'nothing' if exit_code == 0 else 'something'} was written")
    return torch.load(out, weights_only=False) if exit_code == 0 else result.stderr


def is_whole(c, folder, wanted, *options):
    compare(read(c, folder, "--model-only", *options), wanted, f"{folder.name} {options}")


def is_refused(c, folder, words, *options, exit_code=1):
    said = read(c, folder, *options, exit_code=exit_code)
    for word in words:
        check(word in said, f"{folder.name} {options}: '{word}' is not in {said}")
    check("--prefer-rank" not in said and "--exclude" not in said, f"{folder.name}: a wrong hint: {said}")


def disagree(c):
    def state(rank, a):
        return {"a": torch.zeros(a), "b": torch.arange(4.0), "c": torch.ones(2, 3)}

    optim = {"step": 7, "lr": 0.5, "m": torch.ones(4), "n": torch.arange(5.0)}
    other = dict(reversed(optim.items()))
    model = [state(0, (3,)), state(1, (2, 2))]
    for folder in [put(c.out / "ranks", model), put_listed(c.out / "listed", {"model": model, "optim": [optim, optim]})]:
        if folder.name == "ranks":
            put(folder, [optim, other], "optim")
        got = read(c, folder, "--exclude", "model.a")
        compare(got, {"model": {"b": torch.arange(4.0), "c": torch.ones(2, 3)}, "optim": optim}, folder.name)
        compare(read(c, folder, "--include", "optim.lr"), {"optim": {"lr": 0.5}}, "lr")
        compare(read(c, folder, "--include", "optim.step"), {"optim": {"step": 7}}, "step")
        same(c.run("extract", folder, "optim.lr").stdout.strip(), "0.5", "extracted")
        said = c.run("verify", folder, exit_code=1).stdout
        same([line.partition("tensor ")[2][:9] for line in said.splitlines() if line.startswith("damage")], ["'model.a'"], said)
        c.run("convert", folder, c.out / f"{folder.name}-dcp", "--exclude", "model.a", "--no-sync")
        c.run("diff", folder, c.out / f"{folder.name}-dcp", "--exclude", "model.a")
    # Copies that differ in one object, and a rank that has a tensor in its place.
    several = put_listed(c.out / "several", {"model": [{"x": 1, "y": torch.ones(2), "z": 3}, {"x": torch.ones(1), "y": torch.ones(2), "z": 3}]})
    compare(read(c, several, "--exclude", "model.x"), {"model": {"y": torch.ones(2), "z": 3}}, "several")


def shards(c):
    whole = whole_model()
    for world in [2, 3, 4]:
        folder = put(c.out / f"local{world}", local(whole, world))
        is_refused(c, folder, ["--shards-on-dim 0", "model.embed.weight"], exit_code=3)
        said = c.run("verify", folder, exit_code=1).stdout
        check("--shards-on-dim 0" in said and "--prefer-rank" not in said and said.count("damage:") == 1, said)
        is_whole(c, folder, whole, "--shards-on-dim", "0")
        c.run("verify", folder, "--shards-on-dim", "0")
        c.run("reshard", folder, c.out / f"dcp{world}", "--world-size", "2", "--shards-on-dim", "0", "--no-sync")
        torch.save({"model": whole}, c.out / "whole.pt")
        c.run("diff", c.out / f"dcp{world}", c.out / "whole.pt")
    uneven = put(c.out / "dim1", local({key: t for key, t in whole.items() if t.dim() != 1}, 3, dim=1))
    is_whole(c, uneven, {key: t for key, t in whole.items() if t.dim() != 1}, "--shards-on-dim", "1")
    listed = put_listed(c.out / "listed", {"model": local(whole, 2), "optim": local({"m": whole["embed.weight"], "step": torch.tensor(3.0)}, 2)})
    compare(read(c, listed, "--shards-on-dim", "0")["optim"], {"m": whole["embed.weight"], "step": torch.tensor(3.0)}, "optim")
    # Of one key it is a matter of that key.
    ranks = [dict(whole), dict(whole) | {"embed.weight": whole["embed.weight"] + 1}]
    check("--prefer-rank" in read(c, put(c.out / "one", ranks), exit_code=3), "one key")
    # A mistyped name, a rank that lacks a part, a replica.
    folder = c.out / "local2"
    read(c, folder, "--shards-on-dim", "0", "--replicated", "nrom*", exit_code=2)
    read(c, folder, "--replicated", "norm*", exit_code=2)
    ranks = local(whole, 2)
    del ranks[1]["up.weight"]
    check("up.weight" in read(c, put(c.out / "lacks", ranks), "--shards-on-dim", "0", exit_code=3), "a part is lacking")
    check("replica" in read(c, put(c.out / "twice", local(whole, 2) * 2), "--shards-on-dim", "0", exit_code=3), "two replicas")


# A norm of ones and a bias of zeros, as parts or whole on each rank.
EQUAL = {"norm.weight": torch.ones(6), "up.bias": torch.zeros(8)}


def roles(c):
    whole = whole_model() | EQUAL
    names = [f"model.{key}" for key in EQUAL]
    for role, replicated in {"parts": (), "whole": tuple(EQUAL)}.items():
        folder = put(c.out / role, local(whole, 2, replicated=replicated))
        is_refused(c, folder, names, "--shards-on-dim", "0")
        check(all(name in c.run("verify", folder, "--shards-on-dim", "0", exit_code=1).stdout for name in names), "verify does not name them")
        globs = [word for key in replicated for word in ("--replicated", f"model.{key}")] or ["--replicated", "none"]
        is_whole(c, folder, whole, "--shards-on-dim", "0", *globs)
        is_whole(c, folder, {key: t for key, t in whole.items() if key not in EQUAL}, "--shards-on-dim", "0", "--exclude", "*.norm.weight", "--exclude", "*.up.bias")
        # All others of its shape are parts, and so is this one.
        alike = whole | {"other.bias": torch.arange(8.0)}
        del alike["norm.weight"]
        folder = put(c.out / f"{role}-alike", local(alike, 2, replicated=("up.bias",) if replicated else ()))
        if not replicated:
            is_whole(c, folder, alike, "--shards-on-dim", "0")
            alike |= {"norm.weight": torch.ones(8), "third.bias": torch.zeros(8)}
            is_whole(c, put(c.out / "several-alike", local(alike, 2)), alike, "--shards-on-dim", "0")
            # One that is known not to be: those of its shape may be whole as well.
            del alike["up.weight"]
            torch.save({"norm.weight": torch.ones(4)}, c.out / "norm.pt")
            folder = put(c.out / "one-is-whole", local(alike | {"norm.weight": torch.ones(4)}, 2, replicated=("norm.weight",)))
            is_refused(c, folder, ["model.up.bias", "model.third.bias"], "--shards-on-dim", "0", "--model-only", "--expect", c.out / "norm.pt")


def references(c):
    whole = whole_model() | EQUAL
    torch.save(whole, c.out / "whole.pt")
    (c.out / "list.txt").write_text("".join(f"{key} float32 {list(t.shape)}\n" for key, t in whole.items()))
    c.run("convert", c.out / "whole.pt", c.out / "like", "--world-size", "2", "--no-sync")
    for role, replicated in {"parts": (), "whole": tuple(EQUAL), "one": ("up.bias",)}.items():
        folder = put(c.out / role, local(whole, 2, replicated=replicated))
        for reference in ["whole.pt", "list.txt"]:
            is_whole(c, folder, whole, "--shards-on-dim", "0", "--expect", c.out / reference)
        c.run("reshard", folder, c.out / f"{role}-dcp", "--model-only", "--like", c.out / "like", "--shards-on-dim", "0", "--no-sync")
        c.run("diff", c.out / f"{role}-dcp", c.out / "whole.pt")
    # Llama's names and sizes; verl keeps the configuration in a folder of its own.
    config = '{"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 10, "intermediate_size": 12}'
    torch.manual_seed(1)
    shapes = {"embed_tokens.weight": (10, 8), "layers.0.self_attn.q_proj.weight": (8, 8), "layers.0.mlp.up_proj.weight": (12, 8)}
    llama = {f"model.{key}": torch.randn(shape) for key, shape in shapes.items()}
    llama |= {"model.norm.weight": torch.ones(8), "model.layers.0.self_attn.q_proj.bias": torch.zeros(8)}
    for role, replicated in {"parts": (), "whole": ("model.norm.weight",)}.items():
        for place in ["", "huggingface"]:
            folder = put(c.out / f"llama-{role}-{place}", local(llama, 2, replicated=replicated))
            is_refused(c, folder, ["model.model.norm.weight"], "--shards-on-dim", "0")
            (folder / place).mkdir(exist_ok=True)
            (folder / place / "config.json").write_text(config)
            compare(read(c, folder, "--shards-on-dim", "0")["model"], llama, folder.name)


def constants(c):
    """Tensors that are zeros on all ranks say nothing: shards of LoRA, whose B begins so."""
    torch.manual_seed(1)
    ranks = [{f"blk.{i}.lora_{x}": torch.randn(4, 32) if x == "A" else torch.zeros(16, 8) for i in range(3) for x in "AB"} for _ in range(2)]
    folder = put(c.out / "lora", ranks)
    is_refused(c, folder, ["are shards", "--shards-on-dim 0"], exit_code=3)
    wanted = {key: torch.cat([r[key] for r in ranks]) for key in ranks[0]}
    is_whole(c, folder, wanted, "--shards-on-dim", 0, "--replicated", "none")


def views(c):
    """All tensors in one storage: its CRC says nothing of a single one. And files without CRCs."""
    whole = whole_model() | {"norm.weight": torch.ones(6)}

    def flat(state):
        storage = torch.cat([t.flatten() for t in state.values()])
        parts = storage.split([t.numel() for t in state.values()])
        return {key: part.view(t.shape) if t.dim() else t for (key, t), part in zip(state.items(), parts)}

    folder = put(c.out / "flat", [flat(state) for state in local(whole, 2)])
    is_refused(c, folder, ["model.norm.weight"], "--shards-on-dim", "0")
    is_whole(c, folder, whole, "--shards-on-dim", "0", "--replicated", "none")
    torch.serialization.set_crc32_options(False)
    folder = put(c.out / "nocrc", local(whole, 2))
    replicas = put(c.out / "replicas", [whole, whole])
    torch.serialization.set_crc32_options(True)
    is_refused(c, folder, ["--shards-on-dim 0"], exit_code=3)
    is_refused(c, folder, ["model.norm.weight"], "--shards-on-dim", "0")
    is_whole(c, folder, whole, "--shards-on-dim", "0", "--replicated", "none")
    is_whole(c, replicas, whole)


def empty(c):
    """What ZeRO-3 leaves of a module."""
    module = {key: torch.empty(0) for key in whole_model()} | {"rope": torch.arange(3.0)}
    zero3 = {"module": module, "param_shapes": [{key: t.shape for key, t in whole_model().items()}], "frozen_param_fragments": {"norm.bias": torch.ones(3)}}
    plain = {key: t for key, t in module.items()}
    for name, state, words in [("zero3", zero3, ["DeepSpeed ZeRO-3", "zero_to_fp32.py"]), ("plain", plain, ["empty tensors"])]:
        file = c.out / f"{name}.pt"
        torch.save(state, file)
        for options in [[], ["--model-only"], ["--tensors-only"]]:
            said = read(c, file, *options, exit_code=3)
            check(all(word in said for word in words), f"{name} {options}: {said}")
        check("damage" in c.run("verify", file, exit_code=1).stdout, f"{name}: verify")
        root = "module." if name == "zero3" else ""
        c.run("extract", file, f"{root}rope")
        read(c, file, "--include", f"{root}rope")
    # One tensor without elements among others is none of that.
    torch.save({"a.weight": torch.ones(2), "b.weight": torch.empty(0, 2)}, c.out / "some.pt")
    read(c, c.out / "some.pt")


if __name__ == "__main__":
    import sys

    run_named(globals(), sys.argv[2:], sys.argv[1])
