"""Values and controls as CleanRL, PyMARL and offline agents have them: more cases for test_models.py."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from models import Fn, case
from torch.distributions.categorical import Categorical
from wild_agents import adam, layer_init


# ---- values ----------------------------------------------------------------------------------------------------------
class C51(nn.Module):
    def __init__(self, n_atoms=11, v_min=-5, v_max=5):
        super().__init__()
        self.n_atoms, self.n = n_atoms, 3
        self.register_buffer("atoms", torch.linspace(v_min, v_max, steps=n_atoms))
        self.network = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, self.n * n_atoms))

    def get_action(self, x, action=None):
        logits = self.network(x)
        pmfs = torch.softmax(logits.view(len(x), self.n, self.n_atoms), dim=2)
        q_values = (pmfs * self.atoms).sum(2)
        if action is None:
            action = torch.argmax(q_values, 1)
        return action, pmfs[torch.arange(len(x)), action]


@case
def cleanrl_c51():
    """The projection row by row, with index_add_ on views, as the script has it."""

    def make(net):
        q_network, target_network = net.q, net.target
        optimizer = adam(q_network.parameters())

        def update(observations, actions, rewards, next_observations, dones):
            with torch.no_grad():
                _, next_pmfs = target_network.get_action(next_observations)
                next_atoms = rewards + 0.99 * target_network.atoms * (1 - dones)
                delta_z = target_network.atoms[1] - target_network.atoms[0]
                tz = next_atoms.clamp(-5, 5)
                b = (tz - -5) / delta_z
                lower = b.floor().clamp(0, 10)
                u = b.ceil().clamp(0, 10)
                d_m_l = (u + (lower == u).float() - b) * next_pmfs
                d_m_u = (b - lower) * next_pmfs
                target_pmfs = torch.zeros_like(next_pmfs)
                for i in range(target_pmfs.size(0)):
                    target_pmfs[i].index_add_(0, lower[i].long(), d_m_l[i])
                    target_pmfs[i].index_add_(0, u[i].long(), d_m_u[i])
            _, old_pmfs = q_network.get_action(observations, actions.flatten())
            loss = (-(target_pmfs * old_pmfs.clamp(min=1e-5, max=1 - 1e-5).log()).sum(-1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss, (old_pmfs * q_network.atoms).sum(1).mean()

        return update

    return Fn(None, q=C51(), target=C51()), make, lambda b: (torch.randn(b, 4), torch.randint(0, 3, (b, 1)), torch.randn(b, 1) * 3, torch.randn(b, 4),
                                                              torch.rand(b, 1).round())


@case
def cleanrl_qdagger():
    """Values learned beside a teacher's, uint8 pictures, targets copied by state_dict outside, softly inside."""

    def pictures():
        return nn.Sequential(nn.Conv2d(2, 4, 3, stride=2), nn.ReLU(), nn.Conv2d(4, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))

    def make(net):
        q_network, target_network, teacher_model = net.q, net.target, net.teacher
        optimizer = adam(q_network.parameters())

        def kl_divergence_with_logits(target_logits, prediction_logits):
            out = -F.softmax(target_logits, dim=-1) * (F.log_softmax(prediction_logits, dim=-1) - F.log_softmax(target_logits, dim=-1))
            return torch.sum(out)

        def update(observations, actions, rewards, next_observations, dones, distill_coeff):
            with torch.no_grad():
                target_max, _ = target_network(next_observations / 255.0).max(dim=1)
                td_target = rewards.flatten() + 0.99 * target_max * (1 - dones.flatten())
                teacher_q_values = teacher_model(observations / 255.0)
            student_q_values = q_network(observations / 255.0)
            old_val = student_q_values.gather(1, actions).squeeze()
            q_loss = F.mse_loss(td_target, old_val)
            distill_loss = torch.mean(kl_divergence_with_logits(teacher_q_values / 1.0, student_q_values / 1.0))
            loss = q_loss + distill_coeff * distill_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for target_param, q_param in zip(target_network.parameters(), q_network.parameters()):
                target_param.data.copy_(0.1 * q_param.data + (1.0 - 0.1) * target_param.data)
            return loss

        return update

    def batch(b):
        frames = lambda: torch.randint(0, 256, (b, 2, 6, 7), dtype=torch.uint8)  # noqa: E731
        return frames(), torch.randint(0, 3, (b, 1)), torch.randn(b, 1), frames(), torch.rand(b, 1).round(), torch.rand(())

    return Fn(None, q=pictures(), target=pictures(), teacher=pictures()), make, batch


