#!/usr/bin/env python3
"""What PyTorch computes, for tests/golden_test.cpp: ten training steps of small nets, each optimiser, each loss.

    python scripts/golden.py [FOLDER]       # writes FOLDER/f32.safetensors and f64.safetensors; default tests/golden

Each case "mlp" holds mlp/x and mlp/y (a batch a step), mlp/before/0.w ... and mlp/after/0.w ... (parameters and running
statistics) and mlp/loss (one a step). Parameters have Windrow's names and layouts; PyTorch is used through its
functional interface, on transposed views of them. Images are stored [batch, height, width, channels].
"""
import json
import pathlib
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

STEPS = 10


def save(path, tensors):
    header, blobs, at = {}, [], 0
    names = {"float32": "F32", "float64": "F64", "int32": "I32"}
    for name, value in tensors.items():
        data = np.ascontiguousarray(value).tobytes()
        place = [at, at + len(data)]
        header[name] = {"dtype": names[str(value.dtype)], "shape": list(value.shape), "data_offsets": place}
        at += len(data)
        blobs.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def image(x):  # NHWC to NCHW
    return x.permute(0, 3, 1, 2)


def pixels(x):  # and back
    return x.permute(0, 2, 3, 1)


def dense(p, name, x):
    return F.linear(x, p[name + ".w"].T, p[name + ".b"])


def conv(p, name, x, **options):
    return pixels(F.conv2d(image(x), p[name + ".w"].permute(3, 2, 0, 1), p[name + ".b"], **options))


def recurrent(cell, p, name, x):
    w_x, w_h = p[name + ".w_x"], p[name + ".w_h"]
    b_x = p[name + (".b" if cell is torch.nn.LSTM else ".b_x")]
    b_h = torch.zeros_like(b_x) if cell is torch.nn.LSTM else p[name + ".b_h"]
    net = cell(w_x.shape[0], w_h.shape[0], batch_first=True, dtype=x.dtype)
    weights = {"weight_ih_l0": w_x.T, "weight_hh_l0": w_h.T, "bias_ih_l0": b_x, "bias_hh_l0": b_h}
    return torch.func.functional_call(net, weights, (x,))[0]


# ---- nets: (parameters' shapes, forward) -----------------------------------------------------------------------------
def mlp(p, x):
    return dense(p, "2", torch.relu(dense(p, "0", x)))


def linear(p, x):
    return dense(p, "0", x)


def cnn(p, x):
    x = conv(p, "0", x, padding=1)
    x = pixels(F.max_pool2d(image(torch.relu(x)), 2))
    x = conv(p, "3", x, padding=1)
    x = pixels(F.max_pool2d(image(torch.relu(x)), 2))
    return dense(p, "7", x.flatten(1))


def lstm(p, x):
    return dense(p, "1", recurrent(torch.nn.LSTM, p, "0", x)[:, -1])


def gru(p, x):
    return dense(p, "1", recurrent(torch.nn.GRU, p, "0", x))


def lstm2(p, x):
    x = recurrent(torch.nn.LSTM, p, "0", x)
    return dense(p, "2", recurrent(torch.nn.LSTM, p, "1", x)[:, -1])


def convs(p, x):
    x = torch.tanh(conv(p, "0", x, stride=2))
    x = torch.tanh(conv(p, "2", x, dilation=2, padding=2, groups=2))
    x = pixels(F.conv_transpose2d(image(x), p["4.w"].permute(0, 3, 1, 2), p["4.b"], stride=2))
    return x.mean((1, 2))


def conv1d(p, x):
    w = p["0.w"].permute(2, 1, 0)
    x = torch.relu(F.conv1d(x.transpose(1, 2), w, p["0.b"]))
    x = F.avg_pool1d(x, 2).transpose(1, 2)
    return dense(p, "4", x.flatten(1))


def batchnorm(p, x):
    x = F.batch_norm(dense(p, "0", x), p["1.mean"], p["1.variance"], p["1.scale"], p["1.shift"], training=True)
    return dense(p, "3", torch.relu(x))


