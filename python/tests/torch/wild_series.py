"""Series, tables, graphs and recommendations as people have them: more cases for test_models.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, mlp, sgd
from models_newer import minimised
from torch.nn.utils import parametrizations


def adam(net):
    return torch.optim.Adam(net.parameters(), lr=2e-3, eps=1e-3)


# ---- series ----------------------------------------------------------------------------------------------------------
class NBeatsBlock(nn.Module):
    def __init__(self, units, thetas, device, backcast_length=10, forecast_length=4, kind="generic"):
        super().__init__()
        self.backcast_length, self.forecast_length, self.kind = backcast_length, forecast_length, kind
        self.fc = mlp(backcast_length, units, units, act=nn.ReLU)
        self.theta_b_fc, self.theta_f_fc = nn.Linear(units, thetas, bias=False), nn.Linear(units, thetas, bias=False)
        self.backcast_fc, self.forecast_fc = nn.Linear(thetas, backcast_length), nn.Linear(thetas, forecast_length)

    def basis(self, length, p):
        t = torch.linspace(0, 1, length)
        if self.kind == "trend":
            return torch.stack([t**i for i in range(p)])
        p1, p2 = (p // 2, p // 2) if p % 2 == 0 else (p // 2, p // 2 + 1)
        return torch.cat([torch.stack([torch.cos(2 * math.pi * i * t) for i in range(p1)]), torch.stack([torch.sin(2 * math.pi * i * t) for i in range(p2)])])

    def forward(self, x):
        x = F.relu(self.fc(x))
        b, f = self.theta_b_fc(x), self.theta_f_fc(x)
        if self.kind == "generic":
            return self.backcast_fc(F.relu(b)), self.forecast_fc(F.relu(f))
        return b.mm(self.basis(self.backcast_length, b.shape[1])), f.mm(self.basis(self.forecast_length, f.shape[1]))


@case
def n_beats():
    def loss(stacks, x, y):
        backcast, forecast = x, torch.zeros(size=(x.size()[0], 4))
        for block in stacks:
            b, f = block(backcast)
            backcast = backcast - b
            forecast = forecast + f
        return torch.mean(2.0 * torch.abs(forecast - y) / (torch.abs(forecast) + torch.abs(y) + 0.1))

    net = nn.ModuleList([NBeatsBlock(8, 3, "cpu", kind=k) for k in ("trend", "seasonality", "generic")])
    net[0].backcast_fc.requires_grad_(False)
    return minimised(net, loss, lambda b: (torch.randn(b, 10), torch.randn(b, 4)))


@case
def n_hits():
    """Pools of several widths, forecasts of few points made longer by interpolation."""

    def loss(net, x, y):
        residuals, forecast = x.flip(dims=(-1,)), x[:, -1:]
        for pool, fc, k in zip(net["pools"], net["fc"], (4, 2, 1)):
            theta = fc(pool(residuals.unsqueeze(1)).squeeze(1))
            back, knots = theta[:, :12], theta[:, 12:]
            f = F.interpolate(knots[:, None, :], size=4, mode="linear", align_corners=True).squeeze(1) if knots.shape[1] < 4 else knots
            residuals = residuals - back
            forecast = forecast + f
        return F.huber_loss(forecast, y)

    pools = nn.ModuleList([nn.MaxPool1d(k, k, ceil_mode=True) for k in (5, 2, 1)])
    fcs = nn.ModuleList([mlp(n, 8, 12 + k, act=nn.ReLU) for n, k in ((3, 1), (6, 2), (12, 4))])
    return minimised(nn.ModuleDict({"pools": pools, "fc": fcs}), loss, lambda b: (torch.randn(b, 12), torch.randn(b, 4)))


class RevIN(nn.Module):
    """Statistics of each series are kept as attributes between taking them off and putting them back."""

    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps, self.affine_weight, self.affine_bias = eps, nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x, mode):
        if mode == "norm":
            dim2reduce = tuple(range(1, x.ndim - 1))
            self.mean = torch.mean(x, dim=dim2reduce, keepdim=True).detach()
            self.stdev = torch.sqrt(torch.var(x, dim=dim2reduce, keepdim=True, unbiased=False) + self.eps).detach()
            return (x - self.mean) / self.stdev * self.affine_weight + self.affine_bias
        return (x - self.affine_bias) / (self.affine_weight + self.eps * self.eps) * self.stdev + self.mean


class PatchTST(nn.Module):
    """Patches by Tensor.unfold after padding, channels as examples, batch norm over transposed axes."""

    def __init__(self, channels=2, patch=4, stride=2, d=8):
        super().__init__()
        self.revin, self.pad, self.patch, self.stride = RevIN(channels), nn.ReplicationPad1d((0, stride)), patch, stride
        self.embed, self.place = nn.Linear(patch, d), nn.Parameter(torch.empty(6, d).uniform_(-0.02, 0.02))
        self.attn, self.norm = nn.MultiheadAttention(d, 2, batch_first=True), nn.BatchNorm1d(d)
        self.head = nn.Linear(6 * d, 3)

    def forward(self, x):
        x = self.pad(self.revin(x, "norm").permute(0, 2, 1))
        x = x.unfold(dimension=-1, size=self.patch, step=self.stride)
        b, c, n, p = x.shape
        x = self.embed(x).reshape(b * c, n, -1) + self.place
        x = x + self.attn(x, x, x, need_weights=False)[0]
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return self.revin(self.head(x.reshape(b, c, -1)).permute(0, 2, 1), "denorm")


@case
def patches_of_series():
    return minimised(PatchTST(), lambda n, x, y: F.mse_loss(n(x), y), lambda b: (torch.randn(b, 12, 2), torch.randn(b, 3, 2)))


@case
def decomposed_linear():
    """DLinear and TSMixer: a moving mean with repeated ends, a layer for each channel, mixing over time and features."""

    def loss(net, x, y):
        front, end = x[:, 0:1, :].repeat(1, 2, 1), x[:, -1:, :].repeat(1, 2, 1)
        trend = net["avg"](torch.cat([front, x, end], dim=1).permute(0, 2, 1)).permute(0, 2, 1)
        seasonal, trend = (x - trend).permute(0, 2, 1), trend.permute(0, 2, 1)
        out = torch.zeros([seasonal.size(0), seasonal.size(1), 3], dtype=seasonal.dtype)
        for i in range(2):
            out[:, i, :] = net["season"][i](seasonal[:, i, :]) + net["trend"][i](trend[:, i, :])
        res = net["norm"](x.reshape(x.shape[0], -1)).reshape(x.shape)
        x = x + F.relu(net["time"](res.transpose(1, 2))).transpose(1, 2)
        x = x + net["features"](x)
        return F.mse_loss(out.permute(0, 2, 1) + net["out"](x.transpose(1, 2)).transpose(1, 2), y)

    lists = {k: nn.ModuleList([nn.Linear(8, 3) for _ in range(2)]) for k in ("season", "trend")}
    net = nn.ModuleDict({"avg": nn.AvgPool1d(kernel_size=5, stride=1, padding=0), "norm": nn.BatchNorm1d(16), "time": nn.Linear(8, 8), "features": mlp(2, 6, 2, act=nn.ReLU),
                         "out": nn.Linear(8, 3), **lists})
    for layer in net["season"]:
        layer.weight = nn.Parameter((1 / 8) * torch.ones([3, 8]))
    return minimised(net, loss, lambda b: (torch.randn(b, 8, 2), torch.randn(b, 3, 2)))


class GatedResidual(nn.Module):
    def __init__(self, inp, hidden, out, context=None):
        super().__init__()
        self.skip = nn.Linear(inp, out) if inp != out else nn.Identity()
        self.fc1, self.fc2, self.gate, self.norm = nn.Linear(inp, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 2 * out), nn.LayerNorm(out)
        self.context = nn.Linear(context, hidden, bias=False) if context else None

    def forward(self, x, context=None):
        h = self.fc1(x)
        if context is not None:
            h = h + self.context(context)
        return self.norm(self.skip(x) + F.glu(self.gate(self.fc2(F.elu(h))), dim=-1))


@case
def temporal_fusion():
    """Choice of variables by weights, an LSTM that begins from static features, quantiles by pinball losses."""

    def loss(net, x, static, y):
        s = net["static"](static)
        embedded = torch.stack([layer(x[..., i:i + 1]) for i, layer in enumerate(net["embed"])], dim=-1)
        weights = F.softmax(net["select"](embedded.flatten(-2), s.unsqueeze(1).expand(-1, x.size(1), -1)), -1).unsqueeze(-2)
        chosen = (weights * torch.stack([g(embedded[..., i]) for i, g in enumerate(net["vars"])], -1)).sum(-1)
        out, _ = net["lstm"](chosen, (s.unsqueeze(0), s.unsqueeze(0)))
        out = net["norm"](chosen + F.glu(net["gate"](out)))
        attended, _ = net["attn"](out, out, out, attn_mask=torch.triu(torch.ones(x.size(1), x.size(1), dtype=torch.bool), 1), average_attn_weights=True)
        pred = net["head"](out + attended)[:, -2:]
        quantiles = torch.tensor([0.1, 0.5, 0.9])
        errors = y.unsqueeze(-1) - pred
        return torch.max((quantiles - 1) * errors, quantiles * errors).sum(-1).mean()

    d = 6
    net = nn.ModuleDict({"static": GatedResidual(2, d, d), "embed": nn.ModuleList([nn.Linear(1, d) for _ in range(3)]), "select": GatedResidual(3 * d, d, 3, d),
                         "vars": nn.ModuleList([GatedResidual(d, d, d) for _ in range(3)]), "lstm": nn.LSTM(d, d, batch_first=True), "gate": nn.Linear(d, 2 * d), "norm": nn.LayerNorm(d),
                         "attn": nn.MultiheadAttention(d, 2, batch_first=True), "head": nn.Linear(d, 3)})
    return minimised(net, loss, lambda b: (torch.randn(b, 5, 3), torch.randn(b, 2), torch.randn(b, 2)))


class Chomp1d(nn.Module):
    def __init__(self, chomp_size):
        super().__init__()
        self.chomp_size = chomp_size

    def forward(self, x):
        return x[:, :, :-self.chomp_size].contiguous()


class TemporalBlock(nn.Module):
    """locuslab's TCN, with weight norm as a parametrization."""

    def __init__(self, inp, out, dilation, k=2):
        super().__init__()
        conv = lambda i: parametrizations.weight_norm(nn.Conv1d(i, out, k, padding=(k - 1) * dilation, dilation=dilation))  # noqa: E731
        self.net = nn.Sequential(conv(inp), Chomp1d((k - 1) * dilation), nn.ReLU(), nn.Dropout(0.0), conv(out), Chomp1d((k - 1) * dilation), nn.ReLU())
        self.downsample = nn.Conv1d(inp, out, 1) if inp != out else None

    def forward(self, x):
        return F.relu(self.net(x) + (x if self.downsample is None else self.downsample(x)))


