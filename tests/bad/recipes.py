"""Small checkpoints as torch writes them, in parts that can be replaced one by one: bytes of pickles, fields of objects, headers of archives.

`small(folder)` is valid. A case changes one thing of it; what it leaves alone is written truthfully.
"""
import pickle
import shlex
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

# ---- what a case is


def case(problem, *commands, exit=3, says="stderr", creates=(), user="any", stdout=None, limits=None, json=None):
    """A function that breaks a small checkpoint and whose docstring is exactly what dcpctl then says.

    problem   the id in problems.def, None if all is well
    commands  arguments; each must say the same. Without any: COMMANDS of the module
    says      "stderr", stdout being empty; or "findings", the lines of `inspect` or `verify` that begin with "damage:", "warning:" or "note:"
    creates   files that are there afterwards and were not before; nothing else may change
    user      "nobody": without root's rights
    stdout    a file to write to
    limits    resource limits, such as {"FSIZE": 1000}
    json      members of what --json prints of findings
    """

    def mark(function):
        lines = commands or function.__globals__["COMMANDS"]
        function.case = dict(
            problem=problem, commands=[shlex.split(c) for c in lines], exit=exit, says=says, creates=set(creates), user=user, stdout=stdout, limits=limits or {}, json=json or {}
        )
        return function

    return mark


# ---- pickles


class Op(bytes):
    """Opcodes that leave one value on the stack."""


class Pairs(list):
    """A dict whose keys may repeat."""


class Size(tuple):
    """torch.Size, of whatever numbers."""


def glob(name):
    """A global such as torch.float32, never looked up by Python."""
    module, _, attribute = name.rpartition(".")
    return Op(pickle.GLOBAL + f"{module}\n{attribute}\n".encode())


def op(value):
    """The opcodes of a value."""
    if isinstance(value, Op):
        return value
    if value is None:
        return Op(pickle.NONE)
    if isinstance(value, bool):
        return Op(pickle.NEWTRUE if value else pickle.NEWFALSE)
    if isinstance(value, int):
        if -(1 << 31) <= value < 1 << 31:
            return Op(pickle.BININT + struct.pack("<i", value))
        encoded = pickle.encode_long(value)
        return Op(pickle.LONG1 + bytes([len(encoded)]) + encoded)
    if isinstance(value, str):
        encoded = value.encode("utf-8", "surrogateescape")
        return Op(pickle.BINUNICODE + struct.pack("<I", len(encoded)) + encoded)
    if isinstance(value, Size):
        return call("torch.Size", tuple(value))
    if isinstance(value, tuple):
        return Op(pickle.MARK + b"".join(map(op, value)) + pickle.TUPLE)
    if isinstance(value, Pairs):
        return Op(pickle.EMPTY_DICT + pickle.MARK + b"".join(op(k) + op(v) for k, v in value) + pickle.SETITEMS)
    if isinstance(value, dict):
        return op(Pairs(value.items()))
    if isinstance(value, list):
        return Op(pickle.EMPTY_LIST + pickle.MARK + b"".join(map(op, value)) + pickle.APPENDS)
    raise TypeError(type(value))


def call(function, *arguments):
    return Op(glob(function) + op(arguments) + pickle.REDUCE)


def new(cls, state):
    return Op(glob(cls) + pickle.EMPTY_TUPLE + pickle.NEWOBJ + op(state) + pickle.BUILD)


def dump(value, protocol=4):
    return pickle.PROTO + bytes([protocol]) + op(value) + pickle.STOP


# ---- zip archives


@dataclass
class Record:
    """A record of an archive. What is None is the truth; `local` is what the record's own header says differently."""

    name: str
    data: bytes
    method: int = 0
    flags: int = 0x800
    crc: int = None
    size: int = None
    packed: int = None
    at: int = None
    extra: bytes = b""
    local: dict = field(default_factory=dict)

    def true_crc(self):
        return zlib.crc32(self.data) if self.crc is None else self.crc

    def header(self, root, at):
        lie = self.local.get
        name = lie("name", f"{root}/{self.name}").encode()
        start = at + 30 + len(name) + 4
        extra = lie("extra", b"FB" + struct.pack("<H", -start % 64) + b"Z" * (-start % 64))
        numbers = (0, lie("flags", self.flags), lie("method", self.method), 0, self.true_crc(), len(self.data), len(self.data))
        return b"PK\3\4" + struct.pack("<HHHIIIIHH", *numbers, len(name), len(extra)) + name + extra

    def entry(self, root, at):
        name = f"{root}/{self.name}".encode() if root else self.name.encode()
        size = len(self.data) if self.size is None else self.size
        packed = len(self.data) if self.packed is None else self.packed
        at = at if self.at is None else self.at
        numbers = (0, 0, self.flags, self.method, 0, self.true_crc(), packed, size, len(name), len(self.extra), 0, 0, 0, 0, at)
        return b"PK\1\2" + struct.pack("<HHHHIIIIHHHHHII", *numbers) + name + self.extra


