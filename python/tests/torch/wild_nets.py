"""Nets for odd things: flows by splines, slots, survival, sparse codes, constraints: more cases for test_models.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, mlp, sgd
from models_newer import minimised
from torch.nn.utils import parametrizations


# ---- odd nets --------------------------------------------------------------------------------------------------------
class RationalSplines(nn.Module):
    """Neural spline flows: widths and heights by softmax and running sums, bins by searchsorted, the logarithm of the slope."""

    def __init__(self, bins=4, bound=3.0):
        super().__init__()
        self.net, self.bins, self.bound = mlp(1, 8, 3 * bins - 1), bins, bound

    def forward(self, x):
        a, b = x[:, :1], x[:, 1:].squeeze(1)
        k, t = self.bins, self.bound
        w, h, d = torch.split(self.net(a), [k, k, k - 1], dim=1)
        w, h = 1e-3 + (1 - 1e-3 * k) * F.softmax(w, dim=-1), 1e-3 + (1 - 1e-3 * k) * F.softmax(h, dim=-1)
        d = F.pad(1e-3 + F.softplus(d), pad=(1, 1), mode="constant", value=1.0)
        cumw, cumh = (F.pad(torch.cumsum(v, dim=-1), pad=(1, 0), mode="constant", value=0.0) * 2 * t - t for v in (w, h))
        inside = (b >= -t) & (b <= t)
        at = torch.where(inside, b, torch.zeros_like(b))
        index = torch.searchsorted(cumw[:, 1:-1].detach().contiguous(), at.unsqueeze(-1).detach())
        pick = lambda v: v.gather(-1, index)[..., 0]  # noqa: E731
        width, height = pick(cumw[:, 1:] - cumw[:, :-1]), pick(cumh[:, 1:] - cumh[:, :-1])
        delta, d0, d1 = height / width, pick(d), d.gather(-1, index + 1)[..., 0]
        theta = (at - pick(cumw)) / width
        through = theta * (1 - theta)
        numerator = height * (delta * theta.pow(2) + d0 * through)
        denominator = delta + (d0 + d1 - 2 * delta) * through
        out = pick(cumh) + numerator / denominator
        slope = delta.pow(2) * (d1 * theta.pow(2) + 2 * delta * through + d0 * (1 - theta).pow(2))
        logdet = torch.log(slope) - 2 * torch.log(denominator)
        out, logdet = torch.where(inside, out, b), torch.where(inside, logdet, torch.zeros_like(b))
        return torch.stack([out, a.squeeze(1)], 1), logdet


@case
def neural_spline_flow():
    def loss(layers, x):
        total = torch.zeros(x.shape[0])
        for layer in layers:
            x, logdet = layer(x)
            total += logdet
        prior = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 1)
        return -(prior.log_prob(x) + total).mean()

    return minimised(nn.ModuleList([RationalSplines() for _ in range(2)]), loss, lambda b: (torch.randn(b, 2) * 1.5,), lambda n: sgd(n, 0.01))


@case
def slots_and_sets():
    """Slot attention with its GRU, and the Set Transformer's induced points and pools by attention."""

    def loss(net, x, noise, y):
        b, n, d = x.shape
        inputs = net["norm_in"](x)
        k, v = net["k"](inputs), net["v"](inputs)
        slots = net["mu"].weight.expand(b, 3, -1) + net["sigma"].weight.exp().expand(b, 3, -1) * noise
        for _ in range(2):
            prev = slots
            dots = torch.einsum("bid,bjd->bij", net["q"](net["norm_s"](slots)), k) * d**-0.5
            attn = dots.softmax(dim=1) + 1e-8
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = net["gru"](updates.reshape(-1, d), prev.reshape(-1, d)).reshape(b, -1, d)
            slots = slots + net["mlp"](net["norm_f"](slots))
        induced, _ = net["isab1"](net["points"].weight.unsqueeze(0).repeat(b, 1, 1), slots, slots)
        back, _ = net["isab2"](slots, induced, induced)
        pooled, _ = net["pma"](net["seed"].weight.repeat(b, 1, 1), back, back)
        return F.cross_entropy(net["head"](pooled.squeeze(1)), y)

    d = 6
    attention = {n: nn.MultiheadAttention(d, 2, batch_first=True) for n in ("isab1", "isab2", "pma")}
    net = nn.ModuleDict({**{n: nn.LayerNorm(d) for n in ("norm_in", "norm_s", "norm_f")}, **{n: nn.Linear(d, d, bias=False) for n in "qkv"}, "mu": nn.Embedding(1, d), "sigma": nn.Embedding(1, d),
                         "gru": nn.GRUCell(d, d), "mlp": mlp(d, 8, d, act=nn.ReLU), "points": nn.Embedding(2, d), "seed": nn.Embedding(1, d), "head": nn.Linear(d, 3), **attention})
    return minimised(net, loss, lambda b: (torch.randn(b, 5, d), torch.randn(b, 3, d), labels(b)))


