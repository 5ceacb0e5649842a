"""Encoders, translation, speech and retrieval as people have them: more cases for test_models.py."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, sgd
from models_newer import minimised

WORDS = 11


def text(b, t=6):
    return torch.randint(1, WORDS, (b, t))


# ---- encoders --------------------------------------------------------------------------------------------------------
class Bert(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.word, self.place, self.segment = nn.Embedding(WORDS, dim, padding_idx=0), nn.Embedding(8, dim), nn.Embedding(2, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        layer = nn.TransformerEncoderLayer(d_model=dim, nhead=2, dim_feedforward=16, dropout=0.0, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.pooler, self.transform, self.nsp = nn.Linear(dim, dim), nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.LayerNorm(dim)), nn.Linear(dim, 2)
        self.bias = nn.Parameter(torch.zeros(WORDS))
        self.register_buffer("position_ids", torch.arange(8).expand((1, -1)))

    def forward(self, ids, segments):
        x = self.word(ids) + self.place(self.position_ids[:, :ids.size(1)]) + self.segment(segments)
        h = self.encoder(self.norm(x).transpose(0, 1), src_key_padding_mask=ids.eq(0)).transpose(0, 1)
        return F.linear(self.transform(h), self.word.weight, self.bias), self.nsp(torch.tanh(self.pooler(h[:, 0])))


@case
def bert_pretraining():
    def batch(b):
        ids = text(b)
        ids[: b // 2, 4:] = 0
        words = torch.where((torch.rand(b, 6) < 0.3) & (ids > 0), ids, -100)
        words[:, 0] = ids[:, 0]
        return ids, torch.randint(0, 2, (b, 6)), words, labels(b, 2)

    def loss(net, ids, segments, words, following):
        scores, relation = net(ids, segments)
        return nn.CrossEntropyLoss()(scores.view(-1, WORDS), words.view(-1)) + nn.CrossEntropyLoss()(relation.view(-1, 2), following.view(-1))

    return minimised(Bert(), loss, batch)


@case
def sentence_embeddings_with_ranking():
    """Means over what is not padding, in-batch negatives both ways, and CoSENT's ranking of pairs."""

    def embed(net, ids):
        mask = (ids > 0).unsqueeze(-1).expand(-1, -1, 8).float()
        sum_embeddings = torch.sum(net(ids) * mask, 1)
        return F.normalize(sum_embeddings / torch.clamp(mask.sum(1), min=1e-9), p=2, dim=1)

    def loss(net, a, p, scores):
        a, p = embed(net, a), embed(net, p)
        similar = torch.mm(a, p.transpose(0, 1)) * 20.0
        target = torch.arange(len(similar), dtype=torch.long)
        ranking = (F.cross_entropy(similar, target) + F.cross_entropy(similar.t(), target)) / 2
        pairs = torch.sum(a * p, dim=1) * 20
        pairs = pairs[:, None] - pairs[None, :]
        wanted = (scores[:, None] < scores[None, :]).float()
        pairs = pairs - (1 - wanted) * 1e12
        return ranking + torch.logsumexp(torch.cat((torch.zeros(1), pairs.view(-1)), dim=0), dim=0)

    return minimised(nn.Sequential(nn.Embedding(WORDS, 8), nn.Linear(8, 8), nn.Tanh()), loss, lambda b: (text(b), text(b), torch.rand(b)), lambda n: sgd(n, 0.01))


@case
def fasttext_with_offsets():
    """nn.EmbeddingBag as torchtext's tutorial calls it: all texts in one row, and where each begins."""
    net = nn.ModuleDict({"embedding": nn.EmbeddingBag(WORDS, 6, sparse=False), "fc": nn.Linear(6, 3)})

    def batch(b):
        lengths = torch.randint(1, 5, (b,))
        lengths[-1] += 4 * b - lengths.sum()
        return torch.randint(0, WORDS, (4 * b,)), torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)[:-1]]), labels(b)

    return minimised(net, lambda n, t, o, y: F.cross_entropy(n["fc"](n["embedding"](t, o)), y), batch)


@case
def weighted_bags():
    """EmbeddingBag with a weight for each word, its mean, and its largest."""
    net = nn.ModuleDict({"s": nn.EmbeddingBag(WORDS, 4, mode="sum"), "m": nn.EmbeddingBag(WORDS, 4, mode="mean", padding_idx=0),
                         "x": nn.EmbeddingBag(WORDS, 4, mode="max"), "weigh": nn.Linear(1, 1), "fc": nn.Linear(12, 3)})

    def loss(n, words, w, y):
        weights = n["weigh"](w.unsqueeze(-1)).squeeze(-1)
        return F.cross_entropy(n["fc"](torch.cat([n["s"](words, per_sample_weights=weights), n["m"](words), n["x"](words)], 1)), y)

    return minimised(net, loss, lambda b: (torch.randint(0, WORDS, (b, 5)), torch.rand(b, 5), labels(b)))


