"""Pictures that are made, cut out, sharpened and compared: more cases for test_models.py."""
import copy
import itertools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, sgd
from models_newer import minimised


def pictures(b, c=3, n=8):
    return torch.randn(b, c, n, n)


def adam(parameters, lr=2e-3, betas=(0.5, 0.999)):
    return torch.optim.Adam(parameters, lr=lr, betas=betas, eps=1e-3)


# ---- segmentation ----------------------------------------------------------------------------------------------------
class DoubleConv(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.double_conv = nn.Sequential(nn.Conv2d(inp, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True), nn.Conv2d(out, out, 3, padding=1, bias=False),
                                         nn.BatchNorm2d(out), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, inp, out, bilinear=True):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) if bilinear else nn.ConvTranspose2d(inp // 2, inp // 2, 2, stride=2)
        self.conv = DoubleConv(inp, out)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY, diffX = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


def dice_coeff(input, target, epsilon=1e-6):  # noqa: A002
    sum_dim = (-1, -2, -3)
    inter = 2 * (input * target).sum(dim=sum_dim)
    sets_sum = input.sum(dim=sum_dim) + target.sum(dim=sum_dim)
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return ((inter + epsilon) / (sets_sum + epsilon)).mean()


@case
def unet_of_odd_pictures():
    """milesial's: pads to what was there before, cross entropy and the dice of one-hot masks."""

    def forward(n, x):
        x1 = n.inc(x)
        x2 = n.down(F.max_pool2d(x1, 2))
        return n.outc(n.up(x2, x1))

    def loss(net, x, y):
        masks_pred = net(x)
        return F.cross_entropy(masks_pred, y) + 1 - dice_coeff(F.softmax(masks_pred, dim=1).float().flatten(0, 1), F.one_hot(y, 3).permute(0, 3, 1, 2).float().flatten(0, 1))

    net = Fn(forward, inc=DoubleConv(3, 4), down=DoubleConv(4, 4), up=Up(8, 4), outc=nn.Conv2d(4, 3, 1))
    return minimised(net, loss, lambda b: (torch.randn(b, 3, 7, 9), torch.randint(0, 3, (b, 7, 9))), lambda n: torch.optim.RMSprop(n.parameters(), lr=1e-4, weight_decay=1e-8, momentum=0.9, eps=1e-2))


class ASPP(nn.Module):
    """DeepLab's and PSPNet's pyramids: dilations, pools of several sizes, made as large again."""

    def __init__(self, inp=4, out=3):
        super().__init__()
        self.atrous = nn.ModuleList([nn.Sequential(nn.Conv2d(inp, out, 3, padding=r, dilation=r, bias=False), nn.BatchNorm2d(out), nn.ReLU()) for r in (1, 2, 3)])
        self.pools = nn.ModuleList([nn.Sequential(nn.AdaptiveAvgPool2d(s), nn.Conv2d(inp, out, 1, bias=False), nn.ReLU()) for s in (1, 2, 3)])
        self.project = nn.Conv2d(6 * out, 2, 1)

    def forward(self, x):
        size = x.shape[-2:]
        res = [c(x) for c in self.atrous] + [F.interpolate(p(x), size=size, mode="bilinear", align_corners=False) for p in self.pools]
        return self.project(torch.cat(res, dim=1))


@case
def pyramids_of_dilations_and_pools():
    """With boundaries' weights, ignored pixels and online hard examples (the worst half by topk)."""

    def loss(net, x, y):
        logits = F.interpolate(net(x), scale_factor=2, mode="bilinear", align_corners=False)
        pixels = F.cross_entropy(logits, y, ignore_index=255, reduction="none").view(x.shape[0], -1)
        return pixels.topk(k=6, dim=1)[0].mean()

    def batch(b):
        y = torch.randint(0, 2, (b, 14, 14))
        y[:, :2] = 255
        return pictures(b, 3, 7), y

    return minimised(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), ASPP()), loss, batch)


