#!/usr/bin/env python3
"""Made-up pickles in an object's place: every name that Python's own unpickler looks up before it stops is named by `verify`, if weights_only refuses it.

    imports.py DCPCTL SEED BATCHES
"""
import io
import json
import pickle
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from recipes import Item, archive, small  # noqa: E402

PICKLES = 300  # in a batch, which is one checkpoint
NAMES = [b"os\nsystem\n", b"posix\nsystem\n", b"a b\nc.d\n", b"builtins\neval\n", b"m\nn\n"]
PLAIN = [b"N", b"K\1", b"(", b"Vos\n", b"]"]
PIECES = [
    *[b"I7\n", b"I01\n", b"L5L\n", b"F1.5\n", b"S'os'\n", b'S"x"\n', b"Vsystem\n", b"P1\n", b"N", b"\x88", b"K\1", b"X\2\0\0\0os"],
    *[b"(", b"t", b")", b"\x85", b"l", b"]", b"a", b"d", b"}", b"s", b"\x8f", b"0", b"1", b"2", b"o", b"R", b"\x81", b"b", b"Q"],
    *[b"p1\n", b"p2\n", b"g1\n", b"g2\n", b"q\1", b"q\2", b"h\1", b"h\2", b"\x94", b"\x93", b"X\6\0\0\0system\x93", b"\x98", b"\x82\1", b"\x80\2"],
    *[opcode + name + end for name in NAMES for opcode, end in ((b"c", b""), (b"i", b""), (b"(i", b""), (b"(c", b"o"))],
]


class Anything:
    """Can be called, filled and hashed, like most of what is imported."""

    def __init__(self, *arguments, **keywords):
        pass

    def __call__(self, *arguments, **keywords):
        return Anything()

    def __setstate__(self, state):
        pass

    def __setitem__(self, key, value):
        pass

    append = extend = add = __setstate__


class Importing(pickle._Unpickler):
    """Keeps the names, and imports nothing."""

    def __init__(self, data):
        super().__init__(io.BytesIO(data))
        self.names = set()

    def find_class(self, module, name):
        self.names.add(f"{module}.{name}")
        return type("Made", (Anything,), {})

    def persistent_load(self, identity):
        return Anything()

    @classmethod
    def of(cls, data):
        unpickler = cls(data)
        try:
            unpickler.load()
        except Exception:  # whatever it is, Python stops there
            pass
        return unpickler.names


def made(rng):
    pieces = [rng.choice(PIECES if rng.random() < 0.6 else PLAIN) for _ in range(rng.randrange(1, 14))]
    return (b"\x80\x02" if rng.random() < 0.3 else b"") + b"".join(pieces) + (b"." if rng.random() < 0.9 else b"")


def named(dcpctl, folder, objects):
    c = small(folder / "ckpt")
    c.paths = None
    c.blobs += [f"k{n}" for n in range(len(objects))]
    c.items += [Item(f"k{n}", None, "__1_0.distcp", data) for n, data in enumerate(objects)]
    c.write()
    ran = subprocess.run([dcpctl, "verify", "ckpt", "--json"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)
    said = {u["object"]: set(u["globals"]) for u in json.loads(ran.stdout)["unsafe"]}
    return [said.get(f"k{n}", set()) for n in range(len(objects))]


def main():
    dcpctl, rng, batches = str(Path(sys.argv[1]).resolve()), random.Random(int(sys.argv[2])), int(sys.argv[3])
    missed = imported = 0
    for n in range(batches):
        pickles = [made(rng) for _ in range(PICKLES)]
        objects = pickles if n % 2 else [archive(data) for data in pickles]
        with tempfile.TemporaryDirectory() as folder:
            for data, said in zip(pickles, named(dcpctl, Path(folder), objects)):
                names = Importing.of(data)
                imported += len(names)
                if names - said:
                    missed += 1
                    print(f"{data!r} imports {sorted(names)}, and verify names {sorted(said)}")
    print(f"{batches * PICKLES} pickles, {imported} names, {missed} pickles with names that are not said")
    sys.exit(1 if missed or imported < batches * PICKLES / 4 else 0)


if __name__ == "__main__":
    main()
