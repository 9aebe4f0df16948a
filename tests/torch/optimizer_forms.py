#!/usr/bin/env python3
"""reshard --optimizer: from either form of torch's get_optimizer_state_dict to the other, beside what torch itself saves in that form.

    optimizer_forms.py DCPCTL
"""
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict, set_model_state_dict, set_optimizer_state_dict  # noqa: E402, E501
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

from case import check, compare, finish, same  # noqa: E402

DCPCTL = sys.argv[1]
FORMS = {"flat": True, "nested": False}


class Net(nn.Module):
    """Its names have what could be taken for an optimizer's, and one parameter gets no gradient."""

    def __init__(self):
        super().__init__()
        self.state = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5))
        self.params = nn.Linear(5, 4)
        self.unused = nn.Parameter(torch.ones(3, 2), requires_grad=False)

    def forward(self, x):
        return self.params(self.state(x))


def groups(model):
    """Not in the model's order, and the frozen parameter among them."""
    wide = [p for p in model.parameters() if p.dim() > 1]
    return [{"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}, {"params": wide, "weight_decay": 0.1}]


def adamw(model):
    return torch.optim.AdamW(groups(model), lr=1e-3, amsgrad=True)


def tensor_lr(model):
    return torch.optim.AdamW(groups(model), lr=torch.tensor(0.01), foreach=False)


OPTIMIZERS = {"AdamW": adamw, "tensor lr": tensor_lr, "SGD": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9),
              "Adafactor": lambda m: torch.optim.Adafactor(m.parameters())}  # fmt: skip


class Trainer:
    def __init__(self, make, world=1):
        torch.manual_seed(1)
        self.model = Net()
        if world > 1:
            mesh = init_device_mesh("cpu", (world,))
            fully_shard(self.model.state, mesh=mesh)
            fully_shard(self.model, mesh=mesh)
        self.optimizer = make(self.model)

    def step(self, seed):
        torch.manual_seed(seed)
        self.model(torch.randn(8, 6)).square().sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state(self, form):
        options = StateDictOptions(flatten_optimizer_state_dict=FORMS[form])
        return {"model": get_model_state_dict(self.model), "optim": get_optimizer_state_dict(self.model, self.optimizer, options=options), "step": 3}

    def load(self, folder, form):
        state = self.state(form)
        dcp.load(state, checkpoint_id=folder)
        set_model_state_dict(self.model, state["model"])
        set_optimizer_state_dict(self.model, self.optimizer, state["optim"], options=StateDictOptions(flatten_optimizer_state_dict=FORMS[form]))

    def tensors(self):
        return [p.full_tensor() if hasattr(p, "full_tensor") else p for p in self.model.state_dict().values()]


def on_ranks(world, function, *arguments):
    with tempfile.TemporaryDirectory() as meeting:
        torch.multiprocessing.start_processes(rank, args=(world, meeting, function, *arguments), nprocs=world, start_method="fork")


def rank(number, world, meeting, function, *arguments):
    dist.init_process_group("gloo", init_method=f"file://{meeting}/store", rank=number, world_size=world)
    function(number, world, *arguments)
    dist.destroy_process_group()


def save(_, world, name, folder):
    trainer = Trainer(OPTIMIZERS[name], world)
    trainer.step(2)
    for form in FORMS:
        dcp.save(trainer.state(form), checkpoint_id=folder / form)


def train_on(number, world, name, folder):
    """A trainer of each form goes on from what was made for it as from what torch saved."""
    for form in FORMS:
        after = []
        for source in (folder / form, folder / f"made-{form}"):
            trainer = Trainer(OPTIMIZERS[name], world)
            trainer.load(source, form)
            for seed in (3, 4):
                trainer.step(seed)
            after.append(trainer.tensors())
        if not all(torch.equal(a, b) for a, b in zip(*after)):
            raise SystemExit(f"{name} on {world} ranks, {form}: the next steps differ")


def dcpctl(*arguments, code=0):
    result = subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != code:
        sys.exit(f"{arguments}: exit {result.returncode}, expected {code}\n{result.stdout}{result.stderr}")
    return result.stderr


def same_checkpoint(got, wanted, what):
    metadata = [dcp.FileSystemReader(f).read_metadata() for f in (got, wanted)]
    for read in (lambda m: m.planner_data, lambda m: {k: type(v) for k, v in m.state_dict_metadata.items()}):
        same(read(metadata[0]), read(metadata[1]), f"{what}: keys")
    keys = set(metadata[1].state_dict_metadata)
    loaded = [_load_state_dict_from_keys(keys, checkpoint_id=f) for f in (got, wanted)]
    compare(*loaded, what)


def try_forms(scratch):
    for name in OPTIMIZERS:
        for world in (1,) if name == "Adafactor" else (1, 2, 3):  # whose step torch does not shard
            folder = scratch / f"{name}-{world}"
            on_ranks(world, save, name, folder)
            for form, other in (("flat", "nested"), ("nested", "flat")):
                what = f"{name} on {world} ranks, {other} to {form}"
                dcpctl("reshard", folder / other, folder / f"made-{form}", "--optimizer", form)
                same_checkpoint(folder / f"made-{form}", folder / form, what)
                dcpctl("reshard", folder / f"made-{form}", folder / f"back-{other}", "--optimizer", other, "--world-size", 2)
                same_checkpoint(folder / f"back-{other}", folder / other, f"{what} and back")
                dcpctl("diff", folder / other, folder / f"back-{other}")
                dcpctl("verify", folder / f"made-{form}")
            on_ranks(world, train_on, name, folder)


def named(model):
    return torch.optim.AdamW([{"params": list(getattr(model, part).named_parameters(prefix=part))} for part in ("state", "params")])


NUMBERED = {"param_names": named, "the model's order": lambda m: torch.optim.AdamW(m.parameters())}


def save_numbers(_, world, name, folder):
    trainer = Trainer(NUMBERED[name], world)
    trainer.step(2)
    dcp.save({"model": get_model_state_dict(trainer.model), "optim": trainer.optimizer.state_dict(), "step": 3}, checkpoint_id=folder / "own")
    for form in FORMS:
        dcp.save(trainer.state(form), checkpoint_id=folder / form)


def try_numbers(scratch):
    """An optimizer's own state_dict(), whose parameters have numbers."""
    for name, make in NUMBERED.items():
        for world in (2, 3):
            folder = scratch / f"{name} on {world}"
            on_ranks(world, save_numbers, name, folder)
            for form in FORMS:
                dcpctl("reshard", folder / "own", folder / f"made-{form}", "--optimizer", form)
                same_checkpoint(folder / f"made-{form}", folder / form, f"{name} on {world} ranks, to {form}")
        trainer = Trainer(make)
        trainer.step(2)
        model, own = trainer.model.state_dict(), trainer.optimizer.state_dict()
        for i, (kind, write) in enumerate({"a folder": lambda s, p: dcp.save(s, checkpoint_id=p, no_dist=True), "a file": torch.save}.items()):
            source = scratch / f"{name}-{i}{'.pt' if i else ''}"
            write({"model": model, "optim": own, "step": 3}, source)
            for form in FORMS:
                wanted, made = scratch / f"{name}-{i}-{form}", scratch / f"{name}-{i}-made-{form}"
                dcp.save(trainer.state(form), checkpoint_id=wanted, no_dist=True)
                dcpctl("reshard", source, made, "--optimizer", form, "--world-size", 1)
                same_checkpoint(made, wanted, f"{name} in {kind}, to {form}")
                for world in (2, 3):
                    dcpctl("reshard", source, scratch / "of-ranks", "--optimizer", form, "--world-size", world, "--force")
                    dcpctl("diff", scratch / "of-ranks", wanted)


def try_refusals(scratch):
    trainer = Trainer(adamw)
    trainer.step(2)
    model, own = trainer.model.state_dict(), trainer.optimizer.state_dict()
    one = Trainer(lambda m: torch.optim.AdamW(m.parameters()))
    one.step(2)
    short = dict(list(model.items())[1:])
    turned = dict(reversed(model.items()))
    numbers = one.optimizer.state_dict()
    tries = {"numbered parameters in several groups": ({"model": model, "optim": own}, 3), "6 tensors of the model": ({"model": short, "optim": numbers}, 3),
             "state in another shape": ({"model": turned, "optim": numbers}, 3), "no param_groups": ({"model": model}, 3),
             "numbered parameters and 0 models": ({"optim": numbers}, 3)}  # fmt: skip
    for i, (text, (state, code)) in enumerate(tries.items()):
        dcp.save(state, checkpoint_id=scratch / str(i), no_dist=True)
        said = dcpctl("reshard", scratch / str(i), scratch / "none", "--optimizer", "flat", code=code)
        check(text in said, f"{text}: {said}")
        check(not (scratch / "none").exists(), f"{text}: an output")
    # A value of a parameter that the others of its group do not have.
    for lr, n in ((torch.tensor(0.01), 2), (0.01, 1)):
        flat = {"w": torch.ones(2), "v": torch.ones(2)}
        optim = {f"state.{k}.exp_avg": t for k, t in flat.items()} | {"param_groups.w.lr": lr, "param_groups.v.lr": lr * n, "param_groups.w.eps": 1e-8, "param_groups.v.eps": 1e-8}
        dcp.save({"model": flat, "optim": optim}, checkpoint_id=scratch / f"lr{n}", no_dist=True)
    said = dcpctl("reshard", scratch / "lr2", scratch / "none", "--optimizer", "nested", code=3)
    check("a value different from that of" in said, said)
    said = dcpctl("reshard", scratch / "lr1", scratch / "one", "--optimizer", "nested")
    check("warning: optimizer: 2 parameters in 1 group: the flat form does not name groups, so neighbouring ones with equal values became one" in said, said)
    said = dcpctl("reshard", scratch / "one", scratch / "again", "--optimizer", "flat")
    check("2 parameters in 1 group\n" in said, said)


torch.set_num_threads(1)  # ranks are forked: no thread may be there before
for test in (try_forms, try_numbers, try_refusals):
    with tempfile.TemporaryDirectory() as name:
        test(Path(name))
finish()
