"""Checkpoints of any size whose data files are holes: pages are drawn from metadata and from the sizes of files."""
import pickle
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bad"))

from recipes import METADATA, STORAGE_INFO, glob, op  # noqa: E402


class Shared:
    """Opcodes that put each value on the stack: the first time with a memo, then from it. 10^6 chunks are 10^8 bytes instead of 10^9."""

    def __init__(self):
        self.gets = {}

    def __call__(self, value, encode=op):
        """`encode(value)`, when it comes for the first time."""
        if value in self.gets:
            return self.gets[value]
        number = struct.pack("<I", len(self.gets))
        self.gets[value] = pickle.LONG_BINGET + number
        return encode(value) + pickle.LONG_BINPUT + number


def metadata(tensors, item_bytes):
    """`tensors`: (key, shape, dtype, [(offsets, sizes, file)]). Returns the pickle and the bytes of each file."""
    once = Shared()
    name = lambda text: once(text, glob if "." in text else op)
    plain = {}  # the tuples of numbers met so far

    def size(numbers):
        if numbers not in plain:
            plain[numbers] = pickle.MARK + b"".join(map(op, numbers)) + pickle.TUPLE + pickle.TUPLE1 + pickle.REDUCE
        return name("torch.Size") + plain[numbers]

    def new(cls, *fields):
        return name(cls) + pickle.EMPTY_TUPLE + pickle.NEWOBJ + pickle.EMPTY_DICT + pickle.MARK + b"".join([name(k) + v for k, v in fields]) + pickle.SETITEMS + pickle.BUILD

    def text(value):
        return once(("text", value), lambda _: op(value))

    keys, storage, at, cuts = [], [], {}, {}
    for key, shape, dtype, chunks in tensors:
        layout = name("torch.serialization._get_layout") + text("torch.strided") + pickle.TUPLE1 + pickle.REDUCE
        memory = name(METADATA + "_MEM_FORMAT_ENCODING") + op(0) + pickle.TUPLE1 + pickle.REDUCE
        properties = name(METADATA + "TensorProperties") + pickle.EMPTY_TUPLE + pickle.NEWOBJ + pickle.MARK + name(dtype) + layout + op(False) + memory + op(False) + pickle.TUPLE + pickle.BUILD
        fields = [("properties", properties), ("size", size(shape))]  # in the order in which they are written: what comes first has the memo
        cut = tuple((o, s) for o, s, _ in chunks)
        boxes = cuts.get(cut) or b"".join([new(METADATA + "ChunkStorageMetadata", ("offsets", size(o)), ("sizes", size(s))) for o, s in cut])
        cuts[cut] = boxes if keys else b""  # the first of all has the names
        keys.append(text(key) + new(METADATA + "TensorStorageMetadata", *fields, ("chunks", pickle.EMPTY_LIST + pickle.MARK + boxes + pickle.APPENDS)))
        for offsets, sizes, file in chunks:
            begin = at.get(file, 0)
            at[file] = begin + item_bytes(sizes)
            storage.append(new(METADATA + "MetadataIndex", ("fqn", text(key)), ("offset", size(offsets)), ("index", op(None))))
            storage.append(new(STORAGE_INFO, ("relative_path", text(file)), ("offset", op(begin)), ("length", op(at[file] - begin))))
    planner = pickle.EMPTY_DICT + pickle.MARK + b"".join(text(k) + op((k,)) for k, *_ in tensors) + pickle.SETITEMS
    dicts = [("state_dict_metadata", keys), ("storage_data", storage)]
    fields = [(n, pickle.EMPTY_DICT + pickle.MARK + b"".join(parts) + pickle.SETITEMS) for n, parts in dicts]
    whole = new(METADATA + "Metadata", *fields, ("planner_data", planner), ("storage_meta", op(None)))
    return pickle.PROTO + b"\4" + whole + pickle.STOP, at


