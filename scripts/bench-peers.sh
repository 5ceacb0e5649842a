#!/usr/bin/env bash
# Runs Windrow's benchmark cases beside PyTorch's and JAX's on this machine, and says where a required factor is missed.
# The peers' scripts live outside this repository, in ../shared/peers (or $PEERS). Arguments: CASE=PEER:FACTOR ...
set -euo pipefail
cd "$(dirname "$0")/.."
peers=${PEERS:-../shared/peers}

if [ ! -f "$peers/compare.py" ]; then
  echo "bench-peers: no $peers/compare.py; set PEERS to the folder that has it" >&2
  exit 1
fi
if [ ! -x build/windrow ]; then
  echo "bench-peers: no build/windrow; run 'make build' first" >&2
  exit 1
fi
python=${PEERS_PYTHON:-$(python3 -c 'import tempfile; print(tempfile.gettempdir())')/peers/venv/bin/python}
if [ ! -x "$python" ]; then
  echo "bench-peers: installing the peers (PyTorch, JAX and others: some GB) into a virtual environment"
  "$peers/setup"
fi

if [ $# -eq 0 ]; then
  set -- \
    dqn_step_b64=jax:4,torch:8 dqn_act_b1=jax:10,torch:10 \
    plain_mlp_144_128_64_6_b64=jax:3,torch:3 plain_mlp_784_128_10_b64=jax:3,torch:3 \
    mlp_step_b64=jax:3,torch:3 cnn_step_b64=jax:4,torch:4 einsum_rule256=compile:1.5 \
    matmul1000_f32=best:1 matmul1000_f64=best:1 \
    add1M=best:1 relu1M=best:1 exp1M=best:1 tanh1M=best:1 sum1M=best:1 softmax1024=best:1 \
    fused_relu_mul_add_tanh1M=best:1 adam1M=best:1 sgd1M=best:1
fi
exec python3 "$peers/compare.py" "$@"
