"""Programs over images and points that a stranger would try, beside those of models.py: each is compiled as it is."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, mlp, sgd, trained
from more_models import adam, minimised


class InvertedResidual(nn.Module):
    def __init__(self, width, expand=3):
        super().__init__()
        wide = width * expand
        self.body = nn.Sequential(nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
                                  nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
                                  nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return x + self.body(x)


@case
def mobilenet_v2():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(), InvertedResidual(8), InvertedResidual(8),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.0), nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 3, 16, 16), labels(b)))


class WindowAttention(nn.Module):
    """Swin's: windows of 4 by 4, shifted by half of one, with a table of relative positions and a mask over what was rolled."""

    def __init__(self, width=8, heads=2, side=8, window=4, shift=2):
        super().__init__()
        self.heads, self.side, self.window, self.shift = heads, side, window, shift
        self.qkv, self.out, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(0.02 * torch.randn((2 * window - 1) ** 2, heads))
        places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", apart[..., 0] * (2 * window - 1) + apart[..., 1])
        zones = torch.zeros(1, side, side, 1)
        cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
        for n, (rows, columns) in enumerate((r, c) for r in cuts for c in cuts):
            zones[:, rows, columns] = n
        zones = self.windows(zones).squeeze(-1)
        self.register_buffer("mask", (zones[:, None] != zones[:, :, None]).float() * -100.0)

    def windows(self, x):
        b, h, w, c = x.shape
        n = self.window
        return x.view(b, h // n, n, w // n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, c)

    def forward(self, x):
        b, h, w, c = x.shape
        moved = torch.roll(self.norm(x), shifts=(-self.shift, -self.shift), dims=(1, 2))
        rows = self.windows(moved)
        q, k, v = self.qkv(rows).reshape(len(rows), -1, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1)
        n = self.window ** 2
        scores = scores + self.bias[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1)
        scores = (scores.view(b, -1, self.heads, n, n) + self.mask[None, :, None]).view(-1, self.heads, n, n)
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, c))
        m = self.window
        y = y.view(b, h // m, w // m, m, m, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return x + torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))


@case
def swin_windows():
    net = Fn(lambda s, x: s.head(s.attend(s.embed(x).permute(0, 2, 3, 1)).mean((1, 2))), embed=nn.Conv2d(3, 8, 2, 2), attend=WindowAttention(),
             head=nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 3, 16, 16), labels(b)))


class Denoiser(nn.Module):
    """A U-Net with group norms, embeddings of the time step, attention in the middle and skips."""

    def __init__(self, width=8):
        super().__init__()
        self.time = mlp(width, 16, width, act=nn.SiLU)
        self.inside, self.down, self.up = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ConvTranspose2d(2 * width, width, 4, 2, 1)
        self.first, self.middle = nn.GroupNorm(4, width), nn.GroupNorm(4, 2 * width)
        self.attend, self.out = nn.MultiheadAttention(2 * width, 2, batch_first=True), nn.Conv2d(2 * width, 1, 3, padding=1)

    def forward(self, x, t):
        steps = torch.exp(torch.arange(4) * (-math.log(10000) / 3))
        angle = t[:, None].float() * steps
        time = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        a = F.silu(self.first(self.inside(x)) + time[:, :, None, None])
        h = self.middle(self.down(a))
        b, c, high, wide = h.shape
        rows = h.flatten(2).transpose(1, 2)
        h = h + self.attend(rows, rows, rows, need_weights=False)[0].transpose(1, 2).view(b, c, high, wide)
        return self.out(torch.cat([self.up(F.silu(h)), a], 1))


@case
def denoising_unet():
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.2, 20), 0)

    def loss_of(net, x, t, noise):
        share = kept[t][:, None, None, None]
        return F.mse_loss(net(share.sqrt() * x + (1 - share).sqrt() * noise, t), noise)

    return Denoiser(), minimised(loss_of, sgd), lambda b: (torch.randn(b, 1, 8, 8), torch.randint(0, 20, (b,)), torch.randn(b, 1, 8, 8))


@case
def dense_block_and_channel_shuffle():
    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Sequential(nn.BatchNorm2d(8 + 4 * i), nn.ReLU(), nn.Conv2d(8 + 4 * i, 4, 3, padding=1)) for i in range(2)])

        def forward(self, x):
            for layer in self.layers:
                x = torch.cat([x, layer(x)], 1)
            b, c, h, w = x.shape
            return x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)

    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), Dense(), nn.ChannelShuffle(4), nn.Conv2d(16, 8, 3, padding=1, groups=4), nn.AvgPool2d(2), nn.Flatten(),
                        nn.Linear(8 * 16, 3))
    return trained(net, lambda b: (torch.randn(b, 1, 8, 8), labels(b)))


