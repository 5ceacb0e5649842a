"""Blocks and methods of recent years, as people write them: more cases for test_models.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, mlp, sgd, trained


def minimised(module, loss_of, batch, optimizer=sgd):
    """An update that minimises loss_of(net, *args)."""

    def make(net):
        opt = optimizer(net)

        def update(*args):
            loss = loss_of(net, *args)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            return loss

        return update

    return module, make, batch


# ---- attention -------------------------------------------------------------------------------------------------------
class Perceiver(nn.Module):
    """Few latents that read many inputs, twice with the same weights; places as Fourier features."""

    def __init__(self, dim=8, latents=3, bands=2):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, dim) * 0.2)
        self.embed = nn.Linear(2 + 2 * bands, dim)
        self.read = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm, self.norm_in = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.think = nn.TransformerEncoderLayer(dim, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(dim, 3)
        self.register_buffer("frequencies", 2.0 ** torch.arange(bands) * math.pi)

    def forward(self, x):
        places = torch.linspace(-1, 1, x.shape[1], device=x.device)[:, None] * self.frequencies
        features = torch.cat([places.sin(), places.cos()], -1).expand(x.shape[0], -1, -1)
        inputs = self.norm_in(self.embed(torch.cat([x, features], -1)))
        z = self.latents.repeat(x.shape[0], 1, 1)
        for _ in range(2):
            z = z + self.read(self.norm(z), inputs, inputs, need_weights=False)[0]
            z = self.think(z)
        return self.head(z.mean(1))


@case
def perceiver():
    return trained(Perceiver(), lambda b: (torch.randn(b, 7, 2), labels(b)))


class ScaledBlock(nn.Module):
    """CaiT's: what a layer adds is scaled by a vector, and kept for some examples only (the mask is an argument)."""

    def __init__(self, dim=8):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2)])
        self.qkv, self.proj, self.mlp = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), mlp(dim, 16, dim, act=nn.GELU)
        self.scale = nn.ParameterList([nn.Parameter(torch.full((dim,), 0.1)) for _ in range(2)])

    def forward(self, x, kept):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norms[0](x)).reshape(b, n, 3, 2, d // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + self.scale[0] * self.proj(y) * kept[0, :, None, None].div(0.8)
        return x + self.scale[1] * self.mlp(self.norms[1](x)) * kept[1, :, None, None].div(0.8)


@case
def layer_scale_and_stochastic_depth():
    net = nn.ModuleDict({"embed": nn.Linear(3, 8), "block": ScaledBlock(), "head": nn.Linear(8, 3)})
    return minimised(net, lambda n, x, kept, y: F.cross_entropy(n["head"](n["block"](n["embed"](x), kept)[:, 0]), y),
                     lambda b: (torch.randn(b, 4, 3), torch.bernoulli(torch.full((2, b), 0.8)), labels(b)))


class DecisionTransformer(nn.Module):
    """Returns, states and actions as three tokens a step, under a causal mask; actions are read off the states' places."""

    def __init__(self, dim=8, states=3, actions=2, longest=6):
        super().__init__()
        self.time = nn.Embedding(longest, dim)
        self.of_return, self.of_state, self.of_action = nn.Linear(1, dim), nn.Linear(states, dim), nn.Linear(actions, dim)
        self.norm = nn.LayerNorm(dim)
        layer = nn.TransformerEncoderLayer(dim, 2, 16, dropout=0.0, activation="gelu", batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.act = nn.Sequential(nn.Linear(dim, actions), nn.Tanh())

    def forward(self, returns, states, actions, steps):
        b, t = steps.shape
        time = self.time(steps)
        tokens = torch.stack((self.of_return(returns) + time, self.of_state(states) + time, self.of_action(actions) + time), dim=1)
        tokens = self.norm(tokens.permute(0, 2, 1, 3).reshape(b, 3 * t, -1))
        mask = torch.triu(torch.ones(3 * t, 3 * t, dtype=torch.bool), diagonal=1)
        out = self.body(tokens, mask=mask).reshape(b, t, 3, -1).permute(0, 2, 1, 3)
        return self.act(out[:, 1])


@case
def decision_transformer():
    def batch(b, t=4):
        return (torch.randn(b, t, 1), torch.randn(b, t, 3), torch.rand(b, t, 2) * 2 - 1, torch.randint(0, 6, (b, t)),
                (torch.rand(b, t) > 0.3).float())

    def loss(net, returns, states, actions, steps, mask):
        off = (net(returns, states, actions, steps) - actions).pow(2).mean(-1)
        return (off * mask).sum() / mask.sum().clamp(min=1)

    return minimised(DecisionTransformer(), loss, batch, lambda n: torch.optim.AdamW(n.parameters(), lr=1e-3, eps=1e-3, foreach=False, fused=False))


@case
def grouped_queries_with_sinks():
    def forward(net, x):
        b, n, _ = x.shape
        q = net.q(x).view(b, n, 4, 4).transpose(1, 2)
        k, v = (p(x).view(b, n, 2, 4).transpose(1, 2) for p in (net.k, net.v))
        k, v = (torch.cat([s.expand(b, -1, -1, -1), t], 2) for s, t in ((net.sink_k, k), (net.sink_v, v)))
        allowed = torch.ones(n, n + 1).tril(1).bool()
        y = F.scaled_dot_product_attention(q, F.normalize(k, dim=-1), v, attn_mask=allowed, scale=0.7, enable_gqa=True)
        return net.out(y.transpose(1, 2).flatten(2)).mean(1)

    net = Fn(forward, q=nn.Linear(5, 16), k=nn.Linear(5, 8), v=nn.Linear(5, 8), out=nn.Linear(16, 3),
             sink_k=nn.Parameter(torch.randn(1, 2, 1, 4)), sink_v=nn.Parameter(torch.randn(1, 2, 1, 4)))
    return trained(net, lambda b: (torch.randn(b, 6, 5), labels(b)))


# ---- images ----------------------------------------------------------------------------------------------------------
class MBConv(nn.Module):
    def __init__(self, width, expand=2):
        super().__init__()
        wide = width * expand
        self.grow = nn.Sequential(nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.SiLU(inplace=True))
        self.deep = nn.Sequential(nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.SiLU(inplace=True))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 2, 1), nn.SiLU(), nn.Conv2d(2, wide, 1), nn.Sigmoid())
        self.shrink = nn.Sequential(nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.deep(self.grow(x))
        return x + self.shrink(y * self.squeeze(y))


@case
def efficientnet_blocks():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), MBConv(4), MBConv(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    return trained(net, lambda b: (torch.randn(b, 3, 8, 8), labels(b)))


class UNetOfTime(nn.Module):
    """DDPM's in small: the time by sines into every block, group norms, attention at the bottom, skips."""

    def __init__(self, c=8):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(c, 2 * c), nn.SiLU(), nn.Linear(2 * c, c))
        self.first, self.last = nn.Conv2d(1, c, 3, padding=1), nn.Conv2d(2 * c, 1, 3, padding=1)
        self.down, self.up = nn.Conv2d(c, c, 3, stride=2, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.mid = nn.Conv2d(c, c, 3, padding=1)
        self.norm, self.shift = nn.GroupNorm(4, c), nn.Linear(c, 2 * c)
        self.qkv, self.proj = nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)
        self.c = c

    def forward(self, x, t):
        rates = torch.exp(-math.log(10000.0) * torch.arange(self.c // 2, dtype=torch.float32) / (self.c // 2))
        angles = t.float()[:, None] * rates[None]
        emb = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        scale, shift = self.shift(F.silu(emb))[:, :, None, None].chunk(2, dim=1)
        h0 = self.first(x)
        h = self.mid(F.silu(self.norm(self.down(h0)) * (1 + scale) + shift))
        b, c, hh, ww = h.shape
        q, k, v = self.qkv(h).reshape(b, 3, c, hh * ww).unbind(1)
        w = torch.einsum("bci,bcj->bij", q, k).mul(c ** -0.5).softmax(dim=-1)
        h = h + self.proj(torch.einsum("bij,bcj->bci", w, v).reshape(b, c, hh, ww))
        h = self.up(F.interpolate(h, scale_factor=2, mode="nearest"))
        return self.last(torch.cat([h, h0], dim=1))


@case
def denoising_with_a_schedule():
    net = UNetOfTime()
    betas = torch.linspace(1e-4, 0.02, 50)
    net.register_buffer("kept", torch.cumprod(1 - betas, 0))

    def loss(net, x, noise, t):
        a = net.kept[t][:, None, None, None]
        weight = torch.clamp(a / (1 - a), max=5.0)[:, 0, 0, 0]
        return (weight * F.mse_loss(net(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise, reduction="none").mean((1, 2, 3))).mean()

    return minimised(net, loss, lambda b: (torch.randn(b, 1, 8, 8), torch.randn(b, 1, 8, 8), torch.randint(0, 50, (b,))),
                     lambda n: sgd(n, 0.005))


@case
def r1_penalty_and_averaged_generator():
    net = nn.ModuleDict({"g": mlp(3, 16, 4, act=lambda: nn.LeakyReLU(0.2)), "d": mlp(4, 16, 1, act=lambda: nn.LeakyReLU(0.2)), "ema": mlp(3, 16, 4)})
    net["ema"].requires_grad_(False)

    def make(net):
        g, d, ema = net["g"], net["d"], net["ema"]
        opt_g = torch.optim.Adam(g.parameters(), lr=2e-3, betas=(0.0, 0.99))
        opt_d = torch.optim.Adam(d.parameters(), lr=2e-3, betas=(0.0, 0.99))

        def update(real, z):
            real = real.detach().requires_grad_(True)
            on_real = d(real)
            slope, = torch.autograd.grad(outputs=on_real.sum(), inputs=real, create_graph=True)
            loss_d = F.softplus(-on_real).mean() + F.softplus(d(g(z).detach())).mean() + 5.0 * slope.square().sum(1).mean()
            opt_d.zero_grad(set_to_none=True)
            loss_d.backward()
            opt_d.step()
            loss_g = F.softplus(-d(g(z))).mean()
            opt_g.zero_grad(set_to_none=True)
            loss_g.backward()
            opt_g.step()
            with torch.no_grad():
                torch._foreach_lerp_(list(ema.parameters()), list(g.parameters()), 0.05)
            return loss_d, loss_g

        return update

    return net, make, lambda b: (torch.randn(b, 4), torch.randn(b, 3))


@case
def convolutional_lstm():
    class Cell(nn.Module):
        def __init__(self, inputs=1, hidden=4):
            super().__init__()
            self.gates, self.read, self.hidden = nn.Conv2d(inputs + hidden, 4 * hidden, 3, padding=1), nn.Conv2d(hidden, 1, 1), hidden

        def forward(self, frames):
            b, t, _, height, width = frames.shape
            h = frames.new_zeros(b, self.hidden, height, width)
            c, out = torch.zeros_like(h), []
            for frame in frames.unbind(1):
                i, f, o, g = torch.split(self.gates(torch.cat([frame, h], 1)), self.hidden, dim=1)
                c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
                out.append(self.read(h))
            return torch.stack(out, 1)

    return trained(Cell(), lambda b: (torch.randn(b, 3, 1, 5, 5), torch.randn(b, 3, 1, 5, 5)), F.mse_loss)


# ---- points, sets and fields -----------------------------------------------------------------------------------------
class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU())
        self.to_matrix = nn.Linear(8, 9)
        nn.init.zeros_(self.to_matrix.weight)
        nn.init.zeros_(self.to_matrix.bias)
        self.body = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 16, 1))
        self.head = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        matrix = self.to_matrix(torch.max(self.turn(x), 2)[0]).view(-1, 3, 3) + torch.eye(3, device=x.device)
        x = torch.bmm(x.transpose(2, 1), matrix).transpose(2, 1)
        return F.log_softmax(self.head(self.body(x).amax(-1)), dim=1), matrix


