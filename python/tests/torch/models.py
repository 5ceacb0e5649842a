"""Programs as people write them in PyTorch: nets, losses and whole updates. A case gives a module that holds all that is
trained, a function that makes its update, and a function that draws a batch of b examples."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

CASES = {}


def case(fn):
    CASES[fn.__name__] = fn
    return fn


def sgd(module, lr=0.05):
    return torch.optim.SGD(module.parameters(), lr=lr, momentum=0.9)


def trained(module, batch, loss=F.cross_entropy, optimizer=sgd):
    """The plain loop's body: loss_fn(model(*inputs), target)."""

    def make(net):
        opt = optimizer(net)

        def update(*args):
            out = loss(net(*args[:-1]), args[-1])
            opt.zero_grad()
            out.backward()
            opt.step()
            return out

        return update

    return module, make, batch


def labels(b, n=3):
    return torch.randint(0, n, (b,))


def mlp(*sizes, act=nn.Tanh):
    parts = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        parts += [nn.Linear(a, b)] + ([act()] if i + 2 < len(sizes) else [])
    return nn.Sequential(*parts)


class Fn(nn.Module):
    """Parts by name, and what to do with them."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.does = forward

    def forward(self, *args):
        return self.does(self, *args)


# ---- plain nets ------------------------------------------------------------------------------------------------------
@case
def mlp_classifier():
    return trained(mlp(4, 16, 3, act=nn.ReLU), lambda b: (torch.randn(b, 4), labels(b)))


@case
def mlp_regression_huber():
    return trained(mlp(4, 16, 16, 2, act=nn.SiLU), lambda b: (torch.randn(b, 4), torch.randn(b, 2)), F.huber_loss)


@case
def every_activation():
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 8), nn.ELU(), nn.Linear(8, 8), nn.Mish(), nn.Linear(8, 8), nn.SELU(),
                        nn.Linear(8, 8), nn.Hardswish(), nn.CELU(), nn.PReLU(), nn.Linear(8, 8), nn.GLU(), nn.GELU("tanh"),
                        nn.Linear(4, 8), nn.Softsign(), nn.Hardtanh(), nn.LogSigmoid(), nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 4), labels(b)))


@case
def autoencoder():
    return trained(mlp(8, 6, 2, 6, 8), lambda b: (x := torch.randn(b, 8), x), F.mse_loss)


@case
def tied_weights():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    return trained(nn.Sequential(first, nn.Tanh(), second), lambda b: (torch.randn(b, 4), labels(b)))


@case
def weight_norm():
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 4), labels(b)))


@case
def siamese_triplet():
    net = mlp(4, 16, 8)

    def make(net):
        opt = sgd(net, 0.01)

        def update(a, p, n):
            loss = F.triplet_margin_loss(F.normalize(net(a)), F.normalize(net(p)), F.normalize(net(n)))
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return update

    return net, make, lambda b: tuple(torch.randn(b, 4) for _ in range(3))


@case
def tabular_with_embeddings():
    net = Fn(lambda m, x, c: m.body(torch.cat([x, m.a(c[:, 0]), m.b(c[:, 1])], 1)).squeeze(1),
             a=nn.Embedding(5, 3), b=nn.Embedding(7, 4), body=nn.Sequential(nn.BatchNorm1d(10), nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1)))
    return trained(net, lambda b: (torch.randn(b, 3), torch.stack([labels(b, 5), labels(b, 7)], 1), torch.rand(b).round()),
                   F.binary_cross_entropy_with_logits)


@case
def tabm_ensemble():
    """Members that share a matrix and scale its inputs and outputs."""
    k = 4
    net = Fn(lambda m, x: (torch.relu(m.shared(x[:, None] * m.r) * m.s) @ m.out.transpose(1, 2).mean(0) + m.bias),
             shared=nn.Linear(4, 8), r=nn.Parameter(torch.randn(k, 4)), s=nn.Parameter(torch.randn(k, 8)),
             out=nn.Parameter(torch.randn(k, 1, 8) * 0.3), bias=nn.Parameter(torch.zeros(k, 1)))
    return trained(net, lambda b: (torch.randn(b, 4), torch.randn(b, 1, 1)), lambda p, y: F.mse_loss(p, y.expand_as(p)))


@case
def dlrm():
    def forward(m, dense, sparse):
        d = m.bottom(dense)
        rows = torch.stack([d] + [t(sparse[:, i]) for i, t in enumerate(m.tables)], 1)
        pairs = torch.bmm(rows, rows.transpose(1, 2))
        i, j = torch.tril_indices(rows.shape[1], rows.shape[1], -1)
        return m.top(torch.cat([d, pairs[:, i, j]], 1)).squeeze(1)

    net = Fn(forward, bottom=mlp(4, 8, 6), tables=nn.ModuleList([nn.Embedding(9, 6) for _ in range(3)]), top=mlp(12, 8, 1))
    return trained(net, lambda b: (torch.randn(b, 4), torch.randint(0, 9, (b, 3)), torch.rand(b).round()),
                   F.binary_cross_entropy_with_logits)


@case
def embedding_bag():
    net = Fn(lambda m, words: m.out(m.bag(words)), bag=nn.EmbeddingBag(12, 6, mode="mean"), out=nn.Linear(6, 3))
    return trained(net, lambda b: (torch.randint(0, 12, (b, 4)), labels(b)))


@case
def dense_mixture_of_experts():
    def forward(m, x):
        weights = torch.softmax(m.router(x), -1)
        return torch.einsum("be,beo->bo", weights, torch.stack([e(x) for e in m.experts], 1))

    net = Fn(forward, router=nn.Linear(4, 3), experts=nn.ModuleList([mlp(4, 8, 3) for _ in range(3)]))
    return trained(net, lambda b: (torch.randn(b, 4), labels(b)))


@case
def film_and_residuals():
    def forward(m, x, z):
        h = m.a(x)
        scale, shift = m.film(z).chunk(2, -1)
        h = h + F.silu(m.norm(h) * (1 + scale) + shift)
        return m.out(h)

    net = Fn(forward, a=nn.Linear(4, 8), film=nn.Linear(2, 16), norm=nn.LayerNorm(8), out=nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 4), torch.randn(b, 2), labels(b)), lambda p, y: F.cross_entropy(p, y, label_smoothing=0.1))


@case
def class_weights_and_ignored_labels():
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]), ignore_index=2)
    return trained(mlp(4, 8, 3), lambda b: (torch.randn(b, 4), labels(b)), loss)


@case
def parameter_groups_with_decay():
    def optimizer(net):
        return torch.optim.AdamW([{"params": net[0].parameters(), "lr": 3e-3}, {"params": net[2].parameters(), "weight_decay": 0.0}], lr=1e-3)

    return trained(mlp(4, 16, 3), lambda b: (torch.randn(b, 4), labels(b)), optimizer=optimizer)


# ---- images ----------------------------------------------------------------------------------------------------------
@case
def lenet():
    net = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 3))
    return trained(net, lambda b: (torch.randn(b, 1, 16, 16), labels(b)))


class BasicBlock(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if stride != 1 or a != b else None

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x if self.down is None else self.down(x)
        return self.relu(y)


def resnet18(width=64, classes=10):
    w, blocks, last = width, [], width
    for i, out in enumerate((w, 2 * w, 4 * w, 8 * w)):
        blocks += [BasicBlock(last, out, 1 if i == 0 else 2), BasicBlock(out, out, 1)]
        last = out
    return nn.Sequential(nn.Conv2d(3, w, 3, 1, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU(inplace=True), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, classes))


@case
def resnet18_at_32():
    return trained(resnet18(width=4, classes=3), lambda b: (torch.randn(b, 3, 32, 32), labels(b)), optimizer=lambda m: sgd(m, 0.01))


@case
def group_norm_and_strides():
    net = nn.Sequential(nn.Conv2d(2, 4, 3, stride=(2, 1), padding=(1, 0)), nn.GroupNorm(2, 4), nn.SiLU(),
                        nn.Conv2d(4, 8, 3, padding="same", dilation=2), nn.InstanceNorm2d(8, affine=True), nn.ReLU6(),
                        nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(), nn.Linear(32, 3))
    return trained(net, lambda b: (torch.randn(b, 2, 8, 10), labels(b)))


@case
def depthwise_separable():
    net = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Conv2d(4, 8, 1), nn.BatchNorm2d(8), nn.Hardswish(),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 4, 6, 6), labels(b)))


@case
def unet():
    def forward(m, x):
        a = m.down1(x)
        b = m.down2(F.max_pool2d(a, 2))
        up = F.interpolate(m.mid(b), scale_factor=2, mode="nearest")
        return m.out(torch.cat([a, m.up(up)], 1))

    block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU())  # noqa: E731
    net = Fn(forward, down1=block(1, 4), down2=block(4, 8), mid=block(8, 8), up=block(8, 4), out=nn.Conv2d(8, 3, 1))
    return trained(net, lambda b: (torch.randn(b, 1, 8, 8), torch.randint(0, 3, (b, 8, 8))))


@case
def transposed_convolutions():
    net = nn.Sequential(nn.Conv2d(1, 4, 4, 2, 1), nn.LeakyReLU(0.2), nn.ConvTranspose2d(4, 1, 4, 2, 1))
    return trained(net, lambda b: (x := torch.randn(b, 1, 8, 8), x), F.mse_loss)


@case
def vit_tiny():
    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 8, 4, 4)
            self.cls, self.pos = nn.Parameter(torch.zeros(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8) * 0.02)
            layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
            return self.head(self.body(x)[:, 0])

    return trained(Vit(), lambda b: (torch.randn(b, 3, 8, 8), labels(b)))


@case
def conv1d_wavenet():
    net = Fn(lambda m, x: m.out(torch.tanh(m.a(x)) * torch.sigmoid(m.b(x))).mean(2),
             a=nn.Conv1d(2, 6, 3, padding=2, dilation=2), b=nn.Conv1d(2, 6, 3, padding=2, dilation=2), out=nn.Conv1d(6, 3, 1))
    return trained(net, lambda b: (torch.randn(b, 2, 12), labels(b)))


@case
def vae():
    def make(net):
        opt = torch.optim.SGD(net.parameters(), lr=0.01)

        def update(x, noise):
            mean, log_var = net.encoder(x).chunk(2, -1)
            z = mean + noise * torch.exp(0.5 * log_var)
            recon = F.binary_cross_entropy_with_logits(net.decoder(z), x, reduction="sum") / x.shape[0]
            kl = -0.5 * torch.mean(torch.sum(1 + log_var - mean.pow(2) - log_var.exp(), 1))
            loss = recon + kl
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            return loss, recon, kl

        return update

    return Fn(None, encoder=mlp(8, 12, 6), decoder=mlp(3, 12, 8)), make, lambda b: (torch.rand(b, 8), torch.randn(b, 3))


@case
def gan():
    def make(net):
        opt_d, opt_g = sgd(net.d, 0.01), sgd(net.g, 0.01)

        def update(real, z):
            fake = net.g(z)
            one, zero = torch.ones(real.shape[0], 1), torch.zeros(real.shape[0], 1)
            loss_d = F.binary_cross_entropy_with_logits(net.d(real), one) + F.binary_cross_entropy_with_logits(net.d(fake.detach()), zero)
            opt_d.zero_grad()
            loss_d.backward()
            opt_d.step()
            loss_g = F.binary_cross_entropy_with_logits(net.d(fake), one)
            opt_g.zero_grad()
            loss_g.backward()
            opt_g.step()
            return {"d": loss_d, "g": loss_g}

        return update

    return Fn(None, d=mlp(4, 16, 1), g=mlp(2, 16, 4)), make, lambda b: (torch.randn(b, 4), torch.randn(b, 2))


@case
def wgan_gradient_penalty():
    def make(net):
        opt = torch.optim.SGD(net.d.parameters(), lr=0.01)

        def update(real, z, mix):
            fake = net.g(z).detach()
            between = (mix * real + (1 - mix) * fake).requires_grad_(True)
            g, = torch.autograd.grad(net.d(between).sum(), between, create_graph=True)
            penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
            loss = net.d(fake).mean() - net.d(real).mean() + 10 * penalty
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return update

    return Fn(None, d=mlp(4, 16, 1), g=mlp(2, 16, 4)), make, lambda b: (torch.randn(b, 4), torch.randn(b, 2), torch.rand(b, 1))


# ---- sequences -------------------------------------------------------------------------------------------------------
@case
def lstm_two_layers_both_directions():
    net = Fn(lambda m, x: m.out(m.body(x)[0][:, -1]), body=nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True), out=nn.Linear(12, 3))
    return trained(net, lambda b: (torch.randn(b, 5, 4), labels(b)))


@case
def gru_two_layers_both_directions():
    net = Fn(lambda m, x: m.out(m.body(x)[1][-1]), body=nn.GRU(4, 6, 2, bidirectional=True), out=nn.Linear(6, 3))
    return trained(net, lambda b: (torch.randn(5, b, 4), labels(b)))


@case
def char_lstm_with_state():
    def forward(m, x, h, c):
        y, (h, c) = m.body(m.table(x), (h, c))
        return m.out(y).flatten(0, 1)

    net = Fn(forward, table=nn.Embedding(11, 6), body=nn.LSTM(6, 8, batch_first=True), out=nn.Linear(8, 11))
    return trained(net, lambda b: (torch.randint(0, 11, (b, 6)), torch.randn(1, b, 8), torch.randn(1, b, 8), torch.randint(0, 11, (b, 6))),
                   lambda p, y: F.cross_entropy(p, y.flatten()))


@case
def rnn_cells_in_a_loop():
    def forward(m, x):
        h, s = torch.zeros(x.shape[0], 6), torch.zeros(x.shape[0], 6)
        for t in range(x.shape[1]):
            h = m.cell(x[:, t], h)
            s = m.second(h, s)
        return m.out(s)

    net = Fn(forward, cell=nn.GRUCell(4, 6), second=nn.RNNCell(6, 6), out=nn.Linear(6, 3))
    return trained(net, lambda b: (torch.randn(b, 4, 4), labels(b)))


@case
def transformer_encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    net = Fn(lambda m, x: m.out(m.body(m.table(x)).mean(1)), table=nn.Embedding(10, 8, padding_idx=0),
             body=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), out=nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randint(0, 10, (b, 5)), labels(b)))


@case
def encoder_with_padding_mask():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    net = Fn(lambda m, x: m.out(m.body(m.table(x), src_key_padding_mask=x == 0)[:, 0]), table=nn.Embedding(10, 8),
             body=nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), out=nn.Linear(8, 3))

    def batch(b):
        words = torch.randint(1, 10, (b, 5))
        words[:, 4] = 0
        return words, labels(b)

    return trained(net, batch)


@case
def cross_attention():
    net = Fn(lambda m, q, kv: m.out(m.attention(q, kv, kv, need_weights=False)[0].mean(1)),
             attention=nn.MultiheadAttention(8, 2, batch_first=True, kdim=6, vdim=6), out=nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 3, 8), torch.randn(b, 5, 6), labels(b)))


class GptBlock(nn.Module):
    def __init__(self, n, heads, length):
        super().__init__()
        self.ln1, self.ln2, self.heads = nn.LayerNorm(n), nn.LayerNorm(n), heads
        self.qkv, self.proj = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.fc, self.out = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length), persistent=False)

    def forward(self, x):
        b, t, n = x.shape
        q, k, v = (z.view(b, t, self.heads, n // self.heads).transpose(1, 2) for z in self.qkv(self.ln1(x)).split(n, dim=2))
        a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        a = F.softmax(a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")), dim=-1)
        x = x + self.proj((a @ v).transpose(1, 2).contiguous().view(b, t, n))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class Gpt(nn.Module):
    """Character-level, after nanoGPT: learned positions, the table shared with the head."""

    def __init__(self, words=13, n=16, heads=2, layers=2, length=8):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, n), nn.Embedding(length, n)
        self.blocks = nn.ModuleList([GptBlock(n, heads, length) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(n), nn.Linear(n, words, bias=False)
        self.wte.weight = self.head.weight

    def forward(self, x):
        h = self.wte(x) + self.wpe(torch.arange(0, x.shape[1], dtype=torch.long))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


@case
def nanogpt():
    def make(net):
        opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

        def update(x, y):
            logits = net(x)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1), ignore_index=-1)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            return loss

        return update

    return Gpt(), make, lambda b: (torch.randint(0, 13, (b, 8)), torch.randint(0, 13, (b, 8)))


@case
def rotary_causal_attention():
    def rotate(x, cos, sin):
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(m, x):
        b, t, n = x.shape
        q, k, v = (z.unflatten(-1, (2, n // 2)).transpose(1, 2) for z in m.qkv(m.norm(x)).chunk(3, -1))
        q, k = rotate(q, m.cos, m.sin), rotate(k, m.cos, m.sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, n)
        return m.out(y + x).mean(1)

    angles = torch.outer(torch.arange(6.0), 1.0 / 100 ** (torch.arange(0, 4, 2) / 4))
    net = Fn(forward, qkv=nn.Linear(8, 24), norm=nn.RMSNorm(8), out=nn.Linear(8, 3))
    net.register_buffer("cos", angles.cos())
    net.register_buffer("sin", angles.sin())
    return trained(net, lambda b: (torch.randn(b, 6, 8), labels(b)))


# ---- reinforcement learning ------------------------------------------------------------------------------------------
class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.v, self.a = nn.Linear(4, 32), nn.Linear(32, 1), nn.Linear(32, 3)

    def forward(self, x):
        h = self.body(x).relu()
        a = self.a(h)
        return self.v(h) + a - a.mean(-1, keepdim=True)


@case
def double_dueling_dqn():
    def make(net):
        q, target = net.q, net.target
        opt = sgd(q, 0.01)

        def update(o, a, r, o2, d):
            with torch.no_grad():
                best = q(o2).argmax(1, keepdim=True)
                y = r + 0.99 * (1 - d) * target(o2).gather(1, best).squeeze(1)
            loss = F.smooth_l1_loss(q(o).gather(1, a).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q.parameters(), 0.5)
            opt.step()
            for t, p in zip(target.parameters(), q.parameters()):
                t.data.copy_(0.05 * p.data + 0.95 * t.data)
            return loss

        return update

    net = Fn(None, q=Dueling(), target=Dueling())
    return net, make, lambda b: (torch.randn(b, 4), torch.randint(0, 3, (b, 1)), torch.randn(b), torch.randn(b, 4), torch.rand(b).round())


@case
def ppo():
    def make(net):
        opt = sgd(net, 0.01)

        def update(o, a, old_log_p, adv, ret, old_v):
            dist = torch.distributions.Categorical(logits=net.actor(o))
            ratio = (dist.log_prob(a) - old_log_p).exp()
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            policy = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
            v = net.critic(o).view(-1)
            clipped = old_v + torch.clamp(v - old_v, -0.2, 0.2)
            value = 0.5 * torch.max((v - ret) ** 2, (clipped - ret) ** 2).mean()
            loss = policy - 0.01 * dist.entropy().mean() + 0.5 * value
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            return loss, policy, value

        return update

    net = Fn(None, actor=mlp(4, 16, 16, 2), critic=mlp(4, 16, 16, 1))
    return net, make, lambda b: (torch.randn(b, 4), labels(b, 2), -torch.rand(b), torch.randn(b), torch.randn(b), torch.randn(b))


@case
def ppo_continuous():
    def make(net):
        opt = sgd(net, 0.01)

        def update(o, a, adv):
            dist = torch.distributions.Normal(net.mean(o), net.log_std.exp().expand_as(a))
            loss = -(dist.log_prob(a).sum(1) * adv).mean() - 1e-3 * dist.entropy().sum(1).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return update

    net = Fn(None, mean=mlp(3, 16, 2), log_std=nn.Parameter(torch.zeros(1, 2)))
    return net, make, lambda b: (torch.randn(b, 3), torch.randn(b, 2), torch.randn(b))


@case
def td3():
    def make(net):
        opt_q, opt_pi = sgd(nn.ModuleList([net.q1, net.q2]), 0.01), sgd(net.pi, 0.01)
        q = lambda m, o, a: m(torch.cat([o, a], 1))  # noqa: E731

        def update(o, a, r, o2, d, noise):
            with torch.no_grad():
                a2 = (torch.tanh(net.pi_target(o2)) + (noise * 0.2).clamp(-0.5, 0.5)).clamp(-1, 1)
                y = r + (1 - d) * 0.99 * torch.min(q(net.q1_target, o2, a2), q(net.q2_target, o2, a2))
            loss = F.mse_loss(q(net.q1, o, a), y) + F.mse_loss(q(net.q2, o, a), y)
            opt_q.zero_grad()
            loss.backward()
            opt_q.step()
            actor = -q(net.q1, o, torch.tanh(net.pi(o))).mean()
            opt_pi.zero_grad()
            actor.backward()
            opt_pi.step()
            for a_, b_ in ((net.q1, net.q1_target), (net.q2, net.q2_target), (net.pi, net.pi_target)):
                for p, t in zip(a_.parameters(), b_.parameters()):
                    t.data.mul_(0.995)
                    t.data.add_(0.005 * p.data)
            return loss, actor

        return update

    parts = {n: mlp(4, 16, 1, act=nn.ReLU) for n in ("q1", "q2", "q1_target", "q2_target")}
    net = Fn(None, pi=mlp(3, 16, 1), pi_target=mlp(3, 16, 1), **parts)
    return net, make, lambda b: (torch.randn(b, 3), torch.rand(b, 1), torch.randn(b, 1), torch.randn(b, 3), torch.zeros(b, 1), torch.randn(b, 1))


@case
def sac_with_three_optimizers():
    """CleanRL's update, its noise given."""

    def make(net):
        opt_q, opt_pi, opt_a = sgd(nn.ModuleList([net.q1, net.q2]), 0.01), sgd(net.pi, 0.01), torch.optim.SGD([net.log_alpha], lr=0.01)
        q = lambda m, o, a: m(torch.cat([o, a], 1))  # noqa: E731

        def act(o, noise):
            mean, log_std = net.pi(o).chunk(2, -1)
            log_std = -5 + 0.5 * (2 + 5) * (torch.tanh(log_std) + 1)
            x = mean + noise * log_std.exp()
            a = torch.tanh(x)
            log_p = torch.distributions.Normal(mean, log_std.exp()).log_prob(x) - torch.log(1 - a.pow(2) + 1e-6)
            return a, log_p.sum(1, keepdim=True)

        def update(o, a, r, o2, d, n1, n2):
            alpha = net.log_alpha.exp().detach()
            with torch.no_grad():
                a2, log_p2 = act(o2, n1)
                y = r + (1 - d) * 0.99 * (torch.min(q(net.q1_target, o2, a2), q(net.q2_target, o2, a2)) - alpha * log_p2)
            loss = F.mse_loss(q(net.q1, o, a), y) + F.mse_loss(q(net.q2, o, a), y)
            opt_q.zero_grad()
            loss.backward()
            opt_q.step()
            new, log_p = act(o, n2)
            actor = (alpha * log_p - torch.min(q(net.q1, o, new), q(net.q2, o, new))).mean()
            opt_pi.zero_grad()
            actor.backward()
            opt_pi.step()
            temperature = (-net.log_alpha.exp() * (log_p.detach() - 1.0)).mean()
            opt_a.zero_grad()
            temperature.backward()
            opt_a.step()
            for m, t in ((net.q1, net.q1_target), (net.q2, net.q2_target)):
                for p, s in zip(m.parameters(), t.parameters()):
                    s.data.copy_(0.005 * p.data + 0.995 * s.data)
            return loss, actor, temperature

        return update

    parts = {n: mlp(4, 16, 1) for n in ("q1", "q2", "q1_target", "q2_target")}
    net = Fn(None, pi=mlp(3, 16, 2), log_alpha=nn.Parameter(torch.zeros(1)), **parts)
    return net, make, lambda b: (torch.randn(b, 3), torch.rand(b, 1), torch.randn(b, 1), torch.randn(b, 3), torch.zeros(b, 1), torch.randn(b, 1),
                                 torch.randn(b, 1))


