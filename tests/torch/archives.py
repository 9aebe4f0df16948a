#!/usr/bin/env python3
"""archives.py DCPCTL RECORDS FIRST COUNT: made-up archives of seeds FIRST..; what dcpctl reads is what torch and Python's zipfile read. RECORDS: the
program of archive_records.cc."""
import pickle
import random
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch

from case import check, finish

# ---- made-up archives

ROOT = b"archive/"
ENDS = b"PK\5\6"


@dataclass
class Record:
    """One record; what is None is the truth. `local` is what its own header says differently."""

    name: bytes
    data: bytes
    method: int = 0
    flags: int = 0
    crc: int = None
    size: int = None
    packed: int = None
    at: int = None
    disk: int = 0
    attributes: int = 0
    extra: bytes = b""
    comment: bytes = b""
    pad: bytes = b""
    local: dict = field(default_factory=dict)

    def body(self):
        if self.method != 8:
            return self.data
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        return packer.compress(self.data) + packer.flush()


@dataclass
class Archive:
    records: list
    front: bytes = b""  # before the first record; counted in positions
    shift: int = 0      # added to all positions
    gap: bytes = b""    # after the directory
    zip64: dict = None  # what its records say differently; None: there are none
    end: dict = field(default_factory=dict)
    comment: bytes = b""
    tail: bytes = b""
    reverse: bool = False  # the directory

    def bytes(self):
        out, entries = bytearray(self.front), []
        for r in self.records:
            body, at = r.body(), len(out) + self.shift
            size, packed = len(r.data) if r.size is None else r.size, len(body) if r.packed is None else r.packed
            crc = zlib.crc32(r.data) if r.crc is None else r.crc
            name, extra = r.local.get("name", r.name), r.local.get("extra", r.pad)
            numbers = 20, r.local.get("flags", r.flags), r.local.get("method", r.method), 0, crc, packed & 0xFFFFFFFF, size & 0xFFFFFFFF
            out += r.local.get("mark", b"PK\3\4") + struct.pack("<HHHIIIIHH", *numbers, len(name), len(extra)) + name + extra + body
            numbers = 20, 20, r.flags, r.method, 0, crc, packed, size, len(r.name), len(r.extra), len(r.comment), r.disk, 0, r.attributes, (at if r.at is None else r.at) & 0xFFFFFFFF
            entries.append(b"PK\1\2" + struct.pack("<HHHHIIIIHHHHHII", *numbers) + r.name + r.extra + r.comment)
        directory = b"".join(reversed(entries) if self.reverse else entries)
        lie = {"n": len(entries), "bytes": len(directory), "at": len(out) + self.shift, "disk": 0, **self.end}
        lie = {"here": lie["n"], **lie}
        out += directory + self.gap
        if self.zip64 is not None:
            wide = {**lie, "length": 44, "mark": b"PK\6\6", "end64": len(out) + self.shift, "parts": 1, **self.zip64}
            wide = {"where": wide["disk"], **wide}
            out += wide["mark"] + struct.pack("<QHHIIQQQQ", wide["length"], 45, 45, wide["disk"], 0, wide["here"], wide["n"], wide["bytes"], wide["at"] % (1 << 64))
            out += wide.get("between", b"") + b"PK\6\7" + struct.pack("<IQI", wide["where"], wide["end64"] % (1 << 64), wide["parts"])
        said = lie.get("comment", len(self.comment))
        out += ENDS + struct.pack("<HHHHIIH", lie["disk"], 0, lie["here"], lie["n"], lie["bytes"] & 0xFFFFFFFF, lie["at"] & 0xFFFFFFFF, said)
        return bytes(out) + self.comment + self.tail


def small(rng):
    """What torch.save makes, in plain zip."""
    mark = bytes([rng.randrange(256)])
    records = [Record(ROOT + b"data.pkl", pickle.dumps(rng.randrange(1000), 2)), Record(ROOT + b"byteorder", b"little")]
    records += [Record(ROOT + b"data/%d" % n, mark * rng.randrange(60) + bytes([n])) for n in range(rng.randrange(4))]
    records.append(Record(ROOT + b"version", b"3\n"))
    if rng.random() < 0.3:
        records.append(Record(ROOT + b".data/serialization_id", b"0" * 40))
    archive = Archive(records, zip64=rng.choice([None, {}]))
    for r in records:
        r.pad = b"FB" + struct.pack("<H", rng.choice([0, 5])) if rng.random() < 0.5 else b""
        r.pad += bytes(5) if r.pad.endswith(b"\5\0") else b""
    return archive


def a_record(change):
    return lambda rng, a: change(rng, rng.choice(a.records))