@case
def temporal_blocks_with_weight_norm():
    net = nn.Sequential(TemporalBlock(2, 5, 1), TemporalBlock(5, 5, 2), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(5, 3))
    return minimised(net, lambda n, x, y: F.nll_loss(F.log_softmax(n(x), dim=1), y), lambda b: (torch.randn(b, 2, 8), labels(b)), adam)


class SurrogateSpike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output.clone() / (100 * torch.abs(x) + 1.0) ** 2


@case
def spiking_net():
    """Leaky neurons over time, spikes with a slope of one's own, a reset by subtraction, the rate's regularisation."""

    def loss(net, x, y):
        v1, v2 = torch.zeros(x.size(0), 12), torch.zeros(x.size(0), 3)
        beta, out, spikes = net.beta.clamp(0, 1), [], 0.0
        for t in range(x.size(1)):
            spk = SurrogateSpike.apply(v1 - 1.0)
            v1 = beta * v1 + net.fc1(x[:, t]) - spk.detach()
            spikes = spikes + spk.sum()
            v2 = 0.9 * v2 + net.fc2(spk)
            out.append(v2)
        return F.cross_entropy(torch.stack(out).max(0)[0], y) + 1e-4 * spikes

    return minimised(Fn(None, fc1=nn.Linear(4, 12), fc2=nn.Linear(12, 3), beta=nn.Parameter(torch.tensor(0.85))), loss, lambda b: (torch.randn(b, 5, 4) * 2, labels(b)))