@case
def parallel_q_network():
    """PQN: layer norms in place of a target net, Q(lambda) over a rollout, RAdam."""

    def make(net):
        optimizer = optim.RAdam(net.parameters(), lr=1e-2, eps=1e-3)

        def update(obs, actions, rewards, dones, next_obs):
            num_steps = rewards.shape[0]
            with torch.no_grad():
                values = net(obs).max(-1).values
                returns = torch.zeros_like(rewards)
                for t in reversed(range(num_steps)):
                    if t == num_steps - 1:
                        next_value, _ = torch.max(net(next_obs), dim=-1)
                        returns[t] = rewards[t] + 0.99 * next_value * (1.0 - dones[t])
                    else:
                        returns[t] = rewards[t] + 0.99 * (0.65 * returns[t + 1] + (1 - 0.65) * values[t + 1]) * (1.0 - dones[t])
            old_val = net(obs.flatten(0, 1)).gather(1, actions.reshape(-1, 1)).squeeze()
            loss = F.mse_loss(returns.view(-1), old_val)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            optimizer.step()
            return loss

        return update

    net = nn.Sequential(layer_init(nn.Linear(4, 12)), nn.LayerNorm(12), nn.ReLU(), layer_init(nn.Linear(12, 12)), nn.LayerNorm(12), nn.ReLU(),
                        layer_init(nn.Linear(12, 3)))
    return net, make, lambda b: (torch.randn(3, b, 4), torch.randint(0, 3, (3, b)), torch.randn(3, b), torch.rand(3, b).round(), torch.randn(b, 4))


class Mixer(nn.Module):
    """QMIX's: weights that a net makes of the state, positive ones."""

    def __init__(self, agents=3, state=5, embed=4):
        super().__init__()
        self.n_agents, self.embed_dim, self.state_dim = agents, embed, state
        self.hyper_w_1 = nn.Sequential(nn.Linear(state, 8), nn.ReLU(), nn.Linear(8, embed * agents))
        self.hyper_w_final = nn.Linear(state, embed)
        self.hyper_b_1 = nn.Linear(state, embed)
        self.V = nn.Sequential(nn.Linear(state, embed), nn.ReLU(), nn.Linear(embed, 1))

    def forward(self, agent_qs, states):
        bs = agent_qs.size(0)
        states = states.reshape(-1, self.state_dim)
        agent_qs = agent_qs.view(-1, 1, self.n_agents)
        w1 = torch.abs(self.hyper_w_1(states)).view(-1, self.n_agents, self.embed_dim)
        b1 = self.hyper_b_1(states).view(-1, 1, self.embed_dim)
        hidden = F.elu(torch.bmm(agent_qs, w1) + b1)
        w_final = torch.abs(self.hyper_w_final(states)).view(-1, self.embed_dim, 1)
        y = torch.bmm(hidden, w_final) + self.V(states).view(-1, 1, 1)
        return y.view(bs, -1, 1)


