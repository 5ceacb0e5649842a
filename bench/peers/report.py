#!/usr/bin/env python3
"""Makes docs/peers.md, its plots and the table of README.md from the results of compare.py and cold.py.

usage: report.py RESULTS.json DOCS_FOLDER
"""
import json
import math
import pathlib
import sys

from compare import BATCHES, GROUPS, WIDTHS

NAMES = {"windrow": "Windrow", "torch": "PyTorch", "compile": "torch.compile", "jax": "JAX jit", "mlx": "MLX", "tinygrad": "tinygrad"}
COLOURS = {"windrow": "#2f6fde", "torch": "#d9822b", "jax": "#2a9d6f", "compile": "#b2508f", "mlx": "#8a6d3b", "tinygrad": "#5b6b7a"}
WHAT = {
    "dqn_step_b64": "dueling double DQN step, batch 64", "dqn_act_b1": "the same net on one state",
    "plain_mlp_144_128_64_6_b64": "MLP 144-128-64-6 step, MSE, batch 64",
    "plain_mlp_784_128_10_b64": "MLP 784-128-10 step, MSE, batch 64", "mlp_step_b64": "MLP 784-128-10 step, cross entropy, batch 64",
    "cnn_step_b64": "CNN step, two convolutions, 28x28, batch 64", "einsum_rule256": "a tensor-logic rule, 256 x 256",
    "matmul1000_f32": "matrix product 1000 x 1000, f32", "matmul1000_f64": "matrix product 1000 x 1000, f64",
    "matmul_64x144x128_f32": "matrix product 64 x 144 x 128", "matmul_32x784x128_f32": "matrix product 32 x 784 x 128",
    "add1M": "add, 1M elements", "relu1M": "relu, 1M", "exp1M": "exp, 1M", "tanh1M": "tanh, 1M", "sum1M": "sum, 1M",
    "softmax1024": "softmax, 1024 x 1024", "fused_relu_mul_add_tanh1M": "tanh(relu(x) y + 0.5), 1M", "adam1M": "Adam, 1M parameters",
    "sgd1M": "SGD, 1M parameters",
    "recommender_step_b512": "recommender, two tables of 10,000 rows, dense Adam, batch 512",
    "sparse_recommender_step_b512": "the same, SparseAdam", "wide_step_b32": "MLP of two layers of 2048, batch 32",
    "autoencoder_step_b128": "autoencoder 784-512-256-64-..., batch 128",
    "resnet_step_b8": "ResNet with batch norm, 32x32, batch 8", "gpt_step_b8": "GPT, 4 layers of 128, 64 positions, batch 8",
    "transformer_step_b16": "transformer block of 128, 64 positions, batch 16",
    "attention_step_b1": "attention, 4 heads of 64, 4096 positions, forward and back",
    "lstm_step_b32": "LSTM of 128, 50 steps, batch 32", "gru_step_b32": "GRU of 128, 50 steps, batch 32",
    "bilstm_step_b32": "LSTM, two layers, both directions, batch 32", "ppo_step_b64": "PPO update, 256-256, batch 64",
    "sac_step_b256": "SAC update, 256-256, batch 256", "wgan_step_b64": "WGAN with gradient penalty, batch 64",
    "vae_step_b128": "VAE 784-400-20, batch 128", "unet_step_b4": "U-Net of two levels, 32x32, batch 4",
    "logic_ca_checkerboard_update": "automaton of logic gates, 16x16 cells, 20 steps, batch 2",
}
README = {
    "dqn_step_b64": "dueling double DQN, layer norm, Huber, Adam", "dqn_act_b1": "the same net on one state",
    "plain_mlp_144_128_64_6_b64": "MLP 144-128-64-6, MSE, Adam", "plain_mlp_784_128_10_b64": "MLP 784-128-10, MSE, Adam",
    "mlp_step_b64": "MLP 784-128-10, cross entropy, Adam", "cnn_step_b64": "CNN, two convolutions, 28x28",
    "dqn_step_w1024_b64": "the DQN step, width 1024 instead of 128", "mlp_step_b4096": "MLP 784-128-10, batch 4096",
    "matmul1000_f32": "matrix product 1000 x 1000, f32", "adam1M": "Adam on 1M parameters",
}
BEGIN, END = "<!-- the table is made by make bench-peers -->\n", "<!-- end of the table -->"
SWEEPS = [
    ("batch-mlp", "MLP 784-128-10 step, cross entropy, Adam", "batch", [(b, f"mlp_step_b{b}") for b in BATCHES]),
    ("batch-dqn", "Dueling double DQN step, width 128", "batch", [(b, f"dqn_step_b{b}") for b in BATCHES]),
    ("width-mlp", "MLP 784-width-10 step, MSE, Adam, batch 64", "width", [(w, f"plain_mlp_784_{w}_10_b64") for w in WIDTHS]),
    ("width-dqn", "Dueling double DQN step, batch 64", "width",
     [(w, "dqn_step_b64" if w == 128 else f"dqn_step_w{w}_b64") for w in WIDTHS]),
]


