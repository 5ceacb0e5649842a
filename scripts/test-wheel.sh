#!/usr/bin/env bash
# Installs a wheel into a fresh virtual environment and trains with it. usage: scripts/test-wheel.sh WHEEL
set -euo pipefail
wheel=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check "$wheel"
cd "$folder"  # not where the sources are
megabytes=$(($(stat -c %s "$wheel") / 1000000))
[ "$megabytes" -lt 10 ] || { echo "test-wheel: $megabytes MB, more than 10" >&2; exit 1; }
venv/bin/python -m windrow doctor
venv/bin/python - <<'PYTHON'
import importlib.resources
import subprocess
import sys

import numpy as np
import windrow as wr

installed = subprocess.run([sys.executable, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True).stdout
extra = {line.split("==")[0].lower() for line in installed.split()} - {"windrow", "numpy", "pip", "setuptools"}
assert not extra, f"more than numpy was installed: {extra}"
assert (importlib.resources.files(wr) / "py.typed").is_file() and (importlib.resources.files(wr) / "_core" / "__init__.pyi").is_file()

net, adam = wr.nn.Sequential(wr.nn.Dense(2, 16), wr.nn.Tanh(), wr.nn.Dense(16, 2)), wr.optim.Adam(lr=0.05)


@wr.compile
def train(x, y):
    loss = wr.loss.cross_entropy(net(x), y)
    adam.minimize(loss, net.parameters())
    return loss


x, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32), np.array([0, 1, 1, 0])
losses = [float(train(x, y)) for _ in range(200)]
assert losses[-1] < 0.05 < losses[0], losses[::20]
print(f"trained: loss {losses[0]:.3f} to {losses[-1]:.3f}")
PYTHON
