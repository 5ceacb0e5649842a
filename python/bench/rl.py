"""Reinforcement learning before and after: returns, microseconds an update (the median), steps a second once updates have begun.

    rl.py run dqn windrow --seed 1 --append rl.jsonl      one run, one line of JSON
    rl.py all --seeds 3 --append rl.jsonl                 all of them; about an hour, with --short half of it
    rl.py table rl.jsonl                                  the lines as a table
    rl.py updates sac td3                                 updates alone, PyTorch and Windrow in turn, the best of each

Programs dqn, ppo, sac and td3 (rl_programs.py) run with torch, with torch.compile and with windrow.torch; sb3_dqn, sb3_ppo, sb3_sac and
sb3_td3 with Stable-Baselines3 (torch), windrow.sb3 and SBX (jax). Needs torch and gymnasium, stable-baselines3, sbx-rl.
"""
import argparse
import json
import os
import statistics
import sys
import time

CARTPOLE = {"DQN": ({"learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "train_freq": 256,
                     "gradient_steps": 128, "target_update_interval": 10, "exploration_fraction": 0.16, "exploration_final_eps": 0.04,
                     "policy_kwargs": {"net_arch": [256, 256]}}, 40_000),
            "PPO": ({"n_steps": 256, "batch_size": 64, "n_epochs": 10, "learning_rate": 1e-3}, 30_000)}
PENDULUM = {"SAC": ({"learning_rate": 1e-3, "learning_starts": 500}, 5_000),
            "TD3": ({"learning_rate": 1e-3, "learning_starts": 500, "batch_size": 256, "policy_kwargs": {"net_arch": [256, 256]}}, 5_000)}
PEERS = {"program": ("torch", "compile", "windrow"), "sb3": ("torch", "windrow", "jax")}
PENDULUMS = ("sac", "td3", "sb3_sac", "sb3_td3")
SHORT = {"dqn": 16_000, "ppo": 30_720, "sac": 3_000, "td3": 3_000, "sb3_dqn": 20_000, "sb3_ppo": 20_000, "sb3_sac": 3_000, "sb3_td3": 3_000}


def run_program(name, peer, seed, steps):
    import torch
    from rl_programs import PROGRAMS, Spent

    if peer == "windrow":
        import windrow as wr

        torch.set_num_threads(1)
    torch.manual_seed(seed)
    program, usual, each = PROGRAMS[name]
    compiler = {"torch": lambda f: f, "compile": torch.compile, "windrow": lambda f: wr.torch.compile(f)}[peer]
    spent = Spent()
    returns = program(compiler, seed, steps or usual, spent)
    return returns, spent.microseconds(), each * spent.updates_per_second(), spent.share()


def first_update(program, steps, compiler):
    """The update of a program and a batch of its own, once compiled; as a function that is one update."""
    from rl_programs import Spent

    class Found(Exception):
        pass

    class Catching(Spent):
        def __call__(self, update, *batch):
            if self.count < self.FIRST:
                return super().__call__(update, *batch)
            raise Found(lambda: (self.ends.append(0.0), update(*batch)))  # TD3 counts its updates

    try:
        program(compiler, 1, steps, Catching())
    except Found as found:
        return found.args[0]
    raise RuntimeError("no update in so few steps")


def updates(names, seconds, threads):
    """Two updates at a time, PyTorch on all cores (or as many as are given) and Windrow in turn. On one thread it is processor time that counts: where
    others use the machine too, it says more."""
    import torch
    import windrow as wr
    from rl_programs import PROGRAMS

    cores = threads or torch.get_num_threads()
    clock = time.process_time if cores == 1 else time.perf_counter
    torch.set_num_threads(cores)
    for name in names:
        program, steps, _ = PROGRAMS[name]
        turns = [(cores, first_update(program, steps, lambda f: f), []), (1, first_update(program, steps, lambda f: wr.torch.compile(f, threads=threads)), [])]
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for threads, update, found in turns:
                torch.set_num_threads(threads)
                for _ in range(4):
                    start = clock()
                    update(), update()
                    found.append((clock() - start) / 2 * 1e6)
        theirs, ours = (min(found) for _, _, found in turns)
        print(f"{name}: PyTorch {theirs:.0f} us an update, Windrow {ours:.0f}: {theirs / ours:.1f}x", flush=True)


def sb3_class(peer, algorithm):
    if peer == "windrow":
        import windrow.sb3 as package
    elif peer == "jax":
        import sbx as package
    else:
        import stable_baselines3 as package
    return getattr(package, algorithm)


