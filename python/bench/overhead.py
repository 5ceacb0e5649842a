"""What Python costs a call: microseconds from Python, in C++, and the difference. The best of many blocks that are short enough to lie
between two interruptions; a quiet machine is better still.

usage: overhead.py [torch] [PROGRAM]

With the windrow program (build/windrow), its own case dqn_step_b64 is timed too, in turn with the same step from Python.
"""
import json
import subprocess
import sys

import numpy as np
import windrow as wr


def best(statement, names, calls=100, rounds=2_000):
    """Microseconds of a statement on local names, the best of some rounds."""
    source = "\n  ".join([f"def f({', '.join(names)}):", "import time", "start = time.perf_counter()", f"for _ in range({calls}): {statement}",
                          "return time.perf_counter() - start"])
    scope = {}
    exec(source, scope)
    return min(scope["f"](*names.values()) for _ in range(rounds)) / calls * 1e6


def show(title, step, *arguments):
    step(*arguments)
    names = {"step": step, **{f"a{i}": a for i, a in enumerate(arguments)}}
    call = f"step({', '.join(list(names)[1:])})"
    python = best(call, names, rounds=3)
    calls, rounds = (100, 2_000) if python < 20 else (5, 2_000)
    python = best(call, names, calls, rounds) - best("pass", {}, calls, rounds)
    inside = min(step.seconds(*arguments, runs=2_000) for _ in range(20)) * 1e6
    print(f"{title:36} {python:6.2f} us, in C++ {inside:6.2f}, Python {python - inside:5.2f}")


class Dueling(wr.nn.Module):
    """The net of the benchmark case dqn_step_b64."""

    def __init__(self):
        self.f1, self.n1, self.f2, self.n2 = wr.nn.Dense(144, 128), wr.nn.LayerNorm(128), wr.nn.Dense(128, 64), wr.nn.LayerNorm(64)
        self.value, self.advantage = wr.nn.Dense(64, 1), wr.nn.Dense(64, 6)

    def forward(self, x, mode="train"):
        x = wr.relu(self.n1(self.f1(x)))
        x = wr.relu(self.n2(self.f2(x)))
        a = self.advantage(x)
        return self.value(x) + a - a.mean(1, keepdims=True)


def dqn():
    """The benchmark case itself: a dueling double DQN with layer norms, a Huber loss and Adam."""
    online, target, adam = Dueling(), Dueling(), wr.optim.Adam()

    @wr.compile
    def update(s, s2, action, reward, not_done, weight):
        q = wr.take_along(online(s), action, 1)
        best = wr.argmax(wr.stop_gradient(online(s2)), 1, keepdims=True)
        y = wr.stop_gradient(reward + 0.99 * not_done * wr.take_along(target(s2), best, 1))
        loss = (wr.loss.huber(q, y, reduction="none") * weight).mean()
        adam.minimize(loss, online.parameters())
        return loss

    rng = np.random.default_rng(0)
    states = [np.eye(6, dtype="f")[rng.integers(0, 6, (64, 24))].reshape(64, 144) for _ in range(2)]
    return update, (*states, rng.integers(0, 6, (64, 1)).astype("i"), rng.normal(size=(64, 1)).astype("f"), np.ones((64, 1), "f"),
                    np.ones((64, 1), "f"))


def beside_the_program(program, update, batch):
    """The case dqn_step_b64 of the C++ program and the same step from Python, in turn; the best of each."""
    ours, theirs = [], []
    names = {"step": update, **{f"a{i}": a for i, a in enumerate(batch)}}
    for _ in range(5):
        found = subprocess.run([program, "bench", "--json", "--seconds", "0.5", "dqn_step_b64"], capture_output=True, text=True, check=True)
        theirs.append(json.loads(found.stdout.splitlines()[-1])["best_us"])
        ours.append(best(f"step({', '.join(list(names)[1:])})", names, calls=5, rounds=1_000))
    print(f"{'dqn_step_b64, from Python':36} {min(ours):6.2f} us, windrow bench {min(theirs):6.2f}: {min(theirs) / min(ours):.3f} of its speed")


def compiled_torch(torch):
    """A small DQN's update as windrow.torch compiles it, on one thread: its call, the same plan called as a Step, and the plan alone."""
    def net():
        return torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

    online, target = net(), net()
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)

    def update(o, a, r, o2, d):
        with torch.no_grad():
            y = r + 0.99 * (1 - d) * target(o2).max(1).values
        loss = torch.nn.functional.mse_loss(online(o).gather(1, a).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    compiled = wr.torch.compile(update, threads=1)
    batch = [torch.randn(16, 4), torch.randint(0, 2, (16, 1)), torch.randn(16), torch.randn(16, 4), torch.zeros(16)]
    for _ in range(10):
        compiled(*batch)
    names = {"step": compiled, **{f"a{i}": a for i, a in enumerate(batch)}}
    call = f"step({', '.join(list(names)[1:])})"
    python, eager = best(call, names, calls=20), best(call, {**names, "step": update}, calls=1, rounds=500)
    inside = min(compiled.last.step.seconds(*batch, *compiled.known.checks[0], runs=2_000) for _ in range(20)) * 1e6
    print(f"{'wr.torch: a small DQN, five tensors':36} {python:6.2f} us, in C++ {inside:6.2f}, Python {python - inside:5.2f}; torch {eager:6.2f}")


def main():
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    product = wr.compile(lambda x, y: (x * y).sum(), threads=1)
    show("two numpy arrays, a result", product, x, y)
    show("two windrow arrays, a result", product, wr.array(x), wr.array(y))
    state = wr.State(0.0)
    show("two numpy arrays, no result", wr.compile(lambda x, y: state.assign((x * y).sum()), threads=1), x, y)
    update, batch = dqn()
    show("dqn_step_b64, six numpy arrays", update, *batch)
    program = [a for a in sys.argv[1:] if a != "torch"]
    if program:
        beside_the_program(program[0], update, batch)
    if "torch" in sys.argv:
        import torch

        torch.set_num_threads(1)
        five = wr.compile(lambda a, b, c, d, e, rate: (a + b + c + d + e).sum() * rate, threads=1)
        show("five torch tensors and a rate", five, *[torch.ones(4) for _ in range(5)], 0.1)
        show("dqn_step_b64, six torch tensors", update, *[torch.from_numpy(a) for a in batch])
        compiled_torch(torch)


main()
