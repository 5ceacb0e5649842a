"""Updates of agents that a stranger would try, beside those of models.py: each is compiled as it is."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, mlp
from more_models import adam, minimised
from torch.distributions import Beta, Categorical, Independent, Normal, kl_divergence


def transitions(b):
    return torch.randn(b, 4), torch.randint(0, 3, (b,)), torch.randn(b), torch.randn(b, 4), (torch.rand(b) < 0.2).float()


@case
def quantile_dqn():
    """QR-DQN: quantiles of returns by a Huber loss that leans to one side."""
    middle = (torch.arange(7) + 0.5) / 7

    def loss_of(net, o, a, r, o2, d):
        with torch.no_grad():
            after = net.target(o2).view(-1, 3, 7)
            best = after.mean(2).argmax(1)
            wanted = r[:, None] + 0.99 * (1 - d)[:, None] * after[torch.arange(len(o)), best]
        now = net.q(o).view(-1, 3, 7).gather(1, a[:, None, None].expand(-1, 1, 7)).squeeze(1)
        apart = wanted[:, None, :] - now[:, :, None]
        huber = torch.where(apart.abs() <= 1, 0.5 * apart ** 2, apart.abs() - 0.5)
        return ((middle[None, :, None] - (apart.detach() < 0).float()).abs() * huber).sum(1).mean()

    q = mlp(4, 16, 21, act=nn.ReLU)
    return Fn(None, q=q, target=copy.deepcopy(q).requires_grad_(False)), minimised(loss_of, lambda m: adam(m.q)), transitions


@case
def implicit_quantiles():
    """IQN: quantiles drawn outside, embedded by cosines."""

    def values(net, o, tau):
        waves = torch.cos(torch.pi * torch.arange(1, 9) * tau[..., None])
        return net.head(net.body(o)[:, None] * F.relu(net.of_tau(waves)))

    def loss_of(net, o, a, r, o2, d, tau, tau2):
        with torch.no_grad():
            best = values(net, o2, tau2).mean(1).argmax(1)
            wanted = r[:, None] + 0.99 * (1 - d[:, None]) * values(net, o2, tau2).gather(2, best[:, None, None].expand(-1, 5, 1)).squeeze(2)
        now = values(net, o, tau).gather(2, a[:, None, None].expand(-1, 5, 1)).squeeze(2)
        apart = wanted[:, None] - now[:, :, None]
        return ((tau[..., None] - (apart.detach() < 0).float()).abs() * F.huber_loss(apart, torch.zeros_like(apart), reduction="none")).mean()

    net = Fn(None, body=nn.Sequential(nn.Linear(4, 8), nn.ReLU()), of_tau=nn.Linear(8, 8), head=nn.Linear(8, 3))
    return net, minimised(loss_of), lambda b: (*transitions(b), torch.rand(b, 5), torch.rand(b, 5))


@case
def actor_critic_with_entropy():
    """A2C over several moments: returns by a loop, Categorical, two learning rates."""

    def optimizer(net):
        return torch.optim.RMSprop([{"params": net.actor.parameters(), "lr": 7e-4}, {"params": net.critic.parameters(), "lr": 3e-3}], eps=1e-5, alpha=0.99)

    def loss_of(net, o, a, r, d, last):
        value = net.critic(o).squeeze(-1)
        with torch.no_grad():
            running, returns = net.critic(last).squeeze(-1), []
            for t in reversed(range(o.shape[1])):
                running = r[:, t] + 0.99 * (1 - d[:, t]) * running
                returns.insert(0, running)
            returns = torch.stack(returns, 1)
        choice = Categorical(logits=net.actor(o))
        advantage = returns - value
        return -(choice.log_prob(a) * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean() - 0.01 * choice.entropy().mean()

    net = Fn(None, actor=mlp(4, 8, 3), critic=mlp(4, 8, 1))
    return net, minimised(loss_of, optimizer), lambda b: (torch.randn(b, 5, 4), torch.randint(0, 3, (b, 5)), torch.randn(b, 5),
                                                          (torch.rand(b, 5) < 0.1).float(), torch.randn(b, 4))


@case
def lambda_returns_and_traces():
    """TD(lambda) and V-trace on the same rollout."""

    def loss_of(net, o, a, r, old):
        value = net.critic(o).squeeze(-1)
        with torch.no_grad():
            goal, goals = value[:, -1], []
            for t in reversed(range(o.shape[1] - 1)):
                goal = r[:, t] + 0.99 * (0.1 * value[:, t + 1] + 0.9 * goal)
                goals.append(goal)
            goals = torch.stack(goals[::-1], 1)
        log_p = net.actor(o[:, :-1]).log_softmax(-1).gather(-1, a[:, :-1, None]).squeeze(-1)
        ratio = (log_p - old[:, :-1]).exp().detach()
        rho, c = ratio.clamp(max=1.0), ratio.clamp(max=1.0)
        delta = rho * (r[:, :-1] + 0.99 * value[:, 1:] - value[:, :-1]).detach()
        carried, corrections = torch.zeros_like(delta[:, 0]), []
        for t in range(delta.shape[1] - 1, -1, -1):
            carried = delta[:, t] + 0.99 * c[:, t] * carried
            corrections.append(carried)
        traced = torch.stack(corrections[::-1], 1)
        return F.mse_loss(value[:, :-1], goals) - (rho * log_p * traced).mean()

    return (Fn(None, actor=mlp(4, 8, 3), critic=mlp(4, 8, 1)), minimised(loss_of),
            lambda b: (torch.randn(b, 6, 4), torch.randint(0, 3, (b, 6)), torch.randn(b, 6), -torch.rand(b, 6) - 0.5))


@case
def behaviour_cloning():
    def loss_of(net, o, a):
        mean, log_std = net(o).chunk(2, -1)
        policy = Independent(Normal(mean, log_std.clamp(-5, 2).exp()), 1)
        return -policy.log_prob(a).mean() + 1e-3 * kl_divergence(policy, Independent(Normal(torch.zeros_like(mean), torch.ones_like(mean)), 1)).mean()

    return mlp(4, 16, 4), minimised(loss_of), lambda b: (torch.randn(b, 4), torch.randn(b, 2))


@case
def beta_policy():
    """PPO with Beta's distribution: gamma functions in probability and entropy."""

    def loss_of(net, o, a, old, advantage):
        alpha, beta = (F.softplus(net(o)) + 1).chunk(2, -1)
        policy = Beta(alpha, beta)
        ratio = (policy.log_prob(a).sum(-1) - old).exp()
        return -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean() - 0.01 * policy.entropy().sum(-1).mean()

    return mlp(4, 16, 4), minimised(loss_of), lambda b: (torch.randn(b, 4), torch.rand(b, 2) * 0.9 + 0.05, torch.randn(b) * 0.1, torch.randn(b))


