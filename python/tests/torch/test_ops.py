"""Ops of ATen one by one: values and gradients beside torch's own."""
import pytest
import torch
import torch.nn.functional as F
import windrow as wr

x = torch.tensor([[0.5, -1.5, 2.0], [1.25, 0.75, -0.25]])
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
