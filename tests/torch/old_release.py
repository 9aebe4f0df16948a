#!/usr/bin/env python3
"""old_release.py DCPCTL: in a Python with an older torch: loads what --for-torch of that release writes of every checkpoint of tests/data.

Says of each what the release cannot hold: then dcpctl must have named it. Not part of ./dev test: `./dev test --old-torch` sets up the
Pythons.
"""
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402

DATA = Path(__file__).resolve().parent.parent / "data"
sys.path.insert(0, str(DATA))
import describe  # noqa: E402


def load(folder, objects=True):
    reader = dcp.FileSystemReader(str(folder))
    metadata = reader.read_metadata()
    state = {k: torch.empty(m.size, dtype=m.properties.dtype) if hasattr(m, "size") else None for k, m in metadata.state_dict_metadata.items() if objects or hasattr(m, "size")}
    planner = dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    dcp.state_dict_loader._load_state_dict(state, dcp.FileSystemReader(str(folder)), None, no_dist=True, planner=planner) if hasattr(
        dcp.state_dict_loader, "_load_state_dict"
    ) else dcp.load_state_dict(state, dcp.FileSystemReader(str(folder)), no_dist=True, planner=planner)
    return state


def main():
    dcpctl, release = os.path.abspath(sys.argv[1]), ".".join(torch.__version__.split(".")[:2])
    failures = 0
    for case in sorted(p.parent for p in DATA.glob("*/expected.json")):
        expected = json.loads((case / "expected.json").read_text())
        if any("quant" in json.dumps(t) or t["dtype"].startswith("q") for t in expected["tensors"].values()):
            print(f"{case.name}: quantized tensors, which dcp.load of no torch loads")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            out, left_out = Path(scratch) / "out", []
            while True:  # leave out, one by one, what dcpctl says that the release lacks
                exclude = [a for key in left_out for a in ("--exclude", key)]
                done = subprocess.run([dcpctl, "reshard", case / "ckpt", out, "--world-size", "2", "--for-torch", release, "--json", *exclude], capture_output=True, text=True)
                if done.returncode == 0:
                    break
                error = json.loads(done.stderr.splitlines()[-1])["error"]
                if error["id"] != "dtype_needs_torch" or error["tensor"] in left_out:
                    failures += 1
                    print(f"FAILED: {case.name}: {error}")
                    break
                left_out.append(error["tensor"])
            if done.returncode != 0:
                continue
            if left_out:
                print(f"{case.name}: torch {release} lacks {', '.join(expected['tensors'][k]['dtype'] for k in left_out)}")
            try:
                got = load(out)
            except dcp.api.CheckpointException:  # an object of a class that this release cannot import
                got = load(out, objects=False)
                print(f"{case.name}: tensors only")
            for key, wanted in expected["tensors"].items():
                if key in left_out:
                    continue
                same = describe.describe_tensor(got[key])
                if same != {f: v for f, v in wanted.items() if f != "boxes"}:
                    failures += 1
                    print(f"FAILED: {case.name}: {key}: {same}, expected {wanted}")
            print(f"{case.name}: {len(got)} keys")
    print(f"torch {torch.__version__}: {failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