class FeaturePyramid(nn.Module):
    """A top-down way with lateral ones, heads shared by all levels, anchors flattened and put together."""

    def __init__(self, classes=2):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 6, 3, 2, 1)
        self.l1, self.l2 = nn.Conv2d(4, 4, 1), nn.Conv2d(6, 4, 1)
        self.cls, self.box = nn.Conv2d(4, classes, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.scales = nn.ParameterList([nn.Parameter(torch.tensor(1.0)) for _ in range(2)])
        self.classes = classes
        nn.init.constant_(self.cls.bias, -math.log((1 - 0.01) / 0.01))

    def forward(self, x):
        c1 = F.relu(self.c1(x))
        c2 = F.relu(self.c2(c1))
        p2 = self.l2(c2)
        p1 = self.l1(c1) + F.interpolate(p2, size=c1.shape[-2:], mode="nearest")
        levels = [p1, p2]
        cls = torch.cat([self.cls(p).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.classes) for p in levels], 1)
        box = torch.cat([F.relu(self.box(p) * s).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4) for p, s in zip(levels, self.scales)], 1)
        return cls, box


@case
def one_stage_detector():
    """FCOS: focal loss as torchvision has it, generalised overlap of boxes, centres."""

    def sigmoid_focal_loss(inputs, targets, alpha=0.25, gamma=2):
        p = torch.sigmoid(inputs)
        ce_loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
        p_t = p * targets + (1 - p) * (1 - targets)
        alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
        return (alpha_t * ce_loss * ((1 - p_t) ** gamma)).sum()

    def giou(pred, target):
        area = lambda t: (t[..., 0] + t[..., 2]) * (t[..., 1] + t[..., 3])  # noqa: E731
        w = torch.min(pred[..., 0], target[..., 0]) + torch.min(pred[..., 2], target[..., 2])
        h = torch.min(pred[..., 1], target[..., 1]) + torch.min(pred[..., 3], target[..., 3])
        inter = w * h
        union = area(pred) + area(target) - inter
        hull = (torch.max(pred[..., 0], target[..., 0]) + torch.max(pred[..., 2], target[..., 2])) * (
            torch.max(pred[..., 1], target[..., 1]) + torch.max(pred[..., 3], target[..., 3]))
        return 1 - (inter + 1.0) / (union + 1.0) + (hull - union) / hull.clamp(min=1e-7)

    def loss(net, x, cls, box):
        logits, boxes = net(x)
        positive = (cls.sum(-1) > 0).float()
        num_pos = torch.clamp(positive.sum(), min=1.0)
        lr, tb = box[..., [0, 2]], box[..., [1, 3]]
        centre = torch.sqrt((lr.min(dim=-1)[0] / lr.max(dim=-1)[0]) * (tb.min(dim=-1)[0] / tb.max(dim=-1)[0]))
        return sigmoid_focal_loss(logits, cls) / num_pos + (giou(boxes, box) * positive * centre).sum() / num_pos

    def batch(b):
        return pictures(b, 3, 8), F.one_hot(torch.randint(0, 3, (b, 20)), 3)[..., :2].float(), torch.rand(b, 20, 4) + 0.1

    return minimised(FeaturePyramid(), loss, batch, lambda n: sgd(n, 0.01))


