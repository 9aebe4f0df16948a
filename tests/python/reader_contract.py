"""dcpctl.torch.Reader keeps the contract of a StorageReader: destinations of all sorts, planners that override, metadata, other kinds of checkpoints,
and damage.

    reader_contract.py [TEST...]
"""
import codecs
import copy
import dataclasses
import logging
import math
import pickle
import tempfile
import types
import unittest
import warnings
from pathlib import Path
from unittest import mock

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex

import dcpctl
from dcpctl.torch import Reader
from equal import ROOT, copies, differences, whole

logging.disable(logging.CRITICAL)
made = tempfile.TemporaryDirectory()
FSDP = Path(made.name, "fsdp2_ws4")
dcpctl.reshard(ROOT / "tests/data/fsdp2_ws4/ckpt", FSDP, for_torch="2.6")  # that any torch here reads
KEY = "model.tok_embeddings.weight"


def both(path, make, **kwargs):
    """What torch's reader and ours load into two equal state dicts."""
    states = make(), make()
    for state, reader in zip(states, (FileSystemReader(path), Reader(path))):
        dcp.load(state, storage_reader=reader, **{name: value() for name, value in kwargs.items()})
    return states


def saved(folder, state):
    path = Path(folder, "saved")
    dcp.save(state, storage_writer=FileSystemWriter(path))
    return path


