"""What each case saves. Every rank runs the function in the same folder and leaves `ckpt/` there."""
import collections
import datetime
import decimal
import enum
import io
import pathlib
import pickle
import sys
import uuid
import zipfile

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import metadata as dcp_metadata
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, get_state_dict
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import describe
import models

CASES = {}  # name: (ranks, function, torch version)


def case(world_size, torch_version="2.15.0"):
    def register(function):
        CASES[function.__name__] = (world_size, function, torch_version)
        return function

    return register


def save(state, **options):
    planner = options.pop("planner", None)
    dcp.save(state, storage_writer=dcp.FileSystemWriter("ckpt", **options), planner=planner)


def filled(*shape, dtype=torch.float32, start=0):
    """Elements start, start+1, ...: a misplaced one shows."""
    count = 1
    for size in shape:
        count *= size
    return torch.arange(start, start + count).to(dtype).reshape(shape)


def one_step(model, optimizer, example):
    model(example).float().pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def sharded(model, *parts):
    """FSDP2 over all ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (*parts, model):
        fully_shard(part, mesh=mesh)
    return model


# ---- trainers


@case(4)
def fsdp2_ws4():
    model = models.Transformer()
    sharded(model, *model.layers.values())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    one_step(model, optimizer, torch.randint(67, (2, 9)))
    model_state, optimizer_state = get_state_dict(model, optimizer)
    train_state = {"step": 1, "ntokens_seen": 18 * dist.get_world_size(), "log_steps": [1], "global_avg_losses": [4.25]}
    save({"model": model_state, "optimizer": optimizer_state, "train_state": train_state})


class AppState(dcp.stateful.Stateful):
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optim": optimizer}

    def load_state_dict(self, state):
        raise NotImplementedError


@case(2)
def app_state():
    model = sharded(models.Toy())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    one_step(model, optimizer, torch.rand(4, 8))
    save({"app": AppState(model, optimizer)})


@case(2)
def titan_like():
    """torchtitan: the model's keys at the top, the optimizer flattened, a pickled data loader for each rank."""
    model = sharded(models.Toy())
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-4)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    one_step(model, optimizer, torch.rand(4, 8))
    scheduler.step()
    rank = dist.get_rank()
    save(
        {
            **model.state_dict(),
            "optimizer": get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True)),
            "lr_scheduler": {"last_epoch": scheduler.last_epoch},
            "train_state": {"step": torch.tensor(1, dtype=torch.int32), "ntokens_seen": torch.tensor(64)},
            "dataloader": {f"dp_rank_{rank}": pickle.dumps({"_sample_idx": 4 + rank, "_token_buffer": [200, 13]}), "world_size": 2},
        }
    )


@case(2)
def lightning_like():
    model = sharded(models.Lit())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    one_step(model, optimizer, torch.rand(4, 8))
    save(
        {
            "state_dict": model.state_dict(),
            "optimizer_0": get_optimizer_state_dict(model, optimizer),
            "epoch": 3,
            "global_step": 17,
        }
    )


@case(3)
def fsdp1_mnist():
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardedStateDictConfig, StateDictType
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

    def wrap(module, recurse, nonwrapped_numel):
        return size_based_auto_wrap_policy(module, recurse, nonwrapped_numel, min_num_params=1000)

    model = FullyShardedDataParallel(models.Mnist(), auto_wrap_policy=wrap, device_id=torch.device("cpu"), use_orig_params=True)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    one_step(model, optimizer, torch.rand(2, 1, 28, 28))
    FullyShardedDataParallel.set_state_dict_type(model, StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig())
    optimizer_state = FullyShardedDataParallel.optim_state_dict(model, optimizer)
    save({"model": model.state_dict(), "optimizer": optimizer_state, "epoch": 1})


# ---- layouts