def norms(p, x):
    x = pixels(F.group_norm(image(conv(p, "0", x)), 2, p["1.scale"], p["1.shift"]))
    x = pixels(F.instance_norm(image(x), weight=p["2.scale"], bias=p["2.shift"]))
    x = F.layer_norm(x, x.shape[-1:], p["3.scale"], p["3.shift"])
    x = F.rms_norm(x, x.shape[-1:], p["4.scale"], eps=1e-5)
    return dense(p, "6", x.flatten(1))


def attention(p, x):
    x = p["0.w"][x.long()]
    width = x.shape[-1]
    net = torch.nn.MultiheadAttention(width, 2, batch_first=True, dtype=x.dtype)
    weights = {
        "in_proj_weight": torch.cat([p[f"1.{n}.w"].T for n in "qkv"]),
        "in_proj_bias": torch.cat([p[f"1.{n}.b"] for n in "qkv"]),
        "out_proj.weight": p["1.out.w"].T,
        "out_proj.bias": p["1.out.b"],
    }
    hidden = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
    x = torch.func.functional_call(net, weights, (x, x, x), {"need_weights": False, "attn_mask": hidden})[0]
    return dense(p, "3", x.flatten(1))


def activations(p, x):
    x = dense(p, "0", x)
    parts = [F.relu6(x), F.leaky_relu(x, 0.1), F.elu(x), F.softplus(x), F.silu(x), F.gelu(x), torch.sigmoid(x),
             torch.tanh(x), torch.softmax(x, -1), torch.log_softmax(x, -1)]
    return dense(p, "2", torch.cat(parts, -1))


def dense_sizes(i, inputs, outputs):
    return {f"{i}.w": (inputs, outputs), f"{i}.b": (outputs,)}


def norm_sizes(i, n, shift=True):
    return {f"{i}.scale": (n,)} | ({f"{i}.shift": (n,)} if shift else {})


def gru_sizes(i, n, h):
    return {f"{i}.w_x": (n, 3 * h), f"{i}.w_h": (h, 3 * h), f"{i}.b_x": (3 * h,), f"{i}.b_h": (3 * h,)}


def attention_sizes(i, width):
    parts = [dense_sizes(f"{i}.{part}", width, width) for part in ("q", "k", "v", "out")]
    return {name: size for part in parts for name, size in part.items()}


def conv_sizes(i, *shape):
    return {f"{i}.w": shape, f"{i}.b": (shape[-1],)}


def lstm_sizes(i, n, h):
    return {f"{i}.w_x": (n, 4 * h), f"{i}.w_h": (h, 4 * h), f"{i}.b": (4 * h,)}


CNN = conv_sizes(0, 3, 3, 1, 4) | conv_sizes(3, 3, 3, 4, 8) | dense_sizes(7, 72, 5)
CONVS = conv_sizes(0, 3, 3, 2, 4) | conv_sizes(2, 3, 3, 2, 4) | conv_sizes(4, 4, 3, 3, 3)
BATCHNORM = dense_sizes(0, 6, 8) | norm_sizes(1, 8) | {"1.mean": (8,), "1.variance": (8,)} | dense_sizes(3, 8, 5)
NORMS = conv_sizes(0, 3, 3, 2, 4) | norm_sizes(1, 4) | norm_sizes(2, 4) | norm_sizes(3, 4) | norm_sizes(4, 4, False)
NETS = {  # forward, parameters, input without batch, output without batch
    "mlp": (mlp, dense_sizes(0, 12, 16) | dense_sizes(2, 16, 5), (12,), (5,)),
    "linear": (linear, dense_sizes(0, 6, 5), (6,), (5,)),
    "cnn": (cnn, CNN, (12, 12, 1), (5,)),
    "lstm": (lstm, lstm_sizes(0, 6, 8) | dense_sizes(1, 8, 5), (7, 6), (5,)),
    "lstm2": (lstm2, lstm_sizes(0, 4, 5) | lstm_sizes(1, 5, 6) | dense_sizes(2, 6, 5), (4, 4), (5,)),
    "gru": (gru, gru_sizes(0, 6, 8) | dense_sizes(1, 8, 3), (5, 6), (5, 3)),
    "convs": (convs, CONVS, (9, 9, 2), (3,)),
    "conv1d": (conv1d, {"0.w": (3, 3, 4), "0.b": (4,)} | dense_sizes(4, 16, 5), (10, 3), (5,)),
    "batchnorm": (batchnorm, BATCHNORM, (6,), (5,)),
    "norms": (norms, NORMS | dense_sizes(6, 64, 5), (6, 6, 2), (5,)),
    "attention": (attention, {"0.w": (9, 8)} | attention_sizes(1, 8) | dense_sizes(3, 48, 5), (6,), (5,)),
    "activations": (activations, dense_sizes(0, 6, 8) | dense_sizes(2, 80, 5), (6,), (5,)),
}

