"""Random state dicts on random ranks, saved by torch itself. One process plays all ranks, one after another, in a fake process group: local
plans, the global plan, each rank's data, the metadata, as torch's _save_state_dict runs them.
"""
import collections
import importlib.util
import random

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._extension import ZStandard
from torch.distributed.checkpoint.filesystem import SerializationFormat
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

FLOATS = """float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz""".split()
OTHERS = """float8_e8m0fnu float4_e2m1fn_x2 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex128 complex64 complex32
            bcomplex32""".split()  # fmt: skip
DTYPES = [getattr(torch, name) for name in FLOATS + OTHERS if hasattr(torch, name)]
HAS_ZSTANDARD = importlib.util.find_spec("zstandard") is not None
WIDE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}  # that every operation on layouts takes


# ---- tensors


def random_bits(rng, dtype, shape):
    """Any bit pattern, NaNs with payloads among them."""
    count = torch.Size(shape).numel()
    if count == 0:
        return torch.empty(shape, dtype=WIDE[dtype.itemsize]).view(dtype)
    bits = torch.frombuffer(bytearray(rng.randbytes(count * dtype.itemsize)), dtype=torch.uint8).clone()
    if dtype is torch.bool:
        bits &= 1
    return bits.view(WIDE[dtype.itemsize]).reshape(shape).view(dtype)


def laid_out(rng, tensor):
    """The same elements, somewhere in a storage that may hold more."""
    if tensor.is_quantized or rng.random() < 0.4:
        return tensor
    dtype, shape = tensor.dtype, tensor.shape
    bits = tensor.view(WIDE[dtype.itemsize])
    if tensor.numel() == 0:  # whatever view it was
        anything = [rng.choice([0, 1, 2, 7, 1000, 2**40]) for _ in range(len(shape) + 1)]
        base = torch.empty(rng.choice([0, 0, 3]), dtype=bits.dtype)
        return torch.as_strided(base, shape, anything[1:], anything[0]).view(dtype)
    way = rng.choice(["permuted", "inside", "stepped", "offset"])
    if way == "permuted":
        order = rng.sample(range(len(shape)), len(shape))
        back = [order.index(d) for d in range(len(shape))]
        bits = bits.permute(order).contiguous().permute(back)
    elif way == "inside":
        before = [rng.randint(0, 2) for _ in shape]
        around = torch.zeros([b + s + rng.randint(0, 2) for b, s in zip(before, shape)], dtype=bits.dtype)
        inside = around[tuple(slice(b, b + s) for b, s in zip(before, shape))]
        bits = inside.copy_(bits)
    elif way == "stepped" and len(shape) > 0:
        step = rng.randint(2, 3)
        spread = torch.zeros([*shape[:-1], shape[-1] * step], dtype=bits.dtype)[..., ::step]
        bits = spread.copy_(bits)
    else:
        before = rng.randint(1, 9)
        flat = torch.zeros(before + bits.numel(), dtype=bits.dtype)
        flat[before:] = bits.reshape(-1)
        bits = flat[before:].view(shape)
    return bits.view(dtype)