def put(**fields):
    """One of several values into a record."""
    name, values = next(iter(fields.items()))
    return a_record(lambda rng, r: setattr(r, name, rng.choice(values)))


def lie(**fields):
    name, values = next(iter(fields.items()))
    return a_record(lambda rng, r: r.local.update({name: rng.choice(values)}))


def twin(rng, a):
    """Another record of the same name, or nearly so."""
    r = rng.choice(a.records)
    base = r.name[len(ROOT):]
    name = rng.choice([base, base.upper(), base.title(), base + b"\0x", base + b"/", base + b" ", base.replace(b"/", b"\\")])
    a.records.insert(rng.randrange(1, len(a.records) + 1), Record(rng.choice([ROOT, ROOT, ROOT.upper()]) + name, b"another"))


def other_case(rng, a):
    r = rng.choice(a.records)
    r.name = ROOT + rng.choice([bytes.upper, bytes.title, bytes.swapcase])(r.name[len(ROOT):])


def another_end(rng, a):
    """A whole other archive before this one, which an end record in the comment points to."""
    other = small(rng)
    other.zip64 = None
    made = other.bytes()
    a.front, end = made[:-22], bytearray(made[-22:])
    end[20:] = struct.pack("<H", rng.choice([0, 0, 4, 7, 65535]))
    a.comment = b"x" * rng.randrange(3) + bytes(end) + b"y" * rng.choice([0, 0, 4])
    if rng.random() < 0.2:
        a.end["comment"] = rng.randrange(60)


def wide(rng, a):
    """Sizes and positions in zip64 extras, right or not."""
    r = rng.choice(a.records)
    size, packed, at = len(r.data), len(r.body()), rng.randrange(200)
    fields = rng.choice([(size, packed), (size, packed, at), (size,), (packed, size), (size + 1, packed + 1)])
    extra = struct.pack("<HH", 1, 8 * len(fields)) + struct.pack(f"<{len(fields)}Q", *fields)
    r.extra = rng.choice([extra, extra, extra * 2, b"XX\0\0" + extra, extra[:-3]])
    if rng.random() < 0.8:
        r.size = r.packed = 0xFFFFFFFF
    if len(fields) == 3 and rng.random() < 0.5:
        r.at = 0xFFFFFFFF


def overlap(rng, a):
    a.records[0].at = rng.choice([0, 1, 31, len(a.records[0].data) + 46])


def nested(rng, a):
    """A storage that is itself an archive, whole or cut."""
    made = small(rng).bytes()
    a.records[rng.randrange(len(a.records))].data = made[: rng.choice([len(made), len(made) - 1, len(made) - 30])]


def deflated(rng, a):
    for r in a.records:
        if rng.random() < 0.7:
            r.method = 8


CHANGES = [
    deflated, deflated, deflated, twin, twin, other_case, another_end, another_end, wide, wide, overlap, nested,
    put(method=[8, 8, 12, 1]), put(flags=[1, 8, 0x20, 0x40, 0x800, 0x808, 0x2000, 2]), put(crc=[0, 1]), put(size=[0, 1, 30, 0xFFFFFFFF]),
    put(packed=[0, 1, 30, 0xFFFFFFFF]), put(at=[0, 1, 64]), put(disk=[1, 65535]), put(attributes=[0x10, 0x20, 0o100644 << 16, 0o40755 << 16 | 0x10]),
    put(comment=[b"c", b"PK\1\2", ENDS]), put(data=[b"", b"\0" * 9000]),
    put(name=[b"", b"x", ROOT, b"other/x", ROOT + b"data/", ROOT + b"\xff", ROOT + b"data/\xc3\xa9", b"/x", ROOT + b"n" * 600]),
    put(extra=[b"XX\2\0ab", b"XX\xff\0ab", b"XX", struct.pack("<HH", 1, 0)]),
    lie(name=[ROOT + b"data/9", ROOT + b"longer name", b""]), lie(method=[8, 0, 12]), lie(flags=[1, 8, 0x808]), lie(mark=[b"PK\3\5"]), lie(extra=[b"e" * 40]),
    lambda rng, a: a.records.insert(rng.randrange(len(a.records)), Record(ROOT + rng.choice([b"", b"data/"]), b"")),
    lambda rng, a: a.records.append(Record(ROOT + b".data/version", rng.choice([b"3", b"99"]))),
    lambda rng, a: setattr(a.records[-1], "data", rng.choice([b"3", b"10", b"11", b"0", b" 3", b"x", b""])),
    lambda rng, a: a.records.pop(rng.randrange(len(a.records))) if len(a.records) > 1 else None,
    lambda rng, a: setattr(a, "front", rng.choice([b"j", b"PK\3\4", bytes(64)])),
    lambda rng, a: (setattr(a, "front", bytes(64)), setattr(a, "shift", -64)),
    lambda rng, a: setattr(a, "reverse", True),
    lambda rng, a: setattr(a, "gap", rng.choice([b"g", bytes(22), b"PK\5\5\0\0"])),
    lambda rng, a: setattr(a, "comment", rng.choice([b"c", b"c" * 65535, ENDS, ENDS + b"c" * 17, ENDS + bytes(18), ENDS + b"\0" * 40, b"PK\6\7" + bytes(40)])),
    lambda rng, a: setattr(a, "tail", rng.choice([b"t", bytes(76), bytes(98), bytes(5000), ENDS + bytes(18), ENDS])),
    lambda rng, a: a.end.update(rng.choice([{"n": 0}, {"n": 1}, {"here": 1}, {"n": 9}, {"bytes": 46}, {"bytes": 10**6}, {"at": 0}, {"at": 1}, {"disk": 1}, {"comment": 3}, {"comment": 65535}])),
    lambda rng, a: setattr(a, "zip64", rng.choice([{}, {"length": 45}, {"length": 0}, {"mark": b"PK\6\5"}, {"end64": 0}, {"end64": 1 << 40}, {"parts": 0}, {"parts": 2},
                                                   {"where": 1}, {"disk": 1}, {"n": 1}, {"here": 1}, {"bytes": 1}, {"at": 0}, {"between": b"data"}, {"between": b"data", "length": 48}])),
]