@case
def survival_and_ranks():
    """Cox's partial likelihood by sorting and log-cumulative sums; ranks of ordered classes (CORAL); DeepHit's ranking."""

    def loss(net, x, time, event, rank):
        h = net["body"](x)
        risk = net["risk"](h).squeeze(1)
        order = torch.argsort(time, descending=True)
        risk_sorted, event_sorted = risk[order], event[order]
        cox = -((risk_sorted - torch.logcumsumexp(risk_sorted, dim=0)) * event_sorted).sum() / event_sorted.sum().clamp(min=1)
        logits = net["coral"](h) + net["biases"].weight.view(1, -1)
        levels = (rank.unsqueeze(1) > torch.arange(3)).float()
        coral = -torch.mean(torch.sum(F.logsigmoid(logits) * levels + (F.logsigmoid(logits) - logits) * (1 - levels), dim=1))
        earlier = ((time[:, None] < time[None, :]) & (event[:, None] > 0)).float()
        ranking = (earlier * torch.exp(-(risk[:, None] - risk[None, :]) / 0.5)).sum() / earlier.sum().clamp(min=1)
        return cox + coral + 0.1 * ranking

    net = nn.ModuleDict({"body": nn.Sequential(nn.Linear(4, 8), nn.SELU(), nn.BatchNorm1d(8)), "risk": nn.Linear(8, 1, bias=False), "coral": nn.Linear(8, 1, bias=False), "biases": nn.Embedding(1, 3)})
    return minimised(net, loss, lambda b: (torch.randn(b, 4), torch.rand(b) * 10, (torch.rand(b) > 0.3).float(), torch.randint(0, 4, (b,))), lambda n: sgd(n, 0.01))


@case
def bayes_by_backprop():
    """Weights drawn from their own normals with given noise, a mixture as the prior, the divergence by densities."""

    def loss(net, x, y, noise):
        sigma = torch.log1p(torch.exp(net.rho))
        w = net.mu + sigma * noise
        log_q = torch.distributions.Normal(net.mu, sigma).log_prob(w).sum()
        p1, p2 = (torch.exp(torch.distributions.Normal(0.0, s).log_prob(w)) for s in (1.0, 0.1))
        log_p = torch.log(0.5 * p1 + 0.5 * p2).sum()
        hidden = torch.tanh(F.linear(x, w[:, :4], w[:, 4]))
        mean, raw = net.out(hidden).chunk(2, 1)
        nll = F.gaussian_nll_loss(mean.squeeze(1), y, F.softplus(raw).squeeze(1) + 1e-3)
        return nll + (log_q - log_p) / 100

    net = Fn(None, mu=nn.Parameter(torch.randn(6, 5) * 0.3), rho=nn.Parameter(torch.full((6, 5), -2.0)), out=nn.Linear(6, 2))
    return minimised(net, loss, lambda b: (torch.randn(b, 4), torch.randn(b), torch.randn(6, 5)), lambda n: sgd(n, 1e-3))


@case
def sparse_codes_unrolled():
    """LISTA's shrinkage, a k-sparse layer by topk and scatter, tied and unit-norm decoders, dead units counted."""

    def make(net):
        opt = torch.optim.Adam(net.parameters(), lr=2e-3, eps=1e-3)

        def step(x):
            z = torch.sign(net.we(x)) * F.relu(net.we(x).abs() - net.theta)
            for _ in range(2):
                c = net.we(x) + net.s(z)
                z = torch.sign(c) * F.relu(torch.abs(c) - net.theta)
            pre = F.relu((x - net.b_dec) @ net.w_enc + net.b_enc)
            top, index = torch.topk(pre, 3, dim=-1)
            acts = torch.zeros_like(pre).scatter(-1, index, top)
            out = acts @ net.w_dec + net.b_dec
            loss = F.mse_loss(F.linear(z, net.we.weight.t()), x) + 0.01 * z.abs().sum(1).mean() + (out - x).pow(2).sum(-1).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                net.w_dec.data = net.w_dec.data / net.w_dec.data.norm(dim=-1, keepdim=True)
                active = (acts.sum(0) > 0).float()
                net.idle.copy_((net.idle + 1) * (1 - active))
            return loss

        return step

    net = Fn(None, we=nn.Linear(5, 8, bias=False), s=nn.Linear(8, 8, bias=False), theta=nn.Parameter(torch.full((8,), 0.1)), w_enc=nn.Parameter(torch.randn(5, 10) * 0.3),
             w_dec=nn.Parameter(F.normalize(torch.randn(10, 5), dim=-1)), b_enc=nn.Parameter(torch.zeros(10)), b_dec=nn.Parameter(torch.zeros(5)))
    net.register_buffer("idle", torch.zeros(10))
    return net, make, lambda b: (torch.randn(b, 5),)


