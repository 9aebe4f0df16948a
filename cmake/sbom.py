#!/usr/bin/env python3
"""What is linked into the program of a package, as CycloneDX 1.5.

    sbom.py VERSION COMMIT TARGET THIRD-PARTY ZIG >dcpctl.cdx.json

THIRD-PARTY/versions has a line for each library: name, version, licence, Debian's name of its source package. ZIG is the folder of ziglang, which has
the source of what its compiler links in. Equal input gives equal bytes.
"""
import json
import re
import subprocess
import sys
import uuid


def component(name, version, licence, purl, kind="library"):
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "licenses": [{"expression": licence}], "purl": purl}


def runtime(target, zig):
    """(name, version, licence, its folder in ziglang) of what the compiler links into every program."""
    ziglang = subprocess.run([f"{zig}/zig", "version"], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout.strip()
    with open(f"{zig}/lib/libcxx/include/__config", encoding="utf-8") as config:
        major, minor, patch = re.search(r"define _LIBCPP_VERSION (\d+)(\d\d)(\d\d)$", config.read(), re.MULTILINE).groups()
    llvm = f"{int(major)}.{int(minor)}.{int(patch)}"
    parts = [(name, llvm, "Apache-2.0 WITH LLVM-exception", at) for name, at in (("libc++", "libcxx"), ("libc++abi", "libcxxabi"), ("libunwind", "libunwind"))]
    parts.append(("compiler_rt", ziglang, "MIT", "compiler_rt"))
    if "musl" in target:
        parts.append(("musl", f"of ziglang {ziglang}", "MIT", "libc/musl"))
    else:  # what starts a program, and libc_nonshared.a; the rest is the system's
        parts.append(("glibc start files", f"of ziglang {ziglang}, for {target.partition('gnu.')[2]}", "LGPL-2.1-or-later WITH GCC-exception-2.0-note", "libc/glibc"))
    return [component(name, version, licence, f"pkg:pypi/ziglang@{ziglang}#lib/{at}") for name, version, licence, at in parts]


def main(version, commit, target, third_party, zig):
    program = component("dcpctl", version, "BSD-3-Clause", f"pkg:pypi/dcpctl@{version}", "application")
    program["properties"] = [{"name": "dcpctl:commit", "value": commit}, {"name": "dcpctl:target", "value": target}]
    parts = []
    with open(f"{third_party}/versions", encoding="utf-8") as lines:
        for line in lines:
            name, of, licence, source = line.split("\t")
            if "musl" in target and name in ("curl", "openssl"):  # of a module, which a static program cannot open
                continue
            parts.append(component(name, of, licence, f"pkg:deb/debian/{source.strip()}@{of}?arch=source"))
    parts += runtime(target, zig)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'dcpctl {version} {commit} {target}')}",
        "version": 1,
        "metadata": {"component": program},
        "components": parts,
        "dependencies": [{"ref": program["bom-ref"], "dependsOn": [p["bom-ref"] for p in parts]}],
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