# ---- graphs ----------------------------------------------------------------------------------------------------------
def graph(b, nodes=7):
    """b * 3 edges of a graph; each node has one."""
    edges = torch.randint(0, nodes, (2, 3 * b))
    edges[1, :nodes] = torch.arange(nodes)[: edges.shape[1]]
    return edges


class GATConv(nn.Module):
    """Attention over edges: a softmax within segments by scatter_reduce."""

    def __init__(self, inp, out, heads=2):
        super().__init__()
        self.heads, self.out = heads, out
        self.lin = nn.Linear(inp, heads * out, bias=False)
        self.att_src, self.att_dst = nn.Parameter(torch.randn(1, heads, out)), nn.Parameter(torch.randn(1, heads, out))

    def forward(self, x, edge_index):
        n = x.size(0)
        h = self.lin(x).view(-1, self.heads, self.out)
        a_src, a_dst = (h * self.att_src).sum(-1), (h * self.att_dst).sum(-1)
        src, dst = edge_index
        alpha = F.leaky_relu(a_src[src] + a_dst[dst], 0.2)
        index = dst.unsqueeze(-1).expand_as(alpha)
        top = torch.full((n, self.heads), float("-inf")).scatter_reduce(0, index, alpha.detach(), reduce="amax", include_self=False)
        alpha = (alpha - top.index_select(0, dst)).exp()
        total = torch.zeros(n, self.heads).scatter_add_(0, index, alpha) + 1e-16
        alpha = alpha / total.index_select(0, dst)
        out = torch.zeros(n, self.heads, self.out).index_add_(0, dst, h[src] * alpha.unsqueeze(-1))
        return out.view(n, -1)


