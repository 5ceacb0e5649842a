"""windrow.sb3: updates are Stable-Baselines3's own where they draw nothing; models learn, are saved and loaded."""
import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
import torch
import windrow.sb3
from stable_baselines3.common.env_util import make_vec_env


def same_parameters(a, b, tolerance):
    for (name, p), q in zip(a.policy.state_dict().items(), b.policy.state_dict().values()):
        assert float((p - q).abs().max()) <= tolerance * max(float(q.abs().max()), 0.1), name


def twins(name, env, **options):
    return [getattr(package, name)("MlpPolicy", env, seed=3, device="cpu", **options) for package in (windrow.sb3, stable_baselines3)]


@pytest.mark.parametrize("envs", [1, 3])
def test_batches_are_those_that_their_replay_draws(envs):
    model = windrow.sb3.SAC("MlpPolicy", make_vec_env("Pendulum-v1", envs), learning_starts=10_000, buffer_size=90, device="cpu")
    model.learn(60 if envs == 1 else 240)
    assert model.replay_buffer.full == (envs == 3)
    np.random.seed(5)
    ours = model._batch(64)
    np.random.seed(5)
    theirs = model.replay_buffer.sample(64)
    for name, a in zip(("observations", "actions", "rewards", "next_observations", "dones"), ours):
        assert torch.equal(a, getattr(theirs, name)), name


def test_dqn_is_theirs():
    ours, theirs = twins("DQN", "CartPole-v1", learning_starts=50, train_freq=10, buffer_size=1000, policy_kwargs={"net_arch": [16]})
    for model in (ours, theirs):
        model.set_random_seed(3)
        model.learn(300)
    assert ours._n_updates == theirs._n_updates > 0
    same_parameters(ours, theirs, 1e-4)


@pytest.mark.parametrize("options", [{}, {"clip_range_vf": 0.2, "target_kl": 0.01}], ids=["plain", "clipped"])
def test_ppo_is_theirs(options):
    ours, theirs = twins("PPO", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=3, policy_kwargs={"net_arch": [16]}, **options)
    for model in (ours, theirs):
        model.set_random_seed(3)
        model.learn(128)
    assert ours._n_updates == theirs._n_updates > 0
    same_parameters(ours, theirs, 1e-3)


def test_ppo_with_continuous_actions_is_theirs():
    ours, theirs = twins("PPO", "Pendulum-v1", n_steps=64, batch_size=32, n_epochs=2, policy_kwargs={"net_arch": [16]})
    for model in (ours, theirs):
        model.set_random_seed(3)
        model.learn(128)
    same_parameters(ours, theirs, 1e-3)


@pytest.mark.parametrize("name", ["SAC", "TD3"])
def test_updates_that_draw_noise_lower_the_critics_loss(name):
    model = getattr(windrow.sb3, name)("MlpPolicy", "Pendulum-v1", learning_starts=100, seed=1, device="cpu",
                                       policy_kwargs={"net_arch": [32]}, learning_rate=3e-3, train_freq=(200, "step"), gradient_steps=1)
    model.learn(400)
    batch = model.replay_buffer.sample(100)

    def error():
        with torch.no_grad():  # of the rewards alone: gamma is 0 below
            return float(torch.stack([((q - batch.rewards) ** 2).mean() for q in model.critic(batch.observations, batch.actions)]).mean())

    model.gamma = 0.0
    before = error()
    targets = [p.clone() for p in model.critic_target.parameters()]
    model.train(200, 64)
    assert error() < before / 2
    assert any(not torch.equal(a, b) for a, b in zip(targets, model.critic_target.parameters()))


def test_models_are_saved_and_loaded(tmp_path):
    model = windrow.sb3.DQN("MlpPolicy", "CartPole-v1", learning_starts=20, device="cpu", policy_kwargs={"net_arch": [16]})
    model.learn(60)
    model.save(tmp_path / "dqn")
    env = gym.make("CartPole-v1")
    observation = np.stack([env.observation_space.sample().clip(-1, 1) for _ in range(8)])
    for package in (windrow.sb3, stable_baselines3):  # the file is theirs too
        again = package.DQN.load(tmp_path / "dqn", env=env, device="cpu")
        np.testing.assert_array_equal(again.predict(observation, deterministic=True)[0], model.predict(observation, deterministic=True)[0])
        again.learn(60)
