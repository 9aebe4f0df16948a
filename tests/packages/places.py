#!/usr/bin/env python3
"""The wheel with each Python, wherever an installer puts it: each place has the package, the program, and what reads stores.

    places.py WHEEL PYTHON...     run by store.py, whose STORE it reads
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
CKPT = TESTS / "data/fsdp2_ws4/ckpt"
# What must work wherever the wheel is. Said of a place: where its package and its program were found.
WORKS = """
import sys, tempfile, os, subprocess
import dcpctl
from dcpctl import _program
ckpt, store, place = sys.argv[1:]
for file in (dcpctl.__file__, _program.find()):
    assert os.path.realpath(file).startswith(os.path.realpath(place) + os.sep), (file, place)
ck = dcpctl.open(ckpt)
assert len(ck.tensors) and len(ck["model.norm.weight"].read()) == 72
assert dcpctl.inspect(ckpt).summary.tensors == len(ck.tensors)
assert dcpctl.verify(ckpt).is_sound
with tempfile.TemporaryDirectory() as out:
    dcpctl.consolidate(ckpt, out + "/model.safetensors", model_only=True)
    assert dcpctl.diff(ckpt, out + "/model.safetensors", model_only=True).is_equal
said = subprocess.run([sys.executable, "-m", "dcpctl", "diff", ckpt, store, "-q"], capture_output=True, text=True)
assert said.returncode == 0, said
"""


def run(*words, env=None, code=0):
    done = subprocess.run([str(w) for w in words], env=env or os.environ, capture_output=True, text=True)
    if done.returncode != code:
        raise SystemExit(f"FAILED: {' '.join(map(str, words))[:300]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def works(python, place, env):
    run(*(python if isinstance(python, tuple) else (python,)), "-c", WORKS, CKPT, os.environ["STORE"].split()[0] + "/fsdp2_ws4/ckpt", place, env=env)


def everywhere(python, wheel, scratch):
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "DCPCTL_LIBRARY", "DCPCTL_PROGRAM")} | {"PYTHONDONTWRITEBYTECODE": "1"}

    def over(**more):
        return {**clean, **{k: str(v) for k, v in more.items()}}

    pip = ("install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps")
    venv = scratch / "with a space"
    run(python, "-m", "venv", venv, env=clean)
    inside = venv / "bin/python"
    run(inside, "-m", "pip", *pip, wheel, env=clean)
    works(inside, venv, clean)
    run(venv / "bin/dcpctl", "--version", env=clean)
    run(inside, "-X", "dev", TESTS / "python/package.py", env=clean)

    # Where nothing can be written.
    mount = ("unshare", "--mount", *(("--map-root-user",) if os.geteuid() else ()))
    read_only = (*mount, "sh", "-ec", 'mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"; ! mkdir "$0/x" 2>/dev/null; exec "$@"')
    works((*read_only, venv, inside), venv, over(PYTHONDONTWRITEBYTECODE=""))

    target, other = scratch / "target", scratch / "other"
    for place in (target, other):  # two side by side: each finds its own program
        run(inside, "-m", "pip", *pip, "--target", place, wheel, env=clean)
    for place in (target, other):
        works(python, place, over(PYTHONPATH=place))

    base = scratch / "user"
    run(python, "-m", "pip", *pip, "--user", wheel, env=over(PYTHONUSERBASE=base, PIP_BREAK_SYSTEM_PACKAGES=1))
    works(python, base, over(PYTHONUSERBASE=base))

    by_hand = scratch / "by hand"
    run(python, "-m", "zipfile", "-e", wheel, by_hand)
    program = next(by_hand.glob("*.data/scripts/dcpctl"))
    program.chmod(0o755)  # which zipfile leaves out
    works(python, by_hand, over(PYTHONPATH=by_hand))

    said = run(python, "-c", "import dcpctl; dcpctl.open('x')", env=over(PYTHONPATH=wheel), code=1)
    assert "the package is in a zip file" in said, said


def main(wheel, *pythons):
    wheel = Path(wheel).resolve()
    for python in pythons:
        with tempfile.TemporaryDirectory() as scratch:
            everywhere(python, wheel, Path(scratch))
        version = run(python, "-c", "import sys; print(sys.version.split()[0])").strip()
        print(f"places: well with Python {version}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
