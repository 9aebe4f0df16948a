"""Training of tiny models in double, and what tells a run that goes on from one that lost or confused a part of its optimizer's state."""
import contextlib
import copy
import sys
import unittest.mock

import torch
import torch.distributed.checkpoint as dcp
from torchtitan.components.optimizer.utils import get_flat_optim_state_dict, init_optim_state, load_flat_optim_state_dict

from case import check


def grouped_mm(rows, matrices, offs, bias=None, out_dtype=None):
    """What torch's own does, which is not made for double."""
    starts = [0, *offs.tolist()]
    return torch.cat([rows[a:b] @ m for a, b, m in zip(starts, starts[1:], matrices)])


@contextlib.contextmanager
def in_double():
    """All is double, also what these models always compute in float32 or bfloat16: AdamW divides by what may be next to nothing, and experts are
    chosen, so that training makes of float32's noise what looks like the effect of a lost state."""
    double = torch.Tensor.double
    with unittest.mock.patch.multiple(torch, float32=torch.float64, float=torch.float64, bfloat16=torch.float64, _grouped_mm=grouped_mm):
        with unittest.mock.patch.multiple(torch.Tensor, float=double, bfloat16=double):
            yield


class Run:
    """A model and AdamW over it; two groups, as trainers have them that do not decay norms."""

    named = False

    def __init__(self, model):
        self.model = model.train()
        parameters = list(model.named_parameters())
        decayed, others = [[(n, p) if self.named else p for n, p in parameters if (p.dim() > 1) == large] for large in (True, False)]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))

    def logits(self, tokens):
        out = self.model(tokens)
        return getattr(out, "logits", out)

    @in_double()
    def train(self, steps, seed):
        losses = []
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            tokens = torch.randint(0, 80, (4, 13), generator=generator)
            logits = self.logits(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(loss.item())
        return losses


class Titan(Run):
    named = True

    def state(self):
        init_optim_state(self.optimizer)
        return {**self.model.state_dict(), "optimizer": get_flat_optim_state_dict(self.optimizer), "train_state": {"step": torch.tensor(3)}}

    def load(self, folder, steps=None):
        """`steps`: of all parameters, where the checkpoint has none of each, nor other values of an optimizer."""
        state = self.state()
        state = {k: v for k, v in state.items() if k != "train_state" and not k.endswith("expert_bias_E")}  # which balances the load: it is not published
        dcp.load(state, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner(allow_partial_load=steps is not None), no_dist=True)
        optimizer = state.pop("optimizer")
        self.model.load_state_dict(state, strict=False)
        load_flat_optim_state_dict(self.optimizer, optimizer)
        for kept in self.optimizer.state.values():
            kept["step"].fill_(steps or kept["step"])


def swapped(slot):
    """Two parameters of one shape have each other's state."""

    def swap(run):
        by_shape = {}
        for parameter in run.model.parameters():
            first = by_shape.setdefault(parameter.shape, parameter)
            if first is not parameter and parameter.dim() > 1:
                one, other = run.optimizer.state[first], run.optimizer.state[parameter]
                one[slot], other[slot] = other[slot], one[slot]
                return
        sys.exit("no two parameters of one shape")

    return swap


def forgotten(run):
    run.optimizer.state.clear()


CONTROLS = {"a fresh optimizer": forgotten, **{f"{slot} of two parameters swapped": swapped(slot) for slot in ("exp_avg", "exp_avg_sq")}}


def trains_on(what, run, expected, seed):
    """From here, `run` has the losses that the other had, and has not where its optimizer's state is damaged; it is left as it trained on."""
    parameters, optimizer = copy.deepcopy([p.detach() for p in run.model.parameters()]), copy.deepcopy(run.optimizer.state_dict())

    def apart(damage):
        for parameter, saved in zip(run.model.parameters(), parameters, strict=True):
            parameter.data.copy_(saved)
        run.optimizer.load_state_dict(copy.deepcopy(optimizer))
        damage(run)
        return max(abs(a - b) for a, b in zip(run.train(4, seed), expected, strict=True))

    damaged = {control: apart(damage) for control, damage in CONTROLS.items()}
    noise = apart(lambda _: None)
    for control, distance in damaged.items():
        print(f"{what}: {noise:.1e} apart, with {control} {distance:.1e}")
        check(noise * 1000 < distance, f"{what}: {noise} apart, with {control} {distance}")
