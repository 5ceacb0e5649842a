"""Programs that a stranger would try, beside those of models.py: each is compiled as it is."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, mlp, trained
from torch.func import functional_call


def adam(module):
    return torch.optim.Adam(module.parameters(), lr=1e-3)


def minimised(loss_of, optimizer=adam):
    """A function that makes the update of `loss_of(module, *batch)`."""

    def make(module):
        opt = optimizer(module)

        def update(*batch):
            loss = loss_of(module, *batch)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return update

    return make


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.up, self.down, self.scale = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Parameter(0.1 * torch.ones(width))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


@case
def convnext():
    net = nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), ConvNextBlock(8), ConvNextBlock(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 3, 16, 16), labels(b)))


class MixerBlock(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.over_places, self.over_channels = mlp(places, 16, places, act=nn.GELU), mlp(width, 16, width, act=nn.GELU)

    def forward(self, x):
        x = x + self.over_places(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.second(x))


@case
def mlp_mixer():
    net = Fn(lambda s, x: s.head(s.mix(s.embed(x).flatten(2).transpose(1, 2)).mean(1)), embed=nn.Conv2d(1, 8, 4, 4),
             mix=nn.Sequential(MixerBlock(9, 8), MixerBlock(9, 8)), head=nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 1, 12, 12), labels(b)))


class Llama(nn.Module):
    """One block: RMS norms, rotary positions, keys and values shared by heads, a gated net, tied embeddings."""

    def __init__(self, width=16, heads=4, groups=2, length=6):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.embed, self.first, self.second = nn.Embedding(11, width), nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.kv, self.out = (nn.Linear(width, n, bias=False) for n in (width, 2 * groups * self.size, width))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((width, 32), (width, 32), (32, width)))
        angles = torch.outer(torch.arange(length).float(), 1 / 10000 ** (torch.arange(0, self.size, 2).float() / self.size))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin())

    def turned(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, tokens):
        b, t = tokens.shape
        x = self.embed(tokens)
        h = self.first(x)
        q = self.q(h).view(b, t, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(h).view(b, t, 2 * self.groups, self.size).transpose(1, 2).chunk(2, 1)
        y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        h = self.second(x)
        return (x + self.down(F.silu(self.gate(h)) * self.up(h))) @ self.embed.weight.T


@case
def llama():
    tokens = lambda b: torch.randint(0, 11, (b, 6))  # noqa: E731
    return trained(Llama(), lambda b: (tokens(b), tokens(b)), loss=lambda o, t: F.cross_entropy(o.view(-1, 11), t.view(-1)), optimizer=adam)


class Cut(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        return x[:, :, :-self.count].contiguous()


@case
def temporal_convolutions():
    norm = nn.utils.parametrizations.weight_norm
    net = nn.Sequential(norm(nn.Conv1d(2, 8, 3, padding=2)), Cut(2), nn.ReLU(), norm(nn.Conv1d(8, 8, 3, padding=4, dilation=2)), Cut(4),
                        nn.ReLU(), nn.Conv1d(8, 3, 1), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    return trained(net, lambda b: (torch.randn(b, 2, 20), labels(b)), optimizer=adam)


@case
def autoencoder_of_sequences():
    net = nn.Sequential(nn.Conv1d(2, 4, 4, 2, 1), nn.ReLU(), nn.ConvTranspose1d(4, 2, 4, 2, 1))
    return trained(net, lambda b: (torch.randn(b, 2, 12), torch.randn(b, 2, 12)), loss=F.mse_loss)


@case
def images_made_larger():
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1, padding_mode="reflect"), nn.PixelShuffle(2), nn.Tanh(),
                        nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(2, 1, 3, padding=1, padding_mode="circular"))
    return trained(net, lambda b: (torch.randn(b, 1, 6, 6), torch.randn(b, 1, 24, 24)), loss=F.mse_loss)


@case
def squeeze_and_excitation():
    gate = Fn(lambda s, x: x * F.hardsigmoid(s.b(F.relu(s.a(x.mean((2, 3), keepdim=True))))), a=nn.Conv2d(16, 4, 1), b=nn.Conv2d(4, 16, 1))
    net = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(), nn.Conv2d(16, 16, 5, 1, 2, groups=16),
                        nn.BatchNorm2d(16), nn.ReLU6(), gate, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(16, 3))
    return trained(net, lambda b: (torch.randn(b, 3, 12, 12), labels(b)))


@case
def losses_with_a_mask():
    net = Fn(None, words=nn.Embedding(12, 8), net=nn.GRU(8, 8, batch_first=True), head=nn.Linear(8, 12))

    def loss_of(m, x, length):
        h, _ = m.net(m.words(x[:, :-1]))
        mask = (torch.arange(x.size(1) - 1)[None] < length[:, None]).float()
        each = F.cross_entropy(m.head(h).transpose(1, 2), x[:, 1:], reduction="none")
        return (each * mask).sum() / mask.sum().clamp(min=1)

    return net, minimised(loss_of), lambda b: (torch.randint(0, 12, (b, 7)), torch.randint(1, 7, (b,)))


@case
def smoothing_weights_and_clipped_values():
    net = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))

    def make(net):
        groups = [{"params": [p for p in net.parameters() if p.ndim > 1], "weight_decay": 0.1},
                  {"params": [p for p in net.parameters() if p.ndim < 2], "weight_decay": 0.0, "lr": 2e-3}]
        opt, weight = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95)), torch.tensor([1.0, 2.0, 0.5])

        def update(x, y):
            loss = F.cross_entropy(net(x), y, weight=weight, label_smoothing=0.1)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(net.parameters(), 0.1)
            opt.step()
            return loss

        return update

    return net, make, lambda b: (torch.randn(b, 4), labels(b))


@case
def averages_of_parameters():
    both = nn.ModuleList([mlp(4, 8, 3), mlp(4, 8, 3)])

    def make(m):
        step = minimised(lambda m, x, y: F.cross_entropy(m(x), y))(m[0])

        def update(x, y):
            loss = step(x, y)
            with torch.no_grad():
                torch._foreach_lerp_(list(m[1].parameters()), list(m[0].parameters()), 0.01)
            return loss

        return update

    return both, make, lambda b: (torch.randn(b, 4), labels(b))


@case
def gradients_of_parts_of_a_batch():
    def make(m):
        opt = adam(m)

        def update(x, y):
            opt.zero_grad()
            total = 0.0
            for a, b in zip(x.chunk(2), y.chunk(2)):
                loss = F.cross_entropy(m(a), b) / 2
                loss.backward()
                total = total + loss.detach()
            nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            opt.step()
            return total

        return update

    return mlp(4, 8, 3), make, lambda b: (torch.randn(b, 4), labels(b))


@case
def maml():
    def loss_of(m, x, y, x2, y2):
        parameters = dict(m.named_parameters())
        slopes = torch.autograd.grad(F.mse_loss(functional_call(m, parameters, x), y), list(parameters.values()), create_graph=True)
        moved = {name: p - 0.01 * g for (name, p), g in zip(parameters.items(), slopes)}
        return F.mse_loss(functional_call(m, moved, x2), y2)

    return mlp(1, 16, 1), minimised(loss_of), lambda b: tuple(torch.randn(b, 1) for _ in range(4))


@case
def sharpness_aware():
    def make(m):
        opt = torch.optim.SGD(m.parameters(), lr=0.05)

        def update(x, y):
            F.cross_entropy(m(x), y).backward()
            with torch.no_grad():
                size = torch.norm(torch.stack([p.grad.norm(2) for p in m.parameters()]), 2)
                moves = [p.grad * (0.05 / (size + 1e-12)) for p in m.parameters()]
                for p, move in zip(m.parameters(), moves):
                    p.add_(move)
            opt.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            with torch.no_grad():
                for p, move in zip(m.parameters(), moves):
                    p.sub_(move)
            opt.step()
            opt.zero_grad()
            return loss

        return update

    return mlp(4, 8, 3), make, lambda b: (torch.randn(b, 4), labels(b))


@case
def normalising_flow():
    def loss_of(m, x):
        volume = 0.0
        for scale, shift in zip(m[::2], m[1::2]):
            a, b = x[:, :1], x[:, 1:]
            s = torch.tanh(scale(a))
            x, volume = torch.cat([b * s.exp() + shift(a), a], 1), volume + s.sum(1)
        return -(torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(1) + volume).mean()

    return nn.ModuleList([mlp(1, 16, 1) for _ in range(8)]), minimised(loss_of), lambda b: (torch.randn(b, 2),)


@case
def differential_equation():
    def loss_of(m, x, y, h=0.1):
        for _ in range(5):
            k1 = m(x)
            k2 = m(x + h / 2 * k1)
            k3 = m(x + h / 2 * k2)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + m(x + h * k3))
        return F.mse_loss(x, y)

    return mlp(2, 16, 2), minimised(loss_of), lambda b: (torch.randn(b, 2), torch.randn(b, 2))


@case
def vector_quantised():
    net = Fn(None, encoder=mlp(6, 16, 4), decoder=mlp(4, 16, 6), book=nn.Embedding(8, 4))

    def loss_of(m, x):
        z = m.encoder(x)
        q = m.book(torch.cdist(z, m.book.weight).argmin(1))
        commitment = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        return commitment + F.mse_loss(m.decoder(z + (q - z).detach()), x)

    return net, minimised(loss_of), lambda b: (torch.randn(b, 6),)


@case
def two_experts_of_four():
    net = Fn(None, gate=nn.Linear(4, 4), experts=nn.ModuleList([mlp(4, 8, 3) for _ in range(4)]))

    def loss_of(m, x, y):
        best, index = m.gate(x).topk(2, -1)
        weights = torch.zeros(x.shape[0], 4).scatter(1, index, best.softmax(-1))
        return F.cross_entropy((torch.stack([e(x) for e in m.experts], 1) * weights[..., None]).sum(1), y)

    return net, minimised(loss_of), lambda b: (torch.randn(b, 4), labels(b))


@case
def conditional_random_field():
    net = Fn(None, emit=nn.Linear(4, 3), moves=nn.Parameter(0.1 * torch.randn(3, 3)))

    def loss_of(m, x, y):
        e = m.emit(x)
        a = e[:, 0]
        for t in range(1, e.shape[1]):
            a = torch.logsumexp(a[:, :, None] + m.moves[None], 1) + e[:, t]
        score = e.gather(2, y[:, :, None]).squeeze(2).sum(1) + m.moves[y[:, :-1], y[:, 1:]].sum(1)
        return (torch.logsumexp(a, 1) - score).mean()

    return net, minimised(loss_of), lambda b: (torch.randn(b, 5, 4), torch.randint(0, 3, (b, 5)))


@case
def graph_attention():
    source, target = torch.tensor([0, 1, 2, 3, 0, 2]), torch.tensor([1, 2, 3, 0, 2, 0])
    net = Fn(None, weight=nn.Linear(4, 8), attention=nn.Linear(16, 1), out=nn.Linear(8, 3))

    def loss_of(m, x, y):
        h = m.weight(x)
        e = F.leaky_relu(m.attention(torch.cat([h[:, source], h[:, target]], -1)), 0.2).squeeze(-1).exp()
        total = torch.zeros(x.shape[0], 4).index_add(1, target, e)
        gathered = torch.zeros_like(h).index_add(1, target, h[:, source] * (e / total[:, target])[..., None])
        return F.cross_entropy(m.out(gathered).mean(1), y)

    return net, minimised(loss_of), lambda b: (torch.randn(b, 4, 4), labels(b))


@case
def encoder_and_decoder():
    def forward(s, a, b):
        mask = nn.Transformer.generate_square_subsequent_mask(4)
        return s.out(s.net(s.words(a), s.words(b), tgt_mask=mask)).transpose(1, 2)

    net = Fn(forward, net=nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True), words=nn.Embedding(7, 8), out=nn.Linear(8, 7))
    tokens = lambda b, n: torch.randint(0, 7, (b, n))  # noqa: E731
    return trained(net, lambda b: (tokens(b, 5), tokens(b, 4), tokens(b, 4)))


@case
def rarer_losses():
    def loss(o, t):
        ones = torch.ones(len(o))
        return (F.gaussian_nll_loss(o[:, 0], t[:, 0], F.softplus(o[:, 2]) + 0.1) + F.poisson_nll_loss(o[:, 1], t[:, 1].abs())
                + F.cosine_embedding_loss(o, t, ones) + F.multilabel_soft_margin_loss(o, (t > 0).float()) + F.soft_margin_loss(o[:, 0], ones)
                + F.hinge_embedding_loss(o[:, 0], ones) + F.multi_margin_loss(o, t.argmax(1)))

    return trained(mlp(4, 8, 3), lambda b: (torch.randn(b, 4), torch.randn(b, 3)), loss=loss)


@case
def focal_and_dice():
    def loss(o, t):
        p, each = o.sigmoid(), F.binary_cross_entropy_with_logits(o, t, reduction="none")
        focal = (0.25 * (1 - (p * t + (1 - p) * (1 - t))) ** 2.0 * each).mean()
        dice = 1 - (2 * (p * t).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + t.sum((1, 2, 3)) + 1)
        return focal + dice.mean()

    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1))
    return trained(net, lambda b: (torch.randn(b, 1, 8, 8), torch.randint(0, 2, (b, 1, 8, 8)).float()), loss=loss)
