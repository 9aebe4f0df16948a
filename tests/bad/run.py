#!/usr/bin/env python3
"""Malformed checkpoints through the real program: what it says, how it exits, what it leaves behind, how long and how much memory it takes.

    run.py DCPCTL [FAMILY[.CASE]...]            run cases (all of them)
    run.py --update DCPCTL [FAMILY[.CASE]...]   the same, and write what was said into the cases; read the diff before you commit it
    run.py --sanitized ...                      a program with sanitizers: its time and memory do not count
    run.py --ids                                is every id of problems.def named by a case or a unit test?

A case is a function in a family's file, see case() in recipes.py. It runs in an empty folder with the checkpoint in `ckpt`. Every failing command
runs a second time with --json, which must print the same and then one object with the id of the case.
"""
import argparse
import difflib
import importlib
import inspect
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recipes import small

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FAMILIES = sorted(p.stem for p in HERE.glob("*.py") if p.stem not in ("run", "recipes"))
CEILING_SECONDS = 1.0
CEILING_MIB = 64  # above `dcpctl --version`
HANG_SECONDS = 20
BUSY = 10
TRIES = 3  # of which the fastest counts: the machine may be busy
NOBODY = 65534

# Ids that no case and no unit test can name.
EXCEPTIONS = {
    "bench_run_failed": "takes a program that fails in the middle of a measurement",
    "internal": "is a bug wherever it appears",
    "chunks_too_complex": "takes more boxes that no straight cut divides than a quick test can have",
    "sandbox_failed": "takes a kernel that has Landlock and refuses",
    "sandbox_lacking": "takes a kernel without Landlock",
    "output_swapped": "takes another program at the same time; tests/safety/swaps.py is one",
    "output_differs": "takes a disk that lies; a unit test has one",
}


# Numbers that differ from machine to machine.
FILTERS = [
    (re.compile(r"\d+\.\d MiB or more"), "N MiB or more"),
    (re.compile(r"\d+ MiB or more for objects"), "N MiB or more for objects"),
    (re.compile(r"give --max-memory \d+MiB"), "give --max-memory NMiB"),
]


# ---- one command