LOSSES = {
    "mse": F.mse_loss,
    "mse_sum": lambda z, y: F.mse_loss(z, y, reduction="sum"),
    "mae": F.l1_loss,
    "huber": lambda z, y: F.huber_loss(z, y, delta=0.7),
    "labels": F.cross_entropy,
    "labels_smooth": lambda z, y: F.cross_entropy(z, y, label_smoothing=0.1),
    "soft": F.cross_entropy,
    "soft_smooth": lambda z, y: F.cross_entropy(z, y, label_smoothing=0.1),
    "soft_probabilities": lambda z, y: -(y * torch.log(torch.softmax(z, -1).clamp(min=0.05))).sum(-1).mean(),
    "binary": F.binary_cross_entropy_with_logits,
    "kl": lambda z, y: F.kl_div(torch.log_softmax(z, -1), y, reduction="batchmean"),
    "hinge": lambda z, y: torch.clamp(1 - z * y, min=0).mean(),
}


def target(loss, rng, shape):
    if loss.startswith("labels"):
        return rng.integers(0, shape[-1], shape[:-1])
    y = rng.standard_normal(shape)
    if loss.startswith(("soft", "kl")):
        e = np.exp(y)
        return e / e.sum(-1, keepdims=True)
    return {"binary": (y > 0) * 1.0, "hinge": np.sign(y)}.get(loss, y)


O, S = torch.optim, torch.optim.lr_scheduler


# ---- optimisers: from parameters to (optimiser, schedule or None, what to do to the gradients) ----------------------
def plain(make, schedule=None, clip=None):
    def build(p):
        optimiser = make(list(p.values()))
        return optimiser, schedule(optimiser) if schedule else None, clip or (lambda q: None)
    return build


def groups(p):
    biases = [v for k, v in p.items() if k.endswith(".b")]
    weights = [v for k, v in p.items() if not k.endswith(".b")]
    others = {"params": biases, "lr": 3e-3, "weight_decay": 0}
    return O.AdamW([{"params": weights}, others], lr=1e-2, weight_decay=0.1), None, lambda q: None


