#!/usr/bin/env python3
"""What a shell offers at each point of the command line, asked of the shell itself: all that the table holds, and nothing else.

    shells.py bash|zsh|fish SCRIPT DCPCTL

Exits 77 (skipped) when the shell is not installed.
"""
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = {"model.pt", "run", "step-1000"}  # in the folder where the shells run
LARGE = os.path.join(tempfile.gettempdir(), f"dcpctl-large-{os.getpid()}")  # 10,000 tensors
CHECKPOINT = HERE.parent / "data" / "nocrc" / "ckpt"  # what step-1000 is, and each step of run


ALIASES = {"export"}  # offered, but in no list


def questions(dcpctl):
    """(what is typed, what must be offered)."""
    document = json.loads(subprocess.run([dcpctl, "help", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    yield from questions_about(document["command"], "dcpctl")
    yield "dcpctl insp", {"inspect"}
    yield "dcpctl consolidate step-1000 model.pt --dry", {"--dry-run"}
    yield "dcpctl consolidate --color=al", {"always"}
    yield "dcpctl consolidate --color never --progress p", {"plain"}
    yield "dcpctl consolidate -j 4 step-1000 mo", {"model.pt"}
    yield "dcpctl consolidate --max-memory ", set()
    yield "dcpctl consolidate --report m", {"model.pt"}
    yield "dcpctl inspect --keys -v ste", {"step-1000"}
    yield "dcpctl inspect --include bench ste", {"step-1000"}
    yield "dcpctl help ", {c["name"] for c in document["command"]["commands"]} | ALIASES
    yield "dcpctl man bench ", {"io", "staging"}
    yield "dcpctl man inspect ", set()
    yield "dcpctl help nothing ", set()
    yield "dcpctl nothing --", set()
    yield "dcpctl inspect -- ste", {"step-1000"}
    yield "dcpctl --color never inspect --co", {"--color", "--config"}
    yield "dcpctl consolidate -qj 4 step-1000 mo", {"model.pt"}
    yield from questions_about_names(dcpctl)


def questions_about_names(dcpctl):
    """What only the checkpoint on the line knows."""
    shown = json.loads(subprocess.run([dcpctl, "inspect", CHECKPOINT, "--json"], check=True, stdout=subprocess.PIPE).stdout)
    keys = {entry["key"] for entry in shown["tensors"] + shown["blobs"]}
    assert "w" in keys
    yield "dcpctl inspect step-1000 --key ", keys
    yield "dcpctl consolidate -j 4 step-1000 model.pt --include w", {k for k in keys if k.startswith("w")}
    yield "dcpctl inspect run --step 20 --exclude ", keys
    yield "dcpctl extract step-1000 ", keys
    yield "dcpctl extract -o x.npy step-1000 ", keys
    yield from questions_about_options(dcpctl, keys)
    # Of more keys than are offered at once those that begin as the word does.
    yield f"dcpctl extract {LARGE} model.nor", {"model.norm.weight"}
    yield f"dcpctl diff {LARGE} {LARGE} --key model.layers.44.attention.wo", {"model.layers.44.attention.wo.weight"}
    yield f"dcpctl cast {LARGE} out --dtype-rule model.out", {"model.output.weight"}
    yield "dcpctl inspect nowhere --key ", set()
    yield "dcpctl inspect --key ", set()
    yield "dcpctl verify run --step ", {"latest", "5", "20"}
    yield "dcpctl cast step-1000 out --dtype bf", {"bfloat16", "bf16"}
    yield "dcpctl cast step-1000 out --dtype-rule ", keys
    yield "dcpctl cast step-1000 out --dtype-rule w=fp", {"fp32", "fp16"}
    yield "dcpctl cast step-1000 out --dtype-rule w=k", {"keep"}


def questions_about_options(dcpctl, keys):
    """Of every command that takes a checkpoint, every option that names keys or steps of it."""
    document = json.loads(subprocess.run([dcpctl, "help", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    asked = {"keys": ("step-1000", keys), "dtype-rules": ("step-1000", keys), "steps": ("run", {"latest", "5", "20"})}
    found = set()
    for command in document["command"]["commands"]:
        first = command["positionals"][0]["value"] if command["positionals"] else ""
        if first not in ("CKPT", "A", "RUN"):
            continue
        for option in command["options"]:
            if option.get("offers") in asked:
                path, wanted = asked[option["offers"]]
                yield f"dcpctl {command['name']} {path}{' run' if first == 'A' else ''} {option['names'][-1]} ", wanted
                found.add((command["name"], option["names"][-1]))
    assert {(c, "--include") for c in ("inspect", "verify", "consolidate", "reshard", "cast", "convert", "diff", "edit")} <= found, found
    assert {("list", "--after"), ("diff", "--step-b")} <= found, found


def questions_about(command, typed):
    yield f"{typed} -", {name for option in command["options"] for name in option["names"]}
    if command["commands"]:
        yield f"{typed} ", {c["name"] for c in command["commands"]} | (ALIASES if typed == "dcpctl" else set())
    for option in command["options"]:
        if "choices" in option:
            yield f"{typed} {option['names'][-1]} ", set(option["choices"])
            yield f"{typed} {option['names'][-1]}=", set(option["choices"])
    if command["positionals"]:
        first = command["positionals"][0]
        if "choices" in first:
            yield f"{typed} ", set(first["choices"])
        elif first["value"] in ("CKPT", "OUT"):
            yield f"{typed} ", FILES
    for child in command["commands"]:
        yield from questions_about(child, f"{typed} {child['name']}")


def offered(words):
    """Words as the question expects them: "--color=always" answers "--color=", a rule's dtype "w=fp32", and a folder ends in a slash."""
    return {re.sub(r"^[^=]+=(?=.)|[/=]$", "", word) for word in words if word}


def bash(script, lines):
    """Calls the completion function as readline does; compopt, which asks readline for names of files, is answered with them."""
    program = r"""
source "$1"
compopt() { [[ $2 == nospace ]] || mapfile -t COMPREPLY < <(compgen -f -- "$cur"); }
while IFS= read -r line; do
  read -ra COMP_WORDS <<<"${line//=/ = }"
  [[ $line != *[\ =] ]] || { [[ $line == *= ]] || COMP_WORDS+=(''); }
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _dcpctl
  printf '%s\037' "${COMPREPLY[@]}"
  printf '\n'
done
"""
    run = subprocess.run(["bash", "--norc", "-c", program, "bash", script], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return [offered(answer.split("\x1f")) for answer in run.stdout.splitlines()]


def fish(script, lines):
    program = r"""
source $argv[1]
while read -l line
    echo (complete -C "$line" | string split -f 1 \t | string join \x1f)
end
"""
    run = subprocess.run(["fish", "--no-config", "-c", program, script], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return [offered(answer.split("\x1f")) for answer in run.stdout.splitlines()]


def zsh(script, lines):
    """zsh completes only on a terminal: shells.zsh, its startup file there, writes what is offered to the file $OFFERED."""
    with tempfile.TemporaryDirectory() as scratch:
        answered = Path(scratch, "offered")
        answered.touch()
        shutil.copy(HERE / "shells.zsh", Path(scratch, ".zshrc"))
        shutil.copy(script, Path(scratch, "_dcpctl"))
        environment = {**os.environ, "ZDOTDIR": scratch, "OFFERED": str(answered), "TERM": "xterm", "HISTFILE": ""}
        child, terminal = pty.fork()
        if child == 0:
            os.execvpe("zsh", ["zsh", "--no-global-rcs", "-i"], environment)
        try:
            answers(terminal, answered, 1)
            for number, line in enumerate(lines, 2):
                os.write(terminal, line.encode() + b"\t\x07")  # Tab, then Control-G: the mark that ends an answer
                answers(terminal, answered, number)
            return [offered(block.split("\n")) for block in answered.read_text().split("\0")[1:-1]]
        finally:
            os.close(terminal)
            os.kill(child, 9)
            os.waitpid(child, 0)


def answers(terminal, answered, count):
    """Waits for `count` marks, reading what the shell draws meanwhile so that it never blocks."""
    drawn, end = b"", time.monotonic() + 120
    os.set_blocking(terminal, False)
    while answered.read_text().count("\0") < count:
        if time.monotonic() > end:
            sys.exit(f"zsh does not answer; its terminal shows {drawn!r}")
        try:
            drawn += os.read(terminal, 65536)
        except BlockingIOError:
            time.sleep(0.01)


def main(shell, script, dcpctl):
    if not shutil.which(shell):
        print(f"skipped: {shell} is not installed")
        return 77
    script, asked = str(Path(script).resolve()), list(questions(str(Path(dcpctl).resolve())))
    if (lines := len(Path(script).read_text().splitlines())) > 60:
        sys.exit(f"{script}: {lines} lines, at most 60: what is offered is the program's to know")
    os.environ["PATH"] = f"{Path(dcpctl).resolve().parent}:{os.environ['PATH']}"  # the scripts ask the program
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("model.pt").touch()
        for name in ("step-1000", "run/step-5", "run/step-20"):
            shutil.copytree(CHECKPOINT, name)
        subprocess.run([sys.executable, HERE.parent / "cli" / "large.py", LARGE], check=True)
        got = {"bash": bash, "zsh": zsh, "fish": fish}[shell](script, [line for line, _ in asked])
        os.chdir("/")
        shutil.rmtree(LARGE)
    if len(got) != len(asked):
        sys.exit(f"{len(asked)} questions, {len(got)} answers")
    wrong = [(line, want, have) for (line, want), have in zip(asked, got) if want != have]
    for line, want, have in wrong:
        print(f"{line!r}: not offered {sorted(want - have)}, offered too {sorted(have - want)}")
    print(f"{shell}: {len(asked)} questions, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
