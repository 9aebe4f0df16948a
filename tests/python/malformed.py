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

ROOT = Path(__file__).resolve().parent.parent.parent
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
        pickle.loads(pickle.dumps(error))
        return error.id
    return None


def program_says(folder):
    ran = subprocess.run([os.environ["DCPCTL_PROGRAM"], "consolidate", "ckpt", "out.pt", "--json", "-q", "--sandbox", "off"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
    answer = json.loads(ran.stdout or ran.stderr.splitlines()[-1])
    return answer["error"]["id"] if "error" in answer else None


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
                expected = program_says(folder)
                watching = True
                got = read_all(Path(folder) / "ckpt")
                watching = False
                del held
            tried += 1
            if seen:
                wrong.append(f"{family}.{name}: {seen}")
                seen.clear()
            if got == expected:
                equal += 1
            else:
                wrong.append(f"{family}.{name}: {got}, the program: {expected}")
    print("\n".join(wrong))
    print(tried, "cases,", equal, "equal")
    return 1 if wrong or not tried else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or FAMILIES))
