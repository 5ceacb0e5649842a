"""Programs over sequences that a stranger would try, beside those of models.py: each is compiled as it is."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, mlp, trained
from more_models import adam, minimised


def words(b, n=11, length=6):
    return torch.randint(0, n, (b, length))


def next_words(out, y):
    return F.cross_entropy(out.flatten(0, 1), y.flatten())


class Rwkv(nn.Module):
    """A cell of RWKV's: shifted tokens, sums with exponential decay kept apart from their largest exponent, squared rectifiers."""

    def __init__(self, n=11, width=8):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(n, width), nn.LayerNorm(width), nn.Linear(width, n)
        self.decay, self.first, self.mix = (nn.Parameter(torch.randn(width) * 0.3) for _ in range(3))
        self.k, self.v, self.r, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 16, bias=False), nn.Linear(16, width, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        h = self.norm(x)
        before = F.pad(h, (0, 0, 1, -1))
        m = torch.sigmoid(self.mix)
        h = h * m + before * (1 - m)
        k, v, r = self.k(h), self.v(h), torch.sigmoid(self.r(h))
        rate = -torch.exp(self.decay)
        top, bottom, largest = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), torch.full_like(k[:, 0], -1e30)
        found = []
        for t in range(k.shape[1]):
            now = torch.maximum(largest, self.first + k[:, t])
            a, b = torch.exp(largest - now), torch.exp(self.first + k[:, t] - now)
            found.append((a * top + b * v[:, t]) / (a * bottom + b))
            now = torch.maximum(largest + rate, k[:, t])
            a, b = torch.exp(largest + rate - now), torch.exp(k[:, t] - now)
            top, bottom, largest = a * top + b * v[:, t], a * bottom + b, now
        x = x + self.out(r * torch.stack(found, 1))
        return self.head(x + self.down(torch.relu(self.up(x)) ** 2))


@case
def rwkv():
    return trained(Rwkv(), lambda b: (words(b), words(b)), loss=next_words, optimizer=adam)


@case
def minimal_gru_in_logarithms():
    """minGRU: all moments at once, by sums and log-sum-exps along the time."""

    def g(x):
        return torch.where(x >= 0, (F.relu(x) + 0.5).log(), -F.softplus(-x))

    def forward(s, tokens):
        x = s.embed(tokens)
        k, h = s.gate(x), g(s.hidden(x))
        decay = F.pad(torch.cumsum(-F.softplus(k), 1), (0, 0, 1, 0))
        values = torch.cat([g(torch.zeros_like(h[:, :1])), -F.softplus(-k) + h], 1)
        return s.head((decay + torch.logcumsumexp(values - decay, 1)).exp()[:, 1:])

    net = Fn(forward, embed=nn.Embedding(11, 8), gate=nn.Linear(8, 8), hidden=nn.Linear(8, 8), head=nn.Linear(8, 11))
    return trained(net, lambda b: (words(b), words(b)), loss=next_words, optimizer=adam)