@case
def pointnet():
    def loss(net, x, y):
        out, m = net(x)
        return F.nll_loss(out, y) + 0.1 * torch.mean(torch.norm(torch.bmm(m, m.transpose(2, 1)) - torch.eye(3), dim=(1, 2)) ** 2)

    return minimised(PointNet(), loss, lambda b: (torch.randn(b, 3, 10), labels(b)), lambda n: sgd(n, 0.01))


class Sine(nn.Module):
    def __init__(self, inputs, outputs, first=False, omega=30.0):
        super().__init__()
        self.linear, self.omega = nn.Linear(inputs, outputs), omega
        with torch.no_grad():
            bound = 1 / inputs if first else math.sqrt(6 / inputs) / omega
            self.linear.weight.uniform_(-bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.linear(x))


@case
def siren_with_an_eikonal_loss():
    net = nn.Sequential(Sine(2, 16, True), Sine(16, 16), nn.Linear(16, 1))

    def loss(net, x, value):
        x = x.clone().requires_grad_(True)
        y = net(x)
        slope = torch.autograd.grad(y, x, grad_outputs=torch.ones_like(y), create_graph=True)[0]
        return F.l1_loss(y, value) + 0.1 * (slope.norm(dim=-1) - 1).abs().mean()

    return minimised(net, loss, lambda b: (torch.rand(b, 2) * 2 - 1, torch.randn(b, 1)), lambda n: torch.optim.Adam(n.parameters(), 1e-5))


