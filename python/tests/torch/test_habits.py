"""How people hold their nets and optimizers round an update: each beside torch itself, over some steps."""
import collections
import copy
import dataclasses
import functools
import pickle
import types

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import windrow as wr
from models import labels, mlp
from test_models import relative
from torch.utils.checkpoint import checkpoint

CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


def update_of(net, optimizer, loss=F.cross_entropy):
    def update(x, y):
        found = loss(net(x), y)
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        return found

    return update


def every_time(update, before):
    """before(i) ahead of the i-th call."""
    count = iter(range(1000))

    def call(x, y):
        before(next(count))
        return update(x, y)

    return call


@case
def layers_are_frozen_and_thawed(net, compile):
    def freeze(i):
        net[0].requires_grad_(i in (3, 4, 7))

    return every_time(compile(update_of(net, torch.optim.Adam(net.parameters(), lr=1e-2))), freeze)


@case
def layers_are_frozen_under_momentum(net, compile):
    def freeze(i):
        net[0].requires_grad_(i >= 3)

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, dampening=0.5)
    return every_time(compile(update_of(net, optimizer)), freeze)


@case
def parameters_join_an_optimizer_later(net, compile):
    optimizer = torch.optim.Adam(net[2].parameters(), lr=1e-2)

    def join(i):
        if i == 4:
            optimizer.add_param_group({"params": net[0].parameters(), "lr": 1e-3})

    update = update_of(net, optimizer)

    def cleared(x, y):
        net.zero_grad()
        return update(x, y)

    return every_time(compile(cleared), join)


@case
def an_optimizer_forgets(net, compile):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def forget(i):
        if i == 3:
            optimizer.state.clear()
        if i == 6:
            optimizer.state = collections.defaultdict(dict)

    return every_time(compile(update_of(net, optimizer)), forget)


@case
def two_plans_step_one_optimizer(net, compile):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def update(x, y, doubled):
        loss = F.cross_entropy(net(x), y) * (2 if doubled else 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    update, count = compile(update), iter(range(1000))
    return lambda x, y: update(x, y, next(count) % 3 == 0)


@case
def two_functions_and_torch_step_one_optimizer(net, compile):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    plain = update_of(net, optimizer, lambda z, y: F.mse_loss(z, F.one_hot(y, 3).float()))
    functions = compile(update_of(net, optimizer)), compile(plain), plain
    count = iter(range(1000))
    return lambda x, y: functions[next(count) % 3](x, y)


@case
def one_optimizer_steps_a_part_and_then_all(net, compile):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def update(x, y):
        optimizer.zero_grad()
        F.cross_entropy(net[2](net[0](x).detach()), y).backward()
        optimizer.step()
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return compile(update)


@case
def a_layer_is_replaced_and_one_added(net, compile):
    def change(i):
        torch.manual_seed(i)
        if i == 3:
            net[1] = nn.Tanh()
        if i == 5:
            net.append(nn.Linear(3, 3))

    return every_time(compile(update_of(net, torch.optim.SGD(net.parameters(), lr=0.1))), change)


@case
def functions_lists_and_settings_of_a_module_change(net, compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.act, self.order, self.settings = net, torch.relu, [0], {"scale": 1.0}

        def forward(self, x):
            return self.act(self.body(x)) * len(self.order) * self.settings["scale"]

    whole = Net()

    def change(i):
        whole.act = torch.tanh if i >= 3 else torch.relu
        whole.settings["scale"] = 0.5 if i >= 5 else 1.0
        if i == 7:
            whole.order.append(1)

    return every_time(compile(update_of(whole, torch.optim.SGD(net.parameters(), lr=0.1))), change)


@case
def gradients_are_summed_in_one_function_and_used_in_another(net, compile):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def add(x, y):
        loss = F.cross_entropy(net(x), y) / 2
        loss.backward()
        return loss

    def use():
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()

    add, use, count = compile(add), compile(use), iter(range(1000))

    def call(x, y):
        add(x, y)
        if next(count) % 2:
            use()

    return call


@case
def a_flag_says_when_to_step(net, compile):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def update(x, y, now):
        loss = F.cross_entropy(net(x), y) / 2
        loss.backward()
        if now:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    update, count = compile(update), iter(range(1000))
    return lambda x, y: update(x, y, next(count) % 2 == 1)


@case
def torch_steps_with_gradients_that_were_left(net, compile):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def gradients(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss

    gradients = compile(gradients)

    def call(x, y):
        gradients(x, y)
        optimizer.step()

    return call


@case
def a_part_without_a_gradient_is_not_stepped(net, compile):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.1)

    def add(x, y, both):
        h = net[0](x)
        loss = F.cross_entropy(net[2](h if both else h.detach()), y)
        loss.backward()
        return loss

    def use():
        optimizer.step()
        optimizer.zero_grad()

    add, use, count = compile(add), compile(use), iter(range(1000))

    def call(x, y):
        add(x, y, next(count) % 2 == 1)
        use()

    return call


@case
def a_closure(net, compile):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def update(x, y):
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure)

    return compile(update)


@case
def recomputed_by_reentry(net, compile):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    whole = lambda x: checkpoint(net[1:], net[0](x), use_reentrant=True)  # noqa: E731
    return compile(update_of(whole, optimizer))


@case
def the_model_is_an_argument(net, compile):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.insert(1, nn.BatchNorm1d(8))

    def update(model, optimizer, criterion, x, y):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    update, criterion, count = compile(update), nn.CrossEntropyLoss(), iter(range(1000))

    def call(x, y):
        net.train(next(count) % 3 != 1)
        return update(net, optimizer, criterion, x, y)

    return call


@case
def batches_are_objects(net, compile):
    class Batch:
        def __init__(self, x, y):
            self.x, self.y = x, y

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    update = compile(lambda batch, scale=1.0: update_of(net, optimizer)(batch.x * scale, batch.y))
    mine = Batch(None, None)

    def call(x, y):
        mine.x, mine.y = x, y
        update(mine)
        update(Batch(x, y), scale=0.5)

    return call


@pytest.mark.parametrize("name", CASES)
def test_it_trains_as_torch_does(name):
    torch.manual_seed(3)
    net = mlp(4, 8, 3)
    twin = copy.deepcopy(net)
    ours, theirs = CASES[name](net, wr.torch.compile), CASES[name](twin, lambda f: f)
    for _ in range(9):
        x, y = torch.randn(8, 4), labels(8)
        ours(x, y), theirs(x, y)
    worst, parameter = relative(net, twin)
    assert worst <= 1e-5, parameter


def test_alternating_plans_of_one_optimizer_are_compiled_once():
    net = mlp(4, 8, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    one, other = (wr.torch.compile(update_of(net, optimizer)) for _ in range(2))
    for _ in range(4):
        one(torch.randn(8, 4), labels(8)), other(torch.randn(8, 4), labels(8))
    assert (one.plans, other.plans) == (1, 1)
    entries = [*one.entries.values(), *other.entries.values()]
    one(torch.randn(8, 4), labels(8)), other(torch.randn(8, 4), labels(8))
    assert all(a is b for a, b in zip(entries, [*one.entries.values(), *other.entries.values()]))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 3)

    @wr.torch.compile
    def act(self, x):
        return self.net(x).argmax(1)


def test_a_method_is_compiled_for_each_object_and_copied_with_it():
    agent, x = Agent(), torch.randn(50, 4)
    agent.act(x)
    other, again = copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))
    with torch.no_grad():
        for p in other.parameters():
            p.neg_()
    for a in (agent, other, again):
        assert torch.equal(a.act(x), a.net(x).argmax(1))
    assert not torch.equal(agent.act(x), other.act(x))


