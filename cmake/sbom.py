#!/usr/bin/env python3
"""What is linked into the program of a package, as CycloneDX 1.5.

    sbom.py VERSION COMMIT TARGET THIRD-PARTY ZIG-VERSION >dcpctl.cdx.json

THIRD-PARTY/versions has a line for each library: name, version, licence, Debian's name of its source package. Equal input gives equal bytes.
"""
import json
import sys
import uuid


def component(name, version, licence, purl, kind="library"):
    found = {"type": kind, "bom-ref": purl, "name": name, "version": version, "licenses": [{"expression": licence}], "purl": purl}
    return found


def main(version, commit, target, third_party, zig):
    program = component("dcpctl", version, "BSD-3-Clause", f"pkg:pypi/dcpctl@{version}", "application")
    program["properties"] = [{"name": "dcpctl:commit", "value": commit}, {"name": "dcpctl:target", "value": target}]
    parts = []
    with open(f"{third_party}/versions", encoding="utf-8") as lines:
        for line in lines:
            name, of, licence, source = line.split("\t")
            parts.append(component(name, of, licence, f"pkg:deb/debian/{source.strip()}@{of}?arch=source"))
    runtime = [("libc++, libc++abi, libunwind, compiler-rt", "Apache-2.0 WITH LLVM-exception")]
    if "musl" in target:
        runtime.append(("musl", "MIT"))
    for name, licence in runtime:
        parts.append(component(name, f"of ziglang {zig}", licence, f"pkg:pypi/ziglang@{zig}#{name.split(',')[0]}"))
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
