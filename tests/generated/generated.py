#!/usr/bin/env python3
"""The man pages, completions, pictures and Python functions in the tree are what the program prints now.

    generated.py DCPCTL              compare
    generated.py --refresh DCPCTL    write them anew (./dev generate)
"""
import difflib
import json
import subprocess
import sys
from pathlib import Path

from pictures import FOLDER, pictures
from python_commands import python_commands

ROOT = Path(__file__).resolve().parent.parent.parent
FUNCTIONS = ROOT / "src/python/dcpctl/_commands.py"
COMPLETIONS = {"bash": "dcpctl.bash", "zsh": "_dcpctl", "fish": "dcpctl.fish"}


def printed(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def pages(command, path=()):
    """The words of each command, parents first."""
    yield path
    for child in command["commands"]:
        yield from pages(child, (*path, child["name"]))


def generated(dcpctl):
    tree = json.loads(printed(dcpctl, "help", "--json"))["command"]
    files = {ROOT / "man" / f"{'-'.join(('dcpctl', *path))}.1": printed(dcpctl, "man", *path) for path in pages(tree)}
    files |= {ROOT / "completions" / name: printed(dcpctl, "completions", shell) for shell, name in COMPLETIONS.items()}
    return files | {FUNCTIONS: python_commands(tree)} | pictures(dcpctl)


def checked_in():
    return {p for p in [*(ROOT / "man").glob("*.1"), *(ROOT / "completions").glob("*"), *FOLDER.glob("*"), FUNCTIONS] if p.is_file()}


def refresh(files):
    for path in checked_in() - set(files):
        path.unlink()
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def compare(files):
    present = checked_in()
    wrong = sorted(present ^ set(files))
    for path in wrong:
        print(f"{path.relative_to(ROOT)}: {'nothing makes it' if path in present else 'missing'}")
    for path in sorted(present & set(files)):
        old, new = path.read_text(encoding="utf-8").splitlines(), files[path].splitlines()
        if old != new:
            wrong.append(path)
            print("\n".join(difflib.unified_diff(old, new, f"{path.relative_to(ROOT)}", "what dcpctl prints", n=0, lineterm="")))
    if wrong:
        print(f"\n{len(wrong)} files are not what the program prints: run ./dev generate and commit man/, completions/, docs/pictures/ and {FUNCTIONS.name}")
    return 1 if wrong else 0


def main(arguments):
    if arguments[0] == "--refresh":
        return refresh(generated(arguments[1]))
    return compare(generated(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
