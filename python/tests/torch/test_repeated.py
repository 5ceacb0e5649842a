"""Calls like the one before are made by C++ alone: whatever changes between two of them is seen by the next."""
import copy

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import windrow as wr


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x


class Counted(Doubled):
    """With a buffer that has to be copied round each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls.add_(1)
        return super().forward(x)


class Case:
    """A net, its optimizer and an update, as it is or compiled."""

    def __init__(self, optimizer, compiled, counts):
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), Counted() if counts else Doubled(), nn.Linear(8, 2))
        self.optimizer = optimizer(self.net.parameters())
        self.x, self.y = torch.randn(6, 3), torch.randint(0, 2, (6,))

        def update(x, y):
            loss = F.cross_entropy(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return loss

        self.update = wr.torch.compile(update) if compiled else update

    def group(self, **changes):
        self.optimizer.param_groups[0].update(changes)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01, weight_decay=0.01)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def two_groups(parameters):
    first, *others = parameters
    return torch.optim.AdamW([{"params": [first], "lr": 0.02}, {"params": others}], lr=0.01)


def rate_and_back(case):
    case.group(lr=0.3)
    case.update(case.x, case.y)
    case.group(lr=0.01)
    case.update(case.x[:4], case.y[:4])  # another plan of the same optimizer


def replace_data(case):
    case.net[0].weight.data = torch.ones(8, 3)


def replace_parameter(case):
    case.net[0].bias = nn.Parameter(torch.ones(8))  # the optimizer has the old one


def moment_elsewhere(case):
    case.optimizer.state[case.net[0].weight]["exp_avg"].data = torch.ones(8, 3)


def load(case):
    saved = copy.deepcopy(case.optimizer.state_dict())
    case.update(case.x, case.y)
    case.optimizer.load_state_dict(saved)


def torch_steps(case):
    case.optimizer.zero_grad()
    F.cross_entropy(case.net(case.x), case.y).backward()
    case.optimizer.step()
    case.optimizer.zero_grad()


def freeze(case):
    case.net[0].requires_grad_(False)


def other_types(case):
    case.x, case.y = case.x.t().contiguous().t(), case.y.flip(0)


CHANGES = {
    "lr": (adam, lambda c: c.group(lr=0.3)),
    "lr and back, with a short batch between": (adam, rate_and_back),
    "lr 0": (adam, lambda c: c.group(lr=0.0)),
    "lr an int": (momentum, lambda c: c.group(lr=1)),
    "betas": (adam, lambda c: c.group(betas=(0.5, 0.6))),
    "betas as a list": (adam, lambda c: c.group(betas=[0.5, 0.6])),
    "no decay any longer": (adam, lambda c: c.group(weight_decay=0.0)),
    "momentum": (momentum, lambda c: c.group(momentum=0.5)),
    "no momentum any longer": (momentum, lambda c: c.group(momentum=0.0)),
    "the second group's lr": (two_groups, lambda c: c.optimizer.param_groups[1].update(lr=0.3)),
    "maximize": (momentum, lambda c: c.group(maximize=True)),
    "p.data": (adam, replace_data),
    "a parameter in its place": (adam, replace_parameter),
    "weights in place": (adam, lambda c: c.net[3].weight.data.mul_(2)),
    "a moment elsewhere": (adam, moment_elsewhere),
    "load_state_dict": (adam, load),
    "torch's own step": (adam, torch_steps),
    "state.clear()": (adam, lambda c: c.optimizer.state.clear()),
    "frozen": (adam, freeze),
    "eval()": (adam, lambda c: c.net.eval()),
    "a layer in eval()": (adam, lambda c: c.net[2].eval()),
    "a layer in its place": (adam, lambda c: c.net.__setitem__(1, nn.ReLU())),
    "strides": (adam, other_types),
}


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_between_calls_is_seen(what, counts):
    optimizer, change = CHANGES[what]
    ours, theirs = Case(optimizer, True, counts), Case(optimizer, False, counts)
    for i in range(12):
        if i == 6:
            assert ours.update.known.checks is not None  # or C++ makes none of them
            assert (ours.update.known.checks[0] is None) is counts
            change(ours)
            change(theirs)
        loss = ours.update(ours.x, ours.y)
        torch.testing.assert_close(loss, theirs.update(theirs.x, theirs.y).detach(), rtol=1e-4, atol=1e-6)
    for (name, p), q in zip(ours.net.state_dict().items(), theirs.net.state_dict().values()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")


def test_arguments_of_other_types_are_not_taken_for_those_before():
    f = wr.torch.compile(lambda x: x * 2)
    for _ in range(4):
        f(torch.ones(3))
    assert f.known.checks is not None
    for x in (torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.int32), torch.ones(3, dtype=torch.int64), torch.ones(1, 3), torch.ones(2),
              torch.ones(3, 2)[:, 0], torch.ones(3)):
        result = f(x)
        assert result.dtype == x.dtype and torch.equal(result, x * 2)
    assert not f(torch.ones(3, requires_grad=True)).requires_grad
    with torch.no_grad():
        assert torch.equal(f(torch.full((3,), 5.0)), torch.full((3,), 10.0))


def test_results_are_torchs_own_and_fresh():
    f = wr.torch.compile(lambda x: {"both": (x + 1, x.argmax(0)), "n": 3, "large": x > 1})
    kept = [f(torch.full((4,), float(i))) for i in range(6)]
    assert f.known.checks is not None
    for i, found in enumerate(kept):
        first, index = found["both"]
        assert torch.equal(first, torch.full((4,), i + 1.0)) and found["n"] == 3
        assert index.dtype == torch.int64 and index.shape == () and found["large"].dtype == torch.bool
        first += 1  # their memory is theirs
    assert torch.equal(f(torch.zeros(4))["both"][0], torch.ones(4))


def test_a_function_whose_calls_repeat_is_still_part_of_one_that_calls_it():
    """While the other is traced, and while torch computes it for the comparison, its plan would have no gradients."""
    net = nn.Linear(3, 2)
    twin, x = copy.deepcopy(net), torch.randn(4, 3)
    inner = wr.torch.compile(lambda x: net(x).square().mean())
    for _ in range(4):
        inner(x)
    assert inner.known.checks is not None

    def update(loss_of, net, x):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        loss = loss_of(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    compiled = wr.torch.compile(lambda x: update(inner, net, x))
    for _ in range(3):
        compiled(x)
        update(lambda x: twin(x).square().mean(), twin, x)
    torch.testing.assert_close(net.weight, twin.weight)
    torch.testing.assert_close(inner(x), twin(x).square().mean().detach())