@case
def attention_over_channels_and_places():
    class Cbam(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.shared, self.place = mlp(width, 4, width, act=nn.ReLU), nn.Conv2d(2, 1, 7, padding=3)

        def forward(self, x):
            gate = self.shared(x.mean((2, 3))) + self.shared(x.amax((2, 3)))
            x = x * torch.sigmoid(gate)[:, :, None, None]
            return x * torch.sigmoid(self.place(torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True).values], 1)))

    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), Cbam(8), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(), nn.Linear(32, 3))
    return trained(net, lambda b: (torch.randn(b, 3, 10, 10), labels(b)))


@case
def style_and_content():
    def statistics(h):
        rows = h.flatten(2)
        return rows @ rows.transpose(1, 2) / rows.shape[2]

    def loss_of(net, x, style):
        h = net.features(x)
        mean, deviation = h.mean((2, 3), keepdim=True), h.std((2, 3), keepdim=True)
        with torch.no_grad():
            wanted = net.features(style)
        moved = (h - mean) / (deviation + 1e-5) * wanted.std((2, 3), keepdim=True) + wanted.mean((2, 3), keepdim=True)
        picture = net.decoder(moved)
        smooth = (picture[:, :, 1:] - picture[:, :, :-1]).abs().mean() + (picture[..., 1:] - picture[..., :-1]).abs().mean()
        return F.mse_loss(statistics(net.features(picture)), statistics(wanted)) + 0.1 * smooth

    net = Fn(None, features=nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(1, 6, 3), nn.InstanceNorm2d(6, affine=True), nn.ReLU()),
             decoder=nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(6, 1, 3, stride=2, padding=1)))
    return net, minimised(loss_of, sgd), lambda b: (torch.randn(b, 1, 8, 8), torch.randn(b, 1, 8, 8))


class Capsules(nn.Module):
    """Three rounds of routing by agreement."""

    def __init__(self, inputs=6, outputs=3, width=4):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(outputs, inputs, width, width))

    @staticmethod
    def squashed(x):
        square = x.pow(2).sum(-1, keepdim=True)
        return square / (1 + square) * x / (square + 1e-8).sqrt()

    def forward(self, u):
        votes = torch.einsum("oiwv,biv->boiw", self.weight, u)
        logits = torch.zeros(votes.shape[:3])
        for round_ in range(3):
            v = self.squashed((logits.softmax(1)[..., None] * votes).sum(2))
            if round_ < 2:
                logits = logits + (votes * v[:, :, None]).sum(-1)
        return v.norm(dim=-1)


@case
def capsules():
    net = nn.Sequential(nn.Linear(10, 24), nn.Unflatten(1, (6, 4)), Capsules())

    def margin(lengths, y):
        t = F.one_hot(y, 3).float()
        return (t * F.relu(0.9 - lengths) ** 2 + 0.5 * (1 - t) * F.relu(lengths - 0.1) ** 2).sum(1).mean()

    return trained(net, lambda b: (torch.randn(b, 10), labels(b)), loss=margin, optimizer=adam)


@case
def radiance_field():
    """Points along rays, encoded by sines, weighed by what light is left: a running product."""

    def loss_of(net, origin, direction, colour):
        depth = torch.linspace(0.1, 2, 6)
        points = origin[:, None] + depth[None, :, None] * direction[:, None]
        waves = points[..., None, :] * (2.0 ** torch.arange(3))[:, None]
        out = net(torch.cat([points, waves.sin().flatten(2), waves.cos().flatten(2)], -1))
        density, rgb = F.softplus(out[..., 0]), out[..., 1:].sigmoid()
        step = torch.cat([depth[1:] - depth[:-1], torch.tensor([1.0])])
        alpha = 1 - torch.exp(-density * step)
        light = torch.cumprod(torch.cat([torch.ones(len(alpha), 1), 1 - alpha + 1e-6], 1), 1)[:, :-1]
        return F.mse_loss(((alpha * light)[..., None] * rgb).sum(1), colour)

    return mlp(21, 16, 16, 4, act=nn.ReLU), minimised(loss_of), lambda b: (torch.randn(b, 3), F.normalize(torch.randn(b, 3), dim=1), torch.rand(b, 3))