class RnnAgent(nn.Module):
    def __init__(self, inputs=6, hidden=8, actions=3):
        super().__init__()
        self.fc1, self.rnn, self.fc2 = nn.Linear(inputs, hidden), nn.GRUCell(hidden, hidden), nn.Linear(hidden, actions)

    def init_hidden(self):
        return self.fc1.weight.new(1, 8).zero_()

    def forward(self, inputs, hidden_state):
        x = F.relu(self.fc1(inputs))
        h = self.rnn(x, hidden_state.reshape(-1, 8))
        return self.fc2(h), h


@case
def pymarl_qmix():
    """Agents with a memory over time, masks of actions and of episodes' ends, double Q, RMSprop."""

    def make(net):
        params = list(net.agent.parameters()) + list(net.mixer.parameters())
        optimiser = optim.RMSprop(params=params, lr=5e-3, alpha=0.99, eps=1e-2)

        def values(agent, obs):
            b, t = obs.shape[:2]
            hidden, out = agent.init_hidden().unsqueeze(0).expand(b, 3, -1), []
            for i in range(t):
                q, hidden = agent(obs[:, i].reshape(b * 3, -1), hidden)
                out.append(q.view(b, 3, -1))
            return torch.stack(out, dim=1)

        def train(obs, state, actions, avail, rewards, terminated, mask):
            mac_out = values(net.agent, obs)
            chosen = torch.gather(mac_out[:, :-1], dim=3, index=actions).squeeze(3)
            target_mac_out = values(net.target_agent, obs)[:, 1:]
            target_mac_out[avail[:, 1:] == 0] = -9999999
            mac_out_detach = mac_out.clone().detach()
            mac_out_detach[avail == 0] = -9999999
            cur_max_actions = mac_out_detach[:, 1:].max(dim=3, keepdim=True)[1]
            target_max = torch.gather(target_mac_out, 3, cur_max_actions).squeeze(3)
            chosen = net.mixer(chosen, state[:, :-1])
            target_max = net.target_mixer(target_max, state[:, 1:])
            targets = rewards + 0.99 * (1 - terminated) * target_max
            td_error = chosen - targets.detach()
            masked_td_error = td_error * mask.expand_as(td_error)
            loss = (masked_td_error ** 2).sum() / mask.sum()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(params, 10)
            optimiser.step()
            return loss

        return train

    def batch(b, t=3):
        avail = (torch.rand(b, t + 1, 3, 3) > 0.4).long()
        avail[..., 0] = 1
        return (torch.randn(b, t + 1, 3, 6), torch.randn(b, t + 1, 5), torch.randint(0, 3, (b, t, 3, 1)), avail, torch.randn(b, t, 1), torch.zeros(b, t, 1),
                torch.ones(b, t, 1))

    net = Fn(None, agent=RnnAgent(), mixer=Mixer())
    net.target_agent, net.target_mixer = copy.deepcopy(net.agent), copy.deepcopy(net.mixer)
    return net, make, batch


# ---- continuous control ----------------------------------------------------------------------------------------------
@case
def td3_with_behaviour_cloning():
    """TD3+BC: the critic's scale divides the actor's loss; the actor's step is every second, by a flag of the caller."""

    def make(net):
        actor_optimizer, critic_optimizer = adam(net.actor.parameters()), adam(net.critic.parameters())
        q1 = lambda critic, s, a: critic[0](torch.cat([s, a], 1))  # noqa: E731
        both = lambda critic, s, a: [c(torch.cat([s, a], 1)) for c in critic]  # noqa: E731

        def train(state, action, next_state, reward, not_done, noise):
            with torch.no_grad():
                noise = (noise * 0.2).clamp(-0.5, 0.5)
                next_action = (net.actor_target(next_state) + noise).clamp(-1.0, 1.0)
                target_q = reward + not_done * 0.99 * torch.min(*both(net.critic_target, next_state, next_action))
            current = both(net.critic, state, action)
            critic_loss = F.mse_loss(current[0], target_q) + F.mse_loss(current[1], target_q)
            critic_optimizer.zero_grad()
            critic_loss.backward()
            critic_optimizer.step()
            pi = net.actor(state)
            q = q1(net.critic, state, pi)
            lmbda = 2.5 / q.abs().mean().detach()
            actor_loss = -lmbda * q.mean() + F.mse_loss(pi, action)
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            for source, target in ((net.critic, net.critic_target), (net.actor, net.actor_target)):
                for param, target_param in zip(source.parameters(), target.parameters()):
                    target_param.data.copy_(0.05 * param.data + 0.95 * target_param.data)
            return critic_loss, actor_loss

        return train

    actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2), nn.Tanh())
    critic = nn.ModuleList([nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(2)])
    net = Fn(None, actor=actor, critic=critic, actor_target=copy.deepcopy(actor), critic_target=copy.deepcopy(critic))
    return net, make, lambda b: (torch.randn(b, 3), torch.rand(b, 2) * 2 - 1, torch.randn(b, 3), torch.randn(b, 1), torch.rand(b, 1).round(), torch.randn(b, 2))


