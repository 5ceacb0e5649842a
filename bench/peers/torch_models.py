"""The twins of bench/families.cpp in PyTorch: the same layers, losses, sizes and optimisers."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(*sizes, activation=nn.ReLU):
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), activation()]
    return nn.Sequential(*layers[:-1])


def parameters(*nets):
    return [p for net in nets for p in net.parameters()]


def trained(loss, *data, by, wrap, clip=0):
    """`by` is the optimiser; the loss is compiled where `wrap` does."""
    f = wrap(loss)

    def step():
        by.zero_grad(set_to_none=True)
        f(*data).backward()
        if clip:
            nn.utils.clip_grad_norm_(by.param_groups[0]["params"], clip)
        by.step()

    return step


def adam(parameters, **options):
    return torch.optim.Adam(parameters, **({"lr": 1e-3} | options), fused=True)


def recommender(rows, batch, wrap, sparse=False):
    users, items = (nn.Embedding(rows, 32, sparse=sparse) for _ in range(2))
    net = mlp(64, 64, 1)

    def loss(user, item, y):
        u, i = users(user), items(item)
        return F.binary_cross_entropy_with_logits((u * i).sum(1) + net(torch.cat([u, i], 1))[:, 0], y)

    by = Both(torch.optim.SparseAdam(parameters(users, items)), adam(net.parameters())) if sparse else \
        adam(parameters(users, items, net))
    return trained(loss, torch.randint(0, rows, (batch,)), torch.randint(0, rows, (batch,)), torch.rand(batch), by=by,
                   wrap=wrap)


class Both:
    """Two optimisers as one."""

    def __init__(self, *parts):
        self.parts = parts

    def zero_grad(self, **options):
        for part in self.parts:
            part.zero_grad(**options)

    def step(self):
        for part in self.parts:
            part.step()


def wide(width, batch, wrap):
    net = mlp(width, width, width, 10)
    return trained(lambda x, y: F.cross_entropy(net(x), y), torch.randn(batch, width), torch.randint(0, 10, (batch,)),
                   by=adam(net.parameters()), wrap=wrap)


def autoencoder(width, batch, wrap):
    net = mlp(784, width, width // 2, width // 8, width // 2, width, 784)
    return trained(lambda x: F.mse_loss(torch.sigmoid(net(x)), x), torch.rand(batch, 784), by=adam(net.parameters()),
                   wrap=wrap)


class BasicBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.a, self.na = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.b, self.nb = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.shortcut = nn.Identity() if i == o and stride == 1 else nn.Conv2d(i, o, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))) + self.shortcut(x))


def resnet(channels, batch, wrap):
    layers, width = [nn.Conv2d(3, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()], channels
    for stage in range(3):
        for i in range(2):
            layers.append(BasicBlock(width, channels << stage, 2 if stage and i == 0 else 1))
            width = channels << stage
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
    return trained(lambda x, y: F.cross_entropy(net(x), y), torch.randn(batch, 3, 32, 32),
                   torch.randint(0, 10, (batch,)), by=torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), wrap=wrap)


class Block(nn.Module):
    def __init__(self, width, causal):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down, self.causal, self.heads = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), causal, width // 32

    def forward(self, x):
        b, t, w = x.shape
        y = self.n1(x)
        q, k, v = (f(y).view(b, t, self.heads, 32).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(b, t, w)
        x = x + self.out(a)
        return x + self.down(F.gelu(self.up(self.n2(x))))


def gpt(width, batch, wrap):
    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.characters, self.positions = nn.Embedding(65, width), nn.Parameter(0.02 * torch.randn(64, width))
            self.blocks, self.norm, self.head = nn.Sequential(*(Block(width, True) for _ in range(4))), nn.LayerNorm(width), nn.Linear(width, 65)

        def forward(self, x):
            return self.head(self.norm(self.blocks(self.characters(x) + self.positions)))

    net = Gpt()
    return trained(lambda x, y: F.cross_entropy(net(x).view(-1, 65), y.view(-1)), torch.randint(0, 65, (batch, 64)),
                   torch.randint(0, 65, (batch, 64)), by=adam(net.parameters()), wrap=wrap)


def transformer(width, batch, wrap):
    net = Block(width, False)
    return trained(lambda x, y: F.mse_loss(net(x), y), torch.randn(batch, 64, width), torch.randn(batch, 64, width),
                   by=adam(net.parameters()), wrap=wrap)


def attention(length, batch, wrap):
    q, k, v = (torch.randn(batch, 4, length, 64, requires_grad=True) for _ in range(3))
    g, f = torch.randn(batch, 4, length, 64), wrap(F.scaled_dot_product_attention)

    def step():
        torch.autograd.grad(f(q, k, v), (q, k, v), g)

    return step


def recurrent(kind, layers=1, both=False):
    def make(hidden, batch, wrap):
        cell = kind(32, hidden, num_layers=layers, bidirectional=both, batch_first=True)
        sides = 2 if both else 1
        last = nn.Linear(sides * hidden, 10)

        def end(x):
            h = cell(x)[1]
            h = h[0] if isinstance(h, tuple) else h
            return torch.cat(tuple(h[-sides:]), 1)

        return trained(lambda x, y: F.cross_entropy(last(end(x)), y), torch.randn(batch, 50, 32),
                       torch.randint(0, 10, (batch,)), by=adam(parameters(cell, last)), wrap=wrap)

    return make


class GatedUnit(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.into, self.u, self.norm = nn.Linear(32, 2 * hidden), nn.Linear(hidden, 2 * hidden, False), nn.LayerNorm(hidden)

    def forward(self, x):
        gates = self.into(x)
        h = gates.new_zeros(x.shape[0], self.norm.normalized_shape[0])
        for t in range(x.shape[1]):
            (f_x, n_x), (f_h, n_h) = gates[:, t].chunk(2, 1), self.u(h).chunk(2, 1)
            f = torch.sigmoid(f_x + f_h)
            h = h + f * (torch.tanh(self.norm(n_x + f * n_h)) - h)
        return h


def cell(steps):
    def make(hidden, batch, wrap):
        unit, last = GatedUnit(hidden), nn.Linear(hidden, 10)
        return trained(lambda x, y: F.cross_entropy(last(unit(x)), y), torch.randn(batch, steps, 32),
                       torch.randint(0, 10, (batch,)), by=adam(parameters(unit, last)), wrap=wrap)

    return make


def ppo(width, batch, wrap):
    policy, value = mlp(17, width, width, 6, activation=nn.Tanh), mlp(17, width, width, 1, activation=nn.Tanh)

    def loss(s, action, old, advantage, target):
        every = F.log_softmax(policy(s), 1)
        ratio = (every.gather(1, action) - (old - math.log(6))).exp()
        gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        entropy = -(every.exp() * every).sum(1).mean()
        return 0.5 * F.mse_loss(value(s), target) - gain - 0.01 * entropy

    return trained(loss, torch.randn(batch, 17), torch.randint(0, 6, (batch, 1)), 0.1 * torch.randn(batch, 1),
                   torch.randn(batch, 1), torch.randn(batch, 1), by=adam(parameters(policy, value), lr=3e-4), wrap=wrap,
                   clip=0.5)


def sac(width, batch, wrap):
    actor = mlp(17, width, width, 12)
    critics, targets = [[mlp(23, width, width, 1) for _ in range(2)] for _ in range(2)]
    for_critics, for_actor = adam(parameters(*critics), lr=3e-4), adam(actor.parameters(), lr=3e-4)
    data = (torch.randn(batch, 17), 0.5 * torch.randn(batch, 6), torch.randn(batch, 1), torch.randn(batch, 17),
            torch.randn(batch, 6), torch.randn(batch, 6))

    def act(s, noise):
        mu, log_std = actor(s).chunk(2, 1)
        log_std = -1.5 + 3.5 * torch.tanh(log_std)
        raw = mu + log_std.exp() * noise
        squashed = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        return torch.tanh(raw), (-0.5 * noise * noise - log_std - squashed).sum(1, keepdim=True)

    def critic_loss(s, a, r, s2, noise2):
        with torch.no_grad():
            a2, log_p2 = act(s2, noise2)
            following = torch.cat([s2, a2], 1)
            y = r + 0.99 * (torch.min(targets[0](following), targets[1](following)) - 0.2 * log_p2)
        here = torch.cat([s, a], 1)
        return F.mse_loss(critics[0](here), y) + F.mse_loss(critics[1](here), y)

    def actor_loss(s, noise):
        a, log_p = act(s, noise)
        chosen = torch.cat([s, a], 1)
        return (0.2 * log_p - torch.min(critics[0](chosen), critics[1](chosen))).mean()

    of_critics, of_actor = wrap(critic_loss), wrap(actor_loss)
    online, following = parameters(*critics), parameters(*targets)

    def step():
        s, a, r, s2, noise, noise2 = data
        for_critics.zero_grad(set_to_none=True)
        of_critics(s, a, r, s2, noise2).backward()
        for_critics.step()
        for_actor.zero_grad(set_to_none=True)
        of_actor(s, noise).backward()
        for_actor.step()
        with torch.no_grad():
            torch._foreach_lerp_(following, online, 0.005)

    return step


def wgan(width, batch, wrap):
    critic = mlp(64, width, width, 1, activation=nn.Tanh)

    def loss(real, fake, mix):
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        slope = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
        penalty = ((slope.square().sum(1) + 1e-12).sqrt() - 1).square().mean()
        return critic(fake).mean() - critic(real).mean() + 10 * penalty

    return trained(loss, torch.randn(batch, 64), torch.randn(batch, 64), torch.rand(batch, 1),
                   by=adam(critic.parameters(), lr=1e-4, betas=(0.5, 0.9)), wrap=lambda f: f)


def vae(width, batch, wrap):
    encoder, decoder = mlp(784, width, 40), mlp(20, width, 784)

    def loss(x, noise):
        mu, log_var = encoder(x).chunk(2, 1)
        logits = decoder(mu + (0.5 * log_var).exp() * noise)
        likeness = (F.softplus(logits) - x * logits).sum(1).mean()
        return likeness - 0.5 * (1 + log_var - mu * mu - log_var.exp()).sum(1).mean()

    return trained(loss, torch.rand(batch, 784), torch.randn(batch, 20), by=adam(parameters(encoder, decoder)), wrap=wrap)


def unet(c, batch, wrap):
    def conv(i, o, size=3):
        return nn.Conv2d(i, o, size, padding=size // 2)

    a, b, middle, d, e, last = conv(3, c), conv(c, 2 * c), conv(2 * c, 4 * c), conv(4 * c, 2 * c), conv(2 * c, c), conv(c, 1, 1)
    up1, up2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)

    def loss(x, y):
        x1 = F.relu(a(x))
        x2 = F.relu(b(F.max_pool2d(x1, 2)))
        x3 = F.relu(middle(F.max_pool2d(x2, 2)))
        y2 = F.relu(d(torch.cat([up1(x3), x2], 1)))
        y1 = F.relu(e(torch.cat([up2(y2), x1], 1)))
        return F.binary_cross_entropy_with_logits(last(y1), y)

    return trained(loss, torch.randn(batch, 3, 32, 32), torch.rand(batch, 1, 32, 32),
                   by=adam(parameters(a, b, middle, up1, d, up2, e, last)), wrap=wrap)


MODELS = {
    "recommender_step": (recommender, 10000),
    "sparse_recommender_step": (lambda *a: recommender(*a, sparse=True), 10000), "wide_step": (wide, 2048), "autoencoder_step": (autoencoder, 512),
    "resnet_step": (resnet, 16), "gpt_step": (gpt, 128), "transformer_step": (transformer, 128),
    "attention_step": (attention, 4096),
    "cell_step": (cell(100), 64), "long_cell_step": (cell(1000), 32),
    "lstm_step": (recurrent(nn.LSTM), 128), "gru_step": (recurrent(nn.GRU), 128),
    "bilstm_step": (recurrent(nn.LSTM, 2, True), 64), "ppo_step": (ppo, 256),
    "sac_step": (sac, 256), "wgan_step": (wgan, 256), "vae_step": (vae, 400), "unet_step": (unet, 16),
}
