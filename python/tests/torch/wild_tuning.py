"""Experts, preferences and adapters of language models: more cases for test_models.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels, sgd
from models_newer import minimised
from wild_language import MinGPT, adamw, text


# ---- routing ---------------------------------------------------------------------------------------------------------
class SwitchLayer(nn.Module):
    """One expert a token, places by running sums, a loss that balances; what has no place goes by."""

    def __init__(self, dim=6, experts=3, capacity=3):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.w1, self.w2 = nn.Parameter(torch.randn(experts, dim, 8) * 0.3), nn.Parameter(torch.randn(experts, 8, dim) * 0.3)
        self.experts, self.capacity = experts, capacity

    def forward(self, x):
        b, n, d = x.shape
        x = x.reshape(-1, d)
        probs = F.softmax(self.router(x), dim=-1)
        gate, index = probs.max(dim=-1)
        mask = F.one_hot(index, num_classes=self.experts).float()
        aux = self.experts * torch.sum(mask.mean(0) * probs.mean(0))
        position = (torch.cumsum(mask, dim=0) - 1.0) * mask
        mask = mask * torch.lt(position, self.capacity)
        place = (position * mask).sum(-1).long()
        combine = gate[:, None, None] * mask[:, :, None] * F.one_hot(place, self.capacity)[:, None, :]
        dispatch = combine.bool().to(x.dtype)
        inputs = torch.einsum("sec,sm->ecm", dispatch, x)
        hidden = torch.relu(torch.einsum("ecm,emh->ech", inputs, self.w1))
        out = torch.einsum("ech,ehm->ecm", hidden, self.w2)
        return torch.einsum("sec,ecm->sm", combine, out).view(b, n, d), aux


@case
def switch_transformer_with_capacity():
    def loss(net, x, y):
        out, aux = net(x)
        return F.mse_loss(x + out, y) + 0.01 * aux

    return minimised(SwitchLayer(), loss, lambda b: (torch.randn(b, 3, 6), torch.randn(b, 3, 6)))


class Mixtral(nn.Module):
    """Two of four experts, their weights normalised; each expert computes all and is weighed (no shapes that depend on values)."""

    def __init__(self, dim=6, n=4):
        super().__init__()
        self.gate = nn.Linear(dim, n, bias=False)
        self.experts = nn.ModuleList([nn.ModuleDict({"w1": nn.Linear(dim, 8), "w2": nn.Linear(8, dim), "w3": nn.Linear(dim, 8)}) for _ in range(n)])

    def forward(self, x):
        logits = self.gate(x)
        weights, selected = torch.topk(F.softmax(logits, dim=-1, dtype=torch.float), 2, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        weights = weights.to(x.dtype)
        out = torch.zeros_like(x)
        for i, e in enumerate(self.experts):
            share = (weights * (selected == i)).sum(-1, keepdim=True)
            out += share * e["w2"](F.silu(e["w1"](x)) * e["w3"](x))
        return out


@case
def mixtral_experts():
    return minimised(Mixtral(), lambda n, x, y: F.mse_loss(n(x), y), lambda b: (torch.randn(b, 3, 6), torch.randn(b, 3, 6)), lambda n: sgd(n, 0.1))


# ---- preferences -----------------------------------------------------------------------------------------------------
def batch_logps(logits, target, average=False):
    labels_ = target[:, 1:].clone()
    logits = logits[:, :-1, :]
    loss_mask = labels_ != -100
    labels_[labels_ == -100] = 0
    per_token = torch.gather(logits.log_softmax(-1), dim=2, index=labels_.unsqueeze(2)).squeeze(2)
    return (per_token * loss_mask).sum(-1) / (loss_mask.sum(-1) if average else 1)


@case
def direct_preference_optimisation():
    """DPO's loss beside a frozen reference, and the rewards it reports."""

    def make(net):
        optimizer = torch.optim.RMSprop(net.policy.parameters(), lr=1e-3, eps=1e-2)

        def update(chosen, rejected, chosen_labels, rejected_labels):
            both = torch.cat([chosen, rejected], 0)
            all_labels = torch.cat([chosen_labels, rejected_labels], 0)
            logps = batch_logps(net.policy(both)[0], all_labels)
            with torch.no_grad():
                reference = batch_logps(net.reference(both)[0], all_labels)
            n = chosen.shape[0]
            pi = logps[:n] - logps[n:]
            ref = reference[:n] - reference[n:]
            beta, smoothing = 0.1, 0.1
            logits = pi - ref
            losses = -F.logsigmoid(beta * logits) * (1 - smoothing) - F.logsigmoid(-beta * logits) * smoothing
            rewards = beta * (logps - reference).detach()
            accuracy = (rewards[:n] > rewards[n:]).float().mean()
            optimizer.zero_grad()
            losses.mean().backward()
            torch.nn.utils.clip_grad_norm_(net.policy.parameters(), 10.0)
            optimizer.step()
            return losses.mean(), accuracy

        return update

    def batch(b):
        def labelled():
            x = text(b)
            y = x.clone()
            y[:, :2] = -100
            return x, y

        (a, la), (c, lc) = labelled(), labelled()
        return a, c, la, lc

    policy, reference = MinGPT(n_layer=1), MinGPT(n_layer=1)
    reference.requires_grad_(False)
    return Fn(None, policy=policy, reference=reference), make, batch