@case
def centres_and_keypoints():
    """CenterNet: penalty-reduced focal loss, features gathered at centres; places by soft argmax."""

    def gather_feat(feat, ind):
        feat = feat.permute(0, 2, 3, 1).contiguous().view(feat.size(0), -1, feat.size(1))
        return feat.gather(1, ind.unsqueeze(2).expand(ind.size(0), ind.size(1), feat.size(2)))

    def loss(net, x, gt, ind, mask, target):
        heat = torch.clamp(net["hm"](x).sigmoid_(), min=1e-4, max=1 - 1e-4)
        pos_inds, neg_inds = gt.eq(1).float(), gt.lt(1).float()
        neg_weights = torch.pow(1 - gt, 4)
        pos_loss = (torch.log(heat) * torch.pow(1 - heat, 2) * pos_inds).sum()
        neg_loss = (torch.log(1 - heat) * torch.pow(heat, 2) * neg_weights * neg_inds).sum()
        num_pos = pos_inds.float().sum()
        focal = torch.where(num_pos == 0, -neg_loss, -(pos_loss + neg_loss) / num_pos.clamp(min=1))
        pred = gather_feat(net["wh"](x), ind)
        mask = mask.unsqueeze(2).expand_as(pred).float()
        reg = F.l1_loss(pred * mask, target * mask, reduction="sum") / (mask.sum() + 1e-4)
        b, k, h, w = heat.shape
        p = F.softmax(net["kp"](x).view(b, 2, -1), dim=-1).view(b, 2, h, w)
        ys, xs = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
        places = torch.stack([(p * xs).sum((2, 3)), (p * ys).sum((2, 3))], -1)
        return focal + 0.1 * reg + F.smooth_l1_loss(places, target[:, :2])

    def batch(b):
        gt = torch.rand(b, 1, 5, 5)
        return pictures(b, 3, 5), torch.where(gt > 0.9, torch.ones(()), gt), torch.randint(0, 25, (b, 3)), torch.rand(b, 3).round(), torch.rand(b, 3, 2)

    net = nn.ModuleDict({n: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(4, c, 1)) for n, c in (("hm", 1), ("wh", 2), ("kp", 2))})
    return minimised(net, loss, batch, lambda n: sgd(n, 0.01))


# ---- made larger, made at all ----------------------------------------------------------------------------------------
@case
def superresolution():
    """SRResNet and EDSR: PReLU a channel, pixel shuffles, Charbonnier's loss, total variation, Sobel's edges."""

    def forward(net, x):
        x = F.prelu(net.head(x), net.slope)
        y = x + net.body(x) * 0.1
        return net.tail(F.pixel_shuffle(net.up(y), 2)) + F.interpolate(net.skip(x), scale_factor=2, mode="nearest")

    def loss(net, x, y):
        out = net(x)
        tv = torch.mean(torch.abs(out[:, :, :, :-1] - out[:, :, :, 1:])) + torch.mean(torch.abs(out[:, :, :-1, :] - out[:, :, 1:, :]))
        kernel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]).view(1, 1, 3, 3).repeat(3, 1, 1, 1)
        edges = F.conv2d(F.pad(out, (1, 1, 1, 1), mode="replicate"), kernel, groups=3) - F.conv2d(F.pad(y, (1, 1, 1, 1), mode="replicate"), kernel, groups=3)
        return torch.mean(torch.sqrt((out - y) ** 2 + 1e-3**2)) + 0.1 * tv + 0.05 * edges.abs().mean()

    body = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.PReLU(num_parameters=4), nn.Conv2d(4, 4, 3, padding=1))
    net = Fn(forward, head=nn.Conv2d(3, 4, 3, padding=1), slope=nn.Parameter(torch.full((4,), 0.2)), body=body, up=nn.Conv2d(4, 16, 3, padding=1),
             tail=nn.Conv2d(4, 3, 3, padding=1), skip=nn.Conv2d(4, 3, 1))
    return minimised(net, loss, lambda b: (pictures(b, 3, 4), pictures(b, 3, 8)), lambda n: adam(n.parameters()))


