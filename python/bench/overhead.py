"""What Python costs a call: microseconds from Python, in C++, and the difference. Wants a quiet machine.

usage: overhead.py [torch]
"""
import sys

import numpy as np
import windrow as wr


def best(statement, names, calls=20_000, rounds=9):
    """Microseconds of a statement on local names, the best of some rounds."""
    source = "\n  ".join([f"def f({', '.join(names)}):", "import time", "start = time.perf_counter()", f"for _ in range({calls}): {statement}",
                          "return time.perf_counter() - start"])
    scope = {}
    exec(source, scope)
    return min(scope["f"](*names.values()) for _ in range(rounds)) / calls * 1e6


def show(title, step, *arguments):
    step(*arguments)
    names = {"step": step, **{f"a{i}": a for i, a in enumerate(arguments)}}
    python = best(f"step({', '.join(list(names)[1:])})", names) - best("pass", {})
    inside = step.seconds(*arguments, runs=20_000) * 1e6
    print(f"{title:36} {python:6.2f} us, in C++ {inside:6.2f}, Python {python - inside:5.2f}")


def dqn():
    """The net of the benchmark case dqn_step_b64, as a plain step."""
    make = lambda: wr.nn.Sequential(wr.nn.Dense(144, 128), wr.nn.Relu(), wr.nn.Dense(128, 64), wr.nn.Relu(), wr.nn.Dense(64, 6))  # noqa: E731
    q, target, adam = make(), make(), wr.optim.Adam(lr=1e-3)

    @wr.compile
    def update(o, a, r, o2, d):
        y = wr.stop_gradient(r + 0.99 * (1 - d) * target(o2).max(1))
        loss = wr.loss.huber(wr.take_along(q(o), a.expand_dims(1), 1).squeeze(1), y)
        adam.minimize(loss, q.parameters())
        return loss

    rng = np.random.default_rng(0)
    return update, (rng.normal(size=(64, 144)).astype("f"), rng.integers(0, 6, 64).astype("i"), rng.normal(size=64).astype("f"),
                    rng.normal(size=(64, 144)).astype("f"), np.zeros(64, "f"))


def main():
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    product = wr.compile(lambda x, y: (x * y).sum(), threads=1)
    show("two numpy arrays, a result", product, x, y)
    show("two windrow arrays, a result", product, wr.array(x), wr.array(y))
    state = wr.State(0.0)
    show("two numpy arrays, no result", wr.compile(lambda x, y: state.assign((x * y).sum()), threads=1), x, y)
    update, batch = dqn()
    show("a DQN update, five numpy arrays", update, *batch)
    if "torch" in sys.argv:
        import torch

        torch.set_num_threads(1)
        five = wr.compile(lambda a, b, c, d, e, rate: (a + b + c + d + e).sum() * rate, threads=1)
        show("five torch tensors and a rate", five, *[torch.ones(4) for _ in range(5)], 0.1)
        show("a DQN update, five torch tensors", update, *[torch.from_numpy(a) for a in batch])


main()
