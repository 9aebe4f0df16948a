#!/usr/bin/env python3
"""The drawings of `inspect --html`, of files and tensors of any size: in proportion, in order, and in coordinates that a browser keeps apart.

    page.py DCPCTL
    page.py DCPCTL --keep FOLDER    writes the pages there, to be looked at
"""
import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bad"))

from recipes import Checkpoint, Item, Tensor, archive, dump  # noqa: E402

KiB, MiB, GiB, TiB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
UNITS = 1000      # of a drawing, each way
NEAR = 0.01       # of a unit: coordinates are rounded
RECT = re.compile(r'<rect x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)" fill="[^"]*"><title>([^<]*)</title></rect>')
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


def drawings(page):
    """Each drawing as its rectangles: (x, y, width, height, title)."""
    found = []
    for view, inside in re.findall(r"<svg ([^>]*)>(.*?)</svg>", page):
        need('viewBox="0 0 1000 1000"' in view and 'preserveAspectRatio="none"' in view, f"a drawing's view is {view}")
        rectangles = [(*map(float, m.groups()[:4]), m[5]) for m in RECT.finditer(inside)]
        need(len(rectangles) == inside.count("<rect"), f"rectangles of another form: {inside[:200]}")
        for x, y, width, height, title in rectangles:
            inside_it = min(x, y) >= 0 and min(width, height) >= 1 - NEAR and max(x + width, y + height) <= UNITS + NEAR
            need(inside_it, f"{title}: {x} {y} {width} {height}")
        found.append(rectangles)
    return found


def check_side(drawn, wanted, whole, what):
    """Stretches of `whole` bytes or elements along x: those that can be seen in their order, then those that had to be widened, in theirs."""
    sides = [(begin * UNITS / whole, end * UNITS / whole) for begin, end in wanted]
    sides = [s for s in sides if s[1] - s[0] >= 1] + [s for s in sides if s[1] - s[0] < 1]
    need(len(drawn) == len(sides), f"{what}: {len(drawn)} rectangles, expected {len(sides)}")
    for (x, y, width, height, title), (begin, end) in zip(drawn, sides):
        need((y, height) == (0, UNITS), f"{what}: {title}: from {y}, {height} high")
        if end - begin >= 1:
            need(abs(x - begin) < NEAR and abs(width - (end - begin)) < NEAR, f"{what}: {title}: {x} {width}, expected {begin} {end - begin}")
        else:
            need(width == 1 and abs(x - min(begin, UNITS - 1)) < NEAR, f"{what}: {title}: {x} {width}, expected {begin} and a width of 1")


def stretches(size):
    """Objects of a file: a tiny one at its begin, halves and quarters, a hole, a tiny one at its end."""
    return [("a.tiny", 0, 16), ("b.half", 16, size // 2), ("c.quarter", 16 + size // 2, size // 4), ("d.end", size - 16, 16)]


def files_of(size, dcpctl, folder):
    """Bars of a file of `size` and of one half as large."""
    sizes = {"__0_0.distcp": size, "__1_0.distcp": size // 2}
    items = {name: [(f"{key}{n}", at, length) for key, at, length in stretches(s)] for n, (name, s) in enumerate(sizes.items())}
    checkpoint(folder / "ckpt", {name: (s, items[name]) for name, s in sizes.items()}, {})
    for drawn, (name, s) in zip(drawings(page_of(dcpctl, folder)), sizes.items(), strict=True):
        check_side(drawn, [(at, at + length) for _, at, length in items[name]], size, f"{name} of {size:,} bytes")


def tensor_of(elements, dcpctl, folder):
    """Boxes of a tensor: cut evenly, unevenly, and with a chunk of one element between large ones."""
    quarter = elements // 4
    cuts = {"even": [quarter] * 4, "uneven": [elements // 2, elements // 3, elements // 6], "one": [quarter, 1, 2 * quarter, 1], "ranks": [elements // 256] * 256}
    checkpoint(folder / "ckpt", {}, cuts)
    for drawn, key in zip(drawings(page_of(dcpctl, folder))[8:], sorted(cuts), strict=True):  # in natural order
        begins = [0, *itertools.accumulate(cuts[key])]
        check_side(drawn, list(zip(begins, begins[1:])), begins[-1], f"{key} of {elements:,} elements")


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
