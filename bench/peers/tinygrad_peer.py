"""tinygrad on the CPU, with TinyJit. usage: tinygrad_peer.py cpu THREADS"""
import os

os.environ.setdefault("DEV", "CPU")
import importlib.metadata

import numpy as np
from tinygrad import Device, Tensor, TinyJit, nn
from tinygrad.helpers import TRAINING

from serve import Unknown, serve

TRAINING.value = 1
random = np.random.default_rng(0)
device = Device[Device.DEFAULT]


def tensor(a):
    return Tensor(np.ascontiguousarray(a)).contiguous().realize()


def normal(*shape):
    return tensor(random.standard_normal(shape, dtype=np.float32))


def integers(below, *shape):
    return tensor(random.integers(0, below, shape).astype(np.int32))


def done(f):
    def go():
        f()
        device.synchronize()

    return go


def trainer(modules, loss, *data):
    adam = nn.optim.Adam(nn.state.get_parameters(modules), lr=1e-3)

    @TinyJit
    def step(*d):
        adam.zero_grad()
        value = loss(*d)
        value.backward()
        return value.realize(*adam.schedule_step())

    return done(lambda: step(*data))


class Dueling:
    def __init__(self, width):
        self.f1, self.n1 = nn.Linear(144, width), nn.LayerNorm(width)
        self.f2, self.n2 = nn.Linear(width, width // 2), nn.LayerNorm(width // 2)
        self.value, self.advantage = nn.Linear(width // 2, 1), nn.Linear(width // 2, 6)

    def __call__(self, x):
        x = self.n1(self.f1(x)).relu()
        x = self.n2(self.f2(x)).relu()
        a = self.advantage(x)
        return self.value(x) + a - a.mean(1, keepdim=True)


def states(batch):
    return tensor(np.eye(6, dtype=np.float32)[random.integers(0, 6, (batch, 24))].reshape(batch, 144))


def huber(q, y):
    d = (q - y).abs()
    return (d < 1).where(0.5 * d * d, d - 0.5)


def dqn_step(sizes, batch):
    online, target = Dueling(*sizes), Dueling(*sizes)
    Tensor.realize(*nn.state.get_parameters([online, target]))

    def loss(s, s2, action, reward, not_done, weight):
        q = online(s).gather(1, action)[:, 0]
        best = online(s2).detach().argmax(1, keepdim=True)
        y = (reward + 0.99 * not_done * target(s2).gather(1, best)[:, 0]).detach()
        return (huber(q, y) * weight).mean()

    not_done, weight = (tensor(np.ones(batch, np.float32)) for _ in range(2))  # two: TinyJit refuses one tensor twice
    return trainer(online, loss, states(batch), states(batch), integers(6, batch, 1), normal(batch), not_done, weight)


def dqn_act(sizes, batch):
    net, x = Dueling(*sizes), states(batch)
    f = TinyJit(lambda x: net(x).realize())
    return done(lambda: f(x))


def plain_mlp(sizes, batch):
    layers = [nn.Linear(i, o) for i, o in zip(sizes, sizes[1:])]

    def loss(x, y):
        for layer in layers[:-1]:
            x = layer(x).relu()
        return ((layers[-1](x) - y) ** 2).mean()

    return trainer(layers, loss, normal(batch, sizes[0]), normal(batch, sizes[-1]))


def mlp_step(_, batch):
    hidden, out = nn.Linear(784, 128), nn.Linear(128, 10)
    return trainer([hidden, out], lambda x, y: out(hidden(x).relu()).sparse_categorical_crossentropy(y), normal(batch, 784),
                   integers(10, batch))


def cnn_step(_, batch):
    c1, c2, out = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1), nn.Linear(784, 10)

    def loss(x, y):
        x = c2(c1(x).relu().max_pool2d(2)).relu().max_pool2d(2)
        return out(x.flatten(1)).sparse_categorical_crossentropy(y)

    return trainer([c1, c2, out], loss, normal(batch, 1, 28, 28), integers(10, batch))


CASES = {"dqn_step": dqn_step, "dqn_act": dqn_act, "plain_mlp": plain_mlp, "mlp_step": mlp_step, "cnn_step": cnn_step}


def make(family, sizes, batch):
    if family not in CASES:
        raise Unknown(family)
    call = CASES[family](sizes, batch)
    call()  # TinyJit captures in its second call and replays from its third
    return call


serve(make, {"peer": "tinygrad", "version": importlib.metadata.version("tinygrad")})
