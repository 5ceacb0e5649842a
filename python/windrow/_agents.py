"""Environments of Gymnasium's kind for windrow.rl's trainings. Gymnasium itself is not needed: what counts is what an
environment says of itself (observation_space, action_space) and what its reset and step give."""
import math

from . import _core


class Copy:
    """One environment as a training sees it: flat observations, choices from 0, controls from -1 to 1."""

    def __init__(self, env):
        self.env, self.begun = env, False
        for name in ("reset", "step", "observation_space", "action_space"):
            if not hasattr(env, name):
                raise TypeError(f"environment: {type(env).__name__} has no {name}; one of Gymnasium's kind is wanted, a function that "
                                "makes one, or one of windrow.rl")
        seen, done = env.observation_space, env.action_space
        shape = getattr(seen, "shape", None)
        if shape is None or hasattr(seen, "n"):
            raise _core.Error(f"environment: observations are {seen}; a Box of numbers is wanted: "
                              "gymnasium.wrappers.FlattenObservation makes one")
        self.observation = math.prod(shape)
        self.control = not hasattr(done, "n")
        self.low, self.high, self.start = [], [], 0
        if not self.control:
            if getattr(done, "shape", ()) != ():
                raise _core.Error(f"environment: actions are {done}; one choice or a Box of numbers is wanted")
            self.actions, self.start = int(done.n), int(getattr(done, "start", 0))
            return
        low, high = getattr(done, "low", None), getattr(done, "high", None)
        if low is None or high is None:
            raise _core.Error(f"environment: actions are {done}; one choice or a Box of numbers is wanted")
        self.low, self.high = ([float(v) for v in bound.ravel()] for bound in (low, high))
        self.actions = len(self.low)
        if not all(map(math.isfinite, self.low + self.high)):
            raise _core.Error(f"environment: actions are {done}; each must have a least and a greatest value: "
                              "gymnasium.wrappers.RescaleAction gives them")

    def reset(self, seed):
        """What is seen first. Only the first episode is seeded: an environment goes on with its own random numbers."""
        got = self.env.reset() if self.begun else self.env.reset(seed=seed)
        self.begun = True
        if not isinstance(got, tuple) or len(got) != 2:
            raise _core.Error("environment: reset() gave no pair; Gymnasium's gives (observation, info)")
        return got[0]

    def step(self, action):
        """(observation, reward, whether it ended for good, whether it was only cut off)."""
        return self.step_with(self.in_range(action) if self.control else int(action[0]) + self.start)

    def step_with(self, action):
        """The same for an action as the environment itself takes it."""
        got = self.env.step(action)
        if not isinstance(got, tuple) or len(got) != 5:
            raise _core.Error("environment: step() gave no five values; Gymnasium's gives (observation, reward, terminated, truncated, "
                              "info)")
        return got[:4]

    def in_range(self, action):
        import numpy as np

        values = [a + (c + 1) / 2 * (b - a) for c, a, b in zip(action, self.low, self.high)]
        return np.asarray(values, np.float32).reshape(self.env.action_space.shape)


def copies(environment, count):
    """So many of them: made by a function, or the one that there is."""
    if callable(environment) and (isinstance(environment, type) or not hasattr(environment, "step")):
        return [Copy(environment()) for _ in range(max(count, 1))]
    if count != 1:
        raise _core.Error(f"environments={count}: give a function that makes an environment, such as lambda: gymnasium.make('CartPole-v1')")
    return [Copy(environment)]


def evaluate(agent, environment, episodes, seed):
    import numpy as np

    copy, total = copies(environment, 1)[0], 0.0
    for _ in range(episodes):
        seen, over = copy.reset(seed), False
        while not over:
            action = agent.act(np.asarray(seen, np.float32).ravel())
            action = np.asarray(action).reshape(copy.env.action_space.shape) if copy.control else action + copy.start
            seen, reward, ended, cut = copy.step_with(action)
            total += float(reward)
            over = ended or cut
    return total / episodes
