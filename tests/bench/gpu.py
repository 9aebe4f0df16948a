#!/usr/bin/env python3
"""dcpctl's staging on a GPU beside a bare cudaMemcpyAsync loop and beside torch's async_save. Called by gpu.sh, which builds what this runs.

Bare loop and dcpctl run in interleaved pairs, each a process of its own, and medians of their best runs are compared. torch saves the same
tensors (a model's, bfloat16) as dcpctl stages; what counts is how long its call keeps the caller.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS, REPEATS = 3, 15
MODEL = "llama-1b"
GIB = 1 << 30

rows, document = [], {"schema": "dcpctl.bench.gpu/1"}


def row(what, measured, aim="", ok=None, note=""):
    rows.append((what, measured, aim, {True: "yes", False: "NO", None: ""}[ok], note))
    print("  ".join(filter(None, rows[-1])), file=sys.stderr, flush=True)


def staging(build, *options):
    command = [build / "dcpctl", "bench", "staging", "--device", "cuda", "--json", *options]
    return json.loads(subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE).stdout)


def median(line):
    return line["blocking"]["median_ns"]


def beside_bare_loop(build):
    """pinned-reused beside the best rate of a bare cudaMemcpyAsync loop"""
    document["bare_loop"] = []
    for size in (GIB // 4, GIB):
        bare, ours = [], []
        for _ in range(PAIRS):
            said = subprocess.run([build / "bench_bare_memcpy", str(size), str(REPEATS)], check=True, stdout=subprocess.PIPE, text=True).stdout
            bare += [int(ns) for ns in said.split()]
            lines = staging(build, "--sizes", size, "--methods", "pinned-reused", "--streams", 1, "--chunks", "whole", "--repeats", REPEATS, "--no-numa")["lines"]
            ours.append(median(lines[0]))
        ratio = min(bare) / min(ours)  # the loop's best single copy, dcpctl's best median
        document["bare_loop"].append({"bytes": size, "bare_ns": bare, "pinned_reused_median_ns": ours, "ratio": ratio})
        row(f"pinned-reused, {size >> 20} MiB / bare cudaMemcpyAsync loop", f"{ratio:.1%}", ">= 95%", ratio >= 0.95, f"{size / min(ours):.1f} / {size / min(bare):.1f} GB/s")


def coalesced(build):
    """10,000 tensors of 16 KiB: gathered and copied as one, beside one copy each"""
    found = staging(build, "--sizes", "16KiB", "--count", 10000, "--methods", "pinned-reused,pinned-coalesced", "--streams", 1, "--chunks", "whole", "--repeats", REPEATS, "--no-numa")
    each, joined = (median(line) for line in found["lines"])
    document["coalesced"] = {"each_ns": each, "coalesced_ns": joined, "ratio": each / joined}
    row("10,000 x 16 KiB: one copy each / coalesced", f"{each / joined:.1f}", ">= 5", each / joined >= 5, f"{each / 1e6:.2f} / {joined / 1e6:.2f} ms")


def curve(build, out):
    """all methods over sizes, with a page of curves"""
    document["curve"] = staging(build, "--sizes", "1KiB..1GiB", "--repeats", 5, "--html", out / "staging.html", "--force")
    best = document["curve"]["best_rate"] / 1e9
    link = document["curve"].get("link", {})
    limit = link.get("limit", 0) / 1e9
    row("best rate of any copy", f"{best:.1f} GB/s", note=f"{link.get('name', 'link not known')}" + (f", {best / limit:.0%} of {limit:.1f} GB/s" if limit else ""))
    row("verdict", document["curve"]["verdict"])


def devices(build):
    """one large block from every GPU at once, with buffers on the GPU's NUMA node and wherever the kernel puts them"""
    document["devices"] = {}
    for name, options in (("on the GPU's NUMA node", []), ("wherever the kernel puts them", ["--no-numa"])):
        found = staging(build, "--devices", "all", "--sizes", "1GiB", "--methods", "pinned-reused", "--streams", 1, "--chunks", "whole", "--repeats", REPEATS, *options)
        document["devices"][name] = found
        best = (found["together"][0]["rate"] if "together" in found else found["best_rate"]) / 1e9
        row(f"all {len(found['devices'])} GPUs at once, 1 GiB each, buffers {name}", f"{best:.1f} GB/s", note=f"NUMA nodes {found['numa_nodes']}")


