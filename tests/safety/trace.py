#!/usr/bin/env python3
"""The system calls that dcpctl makes over all malformed checkpoints: no program started, no network, nothing opened but the checkpoint, what the
command line names, and the system's own libraries.

    trace.py DCPCTL [FAMILY...]

Exits 77, which ctest shows as skipped, where strace is missing or may not trace.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bad"))
import run as bad  # noqa: E402
from recipes import small  # noqa: E402

TRACED = "%process,%network,open,openat,openat2,creat,name_to_handle_at,open_by_handle_at,ptrace,process_vm_readv,io_uring_setup,bpf,mount,symlinkat,linkat,link,symlink"
# The loader, the C library, and facts about the machine that the C library or dcpctl asks for. Nothing in them comes from the checkpoint.
# (glibc's malloc reads overcommit_memory before it gives back memory of a thread.)
SYSTEM = re.compile(r"/etc/ld\.so\.(cache|preload)$|(/usr)?/lib(64|32)?/|/proc/self/(status|task|cgroup|cmdline)|/proc/\d+/(status|cgroup|cmdline)|/sys/devices/system/cpu|/proc/stat$|/proc/sys/vm/overcommit_memory$|/sys/fs/cgroup|/dev/null$|/proc/self$")
NO_PROCESS = re.compile(r"^(fork|vfork|execveat|kill|tkill|ptrace|process_vm_readv|io_uring_setup|bpf|mount|symlinkat|symlink)$")
CALL = re.compile(r"^(?:\d+\s+)?(\w+)\((.*)$")
DISALLOWED_NETWORK = re.compile(r"^(socket|connect|bind|listen|accept4?|send(to|msg|mmsg)|socketpair)$")


def fault_of(line, folder, started, named=()):
    """What is wrong with a traced call, or None. `started`: names of programs started so far; `named`: what the command line's paths lead to."""
    call = CALL.match(line)
    if not call or line.lstrip("0123456789 ").startswith(("+++", "---")):
        return None
    name, rest = call.groups()
    if name == "execve":
        started.append(rest)
        return None if len(started) == 1 else "a program is started"
    if name in ("clone", "clone3"):
        return None if "CLONE_THREAD" in rest else "a process is started"
    if DISALLOWED_NETWORK.match(name):
        return "the network is used"
    if NO_PROCESS.match(name):
        return f"{name} is called"
    if name not in ("open", "openat", "openat2", "creat"):
        return None
    text = re.search(r'"((?:[^"\\]|\\.)*)"', rest)
    at = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", rest)  # -y shows what a descriptor is
    if not text:
        return f"cannot be read: {line}"
    path = text[1].encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")
    if name == "openat2" and "RESOLVE_BENEATH" not in rest:
        return "openat2 without RESOLVE_BENEATH"
    full = path if path.startswith("/") else os.path.join(at[1] if at else folder, path)
    opened = re.search(r"= \d+<([^>]*)>$", rest)  # where links have led
    for file in [os.path.normpath(full), *([opened[1]] if opened else [])]:
        if file != folder and not file.startswith(folder + "/") and file not in named and not SYSTEM.match(file):
            return f"{file} is opened"
    return None


def trace(dcpctl, function, log):
    """The faults of one case, its first command traced."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        checkpoint = small(folder / "ckpt")
        held = function(checkpoint)
        if not checkpoint.written:
            checkpoint.write()
        arguments = [*function.case["commands"][0], "--sandbox", "off"]  # which opens paths only to allow them; here all opens are looked at
        named = {os.path.realpath(folder / a) for a in arguments}
        subprocess.run(["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "8192", "-e", f"trace={TRACED}", "-o", str(log), dcpctl, *arguments],
                       cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        del held
        started, found = [], []
        lines = log.read_text(errors="replace").splitlines()
        for line in lines:
            if (fault := fault_of(line, str(folder), started, named)) and fault not in found:
                found.append(fault)
        return len(lines), found


def self_test():
    """The eye must see."""
    seen = lambda line: fault_of(line, "/w", ["x"])
    assert seen('12 execve("/bin/sh", ["sh"], 0x7 /* 9 vars */) = 0') and seen("12 socket(AF_INET, SOCK_STREAM, 0) = 3")
    assert seen('1 openat(AT_FDCWD</w>, "/etc/passwd", O_RDONLY) = 3') and seen('1 openat(AT_FDCWD</w>, "../x", O_RDONLY) = 3')
    assert seen('1 openat2(4</w/ckpt>, "../../x", {flags=O_RDONLY, resolve=RESOLVE_BENEATH}, 24) = 3') and seen("1 vfork() = 2")
    assert seen('1 openat(AT_FDCWD</w>, "ckpt/link", O_RDONLY) = 3</etc/passwd>')
    assert not seen('1 openat(AT_FDCWD</w>, "ckpt/.metadata", O_RDONLY|O_CLOEXEC) = 3</w/ckpt/.metadata>')
    assert not seen('1 openat2(4</w/ckpt>, "a", {flags=O_RDONLY, resolve=RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS}, 24) = 3')


def main():
    self_test()
    try:
        able = subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        able = False
    if not able:
        print("strace is missing, or may not trace here")
        sys.exit(77)
    dcpctl = os.path.abspath(sys.argv[1])
    cases = calls = faults = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, function in bad.chosen(sys.argv[2:]):
            if function.case["limits"] or function.case["user"] != "any" or name.startswith("command_lines"):
                continue  # about the machine and the command line, not about what a file holds
            seen, found = trace(dcpctl, function, Path(scratch, "log"))
            cases, calls = cases + 1, calls + seen
            if found or not seen:
                faults += 1
                print(f"{name}: {'; '.join(found) or 'nothing was traced'}", flush=True)
    print(f"{cases} checkpoints, {calls} system calls looked at, {faults} checkpoints with one that should not be")
    sys.exit(1 if faults or not cases else 0)


if __name__ == "__main__":
    main()
