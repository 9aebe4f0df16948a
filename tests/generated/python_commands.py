"""The commands as functions of the Python package, from `dcpctl help --json`."""
import keyword
import textwrap

# The commands that are functions, and the class of what each returns.
COMMANDS = ["list", "inspect", "diff", "verify", "consolidate", "convert", "reshard", "cast", "prune", "edit", "maps"]
# What a function decides itself: how the answer comes, and what is for a terminal.
OURS = {"--json", "--quiet", "-v", "--color", "--no-pager", "--report", "--progress", "-h", "--help"}

HEAD = '''"""The program's commands as functions. Generated from `dcpctl help --json` (./dev generate): do not edit."""

from __future__ import annotations

from ._program import run as _run
from ._records import {records}

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Literal

    Path = str | os.PathLike[str]
    Value = str | int | float | Path
'''


def argument(word):
    name = word.lstrip("-").replace("-", "_").lower()
    return name + "_" if keyword.iskeyword(name) else name


def options_of(command):
    for option in command["options"]:
        name = option["names"][-1]
        if not set(option["names"]) & OURS and "--json" not in option.get("excludes", ()):
            yield name, option


def parameter(name, option):
    """How it is declared: its type and default."""
    if "value" not in option:
        return f"{argument(name)}: bool = False"
    kind = "Value"
    if option.get("choices"):
        kind = f"Literal[{', '.join(repr(c).replace(chr(39), chr(34)) for c in option['choices'])}]"
    elif option.get("path"):
        kind = "Path"
    if option["repeatable"]:
        return f"{argument(name)}: {kind} | Iterable[{kind}] = ()"
    if option["value"].startswith("["):
        return f"{argument(name)}: bool | {kind} = False"
    return f"{argument(name)}: {kind} | None = None"


def docstring(command, options):
    rows = [command["about"] + "."]
    given = [(argument(p["value"]), p["help"]) for p in command["positionals"]] + [(argument(n), o["help"]) for n, o in options]
    rows += ["", *(line for name, text in given for line in textwrap.wrap(f"{name}: {text}", 140, subsequent_indent="    "))]
    body = "\n".join(("    " + row).rstrip() for row in rows).replace("\\", "\\\\")
    return f'    """{body.lstrip()}\n    """'


def function(command):
    name, options = command["name"], list(options_of(command))
    positionals = [f"{argument(p['value'])}: Path" + ("" if p["required"] else " | None = None") for p in command["positionals"]]
    parameters = [*positionals, "*", *(parameter(n, o) for n, o in options)]
    lines = [f"def {name}(", *(f"    {p}," for p in parameters), f") -> {name.title()}:", docstring(command, options)]
    lines += ["    options = {", *(f'        "{n}": {argument(n)},' for n, _ in options), "    }"]
    # A repeated one (list RUN...) is one: a call gives one answer.
    lines.append(f'    return _run({name.title()}, "{name}", [{", ".join(argument(p["value"]) for p in command["positionals"])}], options)')
    return "\n".join(lines) + "\n"


def python_commands(tree):
    """The text of src/python/dcpctl/_commands.py."""
    known = {command["name"]: command for command in tree["commands"]}
    parts = [HEAD.format(records=", ".join(sorted(name.title() for name in COMMANDS)))]
    return "\n\n".join([*parts, *(function(known[name]) for name in COMMANDS)])
