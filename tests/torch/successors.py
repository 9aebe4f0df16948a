#!/usr/bin/env python3
"""successors.py DCPCTL torch_checkpointing|accelerate: what DCP's successors save, in each of their forms, on 1 to 4 ranks.

torch_checkpointing: items in torch.save files, in safetensors, in folders of a layout, with an optimizer in safetensors, beside items in JSON and as
bytes; as FSDP, a grid, hybrid, strided and pipelined, with tied weights, float8, 0-d and empty tensors. dcpctl's tensors
and objects are those that were saved, and the forms of one state do not differ. accelerate: a file per rank. Each needs its package beside torch
(.venv-maps); without it exits 77.
"""
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import rank_files  # also puts .venv-maps on the path
import torch
import torch.distributed as dist
from case import check, failures
from rank_files import parallel_linear, run, same, whole_model, whole_optim
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard


def model():
    more = {"f8": torch.arange(40.0).reshape(8, 5).to(torch.float8_e4m3fn), "scalar": torch.tensor(2.5), "none": torch.zeros(0, 3)}
    return whole_model() | more | {"tied": whole_model()["model.embed.weight"]}


def optimizer():
    return whole_optim()["state"]


def sharded(tree, mesh, placements):
    """gloo sends no float8, but bytes."""
    if isinstance(tree, dict):
        return {key: sharded(value, mesh, placements) for key, value in tree.items()}
    if tree.dtype != torch.float8_e4m3fn:
        return rank_files.sharded(tree, mesh, placements)
    local = rank_files.sharded(tree.view(torch.uint8), mesh, placements).to_local().view(tree.dtype)
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=tree.shape, stride=tree.stride())


