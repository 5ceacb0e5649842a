"""A DQN for CartPole in one file, in CleanRL's manner. --eager is the program before; the two marked lines are what changes."""
import argparse
import random
import sys
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import windrow as wr


class Replay:
    def __init__(self, size, observation):
        self.o, self.o2 = np.zeros((2, size, observation), np.float32)
        self.a, self.r, self.d = np.zeros((size, 1), np.int64), np.zeros(size, np.float32), np.zeros(size, np.float32)
        self.size, self.count = size, 0

    def add(self, o, a, r, o2, d):
        i = self.count % self.size
        self.o[i], self.a[i], self.r[i], self.o2[i], self.d[i] = o, a, r, o2, d
        self.count += 1

    def sample(self, batch):
        rows = np.random.randint(0, min(self.count, self.size), batch)
        return [torch.from_numpy(x[rows]) for x in (self.o, self.a, self.r, self.o2, self.d)]


def main(eager, steps, seed):
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
    env = gym.make("CartPole-v1")
    make = lambda: nn.Sequential(nn.Linear(4, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 2))  # noqa: E731
    q, target = make(), make()
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    replay = Replay(10_000, 4)

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

    if not eager:
        update = wr.torch.compile(update)  # <-
        act = wr.torch.compile(act)  # <-

    o, _ = env.reset(seed=seed)
    returns, total, updates, spent, start = [], 0.0, 0, 0.0, time.perf_counter()
    for step in range(steps):
        epsilon = max(0.05, 1 - step / (0.3 * steps))
        a = env.action_space.sample() if random.random() < epsilon else int(act(torch.from_numpy(o)[None]))
        o2, r, over, cut, _ = env.step(a)
        replay.add(o, a, r, o2, over)
        o, total = o2, total + float(r)
        if over or cut:
            returns.append(total)
            (o, _), total = env.reset(), 0.0
        if step >= 1000 and step % 4 == 0:
            begin = time.perf_counter()
            update(*replay.sample(128))
            updates, spent = updates + 1, spent + time.perf_counter() - begin
        if step % 250 == 0:
            target.load_state_dict(q.state_dict())
    took = time.perf_counter() - start
    mean = float(np.mean(returns[-20:]))
    print(f"{'eager' if eager else 'compiled'}: mean return of the last 20 episodes {mean:.0f}; {steps / took:.0f} steps/s, "
          f"{spent / updates * 1e6:.0f} us an update with its sampling")
    return mean


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--eager", action="store_true", help="PyTorch alone")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(0 if main(options.eager, options.steps, options.seed) > 100 else 1)
