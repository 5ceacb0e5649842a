#!/usr/bin/env python3
"""What starting costs: from an empty process to the end of the first DQN training step; peak memory; installed size.

usage: cold.py [--out FILE.json] [--rounds N]     prints and merges into the file
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import time

from compare import CORES, PEERS, PYTHON, ROOT, HERE

CASE = "dqn_step_b64"


def once(command, feed=None):
    """(seconds, peak MB) of a process that ends after its first step."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               cwd=HERE)
    if feed:
        process.stdin.write(feed)
    process.stdin.close()
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0 or "failed" in out:
        raise RuntimeError(f"{command}: {out[-200:]}")
    answer = json.loads(out.strip().splitlines()[-1])
    return time.perf_counter() - start, usage.ru_maxrss / 1024, answer


def installed_mb(packages):
    """Bytes of the packages and all they need, as pip knows them."""
    seen, todo, files = set(), list(packages), set()
    while todo:
        name = todo.pop()
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        shown = subprocess.run([PYTHON, "-m", "pip", "show", "-f", name], capture_output=True, text=True).stdout
        place = re.search(r"^Location: (.*)$", shown, re.M)
        if not place:
            continue
        todo += [n.strip() for n in re.search(r"^Requires: (.*)$", shown, re.M)[1].split(",") if n.strip()]
        for line in shown.split("Files:\n")[-1].splitlines():
            files.add(os.path.join(place[1], line.strip()))
    return sum(os.path.getsize(f) for f in files if os.path.isfile(f)) / 1e6


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--peers", default="torch,jax,mlx,tinygrad")
    arguments.add_argument("--windrow", default=str(ROOT / "build" / "windrow"))
    options = arguments.parse_args()
    # Each with what a user installs to train: the optimiser library too.
    packages = {"torch": ["torch", "numpy"], "jax": ["jax", "optax"], "mlx": ["mlx", "mlx-cpu"], "tinygrad": ["tinygrad", "numpy"]}
    rows = {}
    windrow = [once([options.windrow, "bench", "--once", CASE]) for _ in range(options.rounds)]
    rows["windrow"] = {"seconds": min(r[0] for r in windrow), "peak_mb": min(r[1] for r in windrow),
                       "compile_ms": min(r[2]["compile_ms"] for r in windrow),
                       "installed_mb": os.path.getsize(options.windrow) / 1e6}
    for peer, names in packages.items():
        if peer not in options.peers.split(","):
            continue
        script, mode = PEERS[peer]
        command = [PYTHON, script, mode, str(CORES)]
        try:
            runs = [once(command, f"{CASE} 0.0001\n") for _ in range(options.rounds)]
        except (RuntimeError, ValueError, IndexError) as problem:
            print(f"# {peer} does not run here: {str(problem)[:120]}")
            continue
        rows[peer] = {"seconds": min(r[0] for r in runs), "peak_mb": min(r[1] for r in runs),
                      "compile_ms": min(r[2]["first_ms"] for r in runs), "installed_mb": installed_mb(names)}
    for name, row in rows.items():
        print(f"{name:<9} first step after {row['seconds'] * 1e3:8.0f} ms, of which building and compiling "
              f"{row['compile_ms']:8.1f} ms; peak {row['peak_mb']:6.0f} MB; installed {row['installed_mb']:7.0f} MB")
    if options.out:
        path = pathlib.Path(options.out)
        whole = json.loads(path.read_text()) if path.exists() else {}
        whole["cold"] = rows
        path.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
