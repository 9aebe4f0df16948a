#!/usr/bin/env python3
"""Is the program hardened as a Release build must be?

    hardening.py DCPCTL     PIE, RELRO with immediate binding, no executable stack, stack protector, fortified calls, marked indirect branches (x86),
                            no library but the C library's own, no operator new for libraries
"""
import platform
import re
import subprocess
import sys


def read(tool, *options):
    return subprocess.run([tool, *options], check=True, capture_output=True, text=True).stdout


def main():
    program = sys.argv[1]
    header, segments, dynamic = read("readelf", "-hW", program), read("readelf", "-lW", program), read("readelf", "-dW", program)
    symbols = read("readelf", "--dyn-syms", "-W", program)
    checks = {
        "a position-independent program": "DYN" in header and "PIE" in dynamic,
        "relocations read-only": "GNU_RELRO" in segments,
        "all symbols bound at the start": "BIND_NOW" in dynamic,
        "a stack that cannot be executed": bool(re.search(r"GNU_STACK.*\bRW\b", segments)),
        "no segment both writable and executable": not re.search(r"LOAD.*\bRWE\b", segments),
        "the stack protector": "__stack_chk_fail" in symbols,
        "fortified calls of the C library": bool(re.search(r"__\w+_chk@", symbols.replace("__stack_chk_fail", ""))),
        "no path to libraries of its own": "RUNPATH" not in dynamic and "RPATH" not in dynamic,
        "an operator new for itself: what a module allocates does not count under --max-memory": "_Znwm" not in symbols,
    }
    if platform.machine() == "x86_64" and "--no-cet" not in sys.argv:
        code = read("objdump", "-d", "--no-show-raw-insn", program)
        checks["indirect branches land on marks"] = code.count("endbr64") > 1000
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    checks[f"nothing needed but the C library ({', '.join(sorted(needed))})"] = all(re.fullmatch(r"lib[cm]\.so\.6|ld-linux.*\.so\.\d", n) for n in needed)
    for what, holds in checks.items():
        print(f"{'ok     ' if holds else 'MISSING'} {what}")
    sys.exit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()