class Destinations(unittest.TestCase):
    def equal(self, states):
        self.assertEqual(list(differences(*states)), [])

    def test_dtypes(self):
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.equal(both(FSDP, lambda: {KEY: torch.zeros(67, 18, dtype=dtype)}))

    def test_narrowing_warns_once(self):
        state = {KEY: torch.zeros(67, 18, dtype=torch.bfloat16), "model.norm.weight": torch.zeros(18, dtype=torch.bfloat16)}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dcp.load(state, storage_reader=Reader(FSDP))
        self.assertEqual([str(w.message) for w in caught if "narrower" in str(w.message)], ["2 tensors are loaded into a narrower dtype than the checkpoint has, such as model.norm.weight"])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dcp.load({KEY: torch.zeros(67, 18, dtype=torch.float64)}, storage_reader=Reader(FSDP))
        self.assertFalse([w for w in caught if "narrower" in str(w.message)])

    def test_what_narrows(self):
        names = ["bool", "uint8", "int8", "uint16", "int32", "uint64", "float16", "float32", "complex64", "float8_e5m2", "float8_e4m3fn"]
        wider = {
            "bool": names, "uint8": "uint16 int32 uint64 float16 float32 complex64", "int8": "int32 float16 float32 complex64",
            "uint16": "int32 uint64 float32 complex64", "int32": "", "uint64": "",
            "float16": "float32 complex64", "float32": "complex64", "complex64": "", "float8_e5m2": "float16 float32 complex64", "float8_e4m3fn": "float16 float32 complex64",
        }
        for stored in names:
            for target in set(names) - {stored}:
                self.assertEqual(dcpctl.torch._narrows(getattr(torch, stored), getattr(torch, target)), target not in wider[stored], (stored, target))

    def test_unsigned(self):
        with tempfile.TemporaryDirectory() as folder:
            path = saved(folder, {"w": torch.arange(6, dtype=torch.int32).to(torch.uint16)})
            self.equal(both(path, lambda: {"w": torch.zeros(6, dtype=torch.int32)}))

    def test_into_that_is_no_memory(self):
        from torch._subclasses import FakeTensorMode

        tensor = dcpctl.open(FSDP)[KEY]
        with FakeTensorMode():
            fake = torch.zeros(67, 18)
        complexes = torch.zeros(67, 18, dtype=torch.complex64)
        for into, word in [(fake, "FakeTensor"), (complexes.conj().imag, "negative"), (torch.zeros(18).expand(67, 18), "one place"), (complexes.conj(), "conjugate")]:
            with self.assertRaises(dcpctl.UsageError) as caught:
                tensor.read(into=into)
            self.assertIn(word, str(caught.exception))

    def test_strict_dtype(self):
        state = {KEY: torch.ones(67, 18, dtype=torch.float64), "model.norm.weight": torch.ones(18)}
        with self.assertRaises(CheckpointException) as caught:
            dcp.load(state, storage_reader=Reader(FSDP, strict_dtype=True))
        self.assertEqual(caught.exception.failures[0][0].id, "strict_dtype")
        self.assertTrue(all((t == 1).all() for t in state.values()))

    def test_strides(self):
        self.equal(both(FSDP, lambda: {KEY: torch.zeros(18, 67).T}))
        self.equal(both(FSDP, lambda: {KEY: torch.zeros(67, 40)[:, 1:37:2]}))
        self.equal(both(FSDP, lambda: {KEY: torch.zeros(18, 67, dtype=torch.float16).T}))
        self.equal(both(FSDP, lambda: {KEY: torch.nn.Parameter(torch.zeros(67, 18))}))

    def test_wider_memory_stays(self):
        wide = torch.full((70, 20), 7.0)
        dcp.load({KEY: wide[1:68, 1:19]}, storage_reader=Reader(FSDP))
        self.assertEqual((wide == 7).sum().item(), 70 * 20 - 67 * 18)

    def test_shared_memory(self):
        rows = torch.zeros(1, 18).expand(67, 18)
        for state in ({KEY: rows}, {KEY: torch.zeros(200).as_strided((67, 18), (1, 1))}):
            with self.assertRaises(CheckpointException) as caught:
                dcp.load(state, storage_reader=Reader(FSDP))
            ((error, _trace),) = caught.exception.failures.values()
            self.assertEqual((type(error), error.key), (dcpctl.UsageError, KEY))
        self.assertFalse(rows.any())
        with self.assertRaises(dcpctl.UsageError) as caught:
            dcpctl.open(FSDP).state_dict(into={KEY: rows})
        self.assertEqual(caught.exception.key, KEY)
        with tempfile.TemporaryDirectory() as folder:  # each item is a row
            path = Path(folder, "rows")
            dcpctl.reshard(FSDP, path, world_size=67, include=[KEY])
            with self.assertRaises(CheckpointException):
                dcp.load({KEY: rows}, storage_reader=Reader(path))
        self.assertFalse(rows.any())

    def test_views_that_torch_resolves(self):
        with tempfile.TemporaryDirectory() as folder:
            path = saved(folder, {"z": torch.complex(torch.arange(6.0), torch.ones(6))})
            self.equal(both(path, lambda: {"z": torch.zeros(6, dtype=torch.complex64).conj()}))
            self.equal(both(path, lambda: {"z": torch.zeros(6, dtype=torch.complex128)}))

    def test_tied(self):
        with tempfile.TemporaryDirectory() as folder:
            tied = torch.arange(2048.0).view(32, 64)
            path = saved(folder, {"a": tied, "b": tied, "c": tied[:16]})

            def make():
                one = torch.zeros(32, 64)
                return {"a": one, "b": one, "c": one[:16]}

            self.equal(both(path, make))

    def test_columns_of_one_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            fused = torch.arange(60.0).view(6, 10)
            path = saved(folder, {"q": fused[:, :3], "k": fused[:, 3:7], "v": fused[:, 7:]})

            def make():
                one = torch.zeros(6, 10)
                return {"q": one[:, :3], "k": one[:, 3:7], "v": one[:, 7:]}

            self.equal(both(path, make))

    def test_large_conversions(self):
        with tempfile.TemporaryDirectory() as folder:
            path = saved(folder, {"big": torch.arange(6 << 20).view(3, 2 << 20), "one": torch.tensor(3)})  # 48 MiB: three buffers
            self.equal(both(path, lambda: {"big": torch.zeros(3, 2 << 20, dtype=torch.float64), "one": torch.zeros((), dtype=torch.int16)}))

    def test_pieces_fill_a_buffer_at_most(self):
        for counts in ([], [7], [3, 1 << 23], [2, 3, (1 << 22) + 5], [2, 3, 1 << 21], [1 << 19, 1, 9]):
            pieces = list(dcpctl.torch._cut(counts, 4))
            self.assertEqual(sum(math.prod(n) for _starts, n in pieces), math.prod(counts))
            self.assertEqual(len({tuple(starts) for starts, _n in pieces}), len(pieces))
            self.assertTrue(all(4 * math.prod(n) <= 16 << 20 and all(a + b <= c for a, b, c in zip(starts, n, counts)) for starts, n in pieces))
        reads = [types.SimpleNamespace(counts=[n]) for n in (1, 65, 4 << 20, 5 << 20, 3)] * 70
        for batch in dcpctl.torch._batches(reads, lambda _read: 4):
            self.assertLessEqual(batch[-1].at + batch[-1].size, 16 << 20)

    def test_stands_still(self):
        """It is logged when the last byte came a minute ago, and each minute from then on."""
        reader, clock, said = dcpctl.torch, types.SimpleNamespace(now=0), []
        with mock.patch.object(reader.time, "monotonic", lambda: clock.now), mock.patch.object(reader.log, "warning", lambda *_words: said.append(clock.now)):
            watch = reader._Watch(types.SimpleNamespace(path=""), [])
            for clock.now in range(200):
                watch(types.SimpleNamespace(progress=lambda: (min(clock.now, 10), 100)))
        self.assertEqual(said, [70, 130, 190])


