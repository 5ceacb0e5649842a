"""windrow.rl's trainings on environments of Gymnasium's kind (written here: Gymnasium is not needed) and on Windrow's own."""
import threading

import numpy as np
import pytest
import windrow as wr


class Space:
    def __init__(self, **what):
        self.__dict__.update(what)


class Greater:
    """Which of the two numbers seen is the greater one? Ten questions an episode. Choices are 5 and 6."""

    observation_space = Space(shape=(1, 2))
    action_space = Space(n=2, start=5, shape=())

    def __init__(self):
        self.rng, self.seeds = np.random.default_rng(0), []

    def draw(self):
        self.now = self.rng.uniform(-1, 1, size=(1, 2))
        return self.now

    def reset(self, seed=None):
        self.seeds.append(seed)
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.steps = 0
        return self.draw(), {}

    def step(self, action):
        assert action in (5, 6) and isinstance(action, int)
        right = (self.now[0, 1] > self.now[0, 0]) == (action == 6)
        self.steps += 1
        return self.draw(), float(right), self.steps == 10, False, {}


class HalfTurned(Greater):
    """Say twice the first number seen, with the sign turned; controls go from -2 to 4."""

    action_space = Space(shape=(1,), low=np.array([-2.0]), high=np.array([4.0]))

    def step(self, action):
        assert action.shape == (1,) and -2 <= action[0] <= 4
        miss = action[0] + 2 * self.now[0, 0]
        self.steps += 1
        return self.draw(), -miss * miss, False, self.steps == 10, {}


@pytest.mark.parametrize("train", [wr.rl.train_dqn, wr.rl.train_ppo])
def test_choices_are_learned(train):
    made = []

    def make():
        made.append(Greater())
        return made[-1]

    agent = train(make, steps=8000, environments=4, hidden=[32], goal=9.5, seed=3)
    assert len(made) == 4 and len({e.seeds[0] for e in made}) == 4 and made[0].seeds[1] is None
    assert wr.rl.evaluate(agent, Greater()) > 9
    assert agent.act([[0.9, -0.9]]) == 0 and agent.act([-0.5, 0.5]) == 1
    assert agent.progress.steps < 9000 and agent.progress.episodes > 50
    assert agent.parameters() and all(isinstance(v, wr.Array) for v in agent.state_dict().values())


def test_controls_are_learned_in_the_environments_own_range():
    agent = wr.rl.train_sac(HalfTurned(), steps=3000, hidden=[32], learn_from=300, gamma=0.5)
    assert wr.rl.evaluate(agent, HalfTurned()) > -3  # it costs about 20 where nothing is learned
    said = agent.act([0.5, 0.0])
    assert said.shape == (1,) and abs(float(said.numpy()[0]) + 1) < 0.5


def test_a_training_is_the_same_for_the_same_seed_and_ends_when_it_is_told():
    seen = []

    def watch(progress):
        seen.append(progress.steps)
        return len(seen) < 3

    first = wr.rl.train_ppo(Greater, steps=20_000, environments=2, run=32, batch=64, watch=watch)
    assert len(seen) == 3 and first.progress.steps == seen[-1] < 20_000
    one, two, other = (wr.rl.train_dqn(Greater, steps=400, learn_from=200, hidden=[8], batch=16, seed=s) for s in (1, 1, 2))
    same = [np.array_equal(a.numpy(), b.numpy()) for a, b in zip(one.state_dict().values(), two.state_dict().values())]
    assert all(same)
    assert not np.array_equal(*(next(iter(a.state_dict().values())).numpy() for a in (one, other)))


def test_windrows_own_environments_train_without_the_interpreter():
    turns = []
    stop = threading.Event()

    def count():
        while not stop.wait(0.001):
            turns.append(1)

    def turns_of_others():
        before = len(turns)
        agent = wr.rl.train_ppo(wr.rl.CartPole(), steps=8000, environments=8, threads=2, epochs=4, hidden=[32])
        return len(turns) - before, agent

    other = threading.Thread(target=count)
    other.start()
    # A training that held the interpreter would leave a turn or two at its ends. On a busy computer the other thread may have to wait.
    trained = [turns_of_others()]
    while trained[-1][0] < 5 and len(trained) < 20:
        trained.append(turns_of_others())
    stop.set()
    other.join()
    most, agent = trained[-1]
    assert most >= 5 and agent.progress.mean_return > 25
    assert wr.rl.evaluate(agent, wr.rl.CartPole(), episodes=5) > 40
    swing = wr.rl.train_sac(wr.rl.Pendulum(), steps=300, learn_from=200, hidden=[8], batch=16)
    assert -1 <= float(swing.act([1, 0, 0]).numpy()[0]) <= 1


def test_what_an_environment_does_wrong_is_said():
    class Lost(Greater):
        def step(self, action):
            raise KeyError("lost")

    class Old(Greater):
        def step(self, action):
            return super().step(action)[:4]

    class Larger(Greater):
        def reset(self, seed=None):
            return np.zeros(7), {}

    with pytest.raises(KeyError, match="lost"):
        wr.rl.train_dqn(Lost(), steps=100)
    with pytest.raises(wr.Error, match="no five values"):
        wr.rl.train_dqn(Old(), steps=100)
    with pytest.raises(wr.Error, match="observation of 7 numbers; its space has 2"):
        wr.rl.train_dqn(Larger(), steps=100)
    with pytest.raises(wr.Error, match="environments=3: give a function"):
        wr.rl.train_ppo(Greater(), environments=3)
    with pytest.raises(wr.Error, match="threads: environments written in Python"):
        wr.rl.train_ppo(Greater, threads=2)
    with pytest.raises(TypeError, match="int has no reset"):
        wr.rl.train_ppo(3, environments=1)
    with pytest.raises(wr.Error, match="train_sac"):
        wr.rl.train_sac(Greater())
    with pytest.raises(wr.Error, match="train_dqn"):
        wr.rl.train_dqn(HalfTurned())
    with pytest.raises(wr.Error, match="steps"):
        wr.rl.train_dqn(Greater(), steps=0)
