#!/usr/bin/env python3
"""The table of tests/README.md names tests that there are, and all of them.

    labels.py BUILD
"""
import json
import re
import subprocess
import sys
from pathlib import Path


def rows():
    """{label: names of tests, as they begin}"""
    table = re.findall(r"^\| .* \| ([a-z]+) \| (.*`.*) \|$", Path(__file__).with_name("README.md").read_text(encoding="utf-8"), re.MULTILINE)
    return {label: re.findall(r"`([^`]+)`", names) for label, names in table}


def main(build):
    listed = json.loads(subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, stdout=subprocess.PIPE).stdout)["tests"]
    tests = [test["name"] for test in listed if not test["name"].endswith("_NOT_BUILT") and "_NOT_BUILT-" not in test["name"]]
    kinds = {name.partition(":")[0] for name in tests}  # a build may lack one: the library under a sanitizer, ranks without LibTorch
    named = [name for names in rows().values() for name in names]
    wrong = [f"tests/README.md: no test is called {name}" for name in named if name.partition(":")[0] in kinds and not any(t.startswith(name) for t in tests)]
    wrong += [f"{test}: no row of tests/README.md names it" for test in tests if not test.startswith(tuple(named))]
    print("\n".join(wrong) or f"{len(tests)} tests, {len(rows())} features")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
