"""Ways of training, and nets for odd things, as people have them: more cases for test_models.py."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.prune as prune
from models import Fn, case, labels, mlp, sgd, trained
from models_newer import minimised
from torch.nn.utils import parameters_to_vector


def examples(b):
    return torch.randn(b, 4), labels(b)


# ---- optimizers by hand and round others -----------------------------------------------------------------------------
@case
def gradient_descent_by_hand():
    """The tutorial's: parameters under no_grad, gradients cleared in place."""

    def make(net):
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= p.grad * 0.05
                net.zero_grad()
            return loss

        return step

    return mlp(4, 8, 3), make, examples


@case
def gradients_changed_before_the_step():
    """Centralised, clipped by value and by each unit's size, scaled; L1 added to what decays."""

    def unitwise_norm(x):
        return x.norm(p=2) if x.ndim <= 1 else x.norm(p=2, dim=tuple(range(1, x.ndim)), keepdim=True)

    def make(net):
        opt = torch.optim.SGD([{"params": [p for n, p in net.named_parameters() if n.endswith("weight")], "weight_decay": 1e-3, "nesterov": True},
                               {"params": [p for n, p in net.named_parameters() if n.endswith("bias")], "lr": 0.1}], lr=0.05, momentum=0.9, dampening=0)

        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y) + 1e-3 * sum(p.abs().sum() for p in net.parameters() if p.dim() > 1)
            loss.backward()
            nn.utils.clip_grad_value_(net.parameters(), clip_value=0.1)
            for p in net.parameters():
                if p.grad.dim() > 1:
                    p.grad.data.add_(-p.grad.data.mean(dim=tuple(range(1, p.grad.dim())), keepdim=True))
                limit = unitwise_norm(p.detach()).clamp(min=1e-3) * 0.5
                grad_norm = unitwise_norm(p.grad)
                p.grad.copy_(torch.where(grad_norm < limit, p.grad, p.grad * (limit / grad_norm.clamp(min=1e-6))))
            total = torch.norm(torch.stack([torch.norm(p.grad.detach(), 2.0) for p in net.parameters()]), 2.0)
            opt.step()
            return loss, total

        return step

    return mlp(4, 8, 3), make, examples


@case
def wasserstein_by_clamped_weights():
    def make(net):
        opt_c, opt_g = (torch.optim.RMSprop(m.parameters(), lr=5e-3, eps=1e-2) for m in (net.critic, net.generator))

        def step(real, z):
            for _ in range(2):
                opt_c.zero_grad()
                loss_c = -torch.mean(net.critic(real)) + torch.mean(net.critic(net.generator(z).detach()))
                loss_c.backward()
                opt_c.step()
                for p in net.critic.parameters():
                    p.data.clamp_(-0.05, 0.05)
            opt_g.zero_grad()
            loss_g = -torch.mean(net.critic(net.generator(z)))
            loss_g.backward()
            opt_g.step()
            return loss_c, loss_g

        return step

    return Fn(None, critic=mlp(3, 8, 1, act=nn.ReLU), generator=mlp(2, 8, 3, act=nn.ReLU)), make, lambda b: (torch.randn(b, 3), torch.randn(b, 2))


