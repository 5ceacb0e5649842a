"""PyTorch programs compiled as they are: twenty steps beside torch itself, and what is refused."""
import copy
import threading

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import windrow as wr


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.v, self.a = nn.Linear(4, 32), nn.Linear(32, 1), nn.Linear(32, 3)

    def forward(self, x):
        h = self.body(x).relu()
        a = self.a(h)
        return self.v(h) + a - a.mean(-1, keepdim=True)


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.net = kind(4, 8, batch_first=True, **options)
        self.out = nn.Linear(16 if options.get("bidirectional") else 8, 3)

    def forward(self, x):
        return self.out(self.net(x)[0][:, -1])


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))[:, :3]


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 8, padding_idx=0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.body, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.body(self.table(x)).mean(1))


def images():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                         nn.Conv2d(4, 8, 3, stride=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8, 3))


vectors = lambda b: torch.randn(b, 4)  # noqa: E731
sequences = lambda b: torch.randn(b, 5, 4)  # noqa: E731
MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), vectors),
    "activations": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.ELU(), nn.Linear(8, 8), nn.Mish(),
                                          nn.Linear(8, 8), nn.LeakyReLU(), nn.Hardswish(), nn.Softplus(), nn.PReLU(),
                                          nn.Linear(8, 3)), vectors),
    "dueling": (Dueling, vectors),
    "tied": (Tied, vectors),
    "convolutions": (images, lambda b: torch.randn(b, 1, 12, 12)),
    "lstm": (lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), sequences),
    "gru": (lambda: Recurrent(nn.GRU), sequences),
    "transformer": (Words, lambda b: torch.randint(0, 10, (b, 5))),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=1e-2),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=1e-2, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2, lr_decay=0.1),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5, weight_decay=1e-2),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-2, weight_decay=1e-2),
    "nadam": lambda p: torch.optim.NAdam(p, lr=1e-2),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-2),
}


def twins(make, optimizer):
    torch.manual_seed(0)
    ours = make()
    theirs = copy.deepcopy(ours)
    return ours, optimizer(ours.parameters()), theirs, optimizer(theirs.parameters())


def eager_step(model, optimizer, x, y, loss_fn=F.cross_entropy):
    loss = loss_fn(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def assert_same(ours, theirs, tolerance=1e-5):
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values()):
        scale = float(b.abs().max()) or 1.0
        assert float((a - b).abs().max()) <= tolerance * max(scale, 0.1), name


def train_beside_torch(make, data, optimizer, tolerance=1e-5):
    ours, our_optimizer, theirs, their_optimizer = twins(make, optimizer)
    step = wr.torch.compile_step(ours, F.cross_entropy, our_optimizer)
    for i in range(20):
        b = 8 if i % 5 else 6
        x, y = data(b), torch.randint(0, 3, (b,))
        got, want = step(x, y), eager_step(theirs, their_optimizer, x, y)
        assert float(got) == pytest.approx(float(want.detach()), rel=1e-4)
    assert_same(ours, theirs, tolerance)
    assert step.plans == 2