@case
def sac_of_discrete_actions():
    """sac_atari: expectations over all actions, a temperature with an optimizer of its own."""

    def make(net):
        q_optimizer = adam(list(net.qf1.parameters()) + list(net.qf2.parameters()), 1e-2)
        actor_optimizer, a_optimizer = adam(list(net.actor.parameters()), 1e-2), adam([net.log_alpha], 1e-2)
        target_entropy = -0.89 * torch.log(1 / torch.tensor(3))

        def policy(x):
            dist = Categorical(logits=net.actor(x))
            return F.log_softmax(net.actor(x), dim=1), dist.probs

        def update(obs, actions, rewards, next_obs, dones):
            alpha = net.log_alpha.exp().detach()
            with torch.no_grad():
                next_log_pi, next_probs = policy(next_obs)
                min_qf_next_target = next_probs * (torch.min(net.qf1_target(next_obs), net.qf2_target(next_obs)) - alpha * next_log_pi)
                next_q_value = rewards.flatten() + (1 - dones.flatten()) * 0.99 * min_qf_next_target.sum(dim=1)
            qf1_a = net.qf1(obs).gather(1, actions.long()).view(-1)
            qf2_a = net.qf2(obs).gather(1, actions.long()).view(-1)
            qf_loss = F.mse_loss(qf1_a, next_q_value) + F.mse_loss(qf2_a, next_q_value)
            q_optimizer.zero_grad()
            qf_loss.backward()
            q_optimizer.step()
            log_pi, probs = policy(obs)
            with torch.no_grad():
                min_qf_values = torch.min(net.qf1(obs), net.qf2(obs))
            actor_loss = (probs * ((alpha * log_pi) - min_qf_values)).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            alpha_loss = (probs.detach() * (-net.log_alpha.exp() * (log_pi + target_entropy).detach())).mean()
            a_optimizer.zero_grad()
            alpha_loss.backward()
            a_optimizer.step()
            return qf_loss, actor_loss, alpha_loss

        return update

    q = lambda: nn.Sequential(layer_init(nn.Linear(4, 12)), nn.ReLU(), layer_init(nn.Linear(12, 3)))  # noqa: E731
    net = Fn(None, qf1=q(), qf2=q(), qf1_target=q(), qf2_target=q(), actor=q(), log_alpha=nn.Parameter(torch.zeros(1)))
    return net, make, lambda b: (torch.randn(b, 4), torch.randint(0, 3, (b, 1)), torch.randn(b, 1), torch.randn(b, 4), torch.rand(b, 1).round())


class EnsembleLinear(nn.Module):
    def __init__(self, members, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs))
        for w in self.weight:
            nn.init.trunc_normal_(w, std=1 / (2 * inputs**0.5))

    def forward(self, x):
        if x.dim() == 2:
            x = x.unsqueeze(0).repeat(self.weight.shape[0], 1, 1)
        return torch.baddbmm(self.bias, x, self.weight)