@case
def equivariant_graph_net():
    def forward(net, h, x, mask):
        for edge, node, move in zip(net.edge, net.node, net.move):
            way = x[:, :, None] - x[:, None]
            far = way.pow(2).sum(-1, keepdim=True)
            n = h.shape[1]
            m = edge(torch.cat([h[:, :, None].expand(-1, -1, n, -1), h[:, None].expand(-1, n, -1, -1), far], -1)) * mask[..., None]
            x = x + (way / (far + 1) * move(m)).sum(2) / n
            h = h + node(torch.cat([h, m.sum(2)], -1))
        return net.read(h.sum(1)), x

    net = Fn(forward, edge=nn.ModuleList([mlp(9, 8, 4, act=nn.SiLU) for _ in range(2)]), node=nn.ModuleList([mlp(8, 8, 4, act=nn.SiLU) for _ in range(2)]),
             move=nn.ModuleList([mlp(4, 8, 1, act=nn.SiLU) for _ in range(2)]), read=nn.Linear(4, 1))

    def loss(net, h, x, mask, energy, target):
        e, moved = net(h, x, mask)
        return F.mse_loss(e, energy) + F.mse_loss(moved, target)

    def batch(b, n=5):
        return torch.randn(b, n, 4), torch.randn(b, n, 3), (torch.rand(b, n, n) > 0.4).float(), torch.randn(b, 1), torch.randn(b, n, 3)

    return minimised(net, loss, batch, lambda n: sgd(n, 0.005))


