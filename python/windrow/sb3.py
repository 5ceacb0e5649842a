"""Stable-Baselines3's DQN, PPO, SAC and TD3 with their updates compiled: the same classes, options, files and policies.

    from windrow.sb3 import DQN          # instead of: from stable_baselines3 import DQN

    model = DQN("MlpPolicy", "CartPole-v1").learn(50_000)

Only train() differs: sampling, exploration, logging, saving and loading are Stable-Baselines3's own, and the nets stay
PyTorch modules. The first update of each batch size is compared with PyTorch's where it draws no random numbers; SAC and TD3
draw their noise from Windrow's generator. What cannot be compiled (a policy of one's own with an op that is not known) is
refused by name and line; the classes of stable_baselines3 train it.
"""
import numpy as np
import stable_baselines3
import torch
import torch.nn.functional as F
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.utils import explained_variance

from .torch import compile as compile_torch

__all__ = ["DQN", "PPO", "SAC", "TD3"]


class _Compiled:
    """Updates that are compiled when they are first used, and are not saved."""

    def _update(self, name):
        updates = self.__dict__.setdefault("_windrow_updates", {})
        if name not in updates:
            updates[name] = compile_torch(getattr(self, name), modules=[self.policy], name=f"{type(self).__name__}.{name[1:]}")
        return updates[name]

    def _excluded_save_params(self):
        return [*super()._excluded_save_params(), "_windrow_updates"]

    def _batch(self, batch_size):
        """A replay batch as tensors, with the discount of each row or of all."""
        buffer = self.replay_buffer
        if type(buffer) is ReplayBuffer and self._vec_normalize_env is None and not buffer.optimize_memory_usage:
            return *_rows_of(buffer, batch_size), torch.tensor(self.gamma)
        data = buffer.sample(batch_size, env=self._vec_normalize_env)
        discounts = torch.tensor(self.gamma) if data.discounts is None else data.discounts
        return data.observations, data.actions, data.rewards, data.next_observations, data.dones, discounts


def _rows_of(buffer, count):
    """What ReplayBuffer.sample() would draw, with the same numbers of numpy's generator, in a fifth of its time: rows are looked up
    along one axis, and are copied once."""
    moments = np.random.randint(0, buffer.buffer_size if buffer.full else buffer.pos, size=count)
    rows = moments * buffer.n_envs + np.random.randint(0, high=buffer.n_envs, size=(count,))

    def picked(column):
        return column.reshape(-1, *column.shape[2:]).take(rows, 0)

    dones = picked(buffer.dones) * (1 - picked(buffer.timeouts))
    found = (picked(buffer.observations), picked(buffer.actions), picked(buffer.rewards)[:, None], picked(buffer.next_observations), dones[:, None])
    return tuple([torch.from_numpy(column) for column in found])


def _mean(values):
    return float(torch.stack(values).mean())


def _polyak(parameters, targets, tau):
    with torch.no_grad():
        for p, t in zip(parameters, targets):
            t.copy_(t * (1 - tau) + p * tau)


class DQN(_Compiled, stable_baselines3.DQN):
    """stable_baselines3.DQN; its update is one compiled step."""

    def _td_step(self, observations, actions, rewards, next_observations, dones, discounts):
        with torch.no_grad():
            next_q = self.q_net_target(next_observations).max(dim=1).values.reshape(-1, 1)
            target = rewards + (1 - dones) * discounts * next_q
        q = torch.gather(self.q_net(observations), dim=1, index=actions.long())
        loss = F.smooth_l1_loss(q, target)
        self.policy.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
        self.policy.optimizer.step()
        return loss

    def train(self, gradient_steps, batch_size=100):
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        update = self._update("_td_step")
        losses = [update(*self._batch(batch_size)) for _ in range(gradient_steps)]
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", _mean(losses))


