"""DQN, PPO, SAC and TD3 in one function each, in CleanRL's manner: plain PyTorch, whose updates and choices of actions are given
to `compile`. With the identity they are PyTorch's own; nothing else differs."""
import statistics
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Spent:
    """How long updates take, apart from everything else, and when they ended."""

    FIRST = 3  # which compile

    def __init__(self):
        self.seconds, self.ends = [], []

    @property
    def count(self):
        return len(self.ends)

    def __call__(self, update, *batch):
        start = time.perf_counter()
        result = update(*batch)
        self.ends.append(time.perf_counter())
        self.seconds.append(self.ends[-1] - start)
        return result

    def microseconds(self):
        return statistics.median(self.seconds[self.FIRST:]) * 1e6

    def updates_per_second(self):
        """With all that lies between them."""
        return (self.count - self.FIRST) / (self.ends[-1] - self.ends[self.FIRST - 1])

    def share(self):
        """Of the time since then, what updates took."""
        return sum(self.seconds[self.FIRST:]) / (self.ends[-1] - self.ends[self.FIRST - 1])


class Replay:
    def __init__(self, size, observation, action, kind):
        self.columns = [np.zeros((size, observation), np.float32), np.zeros((size, action), kind), np.zeros(size, np.float32),
                        np.zeros((size, observation), np.float32), np.zeros(size, np.float32)]
        self.size, self.count = size, 0

    def add(self, *row):
        for column, value in zip(self.columns, row):
            column[self.count % self.size] = value
        self.count += 1

    def sample(self, rng, batch):
        rows = rng.integers(0, min(self.count, self.size), batch)
        return [torch.from_numpy(c[rows]) for c in self.columns]


class Episodes:
    """An environment that begins again by itself, and the returns of its episodes."""

    def __init__(self, name, seed, returns=None):
        self.env = gym.make(name)
        self.observation, _ = self.env.reset(seed=seed)
        self.env.action_space.seed(seed)
        self.returns, self.total = [] if returns is None else returns, 0.0

    def step(self, action):
        """(observation after the action, reward, whether it ended for good); a new episode begins if it is over."""
        after, reward, terminal, truncated, _ = self.env.step(action)
        self.total += float(reward)
        self.observation = after
        if terminal or truncated:
            self.returns.append(self.total)
            self.total = 0.0
            self.observation, _ = self.env.reset()
        return after, float(reward), terminal


def mlp(*sizes, act=nn.ReLU):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def polyak(net, target, tau):
    for p, t in zip(net.parameters(), target.parameters()):
        t.data.copy_(tau * p.data + (1 - tau) * t.data)