class Selective(nn.Module):
    """A state space whose steps depend on the input, one moment after the other."""

    def __init__(self, width=6, state=4):
        super().__init__()
        self.inside, self.out, self.conv = nn.Linear(width, 2 * width), nn.Linear(width, width), nn.Conv1d(width, width, 3, padding=2, groups=width)
        self.of_x, self.of_step = nn.Linear(width, 1 + 2 * state), nn.Linear(1, width)
        self.a = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(width, 1))
        self.d, self.state = nn.Parameter(torch.ones(width)), state

    def forward(self, x):
        u, gate = self.inside(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        step, b, c = self.of_x(u).split([1, self.state, self.state], -1)
        step = F.softplus(self.of_step(step))
        da = torch.exp(step[..., None] * -torch.exp(self.a))
        db = step[..., None] * b[:, :, None] * u[..., None]
        h, found = torch.zeros_like(da[:, 0]), []
        for t in range(x.shape[1]):
            h = da[:, t] * h + db[:, t]
            found.append((h * c[:, t, None]).sum(-1))
        return self.out((torch.stack(found, 1) + u * self.d) * F.silu(gate))


@case
def selective_state_space():
    net = nn.Sequential(nn.Linear(3, 6), Selective(), nn.Linear(6, 3))
    return trained(net, lambda b: (torch.randn(b, 7, 3), torch.randn(b, 7, 3)), loss=F.mse_loss, optimizer=adam)


class Translator(nn.Module):
    """LSTM to LSTM with additive attention, teacher forcing in a loop of cells."""

    def __init__(self, n=11, width=8):
        super().__init__()
        self.source, self.target = nn.Embedding(n, width, padding_idx=0), nn.Embedding(n, width)
        self.encoder, self.cell = nn.LSTM(width, width, batch_first=True), nn.LSTMCell(2 * width, width)
        self.of_query, self.of_keys, self.score, self.head = (nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1), nn.Linear(2 * width, n))

    def forward(self, x, y):
        seen, (h, c) = self.encoder(self.source(x))
        h, c, keys, found = h[0], c[0], self.of_keys(seen), []
        for t in range(y.shape[1]):
            score = self.score(torch.tanh(keys + self.of_query(h).unsqueeze(1))).squeeze(-1)
            weight = score.masked_fill(x == 0, -1e9).softmax(-1)
            context = torch.bmm(weight.unsqueeze(1), seen).squeeze(1)
            h, c = self.cell(torch.cat([self.target(y[:, t]), context], 1), (h, c))
            found.append(self.head(torch.cat([h, context], 1)))
        return torch.stack(found, 1)


@case
def translation_with_attention():
    return trained(Translator(), lambda b: (words(b), words(b, length=5), words(b, length=5)), loss=next_words)


@case
def whole_transformer():
    def forward(s, x, y):
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
        return s.head(s.net(s.embed(x) + s.places[:x.shape[1]], s.embed(y) + s.places[:y.shape[1]], tgt_mask=mask, tgt_is_causal=True,
                            src_key_padding_mask=x == 0, memory_key_padding_mask=x == 0))

    net = Fn(forward, embed=nn.Embedding(11, 8), net=nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True), head=nn.Linear(8, 11))
    net.places = nn.Parameter(0.1 * torch.randn(6, 8))

    def batch(b):
        x = words(b)
        x[:, 0] = 1  # something to look at
        return x, words(b, length=5), words(b, length=5)

    return trained(net, batch, loss=next_words)


