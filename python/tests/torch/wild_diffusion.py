"""Diffusion and flows of recent years: more cases for test_models.py."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, sgd
from models_newer import minimised
from wild_generative import pictures


# ---- diffusion -------------------------------------------------------------------------------------------------------
class DiTBlock(nn.Module):
    """adaLN-Zero: shifts, scales and gates of the condition; embeddings of time and label, with labels dropped."""

    def __init__(self, d=8):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d, elementwise_affine=False, eps=1e-6), nn.LayerNorm(d, elementwise_affine=False, eps=1e-6)
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 16), nn.GELU(approximate="tanh"), nn.Linear(16, d))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d, bias=True))

    def forward(self, x, c):
        modulate = lambda x, shift, scale: x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)  # noqa: E731
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = self.adaLN_modulation(c).chunk(6, dim=1)
        y = modulate(self.norm1(x), shift_msa, scale_msa)
        x = x + gate_msa.unsqueeze(1) * self.attn(y, y, y)[0]
        return x + gate_mlp.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_mlp, scale_mlp))


class DiT(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.x_embed, self.t_embed, self.y_embed = nn.Conv2d(3, d, 2, 2), nn.Sequential(nn.Linear(6, d), nn.SiLU(), nn.Linear(d, d)), nn.Embedding(4, d)
        self.pos_embed = nn.Parameter(torch.randn(1, 9, d) * 0.1, requires_grad=False)
        self.block, self.final = DiTBlock(d), nn.Linear(d, 12)

    @staticmethod
    def timestep_embedding(t, dim=6, max_period=10000):
        half = dim // 2
        freqs = torch.exp(-math.log(max_period) * torch.arange(start=0, end=half, dtype=torch.float32) / half).to(device=t.device)
        args = t[:, None].float() * freqs[None]
        return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)

    def unpatchify(self, x):
        h = w = int(x.shape[1] ** 0.5)
        x = x.reshape(shape=(x.shape[0], h, w, 2, 2, 3))
        return torch.einsum("nhwpqc->nchpwq", x).reshape(shape=(x.shape[0], 3, h * 2, h * 2))

    def forward(self, x, t, y, drop):
        y = torch.where(drop, 3, y)
        x = self.x_embed(x).flatten(2).transpose(1, 2) + self.pos_embed
        return self.unpatchify(self.final(self.block(x, self.t_embed(self.timestep_embedding(t)) + self.y_embed(y))))


@case
def diffusion_transformer():
    """DDPM's epsilon with the weights of its steps looked up, an average of the parameters beside."""

    def make(net):
        opt = torch.optim.AdamW(net.model.parameters(), lr=1e-3, weight_decay=0, eps=1e-3)

        def extract(a, t, x_shape):
            return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(x_shape) - 1)))

        def step(x, t, y, drop, noise):
            xt = extract(net.sqrt_alphas_cumprod, t, x.shape) * x + extract(net.sqrt_one_minus, t, x.shape) * noise
            snr = extract(net.sqrt_alphas_cumprod, t, x.shape) ** 2 / extract(net.sqrt_one_minus, t, x.shape) ** 2
            out = net.model(xt, t, y, drop)
            weight = torch.stack([snr.flatten(), 5 * torch.ones_like(t)], dim=1).min(dim=1)[0] / snr.flatten()
            loss = (weight * ((out - noise) ** 2).mean(dim=list(range(1, x.ndim)))).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                for (name, p), (_, e) in zip(net.model.named_parameters(), net.ema.named_parameters()):
                    e.mul_(0.95).add_(p.data, alpha=0.05)
            return loss

        return step

    model = DiT()
    net = Fn(None, model=model, ema=copy.deepcopy(model).requires_grad_(False))
    cumprod = torch.cumprod(1.0 - torch.linspace(1e-2, 0.2, 10), dim=0)
    net.register_buffer("sqrt_alphas_cumprod", torch.sqrt(cumprod))
    net.register_buffer("sqrt_one_minus", torch.sqrt(1 - cumprod))
    return net, make, lambda b: (pictures(b, 3, 6), torch.randint(0, 10, (b,)), labels(b), torch.rand(b) < 0.2, pictures(b, 3, 6))


@case
def flow_matching_and_preconditioning():
    """Rectified flow's straight ways, and EDM's scalings round a net."""

    def loss(net, x1, x0, t, sigma):
        xt = (1 - t) * x0 + t * x1
        flow = F.mse_loss(net["v"](torch.cat([xt, t], 1)), x1 - x0)
        sigma_data = 0.5
        c_skip = sigma_data**2 / (sigma**2 + sigma_data**2)
        c_out = sigma * sigma_data / (sigma**2 + sigma_data**2).sqrt()
        c_in, c_noise = 1 / (sigma_data**2 + sigma**2).sqrt(), sigma.log() / 4
        noised = x1 + x0 * sigma
        denoised = c_skip * noised + c_out * net["d"](torch.cat([c_in * noised, c_noise], 1))
        weight = (sigma**2 + sigma_data**2) / (sigma * sigma_data) ** 2
        return flow + (weight * (denoised - x1) ** 2).mean()

    net = nn.ModuleDict({n: nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2)) for n in "vd"})
    return minimised(net, loss, lambda b: (torch.randn(b, 2), torch.randn(b, 2), torch.rand(b, 1), (torch.randn(b, 1) * 1.2 - 1.2).exp()), lambda n: sgd(n, 1e-3))