@case
def looking_ahead_and_averaging():
    """Lookahead's slow weights by a counter in a buffer, an average that warms up by a count, both on foreach ops."""

    def make(net):
        fast, slow, ema = (list(m.parameters()) for m in (net.fast, net.slow, net.ema))
        opt = torch.optim.AdamW(fast, lr=5e-3, eps=1e-3)

        def step(x, y):
            loss = F.cross_entropy(net.fast(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                net.calls += 1
                due = (net.calls % 3 == 0).float()
                for f, s in zip(fast, slow):
                    s.add_(0.5 * due * (f - s))
                    f.copy_(torch.where(due > 0, s, f))
                decay = torch.minimum(torch.tensor(0.99), (1.0 + net.calls) / (10.0 + net.calls))
                torch._foreach_mul_(ema, decay)
                torch._foreach_add_(ema, torch._foreach_mul(fast, 1 - decay))
            return loss

        return step

    fast = mlp(4, 8, 3)
    net = Fn(None, fast=fast, slow=copy.deepcopy(fast), ema=copy.deepcopy(fast))
    net.register_buffer("calls", torch.zeros((), dtype=torch.long))
    return net, make, examples


@case
def gradients_of_tasks_projected():
    """PCGrad: gradients that disagree are projected; then given to the optimizer."""

    def make(net):
        shared, opt = list(net.body.parameters()), torch.optim.Adam(net.parameters(), lr=5e-3, eps=1e-3)

        def step(x, y1, y2):
            h = net.body(x)
            losses = [F.mse_loss(net.a(h), y1), F.mse_loss(net.b(h), y2)]
            grads = [torch.autograd.grad(loss, shared, retain_graph=True) for loss in losses]
            flat = [torch.cat([g.flatten() for g in gs]) for gs in grads]
            dot = flat[0].dot(flat[1])
            conflict = torch.clamp(dot, max=0)
            merged = flat[0] - conflict * flat[1] / flat[1].norm() ** 2 + flat[1] - conflict * flat[0] / flat[0].norm().pow(2)
            opt.zero_grad()
            sum(losses).backward()
            place = 0
            for p in shared:
                p.grad = merged[place:place + p.numel()].view_as(p).clone()
                place += p.numel()
            opt.step()
            return losses

        return step

    return Fn(None, body=nn.Sequential(nn.Linear(4, 8), nn.Tanh()), a=nn.Linear(8, 1), b=nn.Linear(8, 1)), make, lambda b: (torch.randn(b, 4), torch.randn(b, 1), torch.randn(b, 1))


@case
def sharpness_by_two_passes():
    """SAM as davda54 has it, written out: up along the gradient, gradients there, back, and the step."""

    def make(net):
        base = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        params = list(net.parameters())

        def step(x, y):
            loss = nn.CrossEntropyLoss(label_smoothing=0.1)(net(x), y)
            loss.backward()
            with torch.no_grad():
                grad_norm = torch.norm(torch.stack([((torch.abs(p) if i % 2 else 1.0) * p.grad).norm(p=2) for i, p in enumerate(params)]), p=2)
                scale, moved = 0.05 / (grad_norm + 1e-12), []
                for p in params:
                    e_w = p.grad * scale.to(p)
                    p.add_(e_w)
                    moved.append(e_w)
            net.zero_grad()
            F.cross_entropy(net(x), y).backward()
            with torch.no_grad():
                for p, e_w in zip(params, moved):
                    p.sub_(e_w)
            base.step()
            base.zero_grad()
            return loss

        return step

    return mlp(4, 8, 3), make, examples


@case
def decoupled_nadam():
    return trained(mlp(4, 8, 3), examples, optimizer=lambda n: torch.optim.NAdam(n.parameters(), lr=5e-3, eps=1e-3, decoupled_weight_decay=True, weight_decay=0.01))


# ---- gradients of gradients ------------------------------------------------------------------------------------------
@case
def maml_by_functional_calls():
    """Inner steps on a dict of parameters, two tasks, rates that are learned (Meta-SGD)."""

    def make(net):
        opt = torch.optim.Adam(net.parameters(), lr=2e-3, eps=1e-3)

        def step(xs, ys, xq, yq):
            outer = 0.0
            for task in range(xs.shape[0]):
                params = dict(net.model.named_parameters())
                for _ in range(2):
                    loss = F.mse_loss(torch.func.functional_call(net.model, params, (xs[task],)), ys[task])
                    grads = torch.autograd.grad(loss, params.values(), create_graph=True)
                    params = {n: p - rate * g for (n, p), rate, g in zip(params.items(), net.rates, grads)}
                outer = outer + F.mse_loss(torch.func.functional_call(net.model, params, (xq[task],)), yq[task])
            opt.zero_grad()
            outer.backward()
            opt.step()
            return outer

        return step

    model = mlp(1, 8, 1)
    net = Fn(None, model=model, rates=nn.ParameterList([nn.Parameter(torch.full_like(p, 0.05)) for p in model.parameters()]))
    return net, make, lambda b: tuple(torch.randn(2, b, 1) for _ in range(4))


@case
def hamiltonian_net():
    """The field is the gradient of a scalar net, turned; Lyapunov's condition as a penalty; RK4 over some steps."""

    def field(net, x):
        x = x if x.requires_grad else x.detach().requires_grad_(True)
        with torch.enable_grad():
            energy = net(x).sum()
            dh = torch.autograd.grad(energy, x, create_graph=True)[0]
        dq, dp = dh.chunk(2, -1)
        return torch.cat([dp, -dq], -1)

    def loss(net, x, dx):
        state, h = x, 0.1
        for _ in range(2):
            k1 = field(net, state)
            k2 = field(net, state + h / 2 * k1)
            k3 = field(net, state + h / 2 * k2)
            k4 = field(net, state + h * k3)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return F.mse_loss(field(net, x), dx) + F.mse_loss(state, x + 0.2 * dx)

    return minimised(mlp(4, 8, 1), loss, lambda b: (torch.randn(b, 4), torch.randn(b, 4)))


@case
def weights_of_examples_learned():
    """Learning to reweight: a virtual step, the gradient of clean data by the weights, then the real one."""

    def make(net):
        opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

        def step(x, y, x_clean, y_clean):
            eps = torch.zeros(x.size(0), requires_grad=True)
            params = dict(net.named_parameters())
            cost = F.cross_entropy(torch.func.functional_call(net, params, x), y, reduction="none")
            grads = torch.autograd.grad((cost * eps).sum(), tuple(params.values()), create_graph=True)
            virtual = {k: p - 0.1 * g for (k, p), g in zip(params.items(), grads)}
            clean = F.cross_entropy(torch.func.functional_call(net, virtual, x_clean), y_clean)
            (grad_eps,) = torch.autograd.grad(clean, eps, only_inputs=True)
            w = torch.clamp(-grad_eps, min=0)
            total = torch.sum(w)
            w = torch.where(total != 0, w / total.clamp(min=1e-12), w).detach()
            loss = (F.cross_entropy(net(x), y, reduction="none") * w).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return step

    return mlp(4, 8, 3), make, lambda b: (*examples(b), *examples(b))


# ---- not to forget ---------------------------------------------------------------------------------------------------
@case
def elastic_weights():
    """EWC: Fisher's diagonal and old parameters in buffers, found by their names, and a temperature for the old net's answers."""

    def make(net):
        opt = sgd(net.model)

        def penalty():
            loss = 0
            for n, p in net.model.named_parameters():
                n = n.replace(".", "_")
                fisher, old = getattr(net, f"fisher_{n}"), getattr(net, f"old_{n}")
                loss += (fisher * (p - old) ** 2).sum()
            return loss

        def step(x, y):
            out = net.model(x)
            with torch.no_grad():
                soft = F.softmax(net.before(x) / 2.0, dim=1)
            loss = F.cross_entropy(out, y) + 10 * penalty() + 4.0 * F.kl_div(F.log_softmax(out / 2.0, dim=1), soft, reduction="batchmean")
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return step

    model = mlp(4, 8, 3)
    net = Fn(None, model=model, before=copy.deepcopy(model))
    for n, p in model.named_parameters():
        net.register_buffer("fisher_" + n.replace(".", "_"), torch.rand_like(p))
        net.register_buffer("old_" + n.replace(".", "_"), p.detach().clone())
    return net, make, examples


@case
def pruned_and_hooked():
    """torch.nn.utils.prune's masks, features by a forward hook, a pre-hook that scales."""

    def make(net):
        prune.l1_unstructured(net.body[0], name="weight", amount=0.4)
        prune.ln_structured(net.head, name="weight", amount=0.3, n=2, dim=1)
        features = {}
        net.body[1].register_forward_hook(lambda module, args, output: features.__setitem__("hidden", output))
        net.head.register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
        opt = sgd(net)

        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss = loss + 0.01 * features["hidden"].pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return step

    net = Fn(lambda n, x: n.head(n.body(x)), body=nn.Sequential(nn.Linear(4, 8), nn.Tanh()), head=nn.Linear(8, 3))
    return net, make, examples


@case
def recomputed_layers():
    """torch.utils.checkpoint, a wrapper of nn.DataParallel, parameters as one vector."""
    from torch.utils.checkpoint import checkpoint

    def loss(net, x, y):
        h = checkpoint(net["a"], x, use_reentrant=False)
        return F.cross_entropy(net["b"](h), y) + 1e-3 * parameters_to_vector(net.parameters()).pow(2).sum()

    return minimised(nn.ModuleDict({"a": mlp(4, 8, 8), "b": nn.DataParallel(mlp(8, 3))}), loss, examples)


@case
def reptile():
    """Towards where some steps lead, by vectors of all parameters."""

    def make(net):
        inner = torch.optim.SGD(net.parameters(), lr=0.05)

        def step(x, y):
            before = parameters_to_vector(net.parameters()).detach().clone()
            for i in range(3):
                inner.zero_grad()
                loss = F.mse_loss(net(x[i]), y[i])
                loss.backward()
                inner.step()
            with torch.no_grad():
                place = 0
                for p in net.parameters():
                    old = before[place:place + p.numel()].view_as(p)
                    p.copy_(old + 0.3 * (p - old))
                    place += p.numel()
            return loss

        return step

    return mlp(2, 8, 1), make, lambda b: (torch.randn(3, b, 2), torch.randn(3, b, 1))
