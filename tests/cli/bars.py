#!/usr/bin/env python3
"""Does a bar of progress stay on its line, at a terminal of any width?

    bars.py DCPCTL
"""
import os
import sys

import run


def bars(dcpctl, columns):
    """What was drawn over one line, each time."""
    command = [dcpctl, "bench", "staging", "--device", "cpu", "--sizes", "1KiB..16MiB", "--repeats", "3", "--progress", "bar"]
    code, got = run.typed(command, columns, "/", {**os.environ, "TERM": "xterm"})
    if code != 0:
        sys.exit(f"exit code {code}: {got}")
    return [line for drawn in got.split("\r\x1b[K")[1:-1] for line in drawn.split("\n")[:1]], got


def main(dcpctl):
    wrong = []
    for columns in (20, 40, 80, 160):
        drawn, got = bars(dcpctl, columns)
        if not drawn or not all("%" in line for line in drawn):
            wrong.append(f"{columns} columns: not a bar: {got!r}")
        wrong += [f"{columns} columns: {len(line)} characters: {line!r}" for line in drawn if len(line) >= columns]
        if columns >= 80 and not all("[" in line and "]" in line for line in drawn):
            wrong.append(f"{columns} columns: no bar in {drawn[0]!r}")
    print("\n".join(wrong) or "bars fit")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
