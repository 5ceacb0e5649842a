"""Programs as they are: twenty steps beside torch itself, over three batch sizes."""
import copy
import math

import models_agents  # noqa: F401  (these give CASES more of them)
import models_images  # noqa: F401
import models_newer  # noqa: F401
import models_sequences  # noqa: F401
import models_tables  # noqa: F401
import more_models  # noqa: F401
import pytest
import torch
import wild_agents  # noqa: F401
import wild_diffusion  # noqa: F401
import wild_generative  # noqa: F401
import wild_language  # noqa: F401
import wild_methods  # noqa: F401
import wild_nets  # noqa: F401
import wild_pictures  # noqa: F401
import wild_series  # noqa: F401
import wild_tuning  # noqa: F401
import wild_values  # noqa: F401
import wild_words  # noqa: F401
import windrow as wr
from models import CASES


def relative(ours, theirs):
    """The largest difference of each tensor, by its largest value; (worst, its name)."""
    worst = (0.0, "")
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values()):
        off = float((a.double() - b.double()).abs().max()) / max(float(b.double().abs().max()), 1e-2)
        off = off if math.isfinite(off) else math.inf  # a program that ends in NaN shows nothing
        worst = max(worst, (off, name))
    return worst


# Long chains whose rounding in f32 grows beyond 1e-5 in twenty steps: batch norms of few values one after the other, and logarithms
# of small differences; a choice of experts between two that are equal. In double they are equal.
IN_DOUBLE = ("resnet18_at_32", "sac_with_three_optimizers", "cyclegan", "mixtral_experts", "unet_of_odd_pictures")


def run(name, steps=20):
    torch.manual_seed(7)
    torch.set_default_dtype(torch.float64 if name in IN_DOUBLE else torch.float32)
    try:
        return train(*CASES[name](), steps)
    finally:
        torch.set_default_dtype(torch.float32)


def train(module, make, batch, steps):
    twin = copy.deepcopy(module)
    step, eager = wr.torch.compile(make(module)), make(twin)
    for i in range(steps):
        args = batch((8, 5, 12)[i % 3])
        step(*args), eager(*args)
    return relative(module, twin), step


@pytest.mark.parametrize("name", CASES)
def test_twenty_steps_are_torchs(name):
    (worst, parameter), step = run(name)
    assert worst <= 1e-5, parameter
    assert step.plans == 3
