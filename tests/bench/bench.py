#!/usr/bin/env python3
"""dcpctl measured beside what else could do the work: ./dev bench [NAME...]

On a shared or virtual machine one number says little: the first touch of memory and of page cache varies tenfold. So what is compared runs
in interleaved pairs, nine of them, with a `sync` before each run; the minima are set against each other and the spread is printed.
"""
import argparse
import json
import machine
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
MIB = 1 << 20
PAIRS = 9
TURNS = 5  # of medians

rows = []


def row(name, value, limit="", note="", ok=None):
    rows.append((name, value, limit, {True: "yes", False: "NO", None: ""}[ok], note))
    print("  " + "  ".join(filter(None, rows[-1])), file=sys.stderr, flush=True)


class Run:
    """One process: wall seconds, those that its threads spent outside the kernel, and in all, and the peak of its resident memory."""

    def __init__(self, *command, exit_code=0):
        os.sync()
        with tempfile.TemporaryFile() as errors:
            start = time.perf_counter()
            process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
            self.seconds = time.perf_counter() - start
            self.own = usage.ru_utime
            self.busy = usage.ru_utime + usage.ru_stime
            self.peak = usage.ru_maxrss * 1024
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != exit_code:
                errors.seek(0)
                sys.exit(f"bench: {command} ended with {process.returncode}\n{errors.read().decode()}")


def spread(runs):
    times = [r.seconds for r in runs]
    return f"{min(times):.3g}-{max(times):.3g} s"


def median(runs):
    return statistics.median(r.seconds for r in runs)


def best(runs):
    return min(r.seconds for r in runs)


def peak(runs):
    return max(r.peak for r in runs)


