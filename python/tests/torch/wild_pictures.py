"""Nets of pictures as their repositories have them: more cases for test_models.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, sgd, trained
from models_newer import minimised


def pictures(b, c=3, n=8):
    return torch.randn(b, c, n, n)


def classified(net, n=8, c=3, optimizer=sgd):
    return trained(net, lambda b: (pictures(b, c, n), labels(b)), optimizer=optimizer)


# ---- small classifiers -----------------------------------------------------------------------------------------------
def channel_shuffle(x, groups):
    batchsize, num_channels, height, width = x.size()
    x = x.view(batchsize, groups, num_channels // groups, height, width)
    return torch.transpose(x, 1, 2).contiguous().view(batchsize, num_channels, height, width)


class ShuffleUnit(nn.Module):
    """torchvision's InvertedResidual of ShuffleNetV2."""

    def __init__(self, inp, oup, stride):
        super().__init__()
        self.stride, half = stride, oup // 2
        depthwise = lambda i, o, s: nn.Conv2d(i, o, 3, s, 1, bias=False, groups=i)  # noqa: E731
        if stride > 1:
            self.branch1 = nn.Sequential(depthwise(inp, inp, stride), nn.BatchNorm2d(inp), nn.Conv2d(inp, half, 1, 1, 0, bias=False), nn.BatchNorm2d(half),
                                         nn.ReLU(inplace=True))
        else:
            self.branch1 = nn.Sequential()
        self.branch2 = nn.Sequential(nn.Conv2d(inp if stride > 1 else half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
                                     depthwise(half, half, stride), nn.BatchNorm2d(half), nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True))

    def forward(self, x):
        if self.stride == 1:
            x1, x2 = x.chunk(2, dim=1)
            out = torch.cat((x1, self.branch2(x2)), dim=1)
        else:
            out = torch.cat((self.branch1(x), self.branch2(x)), dim=1)
        return channel_shuffle(out, 2)


@case
def shufflenet_v2():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), ShuffleUnit(4, 8, 2), ShuffleUnit(8, 8, 1))
    return classified(Fn(lambda n, x: n.fc(n.body(x).mean([2, 3])), body=net, fc=nn.Linear(8, 3)), 12)


class SqueezeExcitation(nn.Module):
    def __init__(self, c, squeeze):
        super().__init__()
        self.avgpool, self.fc1, self.fc2 = nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, squeeze, 1), nn.Conv2d(squeeze, c, 1)

    def forward(self, x):
        return F.hardsigmoid(self.fc2(F.relu(self.fc1(self.avgpool(x))))) * x


class MobileBlock(nn.Module):
    def __init__(self, inp, exp, out, kernel, stride, se, hs):
        super().__init__()
        act = nn.Hardswish if hs else nn.ReLU
        self.use_res_connect = stride == 1 and inp == out
        layers = []
        if exp != inp:
            layers += [nn.Conv2d(inp, exp, 1, bias=False), nn.BatchNorm2d(exp, eps=0.001, momentum=0.01), act(inplace=True)]
        layers += [nn.Conv2d(exp, exp, kernel, stride, (kernel - 1) // 2, groups=exp, bias=False), nn.BatchNorm2d(exp, eps=0.001, momentum=0.01), act(inplace=True)]
        layers += [SqueezeExcitation(exp, 4)] if se else []
        layers += [nn.Conv2d(exp, out, 1, bias=False), nn.BatchNorm2d(out, eps=0.001, momentum=0.01)]
        self.block = nn.Sequential(*layers)

    def forward(self, x):
        result = self.block(x)
        if self.use_res_connect:
            result += x
        return result


@case
def mobilenet_v3():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4), nn.Hardswish(), MobileBlock(4, 4, 4, 3, 1, True, False), MobileBlock(4, 12, 6, 5, 2, False, True),
                        MobileBlock(6, 12, 6, 5, 1, True, True), nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(6, 8), nn.Hardswish(inplace=True), nn.Linear(8, 3))
    return classified(net)


