"""Updates of agents as CleanRL and its like have them, noise and permutations given: more cases for test_models.py."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from models import Fn, case, labels
from torch.distributions.categorical import Categorical
from torch.distributions.normal import Normal


def layer_init(layer, std=2**0.5, bias_const=0.0):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias_const)
    return layer


def adam(parameters, lr=2.5e-3):
    """With an eps that keeps rounding where it is."""
    return optim.Adam(parameters, lr=lr, eps=1e-3)


# ---- PPO -------------------------------------------------------------------------------------------------------------
class Agent(nn.Module):
    def __init__(self, obs=4, actions=2):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(obs, 16)), nn.Tanh(), layer_init(nn.Linear(16, 16)), nn.Tanh(), layer_init(nn.Linear(16, 1), std=1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(obs, 16)), nn.Tanh(), layer_init(nn.Linear(16, 16)), nn.Tanh(), layer_init(nn.Linear(16, actions), std=0.01))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        logits = self.actor(x)
        probs = Categorical(logits=logits)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


@case
def cleanrl_ppo_whole_iteration():
    """Advantages over time, then two epochs of two minibatches, in one function."""
    gamma, gae_lambda, clip_coef = 0.99, 0.95, 0.2

    def make(agent):
        optimizer = adam(agent.parameters())

        def iteration(obs, actions, logprobs, rewards, dones, values, next_obs, next_done, orders):
            num_steps = rewards.shape[0]
            with torch.no_grad():
                next_value = agent.get_value(next_obs).reshape(1, -1)
                advantages = torch.zeros_like(rewards)
                lastgaelam = 0
                for t in reversed(range(num_steps)):
                    if t == num_steps - 1:
                        nextnonterminal, nextvalues = 1.0 - next_done, next_value
                    else:
                        nextnonterminal, nextvalues = 1.0 - dones[t + 1], values[t + 1]
                    delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]
                    advantages[t] = lastgaelam = delta + gamma * gae_lambda * nextnonterminal * lastgaelam
                returns = advantages + values
            b_obs = obs.reshape((-1,) + obs.shape[2:])
            b_logprobs, b_actions = logprobs.reshape(-1), actions.reshape(-1)
            b_advantages, b_returns, b_values = advantages.reshape(-1), returns.reshape(-1), values.reshape(-1)
            batch_size = b_obs.shape[0]
            minibatch_size = batch_size // 2
            clipfracs = []
            for b_inds in orders:
                for start in range(0, batch_size, minibatch_size):
                    mb_inds = b_inds[start:start + minibatch_size]
                    _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])
                    logratio = newlogprob - b_logprobs[mb_inds]
                    ratio = logratio.exp()
                    with torch.no_grad():
                        approx_kl = ((ratio - 1) - logratio).mean()
                        clipfracs += [((ratio - 1.0).abs() > clip_coef).float().mean()]
                    mb_advantages = b_advantages[mb_inds]
                    mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
                    pg_loss = torch.max(-mb_advantages * ratio, -mb_advantages * torch.clamp(ratio, 1 - clip_coef, 1 + clip_coef)).mean()
                    newvalue = newvalue.view(-1)
                    v_loss_unclipped = (newvalue - b_returns[mb_inds]) ** 2
                    v_clipped = b_values[mb_inds] + torch.clamp(newvalue - b_values[mb_inds], -clip_coef, clip_coef)
                    v_loss = 0.5 * torch.max(v_loss_unclipped, (v_clipped - b_returns[mb_inds]) ** 2).mean()
                    loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
                    optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                    optimizer.step()
            var_y = b_returns.var()
            explained_var = torch.where(var_y == 0, torch.nan, 1 - (b_returns - b_values).var() / var_y)
            return v_loss, pg_loss, entropy.mean(), approx_kl, torch.stack(clipfracs).mean(), explained_var

        return iteration

    def batch(b, n=4):
        orders = [torch.randperm(b * n) for _ in range(2)]
        return (torch.randn(n, b, 4), torch.randint(0, 2, (n, b)), -torch.rand(n, b), torch.randn(n, b), torch.rand(n, b).round(), torch.randn(n, b),
                torch.randn(b, 4), torch.rand(b).round(), orders)

    return Agent(), make, batch


class ContinuousAgent(nn.Module):
    def __init__(self, obs=3, actions=2):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(obs, 16)), nn.Tanh(), layer_init(nn.Linear(16, 1), std=1.0))
        self.actor_mean = nn.Sequential(layer_init(nn.Linear(obs, 16)), nn.Tanh(), layer_init(nn.Linear(16, actions), std=0.01))
        self.actor_logstd = nn.Parameter(torch.zeros(1, actions))

    def get_action_and_value(self, x, action):
        action_mean = self.actor_mean(x)
        action_std = torch.exp(self.actor_logstd.expand_as(action_mean))
        probs = Normal(action_mean, action_std)
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


@case
def cleanrl_ppo_continuous_that_stops_early():
    """An early stop is a weight."""

    def make(agent):
        optimizer = optim.Adam(agent.parameters(), lr=3e-3, eps=1e-3)

        def minibatch(obs, action, logprob, advantages, returns):
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(obs, action)
            logratio = newlogprob - logprob
            ratio = logratio.exp()
            keep = (((ratio - 1) - logratio).mean() < 5.0).float().detach()
            pg_loss = torch.max(-advantages * ratio, -advantages * torch.clamp(ratio, 0.8, 1.2)).mean()
            v_loss = 0.5 * ((newvalue.view(-1) - returns) ** 2).mean()
            loss = keep * (pg_loss - 0.0 * entropy.mean() + v_loss * 0.5)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5, norm_type=2.0)
            optimizer.step()
            return loss

        return minibatch

    return ContinuousAgent(), make, lambda b: (torch.randn(b, 3), torch.randn(b, 2), torch.randn(b), torch.randn(b), torch.randn(b))


class RecurrentAgent(nn.Module):
    """ppo_atari_lstm: uint8 pictures, a recurrent state that is cleared where an episode ended."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(layer_init(nn.Conv2d(1, 4, 3, stride=2)), nn.ReLU(), layer_init(nn.Conv2d(4, 4, 2)), nn.ReLU(), nn.Flatten(),
                                     layer_init(nn.Linear(8, 8)), nn.ReLU())
        self.lstm = nn.LSTM(8, 8)
        for name, param in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.constant_(param, 0)
            elif "weight" in name:
                nn.init.orthogonal_(param, 1.0)
        self.actor = layer_init(nn.Linear(8, 3), std=0.01)
        self.critic = layer_init(nn.Linear(8, 1), std=1)

    def get_states(self, x, lstm_state, done):
        hidden = self.network(x / 255.0)
        batch_size = lstm_state[0].shape[1]
        hidden = hidden.reshape((-1, batch_size, self.lstm.input_size))
        done = done.reshape((-1, batch_size))
        new_hidden = []
        for h, d in zip(hidden, done):
            h, lstm_state = self.lstm(h.unsqueeze(0), ((1.0 - d).view(1, -1, 1) * lstm_state[0], (1.0 - d).view(1, -1, 1) * lstm_state[1]))
            new_hidden += [h]
        return torch.flatten(torch.cat(new_hidden), 0, 1), lstm_state


