"""What the examples read, by the names that they use, and what stands in for what a test machine lacks."""
import re
import shutil
import socket

# What the examples of a help read beside the samples (tests/data/samples.sh): a name -> the shell that makes it among them.
MADE = {
    "step-10": "dcpctl reshard step-1000 step-10 -q --world-size 2",
    "CKPT2": "dcpctl reshard step-1000 CKPT2 -q --world-size 2",
    "all.pt": "dcpctl consolidate step-1000 all.pt -q",
    "model.pt": "dcpctl consolidate step-1000 model.pt -q --model-only",
    "model.safetensors": "dcpctl consolidate step-1000 model.safetensors -q --model-only",
    "hf-model": "dcpctl consolidate step-1000 hf-model -q --model-only --max-shard-size 20kB",
    "model.json": "dcpctl verify step-1000 -q --manifest model.json --model-only",
}

# What these print is of the machine or the build, and not compared.
OF_THIS_MACHINE = re.compile(r"cmake |dcpctl (doctor|version|bench staging|--version)\b")


def of_this_machine(command):
    return OF_THIS_MACHINE.search(command) is not None


class StandIn:
    """Where an example needs what is not here: the text that is put in the place of what `pattern` finds, and why."""

    def __init__(self, pattern, text, why):
        self.pattern, self.text, self.why = re.compile(pattern), text, why


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stand_ins(folder, build):
    return [
        StandIn(r"(?<![\w.])/(scratch|local|shared)(?=/|$| )", rf"{folder}/\1", "a folder of this machine: one of the test's"),
        StandIn(r"^(python3 -m venv|pip install) .*", ":", "an installed program: the one that is tested; tests/packages/try.sh runs these lines"),
        StandIn(r"^sh tests/data/samples.sh .*", ":", "the folder of samples: a page is run in one"),
        StandIn(r"^cmake -S . -B build && cmake --build build && (cmake --install) build ", rf"\1 {build} ", "a build: the one that is tested"),
        StandIn(r"\bnode0\b", "127.0.0.1", "another host: this one"),
        StandIn(r"(?<=[=:])(29500|29400)\b", lambda _: str(free_port()), "a port: one that is free"),
        StandIn(r"--bytes 4GiB", "--bytes 4MiB", "a large checkpoint: a small one"),
        StandIn(r"--model llama-\w+", "--model tiny", "a large model: a tiny one"),
        StandIn(r"1KiB\.\.1GiB", "1KiB..64KiB", "large buffers: small ones"),
        StandIn(r"^(?!.*--device)(dcpctl bench staging\b.*)$", r"\1 --device cpu", "a GPU: host memory"),
    ]


# Programs: the shell that is run in their place where they are not installed.
PROGRAMS = {
    "sbatch": ("Slurm: no job", """#!/bin/sh
case $1 in --parsable) echo 1 ;; *) echo Submitted batch job 2 ;; esac
"""),
    "srun": ("Slurm: two processes with its variables", """#!/bin/sh
for rank in 1 0; do
  SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=$rank SLURM_LOCALID=$rank SLURM_STEP_NUM_TASKS=2 "$@" &
  ranks="$ranks $!"
done
status=0
for process in $ranks; do wait "$process" || status=$?; done
exit $status
"""),
}


def put_programs(folder):
    """Their stand-ins, in a folder for PATH. [(name, why)]"""
    folder.mkdir()
    missing = [(name, why, text) for name, (why, text) in PROGRAMS.items() if not shutil.which(name)]
    for name, _, text in missing:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return [(name, why) for name, why, _ in missing]


def hosts_of(command):
    """The command lines that the hosts of an example run at the same time, and why there are several."""
    if nodes := re.search(r"\btorchrun\b.*--nnodes[ =](\d+)", command):
        return [command] * int(nodes[1]), "the same line on each host: all on this one"
    if by_hand := re.match(r"RANK=0 WORLD_SIZE=(\d+) ", command):
        return [command.replace("RANK=0", f"RANK={r}", 1) for r in range(int(by_hand[1]))], "the same line with RANK=1 on the other host: both on this one"
    return [command], None
