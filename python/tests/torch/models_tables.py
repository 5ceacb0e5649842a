"""Programs over tables, sets, graphs and pairs that a stranger would try, beside those of models.py: each is compiled as it is."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, mlp, trained
from more_models import adam, minimised


def fields(b, count=4, n=10):
    return torch.randint(0, n, (b, count)) + torch.arange(count) * n


def clicks(b):
    return fields(b), (torch.rand(b) < 0.4).float()


def clicked(net, x, y):
    return F.binary_cross_entropy_with_logits(net(x), y)


@case
def factorisation_machine():
    """DeepFM: pairs by the square of a sum, and a net, over the same embeddings."""

    def forward(s, x):
        e = s.embed(x)
        pairs = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1)
        return s.bias + s.linear(x).sum((1, 2)) + pairs + s.deep(e.flatten(1)).squeeze(1)

    net = Fn(forward, embed=nn.Embedding(40, 5), linear=nn.Embedding(40, 1), deep=mlp(20, 8, 1, act=nn.ReLU))
    net.bias = nn.Parameter(torch.zeros(1))
    return net, minimised(clicked), clicks


@case
def crossed_features():
    """DCN with low-rank crosses, and xDeepFM's outer products."""

    def forward(s, x):
        e = s.embed(x)
        x0 = h = e.flatten(1)
        for u, v in zip(s.u, s.v):
            h = x0 * v(u(h)) + h
        outer = torch.einsum("bid,bjd->bijd", e, e).flatten(1, 2)
        compressed = s.compress(outer)
        return s.head(torch.cat([h, compressed.sum(-1)], 1)).squeeze(1)

    net = Fn(forward, embed=nn.Embedding(40, 5), u=nn.ModuleList([nn.Linear(20, 3, bias=False) for _ in range(2)]),
             v=nn.ModuleList([nn.Linear(3, 20) for _ in range(2)]), compress=nn.Conv1d(16, 3, 1), head=nn.Linear(23, 1))
    return net, minimised(clicked), clicks


@case
def neural_matrix_factorisation():
    def loss_of(net, user, item, y):
        product = net.user(user) * net.item(item)
        deep = net.deep(torch.cat([net.user_deep(user), net.item_deep(item)], -1))
        return F.binary_cross_entropy(torch.sigmoid(net.head(torch.cat([product, deep], -1))).squeeze(-1), y)

    net = Fn(None, user=nn.Embedding(12, 4), item=nn.Embedding(15, 4), user_deep=nn.Embedding(12, 4), item_deep=nn.Embedding(15, 4),
             deep=mlp(8, 8, 4, act=nn.ReLU), head=nn.Linear(8, 1))
    return net, minimised(loss_of), lambda b: (torch.randint(0, 12, (b,)), torch.randint(0, 15, (b,)), (torch.rand(b) < 0.4).float())


@case
def pairs_by_rank():
    def loss_of(net, user, liked, other):
        score = lambda i: (net.user(user) * net.item(i)).sum(1) + net.bias(i).squeeze(1)  # noqa: E731
        keep = net.user(user).pow(2).sum() + net.item(liked).pow(2).sum() + net.item(other).pow(2).sum()
        return -F.logsigmoid(score(liked) - score(other)).mean() + 1e-4 * keep

    return (Fn(None, user=nn.Embedding(12, 4), item=nn.Embedding(15, 4), bias=nn.Embedding(15, 1)), minimised(loss_of),
            lambda b: (torch.randint(0, 12, (b,)), torch.randint(0, 15, (b,)), torch.randint(0, 15, (b,))))


@case
def table_transformer():
    """TabTransformer: categories attend to one another, numbers are normed; FT-Transformer's tokens of numbers beside."""

    def forward(s, x, numbers):
        tokens = torch.cat([s.cls.expand(len(x), 1, -1), s.embed(x), numbers[..., None] * s.scale + s.shift], 1)
        return s.head(torch.cat([s.body(tokens)[:, 0], s.norm(numbers)], 1))

    net = Fn(forward, embed=nn.Embedding(40, 8), body=nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True), 2,
             enable_nested_tensor=False), norm=nn.BatchNorm1d(3), head=mlp(11, 8, 3, act=nn.ReLU))
    net.cls, net.scale, net.shift = (nn.Parameter(0.1 * torch.randn(s)) for s in ((1, 1, 8), (3, 8), (3, 8)))
    return trained(net, lambda b: (fields(b), torch.randn(b, 3), labels(b)))


