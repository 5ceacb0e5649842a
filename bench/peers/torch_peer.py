"""PyTorch. usage: torch_peer.py eager|compile THREADS"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from serve import Unknown, dense_net, serve
from torch_models import MODELS

compiled = sys.argv[1] == "compile"
torch.set_num_threads(int(sys.argv[2]))
torch.manual_seed(0)


def maybe_compiled(f):
    return torch.compile(f) if compiled else f


def trainer(net, loss, *data):
    adam = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    f = maybe_compiled(loss)

    def step():
        adam.zero_grad(set_to_none=True)
        f(*data).backward()
        adam.step()

    return step


class Dueling(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.f1, self.n1 = nn.Linear(144, width), nn.LayerNorm(width)
        self.f2, self.n2 = nn.Linear(width, width // 2), nn.LayerNorm(width // 2)
        self.value, self.advantage = nn.Linear(width // 2, 1), nn.Linear(width // 2, 6)

    def forward(self, x):
        x = torch.relu(self.n1(self.f1(x)))
        x = torch.relu(self.n2(self.f2(x)))
        a = self.advantage(x)
        return self.value(x) + a - a.mean(1, keepdim=True)


def states(batch):
    return torch.eye(6)[torch.randint(0, 6, (batch, 24))].reshape(batch, 144)


def dqn_step(sizes, batch):
    online, target = Dueling(*sizes), Dueling(*sizes)
    data = (states(batch), states(batch), torch.randint(0, 6, (batch, 1)), torch.randn(batch), torch.ones(batch),
            torch.ones(batch))

    def loss(s, s2, action, reward, not_done, weight):
        q = online(s).gather(1, action)[:, 0]
        with torch.no_grad():
            best = online(s2).argmax(1, keepdim=True)
            y = reward + 0.99 * not_done * target(s2).gather(1, best)[:, 0]
        return (F.smooth_l1_loss(q, y, reduction="none") * weight).mean()

    return trainer(online, loss, *data)


def dqn_act(sizes, batch):
    net, x = Dueling(*sizes), states(batch)
    f = maybe_compiled(net)

    def act():
        with torch.inference_mode():
            f(x)

    return act


def plain_mlp(sizes, batch):
    net = dense_net(nn, sizes)
    return trainer(net, lambda x, y: F.mse_loss(net(x), y), torch.randn(batch, sizes[0]), torch.randn(batch, sizes[-1]))


def mlp_step(_, batch):
    net = dense_net(nn, (784, 128, 10))
    return trainer(net, lambda x, y: F.cross_entropy(net(x), y), torch.randn(batch, 784), torch.randint(0, 10, (batch,)))


def cnn_step(_, batch):
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(784, 10))
    return trainer(net, lambda x, y: F.cross_entropy(net(x), y), torch.randn(batch, 1, 28, 28),
                   torch.randint(0, 10, (batch,)))


def einsum_rule(*_):
    p, q, age = torch.rand(256, 256), torch.rand(256, 256), torch.rand(256)

    def rule(p, q, age):
        g, h = torch.sigmoid(torch.einsum("xy,yz->xz", p, q)), torch.sigmoid(torch.einsum("xy,yz,z->xz", p, p, age))
        o = g + h - g * h
        return o.amax(1), o.mean()

    f = maybe_compiled(rule)
    return lambda: f(p, q, age)


def matmul(dtype):
    def make(sizes, _):
        m, k, n = sizes
        a, b, c = (torch.randn(*s, dtype=dtype) for s in ((m, k), (k, n), (m, n)))
        return lambda: torch.mm(a, b, out=c)

    return make


def optimiser(kind):
    def make(*_):
        p = torch.randn(1_000_000, requires_grad=True)
        p.grad = torch.randn(1_000_000)
        return kind([p], lr=1e-3, fused=True).step

    return make


def elementwise(f, second=False):
    def make(*_):
        x, y, z = torch.randn(1_000_000), torch.randn(1_000_000), torch.empty(1_000_000)
        return (lambda: f(x, y, z)) if second else (lambda: f(x, z))

    return make


def softmax(*_):
    x = torch.randn(1024, 1024)
    return lambda: torch.softmax(x, 1)


def fused(*_):
    x, y = torch.randn(1_000_000), torch.randn(1_000_000)
    f = maybe_compiled(lambda x, y: (torch.relu(x) * y + 0.5).tanh())
    return lambda: f(x, y)


CASES = {
    "dqn_step": dqn_step, "dqn_act": dqn_act, "plain_mlp": plain_mlp, "mlp_step": mlp_step, "cnn_step": cnn_step,
    "einsum_rule256": einsum_rule, "matmul_f32": matmul(torch.float32), "matmul_f64": matmul(torch.float64),
    "adam1M": optimiser(torch.optim.Adam), "sgd1M": optimiser(torch.optim.SGD),
    "add1M": elementwise(lambda x, y, z: torch.add(x, y, out=z), True),
    "relu1M": elementwise(lambda x, z: torch.clamp(x, min=0, out=z)),
    "exp1M": elementwise(lambda x, z: torch.exp(x, out=z)), "tanh1M": elementwise(lambda x, z: torch.tanh(x, out=z)),
    "sum1M": elementwise(lambda x, z: torch.sum(x)), "softmax1024": softmax, "fused_relu_mul_add_tanh1M": fused,
}


def make(family, sizes, batch):
    if family in MODELS:
        model, width = MODELS[family]
        return model(sizes[0] or width, batch, maybe_compiled)
    if family not in CASES:
        raise Unknown(family)
    return CASES[family](sizes, batch)


serve(make, {"peer": "PyTorch", "version": torch.__version__})
