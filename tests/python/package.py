"""The Python package without torch: what is opened and read, into what, by which errors, and what ends it. Run by each Python that is found.

    package.py [TEST...]
"""
import array
import copy
import ctypes
import errno
import gc
import mmap
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import dcpctl

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests/data"
FSDP = DATA / "fsdp2_ws4/ckpt"
KEY = "model.tok_embeddings.weight"  # 67 x 18, float32, on four ranks
try:
    import numpy
except ImportError:
    numpy = None


def floats(tensor):
    return memoryview(tensor.read()).cast("f").tolist()


def big(folder, mib=512):
    """A torch.save file so large that reading it takes a while; it is sparse, so writing it takes none."""
    import zipfile

    path = Path(folder, f"big{mib}.safetensors")
    size = mib << 20
    header = ('{"w":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}' % (size // 4, size)).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header)
        f.truncate(8 + len(header) + size)
    return path


class Opening(unittest.TestCase):
    def test_facts(self):
        ck = dcpctl.open(FSDP)
        self.assertEqual((ck.kind, ck.ranks, ck.step, ck.written_by, ck.path), ("dcp", 4, None, ">=2.15", str(FSDP)))
        self.assertEqual(len(ck), 67)
        self.assertEqual(list(ck), [*ck.keys()])
        self.assertEqual(len(ck.tensors) + len(ck.objects), 67)
        self.assertIn(KEY, ck)
        self.assertNotIn("model", ck)
        self.assertNotIn(3, ck)

    def test_names(self):
        ck = dcpctl.open(FSDP, model_only=True)
        self.assertIn("tok_embeddings.weight", ck)
        ck = dcpctl.open(str(FSDP), include="model.layers.0.*", exclude=["*norm*"], rename="^model\\.=>m.")
        self.assertEqual(set(ck), {"m.layers.0.rope", *(f"m.layers.0.{n}.weight" for n in ("wqkv", "wo", "w1", "w2"))})
        ck = dcpctl.open(FSDP, root="model", dtype="bfloat16")
        self.assertEqual(ck["norm.weight"].dtype, "bfloat16")
        ck = dcpctl.open(FSDP, root="model", dtype={"*.wo.*": "keep", "*": "float16"})
        self.assertEqual({ck["layers.0.wo.weight"].dtype, ck["layers.0.w1.weight"].dtype}, {"float32", "float16"})

        for dtype in ("bf16", "BF16", "torch.bfloat16", {"*": "bf16"}):
            self.assertEqual(dcpctl.open(FSDP, root="model", dtype=dtype)["norm.weight"].dtype, "bfloat16")

    def test_options_that_are_none(self):
        for options in ({"max_memory": -1}, {"max_memory": "1GiB"}, {"threads": -1}, {"threads": 1 << 32}, {"prefer_rank": -1}, {"dtype": {}}):
            with self.assertRaises(dcpctl.UsageError, msg=str(options)):
                dcpctl.open(FSDP, **options)

    def test_paths_of_any_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, os.fsdecode(b"\xff"))
            path.symlink_to(FSDP)
            for kind in (str, Path, os.fsencode):
                ck = dcpctl.open(kind(path))
                self.assertEqual((ck.path, len(ck)), (str(path), 67))
            self.assertIn("tok_embeddings.weight", ck.state_dict(model_only=True, nested=False, framework="numpy") if numpy else ["tok_embeddings.weight"])

    def test_is_itself(self):
        ck = dcpctl.open(FSDP)
        self.assertEqual((ck == ck, ck == dcpctl.open(FSDP), {ck: 1}[ck]), (True, False, 1))

    def test_copies(self):
        ck = dcpctl.open(FSDP)
        held = {"ck": ck, "tensor": ck[KEY], "slice": ck[KEY][1:3], "object": ck["train_state.step"], "part": ck.subtree("model")}
        for copied in (copy.copy(held), copy.deepcopy(held), {key: copy.copy(value) for key, value in held.items()}):
            self.assertEqual({key: copied[key] is value for key, value in held.items()}, dict.fromkeys(held, True))
        for value in held.values():
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                with self.assertRaises(dcpctl.UsageError) as caught:
                    pickle.dumps(value, protocol)
                self.assertEqual((caught.exception.id, caught.exception.key), ("not_pickled", getattr(value, "key", None)))
        self.assertTrue(held["tensor"].read())

    def test_subtree(self):
        ck = dcpctl.open(FSDP)
        part = ck.subtree("model").subtree("layers")
        self.assertEqual(floats(part["0.wo.weight"]), floats(ck["model.layers.0.wo.weight"]))
        self.assertTrue(all(f"model.layers.{k}" in ck for k in part))
        with self.assertRaises(dcpctl.MissingKey):
            ck.subtree("mode")

    def test_missing_key(self):
        with self.assertRaises(KeyError) as caught:
            dcpctl.open(FSDP)["model.tok_embedings.weight"]
        self.assertIsInstance(caught.exception, dcpctl.UsageError)
        self.assertIn(KEY, caught.exception.hint)
        with self.assertRaises(dcpctl.MissingKey) as caught:
            dcpctl.open(FSDP)["model"]
        self.assertIn("subtree", caught.exception.hint)
        ck = dcpctl.open(FSDP)
        for part, key, word in ((ck.tensors, "nope", "no such"), (ck.objects, KEY, "a tensor"), (ck.tensors, "train_state.step", "an object")):
            with self.assertRaises(dcpctl.MissingKey) as caught:
                part[key]
            self.assertIn(word, caught.exception.what)
            self.assertIsNone(part.get(key))

    def test_errors(self):
        for path, kind, id in [("/no/such", dcpctl.InputError, "no_such_path"), (FSDP / "__0_0.distcp/x", dcpctl.Error, None)]:
            with self.assertRaises(kind) as caught:
                dcpctl.open(path)
            again = pickle.loads(pickle.dumps(caught.exception))
            self.assertIs(type(again), type(caught.exception))
            self.assertEqual((again.id, again.kind, again.path, again.hint, str(again)), tuple(getattr(caught.exception, n) for n in ("id", "kind", "path", "hint")) + (str(caught.exception),))
            if id:
                self.assertEqual(caught.exception.id, id)
        for kind in (dcpctl.UsageError, dcpctl.MissingKey, dcpctl.MachineError, dcpctl.RankError):
            error = kind(id="x", kind="usage", what="it is so", key="k")
            self.assertEqual(str(copy.copy(error)), "k: it is so")
        with self.assertRaises(dcpctl.MachineError) as caught:
            dcpctl.open("/tmp/" + "x" * 300)
        self.assertEqual((caught.exception.errno, pickle.loads(pickle.dumps(caught.exception)).errno), (errno.ENAMETOOLONG,) * 2)
        self.assertIsNone(dcpctl.MachineError(id="x", kind="machine", what="it is so").errno)
        self.assertTrue(issubclass(dcpctl.UsageError, ValueError) and issubclass(dcpctl.MachineError, OSError))

    def test_objects(self):
        objects = dcpctl.open(FSDP).objects
        self.assertEqual(objects["optimizer.param_groups.0.betas"].value, (0.9, 0.999))
        self.assertEqual(objects["train_state.log_steps"].value, [1])
        self.assertEqual(objects["train_state.step"].path, ("train_state", "step"))
        self.assertEqual(objects["train_state.step"].would_call, [])
        self.assertTrue(objects["train_state.step"].raw.startswith(b"PK"))

    def test_an_object_that_would_be_a_long_text(self):
        """A text a hundred times: its file has it once."""
        import zipfile

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "o.pt")
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("o/data.pkl", pickle.dumps({"o": ("x" * (1 << 20),) * 100}, 2))
                archive.writestr("o/version", "3\n")
            with self.assertRaises(dcpctl.InputError) as caught:
                dcpctl.open(path).objects["o"].value  # noqa: B018
            self.assertEqual(caught.exception.id, "not_plain")

    def test_state_dict(self):
        ck = dcpctl.open(FSDP)
        if numpy is None:
            with self.assertRaises(dcpctl.LackingError) as caught:
                ck.state_dict(framework="numpy")
            return self.assertIn("pip install numpy", caught.exception.hint)
        nested = ck.state_dict(framework="numpy")
        self.assertEqual(nested["optimizer"]["param_groups"][0]["lr"], 0.0003)
        self.assertEqual(ck.state_dict("optimizer.param_groups"), nested["optimizer"]["param_groups"])
        self.assertEqual(ck.state_dict("train_state"), nested["train_state"])
        flat = ck.state_dict("model", framework="numpy", nested=False)
        self.assertEqual(flat["tok_embeddings.weight"].tolist(), nested["model"]["tok_embeddings.weight"].tolist())
        self.assertEqual(ck.state_dict("model", framework="numpy").keys(), flat.keys())
        into = {KEY: numpy.zeros((67, 18), "f")}
        self.assertIs(ck.state_dict(into=into, nested=False)[KEY], into[KEY])
        self.assertTrue((into[KEY] == nested["model"]["tok_embeddings.weight"]).all())
        self.assertEqual(list(ck.state_dict(model_only=True, framework="numpy", nested=False)), list(flat))
        with self.assertRaises(dcpctl.UsageError):
            ck.subtree("optimizer").state_dict(model_only=True, framework="numpy")
        with self.assertRaises(dcpctl.UsageError):
            next(ck.iter_tensors(framework="jax"))
        with self.assertRaises(dcpctl.UsageError) as caught:
            ck.state_dict(into={KEY: numpy.zeros((67, 18), "f"), "model.norm.weight": numpy.zeros(5, "f")})
        self.assertEqual(caught.exception.key, "model.norm.weight")
        found = dict(ck.iter_tensors(framework="numpy"))
        self.assertEqual(found.keys(), ck.tensors.keys())
        self.assertTrue(all((found["model." + k] == v).all() for k, v in flat.items() if v is not None))


    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_model_of_the_step_that_is_open(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step-1").symlink_to(FSDP)
            ck = dcpctl.open(folder, step="latest")
            Path(folder, "step-2").symlink_to(DATA / "titan_like/ckpt")
            self.assertIn("tok_embeddings.weight", ck.state_dict(model_only=True, nested=False, framework="numpy"))
            ck.close()
            with self.assertRaises(dcpctl.UsageError) as caught:
                ck.state_dict(model_only=True)
            self.assertEqual(caught.exception.id, "closed")


class Reading(unittest.TestCase):
    def setUp(self):
        self.tensor = dcpctl.open(FSDP)[KEY]
        data = floats(self.tensor)
        self.rows = [data[n * 18 : (n + 1) * 18] for n in range(67)]

    def test_tensor(self):
        t = self.tensor
        self.assertEqual((t.shape, t.dtype, t.nbytes, t.ndim, len(t)), ((67, 18), "float32", 67 * 18 * 4, 2, 67))
        self.assertEqual(t.path, ("model", "tok_embeddings.weight"))
        self.assertEqual(t.placement, "Shard(0) x4 uneven")
        self.assertEqual(t.chunks[1].offsets, (17, 0))
        self.assertEqual(sum(c.sizes[0] for c in t.chunks), 67)
        self.assertEqual(memoryview(t.read()).nbytes, t.nbytes)

    def test_slices(self):
        t, rows = self.tensor, self.rows
        self.assertEqual(floats(t[3]), rows[3])
        self.assertEqual(floats(t[-1, 2]), [rows[-1][2]])
        self.assertEqual(t[-1, 2].shape, ())
        self.assertEqual(floats(t[..., 5]), [r[5] for r in rows])
        for first in (slice(None), slice(16, 19), slice(2, 60, 7), slice(-5, None), slice(5, 5), slice(100, 200), slice(0, 1)):
            for second in (slice(None), slice(1, None, 2), slice(17, 3), slice(3, 4)):
                self.assertEqual(floats(t[first, second]), [x for r in rows[first] for x in r[second]], (first, second))
        view = t[2:60:3][1:, ::2][4]
        self.assertEqual(floats(view), rows[2:60:3][1:][4][::2])
        self.assertEqual([row.shape for row in t[:2]], [(18,), (18,)])
        for bad in [(0, 0, 0), 67, -68]:
            with self.assertRaises(IndexError):
                t[bad]
        for bad in [slice(None, None, -1), "x", None, 1.5, True]:
            with self.assertRaises(dcpctl.UsageError):
                t[bad]

    def test_casts(self):
        half = bytes(self.tensor.to("float16").read())
        self.assertEqual(half, struct.pack("=1206e", *(x for r in self.rows for x in r)))
        self.assertEqual(self.tensor.to("float32").to("float16").to("float16").read(), half)
        with self.assertRaises(dcpctl.UsageError):
            self.tensor.to("float16").to("float32")
        self.assertEqual(self.tensor.to("float64")[0].nbytes, 18 * 8)
        with self.assertRaises(dcpctl.UsageError):
            self.tensor.to("float33")
        with self.assertRaises(dcpctl.UsageError):
            self.tensor.to("int32").read()

    def test_into(self):
        whole = bytes(self.tensor.read())
        for into in (bytearray(len(whole)), mmap.mmap(-1, len(whole)), array.array("f", [0] * 1206), (ctypes.c_float * 18 * 67)(), memoryview(bytearray(len(whole))).cast("f", (67, 18))):
            if isinstance(into, array.array):  # one dim, of floats: another shape
                with self.assertRaises(dcpctl.UsageError):
                    self.tensor.read(into)
                into = memoryview(into).cast("B")
            self.assertIs(self.tensor.read(into), into)
            self.assertEqual(bytes(into), whole)
        pair = memoryview(bytearray(2 * 18 * 4)).cast("B").cast("f", (2, 18))
        self.tensor[5:7].read(into=pair)
        self.assertEqual(pair.tolist(), self.rows[5:7])
        every_other = memoryview(array.array("f", [7] * 36))[::2]
        self.tensor[5].read(into=every_other)
        self.assertEqual(every_other.tolist(), self.rows[5])
        self.assertEqual(every_other.obj[1::2], array.array("f", [7] * 18))

    def test_into_dtypes_of_others(self):
        """numpy's letters for dtypes of ml_dtypes say their size alone: the dtype's name counts."""
        for name, letters in (("bfloat16", "V2"), ("float8_e5m2", "f1"), ("float8_e4m3fn", "V1")):
            into = bytearray(self.tensor.to(name).nbytes)
            memory = (ctypes.c_char * len(into)).from_buffer(into)
            face = {"shape": (67, 18), "typestr": f"<{letters}", "data": (ctypes.addressof(memory), False), "version": 3}
            self.tensor.to(name).read(type("Array", (), {"__array_interface__": face, "dtype": name}))
            self.assertEqual(into, self.tensor.to(name).read())
            with self.assertRaises(dcpctl.UsageError) as caught:
                self.tensor.read(type("Array", (), {"__array_interface__": face, "dtype": name}))
            self.assertEqual(caught.exception.got, name)

    def test_into_misfits(self):
        doubles = memoryview(bytearray(67 * 18 * 8)).cast("d", (67, 18))
        for into, word in [
            (bytes(self.tensor.nbytes), "read-only"), (bytearray(5), "5 bytes"), (doubles, "float64"), (memoryview(bytearray(4824)).cast("f", (18, 67)), "[18, 67]"),
            ("text", "str"), (object(), "object"), (self.tensor, "dcpctl.Tensor"),
        ]:
            before = bytes(into) if isinstance(into, (bytearray, memoryview)) else None
            with self.assertRaises(dcpctl.UsageError) as caught:
                self.tensor.read(into=into)
            self.assertIn(word, str(caught.exception))
            self.assertIsInstance(caught.exception, ValueError)
            if before is not None:
                self.assertEqual(bytes(into), before)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_numpy(self):
        made = self.tensor.numpy()
        self.assertEqual((made.dtype, made.tolist()), (numpy.float32, self.rows))
        self.assertEqual(numpy.asarray(self.tensor[2]).tolist(), self.rows[2])
        self.assertEqual(numpy.from_dlpack(self.tensor[2:4]).tolist(), self.rows[2:4])
        wide = numpy.zeros((67, 40), "f")
        self.tensor.read(into=wide[:, 1:37:2])
        self.assertEqual(wide[:, 1:37:2].tolist(), self.rows)
        self.assertFalse(wide[:, ::2].any())
        self.tensor.read(into=wide[::-1, 1:37:2])
        self.assertEqual(wide[::-1, 1:37:2].tolist(), self.rows)
        with self.assertRaises(dcpctl.UsageError):
            self.tensor.read(into=numpy.zeros((67, 18), ">f4"))
        frozen = numpy.zeros((67, 18), "f")
        frozen.flags.writeable = False
        with self.assertRaises(dcpctl.UsageError):
            self.tensor.read(into=frozen)

        class Placeless:
            __array_interface__ = {"shape": (67, 18), "typestr": "<f4", "version": 3}

        class Typeless:
            __array_interface__ = {"shape": (67, 18), "data": (1, False), "version": 3}

        windows = numpy.lib.stride_tricks.as_strided(numpy.zeros(100, "f"), (67, 18), (4, 4))
        for into in (numpy.zeros((67, 18), "M8[ns]"), Placeless(), Typeless(), windows, numpy.lib.stride_tricks.as_strided(numpy.zeros(18, "f"), (67, 18), (0, 4))):
            with self.assertRaises(dcpctl.UsageError):
                self.tensor.read(into=into)
        with self.assertRaises(dcpctl.UsageError):
            self.tensor[numpy.array([1, 2])]
        with self.assertRaises(dcpctl.UsageError) as caught:
            self.tensor[0, 0].read(into=numpy.float32(0))
        self.assertIn("read-only", str(caught.exception))
        for dtype, hint in (("f8", '.to("float64")'), ("i4", "as it is")):
            with self.assertRaises(dcpctl.UsageError) as caught:
                self.tensor.read(into=numpy.zeros((67, 18), dtype))
            self.assertIn(hint, caught.exception.hint)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_dlpack_into(self):
        class Foreign:  # has nothing but DLPack
            def __init__(self, held):
                self.held = held

            def __dlpack__(self, **asked):
                return self.held.__dlpack__(**asked)

            def __dlpack_device__(self):
                return self.held.__dlpack_device__()

        wide = numpy.zeros((67, 20), "f")
        self.tensor.read(into=Foreign(wide[:, :18]))
        self.assertEqual(wide[:, :18].tolist(), self.rows)
        with self.assertRaises(dcpctl.UsageError):
            self.tensor.read(into=Foreign(wide))
        wide.flags.writeable = False
        with self.assertRaises(dcpctl.UsageError):
            self.tensor.read(into=Foreign(wide[:, :18]))

    def test_without_ml_dtypes(self):
        try:
            import ml_dtypes  # noqa: F401
        except ImportError:
            with self.assertRaises(dcpctl.LackingError) as caught:
                self.tensor.to("bfloat16").numpy()
            self.assertIn("numpy", str(caught.exception) if numpy else "numpy")
        else:
            self.assertEqual(str(self.tensor.to("bfloat16").numpy().dtype), "bfloat16")

    def test_threads(self):
        found, expected = [], [bytes(t.read()) for t in dcpctl.open(FSDP).tensors.values()]
        ck = dcpctl.open(FSDP)

        def work():
            found.append([bytes(t.read()) for t in ck.tensors.values()] == expected)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(found, [True] * 6)


class Ending(unittest.TestCase):
    def test_closed(self):
        with dcpctl.open(FSDP) as ck:
            tensor = ck[KEY]
            list(ck)
        for call in (lambda: ck[KEY], lambda: KEY in ck, lambda: ck["no"], lambda: list(ck), lambda: len(ck), lambda: tensor.read(), lambda: tensor.chunks, lambda: ck.subtree("model")):
            with self.assertRaises(dcpctl.UsageError) as caught:
                call()
            self.assertEqual(caught.exception.id, "closed")
        ck.close()

    def test_close_ends_a_read(self):
        with tempfile.TemporaryDirectory() as folder:
            ck = dcpctl.open(big(folder, 2048))
            into = mmap.mmap(-1, 2048 << 20)
            timer = threading.Timer(0.02, ck.close)
            timer.start()
            with self.assertRaises(dcpctl.UsageError) as caught:
                while True:
                    ck["w"].read(into)
            self.assertEqual(caught.exception.id, "closed")
            timer.join()

    def test_close_while_threads_use_it(self):
        def work(ck, found):
            try:
                while True:
                    ck.tensors[KEY].read(), ck.kind
            except dcpctl.Error as error:
                found.append(error.id)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for n in range(30):
                ck, found = dcpctl.open(FSDP), []
                threads = [threading.Thread(target=work, args=(ck, found)) for _ in range(3)]
                for t in threads:
                    t.start()
                time.sleep(0.0005 * (n % 7))
                ck.close()
                for t in threads:
                    t.join()
                self.assertEqual(found, ["closed"] * 3)
        finally:
            sys.setswitchinterval(interval)

    def test_fork(self):
        ck = dcpctl.open(FSDP)
        tensor = ck[KEY]
        child = os.fork()
        if not child:
            code = 0
            for call in (tensor.read, lambda: ck[KEY], lambda: len(ck), lambda: "no" in ck):
                try:
                    call()
                    code = 1
                except dcpctl.UsageError as error:
                    code = code or (0 if error.id == "forked" else 2)
            try:
                code = code or (0 if bytes(dcpctl.open(FSDP)[KEY].read()) else 3)
                del ck, tensor
                gc.collect()
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(tensor.read())

    def test_ctrl_c(self):
        script = (
            "import dcpctl, mmap, signal, sys, time\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "ck = dcpctl.open(sys.argv[1]); into = mmap.mmap(-1, 2048 << 20)\n"
            "print('reading', flush=True)\n"
            "try:\n"
            "    while True: ck['w'].read(into)\n"
            "except KeyboardInterrupt:\n"
            "    print(time.monotonic(), flush=True)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            path = big(folder, 2048)
            took = []
            for _ in range(3):
                with subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, encoding="utf-8") as child:
                    child.stdout.readline()
                    time.sleep(0.2)
                    sent = time.monotonic()
                    child.send_signal(signal.SIGINT)
                    took.append(float(child.stdout.readline()) - sent)
                self.assertEqual(child.returncode, 0)
        self.assertLess(min(took), 0.3, took)

    def test_progress(self):
        with tempfile.TemporaryDirectory() as folder:
            seen = []
            tensor = dcpctl.open(big(folder, 512))["w"]
            tensor.read(mmap.mmap(-1, tensor.nbytes), progress=lambda *of: seen.append((*of, threading.get_ident())))
            self.assertEqual(seen[-1][0], seen[-1][1])
            self.assertTrue(all(done <= total and thread == threading.get_ident() for done, total, thread in seen))
            with self.assertRaises(ZeroDivisionError):
                tensor.read(progress=lambda done, total: 1 // 0)

    def test_nothing_is_kept(self):
        def once():
            ck = dcpctl.open(FSDP)
            for t in list(ck.tensors.values())[:2]:
                t[:1].read()
            try:
                ck["no"]
            except KeyError:
                pass
            try:
                dcpctl.open("/no/such")
            except dcpctl.InputError:
                pass

        def resident():
            gc.collect()
            return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

        for _ in range(50):
            once()
        memory, files = resident(), len(os.listdir("/proc/self/fd"))  # without what earlier tests have left to be collected
        for _ in range(300):
            once()
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)
        self.assertLess(resident() - memory, 4 << 20)


class Imports(unittest.TestCase):
    def test_imports_little(self):
        script = "import sys; before = set(sys.modules); import dcpctl; print(*sorted(set(sys.modules) - before))"
        loaded = subprocess.run([sys.executable, "-S", "-E", "-c", script], check=True, stdout=subprocess.PIPE, encoding="utf-8", cwd=Path(dcpctl.__file__).parent.parent)
        self.assertLessEqual(set(loaded.stdout.split()), {"dcpctl", "__future__"})
        script = f"import sys, dcpctl; dcpctl.open({str(FSDP)!r})[{KEY!r}].read(); print(*sorted(sys.modules))"
        loaded, before = (
            set(subprocess.run([sys.executable, "-c", s], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout.split()) for s in (script, "import sys; print(*sys.modules)")
        )
        self.assertFalse({"numpy", "torch", "typing", "dataclasses", "inspect"} & (loaded - before))

    def test_every_name(self):
        for name in dcpctl.__all__:
            self.assertIsNotNone(getattr(dcpctl, name), name)
        with self.assertRaises(AttributeError):
            dcpctl.no_such_name


class Commands(unittest.TestCase):
    def test_answers(self):
        answer = dcpctl.verify(FSDP)
        self.assertTrue(answer.is_sound)
        self.assertEqual((answer.summary.tensors, answer.extra, answer.against), (51, {}, None))
        self.assertEqual(pickle.loads(pickle.dumps(answer)), answer)
        with self.assertRaises(AttributeError):
            answer.verdict = "broken"
        with tempfile.TemporaryDirectory() as folder:
            made = dcpctl.reshard(FSDP, Path(folder, "on-2"), world_size=2)
            self.assertEqual((made.world_size, made.extra), (2, {}))
            self.assertTrue(dcpctl.diff(FSDP, made.output).is_equal)
            made = dcpctl.consolidate(FSDP, Path(folder, "m.safetensors"), model_only=True, dtype_rule=["*=bf16"])
            self.assertEqual(made.extra, {})
            self.assertFalse(dcpctl.diff(FSDP, made.output, model_only=True).is_equal)
            edited = dcpctl.edit(FSDP, Path(folder, "edited"), exclude="optimizer")
            self.assertEqual((edited.extra, len(edited.dropped_keys) > 0), ({}, True))
            self.assertEqual(dcpctl.cast(FSDP, Path(folder, "cast"), dtype="bf16").extra, {})
            with self.assertRaises(dcpctl.UsageError) as caught:
                dcpctl.cast(FSDP, Path(folder, "cast"), dtype="bf16")
            self.assertEqual(caught.exception.id, "output_exists")
        with tempfile.TemporaryDirectory() as folder:
            for step in (1, 2):
                shutil.copytree(FSDP, Path(folder, f"step-{step}"))
            self.assertEqual(dcpctl.prune(folder, keep_latest=1, dry_run=True).extra, {})
            self.assertEqual(dcpctl.list(folder, last=2).extra, {})
        self.assertEqual(dcpctl.inspect(FSDP, stats=True, include=["model.norm.*"]).extra, {})
        self.assertEqual(dcpctl.inspect(FSDP, ranks=True).extra, {})
        self.assertEqual(dcpctl.maps("llama.transformers").extra, {})
        self.assertEqual(dcpctl.maps().extra, {})

    def test_ranks(self):
        """Of a job with several ranks: the program is none of them, unless it is asked to be one."""
        script = f"import dcpctl; print(dcpctl.verify({str(FSDP)!r}).is_sound); dcpctl.consolidate({str(FSDP)!r}, 'x', transport='file', timeout=1)"
        for rank, size in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
            with tempfile.TemporaryDirectory() as folder:
                ran = subprocess.run(
                    [sys.executable, "-c", script], env={**os.environ, rank: "0", size: "2"}, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                )
            self.assertEqual(ran.stdout, "True\n", rank)
            self.assertIn("MASTER_ADDR", ran.stderr)

    def test_ctrl_c(self):
        """It ends the program, which removes what it has begun: unless its output has got its name meanwhile."""
        with tempfile.TemporaryDirectory() as folder:
            made = dcpctl.convert(big(folder), Path(folder, "big"), to="dcp").output
            left = []
            for n in range(5):
                timer = threading.Timer(0.05 + 0.02 * n, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                begin = time.monotonic()
                with self.assertRaises(KeyboardInterrupt):
                    dcpctl.consolidate(made, Path(folder, "out.safetensors"))
                    time.sleep(5)
                self.assertLess(time.monotonic() - begin, 4)
                timer.join()
                left += [name for name in os.listdir(folder) if "out" in name]
            self.assertEqual(left, [])

    def test_failures(self):
        with self.assertRaises(dcpctl.InputError) as caught:
            dcpctl.inspect("/no/such")
        self.assertEqual((caught.exception.id, caught.exception.path), ("no_such_path", "/no/such"))
        with self.assertRaises(dcpctl.UsageError):
            dcpctl.reshard(FSDP, "/tmp/x", world_size="many")

    def test_module(self):
        ran = subprocess.run([sys.executable, "-m", "dcpctl", "verify", FSDP, "--quick", "-q"], stdout=subprocess.PIPE, encoding="utf-8")
        self.assertEqual(ran.returncode, 0)
        self.assertEqual(subprocess.run([sys.executable, "-m", "dcpctl", "verify", "/no/such"], stderr=subprocess.DEVNULL).returncode, 3)

    def test_places(self):
        """Where installers put the program, and where a wheel has it; an archive is named as what it is."""
        script = "from dcpctl import _program; print(_program.find())"
        with tempfile.TemporaryDirectory() as folder:
            for home, program in (("a/lib/python3/site-packages", "a/bin"), ("b", "b/bin"), ("c", "c/dcpctl-1.0.data/scripts")):
                shutil.copytree(Path(dcpctl.__file__).parent, Path(folder, home, "dcpctl"))
                Path(folder, program).mkdir(parents=True)
                self.assertIn("--target into an empty folder", self.alone(Path(folder, home), script))
                at = Path(folder, program, "dcpctl")
                at.write_text("")
                self.assertEqual(self.alone(Path(folder, home), script), f"{at}\n")
                self.assertIn("the program cannot be run: Permission denied", self.alone(Path(folder, home), "import dcpctl; dcpctl.list('.')"))
            shutil.make_archive(Path(folder, "z"), "zip", Path(folder, "a/lib/python3/site-packages"))
            self.assertIn("the package is in a zip file", self.alone(Path(folder, "z.zip"), script))

    def alone(self, home, script):
        """What a process says whose package is at `home`."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DCPCTL_")}
        environment.update(PYTHONPATH=str(home))
        return subprocess.run([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8").stdout


if __name__ == "__main__":
    unittest.main()