class DenseLayer(nn.Module):
    def __init__(self, inp, growth, bn_size=2):
        super().__init__()
        self.norm1, self.relu1, self.conv1 = nn.BatchNorm2d(inp), nn.ReLU(inplace=True), nn.Conv2d(inp, bn_size * growth, 1, bias=False)
        self.norm2, self.relu2, self.conv2 = nn.BatchNorm2d(bn_size * growth), nn.ReLU(inplace=True), nn.Conv2d(bn_size * growth, growth, 3, padding=1, bias=False)

    def forward(self, inputs):
        bottleneck = self.conv1(self.relu1(self.norm1(torch.cat(inputs, 1))))
        return self.conv2(self.relu2(self.norm2(bottleneck)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, layers, inp, growth):
        super().__init__()
        for i in range(layers):
            self.add_module("denselayer%d" % (i + 1), DenseLayer(inp + i * growth, growth))

    def forward(self, init_features):
        features = [init_features]
        for name, layer in self.items():
            features.append(layer(features))
        return torch.cat(features, 1)


@case
def densenet():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), DenseBlock(2, 4, 3), nn.BatchNorm2d(10), nn.ReLU(inplace=True), nn.Conv2d(10, 5, 1, bias=False),
                        nn.AvgPool2d(2, 2), DenseBlock(2, 5, 3), nn.BatchNorm2d(11))
    return classified(Fn(lambda n, x: n.classifier(torch.flatten(F.adaptive_avg_pool2d(F.relu(n.features(x), inplace=True), (1, 1)), 1)), features=net,
                         classifier=nn.Linear(11, 3)), 6)


class Res2Block(nn.Module):
    """Parts of the channels, each of which sees what the one before found."""

    def __init__(self, width=3, scale=3):
        super().__init__()
        self.nums, self.width = scale - 1, width
        self.conv1, self.bn1 = nn.Conv2d(6, width * scale, 1, bias=False), nn.BatchNorm2d(width * scale)
        self.convs = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(self.nums)])
        self.bns = nn.ModuleList([nn.BatchNorm2d(width) for _ in range(self.nums)])
        self.conv3, self.relu = nn.Conv2d(width * scale, 6, 1, bias=False), nn.ReLU(inplace=True)
        self.p = nn.Parameter(torch.ones(1) * 3)

    def forward(self, x):
        spx = torch.split(self.relu(self.bn1(self.conv1(x))), self.width, 1)
        for i in range(self.nums):
            sp = spx[i] if i == 0 else sp + spx[i]  # noqa: F821
            sp = self.relu(self.bns[i](self.convs[i](sp)))
            out = sp if i == 0 else torch.cat((out, sp), 1)  # noqa: F821
        return self.relu(self.conv3(torch.cat((out, spx[self.nums]), 1)) + x)


@case
def res2net_with_generalised_means():
    def forward(net, x):
        x = net.block(net.stem(x))
        eca = net.eca(F.adaptive_avg_pool2d(x, 1).squeeze(-1).transpose(-1, -2)).transpose(-1, -2).unsqueeze(-1)
        x = x * eca.sigmoid().expand_as(x)
        x = F.avg_pool2d(x.clamp(min=1e-6).pow(net.p), (x.size(-2), x.size(-1))).pow(1.0 / net.p)
        return net.head(x.flatten(1))

    return classified(Fn(forward, stem=nn.Conv2d(3, 6, 3, padding=1), block=Res2Block(), eca=nn.Conv1d(1, 1, 3, padding=1, bias=False), p=nn.Parameter(torch.ones(1) * 3),
                         head=nn.Linear(6, 3)), 6)


class RepVGGBlock(nn.Module):
    """Three ways beside one another in training."""

    def __init__(self, c):
        super().__init__()
        self.rbr_identity = nn.BatchNorm2d(c)
        self.rbr_dense = nn.Sequential(nn.Conv2d(c, c, 3, padding=1, groups=2, bias=False), nn.BatchNorm2d(c))
        self.rbr_1x1 = nn.Sequential(nn.Conv2d(c, c, 1, groups=2, bias=False), nn.BatchNorm2d(c))

    def forward(self, inputs):
        return F.relu(self.rbr_dense(inputs) + self.rbr_1x1(inputs) + self.rbr_identity(inputs))

    def custom_l2(self):
        k3, k1 = self.rbr_dense[0].weight, self.rbr_1x1[0].weight
        t3 = (self.rbr_dense[1].weight / ((self.rbr_dense[1].running_var + self.rbr_dense[1].eps).sqrt())).reshape(-1, 1, 1, 1).detach()
        t1 = (self.rbr_1x1[1].weight / ((self.rbr_1x1[1].running_var + self.rbr_1x1[1].eps).sqrt())).reshape(-1, 1, 1, 1).detach()
        circle = (k3**2).sum() - (k3[:, :, 1:2, 1:2] ** 2).sum()
        eq_kernel = k3[:, :, 1:2, 1:2] * t3 + k1 * t1
        return (eq_kernel**2 / (t3**2 + t1**2)).sum() + circle


