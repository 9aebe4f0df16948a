#!/usr/bin/env python3
"""Every command line that the help, the manual pages, README.md and docs/ show does what it says when it is pasted into a shell.

    examples.py [--refresh] DCPCTL TORCH-PYTHON SOURCE...   runs what these show: "help reshard", docs/guide.md
    examples.py --no-ranks DCPCTL TORCH-PYTHON SOURCE...    but for the lines that start several ranks
    examples.py DCPCTL --all                                every place that shows command lines has a golden; the pages show those of the help

The lines of a page are run from top to bottom in one folder of samples (tests/data/samples.sh), and nothing else is put there. Those of a help are
examples beside each other: what one reads is made for it (names.py). A line must exit with 0, or with what an `echo $?` below it says, make what it
says it writes, print what is shown below it, where something is, and what golden/SOURCE.txt has; "..." stands for any lines. --refresh writes the
goldens: read the diff before you commit it. Times, rates and memory differ from run to run. What stands in for a GPU, other hosts, a large disk is told.
"""
import difflib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))

import names  # noqa: E402
import shown  # noqa: E402
from run import FILTERS  # noqa: E402

GOLDEN = Path(__file__).resolve().parent / "golden"
AGE = re.compile(r"(?<=  )\d+ min(?=  )"), "N s"  # of a step, where a test is slow
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "DATE"
LONG, KEPT = 60, 40  # an output of more lines is compared as far as it is kept
NUMBER = re.compile(r"\d[\d.,]*( ?([kMGT]i?B|[mun]?s|B)\b)?")


