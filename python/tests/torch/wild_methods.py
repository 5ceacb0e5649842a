"""Ways of training, and nets for odd things, as people have them: more cases for test_models.py."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.prune as prune
from models import Fn, case, labels, mlp, sgd, trained
from models_newer import minimised
from torch.nn.utils import parameters_to_vector, parametrizations, vector_to_parameters


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
def schedules_of_learning():
    """Warm up by LambdaLR, then cosine with restarts, each after its step, outside of what is compiled: see test_wild.py."""
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


# ---- odd nets --------------------------------------------------------------------------------------------------------
class RationalSplines(nn.Module):
    """Neural spline flows: widths and heights by softmax and running sums, bins by searchsorted, the logarithm of the slope."""

    def __init__(self, bins=4, bound=3.0):
        super().__init__()
        self.net, self.bins, self.bound = mlp(1, 8, 3 * bins - 1), bins, bound

    def forward(self, x):
        a, b = x[:, :1], x[:, 1:].squeeze(1)
        k, t = self.bins, self.bound
        w, h, d = torch.split(self.net(a), [k, k, k - 1], dim=1)
        w, h = 1e-3 + (1 - 1e-3 * k) * F.softmax(w, dim=-1), 1e-3 + (1 - 1e-3 * k) * F.softmax(h, dim=-1)
        d = F.pad(1e-3 + F.softplus(d), pad=(1, 1), mode="constant", value=1.0)
        cumw, cumh = (F.pad(torch.cumsum(v, dim=-1), pad=(1, 0), mode="constant", value=0.0) * 2 * t - t for v in (w, h))
        inside = (b >= -t) & (b <= t)
        at = torch.where(inside, b, torch.zeros_like(b))
        index = torch.searchsorted(cumw[:, 1:-1].detach().contiguous(), at.unsqueeze(-1).detach())
        pick = lambda v: v.gather(-1, index)[..., 0]  # noqa: E731
        width, height = pick(cumw[:, 1:] - cumw[:, :-1]), pick(cumh[:, 1:] - cumh[:, :-1])
        delta, d0, d1 = height / width, pick(d), d.gather(-1, index + 1)[..., 0]
        theta = (at - pick(cumw)) / width
        through = theta * (1 - theta)
        numerator = height * (delta * theta.pow(2) + d0 * through)
        denominator = delta + (d0 + d1 - 2 * delta) * through
        out = pick(cumh) + numerator / denominator
        slope = delta.pow(2) * (d1 * theta.pow(2) + 2 * delta * through + d0 * (1 - theta).pow(2))
        logdet = torch.log(slope) - 2 * torch.log(denominator)
        out, logdet = torch.where(inside, out, b), torch.where(inside, logdet, torch.zeros_like(b))
        return torch.stack([out, a.squeeze(1)], 1), logdet


@case
def neural_spline_flow():
    def loss(layers, x):
        total = torch.zeros(x.shape[0])
        for layer in layers:
            x, logdet = layer(x)
            total += logdet
        prior = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)) if False else torch.distributions.Independent(
            torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 1)
        return -(prior.log_prob(x) + total).mean()

    return minimised(nn.ModuleList([RationalSplines() for _ in range(2)]), loss, lambda b: (torch.randn(b, 2) * 1.5,), lambda n: sgd(n, 0.01))


@case
def slots_and_sets():
    """Slot attention with its GRU, and the Set Transformer's induced points and pools by attention."""

    def loss(net, x, noise, y):
        b, n, d = x.shape
        inputs = net["norm_in"](x)
        k, v = net["k"](inputs), net["v"](inputs)
        slots = net["mu"].weight.expand(b, 3, -1) + net["sigma"].weight.exp().expand(b, 3, -1) * noise
        for _ in range(2):
            prev = slots
            dots = torch.einsum("bid,bjd->bij", net["q"](net["norm_s"](slots)), k) * d**-0.5
            attn = dots.softmax(dim=1) + 1e-8
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = net["gru"](updates.reshape(-1, d), prev.reshape(-1, d)).reshape(b, -1, d)
            slots = slots + net["mlp"](net["norm_f"](slots))
        induced, _ = net["isab1"](net["points"].weight.unsqueeze(0).repeat(b, 1, 1), slots, slots)
        back, _ = net["isab2"](slots, induced, induced)
        pooled, _ = net["pma"](net["seed"].weight.repeat(b, 1, 1), back, back)
        return F.cross_entropy(net["head"](pooled.squeeze(1)), y)

    d = 6
    attention = {n: nn.MultiheadAttention(d, 2, batch_first=True) for n in ("isab1", "isab2", "pma")}
    net = nn.ModuleDict({**{n: nn.LayerNorm(d) for n in ("norm_in", "norm_s", "norm_f")}, **{n: nn.Linear(d, d, bias=False) for n in "qkv"}, "mu": nn.Embedding(1, d), "sigma": nn.Embedding(1, d),
                         "gru": nn.GRUCell(d, d), "mlp": mlp(d, 8, d, act=nn.ReLU), "points": nn.Embedding(2, d), "seed": nn.Embedding(1, d), "head": nn.Linear(d, 3), **attention})
    return minimised(net, loss, lambda b: (torch.randn(b, 5, d), torch.randn(b, 3, d), labels(b)))