class Planners(unittest.TestCase):
    def test_partial(self):
        make = lambda: {KEY: torch.zeros(67, 18), "not there": torch.ones(3)}
        self.assertEqual(list(differences(*both(FSDP, make, planner=lambda: DefaultLoadPlanner(allow_partial_load=True)))), [])
        with self.assertRaises(CheckpointException):
            dcp.load(make(), storage_reader=Reader(FSDP))

    def test_overrides(self):
        class Planner(DefaultLoadPlanner):
            def __init__(self):
                super().__init__()
                self.calls = []

            def resolve_tensor(self, item):
                self.calls.append(("resolve", item.dest_index.fqn, tuple(item.dest_offsets)))
                return torch.full_like(super().resolve_tensor(item), 5)

            def commit_tensor(self, item, tensor):
                self.calls.append(("commit", item.dest_index.fqn, tuple(item.dest_offsets)))
                self.lookup_tensor(item.dest_index)[tuple(slice(o, o + n) for o, n in zip(item.dest_offsets, item.lengths))] = tensor * 2

            def load_bytes(self, item, value):
                self.calls.append(("bytes", item.dest_index.fqn))
                super().load_bytes(item, value)

        made = []
        states = both(FSDP, lambda: {KEY: torch.zeros(67, 18), "train_state.step": 0}, planner=lambda: made.append(Planner()) or made[-1])
        self.assertEqual(list(differences(*states)), [])
        self.assertEqual(sorted(made[0].calls), sorted(made[1].calls))
        self.assertEqual(len(made[1].calls), 4 + 4 + 1)

    def test_nested(self):
        states = both(FSDP, lambda: {"model": {"tok_embeddings.weight": torch.zeros(67, 18)}, "train_state": {"step": 0, "log_steps": [0]}})
        self.assertEqual(list(differences(*states)), [])
        self.assertEqual(states[1]["train_state"]["step"], 1)

    def test_load_from_keys(self):
        from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

        expected = _load_state_dict_from_keys({"model"}, storage_reader=FileSystemReader(FSDP))
        self.assertEqual(list(differences(expected, _load_state_dict_from_keys({"model"}, storage_reader=Reader(FSDP)))), [])