class Runner:
    def __init__(self, dcpctl, python, ranks=True, refresh=False):
        self.ranks, self.refresh = ranks, refresh
        self.dcpctl, self.tree = dcpctl, shown.help_tree(dcpctl)
        self.scratch = tempfile.TemporaryDirectory(prefix="dcpctl-examples-")
        self.base = Path(self.scratch.name)
        self.made = self.base / "made"
        self.told, self.faults = set(), []
        stand_ins = self.base / "programs"
        self.programs = names.put_programs(stand_ins)
        python_bin = [os.path.dirname(python)] if python else []
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_SIZE", "SLURM", "OMPI", "PMI", "MASTER", "TORCHELASTIC", "LOCAL_RANK"))}
        path = os.pathsep.join([os.path.dirname(dcpctl), *python_bin, kept["PATH"], str(stand_ins)])
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                   "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}  # of Open MPI 5
        self.environment = {**kept, **as_root, "TORCH_CPP_LOG_LEVEL": "ERROR", "PATH": path, "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "OMP_NUM_THREADS": "1"}
        subprocess.run(["sh", shown.ROOT / "tests/data/samples.sh", self.made], check=True, env=self.environment)
        self.samples = os.listdir(self.made)

    def tell(self, what):
        if what not in self.told:
            print("stand-in:", what)
        self.told.add(what)

    def fault(self, command, what):
        self.faults.append(command)
        print(f"FAILED: {command}\n  {what}")

    def shell(self, command, folder):
        return subprocess.Popen(["/bin/sh", "-c", command], cwd=folder, env={**self.environment, "HOME": str(folder)}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="backslashreplace")  # fmt: skip

    # ---- what a line reads and writes, as the help declares it

    def paths(self, command):
        """(read, written, folders that a shell writes into)."""
        inner = re.compile(r"\$\(([^)]*)\)")  # what such a command prints is made by it
        lexer = shlex.shlex("; ".join([inner.sub("$()", command), *inner.findall(command)]), posix=True, punctuation_chars="|>;")
        lexer.whitespace_split = True
        words, written, folders = list(lexer), [], []
        read = [name for name in re.findall(r"(?<![\w./-])([\w.-]+)/", command) if name in [*names.MADE, *self.samples]]
        while words:
            if words[0] == ">":
                folders.append(os.path.dirname(words[1]) or ".")
            if words[0] == "dcpctl":
                self.paths_of_one(words[1:], read, written)
            words.pop(0)
        return read, written, folders

    def paths_of_one(self, words, read, written):
        command, given = self.tree, list(words)
        while words and (below := [c for c in command["commands"] if c["name"] == words[0]]):
            command = below[0]
            words.pop(0)
        options = {name: o for o in command["options"] for name in o["names"]}
        positionals = list(command["positionals"])
        nothing_written = "--dry-run" in words
        while words and not re.fullmatch(r"[|>;]+", words[0]):
            word, value = words.pop(0), None
            if word == "--":
                return  # an unfinished line
            if word.startswith("-"):
                name, _, value = word.partition("=")
                if (option := options.get(name)) is None:
                    return self.fault(" ".join(["dcpctl", *given]), f"there is no option {name}")
                if "value" in option and not value:
                    value = words.pop(0)
            else:
                option, value = positionals[0], word
                positionals = positionals[0 if option["repeatable"] else 1 :]
            if value.startswith("$"):
                continue  # a line above it, or in it, says which
            if option.get("value") == "MAP" and "/" not in value and not value.endswith(".map"):
                continue  # a built-in one
            if option.get("value") == "CKPT" and re.match(r"model\.(layers|norm)\.", value):
                continue  # a key behind the checkpoint
            if option.get("path") in ("read", "change"):
                read.append(value)
            elif option.get("path") == "write" and value != "-" and not nothing_written and option.get("names") != ["--in"]:
                written.append(value)

    def make(self, path, folder):
        """What an example reads, at the place where it looks for it."""
        name = os.path.basename(path)
        if name not in names.MADE and name not in self.samples:
            return self.fault(path, f"an example reads it, and names.py does not say how {name} is made")
        if not (self.made / name).exists():
            for other in names.MADE:
                if other != name and re.search(rf"(?<![\w./-]){re.escape(other)}(?![\w.-])", names.MADE[name]):
                    self.make(other, self.made)
            making = self.shell(names.MADE[name], self.made)
            said, _ = making.communicate(timeout=100)
            if making.returncode != 0:
                return self.fault(names.MADE[name], said)
        source, to = self.made / name, folder / path
        if to == source:
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, to) if source.is_dir() else shutil.copy(source, to)

    # ---- running

    def source(self, name, blocks):
        golden = GOLDEN / f"{shown.slug(name)}.txt"
        before, played = golden.read_text() if golden.exists() else "", []
        self.expected = [step.partition("\n")[::2] for step in re.split(r"^\$ ", before, flags=re.MULTILINE)[1:]]
        is_page = not name.startswith("help")
        for block in [shown.joined(blocks)] if is_page else blocks:
            played += self.block(block, is_page)
        text = "".join(f"$ {command}\n{output}" for command, output in played)
        if self.refresh:
            golden.write_text(text)
        elif text != before and not self.faults:
            self.fault(name, "its golden has lines that are not shown: --refresh")

    def block(self, block, is_page):
        """[(command, its output as the golden has it)]"""
        with tempfile.TemporaryDirectory(dir=self.base) as scratch:
            folder, exit_code, played = Path(scratch), 0, []
            if is_page:
                for sample in self.samples:
                    self.make(sample, folder)
            for name in ["scratch", "local", "shared"]:
                (folder / name).mkdir()
            shutil.copytree(self.made / "step-1000", folder / "local/step-1000")
            for name, text in block.files.items():
                (folder / name).write_text(text)
                for made in [m for m in names.MADE if re.search(rf'"{re.escape(m)}"', text)]:
                    self.make(made, folder)
            for n, line in enumerate(block.lines):
                following = block.lines[n + 1].command if n + 1 < len(block.lines) else ""
                if not self.ranks and re.search(r"\b(srun|torchrun|mpirun|RANK=0)\b", line.command):
                    played.append((line.command, self.next_expected(line)))
                    continue
                exit_code, said = self.line(line, folder, exit_code, following == "echo $?", is_page)
                played.append((line.command, self.golden(line, said, folder)))
            return played

    def golden(self, line, said, folder):
        """What the golden has for the line, where that is what was said; else what it would have to be."""
        said = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", re.sub(rf"\b{re.escape(socket.gethostname())}\b", "HOST", said.replace(str(folder), "FOLDER")))
        said = re.sub(r"^[IWE]\d{4} .* torch/distributed/.*\n", "", said, flags=re.MULTILINE)  # of torchrun: its processes end in any order, and it says so
        said = re.sub(r"^(wrote [^\n]*)\n +", r"\1 ", said, flags=re.MULTILINE)  # where it is folded depends on what was measured
        lines = self.filter_of(line)(said) if said.strip() else []
        if names.of_this_machine(line.command):
            lines = ["..."]
        if len(lines) > LONG:
            lines = [*lines[:KEPT], "..."]
        text = "".join(f"| {shown_line}".rstrip() + "\n" for shown_line in lines)
        if (expected := self.next_expected(line)) != text and not self.refresh:
            self.fault(line.command, "\n".join(difflib.unified_diff(expected.splitlines(), text.splitlines(), "golden", "printed", lineterm="")))
        return text

    def next_expected(self, line):
        """What the golden has for the line; for a line that is new, nothing, and the rest is compared with its own."""
        at = next((n for n, (command, _) in enumerate(self.expected) if command == line.command), None)
        if at is None:
            return "| (not in the golden)\n"
        text = self.expected[at][1]
        del self.expected[: at + 1]
        return text

    def line(self, line, folder, before, states_exit, is_page):
        """(exit code, what was printed)"""
        if verb := re.match(r"\./dev (\w+)", line.command):
            self.tell(f"{line.command}: ./dev help knows it (this test is a part of ./dev test)")
            if f"./dev {verb[1]}" not in subprocess.run([shown.ROOT / "dev", "help"], stdout=subprocess.PIPE, encoding="utf-8").stdout:
                self.fault(line.command, "./dev help does not know it")
            return 0, ""
        command = line.command
        for stand_in in names.stand_ins(folder, os.path.dirname(self.dcpctl)):
            replaced = stand_in.pattern.sub(stand_in.text, command)
            if replaced != command:
                self.tell(f"{line.command}: {stand_in.why}")
            command = replaced
        if command == "echo $?":
            command = f"(exit {before}); echo $?"
        read, written, folders = self.paths(command)
        if not is_page:
            self.prepare(read, written, folder)
        for path in folders:
            (folder / path.replace("~", str(folder))).mkdir(parents=True, exist_ok=True)
        hosts, why = names.hosts_of(command)
        for reason in [why, *(w for name, w in self.programs if re.search(rf"\b{name}\b", command))]:
            if reason:
                self.tell(f"{line.command}: {reason}")
        # The exit status of a pipe is that of its end: what begins it is run by itself, too.
        begins = [command.partition(" | ")[0]] if " | " in command else []
        runs = [self.shell(c, folder) for c in [*hosts, *begins]]
        texts = [r.communicate(timeout=240)[0] for r in runs]
        said = "".join(texts[: len(hosts)])  # rank 0 speaks, and which host has it, the launcher decides
        print(f"{max(r.returncode for r in runs)}  {command}", flush=True)
        for run, text in zip(runs, texts):
            if run.returncode != 0 and not states_exit:
                self.fault(line.command, f"exit {run.returncode}: {text}")
        for path in written:
            if runs[0].returncode == 0 and not (folder / path).exists():
                self.fault(line.command, f"there is no {path} afterwards")
        if line.output:
            self.compare(line, said)
        return runs[0].returncode, said

    def prepare(self, read, written, folder):
        """An example reads what is there, and writes what is not."""
        for path in written:
            at = folder / path.rstrip("/")
            shutil.rmtree(at) if at.is_dir() else at.unlink(missing_ok=True)
        for path in dict.fromkeys(p.rstrip("/") for p in read if p not in written):
            if not (folder / path).exists():
                self.make(path, folder)

    def compare(self, line, said):
        filtered = self.filter_of(line)
        expected, got = filtered("\n".join(line.output)), filtered(said)
        form = "\n".join(r".*(\n.*)*" if text.strip() == "..." else re.escape(text) for text in expected)
        if not re.fullmatch(form, "\n".join(got)):
            self.fault(line.command, "\n".join(difflib.unified_diff(expected, got, "shown", "printed", lineterm="")))

    def filter_of(self, line):
        return self.bench_filtered if line.command.startswith("dcpctl bench ") else self.filtered

    def filtered(self, text):
        for pattern, replacement in [*FILTERS, AGE, DATE]:
            text = pattern.sub(replacement, text)
        return [line.rstrip() for line in text.strip().split("\n")]

    def bench_filtered(self, text):
        """Of measurements only what is measured is compared."""
        return [" ".join(NUMBER.sub("N", line).split()) for line in text.strip().split("\n")]