@case
def survival_and_ranks():
    """Cox's partial likelihood by sorting and log-cumulative sums; ranks of ordered classes (CORAL); DeepHit's ranking."""

    def loss(net, x, time, event, rank):
        h = net["body"](x)
        risk = net["risk"](h).squeeze(1)
        order = torch.argsort(time, descending=True)
        risk_sorted, event_sorted = risk[order], event[order]
        cox = -((risk_sorted - torch.logcumsumexp(risk_sorted, dim=0)) * event_sorted).sum() / event_sorted.sum().clamp(min=1)
        logits = net["coral"](h) + net["biases"].weight.view(1, -1)
        levels = (rank.unsqueeze(1) > torch.arange(3)).float()
        coral = -torch.mean(torch.sum(F.logsigmoid(logits) * levels + (F.logsigmoid(logits) - logits) * (1 - levels), dim=1))
        earlier = ((time[:, None] < time[None, :]) & (event[:, None] > 0)).float()
        ranking = (earlier * torch.exp(-(risk[:, None] - risk[None, :]) / 0.5)).sum() / earlier.sum().clamp(min=1)
        return cox + coral + 0.1 * ranking

    net = nn.ModuleDict({"body": nn.Sequential(nn.Linear(4, 8), nn.SELU(), nn.BatchNorm1d(8)), "risk": nn.Linear(8, 1, bias=False), "coral": nn.Linear(8, 1, bias=False), "biases": nn.Embedding(1, 3)})
    return minimised(net, loss, lambda b: (torch.randn(b, 4), torch.rand(b) * 10, (torch.rand(b) > 0.3).float(), torch.randint(0, 4, (b,))), lambda n: sgd(n, 0.01))


@case
def bayes_by_backprop():
    """Weights drawn from their own normals with given noise, a mixture as the prior, the divergence by densities."""

    def loss(net, x, y, noise):
        sigma = torch.log1p(torch.exp(net.rho))
        w = net.mu + sigma * noise
        log_q = torch.distributions.Normal(net.mu, sigma).log_prob(w).sum()
        p1, p2 = (torch.exp(torch.distributions.Normal(0.0, s).log_prob(w)) for s in (1.0, 0.1))
        log_p = torch.log(0.5 * p1 + 0.5 * p2).sum()
        hidden = torch.tanh(F.linear(x, w[:, :4], w[:, 4]))
        mean, raw = net.out(hidden).chunk(2, 1)
        nll = F.gaussian_nll_loss(mean.squeeze(1), y, F.softplus(raw).squeeze(1) + 1e-3)
        return nll + (log_q - log_p) / 100

    net = Fn(None, mu=nn.Parameter(torch.randn(6, 5) * 0.3), rho=nn.Parameter(torch.full((6, 5), -2.0)), out=nn.Linear(6, 2))
    return minimised(net, loss, lambda b: (torch.randn(b, 4), torch.randn(b), torch.randn(6, 5)), lambda n: sgd(n, 1e-3))


