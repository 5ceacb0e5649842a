#!/usr/bin/env python3
"""Windrow beside its peers on this machine: the same cases, in turns.

usage: compare.py [--peers torch,jax] [--seconds S] [--rounds N] [--out FILE.json] [CASE...]
       compare.py --group main|kernels|models|batch|width ...     the cases that docs/peers.md shows

Every process stays alive; a case is timed by one after the other, `rounds` times. A peer's figure is the better one of
one and all cores. The environment is made by ./setup; PEERS_PYTHON names another interpreter.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PYTHON = os.environ.get("PEERS_PYTHON", str(HERE / "venv" / "bin" / "python"))
CORES = len(os.sched_getaffinity(0))

PEERS = {  # name: [script and its mode]
    "torch": ["torch_peer.py", "eager"],
    "compile": ["torch_peer.py", "compile"],
    "jax": ["jax_peer.py", "jit"],
    "mlx": ["mlx_peer.py", "cpu"],
    "tinygrad": ["tinygrad_peer.py", "cpu"],
}
BATCHES = [1, 4, 16, 64, 256, 1024, 4096]
WIDTHS = [16, 32, 64, 128, 256, 512, 1024]
GROUPS = {
    "main": ["dqn_step_b64", "dqn_act_b1", "plain_mlp_144_128_64_6_b64", "plain_mlp_784_128_10_b64", "mlp_step_b64",
             "cnn_step_b64", "einsum_rule256"],
    "kernels": ["matmul1000_f32", "matmul1000_f64", "matmul_64x144x128_f32", "matmul_32x784x128_f32", "add1M", "relu1M",
                "exp1M", "tanh1M", "sum1M", "softmax1024", "fused_relu_mul_add_tanh1M", "adam1M", "sgd1M"],
    "models": ["recommender_step_b512", "sparse_recommender_step_b512", "wide_step_b32", "autoencoder_step_b128",
               "resnet_step_b8", "gpt_step_b8", "transformer_step_b16", "attention_step_b1", "lstm_step_b32",
               "gru_step_b32",
               "bilstm_step_b32", "ppo_step_b64", "sac_step_b256", "wgan_step_b64", "vae_step_b128", "unet_step_b4",
               "logic_ca_checkerboard_update"],
    "batch": [f"{family}_b{b}" for family in ("mlp_step", "dqn_step") for b in BATCHES],
    "width": [case for w in WIDTHS for case in (f"plain_mlp_784_{w}_10_b64", f"dqn_step_w{w}_b64")],
}


class Server:
    def __init__(self, name, command, cores):
        self.name, self.cores = name, cores
        pin = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if cores == 1 else []
        environment = dict(os.environ, OMP_NUM_THREADS=str(cores), NUM_CPU_THREADS=str(cores),
                           JAX_COMPILATION_CACHE_DIR=str(HERE / "venv" / "jax-cache"),
                           JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
                           JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1")
        self.process = subprocess.Popen(pin + command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment, cwd=HERE)

    def hello(self):
        """The first line, or None where the peer does not run here."""
        return self.answer()

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        return None

    def ask(self, case, seconds):
        try:
            self.process.stdin.write(f"{case} {seconds}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"failed": "the process is gone"}
        return self.answer() or {"failed": "the process is gone: " + self.process.stderr.read()[-200:]}

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def start(windrow, peers):
    """All processes that run here, started together."""
    servers = [Server("windrow", [windrow, "bench", "--serve"], CORES)]
    for peer in peers:
        for cores in sorted({1, CORES}):
            script, mode = PEERS[peer]
            servers.append(Server(peer, [PYTHON, script, mode, str(cores)], cores))
    versions, alive = {}, []
    for server in servers:
        hello = server.hello()
        if hello is None:
            print(f"# {server.name} does not run here: {server.process.stderr.read().strip()[-160:]}", file=sys.stderr)
            continue
        if "version" in hello:
            versions[server.name] = f"{hello['peer']} {hello['version'].split('+')[0]}"
        alive.append(server)
    return alive, versions


def compare(servers, cases, seconds, rounds, watch=print):
    results = {}
    for number, case in enumerate(cases):
        row = results[case] = {}
        for _ in range(rounds):
            for server in servers:
                got = server.ask(case, seconds)
                if "best_us" not in got:
                    if "failed" in got:
                        row.setdefault("failed", {})[server.name] = got["failed"]
                    continue
                old = row.get(server.name)
                if old is None or got["best_us"] < old["best_us"]:
                    row[server.name] = {"best_us": got["best_us"], "us": got["us"], "cores": server.cores}
        watch(f"[{number + 1}/{len(cases)}] {line(case, row)}")
    return results


def line(case, row):
    ours = row.get("windrow", {}).get("best_us")
    text = f"{case:<28} windrow {ours:10.1f}" if ours else f"{case:<28} windrow     failed"
    for peer in PEERS:
        if peer in row:
            ratio = f" ({row[peer]['best_us'] / ours:5.2f}x)" if ours else ""
            text += f"  {peer} {row[peer]['best_us']:10.1f}{ratio}"
    for peer, why in row.get("failed", {}).items():
        text += f"  {peer} failed: {why[:80]}"
    return text


def machine():
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    return {"cpu": cpu, "cores": CORES, "system": f"{platform.system()} {platform.release()}",
            "date": datetime.date.today().isoformat()}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("cases", nargs="*", metavar="CASE")
    arguments.add_argument("--group", choices=sorted(GROUPS), action="append", default=[])
    arguments.add_argument("--peers", default="torch,jax", help="of " + ",".join(PEERS))
    arguments.add_argument("--seconds", type=float, default=0.5, help="for each case, process and round")
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--windrow", default=str(ROOT / "build" / "windrow"))
    arguments.add_argument("--out", help="JSON, merged into what the file has")
    options = arguments.parse_args()
    peers = [p for p in options.peers.split(",") if p]
    if unknown := [p for p in peers if p not in PEERS]:
        arguments.error(f"no peer {unknown[0]}; there are {', '.join(PEERS)}")
    cases = options.cases + [case for group in options.group for case in GROUPS[group]]
    if not cases:
        arguments.error("no case")
    servers, versions = start(options.windrow, peers)
    try:
        results = compare(servers, cases, options.seconds, options.rounds)
    finally:
        for server in servers:
            server.stop()
    if options.out:
        path = pathlib.Path(options.out)
        whole = json.loads(path.read_text()) if path.exists() else {}
        whole.setdefault("machine", {}).update(machine())
        whole.setdefault("versions", {}).update(versions)
        whole["method"] = f"--seconds {options.seconds:g} --rounds {options.rounds}"
        for case, row in results.items():
            whole.setdefault("cases", {}).setdefault(case, {}).update(row)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(whole, indent=1) + "\n")
        temporary.rename(path)
    return any("windrow" not in row for row in results.values())


if __name__ == "__main__":
    sys.exit(main())
