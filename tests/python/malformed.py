"""Every case of tests/bad through the package: nothing is imported or run, and a failure has the id that the program reports.

    malformed.py [FAMILY...]
"""
import importlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import dcpctl
from dcpctl import _program

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = _program.find()
sys.path.insert(0, str(ROOT / "tests/bad"))
from recipes import small  # noqa: E402

FAMILIES = sorted(p.stem for p in (ROOT / "tests/bad").glob("*.py") if p.stem not in ("run", "recipes"))
# What an event of these would mean: that something of the input was looked up, loaded or run.
FORBIDDEN = ("import", "pickle.find_class", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "socket.", "exec", "compile")
seen = []
watching = False


def hook(event, arguments):
    if watching and event.startswith(FORBIDDEN):
        seen.append((event, str(arguments)[:100]))


def cases(family):
    module = importlib.import_module(family)
    for name, function in vars(module).items():
        case = getattr(function, "case", None)
        if case and callable(function) and not case["limits"] and case["user"] == "any" and case["stdout"] is None:
            yield name, function


def read_all(path):
    """The id of what reading everything fails by, None if it does not."""
    try:
        with dcpctl.open(path) as ck:
            for tensor in ck.tensors.values():
                tensor.read()
            for thing in ck.objects.values():
                thing.raw, thing.would_call
    except dcpctl.Error as error:
        return error
    return None


# Commands that read everything. If the ids of the first are others, they may be those of the next, which have other purposes.
COMMANDS = [["consolidate", "ckpt", "out.pt"], ["verify", "ckpt"], ["extract", "ckpt", "*"], ["consolidate", "ckpt", "out.safetensors", "--tensors-only"]]
# What reading a tensor or an object is refused by, where a command has another word for it since it asks something else.
OTHER_WORDS = {
    "usage": {"dtype_unknown", "layout_not_strided", "safetensors_unknown_dtype"}, "cast_opaque": {"no_dtype_in_output", "opaque_sharded"},
    "zstd_too_large": {"over_limit"}, "pickle_operand": {"pickle_unsafe"},
}
# What is wrong for the sake of the first command's output; a checkpoint that has it is read.
OF_OUTPUTS = {
    "output_exists", "output_busy", "leftover_foreign", "path_conflict", "keys_collide", "over_limit", "blob_big_endian", "pickle_leftover", "items_overlap",
    "duplicates_differ", "pickle_unloadable", "memory_cap", "file_missing", "opaque_sharded", None,
}


def ids_of(folder, line):
    ran = subprocess.run([PROGRAM, *line, "--json", "-q", "--sandbox", "off"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
    answer = json.loads(ran.stdout or ran.stderr.splitlines()[-1])
    return {answer["error"]["id"] if "error" in answer else None, *(f["id"] for f in answer.get("findings", []))}


def main(families):
    global watching
    sys.addaudithook(hook)
    read_all(ROOT / "tests/data/fsdp2_ws4/ckpt")  # imports what the package itself needs
    wrong, tried, equal = [], 0, 0
    for family in families:
        for name, function in cases(family):
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = small(Path(folder) / "ckpt")
                held = function(checkpoint)
                if not checkpoint.written:
                    checkpoint.write()
                watching = True
                error = read_all(Path(folder) / "ckpt")
                watching = False
                got = error and pickle.loads(pickle.dumps(error)).id
                expected = ids_of(folder, COMMANDS[0])
                if got not in expected:
                    expected |= {id for line in COMMANDS[1:] for id in ids_of(folder, line)} if error else expected & OF_OUTPUTS and {None}
                del held
            tried += 1
            if seen:
                wrong.append(f"{family}.{name}: {seen}")
                seen.clear()
            if got in expected or OTHER_WORDS.get(got, set()) & expected:
                equal += 1
            else:
                wrong.append(f"{family}.{name}: {got}, the program: {sorted(map(str, expected))}")
    print("\n".join(wrong))
    print(tried, "cases,", equal, "equal")
    return 1 if wrong or not tried else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or FAMILIES))
