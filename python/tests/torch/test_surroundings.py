"""What Python keeps round a compiled function: names, numbers and attributes that change are noticed or refused, never baked in."""
import collections
import copy
import types

import pytest
import torch
import torch.nn as nn
import windrow as wr

net = nn.Linear(2, 2)
rate = 2.0
loss = torch.zeros(1)
x = torch.ones(1, 2)


def of_globals(x):
    return net(x) * rate


def agrees(compiled, fn, *args):
    torch.testing.assert_close(compiled(*args), fn(*args).detach())


def test_a_module_that_is_replaced_is_noticed():
    global net
    f = wr.torch.compile(of_globals, check=False)
    agrees(f, of_globals, x)
    net = copy.deepcopy(net)
    with torch.no_grad():
        net.weight.mul_(3)
    agrees(f, of_globals, x)


def test_a_number_that_changes_outside_is_noticed():
    global rate
    f = wr.torch.compile(of_globals, check=False)
    for rate in (1.0, 3.0, 1.0):
        agrees(f, of_globals, x)
    assert f.plans == 2


def test_names_that_are_not_read_compile_nothing_anew():
    global loss
    wrapper = types.SimpleNamespace(loss=2.0)
    f = wr.torch.compile(lambda x: net(x) * wrapper.loss, check=False)
    for _ in range(3):
        f(x)
        loss = torch.zeros(1)  # a global of the attribute's name
    assert f.plans == 1 and f.replaced == 0


class Agent:
    def __init__(self):
        self.net, self.scale, self.total, self.settings = nn.Linear(2, 2), 1.0, 0, {"gamma": 0.9, "other": 0}

    def scaled(self, x):
        return x * self.scale

    def act(self, x):
        return self.scaled(self.net(x)) * self.settings["gamma"]

    def counted(self, x):
        self.total += 1
        return self.net(x) * self.total


def test_numbers_of_objects_are_watched():
    agent = Agent()
    f = wr.torch.compile(agent.act, check=False)
    agrees(f, agent.act, x)
    agent.scale = 2.5  # read by a method that is called
    agrees(f, agent.act, x)
    agent.settings["gamma"] = 0.5
    agrees(f, agent.act, x)
    agent.total, agent.settings["other"] = 7, 1  # not read
    agrees(f, agent.act, x)
    assert f.plans == 3


def test_counters_are_refused_and_stay_as_they_were():
    agent, calls = Agent(), 0

    def counting(x):
        nonlocal calls
        calls += 1
        return x * calls

    with pytest.raises(wr.Error, match="Agent.total changes in the function, from 0 to 1"):
        wr.torch.compile(agent.counted)(x)
    with pytest.raises(wr.Error, match="calls changes in the function, from 0 to 1"):
        wr.torch.compile(counting)(x)
    assert agent.total == 0 and calls == 0


def test_names_may_be_defined_after_the_function():
    space = {"torch": torch, "wr": wr}
    exec("def f(x):\n    return later(x)\nf = wr.torch.compile(f)\nlater = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.5))\nlater.eval()", space)
    torch.testing.assert_close(space["f"](x), space["later"](x).detach())
    space["later"].train()
    assert (space["f"](torch.ones(64, 2)) == 0).any()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.alpha, self.shift, self.drop = nn.Linear(2, 2), 1.0, torch.zeros(2), nn.Dropout(0.0)

    def forward(self, x):
        return self.drop(self.fc(x) * self.alpha + self.shift)


def test_attributes_of_modules_are_watched():
    module = Scaled()
    f = wr.torch.compile(module, check=False)
    agrees(f, module, x)
    module.alpha = 3.0
    agrees(f, module, x)
    module.shift = torch.ones(2)
    agrees(f, module, x)
    module.drop.p = 1.0
    assert (f(x) == 0).all()


class Remembering(nn.Module):
    """A recurrent net as many keep it: its state is an attribute."""

    def __init__(self, state):
        super().__init__()
        self.cell, self.hidden = nn.RNNCell(2, 2), state

    def forward(self, x):
        if self.hidden is None:
            self.hidden = torch.zeros(x.size(0), 2)
        self.hidden = self.cell(x, self.hidden)
        return self.hidden


@pytest.mark.parametrize("state", [None, torch.zeros(1, 2)], ids=["from nothing", "from a tensor"])
@pytest.mark.parametrize("check", [True, False])
def test_states_in_attributes_are_refused(state, check):
    module = Remembering(state)
    with pytest.raises(wr.Error, match=r"attribute hidden is read and replaced.*self.hidden.copy_\(new\)"):
        wr.torch.compile(module, check=check)(x)
    assert module.hidden is state


def test_states_that_python_keeps_elsewhere_are_found_by_the_second_call():
    kept = []

    def f(x):
        y = x + (kept[-1] if kept else 1.0)
        kept.append(y.detach())
        return y

    compiled = wr.torch.compile(f)
    compiled(x)
    with pytest.raises(wr.Error, match="not what torch computes"):
        compiled(x)


