#!/usr/bin/env python3
"""Missing links of UMLS, Kinships and Nations: by rules and by embeddings, both programs of examples/rules, beside pykeen's ComplEx.

usage: links.py WINDROW [--data umls kinships nations] [--no-peer] [--times 1 10] [--split test|valid]     (make bench-links installs pykeen)
Printed: filtered mean reciprocal rank and hits among the first ten, of both ends of every link of the split, and the seconds of
training; pykeen's ComplEx trains for as long as the slower of the two programs did, reading and compiling not counted."""
import argparse
import importlib.util
import pathlib
import re
import subprocess
import tempfile
import time

import numpy as np

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples/rules"


def triples(data):
    """Each split as rows of head, relation, tail, in numbers; and the names. Read from the package's files: importing it takes long."""
    folder = pathlib.Path(importlib.util.find_spec("pykeen").submodule_search_locations[0]) / "datasets" / data
    text = {s: [line.split("\t") for line in (folder / f"{s}.txt").read_text().splitlines()] for s in ("train", "valid", "test")}
    everything = [row for rows in text.values() for row in rows]
    entities = sorted({row[0] for row in everything} | {row[2] for row in everything})
    relations = sorted({row[1] for row in everything})
    e, r = {n: i for i, n in enumerate(entities)}, {n: i for i, n in enumerate(relations)}
    return {s: np.array([(e[h], r[p], e[t]) for h, p, t in rows]) for s, rows in text.items()}, entities, relations


def tensor_of(rows, entities, relations):
    fact = np.zeros((len(relations), len(entities), len(entities)), dtype=np.float32)
    fact[rows[:, 1], rows[:, 0], rows[:, 2]] = 1
    return fact


def ranks(score, known, rows):
    """Of both ends of each link, among all entities that are not known to be right; equal scores share their ranks."""
    found = []
    for h, r, t in rows:
        for line, right, at in ((score[r, h, :], known[r, h, :], t), (score[r, :, t], known[r, :, t], h)):
            others = line[(right == 0)]
            found.append(1 + (others > line[at]).sum() + (others == line[at]).sum() / 2)
    return np.array(found)


def figures(rank):
    return f"{(1 / rank).mean():.3f} | {100 * (rank <= 10).mean():.1f} %"


def with_sizes(name, sizes):
    text = (EXAMPLES / name).read_text()
    for domain, size in sizes.items():
        text = re.sub(rf"domain {domain} = \d+", f"domain {domain} = {size}", text)
    return text


def windrow(program, name, folder, entities, relations, arrays, written):
    path = folder / name
    path.write_text(with_sizes(name, {"Entity": len(entities), "Relation": len(relations), "Way": 2 * len(relations)}))
    data = []
    for tensor, array in arrays.items():
        np.save(folder / f"{tensor}.npy", array)
        data += ["--data", f"{tensor}={folder}/{tensor}.npy"]
    said = subprocess.run([program, "rules", "train", str(path), *data, "--save", f"{folder}/learned.safetensors"], check=True,
                          text=True, capture_output=True).stdout
    out = [x for tensor in written for x in ("--write", f"{tensor}={folder}/out_{tensor}.npy")]
    subprocess.run([program, "rules", "run", str(path), *data, "--restore", f"{folder}/learned.safetensors", *out], check=True,
                   capture_output=True)
    return [np.load(folder / f"out_{tensor}.npy") for tensor in written], float(re.search(r"steps in ([0-9.]+) s", said)[1])


def print_rules(relations, v, w, two, one, count=5):
    ways = relations + [f"{name}'" for name in relations]
    lines = [(two[r, k] * v[k].max() * w[k].max(), f"{name}(x, z) :- {ways[v[k].argmax()]}(x, y), {ways[w[k].argmax()]}(y, z).")
             for r, name in enumerate(relations) for k in range(len(v))]
    lines += [(one[r, k], f"{name}(x, y) :- {ways[k]}(x, y).") for r, name in enumerate(relations) for k in range(len(ways)) if k != r]
    for weight, text in sorted(lines, reverse=True)[:count]:
        print(f"  {weight:6.2f} :: {text}")