@dataclass
class Archive:
    """A torch.save archive. `end` and `end64` are what its end records say differently; end64 None: it has no zip64 one."""

    records: list
    root: str = "archive"
    end: dict = field(default_factory=dict)
    end64: dict = None
    before: bytes = b""  # bytes that come first

    def __getitem__(self, name):
        return next(r for r in self.records if r.name == name)

    def bytes(self):
        body, directory = self.before, b""
        for record in self.records:
            at = len(body)
            body += record.header(self.root, at) + record.data
            directory += record.entry(self.root, at)
        truth = {"entries": len(self.records), "bytes": len(directory), "at": len(body), "disk": 0}
        tail = b""
        if self.end64 is not None:
            lie = {**truth, "here": truth["entries"], "mark": b"PK\6\6", "end64_at": len(body) + len(directory), "parts": 1, **self.end64}
            numbers = (44, 0, 0, lie["disk"], 0, lie["here"], lie["entries"], lie["bytes"], lie["at"])
            tail = lie["mark"] + struct.pack("<QHHIIQQQQ", *numbers) + b"PK\6\7" + struct.pack("<IQI", 0, lie["end64_at"], lie["parts"])
        lie = {**truth, "here": truth["entries"], **self.end}
        return body + directory + tail + b"PK\5\6" + struct.pack("<HHHHIIH", lie["disk"], 0, lie["here"], lie["entries"], lie["bytes"], lie["at"], 0)