@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps_are_torchs(name):
    make, data = MODELS[name]
    train_beside_torch(make, data, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_are_torchs(name):
    train_beside_torch(*MODELS["mlp"], OPTIMIZERS[name], 2e-5)


def test_a_dqn_update_with_clipping_and_target_net():
    def make(q, target):
        optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)

        def update(o, a, r, o2, d):
            with torch.no_grad():
                y = r + 0.99 * (1 - d) * target(o2).max(1).values
            loss = F.mse_loss(q(o).gather(1, a).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(q.parameters(), 0.5)
            optimizer.step()
            for t, p in zip(target.parameters(), q.parameters()):
                t.data.copy_(0.01 * p.data + 0.99 * t.data)
            return loss

        return update

    torch.manual_seed(1)
    q, target = Dueling(), Dueling()
    q2, target2 = copy.deepcopy(q), copy.deepcopy(target)
    eager, compiled = make(q, target), wr.torch.compile(make(q2, target2))
    act = wr.torch.compile(lambda o: q2(o).argmax(1))
    for _ in range(20):
        batch = torch.randn(16, 4), torch.randint(0, 3, (16, 1)), torch.randn(16), torch.randn(16, 4), torch.zeros(16)
        eager(*batch), compiled(*batch)
    assert_same(q2, q)
    assert_same(target2, target)
    o = torch.randn(5, 4)
    assert act(o).dtype == torch.int64 and act(o).tolist() == q(o).argmax(1).tolist()


def test_torch_and_windrow_take_turns_on_the_same_memory(tmp_path):
    ours, our_optimizer, theirs, their_optimizer = twins(MODELS["mlp"][0], OPTIMIZERS["adam"])
    step = wr.torch.compile_step(ours, F.cross_entropy, our_optimizer)
    for i in range(30):
        x, y = vectors(8), torch.randint(0, 3, (8,))
        eager_step(theirs, their_optimizer, x, y)
        if 10 <= i < 20:
            step(x, y)
        else:
            eager_step(ours, our_optimizer, x, y)
        if i == 19:  # a new process would begin like this
            torch.save([ours.state_dict(), our_optimizer.state_dict()], tmp_path / "half.pt")
            ours = MODELS["mlp"][0]()
            our_optimizer = OPTIMIZERS["adam"](ours.parameters())
            for part, state in zip((ours, our_optimizer), torch.load(tmp_path / "half.pt")):
                part.load_state_dict(state)
    assert_same(ours, theirs)


def test_edits_of_parameters_are_seen_at_once():
    model = nn.Linear(2, 1, bias=False)
    use = wr.torch.compile(model)
    x = torch.ones(1, 2)
    use(x)
    with torch.no_grad():
        model.weight.fill_(3.0)
    assert float(use(x)) == 6.0
    model.weight = nn.Parameter(torch.ones(1, 2))
    assert float(use(x)) == 2.0


def test_a_schedule_compiles_nothing_anew():
    ours, our_optimizer, theirs, their_optimizer = twins(MODELS["mlp"][0], OPTIMIZERS["nesterov"])
    schedules = [torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=201) for o in (our_optimizer, their_optimizer)]
    step = wr.torch.compile_step(ours, F.cross_entropy, our_optimizer)
    x, y = vectors(8), torch.randint(0, 3, (8,))
    for _ in range(200):
        step(x, y), eager_step(theirs, their_optimizer, x, y)
        for s in schedules:
            s.step()
    assert step.plans == 1
    assert_same(ours, theirs, 1e-4)


def test_gradients_accumulate_from_call_to_call():
    ours, our_optimizer, theirs, their_optimizer = twins(MODELS["mlp"][0], OPTIMIZERS["adamw"])
    accumulate = wr.torch.compile(lambda x, y: F.cross_entropy(ours(x), y).backward())
    for _ in range(3):
        for _ in range(2):
            x, y = vectors(8), torch.randint(0, 3, (8,))
            accumulate(x, y)
            F.cross_entropy(theirs(x), y).backward()
        for o in (our_optimizer, their_optimizer):
            o.step()
            o.zero_grad()
    assert_same(ours, theirs)


def test_train_and_eval_are_two_plans():
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    use = wr.torch.compile(model)
    x = torch.ones(1, 4)
    assert (use(x) == 0).any()
    model.eval()
    torch.testing.assert_close(use(x), model(x).detach())


def test_arguments_in_containers_and_by_keyword():
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def update(batch, scale=1.0):
        loss = scale * F.cross_entropy(model(batch["x"]), batch["y"][0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    twin = copy.deepcopy(model)
    twin_optimizer = torch.optim.SGD(twin.parameters(), lr=0.2)
    step = wr.torch.compile(update)
    for _ in range(3):
        x, y = vectors(8), torch.randint(0, 3, (8,))
        got = step({"x": x, "y": [y]}, scale=2.0)["loss"]
        assert float(got) == pytest.approx(2 * float(eager_step(twin, twin_optimizer, x, y).detach()), rel=1e-4)
    assert_same(model, twin)
    assert step.plans == 1 and "region" in step.describe()


def test_arguments_that_fit_nowhere_are_named():
    import numpy as np

    with pytest.raises(wr.Error, match="argument 1 is a ndarray.*torch.from_numpy"):
        wr.torch.compile(lambda x, y: x)(torch.ones(2), np.ones(2))


def test_labels_out_of_range_are_torchs_error_and_named_where_everything_is_checked(monkeypatch):
    model = nn.Linear(4, 3)
    x, y = torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
    make = lambda: wr.torch.compile_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1))  # noqa: E731
    before = model.weight.clone()
    with pytest.raises(IndexError, match="out of bounds"):
        make()(x, y + 3)
    monkeypatch.setenv("WINDROW_CHECK", "1")
    step = make()
    with pytest.raises(wr.Error, match=r"test_torch.py:\d+: .*gives nan in row 5"):
        step(x, torch.where(torch.arange(8) == 5, 3, y))
    assert torch.equal(model.weight, before)


