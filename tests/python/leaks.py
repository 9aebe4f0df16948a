"""What is opened, read, cancelled, failed and given away thousands of times leaves memory, files and threads where they were.

    leaks.py [TIMES]    of each; 500 by default
"""
import ctypes
import gc
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy
import torch

import dcpctl
from dcpctl import _checkpoint

DATA = Path(__file__).resolve().parent.parent / "data"
FSDP = DATA / "fsdp2_ws4/ckpt"
KEY = "model.tok_embeddings.weight"
TIMES = 500
KEPT = 256 << 10  # bytes that may be: the allocator's


def used():
    """Bytes of resident memory, open files, threads."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE"), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


class OnlyDlpack:
    """Memory of which nothing else is known."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()

    def __dlpack__(self):
        return self._tensor.__dlpack__()


class Leaks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.damaged, cls.without, cls.cut = (Path(shutil.copytree(FSDP, Path(cls.folder.name, name))) for name in ("damaged", "without", "cut"))
        cls.ck = dcpctl.open(FSDP)
        file = cls.ck[KEY].chunks[0].file
        data = bytearray((FSDP / file).read_bytes())
        data[data.index(cls.ck[KEY][0].read())] ^= 1
        (cls.damaged / file).write_bytes(data)
        (cls.without / file).unlink()
        os.truncate(cls.cut / ".metadata", 1000)

    def stays(self, work):
        for _ in range(100):
            work()
        memory, *others = used()
        for _ in range(TIMES):
            work()
        memory_after, *others_after = used()
        self.assertEqual(others_after, others)
        self.assertLess(memory_after - memory, KEPT)

    def fails(self, id, work):
        with self.assertRaises(dcpctl.Error) as caught:
            work()
        self.assertEqual(caught.exception.id, id)

    def test_opens(self):
        def work():
            with dcpctl.open(FSDP) as ck:
                len(ck)
            dcpctl.open(FSDP).subtree("model")  # and dropped

        self.stays(work)

    def test_failed_opens(self):
        def work():
            self.fails("no_such_path", lambda: dcpctl.open("/no/such"))
            self.fails("pickle_frame", lambda: dcpctl.open(self.cut))

        self.stays(work)

    def test_reads(self):
        into = numpy.zeros((67, 18), numpy.float32)

        def work():
            tensor = self.ck[KEY]
            tensor.read()
            tensor[1:9, ::2].numpy()
            tensor.torch()
            tensor.read(into)
            self.ck["train_state.step"].value

        self.stays(work)

    def test_failed_reads(self):
        damaged, without = dcpctl.open(self.damaged)[KEY], dcpctl.open(self.without)[KEY]
        small = bytearray(3)

        def work():
            self.fails("crc_mismatch", damaged.torch)
            self.fails("file_missing", without.numpy)
            self.fails("destination", lambda: self.ck[KEY].read(small))

        self.stays(work)

    def test_cancelled_reads(self):
        path = Path(self.folder.name, "two.safetensors")
        size = 64 << 20
        header = b'{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[%d],"data_offsets":[8,%d]}}' % (size, size + 8)
        with open(path, "wb") as f:
            f.write(len(header).to_bytes(8, "little") + header)
            f.truncate(8 + len(header) + 8 + size)
        ck = dcpctl.open(path)

        def work():
            tensors = ck.iter_tensors(framework="numpy")
            next(tensors)
            tensors.close()  # while the second is being read

        with mock.patch.object(_checkpoint, "_AHEAD", 1):  # a job for each
            self.stays(work)

    def test_dlpack(self):
        into = OnlyDlpack(torch.zeros(67, 18))

        def work():
            tensor = self.ck[KEY]
            tensor.__dlpack__()  # consumed by nobody
            torch.from_dlpack(tensor)
            numpy.from_dlpack(tensor[:2])
            tensor.read(into)

        self.stays(work)


if __name__ == "__main__":
    TIMES = int(sys.argv.pop(1)) if sys.argv[1:] and sys.argv[1].isdigit() else TIMES
    unittest.main()
