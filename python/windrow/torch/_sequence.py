"""ATen ops over sequences: attention, recurrent nets and their cells."""
import math

import windrow as wr
from windrow import Error

from ._index import repeat_interleave
from ._ops import broadcast, op


@op("scaled_dot_product_attention")
def attention(interpreter, q, k, v, mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    heads = q.ndim - 3
    if enable_gqa and k.shape[heads] != q.shape[heads]:  # heads that share keys and values
        k, v = (repeat_interleave(interpreter, t, q.shape[heads] // t.shape[heads], heads) for t in (k, v))
    alike = q.ndim == 4 and tuple(k.shape) == tuple(v.shape) and tuple(q.shape)[:2] == tuple(k.shape)[:2]
    if alike and q.shape[3] == k.shape[3] and mask is None and dropout_p == 0 and scale != 0:
        inner = [wr.permute(x, [0, 2, 1, 3]) for x in (q, k, v)]  # heads behind positions, as one op has them
        return wr.permute(wr.attention(*inner, causal=is_causal, scale=scale or 0.0), [0, 2, 1, 3])
    scores = wr.matmul_nt(q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale), k)
    shape, least = tuple(scores.shape), wr.full((), -math.inf, scores.dtype)
    if is_causal:
        scores = wr.where(broadcast(wr.le(wr.iota(shape[-2:], 1), wr.iota(shape[-2:], 0)), shape), scores, least)
    if mask is not None:
        scores = wr.where(broadcast(mask, shape), scores, least) if mask.dtype == "bool" else scores + mask
    weights = wr.softmax(scores, -1)
    return wr.matmul(interpreter.dropout(weights, dropout_p) if dropout_p > 0 else weights, v)


def _part(x, k, n):
    return wr.slice(x, x.ndim - 1, k * n, (k + 1) * n)


def _lstm_cell(inside, h, c, w_h):
    gates, n = inside + wr.matmul_nt(h, w_h), h.shape[-1]
    i, f, g, o = (_part(gates, k, n) for k in range(4))
    c = wr.sigmoid(f) * c + wr.sigmoid(i) * wr.tanh(g)
    return wr.sigmoid(o) * wr.tanh(c), c


def _gru_cell(x, h, w_h, b_h):
    n, y = h.shape[-1], wr.matmul_nt(h, w_h)
    y = y if b_h is None else y + b_h
    r, z = (wr.sigmoid(_part(x, k, n) + _part(y, k, n)) for k in range(2))
    new = wr.tanh(_part(x, 2, n) + r * _part(y, 2, n))
    return new + z * (h - new)


def _layer(kind, x, h, c, weights, reverse):
    """x [time, batch, in] through one direction of one layer: LSTM and GRU as one op, plain nets unrolled over time."""
    w_x, w_h = weights[0], weights[1]
    b_x, b_h = (weights[2], weights[3]) if len(weights) == 4 else (None, None)
    inside = wr.matmul_nt(x, w_x)
    if b_x is not None:
        inside = inside + (b_x if kind == "gru" else b_x + b_h)
    if kind in ("lstm", "gru"):
        inside, w_h = wr.permute(inside, [1, 0, 2]), wr.permute(w_h, [1, 0])
        if kind == "lstm":
            y, h, c = wr.lstm(inside, w_h, h, c, reverse=reverse)
        else:
            b_h = wr.full((3 * h.shape[-1],), 0.0, h.dtype) if b_h is None else b_h
            y, h = wr.gru(inside, w_h, b_h, h, reverse=reverse)
        return wr.permute(y, [1, 0, 2]), h, c
    outputs = [None] * x.shape[0]
    for t in reversed(range(x.shape[0])) if reverse else range(x.shape[0]):
        now = wr.squeeze(wr.slice(inside, 0, t, t + 1), 0)
        h = getattr(wr, kind)(now + wr.matmul_nt(h, w_h))
        outputs[t] = h
    return wr.stack(outputs, 0), h, c


def _recurrent(interpreter, kind, x, h0, c0, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    if interpreter.name.endswith(".data"):
        raise Error("PackedSequence is not supported; pad the sequences and mask the loss")
    per, directions = 4 if has_biases else 2, 2 if bidirectional else 1
    if len(params) != per * layers * directions:
        raise Error("recurrent nets with projections are not supported")
    x = wr.permute(x, [1, 0, 2]) if batch_first else x
    last_h, last_c = [], []
    one = lambda s, i: None if s is None else wr.squeeze(wr.slice(s, 0, i, i + 1), 0)  # noqa: E731
    for layer in range(layers):
        outs = []
        for d in range(directions):
            i = layer * directions + d
            y, h, c = _layer(kind, x, one(h0, i), one(c0, i), params[i * per:(i + 1) * per], d == 1)
            outs.append(y)
            last_h.append(h)
            last_c.append(c)
        x = outs[0] if directions == 1 else wr.concat(outs, 2)
        if dropout > 0 and train and layer + 1 < layers:
            x = interpreter.dropout(x, dropout)
    x = wr.permute(x, [1, 0, 2]) if batch_first else x
    return x, wr.stack(last_h, 0), None if c0 is None else wr.stack(last_c, 0)


@op("lstm")
def lstm(interpreter, x, hx, *rest):
    return _recurrent(interpreter, "lstm", x, hx[0], hx[1], *rest)


@op("gru", "rnn_tanh", "rnn_relu")
def gru(interpreter, x, hx, *rest):
    kind = interpreter.name.split(".")[0].removeprefix("rnn_")
    return _recurrent(interpreter, kind, x, hx, None, *rest)[:2]


@op("lstm_cell")
def lstm_cell(interpreter, x, hx, w_x, w_h, b_x=None, b_h=None):
    inside = wr.matmul_nt(x, w_x)
    return _lstm_cell(inside if b_x is None else inside + (b_x + b_h), hx[0], hx[1], w_h)


@op("gru_cell")
def gru_cell(interpreter, x, h, w_x, w_h, b_x=None, b_h=None):
    inside = wr.matmul_nt(x, w_x)
    return _gru_cell(inside if b_x is None else inside + b_x, h, w_h, b_h)


@op("rnn_tanh_cell", "rnn_relu_cell")
def rnn_cell(interpreter, x, h, w_x, w_h, b_x=None, b_h=None):
    y = wr.matmul_nt(x, w_x) + wr.matmul_nt(h, w_h)
    y = y if b_x is None else y + (b_x + b_h)
    return wr.tanh(y) if "tanh" in interpreter.name else wr.relu(y)
