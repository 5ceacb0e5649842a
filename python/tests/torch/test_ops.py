"""Ops of ATen one by one: values and gradients beside torch's own."""
import pytest
import torch
import torch.nn.functional as F
import windrow as wr

x = torch.tensor([[0.5, -1.5, 2.0], [1.25, 0.75, -0.25]])


def put(t, where, values):
    y = t.clone()
    y[where] = values
    return y


OPS = {
    "log2": lambda t: torch.log2(t.abs() + 1),
    "log10": lambda t: torch.log10(t.abs() + 1),
    "exp2": torch.exp2,
    "tan": torch.tan,
    "trunc": lambda t: torch.trunc(t) * t,
    "cumsum": lambda t: t.cumsum(0) * t + t.cumsum(-1),
    "var_mean": lambda t: sum(torch.var_mean(t, 1)),
    "std_mean": lambda t: sum(torch.std_mean(t, dim=0, correction=0)),
    "linspace": lambda t: t * torch.linspace(-1, 1, 3),
    "tril_indices": lambda t: (t.t() @ t)[tuple(torch.tril_indices(3, 3, -1))],
    "triu_indices": lambda t: (t.t() @ t)[tuple(torch.triu_indices(3, 3, 1))],
    "xor": lambda t: t * ((t > 0) ^ (t > 1)).float(),
    "std": lambda t: t.std(1),
    "norm": lambda t: t.norm(dim=1) + torch.linalg.vector_norm(t, 1, dim=1),
    "logsumexp": lambda t: t.logsumexp(1),
    "pad": lambda t: F.pad(t, (1, 2), value=3.0),
    "roll": lambda t: torch.roll(t, 1, 1) * t,
    "cosine": lambda t: F.cosine_similarity(t, t.flip(1)),
    "cosine of all pairs": lambda t: F.cosine_similarity(t[:, None], t, dim=-1),
    "einsum": lambda t: torch.einsum("ij,kj->ik", t, t),
    "index_add": lambda t: torch.zeros(3, 3).index_add(0, torch.tensor([2, 0]), t),
    "scatter_add": lambda t: torch.zeros(2, 4).scatter_add(1, torch.tensor([[3, 0, 3], [1, 1, 2]]), t),
    "repeat_interleave": lambda t: t.repeat_interleave(2, 1) * 2,
    "interpolate": lambda t: F.interpolate(t[None, None], scale_factor=2.0)[0, 0],
    "glu": lambda t: F.glu(torch.cat([t, t], 1)),
    "remainder": lambda t: torch.remainder(t, 0.7) * t,
    "where": lambda t: torch.where(t > 0, t * 2, t.exp()),
    "masked_fill": lambda t: t.masked_fill(t < 0, 7.0) * t,
    "prod": lambda t: t.prod(1),
    "lerp": lambda t: torch.lerp(t, t * 2, 0.3),
    "addcmul": lambda t: torch.addcmul(t, t, t, value=0.5),
    "sort": lambda t: t.sort(-1).values * t + t.sort(0, descending=True).values,
    "argsort": lambda t: t.gather(1, t.argsort(1)),
    "topk": lambda t: t.topk(2).values + t.topk(2, largest=False).values,
    "scatter": lambda t: torch.zeros(2, 4).scatter(1, torch.tensor([[3, 0, 1], [1, 3, 2]]), t) + t.sum(),
    "scatter a number": lambda t: t.scatter(1, torch.tensor([[0], [2]]), 5.0) * t,
    "scatter_reduce": lambda t: torch.ones(2, 2).scatter_reduce(1, torch.tensor([[0, 1, 0], [1, 1, 1]]), t, "mean", include_self=False),
    "x[mask] = number": lambda t: torch.where(t > 5, t, t * 1.0).index_put((t > 0.6,), torch.tensor(7.0)) * t,
    "x[rows] = rows": lambda t: t.index_put((torch.tensor([-1]),), t[:1] * 2) * t,
    "cdist": lambda t: torch.cdist(t, t.flip(1)),
    "sinh": lambda t: t.sinh() + t.cosh() + torch.asinh(t) + torch.atanh(t / 3),
    "logaddexp": lambda t: torch.logaddexp(t, t.flip(0)),
    "logit": lambda t: torch.logit(t.sigmoid()) + torch.special.xlogy(t, t.abs() + 1),
    "finite": lambda t: torch.where(torch.isfinite(t / (t - 2)), t, t * 0) + torch.nan_to_num(t),
    "fmod": lambda t: torch.fmod(t, 0.7) + t.frac(),
    "shrink": lambda t: F.softshrink(t) + F.hardshrink(t) + F.threshold(t, 0.6, 0.1),
    "erfc": torch.erfc,
    "bilinear": lambda t: F.bilinear(t, t.flip(0), torch.arange(18.0).view(2, 3, 3)),
    "tensordot": lambda t: torch.tensordot(t, t.T, 1),
    "kron": lambda t: torch.kron(t, t),
    "cross": lambda t: torch.linalg.cross(t, t.flip(1)),
    "diagonals": lambda t: torch.diagonal(t.T @ t) + torch.diag_embed(t[0]).sum(0) + torch.diag(t[1]).sum(1) + torch.trace(t.T @ t),
    "matrix norm": lambda t: torch.linalg.matrix_norm(t) + torch.dist(t, t.flip(0)) + F.pairwise_distance(t, t.flip(1)),
    "stacks": lambda t: torch.hstack([t, t]) + torch.vstack([t, t]).sum() + torch.column_stack([t, t]),
    "meshgrid": lambda t: sum(torch.meshgrid(t[0], t[1], indexing="ij")),
    "diff": lambda t: t.diff() + t.moveaxis(0, 1).sum(),
    "bilinear images": lambda t: F.interpolate(t[None, None], size=(5, 4), mode="bilinear", align_corners=True)[0, 0],
    "linear sequences": lambda t: F.interpolate(t[None], scale_factor=1.5, mode="linear")[0],
    "fold": lambda t: F.fold(F.unfold(t[None, None] * 2, (2, 2), padding=1), (2, 3), (2, 2), padding=1) * t
    + F.fold(t.view(1, 6, 1).repeat(1, 2, 4), (6, 5), (3, 2), dilation=(2, 1), stride=(1, 2))[0, 1, :2, :3],
    "pdist": lambda t: F.pdist(torch.cat([t, t * 2 + 1])),
    "nansum": lambda t: torch.where(t > 1, torch.nan, t).nansum(1) + torch.where(t > 1, torch.nan, t * 2).nanmean(),
    "trapezoid": lambda t: torch.trapezoid(t, dx=0.5) + torch.trapezoid(t, torch.tensor([0.0, 1.0, 3.0])),
    "rot90": lambda t: torch.rot90(t) * 2 + torch.rot90(t, 3).flip(0) + torch.rot90(t, 2).sum(),
    "bucketize": lambda t: t * torch.bucketize(t, torch.tensor([-1.5, 0.0, 0.75, 3.0])) + t * torch.bucketize(t, torch.tensor([-1.5, 0.75]), right=True),
    "searchsorted": lambda t: t * torch.searchsorted(torch.tensor([[-1.0, 0.6, 2.0], [0.0, 0.75, 1.0]]), t, side="right")
    + t * torch.searchsorted(torch.tensor([-1.5, 0.5]), t),
    "multi_dot": lambda t: torch.linalg.multi_dot([t, t.T, t, t.T]),
    "patches": lambda t: F.unfold(t[None, None], (2, 2), padding=1),
    "reflect": lambda t: F.pad(t[None], (2, 1), mode="reflect") * 2 + F.pad(t[None], (1, 2), mode="circular") + F.pad(t[None], (3, 0), mode="replicate"),
    "pixel_unshuffle": lambda t: F.pixel_unshuffle(t[None, None, :, :2], 2),
    "grouped heads": lambda t: F.scaled_dot_product_attention(t.view(1, 2, 1, 3).repeat(1, 2, 2, 1), t.view(1, 2, 1, 3), t.view(1, 2, 1, 3), enable_gqa=True),
    "heads without a batch": lambda t: F.scaled_dot_product_attention(t.view(2, 1, 3).repeat(1, 2, 1), t.view(2, 1, 3).repeat(1, 4, 1) * torch.arange(4.0).view(4, 1),
                                                                       t.view(2, 1, 3).repeat(1, 4, 1) * torch.arange(4.0).view(4, 1), is_causal=True, enable_gqa=True),
    "angles": lambda t: torch.atan(t * 3) + torch.asin(t / 3) * torch.acos(t / 3) + torch.atan2(t, t.flip(1)) + torch.atan2(t, torch.tensor(-2.0)),
    "gamma": lambda t: torch.lgamma(t + 3) + torch.lgamma(t - 0.3) + torch.digamma(t + 2.2) + torch.digamma(t * 2.3),
    "polygamma": lambda t: torch.polygamma(1, t + 2.5) + torch.polygamma(0, t + 3),
    "cumprod": lambda t: t.cumprod(1) + torch.cumprod(torch.where(t > 1, 0.0, t), 0),
    "cummax": lambda t: t.cummax(1).values * t + t.cummin(0).values + (t * 0 + 1).cummax(1).values,
    "logcumsumexp": lambda t: t.logcumsumexp(1) + torch.cat([torch.full((2, 3), -torch.inf), t]).logcumsumexp(0)[3:],
    "a long running sum": lambda t: t.repeat(1, 700).cumsum(1)[:, ::699] * 1e-2,
    "running sums of numbers": lambda t: t * torch.arange(6).view(2, 3).cumsum(1),
    "grid_sample": lambda t: F.grid_sample(t[None, None], torch.stack([t, t.flip(1)], -1)[None] * 0.7, align_corners=False)[0, 0],
    "grid_sample at the border": lambda t: F.grid_sample(t[None, None], torch.stack([t, t.flip(1)], -1)[None] * 0.7, padding_mode="border", align_corners=True)[0, 0],
    "grid_sample nearest": lambda t: F.grid_sample(t[None, None], (t.detach()[None, :, :2, None] * 0.4).expand(-1, -1, -1, 2), mode="nearest", align_corners=False)[0, 0],
    "affine_grid": lambda t: F.affine_grid(t[None], (1, 1, 3, 2), align_corners=True) + F.affine_grid(t[None], (1, 1, 3, 2), align_corners=False),
    "ceil_mode": lambda t: F.max_pool2d(t.repeat(2, 2)[None, None], 3, 2, 1, ceil_mode=True)[0, 0] + F.avg_pool2d(t.repeat(2, 2)[None, None], 3, 2, 1, ceil_mode=True)[0, 0],
    "means without padding": lambda t: F.avg_pool2d(t.repeat(2, 2)[None, None], 3, 2, 1, count_include_pad=False)[0, 0]
    + F.avg_pool2d(t.repeat(2, 2)[None, None], 3, 2, 1, divisor_override=5)[0, 0],
    "volumes": lambda t: F.conv3d(t.repeat(2, 2).view(1, 2, 2, 3, 2), torch.arange(16.0).view(1, 2, 2, 2, 2) / 9, stride=(1, 2, 1), padding=(1, 0, 1))[0, 0]
    + F.max_pool3d(t.repeat(4, 4).view(1, 1, 4, 4, 6), 2)[0, 0].sum() + F.avg_pool3d(t.repeat(4, 4).view(1, 1, 4, 4, 6), 3, 2, 1)[0, 0].sum(),
    "uneven groups": lambda t: F.conv2d(t.repeat(2, 2).view(1, 2, 2, 6), torch.arange(8.0).view(2, 1, 2, 2), stride=(1, 2), padding=(1, 0), groups=2)[0, 0],
    "transposed groups": lambda t: F.conv_transpose2d(t.view(1, 2, 1, 3), torch.arange(16.0).view(2, 2, 2, 2) / 5, stride=2, groups=2)[0, 0],
    "adaptive means": lambda t: F.adaptive_avg_pool2d(t.repeat(2, 2)[None, None], (3, 4))[0, 0],
    "nearest by a factor": lambda t: F.interpolate(t.repeat(2, 2)[None, None], scale_factor=0.6)[0, 0] + F.interpolate(t[None, None], scale_factor=1.4)[0, 0].sum(),
    "nearest by a fraction": lambda t: F.interpolate(t[None, None], size=(3, 5))[0, 0],
    "negative padding": lambda t: F.pad(t, (1, -2, -1, 0)),
    "dots in einsum": lambda t: torch.einsum("...i,...j->...ij", t, t).sum(0) + torch.einsum("...i,i->...", t[:, None], t[0]).sum(),
    "indices apart": lambda t: (t[:, None] * t[None])[torch.tensor([0, 1, 1]), :, torch.tensor([2, 0, -1])],
    "x[rows, columns] = values": lambda t: t.index_put((torch.tensor([0, 1]), torch.tensor([2, -3])), t[:, 1] * 3) * t,
    "scatter to a part": lambda t: t.scatter(1, torch.tensor([[2, 0]]), t[:1, :2] * 2) + t.scatter_add(1, torch.tensor([[2, 2]]), t[1:, :2] * 3),
    "norms of other orders": lambda t: t.norm(3, dim=1) + t.norm(0.5, dim=1) + torch.linalg.vector_norm(t, float("-inf"), dim=1),
    "diagonals elsewhere": lambda t: torch.diagonal(t, 1) + torch.diagonal(t[None].repeat(3, 1, 1), 0, 2, 0)[:, :2].sum(0) + torch.diag(t, 1),
    "fill_diagonal_": lambda t: (t.T @ t).fill_diagonal_(2.0),
    "channel shuffle": lambda t: F.channel_shuffle(t.repeat(1, 2).view(1, 6, 2, 1), 3)[0, :, :, 0],
    "roll over all": lambda t: t.roll(4),
    "smaller things": lambda t: torch.hypot(t, t + 1) + torch.sinc(t) + torch.heaviside(t.detach(), torch.tensor(0.5)),
    "far logits": lambda t: F.binary_cross_entropy_with_logits(t * 20, torch.tensor([[0.0, 0, 1], [1, 0.5, 1]]), reduction="none")
    + F.binary_cross_entropy_with_logits(t * 20, torch.tensor([[0.0, 0, 1], [1, 0.5, 1]]), pos_weight=torch.tensor([1.0, 2, 3]), reduction="none"),
    "one row's cross entropy": lambda t: F.cross_entropy(t[0], torch.tensor(1)) + F.cross_entropy(t[1], torch.tensor(2), reduction="none"),
    "meshgrid xy": lambda t: sum(torch.meshgrid(t[0], t[1, :2], indexing="xy")),
    "inverses": lambda t: torch.linalg.inv(t @ t.T + torch.eye(2)) + torch.linalg.solve(t[:, :2], t[:, 1:]) + torch.det(t[:, 1:]) + torch.slogdet(t[:, :2])[1],
    "batches of matrices": lambda t: torch.linalg.inv(t[:, :2] * torch.tensor([1.0, -2.0]).view(2, 1, 1)) + torch.linalg.solve(t[:, :2], t[:, 0])[:, None],
    "Cholesky": lambda t: torch.linalg.cholesky(t.T @ t + torch.eye(3)) + torch.cholesky_solve(t.T[:, :1], torch.linalg.cholesky(t.T @ t + torch.eye(3))),
    "triangles": lambda t: torch.linalg.solve_triangular(t[:, :2], t, upper=False)
    + torch.linalg.solve_triangular(t[:, :2], t, upper=True, unitriangular=True),
    "exponential of a matrix": lambda t: torch.matrix_exp(t.T @ t / 9),
    "reflections": lambda t: torch.linalg.householder_product(t.T.tanh(), t[:, 0].tanh()),
    "normal of several": lambda t: torch.distributions.MultivariateNormal(t[0], t.T @ t + torch.eye(3)).log_prob(t),
    "windows of a tensor": lambda t: t.unfold(1, 2, 1) * 2 + t.repeat(1, 2).unfold(-1, 3, 3).sum((-1, -2), keepdim=True),
    "medians": lambda t: t.median(1).values + t.median() + t.kthvalue(2, dim=1).values + torch.quantile(t, 0.3, dim=1) + torch.quantile(t, 0.6),
    "maxima by index": lambda t: torch.zeros(2, 2).scatter_reduce(1, torch.tensor([[0, 1, 0], [1, 1, 1]]), t, "amax", include_self=False)
    + torch.ones(2, 2).scatter_reduce(1, torch.tensor([[0, 1, 0], [1, 1, 1]]), t, "amin") + torch.ones(2, 2).scatter_reduce(1, torch.tensor([[0, 1, 0], [1, 1, 1]]), t, "prod"),
    "sums by rows": lambda t: torch.zeros(4, 3).scatter_add(0, torch.tensor([2, 2])[:, None].expand(-1, 3), t) * torch.arange(12.0).view(4, 3),
    "bags": lambda t: F.embedding_bag(torch.tensor([0, 1, 1, 0, 1]), t, torch.tensor([0, 2, 2]), mode="mean")
    + F.embedding_bag(torch.tensor([0, 1, 1, 0, 1]), t, torch.tensor([0, 2, 4]), mode="sum", per_sample_weights=t.flatten()[:5])
    + F.embedding_bag(torch.tensor([0, 1, 1, 0, 1]), t, torch.tensor([0, 1, 3]), mode="max") + F.embedding_bag(torch.tensor([[0, 1], [1, 1], [0, 0]]), t, mode="mean", padding_idx=0),
    "bicubic": lambda t: F.interpolate(t[None, None], size=(5, 4), mode="bicubic", align_corners=True)[0, 0] + F.interpolate(t[None, None], size=(5, 4), mode="bicubic")[0, 0],
    "smoothed": lambda t: F.interpolate(t.repeat(3, 3)[None, None], size=(4, 5), mode="bilinear", antialias=True)[0, 0]
    + F.interpolate(t.repeat(3, 3)[None, None], size=(4, 5), mode="bicubic", antialias=True)[0, 0],
    "uneven maxima": lambda t: F.adaptive_max_pool2d(t.repeat(2, 2)[None, None], (3, 4))[0, 0] + F.max_pool2d(t.repeat(2, 2)[None], 2)[0].sum(),
    "uneven transposed": lambda t: F.conv_transpose2d(t.view(1, 2, 1, 3), torch.arange(16.0).view(2, 2, 2, 2) / 5, stride=(1, 2), padding=(1, 0), dilation=(2, 1))[0, 0]
    + F.conv_transpose3d(t.view(1, 2, 1, 1, 3), torch.arange(16.0).view(2, 1, 2, 2, 2) / 5, stride=(1, 1, 2), output_padding=(0, 0, 1)).sum()
    + F.conv_transpose1d(t.view(1, 2, 3), torch.arange(8.0).view(2, 2, 2) / 5, stride=2, groups=2).sum(),
    "without a batch": lambda t: F.conv1d(t, torch.arange(8.0).view(2, 2, 2)) + F.avg_pool1d(t, 2, 1) + F.adaptive_avg_pool1d(t, 2),
    "x[:, columns] = values": lambda t: put(t, (slice(None), torch.tensor([2, 0])), t[:, 1:] * 3) * t + put(t, (slice(None), torch.tensor([1])), 2.0) * t,
    "x[mask] = row": lambda t: put(t, torch.tensor([True, False]), t[1] * 2) * t + put(t, (slice(None), torch.tensor([True, False, True])), 3.0) * t,
    "x[:, :, index] = values": lambda t: put(t.view(1, 2, 3), (slice(None), slice(None), torch.tensor([[0], [2]])), t[0, :2, None] * 2)[0] * t,
    "ops that torch composes": lambda t: t.fliplr() * t + torch.inner(t, t).sum() + torch.aminmax(t)[0] + t.float_power(2).float() + torch.special.ndtr(t),
    "inverse of erf": lambda t: torch.erfinv(t / 3) + torch.acosh(t.abs() + 1.5) + torch.fmax(t, t.flip(1)) + torch.copysign(t, t.flip(1)),
    "other triplets": lambda t: F.triplet_margin_loss(t, t.flip(1), t * 2 + 1, p=1.0, swap=True) + F.poisson_nll_loss(t, t.detach().abs() * 3, full=True),
    "sums of infinities": lambda t: torch.logaddexp(torch.where(t > 1, -torch.inf, t), torch.where(t > 0.6, -torch.inf, t.flip(0))).exp(),
    "lists": lambda t: sum(torch._foreach_mul([t, t + 1], 2.0)) + torch._foreach_add([t], [t], alpha=3)[0],
}


@pytest.mark.parametrize("name", OPS)
def test_value_and_gradient(name):
    def both(t):
        t = t.detach().requires_grad_(True)
        y = OPS[name](t)
        return y, torch.autograd.grad((y * y).sum(), t)[0]

    got, want = wr.torch.compile(both, check=False)(x), both(x)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b.detach(), rtol=1e-5, atol=1e-5)
