#!/usr/bin/env python3
"""Reads the sources and fails on what src/README.md forbids: arrows against the order of the rooms, printing, exiting, the environment and
threads where they do not belong, options and arguments named where no command line is known, questions about the kind of a checkpoint.

    layering.py ROOT         check the tree
    layering.py --self-test  check the checker on made-up trees
"""
import re
import sys
import tempfile
from pathlib import Path

ORDER = ["base", "pickle", "format", "catalog", "select", "items", "plan", "files", "exec", "ranks", "app"]
MAY_INCLUDE = {room: set(ORDER[: i + 1]) for i, room in enumerate(ORDER)}
MAY_INCLUDE["kernels"] = {"base", "kernels"}
MAY_INCLUDE["staging"] = {*ORDER[: ORDER.index("exec") + 1], "kernels", "staging"}
MAY_INCLUDE["modules"] = {"base", "modules"}
MAY_INCLUDE["net"] = {"base", "modules", "net"}
MAY_INCLUDE["inputs"] = {*ORDER[: ORDER.index("items") + 1], "inputs"}
MAY_INCLUDE["maps"] = {*ORDER[: ORDER.index("items") + 1], "maps"}
for room in ["plan", "files", "exec", "ranks", "app"]:
    MAY_INCLUDE[room].add("kernels")
for room in ["ranks", "app", "staging"]:
    MAY_INCLUDE[room].add("modules")
for room in ["ranks", "app"]:
    MAY_INCLUDE[room].add("inputs")
# The command line asks for use cases and renders their results.
MAY_INCLUDE["app"].add("maps")
CMD = ["line", "request", "report", "commands"]
for n, room in enumerate(CMD):
    MAY_INCLUDE[room] = {*ORDER[: ORDER.index("plan")], "kernels", "inputs", "maps", "staging", "modules", "net", "app", *CMD[: n + 1]}
MAY_INCLUDE["cmd"] = {"base", "app", "line", "cmd"}  # main()

# The library's functions, over use cases; its headers stand alone.
MAY_INCLUDE["api"] = {*MAY_INCLUDE["app"], "api", "dcpctl"}
MAY_INCLUDE["dcpctl"] = {"dcpctl"}

# Kernels work on elements; the table of dtypes includes nothing itself.
DTYPE_TABLE = {("kernels", "format/dtype.h")}

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)
# Not snprintf and friends: they make text, they do not print it.
PRINTS = re.compile(r"\b(?:v?f?printf|puts|fputs|putchar|fputc|perror)\s*\(|\bstd::(?:cout|cerr|clog)\b")
# `Exit exit() const` is a member of our own: an Error's exit code.
LEAVES = re.compile(r"(?<![.>])(?<!Exit )\b(?:exit|_exit|_Exit|quick_exit)\s*\(")
ENVIRONMENT = re.compile(r"\b(?:getenv|secure_getenv|setenv|putenv)\s*\(")
THREADS = re.compile(r"\bstd::(?:thread|jthread|async)\b|\bpthread_create\b")
# Comments, strings and characters. A quote between digits separates them (1'000'000) and starts no character.
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'""", re.S)
# A text that names an option, an argument or a command line: src/ knows none of them.
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*|'dcpctl [a-z]+|\b(?:CKPT|OUT)\b")
# An option in a comment.
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
# Opening and maps/derive build catalogs; everyone else gets one that does not change.
CHANGEABLE = re.compile(r"(?<!const )(?<!const dcp::)\bCatalog&")
# An argument's meaning is declared; the word that the help shows for it is not it.
BY_WORD = re.compile(r'\bvalue == "')

# The kind of a checkpoint is known to its adapter and to the table; whoever else asks, asks for a property of the table's rows.
KIND = re.compile(r"\bCheckpointKind::(?!kCount\b)\w+")
# Only torch.save files have this; knows_items() says whether they have been opened.
OF_TORCH_FILES = re.compile(r"\bcatalog_?(?:\(\))?(?:\.|->)torch\b(?!\s*(?:->|=[^=]))")
ROW_NAMES = re.compile(r'\.(?:metadata_ending|vital|data_ending) = "\*?([^"*]+?)_?\*?"')


def kind_tests(root):
    """Comparisons with the names of files of a kind."""
    table = root / "src/catalog/kinds.def"
    names = {name for name in ROW_NAMES.findall(table.read_text(encoding="utf-8")) if name != ".safetensors"} if table.exists() else set()
    if not names:
        return None
    text = '"(?:[^"]*/)?(?:' + "|".join(map(re.escape, sorted(names))) + ')"'
    return re.compile(rf"(?:[=!]=|\b(?:ends_with|starts_with|find|contains|facts)\()[^;\n\"]{{0,40}}{text}|{text}\s*[=!]=")


