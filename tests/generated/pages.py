#!/usr/bin/env python3
"""The man pages as a reader sees them: groff has nothing to warn about, each page has its title, sections and options, and command lines
come out as they must be typed.

    pages.py DCPCTL

Exits 77 (skipped) when groff is not installed.
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "ARGUMENTS", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]


def rendered(dcpctl, words):
    page = subprocess.run([dcpctl, "man", *words], check=True, stdout=subprocess.PIPE).stdout
    # -P-c -P-bou: no colours, no overstriking; lines long enough for every example.
    run = subprocess.run(["groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-P-c", "-P-bou", "-rLL=250n"], input=page, capture_output=True, check=True)
    return run.stdout.decode(), run.stderr.decode()


def check(dcpctl, command, words, exit_codes, wrong):
    name, (text, warnings) = "-".join(["dcpctl", *words]), rendered(dcpctl, words)
    lines = [line.strip() for line in text.splitlines()]

    def need(condition, what):
        if not condition:
            wrong.append(f"{name}.1: {what}")

    need(not warnings, warnings)
    need(lines and re.match(rf"{name.upper()}\(1\) ", lines[0]), f"the title is {lines[:1]}")
    titles = [line for line in text.splitlines() if re.match(r"[A-Z]", line) and "(1)" not in line]
    need(titles == [s for s in SECTIONS if s in titles], f"its sections are {titles}")
    need({"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"} <= set(titles), f"sections are missing: {titles}")
    need(command["usage"] in lines, f"the usage is not {command['usage']!r}")
    for option in command["options"] + command["positionals"]:
        head = " ".join(filter(None, [", ".join(option.get("names", [])), option.get("value")]))
        need(any(re.match(rf"{re.escape(head)}( |$)", line) for line in lines), f"lacks {head}")
    for line in command["details"].splitlines():
        need(not re.match(r" +(dcpctl|\S+ dcpctl) ", line) or line.strip() in lines, f"lacks the example {line.strip()!r}")
    for status in exit_codes:
        need(any(re.match(rf"{status['code']} +{re.escape(status['meaning'])}$", line) for line in lines), f"lacks exit status {status['code']}")
    for child in command["commands"]:
        check(dcpctl, child, [*words, child["name"]], exit_codes, wrong)


def check_written(page, dcpctl, wrong):
    """A page that no command prints: groff takes it, and the map that it shows is one."""
    run = subprocess.run(["groff", "-t", "-man", "-ww", "-Kutf8", "-Tutf8", "-P-c", "-P-bou", "-rLL=250n", page], capture_output=True, check=True)
    if run.stderr:
        wrong.append(f"{page.name}: {run.stderr.decode()}")
    text = run.stdout.decode()
    indented = [m.group() for m in re.finditer(r"(?:^ {8,}.*\n|^\n)+", text, re.M)]
    shown = [block for block in indented if re.search(r"^ +family ", block, re.M)]
    if not shown:
        wrong.append(f"{page.name}: shows no map")
    with tempfile.TemporaryDirectory() as folder:
        for block in shown:
            Path(folder, "a.map").write_text(block)
            checked = subprocess.run([dcpctl, "maps", f"{folder}/a.map"], capture_output=True, encoding="utf-8")
            if checked.returncode != 0:
                wrong.append(f"{page.name}: its map is refused: {checked.stderr}")


def main(dcpctl):
    if not shutil.which("groff"):
        print("skipped: groff is not installed")
        return 77
    document = json.loads(subprocess.run([dcpctl, "help", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    wrong = []
    check(dcpctl, document["command"], [], document["exit_codes"], wrong)
    for page in sorted(ROOT.glob("man/*.7")):
        check_written(page, dcpctl, wrong)
    print("\n".join(wrong) or "every page is as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