@case
def cleanrl_ppo_lstm():
    def make(agent):
        optimizer = adam(agent.parameters())

        def update(x, h, c, done, action, returns):
            hidden, state = agent.get_states(x, (h, c), done)
            probs = Categorical(logits=agent.actor(hidden))
            loss = -(probs.log_prob(action) * returns).mean() - 0.01 * probs.entropy().mean() + F.mse_loss(agent.critic(hidden).flatten(), returns)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            return loss, state[0].detach(), state[1].detach()

        return update

    def batch(b, t=3):
        return (torch.randint(0, 256, (t * b, 1, 6, 7), dtype=torch.uint8), torch.randn(1, b, 8), torch.randn(1, b, 8), torch.rand(t * b).round(),
                labels(t * b), torch.randn(t * b))

    return RecurrentAgent(), make, batch


class AuxiliaryAgent(nn.Module):
    """Phasic policy gradients: the value's path into the body is cut in one phase and open in the other."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(layer_init(nn.Linear(5, 16)), nn.ReLU())
        self.actor = layer_init(nn.Linear(16, 3), std=0.01)
        self.critic = layer_init(nn.Linear(16, 1), std=1)
        self.aux_critic = layer_init(nn.Linear(16, 1), std=1)

    def get_pi_value_and_aux_value(self, x):
        hidden = self.network(x)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden.detach()), self.aux_critic(hidden)


@case
def cleanrl_ppg_auxiliary_phase():
    def make(agent):
        optimizer = adam(agent.parameters())

        def auxiliary(obs, old_logits, returns):
            for _ in range(2):
                old_agent_policy = Categorical(logits=old_logits)
                new_pi, new_values, new_aux_values = agent.get_pi_value_and_aux_value(obs)
                kl_loss = torch.distributions.kl_divergence(old_agent_policy, new_pi).mean()
                real_value_loss = 0.5 * ((new_values.view(-1) - returns) ** 2).mean()
                aux_value_loss = 0.5 * ((new_aux_values.view(-1) - returns) ** 2).mean()
                loss = (aux_value_loss + 1.0 * kl_loss + real_value_loss) / 2
                loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
            return kl_loss

        return auxiliary

    return AuxiliaryAgent(), make, lambda b: (torch.randn(b, 5), torch.randn(b, 3), torch.randn(b))


class CategoricalMasked(Categorical):
    def __init__(self, logits, masks):
        self.masks = masks.bool()
        super().__init__(logits=torch.where(self.masks, logits, torch.tensor(-1e8)))

    def entropy(self):
        p_log_p = self.logits * self.probs
        p_log_p = torch.where(self.masks, p_log_p, torch.tensor(0.0))
        return -p_log_p.sum(-1)


@case
def several_discrete_actions_with_masks():
    nvec = (3, 4, 2)

    def make(net):
        optimizer = adam(net.parameters())

        def update(x, action, masks, advantages):
            split_logits = torch.split(net(x), nvec, dim=1)
            split_masks = torch.split(masks, nvec, dim=1)
            dists = [CategoricalMasked(logits, m) for logits, m in zip(split_logits, split_masks)]
            logprob = torch.stack([d.log_prob(a) for a, d in zip(action.T, dists)]).sum(0)
            entropy = torch.stack([d.entropy() for d in dists]).sum(0)
            loss = -(advantages * logprob).mean() - 0.05 * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return update

    def batch(b):
        action = torch.stack([torch.randint(0, n, (b,)) for n in nvec], 1)
        masks = torch.cat([F.one_hot(a, n) for a, n in zip(action.T, nvec)], 1) | (torch.rand(b, sum(nvec)) > 0.5)
        return torch.randn(b, 6), action, masks.bool(), torch.randn(b)

    return nn.Sequential(layer_init(nn.Linear(6, 16)), nn.Tanh(), layer_init(nn.Linear(16, 9), std=0.5)), make, batch


@case
def cleanrl_rnd():
    """Curiosity about a random net: a predictor of its features, for a part of the examples."""

    def make(net):
        optimizer = adam([p for p in net.parameters() if p.requires_grad])

        def update(obs, mean, var, returns, chosen):
            normalised = ((obs - mean) / torch.sqrt(var)).clip(-5, 5)
            predict, target = net.predictor(normalised), net.target(normalised)
            forward_loss = F.mse_loss(predict, target.detach(), reduction="none").mean(-1)
            mask = (chosen < 0.25).type(torch.FloatTensor)
            forward_loss = (forward_loss * mask).sum() / torch.max(mask.sum(), torch.tensor([1], dtype=torch.float32))
            h = net.body(obs)
            ext, intrinsic = net.critic_ext(net.extra(h) + h), net.critic_int(net.extra(h) + h)
            v_loss = 0.5 * ((ext.view(-1) - returns) ** 2).mean() + 0.5 * ((intrinsic.view(-1) - predict.detach().sum(1)) ** 2).mean()
            loss = v_loss + forward_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return update

    feature = lambda: nn.Sequential(layer_init(nn.Linear(4, 8)), nn.LeakyReLU(), layer_init(nn.Linear(8, 5)))  # noqa: E731
    net = Fn(None, predictor=feature(), target=feature(), body=nn.Sequential(layer_init(nn.Linear(4, 8)), nn.ReLU()),
             extra=nn.Sequential(layer_init(nn.Linear(8, 8), std=0.1), nn.ReLU()), critic_ext=layer_init(nn.Linear(8, 1), std=0.01),
             critic_int=layer_init(nn.Linear(8, 1), std=0.01))
    for param in net.target.parameters():
        param.requires_grad = False
    return net, make, lambda b: (torch.randn(b, 4), torch.randn(4), torch.rand(4) + 0.5, torch.randn(b), torch.rand(b) * 0.5)