@case
def wide_and_deep():
    """Two optimizers, one for each part, as the paper has it."""

    def make(net):
        of_wide = torch.optim.Adagrad(net.wide.parameters(), lr=0.05)
        of_deep = torch.optim.RMSprop([*net.embed.parameters(), *net.deep.parameters()], lr=1e-3, momentum=0.9)

        def update(x, y):
            loss = F.binary_cross_entropy_with_logits(net.wide(x).sum((1, 2)) + net.deep(net.embed(x).flatten(1)).squeeze(1), y)
            of_wide.zero_grad()
            of_deep.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(net.deep.parameters(), 0.05)
            of_wide.step()
            of_deep.step()
            return loss

        return update

    return Fn(None, wide=nn.Embedding(40, 1), embed=nn.Embedding(40, 4), deep=mlp(16, 8, 1, act=nn.ReLU)), make, clicks


@case
def sparse_choice_of_features():
    """TabNet's mask by sparsemax: a sort, running sums and a threshold."""

    def sparsemax(z):
        order = z.sort(-1, descending=True).values
        sums, k = order.cumsum(-1), torch.arange(1, z.shape[-1] + 1)
        supported = (1 + k * order > sums).sum(-1, keepdim=True)
        return F.relu(z - (sums.gather(-1, supported - 1) - 1) / supported)

    def forward(s, x):
        prior, out = torch.ones_like(x), 0.0
        for gate, part in zip(s.gates, s.parts):
            mask = sparsemax(gate(x) * prior)
            prior = prior * (1.3 - mask)
            out = out + F.relu(part(mask * x))
        return s.head(out)

    net = Fn(forward, gates=nn.ModuleList([nn.Linear(6, 6) for _ in range(2)]), parts=nn.ModuleList([nn.Linear(6, 8) for _ in range(2)]), head=nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 6), labels(b)), optimizer=adam)


@case
def sets_with_masks():
    """Deep Sets beside a pooling by attention."""

    def forward(s, x, there):
        h = s.each(x) * there[..., None]
        mean = h.sum(1) / there.sum(1, keepdim=True).clamp(min=1)
        largest = h.masked_fill(there[..., None] == 0, -1e9).max(1).values
        pooled, _ = s.pool(s.seed.expand(len(x), -1, -1), h, h, key_padding_mask=there == 0)
        return s.head(torch.cat([mean, largest, pooled.squeeze(1)], 1))

    net = Fn(forward, each=mlp(3, 8, 8, act=nn.ReLU), pool=nn.MultiheadAttention(8, 2, batch_first=True), head=nn.Linear(24, 3))
    net.seed = nn.Parameter(torch.randn(1, 1, 8))

    def batch(b):
        there = (torch.rand(b, 5) < 0.7).float()
        there[:, 0] = 1
        return torch.randn(b, 5, 3), there, labels(b)

    return trained(net, batch)


@case
def graphs_with_edges():
    """GraphSAGE and GIN over lists of edges: sums, means and maxima of neighbours."""

    def forward(s, x, edges):
        source, goal = edges
        total = torch.zeros_like(x).index_add(0, goal, x[source])
        degree = torch.zeros(len(x)).index_add(0, goal, torch.ones(len(source))).clamp(min=1)
        h = F.relu(s.own(x) + s.near(total / degree[:, None]))
        h = s.gin((1 + s.eps) * h + torch.zeros_like(h).index_add_(0, goal, h[source]))
        return s.head(h)

    net = Fn(forward, own=nn.Linear(4, 8), near=nn.Linear(4, 8, bias=False), gin=mlp(8, 8, 8, act=nn.ReLU), head=nn.Linear(8, 3))
    net.eps = nn.Parameter(torch.zeros(1))
    return trained(net, lambda b: (torch.randn(b, 4), torch.randint(0, b, (2, 3 * b)), labels(b)), optimizer=adam)


@case
def normalised_adjacency():
    """GCN and APPNP with a dense adjacency made inside."""

    def forward(s, x, links):
        a = torch.maximum(links, links.T).fill_diagonal_(1.0)
        scale = a.sum(1).rsqrt()
        a = scale[:, None] * a * scale[None]
        h = first = s.b(F.relu(a @ s.a(x)))
        for _ in range(3):
            h = 0.9 * (a @ h) + 0.1 * first
        return h

    return trained(Fn(forward, a=nn.Linear(4, 8), b=nn.Linear(8, 3)), lambda b: (torch.randn(b, 4), (torch.rand(b, b) < 0.3).float(), labels(b)), optimizer=adam)


