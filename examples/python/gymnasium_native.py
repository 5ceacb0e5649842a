"""DQN and PPO for a Gymnasium environment with discrete actions, with Windrow's own API: neither torch nor another library.

    python gymnasium_native.py dqn
    python gymnasium_native.py ppo --seed 2
"""
import argparse
import sys
import time

import gymnasium as gym
import numpy as np
import windrow as wr


def perceptron(*sizes, act=wr.nn.Relu):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [wr.nn.Dense(a, b), act()]
    return wr.nn.Sequential(*layers[:-1])


class Episodes:
    """An environment that begins again by itself, and the returns of its episodes."""

    def __init__(self, name, seed, returns):
        self.env, self.returns, self.total = gym.make(name), returns, 0.0
        self.now, _ = self.env.reset(seed=seed)

    def step(self, action):
        """(observation after the action, reward, whether the episode ended for good, whether it is over)."""
        after, reward, ended, cut, _ = self.env.step(action)
        self.total += float(reward)
        self.now = after
        if ended or cut:
            self.returns.append(self.total)
            self.total = 0.0
            self.now, _ = self.env.reset()
        return after, float(reward), float(ended), float(ended or cut)


# ---- DQN -------------------------------------------------------------------------------------------------------------
class Dqn:
    """A Q-net, a target net that follows it, and the three steps they need. The steps share the nets' memory."""

    def __init__(self, inputs, actions, seed, gamma=0.99):
        wr.nn.seed(seed)
        q, target, adam = perceptron(inputs, 120, 84, actions), perceptron(inputs, 120, 84, actions), wr.optim.Adam(lr=1e-3)

        @wr.compile
        def learn(o, a, r, o2, ended):
            wanted = wr.stop_gradient(r + gamma * (1 - ended) * wr.max(target(o2), 1))
            chosen = wr.squeeze(wr.take_along(q(o), wr.expand_dims(a, 1), 1), 1)
            loss = wr.loss.mse(chosen, wanted)
            adam.minimize(loss, q.parameters())
            return loss

        @wr.compile
        def act(o):
            return wr.argmax(q(o), 1)

        @wr.compile
        def follow():
            for mine, its in zip(q.parameters(), target.parameters()):
                its.assign(mine.tensor())

        self.learn, self.act, self.follow = learn, act, follow


def train_dqn(name, steps, seed):
    rng, returns = np.random.default_rng(seed), []
    episodes = Episodes(name, seed, returns)
    inputs, actions = episodes.env.observation_space.shape[0], int(episodes.env.action_space.n)
    agent, size = Dqn(inputs, actions, seed), 10_000
    seen = [np.zeros((size, inputs), "f"), np.zeros(size, "i"), np.zeros(size, "f"), np.zeros((size, inputs), "f"), np.zeros(size, "f")]
    agent.follow()
    for step in range(steps):
        o = episodes.now
        chance = max(0.05, 1 - step / (0.3 * steps))
        a = int(rng.integers(actions)) if rng.random() < chance else int(agent.act(o[None])[0])
        o2, r, ended, _ = episodes.step(a)
        for column, value in zip(seen, (o, a, r, o2, ended)):
            column[step % size] = value
        if step >= 1000 and step % 4 == 0:
            rows = rng.integers(0, min(step + 1, size), 128)
            agent.learn(*[column[rows] for column in seen])
        if step % 250 == 0:
            agent.follow()
    return returns


# ---- PPO -------------------------------------------------------------------------------------------------------------
class Ppo:
    """An actor and a critic with one optimiser; look() is what acting needs, learn() is a minibatch."""

    def __init__(self, inputs, actions, seed, clip=0.2, entropy=0.01):
        wr.nn.seed(seed)
        actor, critic = perceptron(inputs, 64, 64, actions, act=wr.nn.Tanh), perceptron(inputs, 64, 64, 1, act=wr.nn.Tanh)
        self.adam = adam = wr.optim.Adam(lr=1e-3, epsilon=1e-5, clip_norm=0.5)

        @wr.compile
        def look(o):
            return wr.log_softmax(actor(o), 1), wr.squeeze(critic(o), 1)

        @wr.compile
        def learn(o, a, old, advantage, wanted):
            log_p = wr.log_softmax(actor(o), 1)
            advantage = (advantage - advantage.mean()) / (wr.sqrt(wr.variance(advantage)) + 1e-8)
            ratio = wr.exp(wr.squeeze(wr.take_along(log_p, wr.expand_dims(a, 1), 1), 1) - old)
            policy = -wr.minimum(advantage * ratio, advantage * wr.clamp(ratio, 1 - clip, 1 + clip)).mean()
            spread = -(wr.exp(log_p) * log_p).sum(1).mean()
            loss = policy - entropy * spread + 0.5 * wr.loss.mse(wr.squeeze(critic(o), 1), wanted)
            adam.minimize(loss, actor.parameters() + critic.parameters())
            return loss

        self.look, self.learn = look, learn


def advantages_of(rewards, values, over, last, gamma=0.99, decay=0.95):
    """Generalised advantage estimates of [time, environments]."""
    found, carried = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        after = last if t + 1 == len(rewards) else values[t + 1]
        carried = rewards[t] + (1 - over[t]) * (gamma * after + gamma * decay * carried) - values[t]
        found[t] = carried
    return found


def train_ppo(name, steps, seed, count=4, horizon=128):
    rng, returns = np.random.default_rng(seed), []
    all_episodes = [Episodes(name, 100 * seed + i, returns) for i in range(count)]
    inputs, actions = all_episodes[0].env.observation_space.shape[0], int(all_episodes[0].env.action_space.n)
    agent, rounds = Ppo(inputs, actions, seed), steps // (count * horizon)
    o, a = np.zeros((horizon, count, inputs), "f"), np.zeros((horizon, count), "i")
    old, r, v, over = (np.zeros((horizon, count), "f") for _ in range(4))
    for n in range(rounds):
        agent.adam.set_lr(1e-3 * (1 - n / rounds))
        for t in range(horizon):
            o[t] = [e.now for e in all_episodes]
            log_p, v[t] = (np.asarray(x) for x in agent.look(o[t]))
            a[t] = (log_p + rng.gumbel(size=log_p.shape)).argmax(1)
            old[t] = log_p[np.arange(count), a[t]]
            for i, e in enumerate(all_episodes):
                _, r[t, i], _, over[t, i] = e.step(int(a[t, i]))
        last = np.asarray(agent.look(np.stack([e.now for e in all_episodes]).astype("f"))[1])
        advantage = advantages_of(r, v, over, last)
        columns = [x.reshape(horizon * count, *x.shape[2:]) for x in (o, a, old, advantage, advantage + v)]
        for _ in range(4):
            for rows in rng.permutation(horizon * count).reshape(4, -1):
                agent.learn(*[c[rows] for c in columns])
    return returns


AGENTS = {"dqn": (train_dqn, 20_000), "ppo": (train_ppo, 40_960)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent", choices=AGENTS, nargs="?", default="dqn")
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    train, usual = AGENTS[options.agent]
    start, steps = time.perf_counter(), options.steps or usual
    returns = train(options.env, steps, options.seed)
    took, mean, first = time.perf_counter() - start, float(np.mean(returns[-20:])), float(np.mean(returns[:20]))
    print(f"{options.agent} on {options.env}, seed {options.seed}: returns {first:.0f} at first, {mean:.0f} in the last 20 episodes; "
          f"{steps / took:.0f} steps a second")
    return 0 if mean > 4 * first or mean > 150 else 1


if __name__ == "__main__":
    sys.exit(main())