def deflate(record):
    """As a zip tool packs it: size and CRC are those of the content."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    record.crc, record.size = record.true_crc(), len(record.data)
    record.data = packer.compress(record.data) + packer.flush()
    record.method = 8


# ---- items: a tensor, an object


def archive(data_pkl, *storages):
    """What torch.save writes for this data.pkl, its storages named 0, 1 and so on."""
    records = [Record("data.pkl", data_pkl), Record("byteorder", b"little")]
    records += [Record(f"data/{n}", data) for n, data in enumerate(storages)]
    return Archive([*records, Record("version", b"3\n")])


def storage(cls="torch.FloatStorage", key="0", count=0, kind="storage"):
    return Op(op((kind, glob(cls), key, "cpu", count)) + pickle.BINPERSID)


# ---- torch.save before 1.6

MAGIC = 0x1950A86A20F9469CFC6C
SYS_INFO = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}


def old_storage(cls="torch.FloatStorage", key="0", count=0, view=None, kind="storage"):
    return Op(op((kind, glob(cls), key, "cpu", count, view)) + pickle.BINPERSID)


def old_file(state, storages={}, keys=None, protocol=1001, info=SYS_INFO, counts={}):
    """`storages` by key; each has four-byte elements, unless `counts` says how many."""
    parts = [pickle.dumps(MAGIC, 2), dump(protocol, 2), dump(info, 2), dump(state, 2), dump(list(storages) if keys is None else keys, 2)]
    return b"".join(parts) + b"".join(struct.pack("<q", counts.get(key, len(data) // 4)) + data for key, data in storages.items())


def row_major(shape):
    strides = [1] * len(shape)
    for d in reversed(range(len(shape) - 1)):
        strides[d] = strides[d + 1] * max(shape[d + 1], 1)
    return tuple(strides)


def rebuild(stored, shape, strides=None, offset=0, rest=(False, call("collections.OrderedDict")), function="torch._utils._rebuild_tensor_v2"):
    return call(function, stored, offset, tuple(shape), row_major(shape) if strides is None else strides, *rest)


def tensor_item(values, shape, **lies):
    """The item of a float32 tensor; `lies` are arguments of rebuild()."""
    data = struct.pack(f"<{len(values)}f", *values)
    return archive(dump(rebuild(lies.pop("stored", storage(count=len(values))), shape, **lies), 2), data)


# ---- zstd, without a compressor


def zstd(*blocks, window=0):
    """One frame: blocks are bytes, stored as they are, or (byte, times), which is a bomb of four bytes each 128 KiB."""
    out = [b"\x28\xb5\x2f\xfd\0", bytes([(window or 21 - 10) << 3])]
    for n, block in enumerate(blocks):
        raw = isinstance(block, bytes)
        size, kind = (len(block), 0) if raw else (block[1], 1)
        out += [struct.pack("<I", size << 3 | kind << 1 | (n + 1 == len(blocks)))[:3], block if raw else block[0]]
    return b"".join(out)


def data_pkl(c, value):
    """`model.w` in an item whose data.pkl holds `value`."""
    c.item("model.w").data = archive(dump(value, 2), bytes(24))


def compressed(c, key, data):
    """The item of a checkpoint as a zstd frame."""
    c.item(key).data = data
    c.item(key).fields["transform_descriptors"] = ["stream.zstd/1"]


# ---- checkpoints

METADATA = "torch.distributed.checkpoint.metadata."
STORAGE_INFO = "torch.distributed.checkpoint.filesystem._StorageInfo"


def chunk(offsets, sizes):
    return new(METADATA + "ChunkStorageMetadata", {"offsets": offsets, "sizes": sizes})


def properties(dtype="torch.float32", layout="torch.strided"):
    enum = call(METADATA + "_MEM_FORMAT_ENCODING", 0)
    return new(METADATA + "TensorProperties", (glob(dtype), call("torch.serialization._get_layout", layout), False, enum, False))


@dataclass
class Tensor:
    """An entry of state_dict_metadata. Chunks are (offsets, sizes), or opcodes."""

    size: tuple
    chunks: list
    dtype: str = "torch.float32"
    layout: str = "torch.strided"
    fields: dict = field(default_factory=dict)  # said differently

    def op(self):
        chunks = [c if isinstance(c, Op) else chunk(Size(c[0]), Size(c[1])) for c in self.chunks]
        truth = {"properties": properties(self.dtype, self.layout), "size": Size(self.size), "chunks": chunks}
        return new(METADATA + "TensorStorageMetadata", {**truth, **self.fields})


@dataclass
class Item:
    """An entry of storage_data and the bytes it is about; offsets None: a byte item."""

    key: str
    offsets: tuple
    file: str
    data: object
    index: dict = field(default_factory=dict)   # fields of MetadataIndex, said differently
    fields: dict = field(default_factory=dict)  # fields of _StorageInfo, said differently

    def op(self, at, length):
        index = {"fqn": self.key, "index": None, **({} if self.offsets is None else {"offset": Size(self.offsets)}), **self.index}
        info = {"relative_path": self.file, "offset": at, "length": length, **self.fields}
        return new(METADATA + "MetadataIndex", index), new(STORAGE_INFO, info)


@dataclass
class Checkpoint:
    folder: Path
    tensors: dict
    blobs: list
    items: list
    paths: object
    fields: dict = field(default_factory=dict)  # of Metadata, said differently
    root: Op = None                             # instead of the Metadata object
    metadata: bytes = None                      # instead of the pickle
    written: bool = False

    def item(self, key, nth=0):
        return [i for i in self.items if i.key == key][nth]

    def files(self):
        """What lies in the data files, and storage_data, which says where."""
        files, entries = {}, Pairs()
        for item in self.items:
            data = item.data.bytes() if isinstance(item.data, Archive) else item.data
            entries.append(item.op(len(files.setdefault(item.file, b"")), len(data)))
            files[item.file] += data
        return files, entries

    def pickle(self):
        blob = Op(glob(METADATA + "BytesStorageMetadata") + pickle.EMPTY_TUPLE + pickle.NEWOBJ)
        keys = {**{k: t.op() for k, t in self.tensors.items()}, **{k: blob for k in self.blobs}}
        truth = {"state_dict_metadata": keys, "planner_data": self.paths, "storage_data": self.files()[1], "storage_meta": None, "version": "1.0.0"}
        return dump(self.root or new(METADATA + "Metadata", {**truth, **self.fields}))

    def write(self):
        self.written = True
        self.folder.mkdir()
        for name, data in self.files()[0].items():
            (self.folder / name).write_bytes(data)
        (self.folder / ".metadata").write_bytes(self.pickle() if self.metadata is None else self.metadata)


def small(folder):
    """`model.w` float32 [4, 3] in two rows a file, `model.b` float32 [2], and the object `step`."""
    return Checkpoint(
        folder,
        {"model.w": Tensor((4, 3), [((0, 0), (2, 3)), ((2, 0), (2, 3))]), "model.b": Tensor((2,), [((0,), (2,))])},
        ["step"],
        [
            Item("model.w", (0, 0), "__0_0.distcp", tensor_item(range(6), (2, 3))),
            Item("model.b", (0,), "__0_0.distcp", tensor_item([7, 8], (2,))),
            Item("step", None, "__0_0.distcp", archive(dump(17, 2))),
            Item("model.w", (2, 0), "__1_0.distcp", tensor_item(range(6, 12), (2, 3))),
        ],
        {"model.w": ("model", "w"), "model.b": ("model", "b"), "step": ("step",)},
    )
