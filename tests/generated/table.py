#!/usr/bin/env python3
"""The command line polices itself: `help --json` holds every command, and each command and option is described as the others are.

    table.py DCPCTL
"""
import json
import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).resolve().parent.parent.parent / "docs/guide.md"
NAME = re.compile(r"-[A-Za-z]|--[a-z0-9]+(-[a-z0-9]+)*")
PATHS = {"A", "B", "CKPT", "CKPT2", "DIR", "FILE", "MAP", "MAP2", "MODEL", "OUT", "REF", "RUN"}
EXIT_CODES = [0, 1, 2, 3, 4, 5, 6, 129, 130, 143]


def sentence(text):
    """What is wrong with a one-line text, or None."""
    if not text:
        return "is empty"
    if not re.match(r"[A-Z0-9.\-]|[a-z]+[0-9._]", text):
        return "does not begin with a capital"
    if text.endswith("."):
        return "ends with a period"
    if "\n" in text:
        return "is more than one line"
    return None


def check_command(command, path, wrong):
    where = " ".join(path)
    if fault := sentence(command["about"]):
        wrong.append(f"{where}: its line {fault}: {command['about']!r}")
    if not command["usage"].startswith(where):
        wrong.append(f"{where}: usage is {command['usage']!r}")
    seen = set()
    for option in command["options"] + command["positionals"]:
        names = option.get("names", [])
        label = f"{where} {' '.join(names) or option.get('value')}"
        if fault := sentence(option["help"]):
            wrong.append(f"{label}: its help {fault}: {option['help']!r}")
        for name in names:
            if name in seen:
                wrong.append(f"{label}: {name} is there twice")
            if not NAME.fullmatch(name):
                wrong.append(f"{label}: {name} is not -x or --words-like-this")
            seen.add(name)
        check_value(option, label, wrong)
    for option in command["options"]:
        wrong += [f"{where}: {option['names']} needs or excludes {other}, which is not there" for other in option.get("needs", []) + option.get("excludes", []) if other not in seen]
    # What functions of cmd/request/source.h and cmd/line/context.h declare. `completions` answers a shell, and nobody else.
    if where != "dcpctl completions" and any(option.get("value") == "CKPT" for option in command["positionals"]):
        wrong += [f"{where}: reads CKPT and has no {name}" for name in ("--json", "--max-memory", "--sandbox", "--step") if name not in seen]
    children = [c["name"] for c in command["commands"]]
    if len(set(children)) != len(children):
        wrong.append(f"{where}: a command is there twice: {children}")
    for child in command["commands"]:
        check_command(child, [*path, child["name"]], wrong)


def check_value(option, label, wrong):
    value = option.get("value")
    if value is None and option.get("choices"):
        wrong.append(f"{label}: takes one of {option['choices']}, and its value has no name")
    if value is not None and not re.fullmatch(r"\[GLOB\]|[A-Z][A-Z0-9]*([|=.\-][A-Za-z0-9]+|=>[A-Z]+)*", value):
        wrong.append(f"{label}: its value is called {value!r}, not in capitals")
    # What stands for something in the file system says whether it is read or written, or it cannot be opened (cmd/line/sandbox).
    is_path = value in PATHS or (value == "PATH" and not option.get("names"))  # that of --root is one of components
    if (option.get("path") in ("read", "write", "change")) != is_path:
        wrong.append(f"{label}: {value} is {option.get('path', 'declared neither read nor written')}")
    if "choices" in option and not all(re.fullmatch(r"[a-z0-9_.\-]+", c) for c in option["choices"]):
        wrong.append(f"{label}: odd choices {option['choices']}")


def all_paths(command, path):
    yield path
    for child in command["commands"]:
        yield from all_paths(child, [*path, child["name"]])


def check_help(dcpctl, command, path, wrong):
    """`help` and --help say the same, and name every option of the table."""
    asked = subprocess.run([dcpctl, "help", *path], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    flag = subprocess.run([dcpctl, *path, "--help"], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    if asked != flag:
        wrong.append(f"{' '.join(path)}: help and --help differ")
    for option in command["options"]:
        head = ", ".join(option["names"]) + (f" {option['value']}" if "value" in option else "")
        if not re.search(rf"^ +{re.escape(head)}( |$)", asked, re.MULTILINE):
            wrong.append(f"{' '.join(path)}: --help lacks {head}")
    for child in command["commands"]:
        check_help(dcpctl, child, [*path, child["name"]], wrong)


def check_guide(exit_codes, wrong):
    """The table of exit codes in docs/guide.md; one row may hold several codes."""
    meanings, codes = {e["code"]: e["meaning"] for e in exit_codes}, []
    for row in re.finditer(r"^\| (\d+(?:, \d+)*) \| (.*) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE):
        codes += [int(c) for c in row[1].split(", ")]
        if meanings.get(int(row[1].split(",")[0])) != row[2]:
            wrong.append(f"docs/guide.md: exit code {row[1]} means {row[2]!r} there")
    if codes != EXIT_CODES:
        wrong.append(f"docs/guide.md: the exit codes are {codes}")


def main(dcpctl):
    document = json.loads(subprocess.run([dcpctl, "help", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    wrong = []
    if next(iter(document.items())) != ("schema", "dcpctl.help/1"):
        wrong.append("the schema is not the first member")
    if [e["code"] for e in document["exit_codes"]] != EXIT_CODES or not all(e["meaning"] for e in document["exit_codes"]):
        wrong.append(f"exit codes: {document['exit_codes']}")
    check_guide(document["exit_codes"], wrong)
    check_command(document["command"], ["dcpctl"], wrong)
    check_help(dcpctl, document["command"], [], wrong)
    paths = [" ".join(p) for p in all_paths(document["command"], [])]
    for expected in ["inspect", "consolidate", "bench io", "bench staging", "help", "man", "completions"]:
        if expected not in paths:
            wrong.append(f"no command {expected!r}")
    print("\n".join(wrong) or f"{len(paths)} commands")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