def made_up(seed):
    rng = random.Random(seed)
    archive = small(rng)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        rng.choice(CHANGES)(rng, archive)
    data = bytearray(archive.bytes())
    if rng.random() < 0.1:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    if rng.random() < 0.03:
        data = data[: rng.randrange(len(data))]
    return bytes(data)


# ---- readers: {name: bytes}, a record that cannot be read being None; or why the archive cannot


def dcpctl_reads(program, paths):
    told = subprocess.run([program], input="".join(f"{p}\n" for p in paths), capture_output=True, text=True, errors="surrogateescape", check=True).stdout
    content = lambda text: b"" if text == "-" else bytes.fromhex(text)
    for archive in told.split("archive\n")[1:]:
        records = {}
        for line in archive.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "refused":
                records = rest
            elif kind == "record":
                name, data = rest.split(" ")
                records[content(name)] = content(data)
            elif kind == "unreadable":
                records[content(rest.split(" ")[0])] = None
        yield records


def torch_reads(path, names):
    try:
        reader = torch._C.PyTorchFileReader(str(path))
        found = {n.encode() for n in reader.get_all_records()}
    except (RuntimeError, UnicodeDecodeError, ValueError) as e:
        return str(e).splitlines()[0]
    records = {}
    for name in sorted(found | names):
        try:
            text = name.decode()
            if reader.has_record(text):
                records[name] = bytes(reader.get_record(text))
        except (RuntimeError, UnicodeDecodeError):
            records[name] = None
    return records


def zipfile_reads(path):
    try:
        archive = zipfile.ZipFile(path)
    except Exception as e:
        return str(e)
    records = {}
    for info in archive.infolist():
        name = info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437").partition(b"/")[2]
        try:
            content = archive.read(info)
        except Exception:
            content = None
        records[name] = None if records.get(name, content) != content else content
    return records


# What dcpctl refuses though torch's reader and zipfile read the same bytes, and why: a pattern of the message each.
REFUSED = {
    "crc_mismatch": "torch looks at no CRC",
    "item_byteorder|item_not_archive": "torch.load refuses it, too",
    r"item_version .*\(got \s": "no writer puts a space before the number",
    r"method \d+$|the name|zip_encrypted.*own header": "a local header contradicts the directory, which says what is right for both",
    "zip_encrypted": "of the three bits for encryption zipfile looks at one, and torch, where the record is empty, at none",
    "an archive in several parts": "of the numbers of parts they look at some",
    r": a folder of \d+ bytes": "a folder holds nothing",
    "a malformed extra field": "two zip64 extras: some take the first, some the last",
    "a comment of": "the file was cut in its comment",
    "zip_two_ends": "still others take the first",
    "zip_duplicate": "each reader takes one of them; that they hold the same is not looked at",
    "zip_overlap": "a record inside another one",
    "zip_name_case": "other readers do not find it",
    "no zip64 end record|a zip64 end record of": "the locator leads nowhere, or the record ends elsewhere: others go by these",
    r"zip_bad_end.*got \d+, expected \d+\)": "two numbers for one thing",
    "deflate_broken.*bytes after its end": "bytes that nobody reads",
}
ASKED = {b"data.pkl", b"byteorder", b"version", b"data/0", b"data/1", b".data/version", b".data/serialization_id"}


