"""data.py FOLDER: what a person has at 3 a.m., small: runs with broken steps, an odd checkpoint for each question. Takes dcpctl from $PATH, and no torch."""
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
sys.path.insert(0, str(DATA / "own_model"))
import tensors  # noqa: E402

os.makedirs(sys.argv[1])
os.chdir(sys.argv[1])


def dcpctl(*words):
    subprocess.run(["dcpctl", *words, "-q"], check=True, stdout=subprocess.DEVNULL)


def flip(path, at):
    data = bytearray(Path(path).read_bytes())
    data[at] ^= 255
    Path(path).write_bytes(data)


def converted(out, values, *options):
    tensors.write("values.safetensors", values)
    dcpctl("convert", "values.safetensors", out, "--world-size", "4", *options)
    os.remove("values.safetensors")


# A tiny Llama of 8 layers: published, and as torchtitan saves it on 4 ranks, the model at the top beside its optimizer.
subprocess.run([sys.executable, "-B", DATA / "own_model" / "llama.py", "llama-base", "run.safetensors"], check=True, env={**os.environ, "LAYERS": "8"})
Path("llama-base/tokenizer.json").write_text("{}")
to_titan = ("--map", "llama.torchtitan", "--config", "llama-base/config.json", "--model-root", ".", "--world-size", "4")
dcpctl("convert", "run.safetensors", "step-29000", *to_titan)
dcpctl("convert", "llama-base/model.safetensors", "step-0", *to_titan)
dcpctl("cast", "step-29000", "bf16", "--dtype", "bf16")
dcpctl("cast", "bf16", "step-28000", "--dtype", "float32")
os.remove("run.safetensors")
shutil.rmtree("bf16")
shutil.copytree("step-29000", "step-20000")
for folder in ("export", "run", "orphan", "wrapped", "fat", "bias"):
    os.mkdir(folder)
dcpctl("consolidate", "llama-base", "published-model", "--max-shard-size", "20k")

for step in (5000, 10000, 15000, 20000, 25000, 28000, 28500, 29000, 29500, 30000, 30500):
    shutil.copytree("step-29000", f"run/step-{step}")
flip("run/step-29500/__1_0.distcp", 160000)  # in what the optimizer keeps
for name in (".metadata", "__1_0.distcp", "__3_0.distcp"):  # the node died
    os.remove(f"run/step-30000/{name}")
os.truncate("run/step-30500/__1_0.distcp", 900)
os.remove("run/step-30500/__3_0.distcp")
for run, steps in (("run-a", (5000, 10000)), ("run-b", (5000, 15000)), ("run-c", (20000,))):
    for step in steps:
        shutil.copytree("step-29000", f"{run}/step-{step}")
shutil.copytree("run/step-30000", "lost")
shutil.copy("step-29000/__3_0.distcp", "orphan")
shutil.copytree("step-29000", "damaged/step-29000")
flip("damaged/step-29000/__1_0.distcp", 3000)  # in the model

# What a trainer keeps beside the model, as objects.
shutil.copytree(DATA / "titan_like" / "ckpt", "titan/step-29000")

# Wrapped by torch.compile, with an average of the weights that one rank holds whole.
wrapped = tensors.numbered({f"{at}_orig_mod.layers.{n}.w.weight": [16, 8] for at in ("", "ema.") for n in range(2)})
converted("wrapped/step-29000", wrapped)
dcpctl("reshard", "wrapped/step-29000", "fat/step-29000", "--mesh", "4", "--placements", "ema.*=replicate", "--placements", "*=shard(0)")
converted("bias/step-29000", tensors.numbered({"layers.0.attention.wq.bias": [64], "layers.0.attention.wq.weight": [64, 8]}))

# Steps of a run are hours apart.
for number, step in ((int(s.name.split("-")[1]), s) for s in Path().glob("run*/step-*")):
    then = time.time() - (31500 - number) / 500 * 3600 - 600
    for path in (*step.iterdir(), step):
        os.utime(path, (then, then))