@case
def repvgg_with_its_own_decay():
    net = Fn(None, stem=nn.Conv2d(3, 4, 3), block=RepVGGBlock(4), head=nn.Linear(4, 3))
    return minimised(net, lambda n, x, y: F.cross_entropy(n.head(n.block(n.stem(x)).mean((-2, -1))), y) + 1e-3 * n.block.custom_l2(), lambda b: (pictures(b), labels(b)))


class GRN(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.zeros(1, 1, 1, dim)), nn.Parameter(torch.zeros(1, 1, 1, dim))

    def forward(self, x):
        gx = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        nx = gx / (gx.mean(dim=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * nx) + self.beta + x


class ChannelsNorm(nn.Module):
    """ConvNeXt's LayerNorm of both layouts."""

    def __init__(self, shape, eps=1e-6, data_format="channels_last"):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))
        self.eps, self.data_format, self.normalized_shape = eps, data_format, (shape,)

    def forward(self, x):
        if self.data_format == "channels_last":
            return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


@case
def convnext_v2():
    def forward(net, x):
        x = net.stem(x)
        skip = x
        x = net.norm(net.dwconv(x).permute(0, 2, 3, 1))
        x = net.pw2(net.grn(F.gelu(net.pw1(x)))).permute(0, 3, 1, 2)
        return net.head((skip + x).mean([-2, -1]))

    parts = dict(stem=nn.Sequential(nn.Conv2d(3, 6, 2, stride=2), ChannelsNorm(6, data_format="channels_first")), dwconv=nn.Conv2d(6, 6, 7, padding=3, groups=6), norm=ChannelsNorm(6),
                 pw1=nn.Linear(6, 12), pw2=nn.Linear(12, 6), grn=GRN(12), head=nn.Linear(6, 3))
    return classified(Fn(forward, **parts))