class Bench:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.dcpctl, self.bare_copy = build / "dcpctl", build / "bench_bare_copy"

    def generate(self, size, tensors, layout="shard0", ranks=4, dtype="float32"):
        checkpoint = self.folder / "ckpt"
        shutil.rmtree(checkpoint, ignore_errors=True)
        Run(self.dcpctl, "bench", "io", checkpoint, "--generate-only", "--bytes", size, "--layout", layout, "--tensors", tensors, "--world-size", ranks, "--dtype", dtype)
        return checkpoint

    def resharded(self, checkpoint, *options):
        """The run, and the folder that it made."""
        out = self.folder / "resharded"
        shutil.rmtree(out, ignore_errors=True)
        return Run(self.dcpctl, "reshard", checkpoint, out, "-j2", "--no-sync", "--quiet", *options), out

    def output(self, name):
        path = self.folder / name
        path.unlink(missing_ok=True)
        return path

    def consolidate(self, checkpoint, name, *options):
        return Run(self.dcpctl, "consolidate", checkpoint, self.output(name), "-j2", "--no-sync", "--quiet", *options)

    def in_python(self, what, checkpoint, runs=PAIRS):
        """Seconds of each run of python_loads.py, by name."""
        package = {"PYTHONPATH": str(HERE.parent.parent / "src/python"), "DCPCTL_LIBRARY": str(self.build / "src/api/libdcpctl.so"), "DCPCTL_PROGRAM": str(self.dcpctl)}
        out = subprocess.run([sys.executable, HERE / "python_loads.py", what, checkpoint, self.folder, str(runs)], env={**os.environ, **package}, check=True, stdout=subprocess.PIPE)
        return json.loads(out.stdout)

    # ---- the benchmarks; each is called by its name

    def python(self):
        """4 GiB on 4 ranks through dcp.load and dcp.save, with dcpctl.torch and with torch's own; one of 5,000 small tensors; import and open; metadata of 10^6 chunks"""

        def beside(name, found, other, limit, at_least):
            ours, theirs = min(found["ours"]), min(found[other])
            ratio = theirs / ours if at_least else ours / theirs
            note = f"{ours:.3g} s; {other} {theirs:.3g} s ({min(found[other]):.3g}-{max(found[other]):.3g})"
            row(name, f"{ratio:.2f}", f"{'>=' if at_least else '<='} {limit}", note, ratio >= limit if at_least else ratio <= limit)

        checkpoint = self.generate("4GiB", 32)
        found = self.in_python("load", checkpoint)
        beside("dcp.load of 4 GiB: times as fast as FileSystemReader", found, "torch", 6, True)
        beside("dcp.load of 4 GiB beside a bare read", found, "bare", 1.5, False)
        self.in_memory("above the destinations of 4 GiB", checkpoint)
        beside("dcp.load of 4 GiB on 2 ranks of Gloo: times as fast as FileSystemReader", self.in_python("ranks", checkpoint), "torch", 4, True)
        beside("dcp.save of 4 GiB with fsync: times as fast as FileSystemWriter", self.in_python("save", checkpoint, 3), "torch", 2, True)
        checkpoint = self.generate("2GiB", 4, ranks=1)
        self.in_memory("above the destinations of 2 GiB in items of 512 MiB", checkpoint)
        found = self.in_python("ranks", checkpoint, 1)
        share = found["read"] / found["kept"]
        row("what two ranks read of one rank's 2 GiB, beside its bytes", f"{share:.3f}", "<= 1.01", f"{found['read']:,} bytes", share <= 1.01)
        found = self.in_python("async_saves", checkpoint, 3)
        beside("async_save of 2 GiB, until it is on the disk, beside torch's with a stager that is kept", found, "torch", 0.5, False)
        beside("and until training goes on", {"ours": found["ours_stall"], "torch": found["torch_stall"]}, "torch", 1, False)
        checkpoint = self.generate("80MiB", 5000, ranks=1)
        found = self.in_python("load_uses", checkpoint)
        share = found["read"] / found["kept"]
        row("what dcp.load of 5,000 tensors of 16 KiB reads, beside its files", f"{share:.3f}", "<= 1.15", f"{found['read']:,} bytes", share <= 1.15)
        beside("dcp.load of 5,000 tensors of 16 KiB beside FileSystemReader", self.in_python("load", checkpoint), "torch", 0.35, False)
        found = self.in_python("one", checkpoint)
        beside("one of them by key, with open", found, "torch", 0.06, False)
        timed = f"import sys, time; sys.path.insert(0, {str(HERE.parent.parent / 'src/python')!r}); begin = time.perf_counter(); import dcpctl; print(time.perf_counter() - begin)"
        took = 1000 * min(float(subprocess.run([sys.executable, "-c", timed], check=True, stdout=subprocess.PIPE).stdout) for _ in range(PAIRS))
        row("import dcpctl over an empty Python", f"{took:.1f} ms", "<= 5 ms", ok=took <= 5)
        took = 1000 * min(self.in_python("opened", DATA / "fsdp2_ws4/ckpt")["ours"])
        row("open of a small checkpoint", f"{took:.1f} ms", "<= 3 ms", ok=took <= 3)
        million = self.folder / "million"
        Run(sys.executable, HERE / "million_chunks.py", million)
        found = self.in_python("metadata", million, 3)
        beside("read_metadata of 10^6 chunks beside pickle.load", found, "torch", 0.15, False)
        share = found["memory"] / found["torch_memory"]
        row("its memory beside pickle.load's", f"{share:.2f}", "<= 0.25", f"{found['memory'] >> 20} MiB; {found['torch_memory'] >> 20} MiB", share <= 0.25)

    def in_memory(self, name, checkpoint):
        above = self.in_python("load_uses", checkpoint)["memory"] / 2**20
        row(f"memory of dcp.load {name}", f"{above:.1f} MiB", "<= 32 MiB", ok=above <= 32)

    def shard0(self, layout="shard0"):
        """4 GiB of 32 float32 tensors on 4 ranks, rows split: consolidate beside a bare copy and beside format_utils"""
        checkpoint = self.generate("4GiB", 32, layout)
        data = sorted(checkpoint.glob("*.distcp"))
        Run(self.bare_copy, self.output("copy"), *data)  # brings the source into the page cache
        torch = [
            Run(sys.executable, "-m", "torch.distributed.checkpoint.format_utils", "dcp_to_torch", checkpoint, self.output("torch.pt"))
            for _ in range(2)
        ]
        self.output("torch.pt")
        for kind in ("pt", "safetensors"):
            copies, ours, capped = [], [], []
            for _ in range(PAIRS):
                copies.append(Run(self.bare_copy, self.output("copy"), *data))
                self.output("copy")
                ours.append(self.consolidate(checkpoint, f"out.{kind}"))
                self.output(f"out.{kind}")
            capped.append(self.consolidate(checkpoint, f"out.{kind}", "--max-memory", "256MiB"))
            self.output(f"out.{kind}")
            name = f"consolidate 4 GiB, {layout}, .{kind}"
            ratio = best(ours) / best(copies)
            row(name + " / bare copy", f"{ratio:.2f}", "<= 1.35", f"{spread(ours)} / {spread(copies)}", ratio <= 1.35)
            gain, ceiling = best(torch) / best(ours), best(torch) / best(copies)
            note = f"{spread(torch)}, {peak(torch) / MIB:.0f} MiB; the bare copy itself: {ceiling:.1f}"
            row("format_utils / " + name, f"{gain:.1f}", ">= 12", note, gain >= 12)
            row(name + ", peak memory with --max-memory 256MiB", f"{peak(capped) / MIB:.0f} MiB", "<= 256 MiB", "", peak(capped) <= 256 * MIB)

    def shard1(self):
        """the same, columns split"""
        self.shard0("shard1")

    def durable(self):
        """4 GiB of 32 float32 tensors on 4 ranks, waiting for the disk: consolidate and reshard beside a bare copy and its fsync"""
        checkpoint = self.generate("4GiB", 32)
        data = sorted(checkpoint.glob("*.distcp"))
        Run(self.bare_copy, self.output("copy"), *data)  # brings the source into the page cache
        copies, ours, resharded = [], [], []
        for _ in range(PAIRS):
            out = self.output("copy")
            copies.append(Run("sh", "-c", '"$@" && sync "$2"', "sh", self.bare_copy, out, *data))
            self.output("copy")
            ours.append(Run(self.dcpctl, "consolidate", checkpoint, self.output("out.safetensors"), "-j2", "--quiet"))
            self.output("out.safetensors")
            resharded.append(Run(self.dcpctl, "reshard", checkpoint, self.folder / "resharded", "--world-size", 8, "-j2", "--quiet"))
            shutil.rmtree(self.folder / "resharded")
        for name, runs in (("consolidate", ours), ("reshard to 8 ranks", resharded)):
            row(f"{name}, 4 GiB, synced / bare copy and fsync", f"{best(runs) / best(copies):.2f}", "", f"{spread(runs)} / {spread(copies)}")

    def diff(self):
        """4 GiB of 32 float32 tensors, on 4 ranks by rows or columns against one safetensors file, beside cmp of two such files"""
        for layout in ("shard0", "shard1"):
            checkpoint = self.generate("4GiB", 32, layout)
            whole, copy = self.folder / "out.safetensors", self.output("copy")
            self.consolidate(checkpoint, whole.name)
            Run("cp", whole, copy)
            compared, ours = [], []
            for _ in range(PAIRS):
                compared.append(Run("cmp", whole, copy))
                ours.append(Run(self.dcpctl, "diff", checkpoint, whole, "-j2", "--quiet", "--max-memory", "256MiB"))
            ratio = best(compared) / best(ours)
            row(f"diff 4 GiB, {layout} against safetensors: rate / cmp", f"{ratio:.2f}", ">= 0.5", f"{spread(ours)} / {spread(compared)}", ratio >= 0.5)
            row(f"diff 4 GiB, {layout}: peak memory", f"{peak(ours) / MIB:.0f} MiB", "<= 256 MiB", "", peak(ours) <= 256 * MIB)
            self.output("copy")
            self.output(whole.name)

    def everyday(self):
        """list of 1,000 steps with .metadata of 100 KB each; extract of 4 KiB out of 4 GiB"""
        step, run = self.generate("1MiB", 235), self.folder / "run"
        for number in range(1000):
            shutil.copytree(step, run / f"step-{number}", copy_function=os.link)
        kilobytes = (step / ".metadata").stat().st_size // 1000
        listed = [Run(self.dcpctl, "list", run) for _ in range(PAIRS)]
        note = f"{spread(listed)}, {peak(listed) / MIB:.0f} MiB; outside the kernel {min(r.own for r in listed):.2f} s"
        row(f"list of 1,000 steps, {kilobytes} KB of .metadata each", f"{best(listed):.2f} s", "<= 1 s", note, best(listed) <= 1)
        shutil.rmtree(run)
        checkpoint = self.generate("4GiB", 32)
        keys = subprocess.run([self.dcpctl, "completions", "keys", checkpoint], check=True, capture_output=True, text=True).stdout.split()
        cut = [Run(self.dcpctl, "extract", checkpoint, keys[-1], "--slice", "0:1024, :1", "--format", "raw", "-o", "-") for _ in range(PAIRS)]
        row("extract of a slice of 4 KiB out of 4 GiB", f"{best(cut) * 1000:.1f} ms", "<= 20 ms", spread(cut), best(cut) <= 0.02)

    def cast(self):
        """4 GiB of 32 float32 tensors on 4 ranks to bfloat16, beside a bare copy of the source"""
        checkpoint = self.generate("4GiB", 32)
        data = sorted(checkpoint.glob("*.distcp"))
        Run(self.bare_copy, self.output("copy"), *data)  # brings the source into the page cache
        for kind in ("pt", "safetensors"):
            copies, ours = [], []
            for _ in range(PAIRS):
                copies.append(Run(self.bare_copy, self.output("copy"), *data))
                self.output("copy")
                ours.append(self.consolidate(checkpoint, f"out.{kind}", "--dtype", "bfloat16"))
                self.output(f"out.{kind}")
            ratio = best(ours) / best(copies)
            row(f"float32 to bfloat16, 4 GiB, .{kind} / bare copy of the source", f"{ratio:.2f}", "<= 1.2", f"{spread(ours)} / {spread(copies)}", ratio <= 1.2)

    def reshard(self):
        """4 GiB of 32 float32 tensors: 4 to 8 ranks, 4 to 1, rows to columns over 8, to 64 ranks, beside a bare copy of the source"""
        kinds = [("4 to 8 ranks", 4, ["--world-size", 8]), ("4 ranks to 1", 4, ["--world-size", 1]), ("4 to 64 ranks", 4, ["--world-size", 64]),
                 ("rows to columns over 8 ranks", 8, ["--world-size", 8, "--placements", "*=shard(1)"])]  # fmt: skip
        made = None
        for name, ranks, options in kinds:
            if made != ranks:
                checkpoint = self.generate("4GiB", 32, ranks=ranks)
                made = ranks
                data = sorted(checkpoint.glob("*.distcp"))
                Run(self.bare_copy, self.output("copy"), *data)  # brings the source into the page cache
            copies, ours = [], []
            for _ in range(PAIRS):
                copies.append(Run(self.bare_copy, self.output("copy"), *data))
                self.output("copy")
                run, out = self.resharded(checkpoint, "--max-memory", "256MiB", *options)
                ours.append(run)
                shutil.rmtree(out)
            ratio = best(ours) / best(copies)
            row(f"reshard 4 GiB, {name} / bare copy", f"{ratio:.2f}", "<= 1.8", f"{spread(ours)} / {spread(copies)}", ratio <= 1.8)
            row(f"reshard 4 GiB, {name}: peak memory", f"{peak(ours) / MIB:.0f} MiB", "<= 256 MiB", "", peak(ours) <= 256 * MIB)

    def items(self):
        """10,000 tensors for 256 ranks, 2.6 million items, from 4 ranks and to 8; half and twice as many tensors, in turns"""
        counts = {5_000: "328MB", 10_000: "656MB", 20_000: "1312MB"}
        checkpoints = {n: self.generate(size, n, dtype="int8").rename(self.folder / f"tensors{n}") for n, size in counts.items()}  # of 256 rows each
        for name, world in [("to 256 ranks", 256), ("from 256 ranks to 8", 8)]:
            runs = {n: [] for n in counts}
            for n in [*counts] * 4:
                run, out = self.resharded(checkpoints[n], "--world-size", world, "--max-memory", "2GiB")
                runs[n].append(run)
                made = self.folder / f"made{n}"
                shutil.rmtree(made, ignore_errors=True)
                out.rename(made)
            for n, of in runs.items():
                limited = n == 10_000
                row(f"{n:,} tensors {name}", f"{best(of):.1f} s", "<= 30 s" if limited else "", f"{spread(of)}, {peak(of) / MIB:.0f} MiB", best(of) <= 30 if limited else None)
                shutil.rmtree(checkpoints[n])
                checkpoints[n] = (self.folder / f"made{n}").rename(checkpoints[n])
            # Beside the program's own time a run has the kernel's, which finds room for the pages of twice the output.
            for once, twice in zip(counts, [*counts][1:]):
                ratio = best(runs[twice]) / best(runs[once])
                own = min(r.own for r in runs[twice]) / min(r.own for r in runs[once])
                row(f"twice the chunks, {once:,} and {twice:,} tensors {name}", f"{ratio:.2f} x", "<= 2.2", f"outside the kernel {own:.2f} x", ratio <= 2.2)

    def casts(self):
        """the casts alone, one thread, beside memcpy, by instruction set"""
        subprocess.run([self.build / "bench_casts"], check=True)

    def memory(self):
        """peak memory under --max-memory 256MiB, whatever the input's size"""
        for name, size, tensors in [("1 GiB", "1GiB", 32), ("8 GiB", "8GiB", 32), ("one tensor of 1 GiB", "1GiB", 1)]:
            checkpoint = self.generate(size, tensors)
            for kind in ("pt", "safetensors"):
                run = self.consolidate(checkpoint, f"out.{kind}", "--max-memory", "256MiB")
                row(f"{name} to .{kind}: peak memory", f"{run.peak / MIB:.0f} MiB", "<= 256 MiB", f"{run.seconds:.2f} s", run.peak <= 256 * MIB)
                self.output(f"out.{kind}")

    def small(self):
        """100,000 small tensors"""
        checkpoint = self.generate("64MiB", 100_000)
        for kind in ("pt", "safetensors"):
            runs = [self.consolidate(checkpoint, f"out.{kind}") for _ in range(3)]
            row(f"100,000 tensors to .{kind}", f"{best(runs):.2f} s", "<= 3 s", f"{spread(runs)}, {peak(runs) / MIB:.0f} MiB", best(runs) <= 3)

    def verify(self):
        """4 GiB on 4 ranks, every CRC compared, beside `cat` of the same bytes to /dev/null; 100,000 small tensors"""
        checkpoint = self.generate("4GiB", 32)
        data = sorted(checkpoint.glob("*.distcp"))
        cats, ours, digests = [Run("cat", *data)], [], []  # the first one brings the source into the page cache
        for _ in range(PAIRS):
            cats.append(Run("cat", *data))
            ours.append(Run(self.dcpctl, "verify", checkpoint, "-j2"))
            digests.append(Run(self.dcpctl, "verify", checkpoint, "-j2", "--manifest", self.output("manifest.json"), "--no-files"))
        for name, runs in (("verify 4 GiB", ours), ("verify 4 GiB with digests of its tensors", digests)):
            ratio = best(runs) / best(cats)
            row(name + " / cat", f"{ratio:.2f}", "<= 1.5" if runs is ours else "", f"{spread(runs)} / {spread(cats)}", ratio <= 1.5 if runs is ours else None)
        checkpoint = self.generate("64MiB", 100_000)
        runs = [Run(self.dcpctl, "verify", checkpoint) for _ in range(3)]
        row("verify of 100,000 small tensors", f"{best(runs):.2f} s", "<= 3 s", f"{spread(runs)}, {peak(runs) / MIB:.0f} MiB", best(runs) <= 3)

    def startup(self):
        """--version, --help of a command, inspect of a small checkpoint and completion of a key of 10,000, over an empty process"""
        large = self.folder / "large"
        subprocess.run([sys.executable, HERE.parent / "cli" / "large.py", large], check=True)
        commands = [["true"], [self.dcpctl, "--version"], [self.dcpctl, "consolidate", "--help"], [self.dcpctl, "inspect", DATA / "fsdp2_ws4" / "ckpt"],
                    [self.dcpctl, "completions", "words", "--", "extract", large, "model.nor"]]  # fmt: skip
        seconds = [[] for _ in commands]
        for _ in range(100):
            for command, times in zip(commands, seconds):
                start = time.perf_counter()
                subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
                times.append(time.perf_counter() - start)
        empty = min(seconds[0])
        for command, times in zip(commands[1:], seconds[1:]):
            over = (min(times) - empty) * 1000
            aim = {"inspect": 10, "completions": 30}.get(command[1], 1.5)
            row(f"dcpctl {' '.join(map(str, command[1:3]))} over an empty process", f"{over:.1f} ms", f"<= {aim} ms", f"true: {empty * 1000:.1f} ms", over <= aim)

    def million(self):
        """.metadata of 1,000,000 chunks: inspect beside Python's pickle.load"""
        checkpoint = self.folder / "million"
        Run(sys.executable, HERE / "million_chunks.py", checkpoint)
        load = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"
        ours, theirs = [], []
        for i in range(PAIRS):
            ours.append(Run(self.dcpctl, "inspect", checkpoint / ".metadata"))
            if i < 2:  # a quarter of a minute each
                theirs.append(Run(sys.executable, "-c", load, checkpoint / ".metadata"))
        note = f"{spread(ours)}; pickle.load {spread(theirs)}, {peak(theirs) / MIB:.0f} MiB"
        row("inspect of 1,000,000 chunks", f"{best(ours):.2f} s", "<= 1.5 s", note, best(ours) <= 1.5)
        row("inspect of 1,000,000 chunks, peak memory", f"{peak(ours) / MIB:.0f} MiB", "<= 600 MB", "", peak(ours) <= 600e6)

    def maps(self):
        """4 GiB of bfloat16 on 4 ranks to a Hugging Face folder by a map, beside the same without it; inspect --map of DeepSeek-V3 on 2,048 ranks"""
        kinds = [("rotary", "rotary pairs to halves", 0.9), ("stacked", "stacked experts to 384 tensors", 0.9), ("transposed", "the same, transposed", 0.5)]
        for kind, what, aim in kinds:
            folder = self.folder / kind
            Run(sys.executable, HERE / "map_models.py", kind, folder)
            made, checkpoint, out = folder / f"{kind}.safetensors", folder / "ckpt", folder / "out"
            Run(self.dcpctl, "convert", made, checkpoint, "--world-size", 4, "--no-sync")
            made.unlink()
            by = "llama.torchtitan" if kind == "rotary" else folder / f"{kind}.map"
            plain, mapped = [], []
            both = [(plain, []), (mapped, ["--map", by, "--config", folder / "config.json"])]
            for pair in range(PAIRS):
                for runs, options in both[:: 1 if pair % 2 else -1]:  # what comes second finds other pages free
                    runs.append(Run(self.dcpctl, "consolidate", checkpoint, out, "-j2", "--no-sync", "--quiet", "--max-shard-size", "1GiB", *options))
                    shutil.rmtree(out)
            rate, own = best(plain) / best(mapped), min(r.own for r in mapped) / min(r.own for r in plain)
            note = f"{spread(mapped)} / {spread(plain)}; outside the kernel {own:.2f} x, {peak(mapped) / MIB:.0f} MiB"
            row(f"4 GiB, {what}: rate / plain consolidate", f"{rate:.2f}", f">= {aim}", note, rate >= aim)
            shutil.rmtree(folder)
        folder = self.folder / "deepseek"
        Run(sys.executable, HERE / "map_models.py", "deepseek", folder)
        runs = [Run(self.dcpctl, "inspect", folder, "--map", "deepseek_v3.torchtitan") for _ in range(PAIRS)]
        row("inspect --map of DeepSeek-V3 on 2,048 ranks", f"{best(runs):.2f} s", "<= 2 s", spread(runs), best(runs) <= 2)
        row("the same, peak memory", f"{peak(runs) / 1e6:.0f} MB", "<= 500 MB", "", peak(runs) <= 500e6)

    def successors(self):
        """1.3 and 8 GiB in torch_checkpointing's safetensors, of 4 and 64 ranks: consolidate beside the package's own, and beside DCP; DCP to torch_checkpointing and back; a large metadata.pkl"""
        for size, tensors in (("1331MiB", 300), ("8GiB", 300)):
            for ranks in (4, 64):
                self.items_in_safetensors(size, tensors, ranks)
        checkpoint, out, items = self.generate("1331MiB", 300, dtype="bfloat16"), self.folder / "again", self.folder / "items"
        kinds = {"to DCP": (checkpoint, out, []), "to torch_checkpointing": (checkpoint, items, ["--to", "torch_checkpointing"]), "back": (items, out, [])}
        runs = {name: [] for name in kinds}
        for _ in range(TURNS):
            for name, (source, target, options) in kinds.items():
                shutil.rmtree(target, ignore_errors=True)
                runs[name].append(Run(self.dcpctl, "reshard", source, target, "--world-size", 4, "-j2", "--no-sync", "--quiet", *options))
        Run(self.dcpctl, "diff", checkpoint, out, "--quiet")
        shutil.rmtree(out)
        shutil.rmtree(items)
        for name in list(kinds)[1:]:
            rate = median(runs["to DCP"]) / median(runs[name])
            row(f"1.3 GiB of DCP {name}: rate / reshard to DCP", f"{rate:.2f}", ">= 0.9", f"{spread(runs[name])} / {spread(runs['to DCP'])}", rate >= 0.9)
        large = self.folder / "large-metadata"
        Run(sys.executable, HERE / "items.py", "metadata", large, 50_000, 1_024)
        size = (large / "metadata.pkl").stat().st_size
        opened = [Run(self.dcpctl, "verify", large, exit_code=3) for _ in range(TURNS)]  # its files are not there, which is seen next
        row("metadata.pkl of 50,000 paths on 1,024 ranks", f"{median(opened):.2f} s", "<= 1 s", f"{spread(opened)}, {size / MIB:.0f} MiB", median(opened) <= 1)
        row("the same, peak memory / its size", f"{peak(opened) / size:.1f}", "<= 10", "", peak(opened) <= 10 * size)

    def items_in_safetensors(self, size, tensors, ranks):
        checkpoint, items, theirs = self.generate(size, tensors, ranks=ranks, dtype="bfloat16"), self.folder / "items", self.folder / "theirs"
        shutil.rmtree(items, ignore_errors=True)
        Run(self.dcpctl, "convert", checkpoint, items, "--to", "torch_checkpointing", "--model-form", "safetensors", "--world-size", ranks, "--no-sync")
        package, ours, of_dcp = [], [], []
        for turn in range(TURNS):
            shutil.rmtree(theirs, ignore_errors=True)
            theirs.mkdir()
            os.sync()
            took = subprocess.run([sys.executable, HERE / "items.py", "consolidate", items, theirs], check=True, capture_output=True, text=True)
            package.append([float(seconds) for seconds in took.stdout.split()[-2:]])
            ours.append(self.consolidate(items, "out.safetensors"))
            if turn == 0:
                Run(self.dcpctl, "diff", items, theirs, "--compare-as", "bf16", "--model-only", "--quiet")
            self.output("out.safetensors")
            of_dcp.append(self.consolidate(checkpoint, "out.safetensors"))
            self.output("out.safetensors")
        name = f"consolidate {size} of torch_checkpointing, {ranks} ranks"
        busy, theirs_took = zip(*package)
        gain, rate = statistics.median(theirs_took) / median(ours), median(of_dcp) / median(ours)
        note = f"{min(theirs_took):.3g}-{max(theirs_took):.3g} s / {spread(ours)}; cores busy {min(busy):.2f} / {min(r.busy for r in ours):.2f} s"
        row(f"the package's own / {name}", f"{gain:.1f}", ">= 2.5", note, gain >= 2.5)
        row(f"{name}: rate / of DCP", f"{rate:.2f}", ">= 0.95", f"{spread(of_dcp)}", rate >= 0.95)
        known = (items / "metadata.pkl").stat().st_size + sum(8 + int.from_bytes(f.open("rb").read(8), "little") for f in items.glob("*.safetensors"))
        row(f"{name}: peak memory", f"{peak(ours) / MIB:.1f} MiB", "<= 16 MiB + 10 x metadata", f"with headers, {known / MIB:.2f} MiB", peak(ours) <= 16 * MIB + 10 * known)
        shutil.rmtree(items)
        shutil.rmtree(theirs)

    def gather(self):
        """4 GiB on 4 ranks of this machine, each with its own shard: --gather rank0 by Gloo until it is on the disk, beside bare Gloo messages of the same bytes"""
        for world in (4, 8):
            checkpoint = self.generate("4GiB", 32, ranks=world)
            for rank, data in enumerate(sorted(checkpoint.glob("*.distcp"))):
                own = self.folder / f"rank{rank}" / "ckpt"
                shutil.rmtree(own.parent, ignore_errors=True)
                own.mkdir(parents=True)
                data.rename(own / data.name)
            (checkpoint / ".metadata").rename(self.folder / "rank0" / "ckpt" / ".metadata")
            report, ours, bare, copies, peaks = self.folder / "report.json", [], [], [], []
            for _ in range(PAIRS if world == 4 else 2):
                out = self.output("many.safetensors")
                self.ranks(world, [self.dcpctl, "consolidate", "ckpt", out, "-q", "--max-memory", "256MiB", "--report", report])
                document = json.loads(report.read_text())
                ours.append(document["ranks"][0]["seconds"] - document["joining_seconds"])  # as bare Gloo: from when the ranks have met
                peaks.append(document["ranks"][0]["peak_memory_bytes"] - document["module_memory_bytes"])
                self.output("many.safetensors")
                bare.append(float(self.ranks(world, [self.build / "bench_bare_gloo", self.build, (4 << 30) // world])))
                if world == 4:
                    copies.append(Run(self.bare_copy, self.output("copy"), *sorted(self.folder.glob("rank*/ckpt/*.distcp"))).seconds)
                    self.output("copy")
            if world == 4:
                ratio = min(bare) / min(ours)
                row("4 GiB, 4 ranks, --gather rank0: rate / bare Gloo", f"{ratio:.2f}", ">= 0.6", f"{min(ours):.2f}-{max(ours):.2f} s / {min(bare):.2f}-{max(bare):.2f} s", ratio >= 0.6)
                both = min(copies) + min(bare)  # what moving the bytes and writing them takes, the one after the other
                row("the same / a bare copy and bare Gloo", f"{min(ours) / both:.2f}", "", f"a bare copy: {min(copies):.2f}-{max(copies):.2f} s")
            row(f"{world} ranks: rank 0's peak memory beside the module's, --max-memory 256MiB", f"{max(peaks) / MIB:.0f} MiB", "<= 256 MiB", "", max(peaks) <= 256 * MIB)

    def pages(self):
        """what a reader does in a page of 10,000 tensors on 64 ranks, and of 10^6 chunks (needs Chromium)"""
        sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "pages")]
        import pages
        from browser import Browser, chromium

        if not chromium():
            sys.exit("bench: no Chromium here: apt-get install chromium")
        browser, keep = Browser(), self.folder / "pages"
        keep.mkdir()
        try:
            found = pages.large(pages.Pages(self.dcpctl, browser, keep, pictures=False), self.folder)
        finally:
            browser.close()
        for name, (size, paint, events) in found.items():
            row(f"page of {name}: first paint", f"{paint:.0f} ms", "<= 1000 ms", f"{size:,} bytes", paint <= 1000)
            worst = max(events.values(), key=lambda seen: seen["ms"])["ms"]
            row(f"page of {name}: slowest event", f"{worst} ms", "<= 100 ms", ", ".join(f"{event} {seen['ms']}" for event, seen in events.items()), worst <= 100)

    def ranks(self, world, command):
        """`command` as ranks of one job, each in its own folder; what rank 0 prints."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        os.sync()
        processes = []
        for rank in range(world):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            processes.append(subprocess.Popen([str(c) for c in command], cwd=self.folder / f"rank{rank}", env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        results = [p.communicate() for p in processes]
        if any(p.returncode for p in processes):
            sys.exit(f"bench: {command}: {results}")
        return results[0][0]


NAMES = ["python", "shard0", "shard1", "durable", "diff", "everyday", "cast", "casts", "memory", "reshard", "items", "small", "verify", "startup", "million", "maps", "gather", "successors", "pages"]
HEAD = ("what", "measured", "aim", "met", "spread and more")


def table():
    widths = [max(len(r[i]) for r in [*rows, HEAD]) for i in range(len(HEAD))]
    for r in [HEAD, tuple("-" * w for w in widths), *rows]:
        print("| " + " | ".join(cell.ljust(w) for cell, w in zip(r, widths)) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True, help="folder of dcpctl, bench_bare_copy and bench_casts")
    parser.add_argument("--folder", type=Path, help="where the data goes for the time being (default: inside the build folder); 21 GiB free")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.list:
        for name in NAMES:
            print(f"{name:12}{getattr(Bench, name).__doc__}")
        return
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    with tempfile.TemporaryDirectory(dir=arguments.folder or arguments.build, prefix="bench-") as folder:
        bench = Bench(arguments.build.resolve(), Path(folder).resolve())
        for name in arguments.names or NAMES:
            print(name, file=sys.stderr)
            getattr(bench, name)()
        print(machine.facts(bench.dcpctl, bench.folder))
    table()
    sys.exit(1 if any(r[3] == "NO" for r in rows) else 0)


if __name__ == "__main__":
    main()