@case
def dcgan_of_the_tutorial():
    """PyTorch's tutorial: two backward passes of the discriminator that add up, then the generator's."""

    def make(net):
        criterion = nn.BCELoss()
        optimizerD, optimizerG = adam(net.D.parameters()), adam(net.G.parameters())

        def step(real, noise):
            net.D.zero_grad()
            b_size = real.size(0)
            label = torch.full((b_size,), 1.0, dtype=torch.float)
            output = net.D(real).view(-1)
            errD_real = criterion(output, label.to(output.dtype))
            errD_real.backward()
            D_x = output.mean()
            fake = net.G(noise)
            label.fill_(0.0)
            output = net.D(fake.detach()).view(-1)
            errD_fake = criterion(output, label.to(output.dtype))
            errD_fake.backward()
            errD = errD_real + errD_fake
            optimizerD.step()
            net.G.zero_grad()
            label.fill_(1.0)
            output = net.D(fake).view(-1)
            errG = criterion(output, label.to(output.dtype))
            errG.backward()
            optimizerG.step()
            return errD, errG, D_x

        return step

    D = nn.Sequential(nn.Conv2d(1, 4, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(4, 6, 4, 2, 1, bias=False), nn.BatchNorm2d(6), nn.LeakyReLU(0.2, inplace=True),
                      nn.Conv2d(6, 1, 2, 1, 0, bias=False), nn.Sigmoid())
    G = nn.Sequential(nn.ConvTranspose2d(5, 6, 2, 1, 0, bias=False), nn.BatchNorm2d(6), nn.ReLU(True), nn.ConvTranspose2d(6, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
                      nn.ConvTranspose2d(4, 1, 4, 2, 1, bias=False), nn.Tanh())
    return Fn(None, D=D, G=G), make, lambda b: (pictures(b, 1, 8), torch.randn(b, 5, 1, 1))


class CycleGenerator(nn.Module):
    def __init__(self, c=3, ngf=4):
        super().__init__()
        block = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(2 * ngf, 2 * ngf, 3), nn.InstanceNorm2d(2 * ngf), nn.ReLU(True), nn.ReflectionPad2d(1), nn.Conv2d(2 * ngf, 2 * ngf, 3),
                              nn.InstanceNorm2d(2 * ngf))
        self.first = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(c, ngf, 3), nn.InstanceNorm2d(ngf), nn.ReLU(True), nn.Conv2d(ngf, 2 * ngf, 3, 2, 1), nn.InstanceNorm2d(2 * ngf), nn.ReLU(True))
        self.block = block
        self.last = nn.Sequential(nn.ConvTranspose2d(2 * ngf, ngf, 3, 2, 1, output_padding=1), nn.InstanceNorm2d(ngf), nn.ReLU(True), nn.ReflectionPad2d(1), nn.Conv2d(ngf, c, 3), nn.Tanh())

    def forward(self, x):
        x = self.first(x)
        return self.last(x + self.block(x))


@case
def cyclegan():
    """Four nets, two optimizers over chained parameters, requires_grad switched while the generators learn."""

    def make(net):
        opt_g, opt_d = adam(itertools.chain(net.G_A.parameters(), net.G_B.parameters())), adam(itertools.chain(net.D_A.parameters(), net.D_B.parameters()))
        gan, cycle = nn.MSELoss(), nn.L1Loss()

        def set_requires_grad(nets, requires_grad=False):
            for n in nets:
                for param in n.parameters():
                    param.requires_grad = requires_grad

        def step(real_a, real_b):
            fake_b, fake_a = net.G_A(real_a), net.G_B(real_b)
            rec_a, rec_b = net.G_B(fake_b), net.G_A(fake_a)
            set_requires_grad([net.D_A, net.D_B], False)
            opt_g.zero_grad()
            judged = [net.D_A(fake_b), net.D_B(fake_a)]
            loss_g = sum(gan(j, torch.tensor(1.0).expand_as(j)) for j in judged) + 10.0 * (cycle(rec_a, real_a) + cycle(rec_b, real_b))
            loss_g = loss_g + 5.0 * (cycle(net.G_A(real_b), real_b) + cycle(net.G_B(real_a), real_a))
            loss_g.backward()
            opt_g.step()
            set_requires_grad([net.D_A, net.D_B], True)
            opt_d.zero_grad()
            for d, real, fake in ((net.D_A, real_b, fake_b), (net.D_B, real_a, fake_a)):
                p_real, p_fake = d(real), d(fake.detach())
                ((gan(p_real, torch.tensor(1.0).expand_as(p_real)) + gan(p_fake, torch.tensor(0.0).expand_as(p_fake))) * 0.5).backward()
            opt_d.step()
            return loss_g

        return step

    D = lambda: nn.Sequential(nn.Conv2d(3, 4, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(4, 1, 3, 1, 1))  # noqa: E731
    return Fn(None, G_A=CycleGenerator(), G_B=CycleGenerator(), D_A=D(), D_B=D()), make, lambda b: (pictures(b, 3, 6), pictures(b, 3, 6))


class ModulatedConv(nn.Module):
    """StyleGAN2's: a kernel for each picture by groups, demodulated; noise is given."""

    def __init__(self, inp, out, style=5, demodulate=True):
        super().__init__()
        self.weight, self.style, self.demodulate = nn.Parameter(torch.randn(1, out, inp, 3, 3)), nn.Linear(style, inp), demodulate
        self.scale, self.noise = 1 / math.sqrt(inp * 9), nn.Parameter(torch.zeros(1))
        nn.init.ones_(self.style.bias)

    def forward(self, x, w, noise):
        b, c, h, wd = x.shape
        style = self.style(w).view(b, 1, c, 1, 1)
        weight = self.scale * self.weight * style
        if self.demodulate:
            weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8).view(b, -1, 1, 1, 1)
        weight = weight.view(b * weight.shape[1], c, 3, 3)
        out = F.conv2d(x.reshape(1, b * c, h, wd), weight, padding=1, groups=b)
        out = out.view(b, -1, h, wd)
        return F.leaky_relu(out + self.noise * noise, 0.2) * 2**0.5