@case
def linear_attention():
    """Kernels in place of a softmax; causal by a running sum of products."""

    def forward(s, x):
        q, k, v = (f(x) for f in (s.q, s.k, s.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        sums = torch.cumsum(torch.einsum("btk,btv->btkv", k, v), 1)
        return s.head(torch.einsum("btk,btkv->btv", q, sums) / (torch.einsum("btk,btk->bt", q, k.cumsum(1)) + 1e-6)[..., None])

    net = Fn(forward, q=nn.Linear(4, 6), k=nn.Linear(4, 6), v=nn.Linear(4, 6), head=nn.Linear(6, 2))
    return trained(net, lambda b: (torch.randn(b, 7, 4), torch.randn(b, 7, 2)), loss=F.mse_loss, optimizer=adam)


@case
def biases_by_distance():
    """ALiBi beside T5's buckets, a window, and heads that share keys."""

    def forward(s, x):
        b, t, c = x.shape
        apart = torch.arange(t)[:, None] - torch.arange(t)[None]
        slopes = 2.0 ** -torch.arange(1, 3)
        bucket = (apart.abs().float().clamp(min=1).log() / math.log(8) * 3).long().clamp(max=3)
        bias = -slopes[:, None, None] * apart.abs() + s.buckets(bucket).permute(2, 0, 1)
        bias = bias.masked_fill((apart < 0) | (apart > 4), -torch.inf)
        q, k, v = s.q(x).view(b, t, 2, 4).transpose(1, 2), s.k(x)[:, None], s.v(x)[:, None]
        return s.out(F.scaled_dot_product_attention(q, k.expand(-1, 2, -1, -1), v.expand(-1, 2, -1, -1), attn_mask=bias).transpose(1, 2).flatten(2))

    net = Fn(forward, q=nn.Linear(6, 8), k=nn.Linear(6, 4), v=nn.Linear(6, 4), buckets=nn.Embedding(4, 2), out=nn.Linear(8, 2))
    return trained(net, lambda b: (torch.randn(b, 7, 6), torch.randn(b, 7, 2)), loss=F.mse_loss)


@case
def text_convolutions():
    def forward(s, x):
        h = s.embed(x).transpose(1, 2)
        return s.head(torch.cat([F.relu(c(h)).amax(2) for c in s.convs], 1))

    net = Fn(forward, embed=nn.Embedding(11, 6), convs=nn.ModuleList([nn.Conv1d(6, 4, n) for n in (2, 3, 4)]), head=nn.Linear(12, 3))
    return trained(net, lambda b: (words(b, length=9), labels(b)), optimizer=adam)


@case
def words_by_their_neighbours():
    def loss_of(net, centre, around, others):
        v, u, n = net.inside(centre), net.outside(around), net.outside(others)
        return -(F.logsigmoid((v * u).sum(1)) + F.logsigmoid(-(n @ v[:, :, None]).squeeze(2)).sum(1)).mean()

    net = Fn(None, inside=nn.Embedding(20, 6), outside=nn.Embedding(20, 6))
    return net, minimised(loss_of), lambda b: (torch.randint(0, 20, (b,)), torch.randint(0, 20, (b,)), torch.randint(0, 20, (b, 4)))


@case
def highway_and_gates():
    class Highway(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.change, self.gate = nn.Linear(width, width), nn.Linear(width, width)
            nn.init.constant_(self.gate.bias, -1.0)

        def forward(self, x):
            t = torch.sigmoid(self.gate(x))
            return t * F.relu(self.change(x)) + (1 - t) * x

    return trained(nn.Sequential(nn.Linear(5, 8), *[Highway(8) for _ in range(4)], nn.Linear(8, 3)), lambda b: (torch.randn(b, 5), labels(b)))


@case
def mixing_without_attention():
    """FNet's mixing with a fixed cosine matrix in place of a Fourier transform, and gMLP's gates over places."""
    length = 6
    angle = torch.outer(torch.arange(length) + 0.5, torch.arange(length).float()) * math.pi / length

    def forward(s, x):
        h = x + torch.einsum("btc,tu->buc", s.first(x), s.waves)
        u, v = F.gelu(s.up(s.second(h))).chunk(2, -1)
        v = s.places(s.third(v).transpose(1, 2)).transpose(1, 2)
        return s.head((h + s.down(u * v)).mean(1))

    net = Fn(forward, first=nn.LayerNorm(8), second=nn.LayerNorm(8), third=nn.LayerNorm(8), up=nn.Linear(8, 16), down=nn.Linear(8, 8),
             places=nn.Linear(length, length), head=nn.Linear(8, 3))
    net.register_buffer("waves", angle.cos())
    return trained(net, lambda b: (torch.randn(b, length, 8), labels(b)), optimizer=adam)


@case
def memory_read_by_key():
    def loss_of(net, question, stories, answer):
        state = net.ask(question).sum(1)
        for hop in range(2):
            weight = torch.einsum("bsc,bc->bs", net.keys[hop](stories).sum(2), state).softmax(1)
            state = net.turn(state) + torch.einsum("bs,bsc->bc", weight, net.values[hop](stories).sum(2))
        return F.cross_entropy(net.head(state), answer)

    net = Fn(None, ask=nn.Embedding(9, 6), keys=nn.ModuleList([nn.Embedding(9, 6) for _ in range(2)]),
             values=nn.ModuleList([nn.Embedding(9, 6) for _ in range(2)]), turn=nn.Linear(6, 6), head=nn.Linear(6, 9))
    return net, minimised(loss_of), lambda b: (torch.randint(0, 9, (b, 3)), torch.randint(0, 9, (b, 5, 3)), labels(b, 9))


@case
def adapters_of_low_rank():
    """LoRA: a frozen base with a product of two thin matrices beside it."""

    class Adapted(nn.Module):
        def __init__(self, base, rank=2):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.a, self.b = nn.Parameter(torch.randn(rank, base.in_features) * 0.3), nn.Parameter(torch.zeros(base.out_features, rank))

        def forward(self, x):
            return self.base(x) + (x @ self.a.T) @ self.b.T * 2.0

    net = nn.Sequential(Adapted(nn.Linear(6, 8)), nn.ReLU(), Adapted(nn.Linear(8, 3)))
    return trained(net, lambda b: (torch.randn(b, 6), labels(b)), optimizer=lambda m: torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-2))


@case
def pointers():
    """Where in the input the answer stands, with places already taken ruled out."""

    def loss_of(net, x, order):
        seen, (h, c) = net.encoder(x)
        h, c, taken, loss = h[0], c[0], torch.zeros(x.shape[:2], dtype=torch.bool), 0.0
        given = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            h, c = net.cell(given, (h, c))
            scores = net.v(torch.tanh(net.a(seen) + net.b(h)[:, None])).squeeze(-1).masked_fill(taken, float("-inf"))
            loss = loss + F.nll_loss(scores.log_softmax(-1), order[:, t])
            taken = taken | F.one_hot(order[:, t], x.shape[1]).bool()
            given = x[torch.arange(len(x)), order[:, t]]
        return loss / x.shape[1]

    net = Fn(None, encoder=nn.LSTM(2, 8, batch_first=True), cell=nn.LSTMCell(2, 8), a=nn.Linear(8, 8), b=nn.Linear(8, 8), v=nn.Linear(8, 1, bias=False))
    return net, minimised(loss_of), lambda b: (torch.randn(b, 5, 2), torch.stack([torch.randperm(5) for _ in range(b)]))


@case
def forecasts_as_distributions():
    """DeepAR's: a negative binomial and Student's t, which need the logarithm of the gamma function."""

    def loss_of(net, x, count, value):
        out, _ = net.body(x)
        mean, spread, place, scale, free = net.head(out).unbind(-1)
        mean, spread = F.softplus(mean), F.softplus(spread) + 0.1
        r = 1 / spread
        binomial = torch.lgamma(count + r) - torch.lgamma(r) - torch.lgamma(count + 1) + r * torch.log(r / (r + mean)) + count * torch.log(mean / (r + mean))
        student = torch.distributions.StudentT(2 + F.softplus(free), place, F.softplus(scale) + 0.1).log_prob(value)
        return -(binomial + student).mean()

    return (Fn(None, body=nn.GRU(2, 8, batch_first=True), head=nn.Linear(8, 5)), minimised(loss_of),
            lambda b: (torch.randn(b, 6, 2), torch.randint(0, 8, (b, 6)).float(), torch.randn(b, 6)))


@case
def sampled_once_more_with_temperature():
    """Gumbel's softmax with the noise given, and a straight-through choice."""

    def loss_of(net, x, u):
        noise = -torch.log(-torch.log(u))
        soft = ((net.encode(x) + noise) / 0.7).softmax(-1)
        hard = F.one_hot(soft.argmax(-1), 5).float()
        return F.mse_loss(net.decode(hard - soft.detach() + soft), x)

    return Fn(None, encode=mlp(6, 8, 5), decode=nn.Linear(5, 6)), minimised(loss_of), lambda b: (torch.randn(b, 6), torch.rand(b, 5) * 0.98 + 0.01)
