"""What tensors are read into: every dtype bit for bit, by each way that leads to memory, and memory that several tensors share.

    memory.py [TEST...]
"""
import itertools
import logging
import tempfile
import unittest
from pathlib import Path

import numpy
import torch
import torch.distributed.checkpoint as dcp

import dcpctl
from dcpctl import _memory
from dcpctl.torch import Reader, Writer
from equal import bits

logging.disable(logging.CRITICAL)
SIGNALLING = {"float64": 0x7FF0000000000001, "float32": 0x7F800001, "float16": 0x7C01, "bfloat16": 0x7F81}  # NaNs that any arithmetic would change
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def state():
    """Of every dtype that torch saves: bits of all sorts."""
    made = {"empty": torch.empty(3, 0, 2), "scalar": torch.tensor(float("nan"))}
    random = torch.Generator().manual_seed(1)
    for name, (size, _form, _dlpack) in _memory.DTYPES.items():
        if not hasattr(torch, name) or name.startswith(("q", "bits", "float4")):
            continue
        data = torch.randint(0, 2 if name == "bool" else 256, (6 * 5 * size,), dtype=torch.uint8, generator=random)
        if name in SIGNALLING:
            data.view(INTEGERS[size])[::3] = SIGNALLING[name]
        made[name] = data.view(getattr(torch, name)).view(6, 5)
    return made


def zeros(tensor, shape=None):
    shape = tensor.shape if shape is None else shape
    return torch.zeros(*shape, tensor.element_size(), dtype=torch.uint8).view(tensor.dtype).reshape(shape)


class Bits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.state = state()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        dcp.save(cls.state, storage_writer=Writer(Path(folder.name, "dcp")))
        torch.save(cls.state, Path(folder.name, "file.pt"))
        cls.paths = [Path(folder.name, name) for name in ("dcp", "file.pt")]

    def equal(self, read):
        """`read` gives, of a checkpoint and a key, a tensor, an array or bytes."""
        for path in self.paths:
            with dcpctl.open(path) as ck:
                for key, tensor in self.state.items():
                    with self.subTest(path=path.name, key=key):
                        got, want = read(ck, key), bits(tensor).numpy().tobytes()
                        got = bits(got).numpy().tobytes() if isinstance(got, torch.Tensor) else got
                        self.assertEqual(got.tobytes() if isinstance(got, numpy.ndarray) else bytes(got), want)

    def test_bytes(self):
        self.equal(lambda ck, key: ck[key].read())
        self.equal(lambda ck, key: b"".join(ck[key][at].read() for at in itertools.product(*map(range, ck[key].shape))))

    def test_torch(self):
        self.equal(lambda ck, key: ck[key].torch())
        self.equal(lambda ck, key: torch.from_dlpack(ck[key]) if _memory.DTYPES[ck[key].dtype][2][0] >= 0 else ck[key].torch())
        self.equal(lambda ck, key: ck.state_dict(nested=False)[key])
        self.equal(lambda ck, key: dict(ck.iter_tensors())[key])

    def test_strides(self):
        def read(ck, key):
            tensor = self.state[key]
            wide = zeros(tensor, [2 * n for n in tensor.shape])[tuple(slice(None, None, 2) for _ in tensor.shape)]
            self.assertIs(ck.state_dict(into={key: wide}, nested=False)[key], wide)
            return wide

        self.equal(read)
        self.equal(lambda ck, key: ck[key].read(zeros(self.state[key].T).T if ck[key].ndim == 2 else zeros(self.state[key])))

    def test_numpy(self):
        def read(ck, key):
            if self.state[key].dim() != 2 or not _memory.DTYPES[key][1]:
                return ck[key].read()
            back = numpy.zeros(self.state[key].shape, ck[key].numpy().dtype)[::-1, ::-1]
            return ck[key].read(back)

        self.equal(lambda ck, key: ck[key].numpy() if _memory.DTYPES[ck[key].dtype][1] else ck[key].read())
        self.equal(read)

    def test_reader(self):
        def read(ck, key):
            made = {key: zeros(self.state[key])}
            dcp.load(made, storage_reader=Reader(ck.path))
            return made[key]

        self.equal(read)


class Shared(unittest.TestCase):
    """Tensors that several keys are read into are as they would be if each had been read in its turn."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = {f"t{n}": torch.randn(300, 400) for n in range(4)}
        torch.save(self.state, Path(folder.name, "file.pt"))
        self.ck = dcpctl.open(Path(folder.name, "file.pt"))

    def test_overlaps(self):
        for places in ([0, 0, 0, 0], [5, 3, 1, 0], [0, 200, 400, 600], [100, 500, 0, 550], [0, 399, 1, 400]):
            got, expected = torch.zeros(2, 300, 1000)
            into = {key: got[:, at : at + 400] for key, at in zip(self.state, places)}
            self.ck.state_dict(into=into)
            for (key, tensor), at in zip(self.state.items(), places):
                expected[:, at : at + 400] = tensor
            self.assertTrue(torch.equal(got, expected), places)

    def test_reversed_rows(self):
        memory = numpy.zeros((300, 400), "f")
        self.ck.state_dict(into={"t0": memory, "t1": memory[::-1]})
        self.assertTrue((memory[::-1] == self.state["t1"].numpy()).all())

    def test_nothing_is_written_where_one_is_wrong(self):
        good, frozen = torch.zeros(300, 400), numpy.zeros((300, 400), "f")
        frozen.flags.writeable = False
        for bad, word in (
            (frozen, "read-only"), (torch.zeros(300, 400, device="meta"), "meta"), (torch.zeros(0, 400), "[0, 400]"), (numpy.zeros((300, 400), ">f4"), "big-endian"),
            (torch.zeros(400).expand(300, 400), "one place"), (torch.zeros(300, 400, dtype=torch.int32), "int32"), (torch.zeros(300, 400).to_sparse(), "sparse"),
        ):
            with self.assertRaises(dcpctl.UsageError) as caught:
                self.ck.state_dict(into={"t0": good, "t1": bad})
            self.assertEqual(caught.exception.key, "t1")
            self.assertIn(word, str(caught.exception))
        self.assertFalse(good.any())

    def test_turns(self):
        for extents, groups in (
            ([], []), ([(0, 4)], [[0]]), ([(4, 8), (0, 4)], [[1, 0]]), ([(2, 6), (0, 4)], [[0], [1]]), ([(0, 4), (3, 6), (5, 9), (9, 10)], [[0, 3], [1], [2]]),
            ([(0, 0), (0, 0), (0, 4)], [[0, 1, 2]]),
        ):
            self.assertEqual(_memory.in_turn(extents), groups)


if __name__ == "__main__":
    unittest.main()