def without_comments_and_strings(text):
    blank = lambda m: '""' if m.group(0)[0] in "\"'" else re.sub(r"[^\n]", "", m.group(0))
    return TOKEN.sub(blank, text)


def check(root):
    complaints, name_of_kind = [], kind_tests(root)
    for path in sorted([*root.glob("src/**/*"), *root.glob("include/**/*"), *root.glob("cmd/**/*"), *root.glob("tests/**/*")]):
        if path.suffix not in (".h", ".cc", ".def", ".inc"):
            continue
        name = path.relative_to(root)
        text = path.read_text(encoding="utf-8")

        def complain(at, what):
            complaints.append(f"{name}:{text_seen.count(chr(10), 0, at) + 1}: {what}")

        if name.parts[0] == "tests":
            continue
        is_cmd = name.parts[0] == "cmd"
        room = "cmd" if is_cmd and len(name.parts) == 2 else name.parts[1]
        if room not in MAY_INCLUDE:
            complaints.append(f"{name}: a room that layering.py does not know")
            continue

        text_seen = text
        for include in INCLUDE.finditer(text):
            other = include.group(1).split("/")[0] if "/" in include.group(1) else room
            if other in MAY_INCLUDE and other not in MAY_INCLUDE[room] and (room, include.group(1)) not in DTYPE_TABLE:
                complain(include.start(1), f"{room} includes {include.group(1)}, but may include only {', '.join(sorted(MAY_INCLUDE[room]))}")
            if not is_cmd and include.group(1) in ("iostream", "print"):
                complain(include.start(1), f"<{include.group(1)}> in src/: only cmd/ prints")

        if not is_cmd:
            for token in TOKEN.finditer(text):
                if found := token.group(0)[0] == '"' and OPTION.search(token.group(0)):
                    complain(token.start(), f"{found.group(0)} in a text of src/: words of the command line are in cmd/line/problem_words.def")
                elif found := name.parts[0] == "src" and token.group(0)[0] == "/" and FLAG.search(token.group(0)):
                    complain(token.start(), f"{found.group(0)} in a comment of src/: it names the setting instead")
        else:
            for found in BY_WORD.finditer(text):
                complain(found.start(), 'value == ": what an argument is, its declaration says (Option in cmd/line/command.h)')
        text_seen = without_comments_and_strings(text)
        if room != "inputs" and not (room == "catalog" and path.stem in ("kind", "kinds")):
            asked = "asks for the kind of a checkpoint: a property of its row in catalog/kinds.def answers"
            for found in name_of_kind.finditer(text) if name_of_kind else []:
                complain(found.start(), f"{found.group(0)} {asked}")
            for pattern in [KIND, OF_TORCH_FILES] if name.as_posix() != "src/catalog/catalog.h" else [KIND]:
                for found in pattern.finditer(text_seen):
                    complain(found.start(), f"{found.group(0)} {asked}")
        if room not in ("catalog", "inputs", "maps"):
            for found in CHANGEABLE.finditer(text_seen):
                complain(found.start(), "a Catalog that can be changed: only opening and maps/derive build them")
        if not is_cmd:
            for pattern, what in [(PRINTS, "only cmd/ prints"), (LEAVES, "only main ends the program"), (ENVIRONMENT, "only cmd/ knows the environment")]:
                for found in pattern.finditer(text_seen):
                    complain(found.start(), f"{found.group(0).rstrip(' (')} in src/: {what}")
        if room != "base" or path.stem != "workers":
            for found in THREADS.finditer(text_seen):
                complain(found.start(), f"{found.group(0)}: threads are made by base/workers only")
    return complaints


