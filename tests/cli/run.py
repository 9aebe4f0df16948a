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

`?` is the exit code. A last line without a newline is followed by a line `|~` or `!~`. `@80 dcpctl ...` in the place of `$ dcpctl ...` is typed at a
terminal of 80 columns, where both outputs come as one: `\\e` is the escape character, and what a carriage return has overwritten is not shown. `@80,160,- dcpctl ...`
is typed at each of these, `-` being no terminal: what they show stands one after the other, and where it is the same, `? 0, the same`.
A line that is a JSON document is shown with one field a line. $DATA is tests/data, and `flip FILE OFFSET` inverts one byte. Names of folders, times, rates and memory differ from run to run: FILTERS makes them equal.
"""
import difflib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
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
    (re.compile(r" \(commit [0-9a-f]+(-dirty)?\)|(?<=,)\"commit\":\"[0-9a-f]+(-dirty)?\","), ""),
    (re.compile(r"(peak\s+memory\s+)\d+(\.\d+)? [kMGT]?i?B"), r"\1N B"),
    (re.compile(r"\b\d+(\.\d+)? MiB or more"), "N MiB or more"),
    (re.compile(r"--max-memory \d+MiB$", re.M), "--max-memory N"),
    (re.compile(r'("(?:seconds|peak_memory_bytes|planned_memory_bytes)": ?)[0-9.e+-]+'), r"\1N"),
]


class Raw(str):
    """A number as it is written."""


def one_line(value):
    if isinstance(value, Object):
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {one_line(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(one_line, value)) + "]"
    return value if isinstance(value, Raw) else json.dumps(value, ensure_ascii=False)


class Object(list):
    """Pairs of an object, in order."""


def pretty(value, indent=0):
    """One field of an object a line."""
    short = one_line(value)
    if not isinstance(value, list) or short in ("{}", "[]") or ("{" not in short and len(short) + indent <= 110):
        return short
    pad, is_object = " " * (indent + 2), isinstance(value, Object)
    items = [f"{json.dumps(v[0], ensure_ascii=False)}: {pretty(v[1], indent + 2)}" if is_object else pretty(v, indent + 2) for v in value]
    left, right = "{}" if is_object else "[]"
    return f"{left}\n{pad}" + f",\n{pad}".join(items) + f"\n{' ' * indent}{right}"


def with_pretty_json(text):
    lines = []
    for line in text.split("\n"):
        try:
            known = line.startswith('{"') and line.endswith("}")
            lines.append(pretty(json.loads(line, object_pairs_hook=Object, parse_int=Raw, parse_float=Raw)) if known else line)
        except json.JSONDecodeError:
            lines.append(line)
    return "\n".join(lines)


def typed(command, columns, cwd, environment):
    """(exit code, what a terminal of that many columns gets)"""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, cwd=cwd, env={**environment, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    got = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            piece = b""
        if not piece:
            break
        got += piece
    code = process.wait(timeout=60)  # before its terminal hangs up: it may have closed its outputs and not have ended
    os.close(ours)
    return code, got.decode("utf-8", "backslashreplace").replace("\r\n", "\n")


def seen(text):
    """What is left on the terminal, the escape character as \\e."""
    return re.sub(r"[^\n]*\r(?!\n)", "", text.replace("\x1b[K", "")).replace("\x1b", "\\e")


def piped(command, cwd, environment):
    """(exit code, standard output, standard error) without a terminal"""
    run = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    return run.returncode, *(with_pretty_json(stream.decode("utf-8", "backslashreplace")) for stream in (run.stdout, run.stderr))


def shown(places, command, scratch, environment):
    """What a command shows at each of `places`: columns of terminals, `-` for none."""
    command, lines, before = ["bash", "-c", PRELUDE + command], [], None
    for place in places:
        if place == "-":
            code, *streams = piped(command, scratch, environment)
        else:
            code, text = typed(command, int(place), scratch, environment)
            streams = [seen(text)]
        now = [line for mark, text in zip("|!", streams) for line in marked(mark, filtered(text, scratch))]
        lines += [f"? {code}, the same"] if (now, code) == before else [*now, f"? {code}"]
        before = now, code
    return lines


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
            "DCPCTL_PAGER": "cat",
            **{k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS")},
        }
        for line in case.read_text().splitlines():
            if line[:1] not in ("|", "!", "?"):
                played.append(line)
            if step := re.match(r"@([\d,-]+) (.*)", line):
                if "$DATA" in line:
                    sys.exit(f"{case}: copy what is in $DATA first: at a terminal, where lines break depends on how long its path is here\n{line}")
                played += shown(step[1].split(","), step[2], scratch, environment)
            if line.startswith("$ "):
                played += shown("-", line[2:], scratch, environment)
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