@case
def reinforce_with_baseline():
    def make(net):
        opt = sgd(net, 0.01)

        def update(o, a, ret):
            log_p = F.log_softmax(net.pi(o), -1).gather(1, a[:, None])[:, 0]
            v = net.v(o)[:, 0]
            loss = -(log_p * (ret - v).detach()).mean() + F.mse_loss(v, ret)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return update

    return Fn(None, pi=mlp(4, 16, 3), v=mlp(4, 16, 1)), make, lambda b: (torch.randn(b, 4), labels(b), torch.randn(b))


@case
def distributional_dqn():
    """C51: a projection of the target onto fixed atoms."""
    atoms = 7

    def make(net):
        opt = sgd(net.q, 0.05)

        def update(o, a, r, o2):
            with torch.no_grad():
                p2 = torch.softmax(net.target(o2).view(-1, 2, atoms), -1)
                best = (p2 * net.z).sum(-1).argmax(1)
                p2 = p2[torch.arange(o.shape[0]), best]
                t = (r[:, None] + 0.9 * net.z).clamp(-1, 1)
                spread = (1 - (t[:, :, None] - net.z).abs() * (atoms - 1) / 2).clamp(0, 1)
                m = (p2[:, :, None] * spread).sum(1)
            log_p = F.log_softmax(net.q(o).view(-1, 2, atoms)[torch.arange(o.shape[0]), a], -1)
            loss = -(m * log_p).sum(1).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return update

    net = Fn(None, q=mlp(4, 16, 2 * atoms), target=mlp(4, 16, 2 * atoms))
    net.register_buffer("z", torch.linspace(-1, 1, atoms))
    return net, make, lambda b: (torch.randn(b, 4), labels(b, 2), torch.randn(b) * 0.3, torch.randn(b, 4))