OBJECTS = {"config": {"dim": 6, "nested": {"a": [1, 2.5, None]}}, "tokenizer": b"\0ra\xff", "train": {"step": 5}, "seed": 7}
MESHES = {  # for a world: shape and placements
    "fsdp": lambda world: ((world,), [Shard(0)]),
    "hybrid": lambda world: ((2, world // 2), [Replicate(), Shard(0)]) if world % 2 == 0 else None,
    "grid": lambda world: ((2, world // 2), [Shard(0), Shard(1)]) if world % 2 == 0 else None,
}


def forms():
    from torch_checkpointing.checkpoint_layout import LayoutInfo, SafetensorsSerialization, TorchSerialization

    tensors = SafetensorsSerialization()
    return {
        "torch": {},
        "safetensors": {"model": LayoutInfo("model_{rank}.safetensors", tensors)},
        "nested": {"model": LayoutInfo("model_{rank}.safetensors", tensors), "optim": LayoutInfo("optim/{rank}.safetensors", tensors)},
        "folders": {"model": LayoutInfo("rank_{rank}/model.pt", TorchSerialization()), "optim": LayoutInfo("rank_{rank}/optim.ckpt", TorchSerialization())},
    }


def manager(layouts):
    from torch_checkpointing import ItemSpec
    from torch_checkpointing.checkpoint_layout import JsonSerialization, LayoutInfo, RawSerialization
    from torch_checkpointing.default_resharder import DefaultResharder

    config = rank_files.torch_checkpointing_config()
    config.items = {name: ItemSpec(resharder=DefaultResharder(), layout=layouts.get(name), required=False) for name in ["model", "optim"]} | {
        "config": ItemSpec(layout=LayoutInfo("config_{rank}.json", JsonSerialization()), required=False),
        "tokenizer": ItemSpec(layout=LayoutInfo("tokenizer_{rank}.bin", RawSerialization()), required=False),
    }
    return config.build()


def save_all(rank, world, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    folder = Path(folder)
    for mesh_name, of_world in MESHES.items():
        if (made := of_world(world)) is None:
            continue
        mesh = init_device_mesh("cpu", made[0])
        for form, layouts in forms().items():
            state = {"model": sharded(model(), mesh, made[1]), "optim": sharded(optimizer(), mesh, made[1])} | OBJECTS
            if form in ("safetensors", "nested"):
                del state["model"]["tied"]  # safetensors refuses tensors that share memory
            manager(layouts).save(str(folder / f"{mesh_name}-{form}"), state)
            dist.barrier()
    if world == 4:
        parallel, whole = parallel_linear(init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")))
        for form in ["torch", "safetensors"]:
            manager(forms()[form]).save(str(folder / f"strided-{form}"), {"model": parallel})
            dist.barrier()
        if rank == 0:
            torch.save(whole, folder / "strided.whole")
    if world % 2 == 0:
        # Two stages, each with a mesh of its own.
        stages = [dist.new_group(list(range(s, s + world // 2))) for s in (0, world // 2)]
        stage = rank // (world // 2)
        from torch.distributed.device_mesh import DeviceMesh

        mesh = DeviceMesh.from_group(stages[stage], "cpu")
        own = {key: t for n, (key, t) in enumerate(model().items()) if n % 2 == stage and key != "tied"}
        for form in ["torch", "safetensors"]:
            manager(forms()[form]).save(str(folder / f"stages-{form}"), {"model": sharded(own, mesh, [Shard(0)])})
            dist.barrier()
    dist.barrier()
    dist.destroy_process_group()


def sorted_tree(tree):
    return {key: sorted_tree(tree[key]) for key in sorted(tree, key=str)} if isinstance(tree, dict) else tree


def loaded(dcpctl, folder, out):
    file = out / f"{folder.name}.pt"
    run(dcpctl, "verify", folder)
    run(dcpctl, "consolidate", folder, file, "--no-sync")
    return sorted_tree(torch.load(file))


def compare(dcpctl, folder, out, world):
    for mesh_name, of_world in MESHES.items():
        if of_world(world) is None:
            continue
        for form in forms():
            wanted = {"model": model(), "optim": optimizer()} | OBJECTS
            if form in ("safetensors", "nested"):
                del wanted["model"]["tied"]
            same(loaded(dcpctl, folder / f"{mesh_name}-{form}", out), sorted_tree(wanted), f"{world} ranks, {mesh_name}, {form}")
        run(dcpctl, "diff", folder / f"{mesh_name}-torch", folder / f"{mesh_name}-folders")
        run(dcpctl, "diff", folder / f"{mesh_name}-safetensors", folder / f"{mesh_name}-nested")
    if world == 4:
        whole = torch.load(folder / "strided.whole")
        for form in ["torch", "safetensors"]:
            same(loaded(dcpctl, folder / f"strided-{form}", out)["model"], sorted_tree(whole), f"strided, {form}")
    if world % 2 == 0:
        wanted = sorted_tree({key: t for key, t in model().items() if key != "tied"})
        for form in ["torch", "safetensors"]:
            same(loaded(dcpctl, folder / f"stages-{form}", out)["model"], wanted, f"stages, {form}")


# ---- accelerate


def save_with_accelerate(rank, world, folder):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    from accelerate import PartialState
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.fsdp_utils import save_fsdp_model, save_fsdp_optimizer
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict
    from torch.distributed.fsdp import fully_shard

    PartialState(cpu=True)
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.LayerNorm(7), torch.nn.Linear(7, 3))
    fully_shard(module, mesh=init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.ones(2, 6)).sum().backward()
    optimizer.step()

    class Alone:  # what of an Accelerator is asked
        process_index, num_processes, is_main_process = rank, world, rank == 0
        is_fsdp2, wait_for_everyone = True, staticmethod(dist.barrier)

    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type="SHARDED_STATE_DICT")
    save_fsdp_model(plugin, Alone, module, f"{folder}/ckpt", use_dcp=False)
    save_fsdp_optimizer(plugin, Alone, optimizer, module, f"{folder}/ckpt", use_dcp=False)
    full = StateDictOptions(full_state_dict=True)
    states = {"model": get_model_state_dict(module, options=full), "optimizer": get_optimizer_state_dict(module, optimizer, options=full)}
    if rank == 0:
        torch.save(states, f"{folder}/whole.pt")
    dist.barrier()
    dist.destroy_process_group()


def compare_accelerate(dcpctl, folder, out, world):
    same(loaded(dcpctl, folder / "ckpt", out), sorted_tree(torch.load(folder / "whole.pt")), f"accelerate on {world} ranks")
    last = folder / f"ckpt/optimizer_0_rank{world - 1}.bin"
    last.rename(folder / "away")
    result = run(dcpctl, "inspect", folder / "ckpt", exit_code=1)
    check(f"{last.name}: a data file of the checkpoint is missing" in result.stdout, f"a missing rank: {result.stdout}")
    result = run(dcpctl, "consolidate", folder / "ckpt", out / "refused.pt", exit_code=3)
    check(last.name in result.stderr, f"a missing rank: {result.stderr}")
    run(dcpctl, "consolidate", folder / "ckpt", out / "model.pt", "--include", "model", "--no-sync")
    model, whole = torch.load(out / "model.pt"), torch.load(folder / "whole.pt")
    same(sorted_tree(model), sorted_tree({"model": whole["model"]}), f"the model beside a missing rank of the optimizer, {world} ranks")


def main():
    dcpctl, program = sys.argv[1:]
    if importlib.util.find_spec(program) is None:
        print(f"no {program} beside torch")
        return 77
    torch.set_num_threads(1)  # ranks are forked: no thread may be there before
    save, look, worlds = {"torch_checkpointing": (save_all, compare, [1, 2, 3, 4]), "accelerate": (save_with_accelerate, compare_accelerate, [2, 3])}[program]
    for world in worlds:
        with tempfile.TemporaryDirectory() as scratch:
            folder, out = Path(scratch, "in"), Path(scratch, "out")
            folder.mkdir()
            out.mkdir()
            torch.multiprocessing.start_processes(save, args=(world, str(folder)), nprocs=world, start_method="fork")
            look(dcpctl, folder, out, world)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
