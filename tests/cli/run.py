#!/usr/bin/env python3
"""Command lines and exactly what they print.

    run.py DCPCTL CASE.cli...            compare
    run.py --refresh DCPCTL CASE.cli...  write what is printed now into the cases; read the diff before you commit it

A case is a text file of steps, all run by bash in one empty folder:

    # a comment
    $ dcpctl inspect "$DATA/nocrc/ckpt" --keys
    | a line on stdout
    ! a line on stderr
    ? 0

`?` is the exit code. A last line without a newline is followed by a line `|~` or `!~`. $DATA is tests/data, and `flip FILE OFFSET` inverts one
byte. Names of folders, times, rates and memory differ from run to run: FILTERS makes them equal.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"

PRELUDE = r"""
flip() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  printf "\\x$(printf %x $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
"""

FILTERS = [
    (re.compile(r"\b\d+(\.\d+)? [kMGT]?i?B/s"), "N B/s"),
    (re.compile(r"\b\d+(\.\d+)? m?s\b"), "N s"),
    (re.compile(r" \(commit [0-9a-f]+\)|(?<=,)\"commit\":\"[0-9a-f]+\","), ""),
    (re.compile(r"(peak memory )\d+(\.\d+)? [kMGT]?i?B"), r"\1N B"),
    (re.compile(r"\b\d+(\.\d+)? MiB or more"), "N MiB or more"),
    (re.compile(r"--max-memory \d+MiB$", re.M), "--max-memory N"),
    (re.compile(r'("(?:seconds|peak_memory_bytes|planned_memory_bytes)": ?)[0-9.e+-]+'), r"\1N"),
]


def filtered(text, scratch):
    text = text.replace(str(scratch), "SCRATCH").replace(str(DATA), "DATA")
    for pattern, replacement in FILTERS:
        text = pattern.sub(replacement, text)
    return text


def marked(mark, text):
    lines = [f"{mark} {line}".rstrip() if line == "" else f"{mark} {line}" for line in text.split("\n")]
    return [*lines, f"{mark}~"] if text and not text.endswith("\n") else lines[:-1]


def play(case, dcpctl):
    """The case's text as it would be if all it expects were what happens."""
    played = []
    with tempfile.TemporaryDirectory() as scratch:
        environment = {
            "PATH": f"{Path(dcpctl).resolve().parent}:/usr/local/bin:/usr/bin:/bin",
            "DATA": str(DATA),
            "HOME": scratch,
            "LC_ALL": "C.UTF-8",
            **{k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS")},
        }
        for line in case.read_text().splitlines():
            if line[:1] not in ("|", "!", "?"):
                played.append(line)
            if line.startswith("$ "):
                command = ["bash", "-c", PRELUDE + line[2:]]
                result = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
                for mark, stream in (("|", result.stdout), ("!", result.stderr)):
                    played += marked(mark, filtered(stream.decode("utf-8", "backslashreplace"), scratch))
                played.append(f"? {result.returncode}")
    return "\n".join(played) + "\n"


def main():
    refresh = "--refresh" in sys.argv
    dcpctl, *cases = [a for a in sys.argv[1:] if a != "--refresh"]
    differ = False
    for case in map(Path, cases):
        played, expected = play(case, dcpctl), case.read_text()
        if played == expected:
            continue
        if refresh:
            case.write_text(played)
        differ = True
        sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), played.splitlines(True), f"{case.name}: expected", "got"))
    sys.exit(1 if differ and not refresh else 0)


if __name__ == "__main__":
    main()
