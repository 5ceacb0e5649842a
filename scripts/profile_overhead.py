#!/usr/bin/env python3
"""What profiling costs: cases timed with and without WINDROW_PROFILE on one core, in turns, best of all rounds.

usage: scripts/profile_overhead.py [--rounds N] [CASE ...]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = ["dqn_step_b64", "dqn_act_b1", "mlp_step_b64", "cnn_step_b64", "logic_ca_checkerboard_update"]


def best_us(case, profile):
    env = dict(os.environ)
    env.pop("WINDROW_PROFILE", None)
    if profile:
        env["WINDROW_PROFILE"] = profile
    core = str(min(os.sched_getaffinity(0)))
    done = subprocess.run(["taskset", "-c", core, ROOT / "build/windrow", "bench", "--threads", "1", "--json", case], env=env, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"profile_overhead: windrow bench {case} failed:\n{done.stderr}")
    return json.loads(lines[-1])["best_us"]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("cases", nargs="*", default=CASES)
    given = options.parse_args()
    print(f"{'case':32}{'off us':>12}{'on us':>12}{'overhead':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for case in given.cases:
            off = on = float("inf")
            for _ in range(given.rounds):
                off = min(off, best_us(case, None))
                on = min(on, best_us(case, f"{folder}/profile.json"))
            print(f"{case:32}{off:12.2f}{on:12.2f}{100 * (on / off - 1):9.1f} %", flush=True)


if __name__ == "__main__":
    main()
