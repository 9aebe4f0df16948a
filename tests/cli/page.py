#!/usr/bin/env python3
"""The data in pages of `inspect --html`, of files and tensors of any size: where things lie, and how they are cut.

    page.py DCPCTL
    page.py DCPCTL --keep FOLDER    writes the pages there, to be looked at
"""
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bad"))

from recipes import Checkpoint, Item, Tensor, archive, dump  # noqa: E402

KiB, MiB, GiB, TiB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
FAULTS = []


def need(truth, what):
    if not truth:
        FAULTS.append(what)
        print("FAILED:", what)


def checkpoint(folder, files, tensors):
    """`files`: {name: (bytes, [(key, offset, length)])} of objects; `tensors`: {key: [sizes of its chunks]}, 1-D, on eight ranks."""
    made = Checkpoint(folder, {}, [], [], {})
    for name, (_, items) in files.items():
        for key, offset, length in items:
            made.blobs.append(key)
            made.items.append(Item(key, None, name, archive(dump(1, 2)), fields={"offset": offset, "length": length}))
            made.paths[key] = tuple(key.split("."))
    for key, sizes in tensors.items():
        begins = [0, *itertools.accumulate(sizes)]
        made.tensors[key] = Tensor((begins[-1],), [((b,), (s,)) for b, s in zip(begins, sizes)], dtype="torch.uint8")
        made.items += [Item(key, (b,), f"__{n % 8}_0.distcp", archive(dump(1, 2))) for n, b in enumerate(begins[:-1])]
        made.paths[key] = (key,)
    made.write()
    for name, (size, _) in files.items():
        os.truncate(folder / name, size)  # sparse: the picture is drawn from sizes


def sides(cut, whole):
    """The sizes that the page says a dim is cut into: none, even ones, or each."""
    if isinstance(cut, list):
        return cut
    return [min(cut, whole - at) for at in range(0, whole, cut)] if cut else [whole]


def stretches(size):
    """Objects of a file: a tiny one at its begin, halves and quarters, a hole, a tiny one at its end."""
    return [("a.tiny", 0, 16), ("b.half", 16, size // 2), ("c.quarter", 16 + size // 2, size // 4), ("d.end", size - 16, 16)]


def files_of(size, dcpctl, folder):
    """What lies where in a file of `size` and in one half as large: what touches is one stretch."""
    sizes = {"__0_0.distcp": size, "__1_0.distcp": size // 2}
    items = {name: [(f"{key}{n}", at, length) for key, at, length in stretches(s)] for n, (name, s) in enumerate(sizes.items())}
    checkpoint(folder / "ckpt", {name: (s, items[name]) for name, s in sizes.items()}, {})
    for file, (name, s) in zip(data_of(dcpctl, folder)["files"], sizes.items(), strict=True):
        first = 16 + s // 2 + s // 4
        wanted = [0, first, 0, s - 16 - first, 16, 0]
        need(file["name"] == name and file["bytes"] == s and file["parts"] == wanted, f"{name} of {s:,} bytes: {file}, expected {wanted}")


def tensor_of(elements, dcpctl, folder):
    """A tensor cut evenly, unevenly, and with a chunk of one element between large ones."""
    quarter = elements // 4
    cuts = {"even": [quarter] * 4, "uneven": [elements // 2, elements // 3, elements // 6], "one": [quarter, 1, 2 * quarter, 1], "ranks": [elements // 256] * 256}
    checkpoint(folder / "ckpt", {}, cuts)
    data = data_of(dcpctl, folder)
    for (_, _, _, form, place), key in zip(data["entries"], sorted(cuts), strict=True):  # in natural order
        form, files = data["forms"][form], []
        for n in data["places"][place]:
            files += [n] if n >= 0 else range(files[-1] + 1, files[-1] + 1 - n)
        need(form["shape"] == [sum(cuts[key])] and form["chunks"] == len(cuts[key]), f"{key} of {elements:,} elements: {form}")
        need(sides(form["cuts"][0], form["shape"][0]) == cuts[key], f"{key} of {elements:,} elements: {form['cuts']}, expected {cuts[key]}")
        need(files == [n % 8 for n in range(len(cuts[key]))], f"{key}: in {files}")


def data_of(dcpctl, folder):
    """What the page says of the checkpoint."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page_of(dcpctl, folder), re.S)[1])["sections"][0]


def page_of(dcpctl, folder):
    run = subprocess.run([dcpctl, "inspect", folder / "ckpt", "--html", folder / "page.html", "-q"], capture_output=True, text=True)
    need(run.returncode in (0, 1), f"inspect: {run.stderr}")  # 1: what is drawn is damaged
    return (folder / "page.html").read_text()


def main():
    dcpctl, keep = os.path.abspath(sys.argv[1]), sys.argv[3] if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(keep or scratch)
        for what, sizes in {files_of: [KiB, 20 * MiB, 40 * MiB, 5 * GiB, TiB], tensor_of: [256, 40_000_000, 5_000_000_000, 1 << 62]}.items():
            for size in sizes:
                folder = scratch / f"{what.__name__}-{size}"
                folder.mkdir()
                what(size, dcpctl, folder)
    print(f"{len(FAULTS)} do not hold")
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