def test_a_compiled_module_has_what_the_module_has():
    net = mlp(4, 8, 3)
    compiled = wr.torch.compile(net)
    assert compiled.eval() is net and list(compiled.parameters()) == list(net.parameters())
    other = copy.deepcopy(compiled)
    x = torch.randn(3, 4)
    torch.testing.assert_close(other(x), net(x).detach())
    with torch.no_grad():
        net[0].weight.zero_()
    assert not torch.allclose(other(x), compiled(x))
    with pytest.raises(AttributeError):
        compiled.no_such_thing  # noqa: B018


def test_a_compiled_module_that_is_trained_from_outside_is_warned_of():
    with pytest.warns(UserWarning, match="compile the whole update"):
        wr.torch.compile(mlp(4, 3))(torch.randn(3, 4))


def test_a_compiled_function_inside_another_is_part_of_it():
    net = mlp(4, 8, 3)
    inner = wr.torch.compile(lambda x: net(x).softmax(1))
    x = torch.randn(3, 4)
    inner(x)
    torch.testing.assert_close(wr.torch.compile(lambda x: 2 * inner(x))(x), 2 * net(x).softmax(1).detach())


@dataclasses.dataclass
class Found:
    logits: torch.Tensor
    rest: dict
    name: str = "found"


def test_results_may_be_objects():
    net = mlp(4, 8, 3)
    f = wr.torch.compile(lambda x: Found(net(x), {"spread": torch.distributions.Categorical(logits=net(x))}))
    for _ in range(3):
        x = torch.randn(5, 4)
        found = f(x)
        assert type(found) is Found and found.name == "found"
        torch.testing.assert_close(found.logits, net(x).detach())
        torch.testing.assert_close(found.rest["spread"].probs, net(x).softmax(1).detach())
    assert f.plans == 1


def test_settings_may_be_an_argument():
    net, settings = mlp(4, 3), types.SimpleNamespace(scale=2.0)
    f = wr.torch.compile(lambda settings, x: net(x) * settings.scale)
    x = torch.randn(3, 4)
    torch.testing.assert_close(f(settings, x), 2 * net(x).detach())
    settings.scale = 3.0
    torch.testing.assert_close(f(settings, x), 3 * net(x).detach())
    torch.testing.assert_close(wr.torch.compile(functools.partial(f.fn, settings))(x), 3 * net(x).detach())


def test_line_searches_of_torch_use_gradients_that_were_left():
    torch.manual_seed(0)
    x, y = torch.randn(16, 4), labels(16)
    found = []
    for compile in (wr.torch.compile, lambda f: f):  # noqa: A001
        torch.manual_seed(1)
        net = mlp(4, 8, 3)
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=5)

        def gradients(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss

        gradients = compile(gradients)
        found.append([float(optimizer.step(lambda: gradients(x, y))) for _ in range(3)])
    assert found[0][2] < 0.8 * found[0][0]
    assert found[0] == pytest.approx(found[1], rel=1e-3)