@case(4)
def tp_2x2():
    from torch.distributed.device_mesh import init_device_mesh

    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    line = init_device_mesh("cpu", (4,))
    on_grid = lambda tensor, *placements: distribute_tensor(tensor, grid, placements)
    # A DTensor whose local part is a transposed view: its items are stored column-major.
    local = filled(6, 3, start=100 * dist.get_rank()).t()
    save(
        {
            "grid": on_grid(filled(6, 8), Shard(0), Shard(1)),
            "grid_swapped": on_grid(filled(6, 8), Shard(1), Shard(0)),
            "grid_uneven": on_grid(filled(5, 7), Shard(0), Shard(1)),
            "grid_1x1": on_grid(filled(1, 1), Shard(0), Shard(1)),
            "both_on_rows": on_grid(filled(10, 3), Shard(0), Shard(0)),
            "rows_replicated": on_grid(filled(7, 2), Shard(0), Replicate()),
            "columns_replicated": on_grid(filled(3, 9, dtype=torch.bfloat16), Replicate(), Shard(1)),
            "columns": distribute_tensor(filled(5, 13), line, [Shard(1)]),
            "middle": distribute_tensor(filled(2, 6, 3, dtype=torch.int64), line, [Shard(1)]),
            "last": distribute_tensor(filled(2, 3, 10, dtype=torch.float64), line, [Shard(2)]),
            "empty_shards": distribute_tensor(filled(2, 3), line, [Shard(0)]),
            "empty_shard_1d": distribute_tensor(filled(5, dtype=torch.float16), line, [Shard(0)]),
            "transposed": DTensor.from_local(local, line, [Shard(0)], shape=torch.Size((12, 6)), stride=(6, 1)),
            "replicated": on_grid(filled(4), Replicate(), Replicate()),
            "scalar": on_grid(torch.tensor(7.5), Replicate(), Replicate()),
        }
    )


