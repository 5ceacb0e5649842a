#!/usr/bin/env python3
"""Counts the instructions of the main steps with callgrind and compares them with bench/instructions.json: a slow-down is
seen although the machine is noisy. One thread, AVX2 (what valgrind knows), a machine given by name, so that the plan is the same
everywhere.

usage: guard.py [--update] [--tolerance PERCENT] [PROGRAM]      exits 1 if a step takes more instructions than allowed
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE = ROOT / "bench" / "instructions.json"
RUNS = 5
CASES = ["dqn_step_b64", "dqn_act_b1", "plain_mlp_144_128_64_6_b64", "mlp_step_b64", "cnn_step_b64"]


def count(program, case):
    """Instructions of one run of a step."""
    environment = dict(os.environ, WINDROW_SIMD="avx2", WINDROW_THREADS="1", WINDROW_MACHINE="sapphire")
    core = str(min(os.sched_getaffinity(0)))  # one core: the plan is then made for one lane
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["taskset", "-c", core, "valgrind", "--tool=callgrind", "--collect-atstart=no",
             "--toggle-collect=wr::bench::counted_runs*", f"--callgrind-out-file={folder}/out", program, "bench", "--threads",
             "1", "--runs", str(RUNS), case], capture_output=True, text=True, env=environment)
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if done.returncode != 0 or not found or int(found[1]) == 0:
        sys.exit(f"guard: {case}: callgrind failed:\n{done.stderr[-1500:]}")
    return int(found[1]) / RUNS


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--update", action="store_true", help="write what is counted to bench/instructions.json")
    arguments.add_argument("--tolerance", type=float, default=3, help="per cent more than recorded that is still allowed")
    arguments.add_argument("program", nargs="?", default=str(ROOT / "build" / "windrow"))
    options = arguments.parse_args()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        counts = dict(zip(CASES, pool.map(lambda case: count(options.program, case), CASES)))
    if options.update:
        FILE.write_text(json.dumps({"what": "instructions of one run (scripts/guard.py)", "cases": counts}, indent=1) + "\n")
        print(f"wrote {FILE.relative_to(ROOT)}")
    known = json.loads(FILE.read_text())["cases"]
    worse = 0
    for case, now in counts.items():
        if case not in known:
            print(f"{case:<30} {now:14,.0f}   not recorded yet: make guard-update")
            worse += 1
            continue
        change = 100 * (now / known[case] - 1)
        verdict = "TOO MANY" if change > options.tolerance else "fewer: make guard-update" if change < -options.tolerance else "ok"
        worse += verdict == "TOO MANY"
        print(f"{case:<30} {now:14,.0f}   recorded {known[case]:14,.0f}   {change:+6.2f} %   {verdict}")
    print(f"{len(counts) - worse} passed, {worse} failed")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
