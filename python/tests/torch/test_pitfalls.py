"""What a trace of PyTorch code could get silently wrong: each is refused by name, or is what torch does."""
import copy

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import windrow as wr
from models_tables import Reversal


def same(fn, *args):
    """fn compiled gives what fn gives; without the first call's own check, which would hide that."""
    got, want = wr.torch.compile(fn, check=False)(*args), fn(*args)
    torch.testing.assert_close(got, want.detach(), rtol=1e-5, atol=1e-6)


def gradient(fn, x):
    """d fn / dx as a compiled function and as torch has it."""

    def of(x):
        x = x.detach().requires_grad_(True)
        return torch.autograd.grad(fn(x).sum(), x)[0]

    same(of, x)


# ---- refused ---------------------------------------------------------------------------------------------------------
class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x, x * 2

    @staticmethod
    def backward(ctx, g, h):
        return g + 2 * h


class Rectified(torch.autograd.Function):
    """In the newer manner, with what is saved, and a gradient that is changed in place."""

    @staticmethod
    def forward(x, weight):
        return x.clamp(min=0) * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        of_x = (g * weight).clone()
        of_x[x < 0] = 0.1
        return of_x, (g * x.clamp(min=0)).sum(0) if ctx.needs_input_grad[1] else None


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def hooked(x):
    y = x * 2
    y.register_hook(lambda g: g * 0)
    return y


counting, linear = Counting(), nn.Linear(3, 3)
lbfgs = torch.optim.LBFGS(linear.parameters())


def with_closure(x):
    lbfgs.step(lambda: linear(x).sum())


def packed(x):
    return nn.utils.rnn.pack_padded_sequence(x[None], [4], batch_first=True).data


def autocast(x):
    with torch.autocast("cpu"):
        return linear(x)


schedule = torch.optim.lr_scheduler.StepLR(torch.optim.SGD(linear.parameters(), lr=0.1), 1)


def with_schedule(x):
    schedule.step()
    return linear(x)