@case(2)
def threads():
    """Several files for each rank."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2,))
    state = {f"w{i}": distribute_tensor(filled(3 + i, 5, start=i), mesh, [Shard(0)]) for i in range(6)}
    save({**state, "step": 12, "names": ["a", "b"]}, thread_count=3)


@case(2)
def zstd():
    from torch.distributed.checkpoint._extension import ZStandard
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2,))
    save(
        {
            "w": distribute_tensor(filled(33, 64), mesh, [Shard(0)]),
            "columns": distribute_tensor(filled(9, 7, dtype=torch.bfloat16), mesh, [Shard(1)]),
            "scalar": torch.tensor(3),
            "empty": torch.empty(0, 4),
            "epoch": 5,
            "notes": ["compressed", {"inner": (1, 2.5)}],
        },
        _extensions=[ZStandard()],
    )


@case(1)
def empty():
    """No key at all: a data file of 0 bytes that nothing refers to."""
    save({})


@case(1)
def noflatten():
    from torch.distributed.checkpoint import DefaultSavePlanner

    state = {"w": filled(4, 3), "nested": {"deep": {"t": filled(5), "n": 1}}, "dots.in.key": filled(2), "epoch": 2}
    save(state, planner=DefaultSavePlanner(flatten_state_dict=False))


@case(1)
def nocrc():
    torch.serialization.set_crc32_options(False)
    save({"w": filled(16, 4), "b": filled(3, dtype=torch.int16), "step": 4})


@case(1)
def quantized():
    per_tensor = torch.quantize_per_tensor(filled(3, 4), 0.5, 3, torch.qint8)
    unsigned = torch.quantize_per_tensor(filled(6), 0.25, 0, torch.quint8)
    scales, zeros = torch.tensor([0.5, 0.25]), torch.tensor([1, 2])
    per_channel = torch.quantize_per_channel(filled(2, 5), scales, zeros, 0, torch.qint8)
    save({"per_tensor": per_tensor, "unsigned": unsigned, "per_channel": per_channel, "plain": filled(2)})


# ---- values


class Color(enum.Enum):
    RED = 1


def odd_tensors():
    bits = torch.arange(256, dtype=torch.uint8)
    dtypes = """float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64 complex64 complex128""".split()
    yield from ((f"dtype.{name}", filled(3, 5, dtype=getattr(torch, name))) for name in dtypes)
    for name in ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"]:
        yield f"dtype.{name}", bits.clone().view(getattr(torch, name)).reshape(16, 16)
    yield "dtype.complex32", filled(8, dtype=torch.float16).view(torch.complex32)
    yield "dtype.bcomplex32", filled(8, dtype=torch.bfloat16).view(torch.bcomplex32)

    yield "scalar", torch.tensor(-2.5)
    yield "scalar_bool", torch.tensor(True)
    yield "empty", torch.empty(0)
    yield "empty_2d", torch.empty(3, 0, 2, dtype=torch.int32)
    yield "transposed", filled(3, 5).t()
    yield "permuted", filled(2, 3, 4).permute(2, 0, 1)
    yield "channels_last", filled(2, 3, 4, 5).to(memory_format=torch.channels_last)
    yield "expanded", filled(3, 1).expand(3, 4)
    yield "slice", filled(6, 6)[1:4, 2:5]
    yield "diagonal", filled(4, 4).diagonal()
    yield "conj", filled(4, dtype=torch.complex64).add(1j).conj()
    yield "conj_t", filled(2, 3, dtype=torch.complex128).add(2j).conj().t()
    yield "neg", (filled(3, dtype=torch.complex64) * (1 + 2j)).conj().imag
    yield "parameter", torch.nn.Parameter(filled(3))
    yield "nan", torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])
    tied = filled(2, 2)
    yield "tied_a", tied
    yield "tied_b", tied


def odd_objects():
    cycle = [1]
    cycle.append(cycle)
    shared = ["shared"]
    yield from {
        "none": None,
        "true": True,
        "zero": 0,
        "negative": -1,
        "i32": -(2**31),
        "i64": 2**63 - 1,
        "huge": -(2**200),
        "float": 0.1,
        "inf": float("-inf"),
        "nan": float("nan"),
        "str": "plain",
        "str_odd": "quote ' \" backslash \\ newline \n é 漢 😀 \x00",
        "str_long": "long " * 100,
        "bytes": bytes(range(256)),
        "no_bytes": b"",
        "bytearray": bytearray(b"\x80\xff"),
        "list": [1, [2, [3, []]], "x"],
        "no_list": [],
        "tuple": (1, (2,), ()),
        "tuple_with_tensors": (filled(2), [filled(3, dtype=torch.bfloat16), "between"], filled(2, start=9)),
        "set": {3, "a"},
        "frozenset": frozenset({1}),
        "range": range(1, 9, 2),
        "complex": 1 - 2j,
        "slice": slice(1, None, 2),
        "decimal": decimal.Decimal("1.10"),
        "datetime": datetime.datetime(2026, 1, 2, 3, 4, 5),
        "path": pathlib.PurePosixPath("a/b"),
        "uuid": uuid.UUID(int=5),
        "dtype": torch.bfloat16,
        "size": torch.Size((2, 3)),
        "device": torch.device("cpu"),
        "np_scalar": numpy.float32(1.5),
        "np_bool": numpy.bool_(True),
        "np_array": numpy.arange(6, dtype=">i2").reshape(2, 3),
        "np_fortran": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        "ordered": (collections.OrderedDict(b=1, a=2),),
        "default": (collections.defaultdict(list, {"k": [1]}),),
        "counter": (collections.Counter("abca"),),
        "deque": collections.deque([1, 2], maxlen=3),
        "int_keys": ({0: "zero", 1.5: "float", (1, 2): "tuple", None: "none"},),
        "cycle": (cycle,),
        "shared": (shared, shared),
        "dataclass": describe.Point(1, filled(2, 2)),
        "enum": Color.RED,
        "bytesio": io.BytesIO(b"inside"),
        "nested_zip": (lambda f: (torch.save({"t": filled(2)}, f), f)[1])(io.BytesIO()),
        "function": torch.nn.functional.relu,
        "generator_state": torch.Generator().manual_seed(1).initial_seed(),
    }.items()


@case(1)
def plain_odd():
    save(
        {
            **dict(odd_tensors()),
            "py": dict(odd_objects()),
            "tensors_in_lists": [filled(2), [filled(1), 7], {"in": filled(2, 2)}],
            "0": {0: filled(2), "1": {2: filled(3), "x": "y"}},
            "a.b.c": filled(1),
            "a": {"b.d": filled(2), "b": {"e": filled(3)}},
            "ordered_dict": collections.OrderedDict(z=filled(1), a=collections.OrderedDict(n=1)),
            "empty_dict_vanishes": {},
            "": filled(2),
            "quotes'\"\\": filled(2),
            "line\nbreak\tand \x1b[31mcolour": filled(2),
            "schlüssel/漢字 😀": filled(2),
            "long" * 80: filled(1),
        }
    )


# ---- made by hand, since no torch writes them


def write_by_hand(entries, planner_data):
    """entries: {key: (metadata dtype, shape, item bytes)}, all whole tensors in one file."""
    folder = pathlib.Path("ckpt")
    folder.mkdir()
    metadata = dcp_metadata.Metadata({}, planner_data, {})
    with open(folder / "__0_0.distcp", "wb") as f:
        for key, (dtype, shape, item) in entries.items():
            shape, zeros = torch.Size(shape), torch.Size([0] * len(shape))
            chunks = [dcp_metadata.ChunkStorageMetadata(zeros, shape)]
            metadata.state_dict_metadata[key] = dcp_metadata.TensorStorageMetadata(dcp_metadata.TensorProperties(dtype), shape, chunks)
            metadata.storage_data[dcp_metadata.MetadataIndex(key, zeros, 0)] = _StorageInfo("__0_0.distcp", f.tell(), len(item))
            f.write(item)
    with open(folder / ".metadata", "wb") as f:
        pickle.dump(metadata, f)


def item_of(tensor):
    f = io.BytesIO()
    torch.save(tensor, f)
    return f.getvalue()


@case(1)
def float_meta_differs():
    """The dtype in .metadata is not the one stored: dcp.load converts."""
    values = torch.tensor([1.0, 1.00390625, -3.14159, 65504.0, 1e-8, float("inf")])
    pairs = {
        "stored_bf16": (torch.float32, torch.bfloat16),
        "stored_f32": (torch.bfloat16, torch.float32),
        "stored_f16": (torch.float64, torch.float16),
        "same": (torch.float32, torch.float32),
    }
    entries = {key: (meta, values.shape, item_of(values.to(stored))) for key, (meta, stored) in pairs.items()}
    entries["stored_i32"] = (torch.int64, (3,), item_of(torch.tensor([1, -2, 3], dtype=torch.int32)))
    write_by_hand(entries, {key: (key,) for key in entries})


def big_endian_item(tensor, width):
    """As a big-endian machine would write it; `width` is that of what gets swapped: half of a complex element."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(item_of(tensor))) as source, zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("/byteorder"):
                content = b"big"
            elif "/data/" in name:
                content = numpy.frombuffer(content, f"u{width}").byteswap().tobytes()
            elif name.rsplit("/", 1)[1] in (".format_version", ".storage_alignment", "serialization_id"):
                continue  # they promise torch's own layout
            target.writestr(zipfile.ZipInfo(name), content)
    return made.getvalue()