class TD3(_Compiled, stable_baselines3.TD3):
    """stable_baselines3.TD3; the critics' update and the delayed one of the actor are compiled steps."""

    def _critic_step(self, observations, actions, rewards, next_observations, dones, discounts):
        with torch.no_grad():
            noise = (torch.randn_like(actions) * self.target_policy_noise).clamp(-self.target_noise_clip, self.target_noise_clip)
            next_actions = (self.actor_target(next_observations) + noise).clamp(-1, 1)
            next_q = torch.cat(self.critic_target(next_observations, next_actions), dim=1).min(dim=1, keepdim=True).values
            target = rewards + (1 - dones) * discounts * next_q
        loss = sum(F.mse_loss(q, target) for q in self.critic(observations, actions))
        self.critic.optimizer.zero_grad()
        loss.backward()
        self.critic.optimizer.step()
        return loss

    def _actor_step(self, observations):
        loss = -self.critic.q1_forward(observations, self.actor(observations)).mean()
        self.actor.optimizer.zero_grad()
        loss.backward()
        self.actor.optimizer.step()
        self.critic.optimizer.zero_grad()  # what the actor's loss left in the critic
        _polyak(self.critic.parameters(), self.critic_target.parameters(), self.tau)
        _polyak(self.actor.parameters(), self.actor_target.parameters(), self.tau)
        _polyak(self.critic_batch_norm_stats, self.critic_batch_norm_stats_target, 1.0)
        _polyak(self.actor_batch_norm_stats, self.actor_batch_norm_stats_target, 1.0)
        return loss

    def train(self, gradient_steps, batch_size=100):
        self.policy.set_training_mode(True)
        self._update_learning_rate([self.actor.optimizer, self.critic.optimizer])
        actor_losses, critic_losses = [], []
        for _ in range(gradient_steps):
            self._n_updates += 1
            batch = self._batch(batch_size)
            critic_losses.append(self._update("_critic_step")(*batch))
            if self._n_updates % self.policy_delay == 0:
                actor_losses.append(self._update("_actor_step")(batch[0]))
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        if actor_losses:
            self.logger.record("train/actor_loss", _mean(actor_losses))
        self.logger.record("train/critic_loss", _mean(critic_losses))


class SAC(_Compiled, stable_baselines3.SAC):
    """stable_baselines3.SAC; actor, critics and entropy coefficient are updated by one compiled step."""

    def _soft_step(self, observations, actions, rewards, next_observations, dones, discounts):
        new_actions, log_prob = self.actor.action_log_prob(observations)
        log_prob = log_prob.reshape(-1, 1)
        if self.ent_coef_optimizer is not None:
            ent_coef = torch.exp(self.log_ent_coef.detach())
            ent_coef_loss = -(self.log_ent_coef * (log_prob + self.target_entropy).detach()).mean()
            self.ent_coef_optimizer.zero_grad()
            ent_coef_loss.backward()
            self.ent_coef_optimizer.step()
        else:
            ent_coef = self.ent_coef_tensor * torch.ones(1)
            ent_coef_loss = torch.zeros(())
        with torch.no_grad():
            next_actions, next_log_prob = self.actor.action_log_prob(next_observations)
            next_q = torch.cat(self.critic_target(next_observations, next_actions), dim=1).min(dim=1, keepdim=True).values
            target = rewards + (1 - dones) * discounts * (next_q - ent_coef * next_log_prob.reshape(-1, 1))
        critic_loss = 0.5 * sum(F.mse_loss(q, target) for q in self.critic(observations, actions))
        self.critic.optimizer.zero_grad()
        critic_loss.backward()
        self.critic.optimizer.step()
        q = torch.cat(self.critic(observations, new_actions), dim=1).min(dim=1, keepdim=True).values
        actor_loss = (ent_coef * log_prob - q).mean()
        self.actor.optimizer.zero_grad()
        actor_loss.backward()
        self.actor.optimizer.step()
        self.critic.optimizer.zero_grad()  # what the actor's loss left in the critic
        return actor_loss, critic_loss, ent_coef, ent_coef_loss

    def _target_step(self):
        _polyak(self.critic.parameters(), self.critic_target.parameters(), self.tau)
        _polyak(self.batch_norm_stats, self.batch_norm_stats_target, 1.0)

    def train(self, gradient_steps, batch_size=64):
        if self.use_sde:
            raise ValueError("windrow.sb3.SAC: use_sde is not supported; stable_baselines3.SAC has it")
        self.policy.set_training_mode(True)
        optimizers = [self.actor.optimizer, self.critic.optimizer]
        self._update_learning_rate(optimizers + ([self.ent_coef_optimizer] if self.ent_coef_optimizer is not None else []))
        results = []
        for step in range(gradient_steps):
            results.append(self._update("_soft_step")(*self._batch(batch_size)))
            if step % self.target_update_interval == 0:
                self._update("_target_step")()
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/ent_coef", _mean([r[2] for r in results]))
        self.logger.record("train/actor_loss", _mean([r[0] for r in results]))
        self.logger.record("train/critic_loss", _mean([r[1] for r in results]))
        if self.ent_coef_optimizer is not None:
            self.logger.record("train/ent_coef_loss", _mean([r[3] for r in results]))


