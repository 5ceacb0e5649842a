"""Programs as people write them from day to day, what stands round the update included: each compiled beside torch itself."""
import copy
import itertools
import multiprocessing
import random
import warnings

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import windrow as wr
from models import mlp
from test_habits import update_of
from torch.optim import lr_scheduler
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset

CASES = {}


def case(fn):
    CASES[fn.__name__] = fn
    return fn


def batches(count=10):
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(8, 4, generator=generator), torch.randint(0, 3, (8,), generator=generator)) for _ in range(count)]


def trained(net, step):
    for x, y in batches():
        step(x, y)
    return values(net)


def values(*nets):
    return [t.detach().clone() for net in nets for t in net.state_dict().values()]


def adam(net, lr=1e-2):
    return torch.optim.Adam(net.parameters(), lr)


def sgd(net, lr=0.1):
    return torch.optim.SGD(net.parameters(), lr)


# ---- averages of weights
@case
def averaged_by_swa_utils(compile):
    net = mlp(4, 8, 3)
    averaged = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    step, look, found = compile(update_of(net, adam(net))), compile(lambda x: averaged(x)), []
    for x, y in batches():
        step(x, y)
        averaged.update_parameters(net)
        found.append(look(x).detach())
    return values(net, averaged) + found


@case
def averaged_with_batch_norm(compile):
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    optimizer, averaged = sgd(net), AveragedModel(net)
    schedule, step = SWALR(optimizer, swa_lr=0.05, anneal_epochs=3), compile(update_of(net, optimizer))
    for i, (x, y) in enumerate(batches()):
        step(x, y)
        if i > 4:
            averaged.update_parameters(net)
            schedule.step()
    update_bn([x for x, _ in batches()], averaged)
    return values(net, averaged) + [compile(averaged.eval())(batches()[0][0]).detach()]


@case
def averaged_by_hand_in_a_dict(compile):
    net = mlp(4, 8, 3)
    optimizer, shadow = adam(net), {name: p.detach().clone() for name, p in net.named_parameters()}

    def update(x, y):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for name, p in net.named_parameters():
            shadow[name].mul_(0.9).add_(p.data, alpha=0.1)
        return loss

    return trained(net, compile(update)) + list(shadow.values())


@case
def averaged_by_state_dicts(compile):
    net = mlp(4, 8, 3)
    optimizer, averaged = adam(net), copy.deepcopy(net)

    def update(x, y):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for name, value in averaged.state_dict().items():
                value.mul_(0.9).add_(net.state_dict()[name], alpha=0.1)
        return loss

    return trained(net, compile(update)) + values(averaged)


@case
def a_running_sum(compile):
    net, total = mlp(4, 8, 3), torch.zeros(())
    optimizer = sgd(net)

    def update(x, y):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total.add_(loss.detach())
        return loss

    return trained(net, compile(update)) + [total]


# ---- rates
@case
def warmed_up_by_hand(compile):
    net = mlp(4, 8, 3)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    step = compile(update_of(net, optimizer))
    for i, (x, y) in enumerate(batches()):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min(1.0, (i + 1) / 5)
        step(x, y)
    assert getattr(step, "plans", 1) == 1
    return values(net)


@case
def the_rate_is_returned(compile):
    net = mlp(4, 8, 3)
    optimizer, found = adam(net), []

    def update(x, y):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss, "lr": optimizer.param_groups[0]["lr"]}

    update = compile(update)
    for i, (x, y) in enumerate(batches()):
        optimizer.param_groups[0]["lr"] = 0.01 / (1 + i // 4)
        found.append(torch.tensor(update(x, y)["lr"]))
    return values(net) + found


SCHEDULES = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: min(1.0, epoch / 5)),  # from a rate of 0
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 6),  # to a rate of 0
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1, factor=0.3),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.LinearLR(o, 0.1, total_iters=4), lr_scheduler.ExponentialLR(o, 0.9)], [4]),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
}


def scheduled(make):
    def program(compile):
        net = mlp(4, 8, 3)
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        schedule, step, rates = make(optimizer), compile(update_of(net, optimizer)), []
        for x, y in batches():
            loss = step(x, y).item()
            schedule.step(*[loss] * isinstance(schedule, lr_scheduler.ReduceLROnPlateau))
            rates.append(torch.tensor(optimizer.param_groups[0]["lr"]))
        assert getattr(step, "plans", 1) == 1
        return values(net) + rates

    return program