@case
def graph_attention_over_edges():
    def loss(net, x, edges, y):
        h = F.elu(net["one"](x, edges))
        return F.cross_entropy(net["two"](h, edges), y)

    net = nn.ModuleDict({"one": GATConv(4, 3), "two": GATConv(6, 3, 1)})
    return minimised(net, loss, lambda b: (torch.randn(7, 4), graph(b), labels(7)), adam)


@case
def messages_with_edges_and_pools():
    """NNConv and a GRU, Set2Set's reading, means and maxima over each graph's nodes."""

    def loss(net, x, edges, attr, batch, y):
        n, graphs = x.size(0), 3
        h = F.relu(net["up"](x))
        state = h.unsqueeze(0)
        for _ in range(2):
            w = net["edge"](attr).view(-1, 4, 4)
            m = torch.zeros_like(h).index_add(0, edges[1], torch.bmm(h[edges[0]].unsqueeze(1), w).squeeze(1))
            degree = torch.zeros(n).index_add(0, edges[1], torch.ones(edges.size(1))).clamp(min=1)
            m = F.relu(m / degree.unsqueeze(-1) + h @ net["root"].weight)
            h, state = net["gru"](m.unsqueeze(0), state)
            h = h.squeeze(0)
        mean = torch.zeros(graphs, 4).scatter_reduce(0, batch[:, None].expand(-1, 4), h, reduce="mean", include_self=False)
        most = torch.zeros(graphs, 4).scatter_reduce_(0, batch[:, None].expand(-1, 4), h, reduce="amax", include_self=False)
        return F.mse_loss(net["out"](torch.cat([mean, most], 1)).squeeze(1), y)

    net = nn.ModuleDict({"up": nn.Linear(3, 4), "edge": mlp(2, 6, 16, act=nn.ReLU), "root": nn.Linear(4, 4, bias=False), "gru": nn.GRU(4, 4), "out": nn.Linear(8, 1)})
    return minimised(net, loss, lambda b: (torch.randn(7, 3), graph(b), torch.randn(3 * b, 2), torch.tensor([0, 0, 0, 1, 1, 2, 2]), torch.randn(3)))