# ---- transformers ----------------------------------------------------------------------------------------------------
class DeiT(nn.Module):
    """Class and distillation tokens, places interpolated to the picture's size, a hard teacher."""

    def __init__(self, dim=8):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 2, 2)
        self.cls_token, self.dist_token = nn.Parameter(torch.zeros(1, 1, dim)), nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 6, dim))
        self.norm1, self.norm2, self.norm = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 16), nn.GELU(), nn.Linear(16, dim))
        self.head, self.head_dist = nn.Linear(dim, 3), nn.Linear(dim, 3)
        for p in (self.cls_token, self.dist_token, self.pos_embed):
            nn.init.trunc_normal_(p, std=0.02)

    def places(self, h, w):
        grid = self.pos_embed[:, 2:].reshape(1, 2, 2, -1).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, size=(h, w), mode="bilinear", align_corners=False)
        return torch.cat([self.pos_embed[:, :2], grid.permute(0, 2, 3, 1).flatten(1, 2)], 1)

    def forward(self, x):
        x = self.patch_embed(x)
        b, c, h, w = x.shape
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(b, -1, -1), self.dist_token.expand(b, -1, -1), x), dim=1) + self.places(h, w)
        y = self.norm1(x)
        qkv = self.qkv(y).reshape(b, -1, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * (c // 2) ** -0.5) @ k.transpose(-2, -1)
        x = x + self.proj((attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, -1, c))
        x = self.norm(x + self.mlp(self.norm2(x)))
        x, x_dist = self.head(x[:, 0]), self.head_dist(x[:, 1])
        return (x, x_dist) if self.training else (x + x_dist) / 2


@case
def deit_with_a_teacher():
    def loss(net, x, y):
        out, out_dist = net["student"](x)
        with torch.no_grad():
            teacher = net["teacher"](x)
        soft = F.kl_div(F.log_softmax(out_dist / 3, dim=1), F.log_softmax(teacher / 3, dim=1), reduction="sum", log_target=True) * 9 / out_dist.numel()
        hard = F.cross_entropy(out_dist, teacher.argmax(dim=1))
        return nn.CrossEntropyLoss(label_smoothing=0.1)(out, y) * 0.5 + hard * 0.3 + soft * 0.2

    teacher = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    return minimised(nn.ModuleDict({"student": DeiT(), "teacher": teacher}), loss, lambda b: (pictures(b, n=6), labels(b)))


def window_partition(x, window_size):
    B, H, W, C = x.shape
    x = x.view(B, H // window_size, window_size, W // window_size, window_size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window_size, window_size, C)


def window_reverse(windows, window_size, H, W):
    B = int(windows.shape[0] / (H * W / window_size / window_size))
    x = windows.view(B, H // window_size, W // window_size, window_size, window_size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class SwinBlock(nn.Module):
    """Microsoft's: a table of relative places, cyclic shifts, a mask made of regions, patches merged by strided slices."""

    def __init__(self, dim=8, heads=2, window=2, shift=1, n=4):
        super().__init__()
        self.window, self.shift, self.heads = window, shift, heads
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.2)
        coords = torch.flatten(torch.stack(torch.meshgrid([torch.arange(window), torch.arange(window)], indexing="ij")), 1)
        relative = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        relative[:, :, 0] += window - 1
        relative[:, :, 1] += window - 1
        relative[:, :, 0] *= 2 * window - 1
        self.register_buffer("relative_position_index", relative.sum(-1))
        img_mask, cnt = torch.zeros((1, n, n, 1)), 0
        for h in (slice(0, -window), slice(-window, -shift), slice(-shift, None)):
            for w in (slice(0, -window), slice(-window, -shift), slice(-shift, None)):
                img_mask[:, h, w, :] = cnt
                cnt += 1
        mask = window_partition(img_mask, window).view(-1, window * window)
        mask = mask.unsqueeze(1) - mask.unsqueeze(2)
        self.register_buffer("attn_mask", mask.masked_fill(mask != 0, float(-100.0)).masked_fill(mask == 0, float(0.0)))
        self.norm1, self.norm2, self.qkv, self.proj = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 16), nn.GELU(), nn.Linear(16, dim))
        self.merge_norm, self.reduction = nn.LayerNorm(4 * dim), nn.Linear(4 * dim, 2 * dim, bias=False)

    def attend(self, x):
        B_, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B_, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * (C // self.heads) ** -0.5) @ k.transpose(-2, -1)
        bias = self.table[self.relative_position_index.view(-1)].view(N, N, -1).permute(2, 0, 1).contiguous()
        attn = attn + bias.unsqueeze(0)
        nW = self.attn_mask.shape[0]
        attn = attn.view(B_ // nW, nW, self.heads, N, N) + self.attn_mask.unsqueeze(1).unsqueeze(0)
        attn = attn.view(-1, self.heads, N, N).softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))

    def forward(self, x):
        B, H, W, C = x.shape
        shifted = torch.roll(self.norm1(x), shifts=(-self.shift, -self.shift), dims=(1, 2))
        windows = window_partition(shifted, self.window).view(-1, self.window * self.window, C)
        back = window_reverse(self.attend(windows).view(-1, self.window, self.window, C), self.window, H, W)
        x = x + torch.roll(back, shifts=(self.shift, self.shift), dims=(1, 2))
        x = x + self.mlp(self.norm2(x))
        x = torch.cat([x[:, 0::2, 0::2, :], x[:, 1::2, 0::2, :], x[:, 0::2, 1::2, :], x[:, 1::2, 1::2, :]], -1)
        return self.reduction(self.merge_norm(x.view(B, -1, 4 * C)))


@case
def swin_as_microsoft_has_it():
    net = Fn(lambda n, x: n.head(n.block(n.embed(x).permute(0, 2, 3, 1)).mean(1)), embed=nn.Conv2d(3, 8, 2, 2), block=SwinBlock(), head=nn.Linear(16, 3))
    return classified(net)


class MobileViT(nn.Module):
    """Convolution, patches unfolded by views and padding, attention over the same place of all patches, folded back."""

    def __init__(self, c=4, d=6):
        super().__init__()
        self.local = nn.Sequential(nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.SiLU(), nn.Conv2d(c, d, 1, bias=False))
        self.block = nn.TransformerEncoderLayer(d, 2, 12, 0.0, F.silu, batch_first=True, norm_first=True)
        self.project, self.fuse = nn.Conv2d(d, c, 1), nn.Conv2d(2 * c, c, 3, padding=1)

    def forward(self, x, p=2):
        res = x
        x = self.local(x)
        b, d, h, w = x.shape
        nh, nw = math.ceil(h / p), math.ceil(w / p)
        if (nh * p, nw * p) != (h, w):
            x = F.interpolate(x, size=(nh * p, nw * p), mode="bilinear", align_corners=False)
        y = x.reshape(b * d * nh, p, nw, p).transpose(1, 2).reshape(b, d, nh * nw, p * p).transpose(1, 3).reshape(b * p * p, nh * nw, d)
        y = self.block(y)
        y = y.contiguous().view(b, p * p, nh * nw, -1).transpose(1, 3).reshape(b * d * nh, nw, p, p).transpose(1, 2).reshape(b, d, nh * p, nw * p)
        y = F.interpolate(y, size=(h, w), mode="bilinear", align_corners=False) if y.shape[-2:] != (h, w) else y
        return self.fuse(torch.cat((res, self.project(y)), dim=1))


@case
def mobilevit_with_odd_sizes():
    return classified(Fn(lambda n, x: n.head(n.block(n.stem(x)).amax((2, 3))), stem=nn.Conv2d(3, 4, 1), block=MobileViT(), head=nn.Linear(4, 3)), 5)


@case
def convmixer_and_poolformer():
    class Residual(nn.Module):
        def __init__(self, fn):
            super().__init__()
            self.fn = fn

        def forward(self, x):
            return self.fn(x) + x

    class Pooling(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)

        def forward(self, x):
            return self.pool(x) - x

    d = 6
    net = nn.Sequential(nn.Conv2d(3, d, 2, 2), nn.GELU(), nn.BatchNorm2d(d), Residual(nn.Sequential(nn.Conv2d(d, d, 4, groups=d, padding="same"), nn.GELU(), nn.BatchNorm2d(d))),
                        nn.Conv2d(d, d, 1), nn.GELU(), nn.BatchNorm2d(d), Residual(nn.Sequential(nn.GroupNorm(1, d), Pooling())), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
                        nn.Linear(d, 3))
    return classified(net)


class Involution(nn.Module):
    def __init__(self, channels=4, kernel=3, groups=2):
        super().__init__()
        self.kernel, self.groups, self.channels = kernel, groups, channels
        self.reduce, self.span, self.unfold = nn.Conv2d(channels, 2, 1), nn.Conv2d(2, kernel**2 * groups, 1), nn.Unfold(kernel, padding=1)

    def forward(self, x):
        weight = self.span(F.relu(self.reduce(x)))
        b, c, h, w = weight.shape
        weight = weight.view(b, self.groups, self.kernel**2, h, w).unsqueeze(2)
        out = self.unfold(x).view(b, self.groups, self.channels // self.groups, self.kernel**2, h, w)
        return (weight * out).sum(dim=3).view(b, self.channels, h, w)


class BlurPool(nn.Module):
    def __init__(self, channels):
        super().__init__()
        a = torch.tensor([1.0, 2.0, 1.0])
        filt = a[:, None] * a[None, :]
        self.register_buffer("filt", (filt / filt.sum())[None, None].repeat(channels, 1, 1, 1))
        self.pad = nn.ReflectionPad2d([1, 1, 1, 1])

    def forward(self, x):
        return F.conv2d(self.pad(x), self.filt, stride=2, groups=x.shape[1])


@case
def involution_and_antialiased_pools():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), Involution(), nn.BatchNorm2d(4, momentum=None), nn.PReLU(4), BlurPool(4), nn.BatchNorm2d(4, affine=False, track_running_stats=False),
                        nn.LPPool2d(2, 2), nn.Flatten(), nn.Linear(4, 3))
    return classified(net, 7)
