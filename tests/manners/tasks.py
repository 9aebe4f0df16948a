#!/usr/bin/env python3
"""tasks.py [--refresh] DCPCTL: what tasks.md says that each line prints is what it prints, in the form of tests/cli/run.py.

Paths stand there as they were typed, below /tmp/: here they are below the folder that data.py makes.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import run  # noqa: E402

run.FILTERS += [
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "DATE"),
    (re.compile(r'"(modified|age_seconds)": ?[0-9.]+'), r'"\1": N'),
]


def played(text, folder, environment):
    lines = []
    for line in text.splitlines():
        if line[:1] not in ("|", "!", "?"):
            lines.append(line)
        if typed := re.match(r"(?:\$|@([\d,-]+)) (.*)", line):
            lines += run.shown((typed[1] or "-").split(","), typed[2].replace("/tmp/", ""), folder, environment)
    return "\n".join(lines) + "\n"


def main():
    refresh = "--refresh" in sys.argv
    dcpctl = Path([a for a in sys.argv[1:] if a != "--refresh"][0]).resolve()
    page = HERE / "tasks.md"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "tmp"
        environment = {"PATH": f"{dcpctl.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": scratch, "LC_ALL": "C.UTF-8", "DCPCTL_PAGER": "cat"}
        subprocess.run([sys.executable, "-B", HERE / "data.py", folder], env={**os.environ, **environment}, check=True)
        got, expected = played(page.read_text(), folder, environment), page.read_text()
    if got != expected and refresh:
        page.write_text(got)
    sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), got.splitlines(True), "tasks.md: expected", "got"))
    sys.exit(got != expected and not refresh)


if __name__ == "__main__":
    main()