@case
def continuous_filters():
    """SchNet: distances of all pairs, radial functions, a cosine cutoff; energies whose slopes are forces."""

    def loss(net, z, pos, energy, forces):
        pos = pos.detach().requires_grad_(True)
        offsets = torch.linspace(0.0, 3.0, 6)
        d = (pos[:, :, None] - pos[:, None, :]).pow(2).sum(-1).add(torch.eye(pos.size(1))).sqrt()
        rbf = torch.exp(-0.5 / 0.6**2 * (d.unsqueeze(-1) - offsets) ** 2)
        cut = 0.5 * (torch.cos(d * math.pi / 3.0) + 1.0) * (d < 3.0).float() * (1 - torch.eye(pos.size(1)))
        x = net["embed"](z)
        ssp = lambda t: F.softplus(t) - math.log(2.0)  # noqa: E731
        w = net["f2"](ssp(net["f1"](rbf))) * cut.unsqueeze(-1)
        x = x + net["out"](ssp((w * net["in"](x).unsqueeze(1)).sum(2)))
        e = net["energy"](x).sum(dim=(1, 2))
        f = -torch.autograd.grad(e, pos, grad_outputs=torch.ones_like(e), create_graph=True)[0]
        return F.mse_loss(e, energy) + 5 * F.mse_loss(f, forces)

    net = nn.ModuleDict({"embed": nn.Embedding(5, 6, padding_idx=0), "f1": nn.Linear(6, 8), "f2": nn.Linear(8, 6), "in": nn.Linear(6, 6, bias=False), "out": nn.Linear(6, 6), "energy": mlp(6, 4, 1)})
    return minimised(net, loss, lambda b: (torch.randint(0, 5, (b, 4)), torch.randn(b, 4, 3), torch.randn(b), torch.randn(b, 4, 3)), lambda n: sgd(n, 1e-3))


@case
def knowledge_graphs():
    """TransE, DistMult, ComplEx by its real and imaginary parts, RotatE; negatives weighed by themselves; norms kept."""

    def make(net):
        opt = torch.optim.Adagrad(net.parameters(), lr=0.05)

        def score(h, r, t):
            e, rel = net["entity"], net["relation"]
            h, r, t = e(h), rel(r), e(t)
            (hr, hi), (rr, ri), (tr, ti) = (x.chunk(2, -1) for x in (h, r, t))
            complex_ = (hr * rr * tr + hi * rr * ti + hr * ri * ti - hi * ri * tr).sum(-1)
            phase = rr / (2.0 / math.pi)
            re, im = phase.cos(), phase.sin()
            rotated = torch.stack([hr * re - hi * im - tr, hr * im + hi * re - ti], 0).norm(dim=0).sum(-1)
            return 9.0 - torch.norm(h + r - t, p=1, dim=-1) + (h * r * t).sum(-1) + complex_ - rotated

        def step(pos, neg):
            h, r, t = pos.unbind(1)
            positive = F.logsigmoid(score(h, r, t))
            negative = score(h.unsqueeze(1), r.unsqueeze(1), neg)
            negative = (F.softmax(negative * 1.0, dim=1).detach() * F.logsigmoid(-negative)).sum(dim=1)
            loss = -(positive.mean() + negative.mean()) / 2 + 1e-3 * net["entity"].weight.norm(p=3) ** 3
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                norm = net["entity"].weight.norm(p=2, dim=1, keepdim=True)
                net["entity"].weight.div_(norm.clamp(min=1.0))
            return loss

        return step

    net = nn.ModuleDict({"entity": nn.Embedding(9, 6), "relation": nn.Embedding(4, 6)})
    return net, make, lambda b: (torch.stack([torch.randint(0, 9, (b,)), torch.randint(0, 4, (b,)), torch.randint(0, 9, (b,))], 1), torch.randint(0, 9, (b, 3)))