def cell(row, peer):
    if peer not in row:
        return "-"
    us, ours = row[peer]["best_us"], row["windrow"]["best_us"]
    text = f"{us:.3g}" if us < 1000 else f"{us:.0f}"
    return text if peer == "windrow" else f"{text} ({us / ours:.2g}x)"


def table(head, cases, results, peers, label):
    shown = [p for p in peers if any(p in results.get(c, {}) for c in cases)]
    lines = [f"| {head} | " + " | ".join(NAMES[p] for p in shown) + " |", "|---|" + "---|" * len(shown)]
    for case in cases:
        if "windrow" in results.get(case, {}):
            lines.append(f"| {label(case)} | " + " | ".join(cell(results[case], p) for p in shown) + " |")
    return "\n".join(lines)


def plot(title, axis, points, results, peers):
    """Microseconds a step, both axes logarithmic."""
    width, height, left, right, top, bottom = 560, 300, 58, 110, 34, 40
    drawn = {p: [(x, results[c][p]["best_us"]) for x, c in points if p in results.get(c, {})] for p in peers}
    values = [y for line in drawn.values() for _, y in line]
    if not values:
        return None
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))
    x0, x1 = points[0][0], points[-1][0]
    X = lambda x: left + math.log(x / x0) / math.log(x1 / x0) * (width - left - right)
    Y = lambda y: height - bottom - math.log(y / low) / math.log(high / low) * (height - bottom - top)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" '
           f'font-size="11" fill="#444"><rect width="{width}" height="{height}" fill="#fff"/>'
           f'<text x="{left}" y="18" font-size="13" font-weight="600">{title}</text>']
    y = low
    while y <= high * 1.001:
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{Y(y):.1f}" y2="{Y(y):.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{Y(y) + 4:.1f}" text-anchor="end">{y:,.0f} us</text>')
        y *= 10
    for x, _ in points:
        out.append(f'<text x="{X(x):.1f}" y="{height - bottom + 16}" text-anchor="middle">{x}</text>')
    out.append(f'<text x="{width - right + 8}" y="{height - bottom + 16}">{axis}</text>')
    labels = sorted((Y(line[-1][1]), p) for p, line in drawn.items() if line)
    at = {}
    for y, p in labels:
        at[p] = max(y, max(at.values(), default=-99) + 14)
    for peer, line in drawn.items():
        if line:
            path = " ".join(f"{X(x):.1f},{Y(y):.1f}" for x, y in line)
            out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[peer]}" stroke-width="2"/>')
            out += [f'<circle cx="{X(x):.1f}" cy="{Y(y):.1f}" r="3" fill="{COLOURS[peer]}"><title>{x}: {y:.1f} us</title></circle>'
                    for x, y in line]
            out.append(f'<text x="{width - right + 8}" y="{at[peer] + 4:.1f}" fill="{COLOURS[peer]}">{NAMES[peer]}</text>')
    return "".join(out) + "</svg>\n"


def put_into_readme(readme, results, whole):
    """Between the two marks: what was measured, on what, when."""
    text = readme.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"report: {readme} has no marks for the table")
    machine, versions = whole["machine"], whole["versions"]
    made = (f"{BEGIN}Best microseconds a step, taking turns with the peers on the same machine ({machine['cores']} cores, {machine['cpu']},\n"
            f"{machine['date']}, {', '.join(versions[p] for p in ('torch', 'jax') if p in versions)}; a peer's figure is its better one of "
            f"one and {machine['cores']} cores):\n\n"
            + table("step (batch 64)", README, results, ["windrow", "jax", "torch"], README.get) + "\n")
    before, rest = text.split(BEGIN, 1)
    readme.write_text(before + made + END + rest.split(END, 1)[1])


