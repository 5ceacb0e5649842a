#!/usr/bin/env python3
"""The sums of digit_sums.py, learned by DeepProbLog and LTNtorch: the same digits, the same split, the same net.

usage: digit_sums_peers.py [--digits 1 2 3] [--seconds S] [--limit S]   (make bench-digit-sums-peers installs both, with torch)
Each trains by passes over its sums until the seconds are over, in a process of its own, which is ended at the limit: a peer may
not finish its first step by then. LTN looks at 10^(2N) ways to make a sum."""
import argparse
import importlib.util
import multiprocessing
import pathlib
import sys
import tempfile
import time

import numpy as np
import torch

sys.argv, given = sys.argv[:1], sys.argv[1:]
path = pathlib.Path(__file__).parent / "digit_sums.py"
source = path.read_text().replace("\nmain()\n", "\n")
shared = {"__file__": str(path)}
exec(compile(source, str(path), "exec"), shared)  # its digits and their order


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def sums(images, labels, places):
    """Numbers with their last digit first, as digit_sums.py has them."""
    count = len(images) // (2 * places)
    images = images[:count * 2 * places].reshape(count, 2, places, -1)
    labels = labels[:count * 2 * places].reshape(count, 2, places)
    return torch.tensor(images), labels, torch.tensor((labels * 10 ** np.arange(places)).sum(axis=(1, 2)))


def right(model, images, labels, places):
    x, wanted, total = sums(images, labels, places)
    with torch.no_grad():
        got = model(x).argmax(dim=-1).numpy()
    return (got * 10 ** np.arange(places)).sum(axis=(1, 2)) == total.numpy(), got == wanted


def train_ltn(images, labels, places, seconds):
    import ltn
    model = net()
    digit = ltn.Predicate(func=lambda x, d: torch.softmax(model(x), dim=1).gather(1, d.long().view(-1, 1)).squeeze(1))
    both = ltn.Connective(ltn.fuzzy_ops.AndProd())
    exists = ltn.Quantifier(ltn.fuzzy_ops.AggregPMean(p=2), quantifier="e")
    forall = ltn.Quantifier(ltn.fuzzy_ops.AggregPMeanError(p=2), quantifier="f")
    satisfied = ltn.fuzzy_ops.SatAgg()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
    x, _, total = sums(images, labels, places)
    shift = [10 ** k for k in range(places)] * 2
    start, batch = time.perf_counter(), {1: 32, 2: 32, 3: 2}.get(places, 1)  # what is held in memory is 10^(2N) numbers for each
    while time.perf_counter() - start < seconds:
        for i in torch.randperm(len(x)).split(batch):
            if time.perf_counter() - start > seconds:
                break
            seen = [ltn.Variable(f"x{k}", x[i, k // places, k % places]) for k in range(2 * places)]
            ways = [ltn.Variable(f"d{k}", torch.arange(10)) for k in range(2 * places)]
            told = ltn.Variable("n", total[i])
            formula = digit(seen[0], ways[0])
            ltn.diag(*seen, told)
            formula = digit(seen[0], ways[0])
            for s, w in zip(seen[1:], ways[1:]):
                formula = both(formula, digit(s, w))
            loss = 1 - satisfied(forall(ltn.diag(*seen, told), exists(
                ways, formula, cond_vars=ways + [told],
                cond_fn=lambda *v: torch.eq(sum(d.value * f for d, f in zip(v[:-1], shift)), v[-1].value))))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model, time.perf_counter() - start


def train_deepproblog(images, labels, places, seconds):
    from deepproblog.dataset import DataLoader, Dataset
    from deepproblog.engines import ExactEngine
    from deepproblog.model import Model
    from deepproblog.network import Network
    from deepproblog.query import Query
    from deepproblog.train import train_model
    from deepproblog.utils.stop_condition import StopCondition
    from problog.logic import Constant, Term, list2term
    x, _, total = sums(images, labels, places)
    flat = x.reshape(len(x), -1, 784)

    class Images:
        def __getitem__(self, item):
            at = int(item[0])
            return flat[at // flat.shape[1], at % flat.shape[1]]

    class Sums(Dataset):
        def __len__(self):
            return len(x)

        def to_query(self, i):
            names = [Term(f"p{k}") for k in range(2 * places)]
            numbers = [Term("tensor", Term("train", n)) for n in names]
            # The first digit comes first there.
            sides = [list2term(numbers[s * places:(s + 1) * places][::-1]) for s in (0, 1)]
            return Query(Term("multi_addition", *sides, Constant(int(total[i]))),
                         substitution={n: Constant(i * 2 * places + k) for k, n in enumerate(names)})

    class Over(StopCondition):
        def is_stop(self, train_object):
            return time.perf_counter() - start > seconds

    folder = pathlib.Path(importlib.util.find_spec("deepproblog").submodule_search_locations[0])
    module = net()
    network = Network(torch.nn.Sequential(module, torch.nn.Softmax(dim=-1)), "mnist_net", batching=True)
    network.optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory() as name:
        program = pathlib.Path(name) / "addition.pl"
        program.write_text((folder / "examples/MNIST/models/addition.pl").read_text())
        model = Model(str(program), [network])
        model.set_engine(ExactEngine(model), cache=True)
        model.add_tensor_source("train", Images())
        start = time.perf_counter()
        train_model(model, DataLoader(Sums(), 2, True), Over(), log_iter=10 ** 9)
    return module, time.perf_counter() - start


def trained(train, places, seconds):
    images, labels = shared["digits"]()
    model, taken = train(images[:4000], labels[:4000], places, seconds)
    of_sums, of_digits = right(model, images[4000:], labels[4000:], places)
    return of_sums.mean(), of_digits.mean(), taken


def main_of_peers():
    parser = argparse.ArgumentParser()
    parser.add_argument("--digits", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--limit", type=float, default=300)
    options = parser.parse_args(given)
    print("| by | digits | sums told | sums right | digits right | seconds |\n|---|---|---|---|---|---|", flush=True)
    for places in options.digits:
        for name, train in (("LTNtorch", train_ltn), ("DeepProbLog", train_deepproblog)):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                try:
                    of_sums, of_digits, seconds = pool.apply_async(trained, (train, places, options.seconds)).get(options.limit)
                except multiprocessing.TimeoutError:
                    print(f"| {name} | {places} | | not one step in {options.limit:g} s | | |", flush=True)
                    continue
                except Exception as error:  # a peer that fails is a row of the table, not its end
                    print(f"| {name} | {places} | | {type(error).__name__}: {error} | | |", flush=True)
                    continue
            print(f"| {name} | {places} | {4000 // (2 * places)} | {100 * of_sums:.1f} % | {100 * of_digits:.1f} % | {seconds:.1f} |",
                  flush=True)


if __name__ == "__main__":
    main_of_peers()