@case
def group_relative_policy():
    """GRPO: advantages within groups of answers, clipped ratios, an estimate of the divergence."""

    def make(net):
        optimizer = adamw(net)

        def update(ids, mask, old, ref, rewards):
            group = 2 if rewards.shape[0] % 2 == 0 else 1
            grouped = rewards.view(-1, group)
            mean, std = grouped.mean(dim=1), grouped.std(dim=1, unbiased=False)
            mean, std = mean.repeat_interleave(group, dim=0), std.repeat_interleave(group, dim=0)
            advantages = (rewards - mean) / (std + 1e-4)
            logits = net(ids)[0][:, :-1]
            per_token = torch.gather(logits.log_softmax(-1), -1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
            kl = torch.exp(ref - per_token) - (ref - per_token) - 1
            coef = torch.exp(per_token - old)
            loss = -torch.min(coef * advantages.unsqueeze(1), torch.clamp(coef, 0.8, 1.2) * advantages.unsqueeze(1)) + 0.04 * kl
            loss = ((loss * mask).sum(dim=1) / mask.sum(dim=1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss, (kl * mask).sum() / mask.sum()

        return update

    return MinGPT(n_layer=1), make, lambda b: (text(b), (torch.arange(5) < torch.randint(2, 6, (b, 1))).float(), -2 - torch.rand(b, 5), -2 - torch.rand(b, 5),
                                               torch.randn(b))


@case
def weight_decomposed_adapters():
    """DoRA: the column's size apart from its direction, the frozen weight under an adapter."""

    class DoRALinear(nn.Module):
        def __init__(self, base, r=2, alpha=4):
            super().__init__()
            self.base = base
            for p in self.base.parameters():
                p.requires_grad = False
            self.scaling = alpha / r
            self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
            self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
            nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
            self.m = nn.Parameter(self.base.weight.norm(p=2, dim=1, keepdim=True))

        def forward(self, x):
            lora = self.scaling * (self.lora_B @ self.lora_A)
            numerator = self.base.weight + lora
            norm = (self.base.weight + lora.detach()).norm(p=2, dim=1, keepdim=True)
            return F.linear(x, self.m * (numerator / norm), self.base.bias)

    net = nn.Sequential(DoRALinear(nn.Linear(5, 8)), nn.ReLU(), DoRALinear(nn.Linear(8, 3)))
    return minimised(net, lambda n, x, y: F.cross_entropy(n(x), y), lambda b: (torch.randn(b, 5), labels(b)),
                     lambda n: torch.optim.AdamW(filter(lambda p: p.requires_grad, n.parameters()), lr=1e-2, eps=1e-3))