def test_many_numbers_are_warned_of():
    scale = wr.torch.compile(lambda x, k: x * k)
    with pytest.warns(UserWarning, match=r"torch.tensor\(value\)"):
        for k in range(10):
            assert float(scale(torch.tensor(2.0), float(k))) == 2.0 * k


# ---- what is refused, with the line ----------------------------------------------------------------------------------
def test_hooks_are_refused():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g)
        return y

    with pytest.raises(wr.Error, match="test_torch.py:.*hooks"):
        wr.torch.compile(f)(torch.randn(2))


def test_optimizers_that_are_not_known_are_refused():
    model = nn.Linear(2, 1)
    step = wr.torch.compile_step(model, F.mse_loss, torch.optim.ASGD(model.parameters()))
    with pytest.raises(wr.Error, match="optimizer ASGD is not supported"):
        step(torch.ones(1, 2), torch.ones(1, 1))

    class Mine(torch.optim.SGD):
        def step(self):
            super().step()

    own = Mine(model.parameters())

    @wr.torch.compile
    def update(x):
        model(x).sum().backward()
        own.step()

    with pytest.raises(wr.Error, match=r"^test_torch.py:\d+: optimizer Mine is not supported; there are SGD"):
        update(torch.ones(1, 2))


def test_the_documented_list_of_ops_is_true():
    import pathlib
    import re

    text = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "python.md").read_text()
    listed = re.search(r"<!-- ops -->(.*?)<!-- end of ops -->", text, re.S).group(1)
    assert sorted(re.findall(r"`([^`]+)`", listed)) == wr.torch.supported_ops()


def test_parameters_without_a_gradient_are_left_alone():
    """Layers that are frozen or not used may stand in the optimizer: torch neither changes them nor counts their steps."""
    for make in (lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)):
        ours = nn.ModuleDict({"a": nn.Linear(4, 3), "unused": nn.Linear(4, 3), "frozen": nn.Linear(3, 3).requires_grad_(False)})
        theirs = copy.deepcopy(ours)
        mine, its = make(ours.parameters()), make(theirs.parameters())

        def update(net, optimizer, x, y):
            loss = F.cross_entropy(net["frozen"](net["a"](x)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        step = wr.torch.compile(lambda x, y: update(ours, mine, x, y))
        for _ in range(5):
            x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
            step(x, y), update(theirs, its, x, y)
        assert_same(ours, theirs)
        assert mine.state_dict()["state"].keys() == its.state_dict()["state"].keys()


def test_results_keep_their_form():
    x = torch.randn(3, 4)
    largest = wr.torch.compile(lambda x: x.max(1))(x)
    assert torch.equal(largest.values, x.max(1).values) and torch.equal(largest.indices, x.max(1).indices)
    both = wr.torch.compile(lambda x: {"twice": x * 2, "rest": [x, None, "name"]})(x)
    assert torch.equal(both["twice"], x * 2) and both["rest"][1:] == [None, "name"]
    rows = wr.torch.compile(lambda x: list(x.unbind(0)))
    assert [len(rows(x)), len(rows(torch.randn(5, 4))), len(rows(x))] == [3, 5, 3]
    more = wr.torch.compile(lambda i: i + 1)
    assert [more(torch.ones(2, dtype=d)).dtype for d in (torch.int64, torch.int32, torch.int64)] == [torch.int64, torch.int32, torch.int64]


def test_several_threads_may_call_first():
    """One traces, the others wait; meanwhile torch works as ever in threads that do not trace."""
    model, x = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)), torch.randn(4, 3)
    compiled = [wr.torch.compile(model), wr.torch.compile(lambda t: model(t).sum())]
    found, done, eager = [], threading.Event(), []

    def by_itself():
        weight = torch.ones(2, requires_grad=True)
        while not done.is_set():
            loss = (weight * weight).sum()
            loss.backward()
            eager.append(loss.item() == 2.0 and bool(weight.grad[0] == 2.0))
            weight.grad = None

    threads = [threading.Thread(target=lambda f=f: found.append(f(x))) for f in compiled * 3]
    other = threading.Thread(target=by_itself)
    for t in [other, *threads]:
        t.start()
    for t in threads:
        t.join()
    done.set()
    other.join()
    assert len(found) == 6 and eager and all(eager)
    for y in found:
        torch.testing.assert_close(y, model(x) if y.ndim else model(x).sum())