CENTRED = {"alpha": 0.9, "eps": 1e-4, "momentum": 0.9, "centered": True, "weight_decay": 0.01}
FALL = lambda t: 0.1 + 0.9 * (1 + np.cos(np.pi * min(t / 8, 1))) / 2
OPTIMISERS = {
    "sgd": plain(lambda p: O.SGD(p, lr=0.1)),
    "momentum": plain(lambda p: O.SGD(p, lr=0.1, momentum=0.9)),
    "nesterov": plain(lambda p: O.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
    "adam": plain(lambda p: O.Adam(p, lr=1e-2)),
    "adam_decay": plain(lambda p: O.Adam(p, lr=1e-2, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    "adamw": plain(lambda p: O.AdamW(p, lr=1e-2, weight_decay=0.1)),
    "rmsprop": plain(lambda p: O.RMSprop(p, lr=1e-2)),
    "rmsprop_momentum": plain(lambda p: O.RMSprop(p, lr=1e-3, **CENTRED)),
    "groups": groups,
    "clip_norm": plain(lambda p: O.SGD(p, lr=0.5), clip=lambda q: torch.nn.utils.clip_grad_norm_(q, 0.3)),
    "clip_value": plain(lambda p: O.SGD(p, lr=0.5), clip=lambda q: torch.nn.utils.clip_grad_value_(q, 0.05)),
    "step": plain(lambda p: O.SGD(p, lr=0.5), lambda o: S.StepLR(o, 3, 0.5)),
    "cosine": plain(lambda p: O.SGD(p, lr=0.5), lambda o: S.LambdaLR(o, FALL)),
    "warm_up": plain(lambda p: O.SGD(p, lr=0.5), lambda o: S.LinearLR(o, 0.2, 1.0, 4)),
    "one_cycle": plain(lambda p: O.SGD(p, lr=0.5), lambda o: S.OneCycleLR(o, 0.5, STEPS, cycle_momentum=False)),
}

CASES = {name: (name, "labels", "sgd") for name in NETS if name not in ("linear", "gru", "convs", "cnn", "lstm")}
CASES |= {name: (name, "labels", "adam") for name in ("cnn", "lstm")}
CASES |= {name: (name, "mse", "sgd") for name in ("gru", "convs")}
CASES |= {"loss_" + loss: ("linear", loss, "sgd") for loss in LOSSES}
CASES |= {"optim_" + optimiser: ("mlp", "labels", optimiser) for optimiser in OPTIMISERS}


def start(rng, name, shape):
    if name.endswith("variance"):
        return rng.uniform(0.5, 1.5, shape)
    if name.endswith("scale"):
        return rng.uniform(0.8, 1.2, shape)
    fan_in = int(np.prod(shape[:-1])) if len(shape) > 1 else 16
    return rng.uniform(-1, 1, shape) / np.sqrt(fan_in)


def train(case, number, dtype, out):
    net, loss, optimiser = CASES[case]
    forward, sizes, inputs, outputs = NETS[net]
    rng = np.random.default_rng(number)
    batch = 6
    sizes_x = (STEPS, batch, *inputs)
    x = rng.integers(0, 9, sizes_x) if net == "attention" else rng.standard_normal(sizes_x)
    y = target(loss, rng, (STEPS, batch, *outputs))
    kept = lambda a: a.astype(np.int32) if a.dtype.kind == "i" else a.astype(np.float32).astype(dtype)
    x, y = kept(x), kept(y)
    p = {}
    for name, shape in sizes.items():
        p[name] = torch.tensor(kept(start(rng, name, shape)))
        out[f"{case}/before/{name}"] = p[name].numpy().copy()
    trained = {k: v.requires_grad_() for k, v in p.items() if not k.endswith((".mean", ".variance"))}
    optimise, schedule, clip = OPTIMISERS[optimiser](trained)
    losses = []
    for t in range(STEPS):
        wanted = torch.tensor(y[t])
        value = LOSSES[loss](forward(p, torch.tensor(x[t])), wanted.long() if y.dtype == np.int32 else wanted)
        optimise.zero_grad()
        value.backward()
        clip(list(trained.values()))
        optimise.step()
        if schedule:
            schedule.step()
        losses.append(value.item())
    out[f"{case}/x"], out[f"{case}/y"] = x, y
    out[f"{case}/loss"] = np.array(losses, dtype)
    for name, value in p.items():
        out[f"{case}/after/{name}"] = value.detach().numpy()


def main():
    here = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name, dtype in (("f32", np.float32), ("f64", np.float64)):
        out = {}
        for number, case in enumerate(CASES):
            train(case, number, dtype, out)
        save(folder / f"{name}.safetensors", out)
        print(f"{folder / name}.safetensors: {len(CASES)} cases, {len(out)} tensors")


if __name__ == "__main__":
    main()
