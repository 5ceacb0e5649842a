"""Memory stays as it is: over ten thousand calls, a thousand compilations, and errors."""
import gc
import os
import sys

import numpy as np
import pytest
import windrow as wr

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(what, times, before):
    """Bytes that `times` more rounds take, after `before` rounds that may warm something up."""
    for _ in range(before):
        what()
    start = resident()
    for _ in range(times):
        what()
    return resident() - start


def make():
    net, adam = wr.nn.Sequential(wr.nn.Dense(8, 16), wr.nn.Relu(), wr.nn.Dense(16, 3)), wr.optim.Adam()

    @wr.compile(threads=1)
    def train(x, y):
        loss = wr.loss.cross_entropy(net(x), y)
        adam.minimize(loss, net.parameters())
        return {"loss": loss, "logits": [net(x)]}

    return train


X, Y = np.ones((4, 8), np.float32), np.zeros(4, np.int64)


def test_ten_thousand_calls():
    step, out = make(), wr.compile(lambda x: x * 2, threads=1)
    target = np.empty((4, 8), np.float32)

    def call():
        step(X, Y)
        out(X, out=target)
        out(X.T)  # copied, as it is not dense
        out(1.5)

    assert growth(call, 10_000, 500) < 1 << 20


def test_a_thousand_compilations():
    assert growth(lambda: make()(X, Y), 1_000, 200) < 4 << 20


def test_errors_hold_nothing():
    step = make()

    def fail():
        with pytest.raises(wr.Error):
            step(np.ones((4, 9), np.float32), Y)
        with pytest.raises(wr.Error):
            wr.array(X) @ wr.array(X)

    assert growth(fail, 500, 100) < 2 << 20