@case(1)
def big_endian():
    tensors = {
        "f32": (filled(3, 5), 4),
        "f64_transposed": (filled(4, 2, dtype=torch.float64).t(), 8),
        "bf16": (filled(7, dtype=torch.bfloat16), 2),
        "i64": (filled(2, 2, dtype=torch.int64), 8),
        "c64": (filled(3, dtype=torch.complex64) + 2j, 4),
        "u8": (filled(9, dtype=torch.uint8), 1),
        "scalar": (torch.tensor(1.25), 4),
    }
    assert sys.byteorder == "little"
    write_by_hand({key: (t.dtype, t.shape, big_endian_item(t, w)) for key, (t, w) in tensors.items()}, None)


@case(2, torch_version="2.6.0")
def torch26():
    """Five fields in TensorProperties, items without .format_version."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2,))
    save(
        {
            "model": {"w": distribute_tensor(filled(7, 3), mesh, [Shard(0)]), "bias": filled(3, dtype=torch.float8_e5m2)},
            "lr_scheduler": {"last_epoch": 3, "base_lrs": [0.1]},
            "epoch": 2,
        }
    )


@case(1)
def megatron_like():
    """As Megatron-Core's planner leaves it: nothing flattened, and the shapes of tensors that its optimizer holds flat in an attribute."""
    flat = {
        "optimizer.state.exp_avg.decoder.weight": filled(2, 1, 12),  # rows of [6, 4] in two pieces
        "optimizer.state.exp_avg.decoder.bias": filled(2, 3),        # [6] in two pieces
        "optimizer.state.exp_avg.columns": filled(1, 2, 12),         # columns of [6, 4] in two pieces: no view
    }
    save({**flat, "decoder.weight": filled(6, 4), "decoder._extra_state": io.BytesIO(b"extra")}, planner=dcp.DefaultSavePlanner(flatten_state_dict=False))
    path = pathlib.Path("ckpt/.metadata")
    metadata = pickle.loads(path.read_bytes())
    shape = "nd_reformulated_orig_global_shape"
    metadata.mcore_data = {key: {shape: (6,) if key.endswith("bias") else (6, 4)} for key in flat} | {"decoder.weight": {}}
    path.write_bytes(pickle.dumps(metadata))