@case
def edges_of_points():
    """DGCNN: the nearest by topk of distances, features of edges by flat indices, pools of both kinds."""

    def graph_feature(x, k=4):
        inner = -2 * torch.matmul(x.transpose(2, 1), x)
        xx = torch.sum(x**2, dim=1, keepdim=True)
        idx = (-xx - inner - xx.transpose(2, 1)).topk(k=k, dim=-1)[1]
        b, d, n = x.size()
        idx = (idx + torch.arange(0, b).view(-1, 1, 1) * n).view(-1)
        x = x.transpose(2, 1).contiguous()
        feature = x.view(b * n, -1)[idx, :].view(b, n, k, d)
        x = x.view(b, n, 1, d).repeat(1, 1, k, 1)
        return torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2).contiguous()

    def loss(net, x, y):
        x = net["conv1"](graph_feature(x)).max(dim=-1, keepdim=False)[0]
        x = net["conv2"](graph_feature(x)).max(dim=-1, keepdim=False)[0]
        b = x.size(0)
        x = torch.cat((F.adaptive_max_pool1d(x, 1).view(b, -1), F.adaptive_avg_pool1d(x, 1).view(b, -1)), 1)
        eps, one_hot = 0.2, torch.zeros(b, 3).scatter(1, y.view(-1, 1), 1)
        one_hot = one_hot * (1 - eps) + (1 - one_hot) * eps / 2
        return -(one_hot * F.log_softmax(net["head"](x), dim=1)).sum(dim=1).mean()

    conv = lambda i, o: nn.Sequential(nn.Conv2d(i, o, kernel_size=1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(negative_slope=0.2))  # noqa: E731
    return minimised(nn.ModuleDict({"conv1": conv(6, 4), "conv2": conv(8, 6), "head": nn.Linear(12, 3)}), loss, lambda b: (torch.randn(b, 3, 10), labels(b)))


# ---- recommendations -------------------------------------------------------------------------------------------------
class SASRec(nn.Module):
    def __init__(self, items=12, d=8, n=5):
        super().__init__()
        self.item_emb, self.pos_emb = nn.Embedding(items + 1, d, padding_idx=0), nn.Embedding(n + 1, d, padding_idx=0)
        self.norm1, self.norm2, self.last = (nn.LayerNorm(d, eps=1e-8) for _ in range(3))
        self.attention = nn.MultiheadAttention(d, 1, 0.0)
        self.conv1, self.conv2 = nn.Conv1d(d, d, 1), nn.Conv1d(d, d, 1)

    def log2feats(self, log_seqs):
        seqs = self.item_emb(log_seqs) * self.item_emb.embedding_dim**0.5
        poss = torch.arange(1, log_seqs.shape[1] + 1).unsqueeze(0).repeat(log_seqs.shape[0], 1)
        poss = poss * (log_seqs != 0)
        seqs = seqs + self.pos_emb(poss)
        seqs = torch.transpose(seqs, 0, 1)
        tl = seqs.shape[0]
        attention_mask = ~torch.tril(torch.ones((tl, tl), dtype=torch.bool))
        q = self.norm1(seqs)
        out, _ = self.attention(q, seqs, seqs, attn_mask=attention_mask)
        seqs = torch.transpose(q + out, 0, 1)
        seqs = self.norm2(seqs)
        ff = self.conv2(F.relu(self.conv1(seqs.transpose(-1, -2)))).transpose(-1, -2)
        return self.last(seqs + ff)


@case
def sequential_recommendation():
    def loss(net, seq, pos, neg):
        feats = net.log2feats(seq)
        pos_logits, neg_logits = (feats * net.item_emb(pos)).sum(dim=-1), (feats * net.item_emb(neg)).sum(dim=-1)
        valid = (pos != 0).float()
        bce = nn.BCEWithLogitsLoss(reduction="none")
        total = (bce(pos_logits, torch.ones_like(pos_logits)) + bce(neg_logits, torch.zeros_like(neg_logits))) * valid
        loss = total.sum() / valid.sum()
        for param in net.item_emb.parameters():
            loss = loss + 1e-3 * torch.sum(param**2)
        return loss

    def batch(b):
        kept = torch.arange(5)[None] >= torch.randint(0, 4, (b, 1))
        return tuple(torch.randint(1, 13, (b, 5)) * kept for _ in range(3))

    return minimised(SASRec(), loss, batch, lambda n: torch.optim.Adam(n.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-3))


class Dice(nn.Module):
    """DIN's activation: a batch norm without weights decides between two slopes."""

    def __init__(self, d):
        super().__init__()
        self.bn, self.alpha = nn.BatchNorm1d(d, eps=1e-8, affine=False), nn.Parameter(torch.zeros(d))

    def forward(self, x):
        p = torch.sigmoid(self.bn(x))
        return self.alpha * (1 - p) * x + p * x


@case
def interest_and_several_tasks():
    """DIN's attention to a history, then MMoE's gates over experts for two tasks, one of them on the product of both."""

    def loss(net, target, history, dense, click, buy):
        q, h = net["item"](target), net["item"](history)
        b, t, d = h.shape
        queries = q.unsqueeze(1).expand(-1, t, -1)
        scores = net["attention"](torch.cat([queries, h, queries - h, queries * h], dim=-1)).squeeze(-1)
        scores = torch.where(history == 0, torch.ones_like(scores) * (-(2**32) + 1), scores)
        interest = torch.bmm(F.softmax(scores.unsqueeze(1) / d**0.5, -1), h).squeeze(1)
        x = torch.cat([q, interest, dense], 1)
        experts = torch.stack([e(x) for e in net["experts"]], dim=1)
        outs = [tower((F.softmax(gate(x), -1).unsqueeze(-1) * experts).sum(1)).squeeze(1) for gate, tower in zip(net["gates"], net["towers"])]
        ctr, cvr = outs[0].sigmoid(), outs[1].sigmoid()
        return F.binary_cross_entropy(ctr, click) + F.binary_cross_entropy(ctr * cvr, click * buy)

    expert = lambda: nn.Sequential(nn.Linear(10, 6), Dice(6))  # noqa: E731
    net = nn.ModuleDict({"item": nn.Embedding(9, 4, padding_idx=0), "attention": mlp(16, 6, 1, act=nn.Sigmoid), "experts": nn.ModuleList([expert() for _ in range(3)]),
                         "gates": nn.ModuleList([nn.Linear(10, 3) for _ in range(2)]), "towers": nn.ModuleList([mlp(6, 4, 1, act=nn.PReLU) for _ in range(2)])})
    return minimised(net, loss, lambda b: (torch.randint(1, 9, (b,)), torch.randint(0, 9, (b, 4)), torch.randn(b, 2), torch.rand(b).round(), torch.rand(b).round()))


@case
def variational_recommendation():
    """Mult-VAE with given noise, and GRU4Rec's losses over the items of the others in the batch."""

    def loss(net, x, noise, session, wanted):
        h = torch.tanh(net["enc"](F.normalize(x)))
        mu, logvar = net["mu"](h), net["logvar"](h)
        recon = net["dec"](mu + noise * torch.exp(0.5 * logvar))
        bce = -torch.mean(torch.sum(F.log_softmax(recon, 1) * x, -1))
        kld = -0.5 * torch.mean(torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1))
        out, _ = net["gru"](net["item"](session))
        logits = out[:, -1] @ net["item"](wanted).T
        n = logits.size(1)
        diff = logits.diag().view(-1, 1).expand_as(logits) - logits
        softmax = F.softmax(logits - logits * torch.eye(n), dim=1) * (1 - torch.eye(n))
        bpr_max = -torch.log((softmax * torch.sigmoid(diff)).sum(1) + 1e-24).mean() + 0.1 * (softmax * logits**2).sum(1).mean()
        top1 = (torch.sigmoid(-diff) + torch.sigmoid(logits**2)).mean() - torch.mean(torch.sigmoid(torch.diag(logits) ** 2)) / n
        return bce + 0.2 * kld + bpr_max + top1

    net = nn.ModuleDict({"enc": nn.Linear(9, 8), "mu": nn.Linear(8, 4), "logvar": nn.Linear(8, 4), "dec": nn.Linear(4, 9), "item": nn.Embedding(9, 5), "gru": nn.GRU(5, 5, batch_first=True)})
    return minimised(net, loss, lambda b: (torch.rand(b, 9).round(), torch.randn(b, 4), torch.randint(0, 9, (b, 4)), torch.randint(0, 9, (b,))), lambda n: sgd(n, 0.01))