def behind(results, cases):
    """(case, peer, ratio) wherever a peer is ahead of us."""
    found = []
    for case in cases:
        row = results.get(case, {})
        if "windrow" not in row:
            continue
        for peer in NAMES:
            if peer != "windrow" and peer in row and row[peer]["best_us"] < row["windrow"]["best_us"]:
                found.append((case, peer, row[peer]["best_us"] / row["windrow"]["best_us"]))
    return found


def main():
    results_file, docs = sys.argv[1], pathlib.Path(sys.argv[2])
    whole = json.loads(pathlib.Path(results_file).read_text())
    results, machine = whole["cases"], whole["machine"]
    peers = list(NAMES)
    out = [f"""# Beside other frameworks

Best microseconds a call (less is better), Windrow and the peers taking turns on the same machine; in brackets how many times
longer the peer takes. A peer's figure is the better one of one and {machine['cores']} cores. Every process does the same work: same
sizes, f32, the loss computed, Adam with bias correction; the scripts in `bench/peers/` say exactly what.

Machine: {machine['cpu']}, {machine['cores']} cores, {machine['system']}; {machine['date']}.
Peers: {', '.join(dict.fromkeys(whole['versions'].values()))}.
Measured with `{whole['method']}` for each case: figures of one run of the page; expect 10 to 30 % between runs on a shared machine.

All of this page is made by

    make bench-peers

which installs the peers into `bench/peers/venv` once, measures, and writes `bench/peers/results.json`, this page and its plots.
The commands under the tables make one part again.

## Training steps

{table("step", GROUPS["main"], results, peers, lambda c: WHAT[c])}

    bench/peers/compare.py --group main --peers torch,compile,jax,mlx,tinygrad

## Other models

Whole training steps of nets that nothing was tuned for, in one size each; other sizes by name (`windrow bench --list`).

{table("step", GROUPS["models"], results, peers, lambda c: WHAT[c])}

    bench/peers/compare.py --group models --peers torch,compile,jax

## Kernels

{table("kernel", GROUPS["kernels"], results, ["windrow", "torch", "jax"], lambda c: WHAT[c])}

    bench/peers/compare.py --group kernels

A kernel alone is where frameworks differ least: all are near what memory or arithmetic allow. PyTorch and Windrow write into an
array that exists; JAX returns a new one.
"""]
    for heading, group, command in (("Batch sizes", "batch", "batch"), ("Widths", "width", "width")):
        out.append(f"## {heading}\n")
        for name, title, axis, points in SWEEPS:
            if axis != group:
                continue
            picture = plot(title, axis, points, results, ["windrow", "torch", "jax"])
            if picture is None:
                continue
            (docs / f"peers-{name}.svg").write_text(picture)
            label = {c: str(x) for x, c in points}
            out.append(f"![{title}](peers-{name}.svg)\n\n**{title}**\n")
            out.append(table(axis, [c for _, c in points], results, ["windrow", "torch", "jax"], label.get) + "\n")
        out.append(f"    bench/peers/compare.py --group {command}\n")
    if "cold" in whole:
        out.append("## Starting, memory, size\n\n| | process start to end of first DQN step | of which building and compiling the "
                   "step | peak memory | installed |\n|---|---|---|---|---|")
        for name, row in whole["cold"].items():
            out.append(f"| {NAMES[name]} | {row['seconds'] * 1e3:.0f} ms | {row['compile_ms']:.0f} ms | {row['peak_mb']:.0f} MB | "
                       f"{row['installed_mb']:.0f} MB |")
        out.append("\n    bench/peers/cold.py\n\nInstalled: what pip puts on the disk for the framework and all it needs; for "
                   "Windrow the program, which holds the library (it uses libfmt, libhwy and zlib besides).\n")
    slow = behind(results, [c for group in GROUPS.values() for c in group] + [c for s in SWEEPS for _, c in s[3]])
    out.append("## Where we are not ahead\n")
    if slow:
        out += [f"- {case}: {NAMES[peer]} takes {ratio:.2f} of our time" for case, peer, ratio in sorted(set(slow), key=lambda s: s[2])]
    else:
        out.append("In no case of this page.")
    reasons = docs / "peers-notes.md"
    if reasons.exists():
        out.append("\n" + reasons.read_text().strip())
    (docs / "peers.md").write_text("\n".join(out) + "\n")
    put_into_readme(docs.parent / "README.md", results, whole)
    print(f"wrote {docs}/peers.md and the table of README.md")


if __name__ == "__main__":
    main()