@case
def sparse_codes_unrolled():
    """LISTA's shrinkage, a k-sparse layer by topk and scatter, tied and unit-norm decoders, dead units counted."""

    def make(net):
        opt = torch.optim.Adam(net.parameters(), lr=2e-3, eps=1e-3)

        def step(x):
            z = F.softshrink(net.we(x), 0.1) if False else torch.sign(net.we(x)) * F.relu(net.we(x).abs() - net.theta)
            for _ in range(2):
                c = net.we(x) + net.s(z)
                z = torch.sign(c) * F.relu(torch.abs(c) - net.theta)
            pre = F.relu((x - net.b_dec) @ net.w_enc + net.b_enc)
            top, index = torch.topk(pre, 3, dim=-1)
            acts = torch.zeros_like(pre).scatter(-1, index, top)
            out = acts @ net.w_dec + net.b_dec
            loss = F.mse_loss(F.linear(z, net.we.weight.t()), x) + 0.01 * z.abs().sum(1).mean() + (out - x).pow(2).sum(-1).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                net.w_dec.data = net.w_dec.data / net.w_dec.data.norm(dim=-1, keepdim=True)
                active = (acts.sum(0) > 0).float()
                net.idle.copy_((net.idle + 1) * (1 - active))
            return loss

        return step

    net = Fn(None, we=nn.Linear(5, 8, bias=False), s=nn.Linear(8, 8, bias=False), theta=nn.Parameter(torch.full((8,), 0.1)), w_enc=nn.Parameter(torch.randn(5, 10) * 0.3),
             w_dec=nn.Parameter(F.normalize(torch.randn(10, 5), dim=-1)), b_enc=nn.Parameter(torch.zeros(10)), b_dec=nn.Parameter(torch.zeros(5)))
    net.register_buffer("idle", torch.zeros(10))
    return net, make, lambda b: (torch.randn(b, 5),)