def write(folder, tensors, missing=()):
    def item_bytes(sizes):
        count = 1
        for n in sizes:
            count *= n
        return 1024 + 2 * count

    content, files = metadata(tensors, item_bytes)
    folder.mkdir(parents=True)
    (folder / ".metadata").write_bytes(content)
    for name, size in files.items():
        if name not in missing:
            with open(folder / name, "wb") as out:
                out.truncate(size)  # a hole
    return folder


def rows(shape, ranks, name=lambda r: f"__{r}_0.distcp"):
    """Shard(0) as FSDP2 cuts it."""
    n, rest = shape[0], tuple(shape[1:])
    each = -(-n // ranks)
    chunks = []
    for r in range(ranks):
        begin, end = min(r * each, n), min((r + 1) * each, n)
        chunks.append(((begin, *[0] * len(rest)), (end - begin, *rest), name(r)))
    return chunks


def grid(shape, cuts, name=lambda r: f"__{r}_0.distcp"):
    """`cuts`: sizes along each of two dims, perhaps unlike."""
    chunks, rank, top = [], 0, 0
    for h in cuts[0]:
        left = 0
        for w in cuts[1]:
            chunks.append(((top, left), (h, w), name(rank)))
            rank, left = rank + 1, left + w
        top += h
    return chunks


def bricks(tensors, courses):
    """Each course is cut at other places: no grid."""
    made = []
    for n in range(tensors):
        chunks = []
        for y in range(courses):
            ends = [(1_000_000 * i + 977 * (13 * y + 7 * i + n) % 6000) // courses for i in range(1, courses)] + [1_000_000]
            chunks += [((10_000 * y, begin), (10_000, end - begin), f"__{len(chunks) + i}_0.distcp") for i, (begin, end) in enumerate(zip([0] + ends, ends))]
        made.append((f"model.layers.{n}.brick.weight", (10_000 * courses, 1_000_000), "torch.float32", chunks))
    return made


LAYER = {"attention.wq.weight": (4096, 4096), "attention.wk.weight": (1024, 4096), "attention.wv.weight": (1024, 4096), "attention.wo.weight": (4096, 4096),
         "feed_forward.w1.weight": (14336, 4096), "feed_forward.w2.weight": (4096, 14336), "feed_forward.w3.weight": (14336, 4096),
         "attention_norm.weight": (4096,), "ffn_norm.weight": (4096,)}  # fmt: skip


def llama(layers, ranks, optimizer=True, cut=rows):
    shapes = {"tok_embeddings.weight": (128256, 4096)}
    shapes |= {f"layers.{i}.{n}": s for i in range(layers) for n, s in LAYER.items()}
    shapes |= {"norm.weight": (4096,), "output.weight": (128256, 4096)}
    tensors = [(f"model.{n}", s, "torch.bfloat16", cut(s, ranks)) for n, s in shapes.items()]
    if optimizer:
        for n, s in shapes.items():
            tensors += [(f"optimizer.state.{n}.{slot}", s, "torch.float32", cut(s, ranks)) for slot in ("exp_avg", "exp_avg_sq")]
    return tensors


def many(tensors, ranks):
    return [(f"model.layers.{i // 10}.part.{i % 10}.weight", (1024 + 64 * (i % 10), 256), "torch.bfloat16", rows((1024 + 64 * (i % 10), 256), ranks)) for i in range(tensors)]


def uneven(ranks_down=3, ranks_across=4):
    """2-D, uneven; norms are whole, each saved by one rank."""
    cuts = ([3000, 3000, 2192], [1500, 1100, 900, 596])
    tensors = []
    for i in range(6):
        tensors.append((f"model.blocks.{i}.mlp.weight", (8192, 4096), "torch.float32", grid((8192, 4096), cuts)))
        tensors.append((f"model.blocks.{i}.attn.weight", (8192, 4096), "torch.bfloat16", grid((8192, 4096), ([8192], cuts[1]))))
        tensors.append((f"model.blocks.{i}.norm.weight", (4096,), "torch.float32", [((0,), (4096,), f"__{i % 12}_0.distcp")]))
        tensors.append((f"optimizer.state.blocks.{i}.mlp.weight.exp_avg", (8192, 4096), "torch.float32", grid((8192, 4096), cuts)))
    return tensors
