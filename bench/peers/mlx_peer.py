"""MLX on the CPU, with mx.compile. usage: mlx_peer.py cpu THREADS   (MLX decides its threads itself)"""
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

from serve import Unknown, dense_net, serve

mx.set_default_device(mx.cpu)
random = np.random.default_rng(0)


def normal(*shape):
    return mx.array(random.standard_normal(shape, dtype=np.float32))


def integers(below, *shape):
    return mx.array(random.integers(0, below, shape).astype(np.int32))


def trainer(model, loss, *data, frozen=()):
    adam = optim.Adam(1e-3, bias_correction=True)
    adam.init(model.trainable_parameters())
    gradient = nn.value_and_grad(model, loss)
    state = [model.state, adam.state]
    mx.eval(state, *data)

    @partial(mx.compile, inputs=state + list(frozen), outputs=state)
    def step(*d):
        value, g = gradient(*d)
        adam.update(model, g)
        return value

    return lambda: mx.eval(step(*data), state)


class Dueling(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.f1, self.n1 = nn.Linear(144, width), nn.LayerNorm(width)
        self.f2, self.n2 = nn.Linear(width, width // 2), nn.LayerNorm(width // 2)
        self.value, self.advantage = nn.Linear(width // 2, 1), nn.Linear(width // 2, 6)

    def __call__(self, x):
        x = mx.maximum(self.n1(self.f1(x)), 0)
        x = mx.maximum(self.n2(self.f2(x)), 0)
        a = self.advantage(x)
        return self.value(x) + a - a.mean(1, keepdims=True)


def states(batch):
    return mx.array(np.eye(6, dtype=np.float32)[random.integers(0, 6, (batch, 24))].reshape(batch, 144))


def dqn_step(sizes, batch):
    online, target = Dueling(*sizes), Dueling(*sizes)
    target.freeze()
    mx.eval(target.parameters())

    def loss(s, s2, action, reward, not_done, weight):
        q = mx.take_along_axis(online(s), action, 1)[:, 0]
        best = mx.stop_gradient(online(s2)).argmax(1, keepdims=True)
        y = mx.stop_gradient(reward + 0.99 * not_done * mx.take_along_axis(target(s2), best, 1)[:, 0])
        return (nn.losses.smooth_l1_loss(q, y, reduction="none") * weight).mean()

    return trainer(online, loss, states(batch), states(batch), integers(6, batch, 1), normal(batch), mx.ones(batch),
                   mx.ones(batch), frozen=[target.state])


def dqn_act(sizes, batch):
    net, x = Dueling(*sizes), states(batch)
    mx.eval(x, net.parameters())
    f = mx.compile(lambda x: net(x), inputs=[net.state])
    return lambda: mx.eval(f(x))


def plain_mlp(sizes, batch):
    net = dense_net(nn, sizes)
    return trainer(net, lambda x, y: ((net(x) - y) ** 2).mean(), normal(batch, sizes[0]), normal(batch, sizes[-1]))


def cross_entropy(net):
    return lambda x, y: nn.losses.cross_entropy(net(x), y, reduction="mean")


def mlp_step(_, batch):
    net = dense_net(nn, (784, 128, 10))
    return trainer(net, cross_entropy(net), normal(batch, 784), integers(10, batch))


def cnn_step(_, batch):
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Conv2d(8, 16, 3, padding=1),
                        nn.ReLU(), nn.MaxPool2d(2, 2), lambda x: x.reshape(batch, -1), nn.Linear(784, 10))
    return trainer(net, cross_entropy(net), normal(batch, 28, 28, 1), integers(10, batch))


def einsum_rule(*_):
    p, q, age = (mx.array(random.random(s, dtype=np.float32)) for s in ((256, 256), (256, 256), (256,)))

    @mx.compile
    def rule(p, q, age):
        g, h = mx.sigmoid(mx.einsum("xy,yz->xz", p, q)), mx.sigmoid(mx.einsum("xy,yz,z->xz", p, p, age))
        o = g + h - g * h
        return o.max(1), o.mean()

    return lambda: mx.eval(rule(p, q, age))


CASES = {"dqn_step": dqn_step, "dqn_act": dqn_act, "plain_mlp": plain_mlp, "mlp_step": mlp_step, "cnn_step": cnn_step,
         "einsum_rule256": einsum_rule}


def make(family, sizes, batch):
    if family not in CASES:
        raise Unknown(family)
    return CASES[family](sizes, batch)


serve(make, {"peer": "MLX", "version": mx.__version__})