@case
def hashed_grids():
    """Instant-NGP's: features of the corners of a cell, found by a hash of whole numbers, mixed by distance."""

    def forward(net, x):
        found = []
        for level, table in enumerate(net.tables):
            at = x * (4 * 2 ** level)
            low = at.floor().long()
            part = at - low
            total = 0
            for dx in (0, 1):
                for dy in (0, 1):
                    corner = ((low[:, 0] + dx) * 73 + (low[:, 1] + dy) * 19349) % 16
                    weight = (part[:, 0] if dx else 1 - part[:, 0]) * (part[:, 1] if dy else 1 - part[:, 1])
                    total = total + weight[:, None] * table(corner)
            found.append(total)
        return net.read(torch.cat(found, -1))

    net = Fn(forward, tables=nn.ModuleList([nn.Embedding(16, 2) for _ in range(3)]), read=mlp(6, 8, 3, act=nn.ReLU))
    return trained(net, lambda b: (torch.rand(b, 2), torch.rand(b, 3)), F.mse_loss)


@case
def optimal_transport_matching():
    """SuperGlue's: scores with a bin for what has no match, made a plan by iterations in logarithms."""

    def loss(net, a, b, match):
        fa, fb = net.features(a), net.features(b)
        scores = torch.einsum("bid,bjd->bij", fa, fb) / 2
        bs, m, n = scores.shape
        bin_ = net.bin.expand(bs, 1, 1)
        z = torch.cat([torch.cat([scores, bin_.expand(bs, m, 1)], -1), bin_.expand(bs, 1, n + 1)], 1)
        norm = -math.log(m + n)
        mu = torch.cat([torch.full((m,), norm), torch.tensor([math.log(n) + norm])]).expand(bs, -1)
        nu = torch.cat([torch.full((n,), norm), torch.tensor([math.log(m) + norm])]).expand(bs, -1)
        u, v = torch.zeros_like(mu), torch.zeros_like(nu)
        for _ in range(5):
            u = mu - torch.logsumexp(z + v.unsqueeze(1), dim=2)
            v = nu - torch.logsumexp(z + u.unsqueeze(2), dim=1)
        plan = z + u.unsqueeze(2) + v.unsqueeze(1) - norm
        return -plan[:, :-1].gather(2, match[:, :, None]).mean()

    net = Fn(None, features=mlp(3, 16, 4, act=nn.ReLU), bin=nn.Parameter(torch.tensor(1.0)))
    return minimised(net, loss, lambda b: (torch.randn(b, 4, 3), torch.randn(b, 5, 3), torch.randint(0, 6, (b, 4))), lambda n: sgd(n, 0.01))