class Metadatas(unittest.TestCase):
    def test_equal(self):
        expected, got = FileSystemReader(FSDP).read_metadata(), Reader(FSDP).read_metadata()
        self.assertIn(KEY, got.state_dict_metadata)
        self.assertNotIn("no", got.state_dict_metadata)
        self.assertIsNone(got.state_dict_metadata.get("no"))
        with self.assertRaises(KeyError):
            got.state_dict_metadata["no"]
        self.assertEqual(got.state_dict_metadata[KEY].chunks, expected.state_dict_metadata[KEY].chunks)
        self.assertEqual(got.planner_data[KEY], expected.planner_data[KEY])
        self.assertEqual({k: type(v).__name__.strip("_") for k, v in got.state_dict_metadata.items() if v is None}, {})
        for one in (got, copy.copy(got), copy.deepcopy(got), pickle.loads(pickle.dumps(got))):
            self.assertIsInstance(one, Metadata)
            self.assertEqual(list(one.state_dict_metadata), list(expected.state_dict_metadata))
            self.assertEqual(dict(one.planner_data), expected.planner_data)
            self.assertEqual({k: (v.relative_path, v.offset, v.length) for k, v in one.storage_data.items()}, {k: (v.relative_path, v.offset, v.length) for k, v in expected.storage_data.items()})
            for key, entry in expected.state_dict_metadata.items():
                other = one.state_dict_metadata[key]
                self.assertEqual(getattr(other, "chunks", None), getattr(entry, "chunks", None))
                self.assertEqual(getattr(other, "size", None), getattr(entry, "size", None))
                if hasattr(entry, "properties"):
                    self.assertEqual(other.properties.dtype, entry.properties.dtype)
        self.assertIs(type(pickle.loads(pickle.dumps(got))), Metadata)

    def test_is_made_when_touched(self):
        got = Reader(FSDP).read_metadata()
        entry = got.state_dict_metadata[KEY]
        self.assertEqual(dict.__len__(got.state_dict_metadata), 1)
        self.assertNotIn("chunks", entry.__dict__)
        self.assertEqual(len(got.state_dict_metadata), 67)
        self.assertEqual(dict.__len__(got.state_dict_metadata), 1)
        got.state_dict_metadata["new"] = entry
        self.assertEqual(len(got.state_dict_metadata), 68)
        del got.state_dict_metadata[KEY]
        self.assertEqual(set(got.state_dict_metadata) ^ set(Reader(FSDP).read_metadata().state_dict_metadata), {"new", KEY})

    def test_two_of_one_checkpoint(self):
        a, b = (Reader(FSDP).read_metadata() for _ in range(2))
        self.assertTrue(a.state_dict_metadata == b.state_dict_metadata)
        self.assertFalse(Reader(FSDP).read_metadata().planner_data != b.planner_data)
        replaced = dataclasses.replace(Reader(FSDP).read_metadata(), storage_meta=None)
        self.assertEqual((type(replaced), replaced.storage_meta, list(replaced.state_dict_metadata)), (Metadata, None, list(a.state_dict_metadata)))

    def test_reader_is_pickled(self):
        reader = Reader(FSDP, threads=1)
        reader.read_metadata()
        state = {KEY: torch.zeros(67, 18)}
        dcp.load(state, storage_reader=pickle.loads(pickle.dumps(reader)))
        self.assertTrue(state[KEY].any())

    def test_checkpoint_id(self):
        state = {KEY: torch.zeros(67, 18)}
        dcp.load(state, checkpoint_id=FSDP, storage_reader=Reader("/no/such"))
        self.assertTrue(state[KEY].any())


