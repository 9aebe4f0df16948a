#!/usr/bin/env python3
"""How large the program is, and how much of it one has to open to read a file.

    counts.py ROOT [FILE]    source files and statements of src, cmd and include; what FILE (cmd/commands/consolidate.cc) includes of ours, transitively

Source files are .cc, .h, .cu and .def. A statement is a `;` or a `{` outside comments, texts and directives.
"""
import re
import sys
from pathlib import Path

from bounds import tokens_of

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def sources(root):
    return [p for room in ("src", "cmd", "include") for p in sorted((root / room).rglob("*")) if p.suffix in (".cc", ".h", ".cu", ".def")]


def statements(path):
    return sum(token in (";", "{") for token, _ in tokens_of(path.read_text(encoding="utf-8")))


def included(root, path):
    """Our files that it includes, and what these include; what the build makes is not counted."""
    found, open_files = set(), [path]
    while open_files:
        file = open_files.pop()
        for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
            places = [folder / name for folder in (file.parent, root / "src", root / "cmd", root / "include")]
            there = next((p.resolve() for p in places if p.exists()), None)
            if there and there not in found:
                found.add(there)
                open_files.append(there)
    return found


def main(root, *files):
    root = Path(root).resolve()
    ours = sources(root)
    print(f"{len(ours)} source files, {sum(map(statements, ours))} statements")
    for file in files:
        headers = included(root, root / file)
        print(f"{file}: includes {len(headers)} of our files")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
