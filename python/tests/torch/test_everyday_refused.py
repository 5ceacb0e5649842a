"""What programs do round an update that a plan cannot: refused by name and with what to do instead, or warned of."""
import random

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import windrow as wr
from models import mlp
from test_everyday import batches, update_of, values

net = mlp(4, 8, 3)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu")
total = torch.zeros(())
totals, shadow = [torch.zeros(())], {"w": torch.zeros(())}


def plain(x, y):
    return update_of(net, optimizer)(x, y)


def with_rate(change):
    def update(x, y, rate=0.01):
        for group in optimizer.param_groups:
            change(group, rate)
        return plain(x, y)

    return update


def scaled(x, y):
    scaler.scale(F.cross_entropy(net(x), y)).backward()
    scaler.step(optimizer)


def under_autocast(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net(x)


def summed(x, y):
    global total
    total = total + plain(x, y).detach()


def summed_in_a_list(x, y):
    totals[0] = totals[0] + plain(x, y).detach()


def averaged_anew(x, y):
    shadow["w"] = 0.9 * shadow["w"] + 0.1 * net(x).sum()


def sometimes_turned(x, y):
    return plain(x.flip(1) if random.random() < 0.5 else x, y)


def mixed_up(x, y):
    share = np.random.beta(1, 1)
    return plain(share * x + (1 - share) * x.flip(0), y)


def seeded(x, y):
    torch.manual_seed(0)
    return F.dropout(net(x))


class Total:
    def __init__(self):
        self.total = 0.0

    def add(self, x, y):
        self.total = self.total + plain(x, y).detach()


REFUSED = {
    "a rate that is set inside": (with_rate(lambda group, rate: group.update(lr=rate)), r"SGD.lr changes in the function, from 0.1 to 0.01.*before the call"),
    "a rate that decays inside": (with_rate(lambda group, rate: group.update(lr=group["lr"] * 0.9)), "SGD.lr changes in the function"),
    "a rate that is a tensor inside": (lambda x, y: with_rate(lambda group, rate: group.update(lr=x.mean()))(x, y), "SGD.lr changes in the function.*a tensor"),
    "a scaler": (scaled, r"test_everyday_refused.py:\d+: GradScaler looks at values.*enabled=False"),
    "autocast": (under_autocast, r"test_everyday_refused.py:\d+: autocast is not supported"),
    "a sum in a variable": (summed, "the tensor in the variable total is read and replaced"),
    "a sum in a list": (summed_in_a_list, "the tensor in the item 0 of a list is read and replaced"),
    "an average in a dict": (averaged_anew, "the tensor in the item 'w' of a dict is read and replaced"),
    "a sum that was a number": (Total().add, "the tensor in the attribute total is read and replaced"),
    "random numbers of Python's": (sometimes_turned, "draws a number from random.*torch.rand"),
    "random numbers of numpy's": (mixed_up, "draws a number from numpy.random"),
    "a seed": (seeded, r"test_everyday_refused.py:\d+: torch.manual_seed\(\) would seed the trace alone"),
    "a module of torch.jit": (torch.jit.script(mlp(4, 3)), "without torch.jit.script"),
    "a model in half precision": (mlp(4, 3).bfloat16().eval(), "no element type for torch.bfloat16"),
    "a lazy module": (nn.Sequential(nn.LazyLinear(3)), "call the module once before"),
}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused(what, check):
    fn, message = REFUSED[what]
    x, y = batches()[0]
    args = [x, y][:1 if isinstance(fn, nn.Module) else 2]
    before = [*values(net), total.clone(), totals[0].clone(), shadow["w"].clone()]
    state, rate = random.getstate(), optimizer.param_groups[0]["lr"]
    with pytest.raises(wr.Error, match=message):
        wr.torch.compile(fn, check=check)(*[a.bfloat16() if "half" in what else a for a in args])
    assert all(torch.equal(a, b) for a, b in zip(before, [*values(net), total, totals[0], shadow["w"]]))
    assert random.getstate() == state and optimizer.param_groups[0]["lr"] == rate


def test_a_call_under_autocast_is_refused_whenever_it_comes():
    step = wr.torch.compile(plain)
    for x, y in batches(5):
        step(x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(wr.Error, match="called under autocast"):
        step(*batches()[0])
    step(*batches()[0])


def test_a_lazy_module_elsewhere_does_no_harm():
    lazy = nn.LazyLinear(3)
    assert wr.torch.compile(lambda x: x + 1)(torch.zeros(2)).tolist() == [1, 1] and lazy.has_uninitialized_params()


def test_tensors_that_are_left_behind_are_warned_of_and_not_old():
    seen, losses, module = {}, [], mlp(4, 8, 3)
    module[1].register_forward_hook(lambda module, args, output: seen.__setitem__("hidden", output.detach()))

    def look(x):
        y = module(x)
        losses.append(y.mean())
        return y

    look = wr.torch.compile(look)
    with pytest.warns(UserWarning, match="leaves a tensor in the (item 'hidden' of a dict|list), which a compiled one does not. Return it"):
        look(torch.randn(3, 4))
    for _ in range(3):
        look(torch.randn(3, 4))
    assert not seen and not losses
