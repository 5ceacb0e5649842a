#!/usr/bin/env python3
"""Seconds an epoch of `windrow train fashion` on one and two threads, and its memory from the first epoch to the last.

    python3 bench/epochs.py [--windrow build/windrow] [--nets mlp cnn] [--epochs 3] [--memory-epochs 50]
"""
import argparse
import json
import subprocess


def epochs_of(a, net, threads, epochs):
    """(seconds of the epoch, resident kB after it), one an epoch; the check on the validation images counts."""
    command = [a.windrow, "train", "fashion", "--net", net, "--epochs", str(epochs), "--threads", str(threads), "--json"]
    rows, before = [], 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            epoch = json.loads(line)
            if "epoch" not in epoch:
                break
            with open(f"/proc/{run.pid}/status") as status:
                resident = next((int(l.split()[1]) for l in status if l.startswith("VmRSS")), None)
            rows.append((epoch["seconds"] - before, resident))
            before = epoch["seconds"]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windrow", default="build/windrow")
    parser.add_argument("--nets", nargs="*", default=["mlp", "cnn"])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--memory-epochs", type=int, default=50)
    a = parser.parse_args()
    for net in a.nets:
        best = [min(s for s, _ in epochs_of(a, net, threads, a.epochs)) for threads in [1, 2]]
        print(f"{net}: {best[0]:.2f} s an epoch on one thread, {best[1]:.2f} s on two: {best[0] / best[1]:.2f} times",
              flush=True)
    if a.memory_epochs:
        memory = [kb for _, kb in epochs_of(a, a.nets[0], 1, a.memory_epochs) if kb]
        print(f"{a.nets[0]}: resident {memory[0]} kB after epoch 1, {memory[-1]} kB after epoch {len(memory)}, "
              f"at most {max(memory)} kB")


if __name__ == "__main__":
    main()