# ---- translation -----------------------------------------------------------------------------------------------------
class AnnotatedNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2, self.eps = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features)), eps

    def forward(self, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


def attention(query, key, value, mask=None):
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model):
        super().__init__()
        self.d_k, self.h, self.attn = d_model // h, h, None
        self.linears = nn.ModuleList([copy.deepcopy(nn.Linear(d_model, d_model)) for _ in range(4)])

    def forward(self, query, key, value, mask=None):
        mask = mask.unsqueeze(1) if mask is not None else None
        nbatches = query.size(0)
        query, key, value = [lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2) for lin, x in zip(self.linears, (query, key, value))]
        x, self.attn = attention(query, key, value, mask=mask)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class AnnotatedTransformer(nn.Module):
    def __init__(self, d=8, max_len=10):
        super().__init__()
        self.src, self.tgt, self.d = nn.Embedding(WORDS, d), nn.Embedding(WORDS, d), d
        pe, position = torch.zeros(max_len, d), torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d, 2) * -(math.log(10000.0) / d))
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))
        self.attn = nn.ModuleList([MultiHeadedAttention(2, d) for _ in range(3)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, d)) for _ in range(2)])
        self.norms = nn.ModuleList([AnnotatedNorm(d) for _ in range(7)])
        self.proj = nn.Linear(d, WORDS)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def embed(self, table, x):
        x = table(x) * math.sqrt(self.d)
        return x + self.pe[:, : x.size(1)].requires_grad_(False)

    def forward(self, src, tgt, src_mask, tgt_mask):
        x, n = self.embed(self.src, src), self.norms
        y = n[0](x)
        x = x + self.attn[0](y, y, y, src_mask)
        memory = n[2](x + self.ff[0](n[1](x)))
        x = self.embed(self.tgt, tgt)
        y = n[3](x)
        x = x + self.attn[1](y, y, y, tgt_mask)
        x = x + self.attn[2](n[4](x), memory, memory, src_mask)
        x = x + self.ff[1](n[5](x))
        return F.log_softmax(self.proj(n[6](x)), dim=-1)


@case
def annotated_transformer():
    """Smoothed labels as a distribution that is filled, scattered into and cleared; its divergence, by the number of words."""

    def smoothing(x, target, size=WORDS, padding_idx=0, amount=0.1):
        true_dist = x.data.clone()
        true_dist.fill_(amount / (size - 2))
        true_dist.scatter_(1, target.data.unsqueeze(1), 1.0 - amount)
        true_dist[:, padding_idx] = 0
        true_dist.masked_fill_((target.data == padding_idx).unsqueeze(1), 0.0)
        return nn.KLDivLoss(reduction="sum")(x, true_dist.clone().detach())

    def loss(net, src, tgt):
        src_mask = (src != 0).unsqueeze(-2)
        tgt, tgt_y = tgt[:, :-1], tgt[:, 1:]
        tgt_mask = (tgt != 0).unsqueeze(-2)
        later = torch.triu(torch.ones((1, tgt.size(-1), tgt.size(-1))), diagonal=1).type(torch.uint8)
        tgt_mask = tgt_mask & (later == 0).type_as(tgt_mask.data)
        out = net(src, tgt, src_mask, tgt_mask)
        ntokens = (tgt_y != 0).data.sum()
        return smoothing(out.contiguous().view(-1, out.size(-1)), tgt_y.contiguous().view(-1)) / ntokens

    def batch(b):
        src, tgt = text(b, 5), text(b, 5)
        src[0, 3:], tgt[0, 4:] = 0, 0
        return src, tgt

    return minimised(AnnotatedTransformer(), loss, batch, lambda n: torch.optim.Adam(n.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-3))