@case
def byol_with_moving_average():
    def make(net):
        opt = sgd(nn.ModuleList([net.online, net.predictor]), 0.02)

        def update(x1, x2):
            with torch.no_grad():
                t = F.normalize(net.target(x2), dim=-1)
            p = F.normalize(net.predictor(net.online(x1)), dim=-1)
            loss = (2 - 2 * (p * t).sum(-1)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                for s, o in zip(net.target.parameters(), net.online.parameters()):
                    s.mul_(0.9).add_(o, alpha=0.1)
            return loss

        return update

    return Fn(None, online=mlp(6, 12, 8), target=mlp(6, 12, 8), predictor=mlp(8, 12, 8)), make, lambda b: (torch.randn(b, 6), torch.randn(b, 6))


@case
def contrastive_clip():
    def loss(logits, _):
        n = torch.arange(logits.shape[0])
        return (F.cross_entropy(logits, n) + F.cross_entropy(logits.t(), n)) / 2

    net = Fn(lambda m, a, b: m.scale.exp() * F.normalize(m.a(a), dim=-1) @ F.normalize(m.b(b), dim=-1).t(),
             a=mlp(4, 8, 6), b=mlp(5, 8, 6), scale=nn.Parameter(torch.tensor(1.0)))
    return trained(net, lambda b: (torch.randn(b, 4), torch.randn(b, 5), torch.zeros(1)), loss)


@case
def physics_informed():
    """A second derivative by the inputs, in the loss."""

    def make(net):
        opt = torch.optim.SGD(net.parameters(), lr=0.01)

        def update(x):
            x = x.detach().requires_grad_(True)
            u = net(x)
            du, = torch.autograd.grad(u.sum(), x, create_graph=True)
            ddu, = torch.autograd.grad(du.sum(), x, create_graph=True)
            loss = ((ddu + u) ** 2).mean() + (net(torch.zeros(1, 1)) - 1).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return update

    return mlp(1, 16, 16, 1), make, lambda b: (torch.randn(b, 1),)


@case
def spectral_norm():
    net = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 3))
    return trained(net, lambda b: (torch.randn(b, 4), labels(b)))