@case
def pictures_of_the_same_thing():
    """InfoNCE against a queue that the function itself moves on, as MoCo has it; a key net that follows slowly."""

    def make(net):
        opt = torch.optim.SGD(net.query.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)

        def update(x, again):
            q = F.normalize(net.query(x), dim=1)
            with torch.no_grad():
                for p, k in zip(net.query.parameters(), net.key.parameters()):
                    k.data.mul_(0.99).add_(p.data, alpha=0.01)
                k = F.normalize(net.key(again), dim=1)
            logits = torch.cat([(q * k).sum(1, keepdim=True), q @ net.queue], 1) / 0.2
            loss = F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))
            opt.zero_grad()
            loss.backward()
            opt.step()
            net.queue.copy_(torch.cat([k.T, net.queue], 1)[:, :16])
            return loss

        return update

    query = mlp(6, 8, 4, act=nn.ReLU)
    net = Fn(None, query=query, key=mlp(6, 8, 4, act=nn.ReLU))
    net.register_buffer("queue", F.normalize(torch.randn(4, 16), dim=0))
    return net, make, lambda b: (torch.randn(b, 6), torch.randn(b, 6))


@case
def decorrelated_views():
    """Barlow twins, VICReg and SimSiam on the same pair."""

    def loss_of(net, x, y):
        a, b = net.body(x), net.body(y)
        normed = [(t - t.mean(0)) / (t.std(0) + 1e-4) for t in (a, b)]
        c = normed[0].T @ normed[1] / len(x)
        on = (torch.diagonal(c) - 1).pow(2).sum()
        off = c.pow(2).sum() - torch.diagonal(c).pow(2).sum()
        spread = sum(F.relu(1 - (t.var(0) + 1e-4).sqrt()).mean() for t in (a, b))
        alike = -0.5 * sum(F.cosine_similarity(net.predict(p), z.detach(), dim=-1).mean() for p, z in ((a, b), (b, a)))
        return on + 0.005 * off + spread + alike

    return Fn(None, body=mlp(6, 16, 5, act=nn.ReLU), predict=mlp(5, 8, 5, act=nn.ReLU)), minimised(loss_of), lambda b: (torch.randn(b, 6), torch.randn(b, 6))


@case
def faces_by_angles():
    """ArcFace: an angle's margin by arc cosines, and a loss to centres."""

    def loss_of(net, x, y):
        f = F.normalize(net.body(x))
        cosine = (f @ F.normalize(net.centres).T).clamp(-1 + 1e-6, 1 - 1e-6)
        angle = torch.acos(cosine)
        marked = torch.where(F.one_hot(y, 3).bool(), torch.cos(angle + 0.3), cosine)
        return F.cross_entropy(8.0 * marked, y) + 0.1 * (f - net.centres[y]).pow(2).sum(1).mean()

    net = Fn(None, body=mlp(6, 8, 4))
    net.centres = nn.Parameter(torch.randn(3, 4))
    return net, minimised(loss_of), lambda b: (torch.randn(b, 6), labels(b))


@case
def generated_weights():
    """A hypernetwork: each row has layers of its own; convolutions with kernels of each sample through groups."""

    def forward(s, task, x, picture):
        w = s.make(task)
        first, bias, second = w[:, :32].view(-1, 8, 4), w[:, 32:40], w[:, 40:64].view(-1, 3, 8)
        h = F.relu(torch.baddbmm(bias[:, :, None], first, x[:, :, None]))
        kernels = s.kernels(task).view(-1, 1, 3, 3)
        own = F.conv2d(picture.view(1, -1, 5, 5), kernels, groups=len(x)).view(len(x), -1).mean(1)
        return torch.bmm(second, h).squeeze(2) * torch.sigmoid(own)[:, None]

    net = Fn(forward, make=mlp(2, 16, 64), kernels=nn.Linear(2, 9))
    return trained(net, lambda b: (torch.randn(b, 2), torch.randn(b, 4), torch.randn(b, 1, 5, 5), labels(b)), optimizer=adam)


class Splines(nn.Module):
    """A layer of a Kolmogorov-Arnold net: B-splines of the third degree by their recursion."""

    def __init__(self, inputs, outputs, pieces=4, degree=3):
        super().__init__()
        self.register_buffer("knots", (torch.arange(-degree, pieces + degree + 1) * (2 / pieces) - 1).float())
        self.degree, self.base = degree, nn.Linear(inputs, outputs)
        self.weight = nn.Parameter(0.1 * torch.randn(outputs, inputs, pieces + degree))

    def forward(self, x):
        k, x1 = self.knots, x[..., None]
        b = ((x1 >= k[:-1]) & (x1 < k[1:])).to(x.dtype)
        for d in range(1, self.degree + 1):
            b = (x1 - k[:-(d + 1)]) / (k[d:-1] - k[:-(d + 1)]) * b[..., :-1] + (k[d + 1:] - x1) / (k[d + 1:] - k[1:-d]) * b[..., 1:]
        return self.base(F.silu(x)) + torch.einsum("big,oig->bo", b, self.weight)