# ---- sequences -------------------------------------------------------------------------------------------------------
@case
def missing_values_decay():
    """GRU-D: what was not measured goes back to the mean with time, and so does the state."""

    def forward(net, x, mask, delta):
        b, t, d = x.shape
        mean = (x * mask).sum((0, 1)) / mask.sum((0, 1)).clamp_min(1.0)
        h, last = x.new_zeros(b, 8), mean.expand(b, d)
        for i in range(t):
            m, now = mask[:, i], x[:, i]
            decay_x = torch.exp(-torch.relu(delta[:, i] * net.decay_x))
            decay_h = torch.exp(-torch.relu(net.decay_h(delta[:, i])))
            last = torch.where(m.bool(), now, last)
            filled = m * now + (1 - m) * (decay_x * last + (1 - decay_x) * mean)
            h = net.cell(torch.cat([filled, m], -1), decay_h * h)
        return net.read(h)

    net = Fn(forward, cell=nn.GRUCell(6, 8), decay_x=nn.Parameter(torch.rand(3)), decay_h=nn.Linear(3, 8), read=nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 5, 3), (torch.rand(b, 5, 3) > 0.4).float(), torch.rand(b, 5, 3), labels(b)))


@case
def exponential_gates():
    """xLSTM's scalar cell: gates that grow exponentially, kept in range by a running maximum."""

    def forward(net, x):
        b = x.shape[0]
        h, c, n = (x.new_zeros(b, 6) for _ in range(3))
        m = x.new_full((b, 6), -1e4)
        for step in net.embed(x).unbind(1):
            i, f, z, o = (step + net.again(h)).chunk(4, -1)
            f = F.logsigmoid(f)
            new = torch.maximum(f + m, i)
            keep, take = torch.exp(f + m - new), torch.exp(i - new)
            c, n, m = keep * c + take * torch.tanh(z), keep * n + take, new
            h = torch.sigmoid(o) * c / n.clamp(min=1e-6)
        return net.read(h)

    net = Fn(forward, embed=nn.Linear(3, 24), again=nn.Linear(6, 24, bias=False), read=nn.Linear(6, 3))
    return trained(net, lambda b: (torch.randn(b, 5, 3), labels(b)))