@case
def stylegan2():
    """Also the standard deviation over the batch as a channel, and the path's length with a running mean."""

    def make(net):
        opt_g, opt_d = adam(net.G.parameters(), betas=(0.0, 0.99)), adam(net.D.parameters(), betas=(0.0, 0.99))

        def generate(w, noise):
            x = net.G["const"].weight.view(1, 4, 4, 4).repeat(w.shape[0], 1, 1, 1)
            return net.G["rgb"](net.G["conv"](x, w, noise))

        def judge(x):
            y = F.leaky_relu(net.D["conv"](x), 0.2)
            std = torch.sqrt(y.view(-1, 1, 4, 4, 4).var(0, unbiased=False) + 1e-8).mean([1, 2, 3], keepdim=True)
            y = torch.cat([y, std.expand(y.shape[0], 1, 4, 4)], 1)
            return net.D["out"](y.flatten(1))

        def step(real, z, noise, path_noise):
            w = net.G["map"](z * torch.rsqrt(torch.mean(z**2, dim=1, keepdim=True) + 1e-8))
            fake = generate(w, noise)
            loss_d = F.softplus(judge(fake.detach())).mean() + F.softplus(-judge(real)).mean()
            opt_d.zero_grad()
            loss_d.backward()
            opt_d.step()
            (slope,) = torch.autograd.grad((fake * path_noise).sum() / math.sqrt(16), w, create_graph=True)
            lengths = torch.sqrt(slope.pow(2).sum(1) + 1e-8)
            mean = net.mean_path_length + 0.01 * (lengths.mean() - net.mean_path_length)
            penalty = (lengths - mean).pow(2).mean()
            net.mean_path_length.copy_(mean.detach())
            loss_g = F.softplus(-judge(fake)).mean() + 2.0 * penalty
            opt_g.zero_grad()
            loss_g.backward()
            opt_g.step()
            with torch.no_grad():
                for p, e in zip(net.G.parameters(), net.G_ema.parameters()):
                    e.mul_(0.9).add_(p.data, alpha=1 - 0.9)
            return loss_d, loss_g

        return step

    G = nn.ModuleDict({"map": nn.Sequential(nn.Linear(5, 5), nn.LeakyReLU(0.2)), "const": nn.Embedding(4, 16), "conv": ModulatedConv(4, 4), "rgb": nn.Conv2d(4, 3, 1)})
    net = Fn(None, G=G, G_ema=copy.deepcopy(G), D=nn.ModuleDict({"conv": nn.Conv2d(3, 4, 3, padding=1), "out": nn.Linear(80, 1)}))
    net.register_buffer("mean_path_length", torch.zeros(()))
    return net, make, lambda b: (pictures(b, 3, 4), torch.randn(b, 5), torch.randn(b, 1, 4, 4), torch.randn(b, 3, 4, 4))


