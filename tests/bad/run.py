#!/usr/bin/env python3
"""Malformed checkpoints through the real program: what it says, how it exits, what it leaves behind, how long and how much memory it takes.

    run.py DCPCTL [FAMILY[.CASE]...]            run cases (all of them)
    run.py --update DCPCTL [FAMILY[.CASE]...]   the same, and write what was said into the cases; read the diff before you commit it
    run.py --texts                              write texts.golden anew; read the diff
    run.py --sanitized ...                      a program with sanitizers: its time and memory do not count
    run.py --ids                                is every id of problems.def named by a case or a unit test, and is texts.golden complete?

A case is a function in a family's file, see case() in recipes.py. It runs in an empty folder with the checkpoint in `ckpt`. Its docstring is what the
program says, but that a problem's id stands for its text, `hint: its own` for the hint of that id and `hint: kFewerKeys` for one that several share:
those are in texts.golden, so a message is reworded there and in no case.
Every failing command runs a second time with --json, whose objects must have the case's ids and say the same of them: place, key, got and expected.
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
GOLDEN = HERE / "texts.golden"
FAMILIES = sorted(p.stem for p in HERE.glob("*.py") if p.stem not in ("run", "recipes"))
CEILING_SECONDS = 1.0
CEILING_MIB = 64  # above `dcpctl --version`
HANG_SECONDS = 20
BUSY = 10
SHOWN = 3  # findings of a kind that inspect shows at most
SEVERITIES = ("error: ", "damage: ", "warning: ", "note: ")
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
    (re.compile(r"need \d+ MiB or more"), "need N MiB or more"),
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


# ---- ids for texts


def texts_in_sources():
    """{name: text} of each id, `ID hint` and hint that several ids share, as base/problems.def says it or the command line in its place."""
    string = r'"((?:[^"\\]|\\.)*)"'

    def rows(path, macro, pattern):
        found = re.findall(rf"^{macro}\({pattern}\)$", (ROOT / path).read_text(), re.M)
        return [[field.replace('\\"', '"') for field in row] for row in found]

    texts = {}
    own = {id: words for id, *words in rows("cmd/line/problem_words.def", "DCPCTL_WORDS", rf"(\w+), {string}, {string}")}
    for id, text, hint in rows("src/base/problems.def", "DCP_PROBLEM", rf"(\w+), \w+, {string}, {string}"):
        own_text, own_hint = own.get(id, ("", ""))
        texts[id] = own_text or text
        texts[f"{id} hint"] = hint or own_hint
    texts |= {name: hint for name, _, _, hint in rows("cmd/line/problem_words.def", "DCPCTL_REMEDY", rf"(\w+), {string}, {string}, {string}")}
    return {name: text for name, text in texts.items() if text}


def is_id(name):
    """Neither `ID hint` nor a hint that several ids share, such as kFewerKeys."""
    return name.islower() and " " not in name


def read_golden():
    return dict(line.split(": ", 1) for line in GOLDEN.read_text().splitlines())


def write_golden():
    GOLDEN.write_text("".join(f"{name}: {text}\n" for name, text in texts_in_sources().items()))


class Ids:
    """Puts ids in the place of texts."""

    def __init__(self, texts):
        self.texts = texts
        self.id_of = {text: name for name, text in texts.items() if is_id(name)}
        self.shared = {text: name for name, text in texts.items() if not is_id(name) and " " not in name}
        known = "|".join(re.escape(text) for text in sorted(self.id_of, key=len, reverse=True))
        self.known = re.compile(rf"(?<=: )(?:{known})(?=$| \(|: )")

    def of_screen(self, text):
        lines, id = [], None
        for line in text.splitlines():
            if line.startswith("hint: "):
                hint = line[6:]
                lines.append("hint: its own" if hint == self.texts.get(f"{id} hint") else f"hint: {self.shared.get(hint, hint)}")
            else:
                line, id = self.of_line(line)
                lines.append(line)
        return "".join(line + "\n" for line in lines)

    def of_line(self, line):
        """(the line with an id in it, the id)"""
        found = self.known.search(line)
        if not found:
            return line, None
        id = self.id_of[found[0]]
        return line[: found.start()] + id + line[found.end() :], id

    def of_json(self, said):
        """The line that a problem of --json is on the screen; its members must say of the place what its message does."""
        place = anything_for(said.get("path", "")) + "".join(f":{said[name]}" for name in ("line", "column") if name in said)
        place += r"(?: > .+?)?" + (f"(?:^| )@ 0x{said['offset']:x}" if "offset" in said else "")
        key = "".join(f"{kind} '{anything_for(said[kind])}': " for kind in ("tensor", "object") if kind in said)
        if not re.match(rf"(?:{place}: )?{key}", said["message"]) or ("path" in said and not re.match(place, said["message"])):
            raise ValueError(f"message and members differ: {said}")
        text = self.texts[said["id"]]
        return re.sub(rf"(^|: ){re.escape(text)}(?=$| \(|: )", lambda m: m[1] + said["id"], said["message"], count=1)


def anything_for(name):
    """A pattern for a name as messages show it: what acts on a terminal or is no text is escaped, what is long is shortened."""
    return ".+" if len(name) > 300 else "".join(re.escape(c) if c.isprintable() and c != "\ufffd" else ".+?" for c in name)


# ---- one case


def said(case, ran):
    if case["says"] == "stderr":
        return ran.stderr
    return "".join(line + "\n" for line in ran.stdout.splitlines() if line.startswith(SEVERITIES))


def problems_in_json(case, ran):
    """(ids, their lines, the exit code) that --json gives."""
    if case["says"] == "findings":
        printed = json.loads(ran.stdout)
        for name, expected in case["json"].items():
            if printed[name] != expected:
                raise ValueError(f"{name}: {printed[name]}, expected {expected}")
        return printed["findings"], case["exit"]
    if ran.stdout:  # what went on with the rest
        printed = json.loads(ran.stdout)
        return [step["error"] for step in printed["steps"] if "error" in step], printed["exit"]
    error = json.loads(ran.stderr.splitlines()[-1])["error"]
    return [error], error["code"]


class Play:
    def __init__(self, function, dcpctl, baseline_mib, ids):
        self.case, self.dcpctl, self.baseline_mib, self.ids = function.case, dcpctl, baseline_mib, ids
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
        text = self.ids.of_screen(said(self.case, ran))
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
            problems, code = problems_in_json(self.case, ran)
            lines = [self.ids.of_json(p) for p in problems]
        except (ValueError, KeyError, IndexError) as error:
            return self.fault(f"--json: {error!r} in {(ran.stderr + ran.stdout)[:300]!r}")
        ids = {p["id"] for p in problems}
        if self.case["problem"] not in ids or code != self.case["exit"]:
            self.fault(f"--json: {sorted(ids)} with exit {code}, expected {self.case['problem']}")
        starts = "dcpctl: " if self.case["says"] == "stderr" else SEVERITIES
        expected = [line for line in self.expected.splitlines() if line.startswith(starts)]
        if self.case["says"] == "findings":
            lines = [f"{p['severity']}: {line}" for p, line in zip(problems, lines)]
            is_folded = len(lines) > len(expected) >= SHOWN and set(expected) <= set(lines)
            if sorted(lines) != sorted(expected) and not is_folded:
                self.fault(f"--json: {lines}")
        elif not all(f"dcpctl: {line}" in expected for line in lines):
            self.fault(f"--json: {lines}")
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
    count, bad, ids = 0, 0, Ids(read_golden())
    for name, function in chosen(options.cases):
        if options.sanitized and "AS" in function.case["limits"]:
            continue  # sanitizers reserve terabytes
        count += 1
        play = Play(function, dcpctl, baseline, ids)
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
    texts, shown = texts_in_sources(), read_golden()
    ids = [name for name in texts if is_id(name)]
    named = {function.case["problem"] for _, function in chosen([])}
    tests = "\n".join(p.read_text(errors="replace") for p in sorted((ROOT / "tests/unit").rglob("*.cc")))
    named |= set(re.findall(r"ProblemId::(\w+)", tests)) | set(re.findall(r'"(\w+)"', tests)) | {i for i in ids if texts[i] in tests}
    missing = [i for i in ids if i not in named and i not in EXCEPTIONS]
    stale = [i for i in EXCEPTIONS if i not in ids]
    for i in missing:
        print(f"{i}: no case of tests/bad and no unit test names it")
    for i in stale:
        print(f"{i}: an exception that is no id")
    other = [name for name in texts | shown if texts.get(name) != shown.get(name)]
    for name in other:
        print(f"{name}: texts.golden has {shown.get(name)!r}, the sources have {texts.get(name)!r}")
    print(f"{len(ids)} ids, {len(missing)} not named, {len(EXCEPTIONS)} exceptions")
    return 1 if missing or stale or other else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--ids", action="store_true")
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("dcpctl", nargs="?")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    sys.exit(write_golden() if options.texts else check_ids() if options.ids else run_cases(options))


if __name__ == "__main__":
    main()