def readers(program, first, count):
    seeds = range(int(first), int(first) + int(count))
    tally = Counter()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / str(seed) for seed in seeds]
        for seed, path in zip(seeds, paths):
            path.write_bytes(made_up(seed))
        for path, got in zip(paths, dcpctl_reads(program, paths), strict=True):
            tally[compare_readers(got, path)] += 1
    print(", ".join(f"{n} {what}" for what, n in sorted(tally.items())))
    check(tally["read"] > len(seeds) / 5 and tally["refused"] > len(seeds) / 5, "archives of both kinds are among them")


def compare_readers(got, path):
    seed = path.name
    by_torch, by_zipfile = torch_reads(path, ASKED.union(*([] if isinstance(got, str) else [got]))), zipfile_reads(path)
    files = lambda records: {n: b for n, b in records.items() if not n.endswith(b"/") and n}
    if isinstance(got, str):
        agreed = isinstance(by_torch, dict) and isinstance(by_zipfile, dict) and None not in by_torch.values() and files(by_torch) == files(by_zipfile)
        check(not agreed or any(re.search(pattern, got) for pattern in REFUSED), f"seed {seed}: refused, though torch and zipfile read the same: {got}")
        return "refused" if not agreed else "refused by dcpctl alone"
    if isinstance(by_torch, str):
        check(None in got.values(), f"seed {seed}: read, though torch does not: {by_torch}")
        return "read by dcpctl alone"
    for name, content in files(got).items():
        if content is None:
            continue
        check(by_torch.get(name) == content, f"seed {seed}: {name}: {content[:40]}, torch: {(by_torch.get(name) or b'')[:40]}")
        if isinstance(by_zipfile, dict) and by_zipfile.get(name) is not None:
            check(by_zipfile[name] == content, f"seed {seed}: {name}: {content[:40]}, zipfile: {by_zipfile[name][:40]}")
    for name, content in files(by_torch).items():
        check(content is None or name in got, f"seed {seed}: torch finds {name}, dcpctl does not")
    return "read"


# ---- a file of torch's own


def broken_headers(dcpctl):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.pt"
        torch.save({"w": torch.ones(8)}, path)
        whole = path.read_bytes()
        for record in zipfile.ZipFile(path).infolist():
            data = bytearray(whole)
            data[record.header_offset] ^= 1
            path.write_bytes(data)
            try:
                torch.load(path)
                loads = True
            except Exception:  # of the first record: IndexError, from the reader of the oldest format
                loads = False
            status = subprocess.run([dcpctl, "verify", path], capture_output=True).returncode
            check(loads or status in (1, 3), f"the header of {record.filename} is broken, torch does not load the file: verify exits {status}")


def gives_ones(path, **options):
    try:
        return bool((torch.load(path, **options)["w"] == 1).all())
    except Exception:
        return False


def compressed_records(dcpctl):
    """Each record of torch's own file, compressed by a zip tool: loads with its numbers, but not with mmap=True, which verify says. Its bytes broken:
    verify fails. What torch makes of them is not asked: its reader passes over an error of inflation, and takes what was in that memory before."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.pt"
        torch.save({"w": torch.ones(64)}, path)
        records = [(r.filename.encode(), zipfile.ZipFile(path).read(r)) for r in zipfile.ZipFile(path).infolist()]
        for chosen, _ in records:
            for broken in (False, True):
                archive = Archive([Record(name, data, method=8 if name == chosen else 0) for name, data in records], zip64={})
                data = archive.bytes()
                if broken:
                    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
                    body = packer.compress(dict(records)[chosen]) + packer.flush()
                    at = data.index(body, data.index(chosen))
                    data = data[:at] + b"\xff" + data[at + 1 :]
                path.write_bytes(data)
                told = subprocess.run([dcpctl, "verify", "--json", path], capture_output=True, text=True)
                check(broken == (told.returncode != 0), f"{chosen}, broken: {broken}: verify: {told.stdout}{told.stderr}")
                if not broken:
                    check(gives_ones(path), f"{chosen}: torch does not load it")
                    check(gives_ones(path, mmap=True) != ("torch_compressed" in told.stdout), f"{chosen}, mapped: verify: {told.stdout}")


if __name__ == "__main__":
    broken_headers(sys.argv[1])
    compressed_records(sys.argv[1])
    readers(*sys.argv[2:])
    finish()