def link(build):
    """the link that dcpctl says it found under load, beside what nvidia-smi sees while it copies"""
    query = ["nvidia-smi", "--query-gpu=pcie.link.gen.current,pcie.link.width.current,pcie.link.gen.max", "--format=csv,noheader,nounits", "--id=0"]
    try:
        idle = subprocess.run(query, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as missing:
        row("link under load", "not measured", note=str(missing))
        return
    options = ["--sizes", "1GiB", "--methods", "pinned-reused", "--streams", 1, "--chunks", "whole", "--repeats", 60, "--json"]
    with tempfile.TemporaryFile("w+") as out:
        running = subprocess.Popen([str(c) for c in [build / "dcpctl", "bench", "staging", "--device", "cuda", *options]], stdout=out)
        seen = set()
        while running.poll() is None:
            seen.add(tuple(int(n) for n in subprocess.run(query, check=True, stdout=subprocess.PIPE, text=True).stdout.split(",")[:2] if n.strip().isdigit()))
        out.seek(0)
        said = json.load(out).get("link", {})
    document["link"] = {"idle": idle, "seen": sorted(seen), "said": said}
    fastest = max(seen, default=())
    row("link under load: dcpctl / nvidia-smi", f"{said.get('generation')} x{said.get('width')} / {' x'.join(map(str, fastest))}", "equal", (said.get("generation"), said.get("width")) == fastest, f"idle: {idle}")


def nccl(build, scratch):
    """two ranks on one GPU: both end with 5, and it is said which rank has the GPU"""
    if not list(build.glob("**/libdcpctl_c10d_nccl.so")):
        row("NCCL", "not measured", note="the build has no libdcpctl_c10d_nccl.so (-DDCPCTL_WITH_TORCH=ON)")
        return
    gpus = len(subprocess.run(["nvidia-smi", "--list-gpus"], stdout=subprocess.PIPE, text=True).stdout.splitlines())
    ranks, source = gpus + 1, Path(__file__).resolve().parents[1] / "data" / "fsdp2_ws4" / "ckpt"
    command = [str(c) for c in [build / "dcpctl", "consolidate", source, scratch / "nccl.pt", "--transport", "nccl", "--gather", "rank0", "--no-sync"]]
    begin, running = time.monotonic(), []
    for rank in range(ranks):
        variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29577}
        running.append(subprocess.Popen(command, env=os.environ | {k: str(v) for k, v in variables.items()}, stderr=subprocess.PIPE, text=True))
    said = [p.communicate(timeout=200)[1] for p in running]
    codes = [p.returncode for p in running]
    document["nccl"] = {"ranks": ranks, "codes": codes, "said": said, "seconds": time.monotonic() - begin}
    understood = 5 in codes and any("NCCL needs a GPU for each rank" in text for text in said) and not (scratch / "nccl.pt").exists()
    row(f"NCCL, {ranks} ranks on {gpus} GPU: exit codes", str(codes), "5, in words", understood, " ".join(said[0].split()))


def model(build):
    """the tensors of a model, by every method"""
    found = document["model"] = staging(build, "--model", MODEL, "--repeats", 5, "--chunks", "whole", "--no-numa")
    best = {}
    for line in found["lines"]:
        if "unavailable" not in line:
            best[line["method"]] = min(best.get(line["method"], line), line, key=median)
    for method, line in best.items():
        row(f"{MODEL}, dcpctl {method}", f"{median(line) / 1e6:.0f} ms", note=f"{line['streams']} streams, chunks of {line['chunk_bytes'] >> 20 or 'whole tensors'}")
    return {method: median(line) for method, line in best.items()}


def torch_staging(out, ours):
    """torch.distributed.checkpoint.async_save of the same tensors: how long the call blocks, without and with pinned buffers"""
    try:
        import torch
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
    except ImportError as missing:
        row("torch's async_save", "not measured", note=str(missing))
        return
    if not torch.cuda.is_available():
        row("torch's async_save", "not measured", note="this torch sees no GPU")
        return
    state = {f"t{i}": torch.randn(size // 2, device="cuda", dtype=torch.bfloat16) for i, size in enumerate(model_sizes())}
    document["torch"] = {"version": torch.__version__}
    for name, pinned, method in (("without pinned buffers", False, "pageable"), ("with pinned buffers, kept", True, "pinned-reused")):
        stager = DefaultStager(StagingOptions(use_pinned_memory=pinned, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=pinned))
        blocked = []
        for n in range(5):
            folder = out / f"torch-{n}"
            torch.cuda.synchronize()
            begin = time.perf_counter_ns()
            saving = dcp.async_save(state, checkpoint_id=folder, async_stager=stager, no_dist=True)
            blocked.append(time.perf_counter_ns() - begin)
            getattr(saving, "upload_completion", saving).result()
            shutil.rmtree(folder)
        stager.close()
        stall = statistics.median(blocked[1:])  # the first one allocates
        document["torch"][method] = {"blocked_ns": blocked, "median_ns": stall}
        note = f"dcpctl {method}: {ours[method] / 1e6:.0f} ms, {stall / ours[method]:.1f} times as fast" if method in ours else ""
        row(f"{MODEL}, torch {torch.__version__} async_save {name}", f"{stall / 1e6:.0f} ms", note=note)


def model_sizes():
    """Bytes of the tensors of llama-1b in bfloat16, as src/staging/workload.cc has them."""
    layers, hidden, key_value, intermediate, vocabulary = 16, 2048, 512, 8192, 128256
    layer = [hidden * hidden, key_value * hidden, key_value * hidden, hidden * hidden, *[intermediate * hidden] * 3, hidden, hidden]
    return [2 * n for n in [vocabulary * hidden, *layer * layers, hidden]]


def modes(build, out, folder):
    """the training loop in its three modes"""
    found = staging(build, "--model", "gpt2", "--optimizer", "--save", folder / "modes", "--steps", 12, "--save-every", 4, "--html", out / "modes.html", "--force")
    document["training"] = found["training"]
    for mode in found["training"]["modes"]:
        row(f"gpt2 with AdamW, mode {mode['mode']}: stall of a save", f"{mode['stall_ns'] / 1e6:.0f} ms", note=f"durable after {mode['durable_ns'] / 1e6:.0f} ms, steps {mode['overhead']:+.0%}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    build, out = arguments.build.resolve(), arguments.out.resolve()
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        beside_bare_loop(build)
        coalesced(build)
        ours = model(build)
        torch_staging(Path(scratch), ours)
        modes(build, out, Path(scratch))
        curve(build, out)
        devices(build)
        link(build)
        nccl(build, Path(scratch))
    (out / "gpu.json").write_text(json.dumps(document | {"rows": rows}, indent=1))
    table = ["| what | measured | aim | met | more |", "| --- | --- | --- | --- | --- |", *("| " + " | ".join(r) + " |" for r in rows)]
    (out / "gpu.md").write_text("\n".join(table) + "\n")
    print("\n".join(table))
    sys.exit(1 if any(r[3] == "NO" for r in rows) else 0)


if __name__ == "__main__":
    main()
