#!/usr/bin/env python3
"""Several models in a trainer's dict: --model-only refuses them, with the --root of each, and each of these works.

    several_models.py DCPCTL
"""
import tempfile
from pathlib import Path

import torch
from torch import nn

from case import check, finish, same
from trainers import Net, at, dcpctl, leaves, saved, trained


def run_several(scratch):
    one, two, three = Net(1), Net(2), nn.Linear(3, 3)
    adam, sgd = trained(one).state_dict(), trained(two, lambda p: torch.optim.SGD(p, 0.1)).state_dict()
    four = nn.ModuleDict({"critic": nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))}).state_dict()
    alone = nn.ParameterDict({"alpha": nn.Parameter(torch.ones(4))}).state_dict()
    cases = {
        "ema": ({"model": one.state_dict(), "ema": two.state_dict(), "teacher": three.state_dict(), "optimizer": adam, "epoch": 3}, ["ema", "model", "teacher"]),
        "gan": ({"generator": one.state_dict(), "discriminator": two.state_dict(), "optim_g": adam, "optim_d": sgd}, ["discriminator", "generator"]),
        "gan noise": ({"G": one.state_dict(), "D": two.state_dict(), "G_ema": one.state_dict(), "optG": adam, "fixed_noise": torch.randn(4, 4), "center": torch.rand(1, 8)}, ["D", "G", "G_ema"]),
        "no optimizer": ({"actor": one.state_dict(), "critic": two.state_dict(), "temperature": torch.tensor(0.5)}, ["actor", "critic"]),
        "called like it": ({"model": one.state_dict(), "opt_proj": three.state_dict(), "optimizer": adam}, ["model", "opt_proj"]),
        "gan short": ({"netG": one.state_dict(), "netD": two.state_dict(), "optimizerG": adam, "optimizerD": sgd, "step": 5}, ["netD", "netG"]),
        "gan alone": ({"generator": one.state_dict(), "discriminator": two.state_dict()}, ["discriminator", "generator"]),
        "app": ({"app": {"gen": one.state_dict(), "disc": two.state_dict(), "o": adam}}, ["app.disc", "app.gen"]),
        "two apps": ({"a": {"model": one.state_dict(), "optim": adam}, "b": {"model": two.state_dict(), "optim": sgd}}, ["a.model", "b.model"]),
        "timm": ({"state_dict": one.state_dict(), "state_dict_ema": two.state_dict(), "arch": "x", "args": None}, ["state_dict", "state_dict_ema"]),
        "copies": ({"model": alone, "ema": alone, "optimizer": adam}, ["ema", "model"]),
        "list": ({"nets": [one.state_dict(), two.state_dict()], "optimizers": [adam, sgd]}, ["nets.0", "nets.1"]),
        "no key in common": ({"net1": one.state_dict(), "net2": four, "opt": adam}, ["net1", "net2"]),
        "a list of them": ({"models": [one.state_dict(), four], "opt": adam}, ["models.0", "models.1"]),
        "model 0 and 1": ({"model_0": one.state_dict(), "model_1": four, "opt": adam}, ["model_0", "model_1"]),
        "copies by number": ({"net1": one.state_dict(), "net2": two.state_dict(), "args": None}, ["net1", "net2"]),
    }
    for name, (state, models) in cases.items():
        folder = scratch / name.replace(" ", "-")
        folder.mkdir()
        for source in saved(state, folder):
            what = f"{name}, {source.name}"
            out = folder / f"{source.stem}-model.pt"
            result = dcpctl("consolidate", source, out, "--model-only", "--no-sync", exit_code=2)
            check(", ".join(f"--root {m}" for m in models) in result.stderr, f"{what}: {result.stderr}")
            check(not out.exists(), f"{what}: something was written")
            for model in models:
                dcpctl("consolidate", source, out, "--model-only", "--root", model, "--no-sync")
                wanted = at(state, model.split("."))
                got = torch.load(out, weights_only=True)
                same(sorted(got), sorted(wanted), f"{what}: keys of {model}")
                out.unlink()
            dcpctl("consolidate", source, out, "--model-only", "--keep-root", "--no-sync", "--force")
            got = {path for path, _ in leaves(torch.load(out, weights_only=True))}
            same(got, {path for path, _ in leaves(state) if any(".".join(map(str, path)).startswith(m + ".") for m in models)}, f"{what}: --keep-root")
            dcpctl("consolidate", source, folder / "cast.pt", "--dtype", "bf16", "--no-sync", "--force")
            cast = torch.load(folder / "cast.pt", weights_only=False)
            for path, value in leaves(state):
                if value.is_floating_point():
                    same(at(cast, path).dtype, torch.bfloat16 if path in got else torch.float32, f"{what}: dtype of {path}")
    # What looks like several and is one.
    first, second = nn.ModuleDict({"0": nn.Linear(2, 2)}).state_dict(), nn.ModuleDict({"1": nn.Linear(2, 2)}).state_dict()
    for i, state in enumerate([{"model_parts": [first, second]}, {"model": [first, second], "optimizer": adam}, {"model0": first, "model1": second, "optimizer": sgd},
                               {"model": {"model": {"model.model.w": torch.ones(2, 2)}}, "optimizer": adam}, {"model": {"0": first, "1": second}, "optimizer": adam},
                               {"pp_rank_0": {"model": first}, "pp_rank_1": {"model": second}, "optimizer": adam}]):  # fmt: skip
        folder = scratch / f"one-{i}"
        folder.mkdir()
        for source in saved(state, folder):
            dcpctl("consolidate", source, folder / "model.pt", "--model-only", "--no-sync", "--force")
            got = torch.load(folder / "model.pt", weights_only=True)
            same(set(got), {path[-1] for path, _ in leaves({k: v for k, v in state.items() if k != "optimizer"})}, f"one model {i}, {source.name}")


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        run_several(Path(scratch))
    finish()


if __name__ == "__main__":
    main()