class Plain(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.data.sub_(p.grad)


plain = Plain(linear.parameters())


def with_own_optimizer(x):
    linear(x).sum().backward()
    plain.step()


hooked_module, adaptive, counting_free = nn.Linear(3, 3), nn.AdaptiveLogSoftmaxWithLoss(3, 6, [2]), torch.ones(2, requires_grad=True)
hooked_module.register_full_backward_hook(lambda module, of_inputs, of_outputs: None)


REFUSED = {
    "a schedule's step": (with_schedule, r"test_pitfalls.py:\d+: StepLR.step\(\)"),
    "sizes that do not fit": (lambda x: linear(x[:, :2]), r"test_pitfalls.py:\d+: torch says: .*\[4, 2\]"),
    "a function of torch.compile": (torch.compile(linear), "without torch.compile"),
    "a function with two results": (lambda x: Twice.apply(x)[0], r"test_pitfalls.py:\d+: autograd.Function Twice: returns a tuple"),
    "a tensor's hook": (hooked, r"test_pitfalls.py:\d+: hooks of tensors"),
    "vmap": (lambda x: torch.vmap(lambda r: r * 2)(x), "vmap"),
    "torch.func": (lambda x: torch.func.grad(lambda r: (r * r).sum())(x), "torch.func.grad is not supported"),
    "item": (lambda x: x * x.sum().item(), r"test_pitfalls.py:\d+: tensor.item\(\)"),
    "tolist": (lambda x: x * x.sum(0).tolist()[0], r"tensor.(tolist|item)\(\)"),
    "numpy": (lambda x: torch.from_numpy(x.numpy()), r"tensor.numpy\(\)"),
    "float": (lambda x: x * float(x.sum()), r"float\(tensor\)"),
    "a condition": (lambda x: x if x.sum() > 0 else -x, "torch.where"),
    "a counter of Python's": (lambda x: counting(x), "Counting.calls changes"),
    "a boolean mask": (lambda x: x[x > 0], "depends on values"),
    "nonzero": (lambda x: torch.nonzero(x), "depends on values"),
    "a closure": (with_closure, r"LBFGS is not supported inside.*Compile the closure"),
    "PackedSequence": (packed, "test_pitfalls.py"),
    "half precision": (lambda x: x.half(), "float16"),
    "bfloat16": (lambda x: x.bfloat16(), "bfloat16"),
    "autocast": (autocast, "bfloat16|autocast"),
    "a long sort": (lambda x: x.repeat(1, 300).sort()[0], "512 at most"),
    "a loss over paths": (lambda x: F.ctc_loss(x[:, None].log_softmax(-1), torch.ones(1, 1, dtype=torch.long), torch.tensor([4]), torch.tensor([1])),
                          r"test_pitfalls.py:\d+: .*depends on values"),
    "complex numbers": (lambda x: torch.view_as_complex(x[:, :2].contiguous()), "complex64"),
    "multinomial": (lambda x: torch.multinomial(x.exp(), 1), "draw outside"),
    "a transform": (lambda x: torch.fft.rfft(x).abs(), r"test_pitfalls.py:\d+: .*fft"),
    "an op that is not known": (lambda x: torch.linalg.svd(x)[1], r"test_pitfalls.py:\d+: linalg_svd.default: is not supported"),
    "a tensor in a text": (lambda x: x * len(f"{x.sum():.2f}"), r"test_pitfalls.py:\d+: a tensor in a text"),
    "a module's backward hook": (lambda x: hooked_module(x), r"test_pitfalls.py:\d+: backward hooks of modules"),
    "an optimizer of one's own": (with_own_optimizer, r"optimizer Plain is not supported.*written out"),
    "bits of whole numbers": (lambda x: x * ((x > 0).long() & 1), "bitwise ops of integers"),
    "a number of classes that depends on values": (lambda x: adaptive(x, torch.tensor([0, 1, 3, 5])).loss, r"test_pitfalls.py:\d+: .*depends on values"),
    "a gradient of what is not used": (lambda x: torch.autograd.grad(linear(x).sum(), [counting_free]), "an input is not used by the outputs"),
    "a sparse tensor": (lambda x: x.to_sparse(), "sparse|not supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    fn, message = REFUSED[name]
    with pytest.raises(wr.Error, match=message):
        wr.torch.compile(fn)(torch.randn(4, 3))


def test_a_backward_of_ones_own_is_used():
    weight = torch.randn(3, requires_grad=True)
    x = torch.randn(4, 3)
    gradient(lambda x: Straight.apply(x * 3) * x, x)
    gradient(lambda x: (Reversal.apply(x * x, 0.3) * 2).tanh() + Reversal.apply(x, 2.0), x)
    gradient(lambda x: Rectified.apply(x * 2, weight) ** 2, x)
    gradient(lambda x: Rectified.apply(Straight.apply(x * 2), x[0]).sin(), x)

    def twice(x):
        x = x.detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(Rectified.apply(x, weight).pow(2).sum(), x, create_graph=True)
        return torch.autograd.grad((slope * slope).sum(), x)[0]

    same(twice, x)


def test_what_is_refused_changes_nothing():
    before = copy.deepcopy(linear.state_dict())
    with pytest.raises(wr.Error):
        wr.torch.compile(lambda x: torch.linalg.svd(linear(x)[:3])[1])(torch.randn(4, 3))
    for name, value in linear.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.Tensor.backward.__module__ == "torch._tensor" and torch.randn(1).item() is not None


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(wr.Error, match="does not fit i32"):
        wr.torch.compile(lambda y: y + 1)(torch.tensor([2**40]))


def test_a_parameter_that_shares_memory_is_refused():
    whole = torch.zeros(6)
    a, b = nn.Parameter(whole[:4]), nn.Parameter(whole[2:])
    with pytest.raises(wr.Error, match="share memory"):
        wr.torch.compile(lambda: a.sum() + b.sum())()


def test_a_wrong_lowering_would_be_found(monkeypatch):
    """The check of the first call: an op that is lowered wrongly is refused, and nothing has changed."""
    from windrow.torch import _ops

    monkeypatch.setitem(_ops.TABLE, "relu", lambda interpreter, x: x)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    before = copy.deepcopy(model.state_dict())
    step = wr.torch.compile_step(model, F.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(wr.Error, match="not what torch computes"):
        step(torch.randn(8, 3), torch.randn(8, 1))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("optimizer", [lambda p: torch.optim.Adam(p, 1e-3), lambda p: torch.optim.SGD(p, 1e-6, momentum=0.9)])
def test_a_gradient_that_is_rounding_error_is_no_difference(optimizer):
    """A bias before a batch norm has none; what an optimizer keeps of it is noise, the larger the loss the larger."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    step = wr.torch.compile_step(model, lambda y, t: 10_000 * F.mse_loss(y, t), optimizer(model.parameters()))
    assert step(torch.randn(64, 16), torch.randn(64, 1)) > 0


# ---- as torch has it -------------------------------------------------------------------------------------------------
def test_max_gives_its_gradient_to_one_index():
    gradient(lambda x: x.max(1).values, torch.tensor([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]]))


def test_amax_shares_its_gradient():
    gradient(lambda x: x.amax(1), torch.tensor([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]]))


def test_powers_of_negative_bases():
    x = torch.tensor([-2.0, -1.0, 0.0, 1.5])
    for power in (2, 3, 4.0, -1):
        same(lambda x: x**power, x[x != 0] if power < 0 else x)
    gradient(lambda x: x**3, x)


def test_powers_of_tensors():
    base, power = torch.tensor([-2.0, -2.0, -2.0, 0.0, 0.0, 3.0, 0.5, 0.0]), torch.tensor([2.0, 3.0, 0.5, 0.0, 2.0, -1.5, 2.5, 1.0])
    got = wr.torch.compile(lambda x, p: x ** p, check=False)(base, power)
    torch.testing.assert_close(got, base ** power, rtol=1e-5, atol=1e-6, equal_nan=True)
    gradient(lambda x: x ** power[[0, 1, 5, 6, 7]], base[[0, 1, 5, 6, 7]])


def test_gradients_where_they_are_not_defined_are_torchs():
    """At zero norms and deviations, at the limits of clamps: torch chooses, and NaN would spread over all parameters."""
    x = torch.tensor([0.0, 0.5, -0.5, 2.0])
    rows = torch.tensor([[1.0], [0.0]])
    for fn in (lambda x: (x * 0).norm(), lambda x: (x * rows).norm(dim=1), lambda x: (x * 0 + 1).std(), lambda x: F.normalize(x[None] * 0),
               lambda x: F.cosine_similarity(x[None] * 0, x[None]), lambda x: x.abs() ** 1.5, lambda x: x.clamp(0, 0.5),
               lambda x: torch.clamp(x, torch.zeros(4), torch.ones(4)), lambda x: F.hardtanh(2 * x), lambda x: F.relu6(6 * x), lambda x: x.abs(),
               lambda x: torch.cdist(x[:, None], x[:, None]), lambda x: torch.special.xlogy(x.relu(), x.relu())):
        gradient(fn, x)


def test_equal_values_are_sorted_in_their_order():
    x = torch.tensor([[2.0, 1.0, 2.0, float("nan"), 1.0]])
    same(lambda x: x.sort(stable=True).indices, x)
    same(lambda x: x.sort(stable=True, descending=True).indices, x)
    assert wr.torch.compile(lambda x: x.topk(2).indices, check=False)(torch.tensor([3.0, 1.0, 2.0])).tolist() == [0, 2]


def test_no_grad_stops_gradients():
    def f(x):
        with torch.no_grad():
            y = x * 3
        return y * x + x.detach() * x

    gradient(f, torch.randn(5))


def test_tied_weights_are_one_parameter():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    b.weight = a.weight
    step = wr.torch.compile_step(nn.Sequential(a, b), F.mse_loss, torch.optim.SGD(a.parameters(), lr=0.1))
    step(torch.randn(4, 3), torch.randn(4, 3))
    assert a.weight is b.weight and a.weight.data_ptr() == b.weight.data_ptr()


def test_buffers_that_are_not_saved_are_used_where_they_stand():
    model = nn.Module()
    model.register_buffer("scale", torch.tensor(2.0), persistent=False)
    use = wr.torch.compile(lambda x: x * model.scale)
    assert float(use(torch.tensor(3.0))) == 6.0
    model.scale.fill_(5.0)
    assert float(use(torch.tensor(3.0))) == 15.0


def test_what_is_written_in_place_is_written_once():
    model = nn.Linear(2, 2)
    model.register_buffer("count", torch.zeros(1))
    start = model.weight.detach().clone()

    def decay(x):
        with torch.no_grad():
            model.weight.mul_(0.5)
            model.count += 1
        return model(x)

    step = wr.torch.compile(decay)
    step(torch.randn(3, 2)), step(torch.randn(3, 2)), step(torch.randn(4, 2))
    torch.testing.assert_close(model.weight.detach(), start * 0.125)
    assert float(model.count) == 3


def test_tensors_of_nobody_are_not_written_twice_in_silence():
    alone = torch.ones(3)

    def double(x):
        alone.mul_(2)
        return x * alone

    try:
        wr.torch.compile(double)(torch.ones(3))
    except wr.Error as error:
        assert "written to while the function was traced" in str(error)
    else:
        assert alone.tolist() == [2, 2, 2]


def test_distributions_are_traced_without_asking_for_values():
    logits, actions = torch.randn(6, 3), torch.randint(0, 3, (6,))
    torch.distributions.Distribution.set_default_validate_args(True)  # torch.compile switches it off
    same(lambda x: torch.distributions.Categorical(logits=x).log_prob(actions), logits)
    same(lambda x: torch.distributions.Categorical(logits=x).entropy(), logits)
    same(lambda x: torch.distributions.Normal(x, x.exp()).log_prob(x + 1), logits)
    assert torch.distributions.Distribution._validate_args


def test_results_are_fresh():
    f = wr.torch.compile(lambda x: x + 1)
    first = f(torch.zeros(2))
    f(torch.ones(2))
    assert first.tolist() == [1, 1]


def test_arguments_are_not_written_to():
    x = torch.zeros(3)
    assert wr.torch.compile(lambda x: x.clone().add_(1))(x).tolist() == [1, 1, 1] and x.tolist() == [0, 0, 0]


def test_in_place_ops_reach_every_view():
    def f(x):
        y = x.clone()
        y[:, 0] = 1.0
        row = y[1]
        row.mul_(3)
        y.view(-1)[2:4].zero_()
        return y.sum(0) + row

    same(f, torch.randn(3, 4))
    gradient(f, torch.randn(3, 4))


def test_double_replaces_parameters_and_is_noticed():
    model = nn.Linear(3, 2)
    use, x = wr.torch.compile(model), torch.randn(4, 3)
    use(x)
    model.double()
    assert use(x.double()).dtype == torch.float64
    torch.testing.assert_close(use(x.double()), model(x.double()).detach())


def test_assign_replaces_parameters_and_is_noticed():
    model = nn.Linear(3, 2)
    use, x = wr.torch.compile(model), torch.randn(4, 3)
    use(x)
    model.load_state_dict({k: torch.ones_like(v) for k, v in model.state_dict().items()}, assign=True)
    torch.testing.assert_close(use(x), model(x).detach())


def test_optimizer_options_that_change_the_rule_compile_again():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    twin = copy.deepcopy(model)
    twin_optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    step = wr.torch.compile_step(model, F.mse_loss, optimizer)
    for i in range(6):
        if i == 3:
            for group in (*optimizer.param_groups, *twin_optimizer.param_groups):
                group["weight_decay"] = 0.5
        x, y = torch.randn(4, 3), torch.randn(4, 2)
        step(x, y)
        twin_optimizer.zero_grad()
        F.mse_loss(twin(x), y).backward()
        twin_optimizer.step()
    torch.testing.assert_close(model.weight, twin.weight, rtol=1e-5, atol=1e-6)


def test_rates_as_tensors_are_read_at_every_call():
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.0))
    step = wr.torch.compile_step(model, lambda p, y: (p - y).sum(), optimizer)
    x, y, before = torch.ones(1, 1), torch.zeros(1, 1), float(model.weight.detach())
    step(x, y)
    assert float(model.weight.detach()) == before
    optimizer.param_groups[0]["lr"].fill_(1.0)
    step(x, y)
    assert float(model.weight.detach()) == pytest.approx(before - 1.0)
    assert step.plans == 1


def test_random_numbers_are_new_at_every_call_and_seeded_by_torch():
    def draw():
        torch.manual_seed(3)
        f = wr.torch.compile(lambda x: F.dropout(x, 0.5))
        return [f(torch.ones(64)) for _ in range(2)]

    (a, b), (c, d) = draw(), draw()
    assert not torch.equal(a, b) and torch.equal(a, c) and torch.equal(b, d)