@case
def spline_nets():
    return trained(nn.Sequential(Splines(3, 4), Splines(4, 2)), lambda b: (torch.rand(b, 3) * 1.8 - 0.9, torch.randn(b, 2)), loss=F.mse_loss, optimizer=adam)


@case
def mixture_of_densities():
    def loss_of(net, x, y):
        weight, mean, log_std = net(x).chunk(3, -1)
        each = -0.5 * ((y - mean) * (-log_std).exp()) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
        return -torch.logsumexp(weight.log_softmax(-1) + each, -1).mean()

    return mlp(2, 16, 12), minimised(loss_of), lambda b: (torch.randn(b, 2), torch.randn(b, 1))


@case
def weights_of_several_tasks():
    """Homoscedastic weights, quantiles by pinball losses, an ordinal loss, and directions by an angle."""

    def loss_of(net, x, y, rank, angle):
        h = net.body(x)
        q = net.quantiles(h)
        pinball = torch.maximum(net.levels * (y - q), (net.levels - 1) * (y - q)).mean()
        steps = (rank[:, None] > torch.arange(3)).float()
        ordinal = F.binary_cross_entropy_with_logits(net.rank(h) + net.cuts, steps)
        point = net.direction(h)
        turn = torch.atan2(point[:, 0], point[:, 1])
        away = torch.remainder(turn - angle + math.pi, 2 * math.pi) - math.pi
        losses = torch.stack([pinball, ordinal, away.pow(2).mean()])
        return (torch.exp(-net.log_variances) * losses + net.log_variances).sum()

    net = Fn(None, body=mlp(4, 16, 8), quantiles=nn.Linear(8, 3), rank=nn.Linear(8, 1), direction=nn.Linear(8, 2))
    net.cuts, net.log_variances = nn.Parameter(torch.tensor([1.0, 0.0, -1.0])), nn.Parameter(torch.zeros(3))
    net.register_buffer("levels", torch.tensor([0.1, 0.5, 0.9]))
    return net, minimised(loss_of), lambda b: (torch.randn(b, 4), torch.randn(b, 1), torch.randint(0, 4, (b,)), torch.rand(b) * 6 - 3)


@case
def evidence_of_classes():
    """Evidential learning: Dirichlet's divergence with gamma and digamma functions."""

    def loss_of(net, x, y):
        alpha = F.softplus(net(x)) + 1
        hot, total = F.one_hot(y, 3).float(), alpha.sum(1, keepdim=True)
        fit = (hot * (torch.digamma(total) - torch.digamma(alpha))).sum(1)
        other = hot + (1 - hot) * alpha
        flat = torch.distributions.Dirichlet(torch.ones_like(other))
        return (fit + 0.1 * torch.distributions.kl_divergence(torch.distributions.Dirichlet(other), flat)).mean()

    return mlp(4, 16, 3), minimised(loss_of), lambda b: (torch.randn(b, 4), labels(b))


@case
def four_parts_of_a_batch():
    """Gradients of four parts added up before one step, with the loss divided."""

    def make(net):
        opt = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.1)

        def update(x, y):
            opt.zero_grad()
            total = 0.0
            for part, want in zip(x.unflatten(0, (4, -1)), y.unflatten(0, (4, -1))):
                loss = F.cross_entropy(net(part), want) / 4
                loss.backward()
                total = total + loss.detach()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            return total

        return update

    return mlp(5, 8, 3), make, lambda b: (torch.randn(4 * b, 5), labels(4 * b))


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.strength * g, None


class Binary(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        ctx.save_for_backward(weight)
        return weight.sign() * weight.abs().mean()

    @staticmethod
    def backward(ctx, g):
        (weight,) = ctx.saved_tensors
        return g * (weight.abs() <= 1)


@case
def domains_by_a_reversed_gradient():
    """Gradients of one's own: a layer that turns them round, and weights of one bit that learn straight through."""

    def loss_of(net, x, y, domain):
        h = F.relu(F.linear(x, Binary.apply(net.weight)))
        return F.cross_entropy(net.label(h), y) + F.cross_entropy(net.domain(Reversal.apply(h, 0.3)), domain)

    net = Fn(None, label=nn.Linear(8, 3), domain=mlp(8, 8, 2))
    net.weight = nn.Parameter(0.5 * torch.randn(8, 5))
    return net, minimised(loss_of), lambda b: (torch.randn(b, 5), labels(b), labels(b, 2))