@case
def ensemble_of_critics():
    """REDQ: ten critics as one product, two of them drawn for the target; EDAC's penalty on gradients that agree."""
    members = 5

    def make(net):
        optimizer = adam(net.critic.parameters())

        def update(state, action, reward, next_state, next_action, chosen):
            with torch.no_grad():
                q_next = net.target(torch.cat([next_state, next_action], -1)).squeeze(-1)
                y = reward + 0.99 * q_next[chosen].min(0).values
            q = net.critic(torch.cat([state, action], -1)).squeeze(-1)
            loss = ((q - y[None]) ** 2).mean(dim=1).sum(dim=0)
            repeated = action.unsqueeze(0).repeat_interleave(members, dim=0).requires_grad_(True)
            q_actions = net.critic(torch.cat([state.unsqueeze(0).expand(members, -1, -1), repeated], -1)).squeeze(-1)
            grads = torch.autograd.grad(q_actions.sum(), repeated, retain_graph=True, create_graph=True)[0]
            grads = grads / (torch.norm(grads, p=2, dim=2).unsqueeze(-1) + 1e-3)
            grads = grads.transpose(0, 1)
            similar = (grads @ grads.permute(0, 2, 1)) * (1 - torch.eye(members).unsqueeze(0))
            loss = loss + 0.1 * similar.sum(dim=(1, 2)).mean() / (members - 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for p, t in zip(net.critic.parameters(), net.target.parameters()):
                    t.lerp_(p, 0.05)
            return loss

        return update

    critic = lambda: nn.Sequential(EnsembleLinear(members, 5, 8), nn.SiLU(), EnsembleLinear(members, 8, 1))  # noqa: E731
    return Fn(None, critic=critic(), target=critic()), make, lambda b: (torch.randn(b, 3), torch.randn(b, 2), torch.randn(b), torch.randn(b, 3),
                                                                        torch.randn(b, 2), torch.randperm(members)[:2])


@case
def adversarial_imitation():
    """GAIL and AIRL: a discriminator with a penalty, whose logits are the reward, and a reward with a shaping term."""

    def make(net):
        optimizer = optim.Adam(net.parameters(), lr=1e-2, betas=(0.5, 0.9), eps=1e-3, weight_decay=1e-3)
        criterion = nn.BCEWithLogitsLoss()

        def logits(state, action, next_state, dones, log_pi):
            rs = net.g(torch.cat([state, action], dim=-1))
            return rs + 0.99 * (1 - dones) * net.h(next_state) - net.h(state) - log_pi

        def update(policy, expert, mix):
            fake, real = logits(*policy), logits(*expert)
            loss = criterion(fake, torch.zeros_like(fake)) + criterion(real, torch.ones((real.size(0), 1)))
            mixed = [(mix * e + (1 - mix) * p).requires_grad_() for p, e in zip(policy[:2], expert[:2])]
            disc = net.g(torch.cat(mixed, 1))
            gradient = torch.autograd.grad(outputs=disc, inputs=mixed, grad_outputs=torch.ones_like(disc), create_graph=True, retain_graph=True, only_inputs=True)
            penalty = 0.5 * (torch.cat(gradient, 1).norm(2, dim=1) - 1).pow(2).mean()
            optimizer.zero_grad(set_to_none=True)
            (loss + penalty).backward()
            optimizer.step()
            with torch.no_grad():
                reward = -F.logsigmoid(-logits(*policy))
                acc = ((fake < 0).float().mean() + (real > 0).float().mean()) / 2
            return loss, reward, acc

        return update

    def batch(b):
        draw = lambda: (torch.randn(b, 4), torch.randn(b, 2), torch.randn(b, 4), torch.rand(b, 1).round(), -torch.rand(b, 1))  # noqa: E731
        return draw(), draw(), torch.rand(b, 1)

    return Fn(None, g=nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1)), h=nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))), make, batch