CASES |= {name: scheduled(make) for name, make in SCHEDULES.items()}


# ---- mixed precision that is switched off
@case
def a_scaler_without_a_gpu(compile):
    net = mlp(4, 8, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer, scaler, context = adam(net), torch.amp.GradScaler("cuda"), torch.autocast("cuda")

    def update(x, y):
        optimizer.zero_grad()
        with context:
            loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    return trained(net, compile(update))


# ---- accumulation
@case
def accumulated_by_a_counter_outside(compile):
    net = mlp(4, 8, 3)
    optimizer = adam(net)

    def micro(x, y):
        loss = F.cross_entropy(net(x), y) / 4
        loss.backward()
        return loss

    micro = compile(micro)
    for i, (x, y) in enumerate(batches()):
        micro(x, y)
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return values(net)


@case
def accumulated_by_the_number_of_the_batch(compile):
    net = mlp(4, 8, 3)
    optimizer = adam(net)

    def micro(i, x, y):
        loss = F.cross_entropy(net(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    micro = compile(micro)
    for i, (x, y) in enumerate(batches(8)):
        micro(i, x, y)
    return values(net)


# ---- hooks
@case
def gradients_clipped_by_hooks(compile):
    net = mlp(4, 8, 3)
    for p in net.parameters():
        p.register_hook(lambda g: g.clamp(-0.01, 0.01))
    return trained(net, compile(update_of(net, sgd(net, 1.0))))


@case
def hooks_that_come_and_go(compile):
    net = mlp(4, 8, 3)
    step, handles = compile(update_of(net, sgd(net, 1.0))), []
    for i, (x, y) in enumerate(batches(12)):
        if i == 4:
            handles = [p.register_hook(lambda g: g.clamp(-0.01, 0.01)) for p in net.parameters()]
            handles.append(net[1].register_forward_hook(lambda module, args, output: output * 0.5))
        if i == 8:
            for handle in handles:
                handle.remove()
        step(x, y)
    return values(net)


@case
def steps_in_backward(compile):
    net = mlp(4, 8, 3)
    optimizers = {p: torch.optim.SGD([p], 0.1) for p in net.parameters()}

    def step(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(step)

    def update(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss

    return trained(net, compile(update))


@case
def clamped_by_a_hook_of_the_optimizer(compile):
    net = mlp(4, 8, 3)
    optimizer = sgd(net)

    def clamp(optimizer, args, kwargs):
        with torch.no_grad():
            for p in net.parameters():
                p.clamp_(-0.3, 0.3)

    optimizer.register_step_post_hook(clamp)
    return trained(net, compile(update_of(net, optimizer)))


# ---- flags
@case
def train_and_eval_are_called_inside(compile):
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    optimizer, found = sgd(net), []

    def step(x, y):
        net.train()
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def evaluate(x):
        net.eval()
        with torch.no_grad():
            return net(x)

    step, evaluate = compile(step), compile(evaluate)
    for i, (x, y) in enumerate(batches()):
        step(x, y)
        found.append(torch.tensor(net.training))
        for _ in range(1 + i % 3):
            found += [evaluate(x), torch.tensor(net.training)]
        if i % 4 == 1:
            net.train()
            found += [evaluate(x), torch.tensor(net.training), net(x).detach()]
    return values(net) + found


@case
def critics_are_frozen_inside(compile):
    """As in OpenAI's Spinning Up."""
    q, policy = mlp(4, 8, 3), mlp(4, 8, 4)
    of_q, of_policy, found = adam(q), adam(policy), []

    def update(x, y):
        of_q.zero_grad()
        loss = F.cross_entropy(q(x), y)
        loss.backward()
        of_q.step()
        for p in q.parameters():
            p.requires_grad = False
        of_policy.zero_grad()
        gain = q(policy(x)).mean()
        gain.backward()
        of_policy.step()
        for p in q.parameters():
            p.requires_grad = True
        return loss, gain

    update = compile(update)
    for x, y in batches():
        found += [t.detach() for t in update(x, y)]
    return values(q, policy) + found


@case
def a_layer_is_frozen_inside_for_good(compile):
    net = mlp(4, 8, 3)
    optimizer, found = sgd(net), []

    def update(x, y, freeze):
        net[0].requires_grad_(not freeze)
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    update = compile(update)
    for i, (x, y) in enumerate(batches(12)):
        update(x, y, i % 4 > 1)
        found.append(torch.tensor([p.requires_grad for p in net.parameters()]))
    return values(net) + found


# ---- what else is done round an update
@case
def stopped_early(compile):
    net = mlp(4, 8, 3)
    optimizer = adam(net, 0.3)
    step, evaluate, best, kept, log = compile(update_of(net, optimizer)), compile(lambda x, y: F.cross_entropy(net(x), y)), 1e9, None, []
    for x, y in batches():
        step(x, y)
        with torch.no_grad():
            log.append(evaluate(*batches()[0]).item())
        if log[-1] < best:
            best, kept = log[-1], copy.deepcopy((net.state_dict(), optimizer.state_dict()))
    net.load_state_dict(kept[0])
    optimizer.load_state_dict(kept[1])
    return trained(net, step) + [torch.tensor(log)]


@case
def heads_by_name(compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.heads = mlp(4, 8), nn.ModuleDict({"a": nn.Linear(8, 3), "b": nn.Linear(8, 3)})

        def forward(self, x, head):
            return self.heads[head](self.body(x))

    net = Net()
    optimizer = adam(net)

    def update(x, y, head):
        loss = F.cross_entropy(net(x, head), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    update = compile(update)
    for i, (x, y) in enumerate(batches()):
        update(x, y, "ab"[i % 2])
        update(x, y, head="ab"[i % 3 == 0])
    return values(net)


@case
def called_with_other_parameters(compile):
    net = mlp(4, 8, 3)
    optimizer = adam(net)

    def update(x, y):
        near = {name: p + 0.01 * p.detach().sign() for name, p in net.named_parameters()}
        loss = F.cross_entropy(torch.func.functional_call(net, near, (x,)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return trained(net, compile(update))


@case
def tied_after_some_steps(compile):
    net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False), nn.Linear(4, 3))
    step = compile(update_of(net, sgd(net)))
    for i, (x, y) in enumerate(batches()):
        if i == 4:
            net[2].weight = net[0].weight
        step(x, y)
    return values(net)


@case
def optimizers_over_generators(compile):
    net = mlp(4, 8, 3)
    net[0].requires_grad_(False)
    optimizers = (torch.optim.Adam(p for p in net.parameters() if p.requires_grad), torch.optim.SGD(filter(lambda p: p.requires_grad, net.parameters()), 0.1),
                  torch.optim.AdamW(itertools.chain(net[0].parameters(), net[2].parameters()), 0.1), torch.optim.Adam(net.named_parameters(), 0.01))
    steps = [compile(update_of(net, o)) for o in optimizers]
    for x, y in batches(5):
        for step in steps:
            step(x, y)
    return values(net)


@case
def loaded_by_workers(compile):
    x, y = (torch.cat(part) for part in zip(*batches()))
    net, found = mlp(4, 8, 3), []
    step = compile(update_of(net, adam(net)))
    step(x, y)
    for a, b in DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(0)):
        found.append(step(a, b).detach())
    return values(net) + found


@case
def trained_in_a_forked_child(compile):
    net = mlp(4, 64, 3)
    step = compile(update_of(net, adam(net)))
    step(*batches()[0])
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=lambda: queue.put([t.numpy() for t in trained(net, step)]))
    child.start()
    found = queue.get(timeout=60)
    child.join(60)
    return values(net) + [torch.from_numpy(a) for a in found]


@case
def in_inference_mode(compile):
    net, found = mlp(4, 8, 3), []
    act = compile(lambda x: net(x).softmax(1))
    for i, (x, _) in enumerate(batches()):
        with torch.inference_mode(i % 2 == 0):
            found.append(act(x + 0))
    decorated = compile(torch.inference_mode()(lambda x: net(x).argmax(1)))
    return [t.detach().clone() for t in found] + [decorated(x).clone() for x, _ in batches()] + trained(net, compile(update_of(net, sgd(net))))


@case
def under_anomaly_detection(compile):
    net = mlp(4, 8, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.set_detect_anomaly(True):
            return trained(net, compile(update_of(net, sgd(net))))


def seed():
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_torch_does(name):
    seed()
    ours = CASES[name](wr.torch.compile)
    seed()
    theirs = CASES[name](lambda fn: fn)
    assert len(ours) == len(theirs)
    for i, (a, b) in enumerate(zip(ours, theirs)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=lambda m, i=i: f"value {i}: {m}")