class Seq2Seq(nn.Module):
    """bentrevett's: an encoder in both directions, additive attention, words put where they belong, teaching by given chance."""

    def __init__(self, e=5, h=6):
        super().__init__()
        self.src, self.tgt = nn.Embedding(WORDS, e), nn.Embedding(WORDS, e)
        self.rnn, self.fc = nn.GRU(e, h, bidirectional=True), nn.Linear(2 * h, h)
        self.attn, self.v = nn.Linear(3 * h, h), nn.Linear(h, 1, bias=False)
        self.decoder, self.out = nn.GRU(2 * h + e, h), nn.Linear(3 * h + e, WORDS)

    def forward(self, src, trg, teach):
        encoder_outputs, hidden = self.rnn(self.src(src))
        hidden = torch.tanh(self.fc(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)))
        trg_len, batch_size = trg.shape
        outputs = torch.zeros(trg_len, batch_size, WORDS)
        mask = (src != 0).permute(1, 0)
        word = trg[0, :]
        for t in range(1, trg_len):
            embedded = self.tgt(word.unsqueeze(0))
            repeated = hidden.unsqueeze(1).repeat(1, src.shape[0], 1)
            energy = torch.tanh(self.attn(torch.cat((repeated, encoder_outputs.permute(1, 0, 2)), dim=2)))
            a = F.softmax(self.v(energy).squeeze(2).masked_fill(mask == 0, -1e10), dim=1).unsqueeze(1)
            weighted = torch.bmm(a, encoder_outputs.permute(1, 0, 2)).permute(1, 0, 2)
            output, hidden = self.decoder(torch.cat((embedded, weighted), dim=2), hidden.unsqueeze(0))
            prediction = self.out(torch.cat((output.squeeze(0), weighted.squeeze(0), embedded.squeeze(0)), dim=1))
            outputs[t] = prediction
            hidden = hidden.squeeze(0)
            word = torch.where(teach[t] > 0.5, trg[t], prediction.argmax(1))
        return outputs


@case
def sequences_to_sequences():
    def loss(net, src, trg, teach):
        output = net(src, trg, teach)
        return F.cross_entropy(output[1:].view(-1, WORDS), trg[1:].view(-1), ignore_index=0)

    def init(net):
        for name, param in net.named_parameters():
            nn.init.normal_(param.data, mean=0, std=0.3) if "weight" in name else nn.init.constant_(param.data, 0)
        return net

    return minimised(init(Seq2Seq()), loss, lambda b: (text(5, b), text(4, b), torch.rand(4)), lambda n: torch.optim.Adam(n.parameters(), lr=1e-3, eps=1e-3))


class PointerNet(nn.Module):
    """Places of the input are chosen one after the other; what is chosen is masked by scatter_."""

    def __init__(self, d=6):
        super().__init__()
        self.embed, self.encoder, self.cell = nn.Linear(2, d), nn.LSTM(d, d, batch_first=True), nn.LSTMCell(d, d)
        self.w1, self.w2, self.vt, self.start = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, 1, bias=False), nn.Parameter(torch.rand(d))

    def forward(self, points, targets):
        b, n, _ = points.shape
        x = self.embed(points)
        memory, (h, c) = self.encoder(x)
        h, c, now = h[0], c[0], self.start.expand(b, -1)
        mask, out = torch.zeros(b, n, dtype=torch.bool), []
        for i in range(n):
            h, c = self.cell(now, (h, c))
            scores = self.vt(torch.tanh(self.w1(memory) + self.w2(h).unsqueeze(1))).squeeze(-1)
            scores = scores.masked_fill(mask, -1e4)
            out.append(F.log_softmax(scores, dim=-1))
            chosen = targets[:, i].unsqueeze(1)
            mask = mask.scatter(1, chosen, True)
            now = torch.gather(x, 1, chosen.unsqueeze(-1).expand(-1, -1, x.size(2))).squeeze(1)
        return torch.stack(out, 1)


@case
def pointer_net_for_tours():
    def batch(b, n=4):
        return torch.rand(b, n, 2), torch.stack([torch.randperm(n) for _ in range(b)])

    return minimised(PointerNet(), lambda n, p, t: F.nll_loss(n(p, t).view(-1, 4), t.view(-1)), batch)


