#!/usr/bin/env python3
"""--max-memory holds, whatever an object takes: a command works below it, or says before it writes what it needs, and works below that.

    caps.py DCPCTL [INPUT...]
"""
import os
import pickle
import re
import shlex
import shutil
import struct
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from growth import Ran  # noqa: E402
from recipes import Item, Op, archive, dump, small, storage, zstd  # noqa: E402

MIB = 1 << 20
LARGE = 100 * MIB
BLOCK = 128 << 10


def large(n=LARGE):
    """A bytes object in a list."""
    return Op(pickle.EMPTY_LIST + pickle.BINBYTES + struct.pack("<I", n) + bytes(n) + pickle.APPEND)


def dcp(folder):
    c = small(folder / "in")
    c.item("step").data = archive(dump(large(), 3))
    c.write()


def numbers(folder):
    """A set: what it takes to compare is far more than its pickle."""
    c = small(folder / "in")
    c.item("step").data = archive(dump(Op(pickle.EMPTY_SET + pickle.MARK + b"".join(pickle.BININT + struct.pack("<I", i) for i in range(4 * MIB)) + pickle.ADDITEMS), 4))
    c.write()


def storages(folder):
    """What is large is a tensor inside an object."""
    c = small(folder / "in")
    c.item("step").data = archive(dump([storage(count=LARGE // 4)], 2), bytes(LARGE))
    c.write()


def compressed(folder):
    c = small(folder / "in")
    whole = archive(dump(large(), 3)).bytes()
    item = c.item("step")
    item.data = zstd(*(whole[at : at + BLOCK] for at in range(0, len(whole), BLOCK)))
    item.fields["transform_descriptors"] = ["stream.zstd/1"]
    c.write()


def shared(folder):
    """10,000 keys, one item of 100 kB: a gigabyte if each had its own."""
    c = small(folder / "in")
    c.item("step").data = archive(dump([Op(pickle.BINBYTES + struct.pack("<I", 100_000) + bytes(100_000))], 3))
    length, at = len(c.item("step").data.bytes()), sum(len(i.data.bytes()) for i in c.items[:2])
    c.paths = None
    c.blobs += [f"k{i}" for i in range(10_000)]
    c.items += [Item(f"k{i}", None, "__0_0.distcp", b"", fields={"offset": at, "length": length}) for i in range(10_000)]
    c.write()


def torch_file(folder):
    (folder / "in").write_bytes(archive(dump({"a": 1, "b": large()}, 3)).bytes())


def layout(folder):
    """A small checkpoint, and a rule for each of many tensors."""
    small(folder / "in").write()
    (folder / "layout.json").write_text('{"world_size": 2, "placements": {' + ",".join(f'"k{i}": ["replicate"]' for i in range(200_000)) + "}}")


def metadata(folder):
    c = small(folder / "in")
    c.metadata = dump(Op(pickle.EMPTY_LIST * (4 * MIB)))
    c.write()


def header(folder):
    text = b"{" + b",".join(b'"k%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(200_000)) + b"}"
    (folder / "in").write_bytes(struct.pack("<Q", len(text)) + text)


def lists(folder):
    """Four million lists of a byte each in a list."""
    c = small(folder / "in")
    c.metadata = dump(Op(pickle.MARK + pickle.EMPTY_LIST * (4 * MIB) + pickle.LIST))
    c.write()


READ = ["inspect in", "verify in"]
DIFF = ["diff in in"]
WRITE = ["consolidate in out.pt", "reshard in out --world-size 3", "convert in out", "cast in out --dtype bf16"]
# made by, commands, cap in MiB, commands that have to work below it
CASES = [
    (dcp, [*READ, *WRITE, *DIFF], 64, READ + WRITE[1:]),
    (storages, [*READ, *WRITE, *DIFF], 64, READ + WRITE),
    (compressed, [*READ, *WRITE, *DIFF], 64, READ[:1]),
    (numbers, [*WRITE[:1], *DIFF], 64, []),
    (shared, [*READ, *WRITE], 64, READ + WRITE),
    (torch_file, [*READ, "consolidate in out.pt", "convert in out", "cast in out.pt --dtype bf16"], 64, []),
    (layout, ["reshard in out --layout layout.json --dry-run"], 256, ["reshard in out --layout layout.json --dry-run"]),
    (metadata, ["inspect in", "verify in", "consolidate in out.pt", "ranks in"], 64, []),
    (header, [*READ, "consolidate in out.pt", "ranks in"], 64, []),
]

# The same, and the most MiB that the commands take without --max-memory.
PEAKS = [(lists, [*READ, *DIFF], 212)]


def remove(folder):
    for name in ("out", "out.pt"):
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()


def faults_of(dcpctl, folder, command, mib, has_to_work):
    wanted, tries = mib, 0
    while True:
        ran = Ran(dcpctl, [*shlex.split(command), "--max-memory", f"{mib}MiB"], folder)
        made = [p.name for p in folder.iterdir() if p.name not in ("in", "layout.json")]
        if ran.peak > mib * MIB:
            yield f"takes {ran.peak / MIB:.0f} MiB under {mib} MiB"
        if ran.exit != 4:
            if ran.exit not in (0, 1, 3):
                yield f"exit {ran.exit}: {ran.stderr[:300]}"
            return
        if made:
            yield f"leaves {made} behind"
        if has_to_work and wanted == mib:
            yield f"does not work under {mib} MiB: {ran.stderr[:300]}"
            return
        hint = re.search(r"give --max-memory (\d+)MiB", ran.stderr)
        if not hint:
            if "--max-memory" not in ran.stderr:
                yield f"says {ran.stderr[:300]}"
            return
        tries += 1
        if int(hint[1]) <= mib or tries > 4:
            yield f"asks for {hint[1]} MiB where it has {mib} MiB: {ran.stderr[:300]}"
            return
        mib = int(hint[1])


def over(dcpctl, folder, command, mib):
    ran = Ran(dcpctl, shlex.split(command), folder)
    if ran.exit != 3:
        yield f"exit {ran.exit}: {ran.stderr[:300]}"
    if ran.peak > mib * MIB:
        yield f"takes {ran.peak / MIB:.0f} MiB, at most {mib} MiB are allowed"


def faults_with(make, commands, faults_of_one):
    scratch = Path(tempfile.mkdtemp())
    try:
        child = os.fork()  # what a child's peak says begins with its parent's
        if child == 0:
            make(scratch)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"{make.__name__}: could not be made")
        for command in commands:
            for fault in faults_of_one(scratch, command):
                yield f"{make.__name__}: dcpctl {command}: {fault}"
            remove(scratch)
    finally:
        shutil.rmtree(scratch)


def main():
    dcpctl = str(Path(sys.argv[1]).resolve())
    only = sys.argv[2:]
    bad = 0
    tests = [(make, commands, lambda folder, command, mib=mib, work=work: faults_of(dcpctl, folder, command, mib, command in work)) for make, commands, mib, work in CASES]
    tests += [(make, commands, lambda folder, command, mib=mib: over(dcpctl, folder, command, mib)) for make, commands, mib in PEAKS]
    for make, commands, faults_of_one in tests:
        if not only or make.__name__ in only:
            for fault in faults_with(make, commands, faults_of_one):
                bad += 1
                print(fault, flush=True)
    print(f"{len(tests)} inputs, {bad} faults")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