class PPO(_Compiled, stable_baselines3.PPO):
    """stable_baselines3.PPO; a minibatch is one compiled step."""

    def _losses(self, observations, actions, old_values, old_log_prob, advantages, returns, clip_range, clip_range_vf):
        values, log_prob, entropy = self.policy.evaluate_actions(observations, actions)
        values = values.flatten()
        if self.normalize_advantage and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = torch.exp(log_prob - old_log_prob)
        clipped = torch.max(torch.min(ratio, 1 + clip_range), 1 - clip_range)
        policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()
        if self.clip_range_vf is not None:
            values = old_values + torch.max(torch.min(values - old_values, clip_range_vf), -clip_range_vf)
        value_loss = F.mse_loss(returns, values)
        entropy_loss = -torch.mean(-log_prob if entropy is None else entropy)
        with torch.no_grad():
            log_ratio = log_prob - old_log_prob
            kl = torch.mean((torch.exp(log_ratio) - 1) - log_ratio)
            outside = torch.mean((torch.abs(ratio - 1) > clip_range).float())
        loss = policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss
        return loss, policy_loss, value_loss, entropy_loss, kl, outside

    def _clipped_step(self, *batch):
        losses = self._losses(*batch)
        self.policy.optimizer.zero_grad()
        losses[0].backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
        self.policy.optimizer.step()
        return losses

    def _divergence(self, *batch):
        with torch.no_grad():
            return self._losses(*batch)

    def _minibatches(self, clip_range, clip_range_vf):
        for data in self.rollout_buffer.get(self.batch_size):
            actions = data.actions.long().flatten() if isinstance(self.action_space, spaces.Discrete) else data.actions
            yield (data.observations, actions, data.old_values, data.old_log_prob, data.advantages, data.returns, clip_range, clip_range_vf)

    def _epochs(self, clip_range, clip_range_vf):
        """(losses of each minibatch, of the last epoch alone); ends where the policy has moved too far."""
        found, last = [], []
        for epoch in range(self.n_epochs):
            last = []
            for batch in self._minibatches(clip_range, clip_range_vf):
                if self.target_kl is not None:
                    before = self._update("_divergence")(*batch)
                    if float(before[4]) > 1.5 * self.target_kl:
                        if self.verbose >= 1:
                            print(f"Early stopping at step {epoch} due to reaching max kl: {float(before[4]):.2f}")
                        self._n_updates += 1
                        return [*found, before], [*last, before]
                last.append(self._update("_clipped_step")(*batch))
                found.append(last[-1])
            self._n_updates += 1
        return found, last

    def train(self):
        if self.use_sde:
            raise ValueError("windrow.sb3.PPO: use_sde is not supported; stable_baselines3.PPO has it")
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        clip_range = self.clip_range(self._current_progress_remaining)
        clip_range_vf = None if self.clip_range_vf is None else self.clip_range_vf(self._current_progress_remaining)
        found, last = self._epochs(torch.tensor(float(clip_range)), torch.tensor(0.0 if clip_range_vf is None else float(clip_range_vf)))
        record = self.logger.record
        for name, i in (("policy_gradient_loss", 1), ("value_loss", 2), ("entropy_loss", 3), ("clip_fraction", 5)):
            record(f"train/{name}", _mean([f[i] for f in found]))
        record("train/approx_kl", _mean([f[4] for f in last]))
        record("train/loss", float(found[-1][0]))
        record("train/explained_variance",
               explained_variance(self.rollout_buffer.values.flatten(), self.rollout_buffer.returns.flatten()))
        if hasattr(self.policy, "log_std"):
            record("train/std", float(np.exp(self.policy.log_std.detach().numpy()).mean()))
        record("train/n_updates", self._n_updates, exclude="tensorboard")
        record("train/clip_range", clip_range)
        if clip_range_vf is not None:
            record("train/clip_range_vf", clip_range_vf)