def run(runner, sources):
    every = shown.everything(runner.dcpctl)
    for source in sources:
        name = next((n for n in every if source in (n, shown.slug(n))), None)
        if name is None:
            runner.fault(source, "shows no command line")
        else:
            runner.source(name, every[name])
    print(f"{len(runner.faults)} failures")
    return 1 if runner.faults else 0


def check_all(dcpctl):
    in_help, in_man, wrong = shown.in_help(dcpctl), shown.in_man(dcpctl), []
    every, goldens = [shown.slug(name) for name in shown.everything(dcpctl)], [p.stem for p in GOLDEN.glob("*.txt")]
    for source in sorted(set(every) ^ set(goldens)):
        wrong.append(f"{source}: {'it has no golden: examples.py --refresh makes it, cmake sees it then' if source in every else 'shows no command line'}")
    for source in sorted(set(in_help) | set(in_man)):
        help_lines = [line.command for block in in_help.get(source, []) if not block.files for line in block.lines]
        if help_lines != in_man.get(source, []):
            wrong.append(f"{source}: the help shows {help_lines}, the manual page {in_man.get(source)}")
    wrong += shown.dead_links() + shown.unknown_options(dcpctl)
    for page in ("README.md", "docs/guide.md"):
        if "```" in (shown.ROOT / page).read_text():
            wrong.append(f"{page}: a fenced block, whose command lines are not seen: indent it by four")
    if (size := (shown.ROOT / "README.md").stat().st_size) > 8000:
        wrong.append(f"README.md: {size} bytes, at most 8000: it is the first page, and docs/ has the rest")
    print("\n".join(wrong) or f"{len(every)} places show command lines, and all are run")
    return 1 if wrong else 0


if __name__ == "__main__":
    flags = [a for a in sys.argv[1:] if a in ("--refresh", "--no-ranks")]
    dcpctl, python, *sources = [a for a in sys.argv[1:] if a not in flags]
    dcpctl = os.path.abspath(dcpctl)
    if python == "--all":
        sys.exit(check_all(dcpctl))
    python = os.path.abspath(python)
    sys.exit(run(Runner(dcpctl, python, "--no-ranks" not in flags, "--refresh" in flags), sources))