class Rssm(nn.Module):
    """DreamerV3's: a recurrent state, categories drawn straight through (the noise is an argument) with a share of uniform."""

    def __init__(self, groups=2, classes=4, deter=8):
        super().__init__()
        self.groups, self.classes = groups, classes
        self.cell = nn.GRUCell(8, deter)
        self.into = nn.Sequential(nn.Linear(groups * classes + 2, 8), nn.LayerNorm(8), nn.SiLU())
        self.prior, self.post = nn.Linear(deter, groups * classes), nn.Linear(deter + 3, groups * classes)
        self.decode, self.reward = mlp(deter + groups * classes, 16, 3, act=nn.SiLU), nn.Linear(deter + groups * classes, 9)

    def logits(self, raw):
        p = raw.reshape(*raw.shape[:-1], self.groups, self.classes).softmax(-1)
        return torch.log(0.99 * p + 0.01 / self.classes)

    def forward(self, seen, acted, noise):
        b, t, _ = seen.shape
        h, z, rows = seen.new_zeros(b, 8), seen.new_zeros(b, self.groups * self.classes), []
        for i in range(t):
            h = self.cell(self.into(torch.cat([z, acted[:, i]], -1)), h)
            prior, post = self.logits(self.prior(h)), self.logits(self.post(torch.cat([h, seen[:, i]], -1)))
            hard = F.one_hot((post + noise[:, i]).argmax(-1), self.classes).to(post.dtype)
            p = post.exp()
            z = (hard + p - p.detach()).flatten(1)
            rows.append((prior, post, torch.cat([h, z], -1)))
        return [torch.stack(parts, 1) for parts in zip(*rows)]


@case
def discrete_world_model():
    def kl(a, b):
        return (a.exp() * (a - b)).sum((-2, -1))

    def two_hot(x, bins):
        x = torch.sign(x) * torch.log1p(x.abs())
        below = (x[..., None] >= bins).sum(-1).clamp(1, len(bins) - 1) - 1
        low, high = bins[below], bins[below + 1]
        share = ((x - low) / (high - low)).clamp(0, 1)[..., None]
        return (1 - share) * F.one_hot(below, len(bins)) + share * F.one_hot(below + 1, len(bins))

    def loss(net, seen, acted, noise, reward):
        prior, post, state = net(seen, acted, noise)
        free = torch.tensor(1.0)
        latent = 0.5 * torch.maximum(kl(post.detach(), prior), free) + 0.1 * torch.maximum(kl(post, prior.detach()), free)
        wanted = two_hot(reward, torch.linspace(-2, 2, 9))
        return (latent.mean() + F.mse_loss(net.decode(state), torch.sign(seen) * torch.log1p(seen.abs()))
                - (wanted * F.log_softmax(net.reward(state), -1)).sum(-1).mean())

    def batch(b, t=4):
        gumbel = -torch.log(-torch.log(torch.rand(b, t, 2, 4).clamp(1e-6, 1 - 1e-6)))
        return torch.randn(b, t, 3), torch.randn(b, t, 2), gumbel, torch.randn(b, t) * 2

    return minimised(Rssm(), loss, batch, lambda n: sgd(n, 0.01))


# ---- agents ----------------------------------------------------------------------------------------------------------
@case
def recurrent_replay_with_burn_in():
    """R2D2: the state is warmed up without gradients; values are learned on another scale."""

    def scaled(x):
        return x.sign() * ((x.abs() + 1).sqrt() - 1) + 1e-3 * x

    def unscaled(x):
        return x.sign() * (((1 + 4e-3 * (x.abs() + 1 + 1e-3)).sqrt() - 1) / 2e-3).square().sub(1).mul(1.0) * 1.0

    def q_of(net, x, state=None):
        y, state = net["lstm"](x, state)
        return net["head"](y), state

    def make(net):
        opt = torch.optim.Adam(net["online"].parameters(), lr=1e-3, eps=1e-3)

        def update(seen, act, reward, ended):
            with torch.no_grad():
                _, s = q_of(net["online"], seen[:, :2])
                _, st = q_of(net["target"], seen[:, :2])
            q, _ = q_of(net["online"], seen[:, 2:], tuple(v.detach() for v in s))
            with torch.no_grad():
                next_q, _ = q_of(net["target"], seen[:, 2:], st)
                best = q.argmax(-1, keepdim=True)
                wanted = scaled(reward + 0.99 * (1 - ended) * unscaled(next_q.gather(-1, best).squeeze(-1)[:, 1:]))
            chosen = q[:, :-1].gather(-1, act.unsqueeze(-1)).squeeze(-1)
            off = wanted - chosen
            loss = F.smooth_l1_loss(chosen, wanted)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net["online"].parameters(), 40.0)
            opt.step()
            return loss, (0.9 * off.abs().max(1).values + 0.1 * off.abs().mean(1)).detach()

        return update

    def part():
        return nn.ModuleDict({"lstm": nn.LSTM(3, 8, batch_first=True), "head": nn.Linear(8, 2)})

    net = nn.ModuleDict({"online": part(), "target": part()})
    return net, make, lambda b: (torch.randn(b, 6, 3), torch.randint(0, 2, (b, 3)), torch.randn(b, 3), (torch.rand(b, 3) > 0.9).float())