@case
def invertible_convolutions():
    """Glow: norms by channels, a 1x1 convolution by its triangles, coupling, squeezing by views; bits of a dimension."""

    def loss(net, x):
        b, c, h, w = x.shape
        x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).contiguous().view(b, 4 * c, h // 2, w // 2)
        x = (x + net.loc) * net.scale
        logdet = (h // 2) * (w // 2) * torch.sum(torch.log(torch.abs(net.scale)))
        lower = net.w_l * torch.tril(torch.ones(4, 4), -1) + torch.eye(4)
        weight = net.w_p @ lower @ (net.w_u * torch.triu(torch.ones(4, 4), 1) + torch.diag(net.s_sign * torch.exp(net.w_s)))
        x = F.conv2d(x, weight.unsqueeze(2).unsqueeze(3))
        logdet = logdet + (h // 2) * (w // 2) * torch.sum(net.w_s)
        a, z = x.chunk(2, 1)
        log_s, t = net.net(a).chunk(2, 1)
        s = torch.sigmoid(log_s + 2)
        z = (z + t) * s
        logdet = logdet + torch.sum(torch.log(s).view(b, -1), 1)
        out = torch.cat([a, z], 1)
        prior = -0.5 * (math.log(2 * math.pi) + out**2).flatten(1).sum(1)
        return (-(prior + logdet) / (math.log(2) * c * h * w)).mean()

    q = torch.linalg.qr(torch.randn(4, 4))[0]
    w_s = torch.rand(4) + 0.5
    net = Fn(None, loc=nn.Parameter(torch.zeros(1, 4, 1, 1)), scale=nn.Parameter(torch.ones(1, 4, 1, 1)), w_l=nn.Parameter(torch.randn(4, 4) * 0.2), w_u=nn.Parameter(torch.randn(4, 4) * 0.2),
             w_s=nn.Parameter(torch.log(w_s)), net=nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(6, 4, 3, padding=1)))
    net.register_buffer("w_p", q)
    net.register_buffer("s_sign", torch.sign(torch.randn(4)))
    return minimised(net, loss, lambda b: (torch.randn(b, 1, 6, 6),), lambda n: sgd(n, 1e-2))


@case
def self_supervised_in_four_manners():
    """SimSiam, SwAV by Sinkhorn, supervised contrast, SigLIP: on the same features."""

    def supcon(features, target, temperature=0.5):
        mask = torch.eq(target.view(-1, 1), target.view(-1, 1).T).float()
        anchor = torch.cat(torch.unbind(features, dim=1), dim=0)
        logits = torch.div(torch.matmul(anchor, anchor.T), temperature)
        logits = logits - logits.max(dim=1, keepdim=True)[0].detach()
        mask = mask.repeat(2, 2)
        logits_mask = torch.scatter(torch.ones_like(mask), 1, torch.arange(mask.shape[0]).view(-1, 1), 0)
        mask = mask * logits_mask
        log_prob = logits - torch.log((torch.exp(logits) * logits_mask).sum(1, keepdim=True))
        return -((mask * log_prob).sum(1) / mask.sum(1).clamp(min=1)).view(2, -1).mean()

    @torch.no_grad()
    def sinkhorn(scores):
        q = torch.exp(scores / 0.5).t()
        q /= torch.sum(q)
        for _ in range(3):
            q /= torch.sum(q, dim=1, keepdim=True)
            q /= q.shape[0]
            q /= torch.sum(q, dim=0, keepdim=True)
            q /= q.shape[1]
        return (q * q.shape[1]).t()

    def make(net):
        opt = sgd(net)

        def step(x1, x2, y):
            z1, z2 = net.proj(net.body(x1)), net.proj(net.body(x2))
            p1, p2 = net.pred(z1), net.pred(z2)
            simsiam = -(F.cosine_similarity(p1, z2.detach(), dim=-1).mean() + nn.CosineSimilarity(dim=1)(p2, z1.detach()).mean()) * 0.5
            n1, n2 = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
            with torch.no_grad():
                w = net.prototypes.weight.data.clone()
                net.prototypes.weight.copy_(F.normalize(w, dim=1, p=2))
            s1, s2 = net.prototypes(n1), net.prototypes(n2)
            swav = -0.5 * torch.mean(torch.sum(sinkhorn(s1) * F.log_softmax(s2 / 0.5, dim=1), dim=1) + torch.sum(sinkhorn(s2) * F.log_softmax(s1 / 0.5, dim=1), dim=1))
            logits = n1 @ n2.t() * net.t.exp() + net.b
            siglip = -F.logsigmoid((2 * torch.eye(len(logits)) - torch.ones(len(logits))) * logits).sum() / len(logits)
            loss = simsiam + swav + siglip + supcon(torch.stack([n1, n2], 1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return step

    net = Fn(None, body=nn.Sequential(nn.Linear(4, 12), nn.BatchNorm1d(12), nn.ReLU(inplace=True)), proj=nn.Linear(12, 6), pred=mlp(6, 3, 6, act=nn.ReLU), prototypes=nn.Linear(6, 5, bias=False),
             t=nn.Parameter(torch.ones(()) * 1.0), b=nn.Parameter(torch.ones([]) * -2.0))
    return net, make, lambda b: (torch.randn(b, 4), torch.randn(b, 4), labels(b))


@case
def hard_triplets_and_prototypes():
    """Batch-hard triplets by masks, centres of classes, Prototypical nets by views; proxies by angles."""

    def loss(net, x, y, support):
        z = net["body"](x)
        square = z.pow(2).sum(1)
        dist = (square[None] - 2 * z @ z.t() + square[:, None]).clamp(min=0)
        zero = (dist == 0).float()
        dist = (1.0 - zero) * torch.sqrt(dist + zero * 1e-12)
        same = y[None] == y[:, None]
        positive = (same & ~torch.eye(len(y), dtype=torch.bool)).float()
        hardest_positive = (positive * dist).max(1, keepdim=True)[0]
        hardest_negative = (dist + dist.max(1, keepdim=True)[0] * same.float()).min(1, keepdim=True)[0]
        triplet = F.relu(hardest_positive - hardest_negative + 0.3).mean()
        centre = 0.5 * (z - net["centres"](y)).pow(2).sum(1).mean()
        prototypes = net["body"](support).view(3, 2, -1).mean(1)
        return triplet + 0.1 * centre + F.cross_entropy(-torch.cdist(z, prototypes) ** 2, y) + F.cross_entropy(10 * F.linear(F.normalize(z), F.normalize(net["proxies"].weight)), y)

    net = nn.ModuleDict({"body": mlp(4, 8, 5), "centres": nn.Embedding(3, 5), "proxies": nn.Embedding(3, 5)})
    return minimised(net, loss, lambda b: (torch.randn(b, 4), labels(b), torch.randn(6, 4)), lambda n: sgd(n, 0.01))


@case
def constrained_layers():
    """Spectral norms, a bilinear layer, weights kept positive by softplus, a monotone net, orthogonality as a penalty."""

    class Positive(nn.Module):
        def forward(self, w):
            return F.softplus(w)

    def loss(net, a, b, y):
        h = net["spectral"](torch.tanh(net["bilinear"](a, b)))
        w = net["spectral"].weight
        ortho = (w @ w.t() - torch.eye(w.shape[0])).pow(2).sum().sqrt()
        return F.mse_loss(net["monotone"](h).squeeze(-1), y) + 0.01 * ortho

    monotone = nn.Sequential(nn.Linear(6, 5), nn.Softsign(), nn.Linear(5, 1))
    for i in (0, 2):
        torch.nn.utils.parametrize.register_parametrization(monotone[i], "weight", Positive())
    net = nn.ModuleDict({"bilinear": nn.Bilinear(3, 4, 6), "spectral": parametrizations.spectral_norm(nn.Linear(6, 6)), "monotone": monotone})
    return minimised(net, loss, lambda b: (torch.randn(b, 3), torch.randn(b, 4), torch.randn(b)))


@case
def routed_by_name():
    """A ModuleDict by a Python string, layers by a list of booleans, a branch on shapes, dtypes looked at."""

    class Routed(nn.Module):
        def __init__(self):
            super().__init__()
            self.stems = nn.ModuleDict({"wide": nn.Linear(6, 8), "narrow": nn.Linear(4, 8)})
            self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
            self.use = [True, False, True]
            self.head = nn.Linear(8, 3)
            self.register_buffer("seen", torch.zeros(1, dtype=torch.long))

        def forward(self, x):
            if not torch.is_floating_point(x):
                x = x.float()
            x = self.stems["wide" if x.shape[-1] == 6 else "narrow"](x)
            for layer, used in zip(self.layers, self.use):
                if used:
                    x = x + torch.relu(layer(x))
            if self.training:
                self.seen += x.size(0)
            if x.dim() == 3:
                x = x[:, -1]
            return self.head(x)

    def loss(net, a, b, y):
        return F.cross_entropy(net(a), y) + F.cross_entropy(net(b), y)

    return minimised(Routed(), loss, lambda b: (torch.randn(b, 4), torch.randint(0, 3, (b, 2, 6)), labels(b)))

