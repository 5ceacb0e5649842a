"""Memory stays as it is over ten thousand calls, and over compilations: no result, plan or trace is kept."""
import collections
import gc
import logging
import os
import sys

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import windrow as wr

CALLS = 10_000


@pytest.fixture(autouse=True)
def without_logs(monkeypatch):
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "disabled", True)  # pytest would keep every line


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def objects():
    """How many there are of each type that is not Python's own: what is kept shows here before it shows in the memory."""
    gc.collect()
    return collections.Counter(type(o).__name__ for o in gc.get_objects() if type(o).__module__ not in ("builtins", "weakref"))


def update_of(net, keep_gradients=False):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def update(x, y):
        loss = F.cross_entropy(net(x), y)
        if not keep_gradients:
            optimizer.zero_grad()
        loss.backward()
        if not keep_gradients:
            optimizer.step()
        return loss, {"logits": net(x)}

    return update


def mlp(*more):
    return nn.Sequential(nn.Linear(4, 8, bias=not more), *more, nn.ReLU(), nn.Linear(8, 3))


X, Y = torch.randn(6, 4), torch.zeros(6, dtype=torch.int64)


def repeated():
    """Like the one before: made by C++ alone."""
    step = wr.torch.compile(update_of(mlp()), threads=1)
    return lambda i: step(X, Y)


def two_shapes():
    step = wr.torch.compile(update_of(mlp()), threads=1)
    return lambda i: step(X[:4 + i % 2], Y[:4 + i % 2])


def shadows():
    """A buffer is copied round each call."""
    step = wr.torch.compile(update_of(mlp(nn.BatchNorm1d(8))), threads=1)
    return lambda i: step(X, Y)


def gradients_stay():
    step = wr.torch.compile(update_of(mlp(), keep_gradients=True), threads=1)
    return lambda i: step(X, Y)


def containers():
    step = wr.torch.compile(lambda batch, scale: {"out": batch["x"] * scale, "rest": [batch["y"]]}, threads=1)
    return lambda i: step({"x": X, "y": Y}, scale=2.0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("make", [repeated, two_shapes, shadows, gradients_stay, containers])
def test_calls_keep_nothing(make):
    call = make()
    for i in range(500):
        call(i)
    start = resident()
    for i in range(CALLS):
        call(i)
    assert resident() - start < 1 << 20


def compiled_and_called():
    net = mlp(nn.BatchNorm1d(8))
    step = wr.torch.compile(update_of(net), threads=1)
    for _ in range(4):
        step(X, Y)


def refused():
    net = mlp()
    with pytest.raises(wr.Error, match="item"):
        wr.torch.compile(lambda x: net(x) * net(x).sum().item())(X)


def replaced():
    """What stands behind a name is another net each time: plans of what was there go."""
    HELD["net"] = nn.Linear(4, 3)
    OF_HELD(X)
    assert OF_HELD.plans <= 2


HELD = {}
OF_HELD = wr.torch.compile(lambda x: HELD["net"](x), threads=1, check=False)


@pytest.mark.filterwarnings("ignore:.*is compiled for the 9th time")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("make, times", [(compiled_and_called, 16), (refused, 24), (replaced, 24)])
def test_compilations_keep_nothing(make, times):
    for _ in range(12):
        make()
    before, start = objects(), resident()
    for _ in range(times):
        make()
    after, end = objects(), resident()
    assert not {name: n for name, n in (after - before).items() if n >= times // 2}
    assert end - start < 1 << 20
