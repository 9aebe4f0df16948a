#!/usr/bin/env python3
"""Reading from a server on loopback, beside `curl --parallel` of the same bytes; requests of looks; latency through a proxy.

    stores.py DCPCTL [BYTES]

Runs with the Python of .venv-net. Ratios of one run: server and programs share the machine.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / p) for p in ("net", "stores")]
from net import aws, environment  # noqa: E402
from proxy import Faults, Proxy  # noqa: E402
from servers import rclone_http, rclone_s3  # noqa: E402

RANGE, CONNECTIONS = 8 << 20, 16


def seconds(words, **variables):
    begin = time.monotonic()
    subprocess.run([str(w) for w in words], check=True, env=environment("/nowhere", **variables), stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def curl(url, folder, scratch):
    """The ranges of all files, written to nowhere."""
    config = scratch / "curl.config"
    lines = []
    for path in sorted(folder.glob("*.distcp")):
        for at in range(0, path.stat().st_size, RANGE):
            lines += ["next"] * bool(lines) + [f'url = "{url}/{path.name}"', f"range = {at}-{min(at + RANGE, path.stat().st_size) - 1}", "output = /dev/null", "silent", "fail"]
    config.write_text("\n".join(lines) + "\n")
    return seconds(["curl", "--parallel", "--parallel-max", CONNECTIONS, "-K", config])


def main():
    dcpctl, size = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "1GiB"
    scratch = Path(tempfile.mkdtemp(prefix="dcpctl-bench-"))
    root = scratch / "root" / "bucket"
    root.mkdir(parents=True)
    for ranks in (4, 64):
        subprocess.run([dcpctl, "bench", "io", root / f"r{ranks}", "--generate-only", "--bytes", size, "--tensors", "64", "--world-size", str(ranks), "--layout", "shard0"], check=True, stdout=subprocess.DEVNULL)
    web, s3 = rclone_http(scratch / "root"), rclone_s3(scratch / "root")
    proxy = Proxy(web.port)
    try:
        out = scratch / "out.pt"
        for round in range(2):
            read = curl(f"{web.url}/bucket/r4", root / "r4", scratch)
            print(f"curl {read:.2f} s", end="")
            for name, at, variables in [("http", f"{web.url}/bucket/r4", {}), ("s3", "s3://bucket/r4", aws(s3))]:
                for words in [["verify", at, "-q"], ["consolidate", at, out, "--no-sync", "-q", "--force"]]:
                    took = seconds([dcpctl, *words], **variables)
                    print(f"; {words[0]} {name} {took:.2f} s ({read / took:.2f} of curl)", end="", flush=True)
            local = seconds([dcpctl, "consolidate", root / "r4", out, "--no-sync", "-q", "--force"])
            print(f"; local consolidate {local:.2f} s")
        proxy.faults = Faults(latency=0.05, rate=20_000_000)
        for ranks in (4, 64):
            url = f"{proxy.url}/bucket/r{ranks}"
            bare = curl(url, root / f"r{ranks}", scratch)
            for words in [["inspect", url], ["consolidate", url, out, "--no-sync", "-q", "--force"], ["verify", url, "-q"]]:
                proxy.requests.clear()
                took = seconds([dcpctl, *words])
                print(f"50 ms, {ranks} ranks: {words[0]} {took:.2f} s, {len(proxy.requests)} requests; curl of the data {bare:.2f} s")
    finally:
        for server in (web, s3, proxy):
            server.end()
        shutil.rmtree(scratch)


main()