class Noisy(nn.Linear):
    """Factorised noise, given as arguments."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.weight_noise, self.bias_noise = (nn.Parameter(torch.full_like(p, 0.1)) for p in (self.weight, self.bias))

    def forward(self, x, inside, outside):
        f = lambda t: t.sign() * t.abs().sqrt()  # noqa: E731
        return F.linear(x, self.weight + self.weight_noise * torch.outer(f(outside), f(inside)), self.bias + self.bias_noise * f(outside))


@case
def noisy_nets_with_priorities():
    def loss_of(net, o, a, r, o2, d, weight, e4, e8, e3):
        q = lambda x: net.b(F.relu(net.a(x, e4, e8)), e8, e3)  # noqa: E731
        with torch.no_grad():
            wanted = r + 0.97 * (1 - d) * q(o2).max(1)[0]
        error = q(o)[torch.arange(len(o)), a] - wanted
        return (weight * error.pow(2)).mean()

    return (Fn(None, a=Noisy(4, 8), b=Noisy(8, 3)), minimised(loss_of),
            lambda b: (*transitions(b), torch.rand(b), torch.randn(4), torch.randn(8), torch.randn(3)))


@case
def ddpg_with_decay():
    """Two optimizers and two moving averages in one function; a critic with decay."""

    def make(net):
        of_actor = torch.optim.Adam(net.actor.parameters(), lr=1e-4)
        of_critic = torch.optim.Adam(net.critic.parameters(), lr=1e-3, weight_decay=1e-2)

        def update(o, a, r, o2, d):
            with torch.no_grad():
                wanted = r + 0.99 * (1 - d) * net.old_critic(torch.cat([o2, torch.tanh(net.old_actor(o2))], 1)).squeeze(1)
            loss = F.mse_loss(net.critic(torch.cat([o, a], 1)).squeeze(1), wanted)
            of_critic.zero_grad()
            loss.backward()
            of_critic.step()
            policy = -net.critic(torch.cat([o, torch.tanh(net.actor(o))], 1)).mean()
            of_actor.zero_grad()
            policy.backward()
            of_actor.step()
            with torch.no_grad():
                for new, old in ((net.actor, net.old_actor), (net.critic, net.old_critic)):
                    for p, t in zip(new.parameters(), old.parameters()):
                        t.mul_(0.995).add_(p, alpha=0.005)
            return loss, policy

        return update

    actor, critic = mlp(4, 16, 2, act=nn.ReLU), mlp(6, 16, 1, act=nn.ReLU)
    net = Fn(None, actor=actor, critic=critic, old_actor=copy.deepcopy(actor), old_critic=copy.deepcopy(critic))
    return net, make, lambda b: (torch.randn(b, 4), torch.randn(b, 2), torch.randn(b), torch.randn(b, 4), (torch.rand(b) < 0.2).float())


@case
def conservative_and_implicit():
    """CQL's penalty, IQL's expectile and advantage-weighted imitation: three losses, one optimizer."""

    def loss_of(net, o, a, r, o2, d):
        q, v = net.q(o), net.v(o).squeeze(1)
        chosen = q.gather(1, a[:, None]).squeeze(1)
        short = chosen.detach() - v
        expectile = ((0.7 - (short < 0).float()).abs() * short.pow(2)).mean()
        with torch.no_grad():
            wanted = r + 0.99 * (1 - d) * net.v(o2).squeeze(1)
            weight = (3 * (chosen - v)).exp().clamp(max=100.0)
        imitation = (weight * F.cross_entropy(net.pi(o), a, reduction="none")).mean()
        return F.mse_loss(chosen, wanted) + 0.1 * (q.logsumexp(1) - chosen).mean() + expectile + imitation

    return Fn(None, q=mlp(4, 16, 3), v=mlp(4, 16, 1), pi=mlp(4, 16, 3)), minimised(loss_of), transitions


@case
def world_model():
    """A recurrent state-space model: straight-through categories, KL with free nats balanced both ways."""

    def loss_of(net, o, a, u):
        h, z, loss = torch.zeros(len(o), 8), torch.zeros(len(o), 6), 0.0
        for t in range(o.shape[1]):
            h = net.cell(torch.cat([z, a[:, t]], 1), h)
            prior, after = net.prior(h).view(-1, 2, 3), net.posterior(torch.cat([h, o[:, t]], 1)).view(-1, 2, 3)
            p = after.softmax(-1)
            pick = F.one_hot((after - torch.log(-torch.log(u[:, t]))).argmax(-1), 3)
            z = (pick + p - p.detach()).flatten(1)
            q, s = Categorical(logits=after), Categorical(logits=prior)
            free = lambda t: t.sum(1).mean().clamp(min=0.05)  # noqa: E731
            balance = 0.8 * free(kl_divergence(Categorical(logits=after.detach()), s)) + 0.2 * free(kl_divergence(q, Categorical(logits=prior.detach())))
            loss = loss + F.mse_loss(net.decode(torch.cat([h, z], 1)), o[:, t]) + balance
        return loss

    net = Fn(None, cell=nn.GRUCell(8, 8), prior=nn.Linear(8, 6), posterior=nn.Linear(12, 6), decode=mlp(14, 8, 4, act=nn.ELU))
    return net, minimised(loss_of), lambda b: (torch.randn(b, 3, 4), torch.randn(b, 3, 2), torch.rand(b, 3, 2, 3) * 0.98 + 0.01)


@case
def curiosity():
    """RND and ICM: a net that nobody trains, an inverse model, running statistics in buffers."""

    def loss_of(net, o, a, o2):
        error = (net.guess(o2) - net.fixed(o2).detach()).pow(2).mean(1)
        with torch.no_grad():
            net.mean.mul_(0.99).add_(0.01 * error.mean())
            net.scale.mul_(0.99).add_(0.01 * error.var())
        reward = (error - net.mean) / (net.scale.sqrt() + 1e-8)
        f, f2 = net.features(o), net.features(o2)
        inverse = F.cross_entropy(net.inverse(torch.cat([f, f2], 1)), a)
        forward = F.mse_loss(net.forward_model(torch.cat([f, F.one_hot(a, 3).float()], 1)), f2.detach())
        return error.mean() + 0.8 * inverse + 0.2 * forward + 0.0 * reward.mean()

    net = Fn(None, guess=mlp(4, 8, 4), fixed=mlp(4, 8, 4).requires_grad_(False), features=mlp(4, 8, 5), inverse=nn.Linear(10, 3), forward_model=nn.Linear(8, 5))
    net.register_buffer("mean", torch.zeros(()))
    net.register_buffer("scale", torch.ones(()))
    make = minimised(loss_of, lambda m: torch.optim.Adam([p for p in m.parameters() if p.requires_grad], lr=1e-3))
    return net, make, lambda b: (torch.randn(b, 4), torch.randint(0, 3, (b,)), torch.randn(b, 4))