@case
def masked_autoencoder():
    def loss_of(net, x, order):
        patches = F.unfold(x, 4, stride=4).transpose(1, 2)
        places, back = order.argsort(1), order.argsort(1).argsort(1)
        kept = places[:, :3, None].expand(-1, -1, 16)
        h = net.encode(torch.gather(patches, 1, kept) + torch.gather(net.places.expand(len(x), -1, -1), 1, kept))
        full = torch.cat([h, net.missing.expand(len(x), 6, -1)], 1)
        full = torch.gather(full, 1, back[:, :, None].expand(-1, -1, 16)) + net.places
        hidden = torch.ones(len(x), 9).scatter(1, places[:, :3], 0.0)
        error = (net.decode(full) - patches).pow(2).mean(-1)
        return (error * hidden).sum() / hidden.sum()

    net = Fn(None, encode=nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True), decode=nn.Linear(16, 16))
    net.places, net.missing = nn.Parameter(0.1 * torch.randn(1, 9, 16)), nn.Parameter(torch.zeros(1, 1, 16))
    return net, minimised(loss_of), lambda b: (torch.randn(b, 1, 12, 12), torch.rand(b, 9))


@case
def boxes_and_objects():
    """A detector's losses: where anything is, boxes by their overlap, classes."""

    def overlap(a, b):
        low, high = torch.max(a[..., :2], b[..., :2]), torch.min(a[..., 2:], b[..., 2:])
        inside = (high - low).clamp(min=0).prod(-1)
        area = lambda t: (t[..., 2] - t[..., 0]) * (t[..., 3] - t[..., 1])  # noqa: E731
        both = area(a) + area(b) - inside
        around = (torch.max(a[..., 2:], b[..., 2:]) - torch.min(a[..., :2], b[..., :2])).prod(-1)
        return inside / both - (around - both) / around

    def loss_of(net, x, there, box, label):
        out = net(x).permute(0, 2, 3, 1)
        start = out[..., 1:3].sigmoid()
        found = torch.cat([start, start + out[..., 3:5].exp()], -1)
        placed = (1 - overlap(found, box)) * there
        named = F.cross_entropy(out[..., 5:].permute(0, 3, 1, 2), label, reduction="none") * there
        return F.binary_cross_entropy_with_logits(out[..., 0], there) + (placed.sum() + named.sum()) / there.sum().clamp(min=1)

    def batch(b):
        start = torch.rand(b, 4, 4, 2)
        return (torch.randn(b, 1, 8, 8), (torch.rand(b, 4, 4) < 0.4).float(), torch.cat([start, start + torch.rand(b, 4, 4, 2) + 0.1], -1),
                torch.randint(0, 3, (b, 4, 4)))

    return nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(8, 8, 1)), minimised(loss_of), batch


@case
def mixed_pictures():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))

    def loss_of(net, x, y, order, share):
        out = net(share * x + (1 - share) * x[order])
        return share * F.cross_entropy(out, y, label_smoothing=0.1) + (1 - share) * F.cross_entropy(out, y[order], label_smoothing=0.1)

    return net, minimised(loss_of), lambda b: (torch.randn(b, 1, 8, 8), labels(b), torch.randperm(b), torch.tensor(0.3))


@case
def transformed_pictures():
    """A spatial transformer: an affine grid and bilinear samples."""
    net = Fn(lambda s, x: s.head(F.grid_sample(x, F.affine_grid(s.where(x.flatten(1)).view(-1, 2, 3) + torch.eye(2, 3), x.shape, align_corners=False),
                                               align_corners=False).flatten(1)), where=mlp(64, 16, 6), head=nn.Linear(64, 3))
    return trained(net, lambda b: (torch.randn(b, 1, 8, 8), labels(b)), optimizer=adam)


@case
def local_response_and_powers():
    net = nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.LocalResponseNorm(3), nn.MaxPool2d(3, 2, ceil_mode=True), nn.LPPool2d(2, 2), nn.Flatten(),
                        nn.LazyLinear(3))
    net(torch.randn(1, 2, 10, 10))
    return trained(net, lambda b: (torch.randn(b, 2, 10, 10), labels(b)))


@case
def video_convolutions():
    net = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(4, 4, (1, 3, 3)), nn.AdaptiveAvgPool3d(1),
                        nn.Flatten(), nn.Linear(4, 3))
    return trained(net, lambda b: (torch.randn(b, 1, 4, 8, 8), labels(b)))