def run_sb3(name, peer, seed, steps):
    import numpy as np
    from stable_baselines3.common.noise import NormalActionNoise

    algorithm = name.removeprefix("sb3_").upper()
    environment = "CartPole-v1" if algorithm in CARTPOLE else "Pendulum-v1"
    options, usual = (CARTPOLE if algorithm in CARTPOLE else PENDULUM)[algorithm]
    if algorithm == "TD3":
        options = {**options, "action_noise": NormalActionNoise(np.zeros(1), 0.1 * np.ones(1))}
    if peer != "jax":
        import torch

        options = {**options, "device": "cpu"}
        if peer == "windrow":
            torch.set_num_threads(1)
    model = sb3_class(peer, algorithm)("MlpPolicy", environment, seed=seed, **options)
    train, calls = model.train, []

    def timed(*args, **kwargs):
        start = time.perf_counter()
        train(*args, **kwargs)
        calls.append((start, time.perf_counter(), model.num_timesteps))

    model.train = timed
    model.learn(steps or usual)
    gradient_steps = {"DQN": 128, "PPO": 10 * 256 // 64}.get(algorithm, 1)
    calls = calls[2:]  # the first ones compile
    seconds = statistics.median(end - start for start, end, _ in calls[1:]) / gradient_steps
    span = calls[-1][1] - calls[0][1]
    share = sum(end - start for start, end, _ in calls[1:]) / span
    return [episode["r"] for episode in model.ep_info_buffer], seconds * 1e6, (calls[-1][2] - calls[0][2]) / span, share


def run(name, peer, seed, steps, whole):
    sys.path.insert(0, __file__.rsplit("/", 1)[0])
    start = time.perf_counter()
    returns, update, speed, share = (run_sb3 if name.startswith("sb3_") else run_program)(name, peer, seed, steps)
    last = returns[-5:] if name in PENDULUMS else returns[-20:]  # an episode of Pendulum has 200 steps
    return {"name": name, "peer": peer, "seed": seed, "return": sum(last) / len(last), "us": update, "steps_per_second": speed,
            "share": share, "seconds": time.perf_counter() - start, "whole": whole}


def table(lines):
    """Returns of the whole runs; speeds of those with fewer steps, if there are any."""
    rows = ["| | | return, each seed | us an update | | steps a second | of it updates | whole run |", "|---|---|---|---|---|---|---|---|"]
    for name in dict.fromkeys(line["name"] for line in lines):
        mine = [line for line in lines if line["name"] == name]
        eager = None
        for peer in ("torch", "compile", "jax", "windrow"):
            found = [line for line in mine if line["peer"] == peer]
            if not found:
                continue
            whole = [line["return"] for line in found if line["whole"]]
            timed = [line for line in found if not line["whole"]] or found
            us, speed = min(t["us"] for t in timed), max(t["steps_per_second"] for t in timed)
            eager = us if peer == "torch" else eager
            label = {"torch": "Stable-Baselines3" if name.startswith("sb3_") else "PyTorch", "compile": "torch.compile", "jax": "SBX",
                     "windrow": "**Windrow**"}[peer]
            returns = ", ".join(f"{r:.0f}" for r in whole)
            if len(whole) > 1:
                returns += f" (mean {statistics.mean(whole):.0f})"
            ratio = f"{eager / us:.1f}x" if eager else ""
            share, seconds = statistics.median(t["share"] for t in timed), min(t["seconds"] for t in found)
            rows.append(f"| {name} | {label} | {returns} | {us:.0f} | {ratio} | {speed:.0f} | {share:.0%} | {seconds:.0f} s |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one, every, shown, alone = (commands.add_parser(n) for n in ("run", "all", "table", "updates"))
    alone.add_argument("names", nargs="+")
    alone.add_argument("--seconds", type=float, default=5.0, help="for each")
    alone.add_argument("--threads", type=int, default=0, help="of both; all cores if there is none")
    one.add_argument("name")
    one.add_argument("peer", choices=("torch", "compile", "windrow", "jax"))
    one.add_argument("--seed", type=int, default=1)
    every.add_argument("--seeds", type=int, default=3)
    every.add_argument("--only", nargs="+", choices=SHORT, default=list(SHORT), metavar="NAME")
    for command in (one, every):
        command.add_argument("--steps", type=int, default=0, help="fewer than usual: for the speed alone")
        command.add_argument("--short", action="store_true", help="whole runs, but of fewer steps: " + str(SHORT))
        command.add_argument("--cores", type=int, default=0, help="that every peer may use; threads that wait for one another on a "
                             "machine that others use too say nothing of the programs")
        command.add_argument("--append", help="a file for the lines")
    shown.add_argument("file")
    options = parser.parse_args()
    if getattr(options, "cores", 0):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.cores])
    if options.command == "table":
        with open(options.file) as file:
            print(table([json.loads(line) for line in file]))
        return
    if options.command == "updates":
        sys.path.insert(0, __file__.rsplit("/", 1)[0])
        updates(options.names, options.seconds, options.threads)
        return
    if options.command == "run":
        steps = options.steps or (SHORT[options.name] if options.short else 0)
        record(run(options.name, options.peer, options.seed, steps, not options.steps), options.append)
        return
    import subprocess

    for seed in range(1, options.seeds + 1):  # peers one after the other, so that all of them meet the same neighbours
        for name in options.only:
            for peer in PEERS["sb3" if name.startswith("sb3_") else "program"]:
                if peer == "compile" and (seed > 1 or name in PENDULUMS):  # it compiles for a minute; its returns are PyTorch's
                    continue
                command = [sys.executable, __file__, "run", name, peer, "--seed", str(seed), "--steps", str(options.steps)]
                command += ["--short"] * options.short + (["--append", options.append] if options.append else [])
                subprocess.run(command, check=False)  # in a process of its own: compilers and threads stay apart


def record(line, path):
    print(json.dumps(line), flush=True)
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
