#!/usr/bin/env python3
"""Time to 88 % on Fashion-MNIST: the same recipe in Windrow and in PyTorch, on the same cores.

    python bench/peers/fashion_to_88.py [--windrow build/windrow] [--seeds 3] [--target 0.88] [--net mlp|cnn]

Recipe: the net as `windrow train fashion` has it, batch 64, Adam with lr 1e-3, cross entropy, images standardised,
50,000 images to train on, 10,000 others to check on after every epoch (the checks count as time). Initial values are
drawn alike, and both have the images in memory. Each side runs on one and on two threads; its better one counts.
PyTorch gets its images as float32 tensors, batches by index (no DataLoader) and the fused Adam.
"""
import argparse
import gzip
import json
import pathlib
import statistics
import subprocess
import time

FOLDER = "/usr/share/datasets/fashion-mnist"  # Debian: dataset-fashion-mnist


def images_folder(given):
    for folder in [given or FOLDER]:
        found = list(pathlib.Path(folder).rglob("train-images-idx3-ubyte.gz"))
        if found:
            return found[0].parent
    raise SystemExit("Fashion-MNIST was not found: apt install dataset-fashion-mnist, or --data DIR")


def windrow_seconds(a, folder, seed, threads):
    command = [a.windrow, "train", "fashion", "--net", a.net, "--optim", "adam", "--lr", "0.001", "--schedule",
               "constant", "--smoothing", "0", "--weight-decay", "0", "--augment", "none", "--batch", "64",
               "--validation", "0.16667", "--epochs", str(a.epochs), "--seed", str(seed), "--threads", str(threads),
               "--data", str(folder), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            epoch = json.loads(line)
            if epoch.get("validation_accuracy", 0) >= a.target:
                run.kill()  # a polite end would save the net
                run.stdout.read()
                return epoch["epoch"], epoch["seconds"]
    raise SystemExit(f"windrow did not reach {a.target} in {a.epochs} epochs")


def torch_seconds(a, folder, seed, threads):
    import numpy as np
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    read = lambda name, skip: np.frombuffer(gzip.open(folder / name).read(), np.uint8, offset=skip)
    x = torch.from_numpy(read("train-images-idx3-ubyte.gz", 16).astype(np.float32).reshape(-1, 1, 28, 28) / 255)
    y = torch.from_numpy(read("train-labels-idx1-ubyte.gz", 8).astype(np.int64))
    x = (x - x.mean()) / x.std()
    order = torch.randperm(len(x))
    x_train, y_train, x_check, y_check = x[order[:50000]], y[order[:50000]], x[order[50000:]], y[order[50000:]]
    if a.net == "mlp":
        net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    else:
        net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
                            nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(784, 10))
    for part in net:
        if hasattr(part, "weight"):
            nn.init.kaiming_uniform_(part.weight, nonlinearity="relu")
            nn.init.zeros_(part.bias)
    adam = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    start = time.perf_counter()
    for epoch in range(1, a.epochs + 1):
        order = torch.randperm(len(x_train))
        for at in range(0, len(order) - 63, 64):
            batch = order[at:at + 64]
            adam.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(net(x_train[batch]), y_train[batch]).backward()
            adam.step()
        with torch.no_grad():
            hits = sum((net(x_check[i:i + 1000]).argmax(1) == y_check[i:i + 1000]).sum().item()
                       for i in range(0, 10000, 1000))
        if hits / 10000 >= a.target:
            return epoch, time.perf_counter() - start
    raise SystemExit(f"PyTorch did not reach {a.target} in {a.epochs} epochs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windrow", default="build/windrow")
    parser.add_argument("--net", choices=["mlp", "cnn"], default="mlp")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--target", type=float, default=0.88)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--data", help="folder with the four files")
    a = parser.parse_args()
    folder = images_folder(a.data)
    best, epoch = {}, {}
    print(f"{a.net}, to {100 * a.target:g} % of 10,000 held-out images, median of {a.seeds} seeds")
    for name, seconds in [("windrow", windrow_seconds), ("torch", torch_seconds)]:
        for threads in [1, 2]:
            runs = [seconds(a, folder, seed, threads) for seed in range(a.seeds)]
            middle = statistics.median(s for _, s in runs)
            best[name] = min(best.get(name, middle), middle)
            epoch[name] = min([epoch.get(name, float('inf'))] + [s / e for e, s in runs])
            epochs = ", ".join(f"{s:.2f} s ({e} epochs)" for e, s in runs)
            print(f"{name:8} {threads} thread{'s' * (threads > 1)}: {middle:6.2f} s   {epochs}", flush=True)
    print(f"windrow is there {best['torch'] / best['windrow']:.1f} times as fast; its epoch takes {epoch['windrow']:.2f} s, "
          f"PyTorch's {epoch['torch']:.2f} s: {epoch['torch'] / epoch['windrow']:.1f} times")


if __name__ == "__main__":
    main()