@case
def knowledge_distillation():
    def make(net):
        opt = sgd(net.student)

        def update(x, y):
            with torch.no_grad():
                soft = F.softmax(net.teacher(x) / 2.0, -1)
            logits = net.student(x)
            loss = F.kl_div(F.log_softmax(logits / 2.0, -1), soft, reduction="batchmean") * 4.0 + F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return update

    return Fn(None, student=mlp(4, 8, 3), teacher=mlp(4, 16, 3)), make, lambda b: (torch.randn(b, 4), labels(b))


@case
def frozen_layers():
    net = mlp(4, 16, 16, 3)
    for p in net[0].parameters():
        p.requires_grad_(False)
    return trained(net, lambda b: (torch.randn(b, 4), labels(b)))


@case
def graph_convolution():
    net = Fn(lambda m, x, adj: m.out(torch.relu(adj @ m.a(torch.relu(adj @ m.first(x)))).mean(1)), first=nn.Linear(3, 8), a=nn.Linear(8, 8),
             out=nn.Linear(8, 3))

    def batch(b):
        adj = torch.rand(b, 5, 5) + torch.eye(5)
        return torch.randn(b, 5, 3), adj / adj.sum(-1, keepdim=True), labels(b)

    return trained(net, batch)


@case
def scatter_message_passing():
    def forward(m, x, source, target):
        messages = m.edge(torch.cat([x[source], x[target]], 1))
        got = torch.zeros(x.shape[0], messages.shape[1]).index_add(0, target, messages)
        return m.node(torch.cat([x, got], 1))

    net = Fn(forward, edge=mlp(8, 8, 6), node=mlp(10, 8, 3))
    return trained(net, lambda b: (torch.randn(b, 4), torch.randint(0, b, (2 * b,)), torch.randint(0, b, (2 * b,)), labels(b)))


@case
def diffusion_denoiser():
    def make(net):
        opt = sgd(net, 0.02)

        def update(x, noise, t):
            a = net.alphas[t][:, None]
            noisy = a.sqrt() * x + (1 - a).sqrt() * noise
            loss = F.mse_loss(net.body(torch.cat([noisy, net.time(t)], 1)), noise)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return update

    net = Fn(None, body=mlp(8, 16, 4, act=nn.SiLU), time=nn.Embedding(10, 4))
    net.register_buffer("alphas", torch.linspace(0.99, 0.01, 10))
    return net, make, lambda b: (torch.randn(b, 4), torch.randn(b, 4), torch.randint(0, 10, (b,)))