# ---- speech ----------------------------------------------------------------------------------------------------------
@case
def ctc_written_out():
    """Paths through a lattice by log-sum-exp with -inf, as F.ctc_loss cannot be traced."""

    def ctc(log_probs, targets, blank=0):
        t_len, b, _ = log_probs.shape
        extended = torch.full((b, 2 * targets.shape[1] + 1), blank, dtype=torch.long)
        extended[:, 1::2] = targets
        s = extended.shape[1]
        emit = log_probs.gather(2, extended.unsqueeze(0).expand(t_len, -1, -1))
        skip = torch.zeros(b, s, dtype=torch.bool)
        skip[:, 2:] = (extended[:, 2:] != blank) & (extended[:, 2:] != extended[:, :-2])
        alpha = torch.full((b, s), -1e30)
        alpha[:, 0], alpha[:, 1] = emit[0, :, 0], emit[0, :, 1]
        for t in range(1, t_len):
            one = F.pad(alpha[:, :-1], (1, 0), value=-1e30)
            two = torch.where(skip, F.pad(alpha[:, :-2], (2, 0), value=-1e30), torch.tensor(-1e30))
            alpha = torch.logsumexp(torch.stack([alpha, one, two]), dim=0) + emit[t]
        return -torch.logaddexp(alpha[:, -1], alpha[:, -2]).mean()

    net = nn.ModuleDict({"rnn": nn.GRU(4, 6, bidirectional=True), "fc": nn.Linear(12, 5)})
    return minimised(net, lambda n, x, y: ctc(F.log_softmax(n["fc"](n["rnn"](x)[0]), 2), y), lambda b: (torch.randn(7, b, 4), torch.randint(1, 5, (b, 2))))


class ConformerBlock(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        ff = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 16), nn.SiLU(), nn.Dropout(0.0), nn.Linear(16, d))  # noqa: E731
        self.ff1, self.ff2, self.norm, self.last = ff(), ff(), nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.conv = nn.Sequential(nn.Conv1d(d, 2 * d, 1), nn.GLU(dim=1), nn.Conv1d(d, d, 3, padding=1, groups=d), nn.BatchNorm1d(d), nn.SiLU(), nn.Conv1d(d, d, 1))
        self.conv_norm = nn.LayerNorm(d)

    def forward(self, x, padding):
        x = x + 0.5 * self.ff1(x)
        y = self.norm(x)
        y, weights = self.attn(y, y, y, key_padding_mask=padding, need_weights=True)
        x = x + y
        y = self.conv_norm(x).masked_fill(padding.unsqueeze(-1), 0.0)
        x = x + self.conv(y.transpose(1, 2)).transpose(1, 2)
        return self.last(x + 0.5 * self.ff2(x)), weights


@case
def conformer():
    """Two strided convolutions over the spectrum, a block, and a penalty on the attention's entropy."""

    def loss(net, spec, lengths, y):
        x = net["sub"](spec.unsqueeze(1))
        b, c, t, f = x.size()
        x = net["up"](x.transpose(1, 2).contiguous().view(b, t, c * f))
        padding = torch.arange(t)[None, :] >= lengths[:, None]
        x, weights = net["block"](x, padding)
        entropy = -(weights * (weights + 1e-9).log()).sum(-1).mean()
        pooled = x.masked_fill(padding[..., None], 0).sum(1) / lengths[:, None]
        return F.cross_entropy(net["head"](pooled), y) + 0.01 * entropy

    sub = nn.Sequential(nn.Conv2d(1, 3, 3, stride=2), nn.ReLU(), nn.Conv2d(3, 3, 3, stride=2, padding=(1, 0)), nn.ReLU())
    net = nn.ModuleDict({"sub": sub, "up": nn.Linear(6, 8), "block": ConformerBlock(), "head": nn.Linear(8, 3)})
    return minimised(net, loss, lambda b: (torch.randn(b, 15, 11), torch.randint(2, 5, (b,)), labels(b)))


class WaveNet(nn.Module):
    """Gated dilated convolutions, causal by a pad on the left, and skips that are added."""

    def __init__(self, channels=4, layers=3):
        super().__init__()
        self.front = nn.Conv1d(1, channels, 1)
        self.dilated = nn.ModuleList([nn.Conv1d(channels, 2 * channels, 2, dilation=2**i) for i in range(layers)])
        self.condition = nn.ModuleList([nn.Conv1d(2, 2 * channels, 1, bias=False) for _ in range(layers)])
        self.res, self.skip = (nn.ModuleList([nn.Conv1d(channels, channels, 1) for _ in range(layers)]) for _ in range(2))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(channels, channels, 1), nn.ReLU(), nn.Conv1d(channels, 8, 1))

    def forward(self, x, c):
        x, skips = self.front(x), 0
        c = F.interpolate(c, size=x.shape[-1], mode="nearest")
        for i, (dilated, condition, res, skip) in enumerate(zip(self.dilated, self.condition, self.res, self.skip)):
            y = dilated(F.pad(x, (2**i, 0))) + condition(c)
            a, b = y.chunk(2, dim=1)
            y = torch.tanh(a) * torch.sigmoid(b)
            skips = skips + skip(y)
            x = (x + res(y)) * math.sqrt(0.5)
        return self.end(skips)