@case
def muzero_unroll():
    def halved(x):
        return 0.5 * x + 0.5 * x.detach()

    def loss(net, seen, acts, policies, values, rewards):
        h = net["see"](seen)
        low, high = h.min(-1, keepdim=True).values, h.max(-1, keepdim=True).values
        h, total = (h - low) / (high - low + 1e-5), 0.0
        for k in range(3):
            p, v = net["predict"](h).split([2, 1], -1)
            total = total - (policies[:, k] * p.log_softmax(-1)).sum(-1).mean() + 0.25 * F.mse_loss(v.squeeze(-1), values[:, k])
            out = net["go"](torch.cat([halved(h), F.one_hot(acts[:, k], 2).float()], -1))
            h, r = out[:, :8], out[:, 8]
            total = total + F.mse_loss(r, rewards[:, k])
        return total / 3 + 1e-4 * sum(p.square().sum() for p in net.parameters())

    def batch(b):
        return torch.randn(b, 4), torch.randint(0, 2, (b, 3)), torch.rand(b, 3, 2).softmax(-1), torch.randn(b, 3), torch.randn(b, 3)

    net = nn.ModuleDict({"see": mlp(4, 16, 8), "predict": mlp(8, 16, 3), "go": mlp(10, 16, 9)})
    return minimised(net, loss, batch)


@case
def ppo_by_a_kl_penalty():
    def loss(net, seen, act, old, advantage):
        now = torch.distributions.Categorical(logits=net(seen))
        before = torch.distributions.Categorical(logits=old)
        ratio = torch.exp(now.log_prob(act) - before.log_prob(act))
        kl = torch.distributions.kl_divergence(before, now)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        return -(ratio * advantage).mean() + 0.5 * kl.mean() - 0.01 * now.entropy().mean()

    return minimised(mlp(4, 16, 3), loss, lambda b: (torch.randn(b, 4), labels(b), torch.randn(b, 3), torch.randn(b)))


# ---- methods ---------------------------------------------------------------------------------------------------------
@case
def contrasted_views():
    """SimCLR's loss: every other picture of the batch is a negative."""

    def loss(net, a, b):
        z = F.normalize(net(torch.cat([a, b])), dim=1)
        n = a.shape[0]
        alike = z @ z.t() / 0.5
        alike = alike.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
        return F.cross_entropy(alike, torch.arange(2 * n).roll(n))

    return minimised(mlp(4, 16, 8, act=nn.ReLU), loss, lambda b: (torch.randn(b, 4), torch.randn(b, 4)), lambda n: sgd(n, 0.01))


@case
def self_distillation_with_centring():
    """DINO: a teacher that follows the student, whose outputs are centred by a buffer and sharpened."""
    net = nn.ModuleDict({"student": mlp(4, 16, 6, act=nn.GELU), "teacher": mlp(4, 16, 6, act=nn.GELU)})
    net["teacher"].requires_grad_(False)
    net.register_buffer("centre", torch.zeros(1, 6))

    def make(net):
        opt = torch.optim.AdamW(net["student"].parameters(), lr=1e-3, weight_decay=0.04)

        def update(first, second):
            said = [net["student"](v) / 0.1 for v in (first, second)]
            with torch.no_grad():
                taught = [net["teacher"](v) for v in (first, second)]
                sharp = [((t - net.centre) / 0.04).softmax(-1) for t in taught]
            loss = sum(torch.sum(-t * F.log_softmax(s, -1), -1).mean() for t, s in ((sharp[0], said[1]), (sharp[1], said[0]))) / 2
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                net.centre.mul_(0.9).add_(torch.cat(taught).mean(0, keepdim=True), alpha=0.1)
                for s, t in zip(net["student"].parameters(), net["teacher"].parameters()):
                    t.data.mul_(0.99).add_((1 - 0.99) * s.detach().data)
            return loss

        return update

    return net, make, lambda b: (torch.randn(b, 4), torch.randn(b, 4))