# pykeen's ComplEx as it comes, with one negative sample a link; and with what was best of three settings tried on Kinships:
# all tails at once, their cross entropy, smaller numbers to begin with, a larger rate, no regulariser.
PEERS = {
    "as it comes": dict(loop="slcwa", batch=512, lr=0.01, model={}),
    "all tails at once": dict(loop="lcwa", batch=256, lr=0.05, model=dict(
        loss="crossentropy", regularizer=None, entity_initializer="xavier_uniform", relation_initializer="xavier_uniform")),
}


def complex_of_pykeen(data, split, seconds, dims, loop, batch, lr, model):
    import logging
    import torch
    from pykeen.datasets import get_dataset
    from pykeen.models import ComplEx
    from pykeen.training import training_loop_resolver
    logging.getLogger("pykeen").setLevel(logging.ERROR)
    torch.manual_seed(1)
    dataset = get_dataset(dataset=data)
    model = ComplEx(triples_factory=dataset.training, embedding_dim=dims, random_seed=1, **model)
    loop = training_loop_resolver.make(loop, model=model, triples_factory=dataset.training,
                                       optimizer=torch.optim.Adam(model.parameters(), lr=lr))

    def train(epochs, **more):
        loop.train(triples_factory=dataset.training, num_epochs=epochs, batch_size=batch, use_tqdm=False, pin_memory=False, **more)

    train(1)  # what is made once is not counted
    start, epochs = time.perf_counter(), 1
    while time.perf_counter() - start < seconds:
        epochs += 5
        train(epochs, continue_training=True)  # up to so many; without the last word it would begin anew
    spent = time.perf_counter() - start
    factories = {"train": dataset.training, "valid": dataset.validation, "test": dataset.testing}
    named = {s: f.mapped_triples.numpy() for s, f in factories.items()}
    with torch.no_grad():
        n, m = dataset.num_entities, dataset.num_relations
        score = np.zeros((m, n, n), dtype=np.float32)
        for r in range(m):
            pairs = torch.tensor([(h, r) for h in range(n)])
            score[r] = model.score_t(pairs).numpy()
    known = np.zeros_like(score)
    for each in named.values():
        known[each[:, 1], each[:, 0], each[:, 2]] = 1
    return figures(ranks(score, known, named[split])), spent, epochs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("windrow")
    parser.add_argument("--data", nargs="+", default=["nations", "kinships", "umls"])
    parser.add_argument("--split", default="test", choices=["valid", "test"])
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--times", type=float, nargs="+", default=[1], help="the peer trains so many times as long")
    options = parser.parse_args()
    print("| data | by | MRR | hits@10 | seconds |\n|---|---|---|---|---|", flush=True)
    for data in options.data:
        rows, entities, relations = triples(data)
        train = tensor_of(rows["train"], entities, relations)
        known = tensor_of(np.concatenate(list(rows.values())), entities, relations)
        steps = np.concatenate([train, train.transpose(0, 2, 1)])
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (score, v, w, two, one), by_rules = windrow(
                options.windrow, "links_rules.wr", folder, entities, relations,
                {"Fact": train, "Step": steps, "Has": (steps.max(axis=2) > 0).astype(np.float32)}, ["Score", "V", "W", "Two", "One"])
            print(f"| {data} | rules | {figures(ranks(score, known, rows[options.split]))} | {by_rules:.1f} |", flush=True)
            learned = (relations, v, w, two, one)
            (score,), by_embedding = windrow(options.windrow, "links_embedding.wr", folder, entities, relations, {"Fact": train},
                                             ["Score"])
            print(f"| {data} | embeddings | {figures(ranks(score, known, rows[options.split]))} | {by_embedding:.1f} |", flush=True)
        if not options.no_peer:
            for name, how in PEERS.items():
                for times in options.times:
                    peer, spent, epochs = complex_of_pykeen(data, options.split, times * max(by_rules, by_embedding), 64, **how)
                    print(f"| {data} | pykeen's ComplEx, {name}, {epochs} epochs | {peer} | {spent:.1f} |", flush=True)
        print_rules(*learned)


main()