class Part:
    """A tensor of the state dict, whole, and how its ranks hold it."""

    def __init__(self, rng, world, lazy=True):
        self.rng = rng
        dtype = rng.choice(DTYPES)
        sizes = [0, 1, 1, 2, 3, 4, 5, 7, 8, 13] if rng.random() < 0.9 else [33, 65, 130]
        shape = [rng.choice(sizes) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 4]))]
        while torch.Size(shape).numel() > 40000:
            shape.pop()
        self.whole = random_bits(rng, dtype, shape)
        if shape and rng.random() < 0.06:  # one row, many times
            self.whole = self.whole[:1].clone().expand(shape) if shape[0] else self.whole
        self.mesh = None
        self.lazy = None  # "conj" or "neg": a view whose bits are not its values
        self.parameter = dtype.is_floating_point and dtype.itemsize > 1 and rng.random() < 0.1
        if world > 1 and rng.random() < 0.7:
            self.place(world)
        elif lazy and self.whole.is_complex() and dtype.itemsize > 4 and rng.random() < 0.5:
            self.lazy = rng.choice(["conj", "neg"])
            if self.lazy == "neg":
                self.whole = self.whole.conj().imag.resolve_neg().clone()
        self.seed = rng.getrandbits(32)

    def place(self, world):
        """On all ranks, or on a block of them (a stage of a pipeline), as 1 to 3 dims."""
        rng = self.rng
        ranks = rng.choice([n for n in range(1, world + 1) if world % n == 0 and (n > 1 or world == 1)])
        self.first_rank = ranks * rng.randrange(world // ranks)
        self.mesh = [ranks]
        for _ in range(rng.randint(0, 2)):
            last = self.mesh.pop()
            factor = rng.choice([n for n in range(1, last + 1) if last % n == 0])
            self.mesh += [factor, last // factor]
        dims = self.whole.dim()
        self.placements = [Shard(rng.randrange(dims)) if dims and rng.random() < 0.75 else Replicate() for _ in self.mesh]
        # FSDP over TP, on the same dim.
        for at in range(len(self.mesh) - 1):
            here, after = self.placements[at : at + 2]
            if isinstance(here, Shard) and here == after and rng.random() < 0.5:
                self.placements[at] = _StridedShard(here.dim, split_factor=self.mesh[at + 1])
                break

    def ranks(self, world):
        if self.mesh is None:
            return range(world)
        count = torch.Size(self.mesh).numel()
        return range(self.first_rank, self.first_rank + count)

    def on_rank(self):
        """What the rank of the process group has of it."""
        rng = random.Random(self.seed)
        if self.lazy == "conj":
            return self.whole.conj()
        if self.lazy == "neg":
            return torch.complex(torch.zeros_like(self.whole), -self.whole).conj().imag
        if self.mesh is None:
            expanded = 0 in self.whole.stride() and self.whole.numel() > 1
            tensor = self.whole if expanded else laid_out(rng, self.whole)
            return torch.nn.Parameter(tensor) if self.parameter else tensor
        count = torch.Size(self.mesh).numel()
        mesh = DeviceMesh("cpu", torch.arange(self.first_rank, self.first_rank + count).reshape(self.mesh))
        return self.as_dtensor(mesh, rng)

    def as_dtensor(self, mesh, rng, blank=False):
        shape = self.whole.shape
        size, offset = compute_local_shape_and_global_offset(shape, mesh, self.placements)
        bits = self.whole.view(WIDE[self.whole.dtype.itemsize])
        local = bits[tuple(slice(o, o + s) for o, s in zip(offset, size))].reshape(size).view(self.whole.dtype)
        local = torch.zeros(local.shape, dtype=bits.dtype).view(local.dtype) if blank else laid_out(rng, local.clone() if rng.random() < 0.5 else local)
        strides = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(local, mesh, self.placements, run_check=False, shape=shape, stride=strides)

    def value(self):
        return self.whole.resolve_conj() if self.lazy != "conj" else self.whole.conj().resolve_conj()


# ---- state dicts

WORDS = "weights biases w a b 0 1 12 layers exp_avg x.y Ω 漢字 [0] * ? 'quoted' \"double\" back\\slash".split() + ["", "two words"]


def random_object(rng, depth=0):
    kinds = [
        lambda: rng.choice([None, True, 0, -1, 2**31, 2**80, 0.1, float("inf"), "text", "漢\x00字", b"\x00\xff", 1 - 2j]),
        lambda: [rng.randrange(9) for _ in range(rng.randrange(4))],
        lambda: {rng.randrange(9) for _ in range(3)},
        lambda: torch.Size((2, 3)),
        lambda: (random_bits(rng, torch.float32, [2, 3]), rng.choice(["beside", None])),
        lambda: (laid_out(rng, random_bits(rng, torch.bfloat16, [4, 3])), {"deep": random_bits(rng, torch.int64, [])}),
        lambda: tuple(random_object(rng, depth + 1) for _ in range(rng.randrange(3))) if depth < 2 else (),
        lambda: (collections.OrderedDict(b=1, a=[2]),),
        lambda: ({0: "zero", 1.5: None, (1, 2): "tuple"},),
        lambda: "long " * rng.choice([1, 50, 3000]),
    ]
    return rng.choice(kinds)()


class Object:
    def __init__(self, value, rank=None):
        self.the_value, self.rank = value, rank

    def ranks(self, world):
        return range(world) if self.rank is None else [self.rank]

    def on_rank(self):
        return self.the_value

    def value(self):
        return self.the_value


def random_key(rng):
    return rng.randrange(5) if rng.random() < 0.12 else rng.choice(WORDS) + rng.choice(["", "", str(rng.randrange(20))])


def random_state(rng, world, objects=True, lazy=True, depth=0, parts=None):
    parts = [] if parts is None else parts
    state = collections.OrderedDict() if rng.random() < 0.2 else {}
    for _ in range(rng.randint(1 if depth else 2, 6)):
        key = random_key(rng)
        if any(str(key) == str(other) for other in state) or (key == "" and depth == 0):  # no glob names a key without a letter
            continue
        kind = rng.random()
        if kind < 0.16 and depth < 4:
            state[key] = random_state(rng, world, objects, lazy, depth + 1, parts)
        elif kind < 0.24 and objects:
            elements = [lambda: Part(rng, 1), lambda: Object(random_object(rng)), lambda: random_state(rng, 1, True, lazy, depth + 2), lambda: {}, lambda: [], lambda: [Part(rng, 1)]]
            state[key] = [rng.choice(elements)() for _ in range(rng.randrange(5))]
        elif kind < 0.28 and objects:
            state[key] = rng.choice([{}, collections.OrderedDict(), []])
        elif kind < 0.42 and objects:
            others = [value for value in state.values() if isinstance(value, Object)]
            if others and rng.random() < 0.5:  # one object under several keys, as `betas` of an optimizer's groups
                state[key] = rng.choice(others)
            else:
                state[key] = Object(random_object(rng), rng.randrange(world) if rng.random() < 0.2 else None)
        else:
            state[key] = rng.choice(parts) if parts and rng.random() < 0.08 else Part(rng, world, lazy)  # tied weights
            parts.append(state[key])
    return state


def mapped(state, fn):
    """The same containers; fn of each Part and Object; LEFT_OUT takes the key out of its dict."""
    if isinstance(state, dict):
        made = ((key, mapped(value, fn)) for key, value in state.items())
        return type(state)((key, value) for key, value in made if value is not LEFT_OUT)
    if isinstance(state, list):
        return [mapped(value, fn) for value in state]
    return fn(state)


LEFT_OUT = object()


def whole(state):
    return mapped(state, lambda leaf: leaf.value())


def on_rank(state, rank, world):
    return mapped(state, lambda leaf: leaf.on_rank() if rank in leaf.ranks(world) else LEFT_OUT)


# ---- saves


class AsRank:
    """What runs inside is rank `rank` of `world`."""

    def __init__(self, rank, world):
        self.rank, self.world = rank, world

    def __enter__(self):
        dist.init_process_group("fake", store=FakeStore(), rank=self.rank, world_size=self.world)

    def __exit__(self, *_):
        dist.destroy_process_group()


def save(state, world, make_writer, make_planner):
    """As torch.distributed.checkpoint.save on `world` ranks."""
    writers, planners, plans = [], [], []
    for rank in range(world):
        with AsRank(rank, world):
            writers.append(make_writer())
            planners.append(make_planner())
            planners[rank].set_up_planner(on_rank(state, rank, world), storage_meta=writers[rank].storage_meta(), is_coordinator=rank == 0)
            writers[rank].set_up_storage_writer(rank == 0, rank=rank, use_collectives=True)
            plans.append(writers[rank].prepare_local_plan(planners[rank].create_local_plan()))
    plans, metadata = planners[0].create_global_plan(plans)
    plans = writers[0].prepare_global_plan(plans)
    results = []
    for rank in range(world):
        written = writers[rank].write_data(planners[rank].finish_plan(plans[rank]), planners[rank])
        written.wait()
        results.append(written.value())
    writers[0].finish(metadata, results)


def save_rank_local(state, world, make_writer, make_planner):
    """As with use_collectives=False: each rank for itself, with metadata of its own."""
    for rank in range(world):
        with AsRank(rank, world):
            writer, planner = make_writer(), make_planner()
            planner.set_up_planner(on_rank(state, rank, world), storage_meta=writer.storage_meta(), is_coordinator=True)
            writer.set_up_storage_writer(True, rank=rank, use_collectives=False)
            plans, metadata = planner.create_global_plan([writer.prepare_local_plan(planner.create_local_plan())])
            written = writer.write_data(planner.finish_plan(writer.prepare_global_plan(plans)[0]), planner)
            written.wait()
            writer.finish(metadata, [written.value()])


def random_writer(rng, folder):
    """What makes a FileSystemWriter with random options; the same for each rank."""
    options = {
        "single_file_per_rank": rng.random() < 0.8,
        "sync_files": rng.random() < 0.1,
        "thread_count": rng.choice([1, 1, 2, 4]),
        "per_thread_copy_ahead": rng.choice([1, 10_000_000]),
        "_extensions": [ZStandard()] if rng.random() < 0.12 and HAS_ZSTANDARD else None,
    }
    return lambda: dcp.FileSystemWriter(folder, **options)


def safetensors_writer(folder):
    return lambda: dcp.FileSystemWriter(folder, serialization_format=SerializationFormat.SAFETENSORS)


def random_planner(rng, flatten):
    options = {"flatten_state_dict": flatten, "dedup_save_to_lowest_rank": rng.random() < 0.5}
    return lambda: dcp.DefaultSavePlanner(**options)


def random_hf_writer(rng, folder, state, distributed):
    numbers = {key: rng.randint(1, 3) for key in state} if rng.random() < 0.5 else None
    if numbers:
        in_use = sorted(set(numbers.values()))
        numbers = {key: in_use.index(n) + 1 for key, n in numbers.items()}
    # With several threads torch loses what one of them raises, and its file is empty.
    return lambda: HuggingFaceStorageWriter(str(folder), fqn_to_index_mapping=numbers, thread_count=1, save_distributed=distributed)
