"""The package's structs and functions are those of include/dcpctl/c.h, as a C compiler lays them out.

    abi.py CC
"""
import ctypes
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from dcpctl import _abi

HEADER = Path(__file__).resolve().parent.parent.parent / "include/dcpctl/c.h"


def structs(text):
    """{name: its members}"""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for body, name in re.findall(r"typedef struct dcpctl_\w+ \{(.*?)\} dcpctl_(\w+);", text, flags=re.S):
        yield name, [word.strip(" *") for line in body.split(";") for word in re.sub(r"^\s*(?:const )?\w+(?: const)?(?:\*const\*|\* ?const ?\*|\*)? ", "", line).split(",") if word.strip()]


def parameters(text):
    """{function: how many parameters it has}"""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for name, given in re.findall(r"DCPCTL_API [\w ]+\*? ?(dcpctl_\w+)\(([^)]*)\);", text):
        yield name, 0 if given == "void" else len(given.split(","))


def laid_out(compiler, known):
    """What the compiler says: sizes of structs, and where members are."""
    lines = [f'printf("{name}.%s %zu\\n", "", sizeof(dcpctl_{name}));' for name in known]
    lines += [f'printf("{name}.{m} %zu\\n", offsetof(dcpctl_{name}, {m}));' for name, members in known.items() for m in members]
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "layout.c"), Path(folder, "layout")
        source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include <dcpctl/c.h>\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
        subprocess.run([compiler, "-x", "c", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", HEADER.parent.parent, source, "-o", program], check=True)
        out = subprocess.run([program], check=True, stdout=subprocess.PIPE, encoding="ascii").stdout
    return {name: int(at) for name, at in (line.split() for line in out.splitlines())}


def of_package(known):
    layout = {}
    for name in known:
        struct = getattr(_abi, "".join(word.title() for word in name.split("_")), None)
        if struct is None:
            continue
        layout[f"{name}."] = ctypes.sizeof(struct)
        layout |= {f"{name}.{field[0]}": getattr(struct, field[0]).offset for field in struct._fields_}
    return layout


def main(compiler):
    text = HEADER.read_text(encoding="utf-8")
    known, functions = dict(structs(text)), dict(parameters(text))
    expected, got = laid_out(compiler, known), of_package(known)
    wrong = [f"{name}: {got.get(name)} in the package, {expected.get(name)} in c.h" for name in sorted(expected.keys() | got.keys()) if got.get(name) != expected.get(name)]
    ours = {name: len(arguments) for name, (_result, arguments) in _abi.FUNCTIONS.items()}
    wrong += [f"{name}: {ours.get(name)} parameters in the package, {functions.get(name)} in c.h" for name in sorted(functions.keys() | ours.keys()) if functions.get(name) != ours.get(name)]
    wrong += [f"{name}: not in the library" for name in functions if not hasattr(_abi.lib._loaded, name)]
    print("\n".join(wrong))
    print(len(expected), "places,", len(functions), "functions")
    return 1 if wrong or len(functions) < 20 or len(known) < 10 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