@case
def wavenet_with_mu_law():
    def loss(net, wave, c):
        mu = 7
        coded = torch.sign(wave) * torch.log1p(mu * torch.abs(wave)) / math.log1p(mu)
        target = ((coded + 1) / 2 * mu + 0.5).to(torch.int64)
        return F.cross_entropy(net(wave[:, :, :-1], c), target[:, 0, 1:])

    return minimised(WaveNet(), loss, lambda b: (torch.rand(b, 1, 13) * 2 - 1, torch.randn(b, 2, 3)))


@case
def quasi_recurrent_and_simple_units():
    """QRNN's pooling and SRU's: elementwise recurrences between products over all moments."""

    def forward(net, x):
        z, f, o = net.conv(F.pad(x.transpose(1, 2), (1, 0))).transpose(1, 2).chunk(3, -1)
        z, f, o = torch.tanh(z), torch.sigmoid(f), torch.sigmoid(o)
        c, outs = torch.zeros_like(z[:, 0]), []
        for zt, ft, ot in zip(z.unbind(1), f.unbind(1), o.unbind(1)):
            c = torch.lerp(zt, c, ft)
            outs.append(ot * c)
        x = torch.stack(outs, 1)
        w, f, r = net.sru(x).chunk(3, -1)
        c, outs = torch.zeros_like(w[:, 0]), []
        for t in range(x.size(1)):
            gate = torch.sigmoid(f[:, t] + net.vf * c)
            reset = torch.sigmoid(r[:, t] + net.vr * c)
            c = gate * c + (1 - gate) * w[:, t]
            outs.append(reset * c + (1 - reset) * x[:, t])
        return net.head(outs[-1])

    net = Fn(forward, conv=nn.Conv1d(3, 15, 2), sru=nn.Linear(5, 15, bias=True), vf=nn.Parameter(torch.randn(5)), vr=nn.Parameter(torch.randn(5)), head=nn.Linear(5, 3))
    return minimised(net, lambda n, x, y: F.cross_entropy(n(x), y), lambda b: (torch.randn(b, 6, 3), labels(b)))


class NeuralTuringMachine(nn.Module):
    """A memory that is addressed by content and by circular shifts, read, erased and added to."""

    def __init__(self, n=5, m=4, inside=6):
        super().__init__()
        self.n, self.m = n, m
        self.controller = nn.LSTMCell(3 + m, inside)
        self.address, self.change, self.out = nn.Linear(inside, m + 1 + 1 + 3 + 1), nn.Linear(inside, 2 * m), nn.Linear(inside + m, 2)
        self.register_buffer("begin", torch.full((n, m), 1e-2))

    def forward(self, xs):
        b = xs.size(0)
        memory, read, w = self.begin.repeat(b, 1, 1), xs.new_zeros(b, self.m), F.softmax(xs.new_zeros(b, self.n), 1)
        h, c, outs = xs.new_zeros(b, 6), xs.new_zeros(b, 6), []
        for t in range(xs.size(1)):
            h, c = self.controller(torch.cat([xs[:, t], read], 1), (h, c))
            k, beta, g, s, gamma = torch.split(self.address(h), [self.m, 1, 1, 3, 1], dim=1)
            beta, g, s, gamma = F.softplus(beta), torch.sigmoid(g), F.softmax(s, dim=1), 1 + F.softplus(gamma)
            wc = F.softmax(beta * F.cosine_similarity(memory + 1e-16, k.view(b, 1, -1) + 1e-16, dim=-1), dim=1)
            wg = g * wc + (1 - g) * w
            around = torch.cat([wg[:, -1:], wg, wg[:, :1]], 1)
            ws = sum(s[:, i:i + 1] * around[:, i:i + self.n] for i in range(3)) + 1e-16
            w = ws**gamma
            w = torch.div(w, torch.sum(w, dim=1).view(-1, 1) + 1e-16)
            e, a = self.change(h).chunk(2, 1)
            memory = memory * (1 - torch.matmul(w.unsqueeze(-1), torch.sigmoid(e).unsqueeze(1))) + torch.matmul(w.unsqueeze(-1), a.unsqueeze(1))
            read = torch.matmul(w.unsqueeze(1), memory).view(-1, self.m)
            outs.append(self.out(torch.cat([h, read], 1)))
        return torch.stack(outs, 1)


@case
def neural_turing_machine():
    return minimised(NeuralTuringMachine(), lambda n, x, y: F.binary_cross_entropy_with_logits(n(x), y), lambda b: (torch.randn(b, 4, 3), torch.rand(b, 4, 2).round()),
                     lambda n: torch.optim.RMSprop(n.parameters(), lr=1e-3, alpha=0.95, momentum=0.9, eps=1e-3))