class Kinds(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.expected = whole(FileSystemReader(FSDP))["model"]

    def tearDown(self):
        self.folder.cleanup()

    def loaded(self, path, **options):
        return whole(Reader(path, **options))

    def test_files(self):
        for name in ("model.pt", "model.safetensors", "hf"):
            out = Path(self.folder.name, name)
            dcpctl.consolidate(FSDP, out, model_only=True, **({"max_shard_size": "2KB"} if name == "hf" else {}))
            got = self.loaded(out)
            self.assertEqual(list(differences({k: v for k, v in self.expected.items() if isinstance(v, torch.Tensor)}, {k: v for k, v in sorted(got.items(), key=lambda kv: list(self.expected).index(kv[0])) if isinstance(v, torch.Tensor)})), [], name)

    def test_step_of_a_run(self):
        run = Path(self.folder.name, "run")
        run.mkdir()
        for n in (1, 2):
            (run / f"step-{n}").symlink_to(FSDP)
        state = {"tok_embeddings.weight": torch.zeros(67, 18)}
        dcp.load(state, storage_reader=Reader(run, step="latest", root="model"))
        self.assertTrue(torch.equal(state["tok_embeddings.weight"], self.expected["tok_embeddings.weight"]))
        state = {"m.tok_embeddings.weight": torch.zeros(67, 18)}
        dcp.load(state, storage_reader=Reader(run, step=1, rename="^model\\.=>m."))
        self.assertTrue(torch.equal(state["m.tok_embeddings.weight"], self.expected["tok_embeddings.weight"]))


class Encodes:
    def __init__(self, *arguments):
        self.arguments = arguments

    def __reduce__(self):
        return codecs.encode, self.arguments


class Sets(Encodes):
    def __reduce__(self):
        return set, ((self.arguments[0],),)


class Objects(unittest.TestCase):
    def test_values(self):
        """bytes and sets are calls in the pickles of torch.save."""
        values = {
            "all": bytes(range(256)), "none": b"", "set": {1, "a", (2, b"x")}, "empty": set(), "frozen": frozenset({3}), "list": [b"ab", {"k": {None}}],
            "like": ["latin1", "_codecs.encode"],
        }
        with tempfile.TemporaryDirectory() as folder:
            objects = dcpctl.open(saved(folder, {"objects": [values]})).objects
            self.assertEqual({key.split(".")[2]: o.value for key, o in objects.items() if "list" not in key and "like" not in key}, {k: v for k, v in values.items() if k not in ("list", "like")})
            torch.save(values, Path(folder, "values.pt"))
            state = dcpctl.open(Path(folder, "values.pt")).state_dict()
            self.assertEqual(state, values)
            torch.save({"array": bytearray(b"x"), "text": Encodes("\u0100", "latin1"), "other": Encodes("a", "utf-8"), "set": Sets(3)}, Path(folder, "odd.pt"))
            for key, odd in dcpctl.open(Path(folder, "odd.pt")).objects.items():
                self.assertTrue(odd.would_call, key)

    def test_checked(self):
        class Strange:
            pass

        with tempfile.TemporaryDirectory() as folder:
            import fractions

            path = saved(folder, {"plain": {"a": 1}, "odd": fractions.Fraction(1, 3)})
            self.assertEqual(whole(Reader(path))["odd"], fractions.Fraction(1, 3))
            with self.assertRaises(CheckpointException) as caught:
                whole(Reader(path, objects="checked"))
            error = caught.exception.failures[0][0]
            self.assertEqual((error.id, error.key), ("unsafe_object", "odd"))
            self.assertIn("fractions.Fraction", error.got)
        self.assertEqual(whole(Reader(FSDP, objects="checked"))["train_state"]["step"], 1)


class Damage(unittest.TestCase):
    """The ids are the program's, and torch's own reader loads a changed byte silently."""

    def tried(self, damage):
        with tempfile.TemporaryDirectory() as folder:
            path = copies(FSDP, folder)
            damage(path)
            expected = dcpctl.verify(path)
            with self.assertRaises(CheckpointException) as caught:
                whole(Reader(path))
            error = caught.exception.failures[0][0]
            pickle.loads(pickle.dumps(error))
            self.assertIsInstance(error, dcpctl.Error)
            self.assertIn(error.id, {f.id for f in expected.findings})
            try:
                whole(FileSystemReader(path))
            except CheckpointException:
                return error, False
            return error, True

    def test_changed_byte(self):
        def damage(path):
            tensor = dcpctl.open(path)[KEY]
            file, payload = path / tensor.chunks[0].file, bytes(tensor[: tensor.chunks[0].sizes[0]].read())
            data = bytearray(file.read_bytes())
            data[data.index(payload) + 500] ^= 4
            file.write_bytes(data)

        error, torch_is_silent = self.tried(damage)
        self.assertEqual((error.id, error.key, torch_is_silent), ("crc_mismatch", KEY, True))

    def test_cut_short(self):
        def damage(path):
            file = path / "__2_0.distcp"
            with open(file, "r+b") as f:
                f.truncate(file.stat().st_size - 100)

        error, _ = self.tried(damage)
        self.assertIn("__2_0.distcp", error.path)

    def test_missing_file(self):
        error, _ = self.tried(lambda path: (path / "__3_0.distcp").unlink())
        self.assertIn("__3_0.distcp", str(error))


if __name__ == "__main__":
    unittest.main()