def dqn(compile, seed, steps, spent):  # noqa: A002
    """CartPole: nets 120-84, batches of 128, an update every 4 steps."""
    rng = np.random.default_rng(seed)
    q, target = mlp(4, 120, 84, 2), mlp(4, 120, 84, 2)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    replay, episodes = Replay(10_000, 4, 1, np.int64), Episodes("CartPole-v1", seed)

    def update(o, a, r, o2, d):
        with torch.no_grad():
            y = r + 0.99 * (1 - d) * target(o2).max(1).values
        loss = F.mse_loss(q(o).gather(1, a).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def act(o):
        with torch.no_grad():
            return q(o).argmax(1)

    update, act = compile(update), compile(act)
    for step in range(steps):
        o = episodes.observation
        epsilon = max(0.05, 1 - step / (0.3 * steps))
        a = int(rng.integers(2)) if rng.random() < epsilon else int(act(torch.from_numpy(o)[None]))
        o2, r, d = episodes.step(a)
        replay.add(o, a, r, o2, d)
        if step >= 1000 and step % 4 == 0:
            spent(update, *replay.sample(rng, 128))
        if step % 250 == 0:
            target.load_state_dict(q.state_dict())
    return episodes.returns


def advantages_of(rewards, values, dones, last, gamma=0.99, decay=0.95):
    found, carried = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        going = 1 - dones[t]
        after = last if t + 1 == len(rewards) else values[t + 1]
        carried = rewards[t] + gamma * after * going - values[t] + gamma * decay * going * carried
        found[t] = carried
    return found


def ppo(compile, seed, steps, spent, envs=4, horizon=128):  # noqa: A002
    """CartPole: nets 64-64, four environments, four epochs of four minibatches."""
    rng = np.random.default_rng(seed)
    actor, critic = mlp(4, 64, 64, 2, act=nn.Tanh), mlp(4, 64, 64, 1, act=nn.Tanh)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3, eps=1e-5)
    returns = []
    all_episodes = [Episodes("CartPole-v1", seed * 100 + i, returns) for i in range(envs)]

    def update(o, a, old, advantage, wanted):
        log_p = actor(o).log_softmax(1)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        ratio = (log_p.gather(1, a[:, None]).squeeze(1) - old).exp()
        policy = -torch.min(advantage * ratio, advantage * ratio.clamp(0.8, 1.2)).mean()
        entropy = -(log_p.exp() * log_p).sum(1).mean()
        loss = policy - 0.01 * entropy + 0.5 * F.mse_loss(critic(o).squeeze(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        return loss

    def look(o):
        with torch.no_grad():
            return actor(o).log_softmax(1), critic(o).squeeze(1)

    update, look = compile(update), compile(look)
    o, a, old, r, v, d = (np.zeros((horizon, envs) + s, k) for s, k in (
        ((4,), np.float32), ((), np.int64), ((), np.float32), ((), np.float32), ((), np.float32), ((), np.float32)))
    for iteration in range(steps // (envs * horizon)):
        optimizer.param_groups[0]["lr"] = 1e-3 * (1 - iteration / (steps // (envs * horizon)))
        for t in range(horizon):
            o[t] = [e.observation for e in all_episodes]
            log_p, v[t] = (x.numpy() for x in look(torch.from_numpy(o[t])))
            a[t] = (rng.random(envs) < np.exp(log_p[:, 1])).astype(np.int64)
            old[t] = log_p[np.arange(envs), a[t]]
            for i, e in enumerate(all_episodes):
                _, r[t, i], d[t, i] = e.step(int(a[t, i]))
        last = look(torch.from_numpy(np.stack([e.observation for e in all_episodes])))[1].numpy()
        advantage = advantages_of(r, v, d, last)
        columns = [x.reshape(horizon * envs, *x.shape[2:]) for x in (o, a, old, advantage, advantage + v)]
        for _ in range(4):
            order = rng.permutation(horizon * envs)
            for rows in order.reshape(4, -1):
                spent(update, *[torch.from_numpy(c[rows]) for c in columns])
    return returns


class Gaussian(nn.Module):
    """A policy that is squashed into [-2, 2]."""

    def __init__(self):
        super().__init__()
        self.body, self.mean, self.spread = nn.Sequential(mlp(3, 256, 256), nn.ReLU()), nn.Linear(256, 1), nn.Linear(256, 1)

    def forward(self, o, noise):
        h = self.body(o)
        mean, log_std = self.mean(h), self.spread(h).clamp(-5, 2)
        raw = mean + log_std.exp() * noise
        y = torch.tanh(raw)
        log_p = -0.5 * noise.square() - log_std - 0.9189385 - torch.log(2 * (1 - y.square()) + 1e-6)
        return 2 * y, log_p.sum(1)


def critics():
    return nn.ModuleList([mlp(4, 256, 256, 1), mlp(4, 256, 256, 1)])


def values_of(nets, o, a):
    x = torch.cat([o, a], 1)
    return [net(x).squeeze(1) for net in nets]


def sac(compile, seed, steps, spent):  # noqa: A002
    """Pendulum: nets 256-256, batches of 256, an update at each step: critics, actor, temperature and targets in one function."""
    rng = np.random.default_rng(seed)
    actor, q, target = Gaussian(), critics(), critics()
    target.load_state_dict(q.state_dict())
    log_alpha = nn.Parameter(torch.zeros(1))
    of_q, of_actor = torch.optim.Adam(q.parameters(), lr=1e-3), torch.optim.Adam(actor.parameters(), lr=1e-3)
    of_alpha = torch.optim.Adam([log_alpha], lr=1e-3)
    replay, episodes = Replay(50_000, 3, 1, np.float32), Episodes("Pendulum-v1", seed)

    def update(o, a, r, o2, d, noise, noise2):
        with torch.no_grad():
            a2, log_p2 = actor(o2, noise2)
            y = r + 0.99 * (1 - d) * (torch.min(*values_of(target, o2, a2)) - log_alpha.exp() * log_p2)
        loss = sum(F.mse_loss(v, y) for v in values_of(q, o, a))
        of_q.zero_grad()
        loss.backward()
        of_q.step()
        new, log_p = actor(o, noise)
        actor_loss = (log_alpha.exp().detach() * log_p - torch.min(*values_of(q, o, new))).mean()
        of_actor.zero_grad()
        actor_loss.backward()
        of_actor.step()
        alpha_loss = -(log_alpha.exp() * (log_p.detach() - 1)).mean()
        of_alpha.zero_grad()
        alpha_loss.backward()
        of_alpha.step()
        of_q.zero_grad()
        polyak(q, target, 0.005)
        return loss

    def act(o, noise):
        with torch.no_grad():
            return actor(o, noise)[0]

    update, act = compile(update), compile(act)
    draw = lambda n: torch.from_numpy(rng.standard_normal((n, 1), np.float32))  # noqa: E731
    for step in range(steps):
        o = episodes.observation
        a = rng.uniform(-2, 2, 1).astype(np.float32) if step < 500 else act(torch.from_numpy(o)[None], draw(1)).numpy()[0]
        o2, r, d = episodes.step(a)
        replay.add(o, a, r, o2, d)
        if step >= 500:
            spent(update, *replay.sample(rng, 256), draw(256), draw(256))
    return episodes.returns


class Deterministic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(3, 256, 256, 1)

    def forward(self, o):
        return 2 * torch.tanh(self.net(o))


def td3(compile, seed, steps, spent):  # noqa: A002
    """Pendulum: nets 256-256, batches of 256, critics at each step, actor and targets at every second."""
    rng = np.random.default_rng(seed)
    actor, old_actor, q, target = Deterministic(), Deterministic(), critics(), critics()
    old_actor.load_state_dict(actor.state_dict()), target.load_state_dict(q.state_dict())
    of_q, of_actor = torch.optim.Adam(q.parameters(), lr=1e-3), torch.optim.Adam(actor.parameters(), lr=1e-3)
    replay, episodes = Replay(50_000, 3, 1, np.float32), Episodes("Pendulum-v1", seed)

    def critic_update(o, a, r, o2, d, noise):
        with torch.no_grad():
            a2 = (old_actor(o2) + (0.4 * noise).clamp(-1, 1)).clamp(-2, 2)
            y = r + 0.99 * (1 - d) * torch.min(*values_of(target, o2, a2))
        loss = sum(F.mse_loss(v, y) for v in values_of(q, o, a))
        of_q.zero_grad()
        loss.backward()
        of_q.step()
        return loss

    def actor_update(o):
        loss = -values_of(q, o, actor(o))[0].mean()
        of_actor.zero_grad()
        loss.backward()
        of_actor.step()
        of_q.zero_grad()
        polyak(actor, old_actor, 0.005)
        polyak(q, target, 0.005)
        return loss

    def act(o):
        with torch.no_grad():
            return actor(o)

    critic_update, actor_update, act = compile(critic_update), compile(actor_update), compile(act)
    draw = lambda n: rng.standard_normal((n, 1), np.float32)  # noqa: E731

    def update(*batch):
        loss = critic_update(*batch)
        if spent.count % 2:
            actor_update(batch[0])
        return loss

    for step in range(steps):
        o = episodes.observation
        a = rng.uniform(-2, 2, 1).astype(np.float32) if step < 500 else np.clip(
            act(torch.from_numpy(o)[None]).numpy()[0] + 0.2 * draw(1)[0], -2, 2)
        o2, r, d = episodes.step(a)
        replay.add(o, a, r, o2, d)
        if step >= 500:
            spent(update, *replay.sample(rng, 256), torch.from_numpy(draw(256)))
    return episodes.returns


# name: (program, steps, steps for each update)
PROGRAMS = {"dqn": (dqn, 20_000, 4), "ppo": (ppo, 40_960, 32), "sac": (sac, 5_000, 1), "td3": (td3, 5_000, 1)}