class Leaving(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.seen, self.log = nn.Linear(2, 2), None, []

    def forward(self, x):
        self.mean = x.mean(0)
        self.seen = self.fc(x - self.mean)
        self.log.append(self.seen)
        return self.seen + self.mean


@pytest.mark.parametrize("check", [True, False])
def test_what_is_left_in_attributes_does_no_harm(check):
    module = Leaving()
    twin, f = copy.deepcopy(module), wr.torch.compile(module, check=check)
    for i in range(4):
        torch.testing.assert_close(f(x * i), twin(x * i).detach())
    assert f.plans == 1
    assert not any(isinstance(t, torch._subclasses.FakeTensor) for t in [*module.log, module.seen, getattr(module, "mean", None)])


def test_constants_made_inside_are_not_taken_for_tensors_that_were_there():
    old = collections.deque(torch.zeros(()).add_(1) for _ in range(20000))

    def f(x):
        old.clear()  # their places are free for the constants
        return x * sum(torch.tensor(float(i)) for i in range(50))

    agrees(wr.torch.compile(f, check=False), f, x)


# ---- memory that is shared, and memory that is not -------------------------------------------------------------------
def aliased(x):
    y = x.clone()
    y.contiguous().add_(1)  # y itself
    y.float().mul_(2)
    y.to(torch.float32).sub_(x)
    y.t().reshape(-1).add_(100)  # a copy
    y.reshape(-1)[1:3].neg_()
    y.t().contiguous().zero_()
    y.diagonal().add_(5)
    y[:, ::2] = x[:, :2] * 3
    y[1::2].mul_(0.5)
    torch.atleast_2d(y)[0, 0] = 7
    a, b = y.hsplit([1])
    b[0] = x[0, 0]
    return y + a.sum() + y.unfold(1, 2, 1).sum(-1).sum(1, keepdim=True)


def test_writes_reach_what_shares_memory_and_nothing_else():
    given = torch.randn(4, 3)
    got, want = wr.torch.compile(aliased, check=False)(given), aliased(given)
    torch.testing.assert_close(got, want)

    def slope(x):
        x = x.detach().requires_grad_(True)
        return torch.autograd.grad(aliased(x).pow(2).sum(), x)[0]

    torch.testing.assert_close(wr.torch.compile(slope, check=False)(given), slope(given))


def test_ops_that_give_back_a_parameter_itself():
    """Nothing is to be done for float(), flatten(), dropout(0) or broadcasting: later writes still reach the parameter."""
    module = nn.ParameterDict({k: torch.randn(3, 4) for k in "abcdef"})
    twin = copy.deepcopy(module)

    def step(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def update(x):
            parts = [module["a"].float(), module["b"].flatten(1), nn.functional.dropout(module["c"], 0.5, training=False), module["d"].contiguous(),
                     torch.broadcast_tensors(module["e"], x)[0], torch.distributions.Normal(module["f"], 1.0).log_prob(x)]
            loss = sum((p * p * x).sum() for p in parts + [module[k].flatten(1) for k in "abc"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for p in module.values():
                    p.mul_(0.9)
            return loss
        return update

    ours, eager = wr.torch.compile(step(module), check=False), step(twin)
    for _ in range(3):
        given = torch.randn(3, 4)
        torch.testing.assert_close(ours(given), eager(given).detach())
    for name, value in module.items():
        torch.testing.assert_close(value, twin[name])


def test_views_without_gradients_have_none():
    def slope(x):
        x = x.detach().requires_grad_(True)
        with torch.no_grad():
            part, turned, pieces = x[0], x.t(), x.chunk(2, 1)
        y = (x * part).sum() + (turned * 2).sum() + (pieces[0] * x[:, :1]).sum()
        return torch.autograd.grad(y, x)[0]

    given = torch.randn(2, 2)
    torch.testing.assert_close(wr.torch.compile(slope, check=False)(given), slope(given))


def test_data_may_be_assigned():
    module = nn.Linear(2, 2)
    twin = copy.deepcopy(module)

    def step(module):
        def normalise(x):
            module.weight.data = module.weight.data / module.weight.data.norm(dim=1, keepdim=True)
            nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(module.parameters()) * 0.5, module.parameters())
            return module(x)
        return normalise

    f, eager = wr.torch.compile(step(module)), step(twin)
    for _ in range(3):
        torch.testing.assert_close(f(x), eager(x).detach())
    torch.testing.assert_close(module.weight, twin.weight)
    assert f.plans == 1


def test_several_losses_at_once():
    module = nn.Linear(2, 2)
    twin, given = copy.deepcopy(module), torch.randn(3, 2)

    def step(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def both(x):
            y = module(x)
            optimizer.zero_grad()
            torch.autograd.backward([y.sum(), y], [None, torch.ones_like(y)])
            optimizer.step()
            return y
        return both

    wr.torch.compile(step(module))(given), step(twin)(given)
    torch.testing.assert_close(module.weight, twin.weight)