def self_test():
    KINDS = 'DCP_KIND(kA, a_input, .metadata_ending = ".metadata", .vital = "model_world_*", .data_ending = ".safetensors")\n'
    good = {
        "src/base/workers.cc": "#include <thread>\nstd::thread t;  // printf(\n",
        "src/plan/a.cc": '#include "base/a.h"\n#include "catalog/a.h"\nconst char* s = "exit(1)"; auto c = "a" + f(--b) + "c"; int n = 1\'000\'000; std::snprintf(b, 1, ""); flag.exit(); Exit exit() const;\n',
        "src/catalog/kinds.def": KINDS,
        "src/inputs/a.cc": 'bool b = k == CheckpointKind::kA || name == ".metadata" || catalog.torch;\n',
        "src/exec/a.cc": 'write(".metadata"); n = catalog.torch->n; catalog.torch = x; need(k < CheckpointKind::kCount); r = traits_of(k).of_ranks;\n',
        "cmd/main.cc": '#include <iostream>\n#include "app/a.h"\nint main() { exit(getenv("A") != nullptr); }\n',
    }
    bad = [
        ({"src/base/a.h": '#include "pickle/a.h"\n'}, "src/base/a.h:1: base includes pickle/a.h"),
        ({"src/kernels/a.cc": '\n#include "format/zip.h"\n'}, "src/kernels/a.cc:2: kernels includes format/zip.h"),
        ({"src/exec/a.cc": '#include "ranks/a.h"\n'}, "src/exec/a.cc:1: exec includes ranks/a.h"),
        ({"src/exec/a.cc": "/* two\nlines */ std::thread t;\n"}, "src/exec/a.cc:2: std::thread: threads"),
        ({"cmd/a.cc": '#include "plan/a.h"\n'}, "cmd/a.cc:1: cmd includes plan/a.h"),
        ({"cmd/line/a.cc": '#include "report/a.h"\n'}, "cmd/line/a.cc:1: line includes report/a.h"),
        ({"cmd/a.cc": "auto f = std::async(g);\n"}, "cmd/a.cc:1: std::async: threads"),
        ({"src/plan/a.cc": "#include <iostream>\n"}, "src/plan/a.cc:1: <iostream> in src/"),
        ({"src/plan/a.cc": 'void f() { std::fprintf(stderr, ""); }\n'}, "src/plan/a.cc:1: fprintf in src/"),
        ({"src/plan/a.cc": "void f() { std::exit(1); }\n"}, "src/plan/a.cc:1: exit in src/"),
        ({"src/plan/a.cc": 'auto v = std::getenv("A");\n'}, "src/plan/a.cc:1: getenv in src/"),
        ({"include/dcpctl/a.h": '#include <vector>\n#include "dcpctl/b.h"\n#include "base/a.h"\n'}, "include/dcpctl/a.h:3: dcpctl includes base/a.h"),
        ({"src/app/a.cc": '#include "dcpctl/a.h"\n'}, "src/app/a.cc:1: app includes dcpctl/a.h"),
        ({"src/plan/a.h": '\n// like\nauto s = "give --like";\n'}, "src/plan/a.h:3: --like in a text of src/"),
        ({"src/plan/a.h": "\nint n = --m;  // not with --like\n"}, "src/plan/a.h:2: --like in a comment of src/"),
        ({"src/base/a.def": "A(b, \"see 'dcpctl inspect CKPT'\")\n"}, "src/base/a.def:1: 'dcpctl inspect in a text of src/"),
        ({"src/app/a.cc": '// CKPT\nauto at = line.find(" CKPT ");\n'}, "src/app/a.cc:2: CKPT in a text of src/"),
        ({"cmd/a.cc": 'bool b = argument.value == "CKPT";\n'}, 'cmd/a.cc:1: value == "'),
        ({"src/app/a.cc": "void f(Catalog& c, const Catalog& d);\n"}, "src/app/a.cc:1: a Catalog that can be changed"),
        ({"src/app/a.cc": "\nbool b = c.kind == CheckpointKind::kHf;\n"}, "src/app/a.cc:2: CheckpointKind::kHf asks for the kind"),
        ({"cmd/a.cc": "switch (k) {\ncase CheckpointKind::kHf: f();\n}\n"}, "cmd/a.cc:2: CheckpointKind::kHf asks for the kind"),
        ({"src/plan/a.cc": "if (catalog_.torch && n > 1) f();\n"}, "src/plan/a.cc:1: catalog_.torch asks for the kind"),
        ({"src/plan/a.cc": "\nif (source.catalog().torch != nullptr) f();\n"}, "src/plan/a.cc:2: catalog().torch asks for the kind"),
        ({"src/exec/a.cc": 'if (name.ends_with(".metadata")) f();\n', "src/catalog/kinds.def": KINDS}, "src/exec/a.cc:1: ends_with(\".metadata\""),
        ({"cmd/a.cc": 'bool b = path.filename() == ".metadata";\n', "src/catalog/kinds.def": KINDS}, 'cmd/a.cc:1: == ".metadata" asks'),
        ({"src/app/a.cc": 'if (store.facts(run + "/.metadata")) f();\n', "src/catalog/kinds.def": KINDS}, "src/app/a.cc:1: facts(run"),
        ({"src/app/a.cc": 'if (n.starts_with("model_world")) f();\n', "src/catalog/kinds.def": KINDS}, "src/app/a.cc:1: starts_with("),
        ({"src/attic/a.cc": "\n"}, "src/attic/a.cc: a room"),
    ]
    failures = 0
    for files, expected in [(good, None), *bad]:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            got = check(Path(folder))
        if (expected is None and got) or (expected is not None and (len(got) != 1 or not got[0].startswith(expected))):
            failures += 1
            print(f"{files}: got {got}, expected {expected}")
    return failures


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(1 if self_test() else 0)
    found = check(Path(sys.argv[1]))
    print("\n".join(found))
    sys.exit(1 if found else 0)
