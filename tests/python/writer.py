"""What dcpctl.torch.Writer wrote equals what FileSystemWriter wrote, when torch loads both; and nothing is left of a save that fails.

    writer.py [TEST...]
"""
import faulthandler
import logging
import os
import pickle
import shutil
import signal
import tempfile
import threading
import time
import unittest
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.api import CheckpointException

import dcpctl
from dcpctl.torch import Reader, Writer, async_save, load, save
from equal import differences, whole

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
WORLD = 4


class Fails:
    def __reduce__(self):
        raise RuntimeError("it cannot be pickled")


def everything():
    """Every dtype that torch saves, and what is odd about tensors."""
    base = torch.arange(24.0).view(4, 6)
    names = "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex128 complex64".split()
    dtypes = {name: torch.ones(3, 5).to(getattr(torch, name)) for name in names if hasattr(torch, name)}
    return {
        "dtypes": dtypes,
        "tied": {"a": base, "b": base, "rows": base[1:3], "columns": base[:, ::2], "transposed": base.T},
        "empty": [torch.empty(0), torch.empty(3, 0, 2), torch.tensor(7)],
        "views": {"conj": torch.tensor([1 + 2j, 3j]).conj(), "neg": torch.tensor([1 + 2j]).conj().imag, "expanded": torch.ones(1, 4).expand(3, 4)},
        "parameter": torch.nn.Parameter(base.clone()),
        "objects": {"step": 3, "text": "ключ", "nested": [1, {"x": (2, None)}], "size": torch.Size([2, 3])},
        "large": torch.arange(20 << 20, dtype=torch.int32),  # more than one job writes
        "": torch.ones(1),
    }


class OneProcess(unittest.TestCase):
    def setUp(self):
        self.made = tempfile.TemporaryDirectory()
        self.folder = Path(self.made.name)

    def tearDown(self):
        self.made.cleanup()

    def test_equal(self):
        state = everything()
        dcp.save(state, storage_writer=FileSystemWriter(self.folder / "torch"))
        dcp.save(state, storage_writer=Writer(self.folder / "ours"))
        expected, got = (whole(FileSystemReader(self.folder / name)) for name in ("torch", "ours"))
        self.assertEqual(list(differences(expected, got)), [])
        answer = dcpctl.verify(self.folder / "ours")
        self.assertEqual((answer.verdict, answer.findings), ("whole", ()))
        self.assertEqual(sorted(os.listdir(self.folder)), ["ours", "torch"])
        self.assertEqual(sorted(os.listdir(self.folder / "ours")), [".metadata", "__0_0.distcp"])

    def test_loads_in_older_torch(self):
        save({"w": torch.ones(3), "step": 1}, self.folder / "ours")
        self.assertIn(dcpctl.inspect(self.folder / "ours").loads_in.torch, (">=2.3", ">=2.2", ">=2.1"))

    def test_existing(self):
        path = self.folder / "ours"
        save({"w": torch.ones(3)}, path)
        with self.assertRaises(dcpctl.UsageError) as caught:
            save({"w": torch.zeros(3)}, path)
        self.assertEqual(caught.exception.id, "output_exists")
        self.assertTrue(torch.equal(whole(Reader(path))["w"], torch.ones(3)))
        save({"w": torch.zeros(3)}, path, replace=True)
        self.assertTrue(torch.equal(whole(Reader(path))["w"], torch.zeros(3)))
        self.assertEqual(os.listdir(self.folder), ["ours"])

    def test_nothing_is_left(self):
        with self.assertRaises(BaseException):
            save({"w": torch.ones(3), "bad": Fails()}, self.folder / "ours")
        self.assertEqual(os.listdir(self.folder), [])
        writer = Writer(self.folder / "ours")
        with self.assertRaises(CheckpointException):
            dcp.save({"w": torch.ones(3), "bad": Fails()}, storage_writer=writer)
        self.assertEqual(os.listdir(self.folder), [])
        Path(self.folder, "file").touch()
        with self.assertRaises(dcpctl.MachineError) as caught:
            save({"w": torch.ones(3)}, self.folder / "file" / "ours")
        self.assertIn("a file at", caught.exception.got)

    def test_where(self):
        path = self.folder / "no" / "such" / "folder"
        save({"w": torch.ones(3)}, path)
        self.assertTrue(torch.equal(whole(Reader(path))["w"], torch.ones(3)))
        with self.assertRaises(dcpctl.UsageError):
            save({"w": torch.ones(3)}, "")

    def test_kinds_of_tensors(self):
        kinds = {"sparse": torch.eye(3).to_sparse(), "quantized": torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8)}
        for name, tensor in kinds.items():
            with self.assertRaises(dcpctl.UsageError) as caught:
                save({"w": torch.ones(3), "model": {name: tensor}}, self.folder / "ours")
            self.assertEqual(caught.exception.key, f"model.{name}")
            self.assertIn(str(tensor.dtype if name == "quantized" else tensor.layout), caught.exception.got)
        self.assertEqual(os.listdir(self.folder), [])

    def test_an_object_of_a_checkpoint(self):
        class Odd:
            pass

        globals()["Odd"], Odd.__qualname__ = Odd, "Odd"
        save({"w": torch.ones(3), "odd": Odd()}, self.folder / "ours")
        state = dcpctl.open(self.folder / "ours").state_dict()
        with self.assertRaises(dcpctl.UsageError) as caught:
            save(state, self.folder / "again")
        self.assertEqual((caught.exception.id, caught.exception.key), ("not_pickled", "odd"))
        save({key: value for key, value in state.items() if not isinstance(value, dcpctl.Object)}, self.folder / "again")
        self.assertEqual(sorted(os.listdir(self.folder)), ["again", "ours"])

    def test_ctrl_c(self):
        def interrupt(*_of):
            raise KeyboardInterrupt

        class Interrupts:
            __reduce__ = interrupt

        with self.assertRaises(KeyboardInterrupt):
            save({"w": Interrupts()}, self.folder / "ours")
        self.assertEqual(os.listdir(self.folder), [])
        save({"w": torch.ones(3)}, self.folder / "ours")
        with self.assertRaises(KeyboardInterrupt):
            load({"w": torch.ones(3)}, self.folder / "ours", progress=interrupt)

    def test_ctrl_c_within_a_tensor(self):
        """In memory, where it has room: what a disk takes to remove a file is its own affair, and has no bound here."""
        in_memory = os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 3 << 30

        def interrupt():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        state = {"w": torch.empty(1 << 29)}
        took = []
        with tempfile.TemporaryDirectory(dir="/dev/shm" if in_memory else self.folder) as folder:
            for _ in range(3):
                sent = []
                timer = threading.Timer(0.05, interrupt)
                timer.start()
                with self.assertRaises(KeyboardInterrupt):
                    save(state, Path(folder, "ours"))
                took.append(time.monotonic() - sent[0])
                timer.join()
                self.assertEqual(os.listdir(folder), [])
        self.assertTrue(min(took) < 0.3 or not in_memory, took)

    def test_async(self):
        for n in range(3):
            state = {"w": torch.full((1 << 20,), float(n)), "step": n}
            saving = async_save(state, self.folder / f"step-{n}")
            state["w"].fill_(-1)  # it was copied
        saving.result()
        for n in range(3):
            got = whole(FileSystemReader(self.folder / f"step-{n}"))
            self.assertEqual((got["step"], got["w"].unique().tolist()), (n, [n]))

    def test_round_trip(self):
        save({"model": {"w": torch.arange(12.0).view(3, 4)}, "step": 5}, self.folder / "ours")
        state = {"model": {"w": torch.zeros(3, 4)}, "step": 0}
        load(state, self.folder / "ours")
        self.assertEqual((state["step"], state["model"]["w"].tolist()), (5, torch.arange(12.0).view(3, 4).tolist()))
        with self.assertRaises(dcpctl.InputError) as caught:
            load(state, self.folder / "no")
        self.assertEqual((caught.exception.id, caught.exception.rank), ("no_such_path", 0))

    def test_share(self):
        for no_dist in (False, True):
            with self.assertRaises(dcpctl.UsageError):
                load({}, self.folder, share="x", no_dist=no_dist)

    def test_writer_is_pickled(self):
        writer = pickle.loads(pickle.dumps(Writer(self.folder / "ours", sync=False)))
        dcp.save({"w": torch.ones(2)}, storage_writer=writer)
        self.assertTrue(torch.equal(whole(FileSystemReader(self.folder / "ours"))["w"], torch.ones(2)))