@case
def variance_and_covariance():
    """VICReg."""

    def loss(net, a, b):
        total = 25 * F.mse_loss(za := net(a), zb := net(b))
        for z in (za, zb):
            z = z - z.mean(0)
            total = total + 25 * F.relu(1 - torch.sqrt(z.var(0) + 1e-4)).mean()
            cov = (z.T @ z) / (z.shape[0] - 1)
            total = total + cov.flatten()[:-1].view(5, 7)[:, 1:].flatten().pow(2).sum() / 6
        return total / 25

    return minimised(mlp(4, 16, 6, act=nn.ReLU), loss, lambda b: (torch.randn(b, 4), torch.randn(b, 4)), lambda n: sgd(n, 0.005))


@case
def energy_by_langevin_steps():
    """An energy whose negatives are found by a few steps down its slope (the noise is an argument)."""

    def loss(net, real, start, noise):
        x = start
        for k in range(3):
            x = x.detach().requires_grad_(True)
            slope = torch.autograd.grad(net(x).sum(), x)[0]
            x = (x - 0.1 * slope.clamp(-0.3, 0.3) + 0.01 * noise[k]).clamp(-2, 2)
        up, down = net(real), net(x.detach())
        return up.mean() - down.mean() + 0.1 * (up.square() + down.square()).mean()

    return minimised(mlp(2, 16, 1, act=nn.SiLU), loss, lambda b: (torch.randn(b, 2), torch.randn(b, 2), torch.randn(3, b, 2)),
                     lambda n: torch.optim.Adam(n.parameters(), 1e-3, amsgrad=True))


def newton_schulz(g, steps=3):
    x = g / (g.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


@case
def muon_by_hand():
    """Momentum made orthogonal for matrices, and signs of momentum (Lion) for the rest: updates written out."""
    net = mlp(4, 8, 3)
    for i, p in enumerate(net.parameters()):
        net.register_buffer(f"momentum{i}", torch.zeros_like(p))

    def make(net):
        parameters, moments = list(net.parameters()), [b for n, b in net.named_buffers()]

        def update(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            with torch.no_grad():
                for p, m in zip(parameters, moments):
                    if p.ndim == 2:
                        m.mul_(0.9).add_(p.grad)
                        p.add_(newton_schulz(p.grad.add(m, alpha=0.9)), alpha=-0.02)
                    else:
                        p.add_(torch.sign(m * 0.9 + p.grad * 0.1), alpha=-1e-3)
                        m.lerp_(p.grad, 0.01)
                    p.grad = None
            return loss

        return update

    return net, make, lambda b: (torch.randn(b, 4), labels(b))


@case
def curvature_along_a_vector():
    """A Hessian times a vector, by a gradient of a gradient, as a penalty."""

    def loss(net, x, y, v):
        base = F.cross_entropy(net(x), y)
        weight = net[0].weight
        g, = torch.autograd.grad(base, weight, create_graph=True)
        along, = torch.autograd.grad((g * v).sum(), weight, create_graph=True)
        return base + 0.1 * along.pow(2).sum()

    return minimised(mlp(4, 8, 3), loss, lambda b: (torch.randn(b, 4), labels(b), torch.randn(8, 4)))


@case
def deep_equilibrium():
    """A fixpoint found without gradients, and one more step with them."""

    def forward(net, x):
        with torch.no_grad():
            z = torch.zeros(x.shape[0], 8)
            for _ in range(10):
                z = torch.tanh(net.again(z) * 0.5 + net.into(x))
        return net.read(torch.tanh(net.again(z) * 0.5 + net.into(x)))

    net = Fn(forward, again=nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), into=nn.Linear(4, 8), read=nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 4), labels(b)))