class MaskedConv2d(nn.Conv2d):
    """PixelCNN's, which writes to its own weight when it is called."""

    def __init__(self, mask_type, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("mask", self.weight.data.clone())
        _, _, kH, kW = self.weight.size()
        self.mask.fill_(1)
        self.mask[:, :, kH // 2, kW // 2 + (mask_type == "B"):] = 0
        self.mask[:, :, kH // 2 + 1:] = 0

    def forward(self, x):
        self.weight.data *= self.mask
        return super().forward(x)


@case
def pixelcnn():
    net = nn.Sequential(MaskedConv2d("A", 1, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True), MaskedConv2d("B", 4, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
                        nn.Conv2d(4, 8, 1))
    return minimised(net, lambda n, x: F.cross_entropy(n(x), (x[:, 0] * 7).long()), lambda b: (torch.rand(b, 1, 5, 5),))


class EmaQuantiser(nn.Module):
    """VQ-VAE-2's codebook: moved by averages of what was assigned to it, with Laplace's smoothing."""

    def __init__(self, dim=4, n_embed=6, decay=0.9, eps=1e-5):
        super().__init__()
        self.dim, self.n_embed, self.decay, self.eps = dim, n_embed, decay, eps
        embed = torch.randn(dim, n_embed)
        self.register_buffer("embed", embed)
        self.register_buffer("cluster_size", torch.zeros(n_embed))
        self.register_buffer("embed_avg", embed.clone())

    def forward(self, x):
        flatten = x.reshape(-1, self.dim)
        dist = flatten.pow(2).sum(1, keepdim=True) - 2 * flatten @ self.embed + self.embed.pow(2).sum(0, keepdim=True)
        _, embed_ind = (-dist).max(1)
        embed_onehot = F.one_hot(embed_ind, self.n_embed).type(flatten.dtype)
        quantize = F.embedding(embed_ind.view(*x.shape[:-1]), self.embed.transpose(0, 1))
        if self.training:
            self.cluster_size.data.mul_(self.decay).add_(embed_onehot.sum(0), alpha=1 - self.decay)
            self.embed_avg.data.mul_(self.decay).add_(flatten.transpose(0, 1) @ embed_onehot, alpha=1 - self.decay)
            n = self.cluster_size.sum()
            cluster_size = (self.cluster_size + self.eps) / (n + self.n_embed * self.eps) * n
            self.embed.data.copy_(self.embed_avg / cluster_size.unsqueeze(0))
        diff = (quantize.detach() - x).pow(2).mean()
        avg_probs = embed_onehot.mean(0)
        perplexity = torch.exp(-torch.sum(avg_probs * torch.log(avg_probs + 1e-10)))
        return x + (quantize - x).detach(), diff, perplexity


@case
def quantised_by_moving_averages():
    def loss(net, x):
        z = net["enc"](x).permute(0, 2, 3, 1)
        quant, diff, _ = net["quantise"](z)
        return F.mse_loss(net["dec"](quant.permute(0, 3, 1, 2)), x) + 0.25 * diff

    net = nn.ModuleDict({"enc": nn.Sequential(nn.Conv2d(3, 4, 4, 2, 1), nn.ReLU(), nn.Conv2d(4, 4, 1)), "quantise": EmaQuantiser(),
                         "dec": nn.Sequential(nn.ConvTranspose2d(4, 4, 4, 2, 1), nn.ReLU(), nn.Conv2d(4, 3, 1))})
    return minimised(net, loss, lambda b: (pictures(b, 3, 6),))
