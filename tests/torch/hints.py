"""Whatever an output is refused for, each output or option that the hint names works on that input.

    hints.py DCPCTL walk
"""
import re
import shutil
import sys

from agree import put_item, save, saved
from case import check, run_named, torch
from odd_tensors import describe, odd_tensors
from other_forms import Two, sharded

OUTPUTS = [
    ["consolidate", "o.pt"],
    ["consolidate", "o.safetensors"],
    ["consolidate", "o", "--max-shard-size", "1MB"],
    ["consolidate", "o.pt", "--tensors-only"],
    ["consolidate", "o.pt", "--dtype", "bf16"],
    ["consolidate", "o.safetensors", "--dtype", "bf16"],
    ["consolidate", "o.pt", "--dtype-rule", "w=float16"],
    ["convert", "o", "--world-size", "2"],
    ["convert", "o", "--world-size", "2", "--dtype", "bf16"],
    ["convert", "o", "--world-size", "1", "--for-torch", "2.1"],
]


def sources(case):
    plain = torch.arange(24.0).reshape(6, 4)
    states = {f"{name}.pt": {"w": tensor, "b": torch.ones(2)} for name, tensor in odd_tensors().items()}
    states |= {
        "two.pt": {"w": Two(plain), "b": torch.ones(2)},
        "complex.pt": {"w": plain.to(torch.complex128), "b": torch.ones(2)},
        "fp8.pt": {"w": plain.to(torch.float8_e4m3fn), "w_scale": torch.ones(1), "b": torch.ones(2)},
        "uint16.pt": {"w": plain.to(torch.uint16), "b": torch.ones(2)},
        "names.pt": {"w": plain, "lr": {1: 2, "1": 3}, "a.b": torch.ones(1), "a": {"b": torch.ones(2)}},
        "header.pt": {"__metadata__": plain, "b": torch.ones(2)},
        "tuple.pt": {"model": {"fc.weight": (torch.ones(3), torch.ones(3)), "fc.bias": torch.ones(3)}, "w": 1},
    }
    for name, state in states.items():
        torch.save(state, case.out / name)
        yield case.out / name
    for name, tensor in {"whole": torch.quantize_per_tensor(plain, 0.5, 3, torch.qint8), "complex": plain.to(torch.complex128), "fp8": plain.to(torch.float8_e5m2)}.items():
        save(case.out / name, {"w": plain, "b": torch.ones(2)})
        put_item(case.out / name, "w", saved(tensor))
        describe(case.out / name, dtype=tensor.dtype)
        yield case.out / name
    sharded(case.out / "pieces", plain, Two)
    yield case.out / "pieces"


def advised(command, hint, keys):
    """The command as each part of a hint would have it."""
    name, out, *options = command
    if "--exclude" in hint or "leave" in hint and "out" in hint:
        yield [name, out, *options, *(word for key in keys for word in ("--exclude", key))]
    if ".pt file" in hint:
        yield ["consolidate", "o.pt", *[o for n, o in enumerate(options) if "--max-shard-size" not in (o, options[n - 1])]]
    if "=keep" in hint:
        yield [name, out, *(word for key in keys for word in ("--dtype-rule", f"{key}=keep")), *options]
    if "--raw" in hint:
        yield [*command, "--raw"]
    if "--rename" in hint:
        yield [*command, *(word for n, key in enumerate(keys) for word in ("--rename", f"^{re.escape(key)}$=>other{n}"))]
    if "later release" in hint:
        yield [o for n, o in enumerate(command) if "--for-torch" not in (o, command[n - 1])]


def walk(case):
    walked = set()
    for source in sources(case):
        for command in OUTPUTS:
            refusal = attempt(case, source, command)
            if refusal is None:
                continue
            keys, hint = refusal
            what = f"{source.name}, {' '.join(command)}: {hint}"
            others = list(advised(command, hint, keys))
            check(others and keys, f"{what}: no advice")
            for n, other in enumerate(others):
                of = set(keys)
                again = attempt(case, source, other)
                while again is not None and again[1] == hint and not set(again[0]) <= of:  # the same of other keys
                    of |= set(again[0])
                    other = list(advised(command, hint, sorted(of)))[n]
                    again = attempt(case, source, other)
                check(again is None, f"{what}: {' '.join(other)}: {again}")
            walked.add(hint)
    check(len(walked) > 5, f"few hints: {walked}")


def attempt(case, source, command):
    """None, or the keys that the refusal names and its hint."""
    out = case.out / command[1]
    shutil.rmtree(out, ignore_errors=True)
    out.unlink(missing_ok=True)
    ran = case.run_any(command[0], source, out, *command[2:], "--no-sync")
    if ran.returncode == 0:
        return None
    check(not out.exists(), f"{source.name}, {command}: something was written")
    error = ran.stderr[ran.stderr.index("dcpctl: ") :]
    hint = re.search(r"^hint: (.*)", ran.stderr, re.M)
    line = error.splitlines()[0]
    keys = re.findall(r"(?:tensor|object) '([^']*)': ", error) or re.findall(r"(\S+) \([^)]*\)(?:, |\)|$)", line)
    if not keys:  # of those with the same name, all but the first
        keys = [key for same in re.findall(r"' of ([^;]*)", line) for key in same.split(", ")[1:]]
    return keys, hint[1] if hint else ran.stderr


if __name__ == "__main__":
    run_named(globals(), sys.argv[2:], sys.argv[1])
