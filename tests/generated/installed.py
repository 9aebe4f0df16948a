#!/usr/bin/env python3
"""`cmake --install` puts the program, its man pages and its completions where a system looks for them.

    installed.py CMAKE BUILD
"""
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def main(cmake, build):
    expected = {
        "bin/dcpctl",
        "share/bash-completion/completions/dcpctl",
        "share/zsh/site-functions/_dcpctl",
        "share/fish/vendor_completions.d/dcpctl.fish",
        *(f"share/man/man{page.suffix[1:]}/{page.name}" for page in (ROOT / "man").iterdir()),
    }
    with tempfile.TemporaryDirectory() as prefix:
        subprocess.run([cmake, "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        present = {str(p.relative_to(prefix)) for p in Path(prefix).rglob("*") if p.is_file()}
        program = subprocess.run([Path(prefix, "bin/dcpctl"), "--version"], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    print(program.strip(), *(f"not installed: {p}" for p in sorted(expected - present)), sep="\n")
    return 1 if expected - present else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