class Ran:
    """What became of a command."""

    def __init__(self, dcpctl, arguments, folder, case):
        def limit():
            for name, value in case["limits"].items():
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

        sink = open(case["stdout"], "wb") if case["stdout"] else tempfile.TemporaryFile()
        errors = tempfile.TemporaryFile()
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if case["user"] == "nobody" and os.geteuid() == 0 else {}
        environment = {"LC_ALL": "C.UTF-8", **{k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}}
        begin = time.monotonic()
        child = subprocess.Popen(
            [dcpctl, *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=errors, preexec_fn=limit, **user
        )
        previous = signal.signal(signal.SIGALRM, lambda *_: child.kill())
        signal.alarm(HANG_SECONDS)
        _, status, usage = os.wait4(child.pid, 0)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
        # On a busy machine the wall clock counts what others do: of waiting only ten times as much is too long.
        self.seconds = max(usage.ru_utime + usage.ru_stime, (time.monotonic() - begin) / BUSY)
        self.exit = child.returncode = os.waitstatus_to_exitcode(status)
        self.peak_mib = usage.ru_maxrss / 1024  # of this child alone, but not less than Python's own at the fork
        self.stdout = "" if case["stdout"] else self.text(sink)
        self.stderr = self.text(errors)
        sink.close()
        errors.close()

    @staticmethod
    def text(file):
        file.seek(0)
        text = file.read().decode("utf-8", "backslashreplace")
        for pattern, replacement in FILTERS:
            text = pattern.sub(replacement, text)
        return text


def contents(folder):
    """Everything below a folder; links are not followed."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = Path(parent, name)
            plain = path.is_file() and not path.is_symlink()
            found[str(path.relative_to(folder))] = path.read_bytes() if plain and path.stat().st_size < 1 << 20 else path.lstat().st_mode
    return found


# ---- one case


def said(case, ran):
    if case["says"] == "stderr":
        return ran.stderr
    return "".join(line + "\n" for line in ran.stdout.splitlines() if line.startswith(("error: ", "damage: ", "warning: ", "note: ")))


def ids_in_json(case, ran):
    """The ids and the exit code that --json gives."""
    if case["says"] == "findings":
        printed = json.loads(ran.stdout)
        for name, expected in case["json"].items():
            if printed[name] != expected:
                raise ValueError(f"{name}: {printed[name]}, expected {expected}")
        return {f["id"] for f in printed["findings"]}, case["exit"]
    if ran.stdout:  # what went on with the rest
        printed = json.loads(ran.stdout)
        return {step["error"]["id"] for step in printed["steps"] if "error" in step}, printed["exit"]
    error = json.loads(ran.stderr.splitlines()[-1])["error"]
    return {error["id"]}, error["code"]


class Play:
    def __init__(self, function, dcpctl, baseline_mib):
        self.case, self.dcpctl, self.baseline_mib = function.case, dcpctl, baseline_mib
        self.function = function
        self.expected = inspect.cleandoc(function.__doc__ or "")
        self.faults = []
        self.got = None

    def fault(self, text):
        self.faults.append(text)

    def run(self, ceiling):
        for arguments in self.case["commands"]:
            best = None
            for _ in range(TRIES if ceiling else 1):
                ran = self.once(arguments)
                best = min(best or ran, ran, key=lambda r: r.seconds)
                if best.seconds <= CEILING_SECONDS:
                    break
            if ceiling and best.seconds > CEILING_SECONDS:
                self.fault(f"took {best.seconds:.1f} s, at most {CEILING_SECONDS} s are allowed")
            if ceiling and ran.peak_mib - self.baseline_mib > CEILING_MIB:
                self.fault(f"took {ran.peak_mib - self.baseline_mib:.0f} MiB, at most {CEILING_MIB} MiB are allowed")
        return self.faults

    def once(self, arguments):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            checkpoint = small(folder / "ckpt")
            held = self.function(checkpoint)  # such as a lock that lives as long as the commands
            if not checkpoint.written:
                checkpoint.write()
            dcpctl = self.dcpctl
            if self.case["user"] == "nobody":
                folder.chmod(0o755)
                tools = tempfile.TemporaryDirectory()
                os.chmod(tools.name, 0o755)
                dcpctl = shutil.copy(self.dcpctl, tools.name)
            before = contents(folder)
            ran = Ran(dcpctl, arguments, folder, self.case)
            after = contents(folder)
            self.check(arguments, ran, before, after)
            if self.case["problem"] and arguments:
                self.check_json(Ran(dcpctl, [*arguments, "--json"], folder, self.case), ran)
            del held
            return ran

    def check(self, arguments, ran, before, after):
        text = said(self.case, ran)
        self.got = text if self.got is None else self.got
        if text.rstrip("\n") != self.expected.strip():
            lines = difflib.unified_diff(self.expected.splitlines(), text.splitlines(), "expected", "got", lineterm="")
            self.fault(f"dcpctl {' '.join(arguments)} says\n    " + "\n    ".join(lines))
        if ran.exit != self.case["exit"]:
            self.fault(f"exit {ran.exit}, expected {self.case['exit']}")
        if self.case["says"] == "stderr" and self.case["problem"] and ran.stdout:
            self.fault(f"stdout is not empty: {ran.stdout[:300]!r}")
        if self.case["says"] == "findings" and ran.stderr:
            self.fault(f"stderr is not empty: {ran.stderr[:300]!r}")
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if changed != self.case["creates"]:
            self.fault(f"files that changed: {sorted(changed)}, expected {sorted(self.case['creates'])}")

    def check_json(self, ran, plain):
        try:
            ids, code = ids_in_json(self.case, ran)
        except (ValueError, KeyError, IndexError) as error:
            return self.fault(f"--json: {error!r} in {(ran.stderr + ran.stdout)[:300]!r}")
        if self.case["problem"] not in ids or code != self.case["exit"]:
            self.fault(f"--json: {sorted(ids)} with exit {code}, expected {self.case['problem']}")
        told = ran.stderr if ran.stdout else "".join(ran.stderr.splitlines(True)[:-1])  # the error itself is on one of the two
        if self.case["says"] == "stderr" and told != plain.stderr:
            self.fault(f"--json: stderr begins otherwise than without: {ran.stderr[:300]!r}")


# ---- all cases


def functions_of(family):
    module = importlib.import_module(family)
    return [f for f in vars(module).values() if hasattr(f, "case") and f.__module__ == family]


def chosen(filters):
    for family in FAMILIES:
        for function in functions_of(family):
            name = f"{family}.{function.__name__}"
            if not filters or any(name == f or family == f for f in filters):
                yield name, function


def write_docstring(function, text):
    """Puts `text` in place of the docstring, which begins on the line after `def`."""
    path = HERE / f"{function.__module__}.py"
    source = path.read_text()
    quoted = 'r"""' if "\\" in text else '"""'
    body = "".join(f"    {line}\n" if line else "\n" for line in text.rstrip("\n").split("\n"))
    pattern = re.compile(rf'(def {function.__name__}\(.*\):\n)(?:    r?"""(?:.|\n)*?"""\n)?')
    path.write_text(pattern.sub(lambda m: f'{m[1]}    {quoted}\n{body}    """\n', source, count=1))


def run_cases(options):
    dcpctl = str(Path(options.dcpctl).resolve())
    nothing = dict(limits={}, stdout=None, user="any")
    baseline = min(Ran(dcpctl, ["--version"], "/", nothing).peak_mib for _ in range(TRIES))
    count, bad = 0, 0
    for name, function in chosen(options.cases):
        if options.sanitized and "AS" in function.case["limits"]:
            continue  # sanitizers reserve terabytes
        count += 1
        play = Play(function, dcpctl, baseline)
        faults = play.run(not options.sanitized)
        if faults:
            bad += 1
            print(f"{name}:\n  " + "\n  ".join(dict.fromkeys(faults)), flush=True)
        if options.update and play.got.rstrip("\n") != play.expected.strip():
            write_docstring(function, play.got)
    print(f"{count} cases, {bad} failed")
    return 1 if bad or count == 0 else 0


def check_ids():
    """An id is named by a case, or by a unit test as ProblemId::id, as "id" or by its text."""
    texts = dict(re.findall(r'^DCP_PROBLEM\((\w+), \w+, "((?:[^"\\]|\\.)*)"', (ROOT / "src/base/problems.def").read_text(), re.M))
    ids = list(texts)
    named = {function.case["problem"] for _, function in chosen([])}
    tests = "\n".join(p.read_text(errors="replace") for p in sorted((ROOT / "tests/unit").rglob("*.cc")))
    named |= set(re.findall(r"ProblemId::(\w+)", tests)) | set(re.findall(r'"(\w+)"', tests)) | {i for i in ids if texts[i] in tests}
    missing = [i for i in ids if i not in named and i not in EXCEPTIONS]
    stale = [i for i in EXCEPTIONS if i not in ids]
    for i in missing:
        print(f"{i}: no case of tests/bad and no unit test names it")
    for i in stale:
        print(f"{i}: an exception that is no id")
    print(f"{len(ids)} ids, {len(missing)} not named, {len(EXCEPTIONS)} exceptions")
    return 1 if missing or stale else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--ids", action="store_true")
    parser.add_argument("dcpctl", nargs="?")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    sys.exit(check_ids() if options.ids else run_cases(options))


if __name__ == "__main__":
    main()