@case
def invertible_convolutions():
    """Glow: norms by channels, a 1x1 convolution by its triangles, coupling, squeezing by views; bits of a dimension."""

    def loss(net, x):
        b, c, h, w = x.shape
        x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).contiguous().view(b, 4 * c, h // 2, w // 2)
        x = (x + net.loc) * net.scale
        logdet = (h // 2) * (w // 2) * torch.sum(torch.log(torch.abs(net.scale)))
        lower = net.w_l * torch.tril(torch.ones(4, 4), -1) + torch.eye(4)
        weight = net.w_p @ lower @ (net.w_u * torch.triu(torch.ones(4, 4), 1) + torch.diag(net.s_sign * torch.exp(net.w_s)))
        x = F.conv2d(x, weight.unsqueeze(2).unsqueeze(3))
        logdet = logdet + (h // 2) * (w // 2) * torch.sum(net.w_s)
        a, z = x.chunk(2, 1)
        log_s, t = net.net(a).chunk(2, 1)
        s = torch.sigmoid(log_s + 2)
        z = (z + t) * s
        logdet = logdet + torch.sum(torch.log(s).view(b, -1), 1)
        out = torch.cat([a, z], 1)
        prior = -0.5 * (math.log(2 * math.pi) + out**2).flatten(1).sum(1)
        return (-(prior + logdet) / (math.log(2) * c * h * w)).mean()

    q = torch.linalg.qr(torch.randn(4, 4))[0]
    w_s = torch.rand(4) + 0.5
    net = Fn(None, loc=nn.Parameter(torch.zeros(1, 4, 1, 1)), scale=nn.Parameter(torch.ones(1, 4, 1, 1)), w_l=nn.Parameter(torch.randn(4, 4) * 0.2), w_u=nn.Parameter(torch.randn(4, 4) * 0.2),
             w_s=nn.Parameter(torch.log(w_s)), net=nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(6, 4, 3, padding=1)))
    net.register_buffer("w_p", q)
    net.register_buffer("s_sign", torch.sign(torch.randn(4)))
    return minimised(net, loss, lambda b: (torch.randn(b, 1, 6, 6),), lambda n: sgd(n, 1e-2))


@case
def self_supervised_in_four_manners():
    """SimSiam, SwAV by Sinkhorn, supervised contrast, SigLIP: on the same features."""

    def supcon(features, target, temperature=0.5):
        mask = torch.eq(target.view(-1, 1), target.view(-1, 1).T).float()
        anchor = torch.cat(torch.unbind(features, dim=1), dim=0)
        logits = torch.div(torch.matmul(anchor, anchor.T), temperature)
        logits = logits - logits.max(dim=1, keepdim=True)[0].detach()
        mask = mask.repeat(2, 2)
        logits_mask = torch.scatter(torch.ones_like(mask), 1, torch.arange(mask.shape[0]).view(-1, 1), 0)
        mask = mask * logits_mask
        log_prob = logits - torch.log((torch.exp(logits) * logits_mask).sum(1, keepdim=True))
        return -((mask * log_prob).sum(1) / mask.sum(1).clamp(min=1)).view(2, -1).mean()

    @torch.no_grad()
    def sinkhorn(scores):
        q = torch.exp(scores / 0.5).t()
        q /= torch.sum(q)
        for _ in range(3):
            q /= torch.sum(q, dim=1, keepdim=True)
            q /= q.shape[0]
            q /= torch.sum(q, dim=0, keepdim=True)
            q /= q.shape[1]
        return (q * q.shape[1]).t()

    def make(net):
        opt = sgd(net)

        def step(x1, x2, y):
            z1, z2 = net.proj(net.body(x1)), net.proj(net.body(x2))
            p1, p2 = net.pred(z1), net.pred(z2)
            simsiam = -(F.cosine_similarity(p1, z2.detach(), dim=-1).mean() + nn.CosineSimilarity(dim=1)(p2, z1.detach()).mean()) * 0.5
            n1, n2 = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
            with torch.no_grad():
                w = net.prototypes.weight.data.clone()
                net.prototypes.weight.copy_(F.normalize(w, dim=1, p=2))
            s1, s2 = net.prototypes(n1), net.prototypes(n2)
            swav = -0.5 * torch.mean(torch.sum(sinkhorn(s1) * F.log_softmax(s2 / 0.5, dim=1), dim=1) + torch.sum(sinkhorn(s2) * F.log_softmax(s1 / 0.5, dim=1), dim=1))
            logits = n1 @ n2.t() * net.t.exp() + net.b
            siglip = -F.logsigmoid((2 * torch.eye(len(logits)) - torch.ones(len(logits))) * logits).sum() / len(logits)
            loss = simsiam + swav + siglip + supcon(torch.stack([n1, n2], 1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        return step

    net = Fn(None, body=nn.Sequential(nn.Linear(4, 12), nn.BatchNorm1d(12), nn.ReLU(inplace=True)), proj=nn.Linear(12, 6), pred=mlp(6, 3, 6, act=nn.ReLU), prototypes=nn.Linear(6, 5, bias=False),
             t=nn.Parameter(torch.ones(()) * 1.0), b=nn.Parameter(torch.ones([]) * -2.0))
    return net, make, lambda b: (torch.randn(b, 4), torch.randn(b, 4), labels(b))


@case
def hard_triplets_and_prototypes():
    """Batch-hard triplets by masks, centres of classes, Prototypical nets by views; proxies by angles."""

    def loss(net, x, y, support):
        z = net["body"](x)
        square = z.pow(2).sum(1)
        dist = (square[None] - 2 * z @ z.t() + square[:, None]).clamp(min=0)
        zero = (dist == 0).float()
        dist = (1.0 - zero) * torch.sqrt(dist + zero * 1e-12)
        same = y[None] == y[:, None]
        positive = (same & ~torch.eye(len(y), dtype=torch.bool)).float()
        hardest_positive = (positive * dist).max(1, keepdim=True)[0]
        hardest_negative = (dist + dist.max(1, keepdim=True)[0] * same.float()).min(1, keepdim=True)[0]
        triplet = F.relu(hardest_positive - hardest_negative + 0.3).mean()
        centre = 0.5 * (z - net["centres"](y)).pow(2).sum(1).mean()
        prototypes = net["body"](support).view(3, 2, -1).mean(1)
        return triplet + 0.1 * centre + F.cross_entropy(-torch.cdist(z, prototypes) ** 2, y) + F.cross_entropy(10 * F.linear(F.normalize(z), F.normalize(net["proxies"].weight)), y)

    net = nn.ModuleDict({"body": mlp(4, 8, 5), "centres": nn.Embedding(3, 5), "proxies": nn.Embedding(3, 5)})
    return minimised(net, loss, lambda b: (torch.randn(b, 4), labels(b), torch.randn(6, 4)), lambda n: sgd(n, 0.01))


@case
def constrained_layers():
    """Spectral norms, a bilinear layer, weights kept positive by softplus, a monotone net, orthogonality as a penalty."""

    class Positive(nn.Module):
        def forward(self, w):
            return F.softplus(w)

    def loss(net, a, b, y):
        h = net["spectral"](torch.tanh(net["bilinear"](a, b)))
        w = net["spectral"].weight
        ortho = (w @ w.t() - torch.eye(w.shape[0])).pow(2).sum().sqrt()
        return F.mse_loss(net["monotone"](h).squeeze(-1), y) + 0.01 * ortho

    monotone = nn.Sequential(nn.Linear(6, 5), nn.Softsign(), nn.Linear(5, 1))
    for i in (0, 2):
        torch.nn.utils.parametrize.register_parametrization(monotone[i], "weight", Positive())
    net = nn.ModuleDict({"bilinear": nn.Bilinear(3, 4, 6), "spectral": parametrizations.spectral_norm(nn.Linear(6, 6)), "monotone": monotone})
    return minimised(net, loss, lambda b: (torch.randn(b, 3), torch.randn(b, 4), torch.randn(b)))


@case
def routed_by_name():
    """A ModuleDict by a Python string, layers by a list of booleans, a branch on shapes, dtypes looked at."""

    class Routed(nn.Module):
        def __init__(self):
            super().__init__()
            self.stems = nn.ModuleDict({"wide": nn.Linear(6, 8), "narrow": nn.Linear(4, 8)})
            self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
            self.use = [True, False, True]
            self.head = nn.Linear(8, 3)
            self.register_buffer("seen", torch.zeros(1, dtype=torch.long))

        def forward(self, x):
            if not torch.is_floating_point(x):
                x = x.float()
            x = self.stems["wide" if x.shape[-1] == 6 else "narrow"](x)
            for layer, used in zip(self.layers, self.use):
                if used:
                    x = x + torch.relu(layer(x))
            if self.training:
                self.seen += x.size(0)
            if x.dim() == 3:
                x = x[:, -1]
            return self.head(x)

    def loss(net, a, b, y):
        return F.cross_entropy(net(a), y) + F.cross_entropy(net(b), y)

    return minimised(Routed(), loss, lambda b: (torch.randn(b, 4), torch.randint(0, 3, (b, 2, 6)), labels(b)))


_ = vector_to_parameters  # it assigns to .data, which is refused: test_wild.py