def sharded(mesh):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    whole_one = torch.arange(70.0).view(10, 7)
    state = {"rows": distribute_tensor(whole_one, mesh, [Shard(0)]), "columns": distribute_tensor(whole_one, mesh, [Shard(1)]), "all": distribute_tensor(whole_one, mesh, [Replicate()])}
    return {**state, "few": distribute_tensor(torch.arange(2.0), mesh, [Shard(0)]), "plain": torch.ones(3), "step": 4}


def rank_main(rank, rendezvous, folder):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=WORLD, timeout=timedelta(seconds=120))
    from torch.distributed.device_mesh import init_device_mesh

    state = sharded(init_device_mesh("cpu", (WORLD,)))
    dcp.save(state, storage_writer=FileSystemWriter(f"{folder}/torch"))
    dcp.save(state, storage_writer=Writer(f"{folder}/ours"))
    try:
        dcp.async_save(state, storage_writer=FileSystemWriter(f"{folder}/torch-async")).result()
    except KeyError:  # the stager of torch 2.11 cannot copy a DTensor
        pass
    else:
        async_save(state, f"{folder}/async").result()
    try:
        dcp.save({**state, "bad": Fails()} if rank == 2 else state, storage_writer=Writer(f"{folder}/failed"))
        raise AssertionError("a rank failed, and the others did not hear of it")
    except CheckpointException:
        pass
    try:
        save(state, f"{folder}/ours")
        raise AssertionError("an existing checkpoint was written over")
    except dcpctl.UsageError as error:
        assert error.id == "output_exists", error
    dist.barrier()
    dist.destroy_process_group()


class Ranks(unittest.TestCase):
    def test_equal(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as apart:
            mp.spawn(rank_main, (os.path.join(apart, "rendezvous"), folder), nprocs=WORLD)
            made = sorted(os.listdir(folder))
            self.assertIn(made, (["async", "ours", "torch", "torch-async"], ["ours", "torch"]))
            expected = whole(FileSystemReader(Path(folder, "torch")))
            for name in made:
                self.assertEqual(list(differences(expected, whole(FileSystemReader(Path(folder, name))))), [])
                self.assertTrue(dcpctl.verify(Path(folder, name)).is_sound)
            self.assertEqual(sorted(os.listdir(Path(folder, "ours"))), [".metadata", *(f"__{n}_0.distcp" for n in range(WORLD))])


if __name__ == "__main__":
    unittest.main()
