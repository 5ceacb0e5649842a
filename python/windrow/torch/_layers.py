"""ATen ops of layers: convolutions, pools, norms, embeddings, recurrent nets, attention, random numbers, losses."""
import math

import windrow as wr
from windrow import Error

from ._ops import as_type, axis_of, broadcast, op, scalar


# ---- convolutions and pools: torch has channels second, Windrow last --------------------------------------------------
def channels_last(x):
    return wr.permute(x, [0, *range(2, x.ndim), 1])


def channels_second(x):
    return wr.permute(x, [0, x.ndim - 1, *range(1, x.ndim - 1)])


def pair(value, count=2):
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * count if len(value) == 1 else value


@op("conv2d", "conv1d")
def conv(interpreter, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    spatial = weight.ndim - 2
    if x.ndim != spatial + 2:
        raise Error("a convolution without a batch axis is not supported; unsqueeze(0) first")
    stride, dilation, kernel = pair(stride, spatial), pair(dilation, spatial), list(weight.shape)[2:]
    if isinstance(padding, str):
        total = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation)]
        pads = [(t // 2, t - t // 2) for t in total]
    else:
        pads = [(p, p) for p in pair(padding, spatial)]
    x, w = channels_last(x), wr.permute(weight, [*range(2, weight.ndim), 1, 0])
    if len(set(stride)) == 1 and len(set(dilation)) == 1 and len({p for ab in pads for p in ab}) == 1:
        f = wr.conv1d if spatial == 1 else wr.conv2d
        y = f(x, w, padding=pads[0][0], stride=stride[0], dilation=dilation[0], groups=groups)
    else:
        y = _uneven_conv(x, w, stride, pads, dilation, groups, spatial)
    return channels_second(y if bias is None else y + bias)


def _uneven_conv(x, w, stride, pads, dilation, groups, spatial):
    """Strides, dilations or paddings that differ by axis, by patches."""
    if groups != 1:
        raise Error("a grouped convolution whose stride, dilation or padding differs by axis or side is not supported")
    if spatial == 1:
        x, w = wr.expand_dims(x, 1), wr.expand_dims(w, 0)
        stride, dilation, pads = [1, *stride], [1, *dilation], [(0, 0), *pads]
    window = wr.Window(w.shape[0], w.shape[1], stride[0], stride[1], dilation[0], dilation[1], *pads[0], *pads[1])
    y = wr.einsum("bhwklc,klco->bhwo", wr.unfold(x, window), w)
    return wr.squeeze(y, 1) if spatial == 1 else y


@op("conv_transpose2d")
def conv_transpose2d(interpreter, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    stride, padding, dilation, extra = pair(stride), pair(padding), pair(dilation), pair(output_padding)
    if groups != 1 or len(set(stride)) > 1 or len(set(dilation)) > 1:
        raise Error("a transposed convolution with groups, or whose stride or dilation differs by axis, is not supported")
    y = wr.conv_transpose2d(channels_last(x), wr.permute(weight, [0, 2, 3, 1]), stride=stride[0], dilation=dilation[0])
    y = wr.pad(y, [0] * 4, [0, extra[0], extra[1], 0]) if any(extra) else y
    for axis, p in enumerate(padding):  # what torch cuts off each side
        y = wr.slice(y, axis + 1, p, y.shape[axis + 1] - p) if p else y
    return channels_second(y if bias is None else y + bias)


def _window(axes, kernel, stride, padding, dilation=1):
    kernel, padding, dilation = pair(kernel, axes), pair(padding, axes), pair(dilation, axes)
    stride = pair(stride, axes) if stride else kernel
    if axes == 1:
        kernel, stride, dilation, padding = [1, *kernel], [1, *stride], [1, *dilation], [0, *padding]
    return wr.Window(*kernel, *stride, *dilation, padding[0], padding[0], padding[1], padding[1])


def _pooled(x, axes, pool, ceil_mode):
    if ceil_mode:
        raise Error("ceil_mode is not supported")
    if x.ndim != axes + 2:
        raise Error("a pool without a batch axis is not supported; unsqueeze(0) first")
    x = channels_last(x)
    if axes == 1:
        return channels_second(wr.squeeze(pool(wr.expand_dims(x, 1)), 1))
    return channels_second(pool(x))


@op("max_pool2d", "max_pool1d")
def max_pool(interpreter, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    axes = 2 if "2d" in interpreter.name else 1
    return _pooled(x, axes, lambda t: wr.max_pool(t, _window(axes, kernel, stride, padding, dilation)), ceil_mode)


@op("avg_pool2d", "avg_pool1d")
def avg_pool(interpreter, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    axes = 2 if "2d" in interpreter.name else 1
    if divisor_override is not None or (not count_include_pad and any(pair(padding))):
        raise Error("divisor_override and count_include_pad=False are not supported")
    return _pooled(x, axes, lambda t: wr.avg_pool(t, _window(axes, kernel, stride, padding)), ceil_mode)


@op("adaptive_avg_pool2d", "adaptive_avg_pool1d")
def adaptive_avg_pool(interpreter, x, size):
    old, size = list(x.shape)[2:], pair(size, x.ndim - 2)
    size = [o if s is None else s for s, o in zip(size, old)]
    if any(o % s for o, s in zip(old, size)):
        raise Error(f"adaptive_avg_pool: {tuple(old)} is no multiple of {tuple(size)}")
    shape, axes = list(x.shape)[:2], []
    for o, s in zip(old, size):
        shape += [s, o // s]
        axes.append(len(shape) - 1)
    return wr.mean(wr.reshape(x, tuple(shape)), axes)


@op("upsample_nearest2d")
def upsample_nearest(interpreter, x, *args, **kwargs):
    b, c, h, w = x.shape
    new_h, new_w = interpreter.result_shape[2:]
    if new_h % h or new_w % w:
        raise Error("upsample: whole factors alone")
    x = wr.broadcast_to(wr.reshape(x, (b, c, h, 1, w, 1)), (b, c, h, new_h // h, w, new_w // w))
    return wr.reshape(x, (b, c, new_h, new_w))


@op("pad", "constant_pad_nd")
def pad(interpreter, x, pads, mode="constant", value=None):
    if isinstance(mode, str) and mode != "constant":
        raise Error(f"pad: mode '{mode}' is not supported; there is 'constant'")
    value = value if isinstance(mode, str) else mode
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pads) // 2):
        before[x.ndim - 1 - i], after[x.ndim - 1 - i] = pads[2 * i], pads[2 * i + 1]
    if min(before + after) < 0:
        raise Error("pad: negative padding is not supported; slice instead")
    return wr.pad(x, before, after, float(value or 0))


# ---- norms -----------------------------------------------------------------------------------------------------------
def affine(x, weight, bias, shape):
    x = x if weight is None else x * wr.reshape(weight, shape)
    return x if bias is None else x + wr.reshape(bias, shape)


@op("layer_norm")
def layer_norm(interpreter, x, shape, weight=None, bias=None, eps=1e-5, *rest):
    if len(shape) == 1 and weight is not None and bias is not None:
        return wr.layer_norm(x, weight, bias, eps)
    return affine(wr.standardise(x, list(range(x.ndim - len(shape), x.ndim)), eps), weight, bias, tuple(shape))


@op("rms_norm")
def rms_norm(interpreter, x, shape, weight=None, eps=None):
    axes = list(range(x.ndim - len(shape), x.ndim))
    y = x * wr.rsqrt(wr.mean(wr.square(x), axes, True) + (1.1920929e-07 if eps is None else eps))
    return y if weight is None else y * weight


@op("group_norm")
def group_norm(interpreter, x, groups, weight=None, bias=None, eps=1e-5, *rest):
    y = wr.reshape(wr.standardise(wr.reshape(x, (x.shape[0], groups, -1)), [2], eps), tuple(x.shape))
    return affine(y, weight, bias, (1, x.shape[1]) + (1,) * (x.ndim - 2))


@op("instance_norm")
def instance_norm(interpreter, x, weight, bias, mean, variance, use_input, momentum, eps, *rest):
    if not use_input or mean is not None:
        raise Error("instance_norm with running statistics is not supported")
    return affine(wr.standardise(x, list(range(2, x.ndim)), eps), weight, bias, (1, x.shape[1]) + (1,) * (x.ndim - 2))


@op("batch_norm")
def batch_norm(interpreter, x, weight, bias, mean, variance, training, momentum, eps, *rest):
    """In training the running statistics, arguments 3 and 4, move towards the batch's."""
    axes, shape = [0, *range(2, x.ndim)], (1, x.shape[1]) + (1,) * (x.ndim - 2)
    if not training:
        y = (x - wr.reshape(mean, shape)) * wr.reshape(wr.rsqrt(variance + eps), shape)
        return affine(y, weight, bias, shape)
    if mean is not None:
        count = math.prod(x.shape[a] for a in axes)
        kept = wr.stop_gradient(x)
        interpreter.write_argument(3, mean + momentum * (wr.mean(kept, axes) - mean))
        interpreter.write_argument(4, variance + momentum * (wr.variance(kept, axes) * (count / max(count - 1, 1)) - variance))
    return affine(wr.standardise(x, axes, eps), weight, bias, shape)


@op("_weight_norm")
def weight_norm(interpreter, v, g, dim=0):
    return v * (g / wr.sqrt(wr.sum(wr.square(v), [i for i in range(v.ndim) if i != dim], True)))


# ---- embeddings and indices ------------------------------------------------------------------------------------------
@op("embedding")
def embedding(interpreter, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if scale_grad_by_freq or sparse:
        raise Error("embedding: scale_grad_by_freq and sparse gradients are not supported")
    rows = wr.gather(weight, indices, 0)
    if padding_idx is not None and padding_idx >= 0:  # its row learns nothing
        is_padding = wr.expand_dims(wr.eq(indices, padding_idx), indices.ndim)
        rows = wr.where(broadcast(is_padding, tuple(rows.shape)), wr.stop_gradient(rows), rows)
    return rows


@op("embedding_bag")
def embedding_bag(interpreter, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, weights=None,
                  include_last_offset=False, padding_idx=-1):
    bags, count = interpreter.result_shapes[0][0], indices.size
    if sparse or scale_grad_by_freq or weights is not None or (padding_idx or -1) >= 0 or mode not in (0, 1):
        raise Error("embedding_bag: sparse, weights, padding_idx, scale_grad_by_freq and mode 'max' are not supported")
    if count % bags or not interpreter.is_arange(2):
        raise Error("embedding_bag: bags of different lengths are not supported; give indices [bags, length]")
    rows = wr.gather(weight, wr.reshape(indices, (bags, count // bags)), 0)
    return (wr.sum if mode == 0 else wr.mean)(rows, 1), None, None, None


@op("gather")
def gather(interpreter, x, dim, index, sparse_grad=False):
    axis = axis_of(dim, x.ndim)
    for i in range(x.ndim):  # torch lets the index be smaller on the other axes
        x = wr.slice(x, i, 0, index.shape[i]) if i != axis and index.shape[i] != x.shape[i] else x
    return wr.take_along(x, index, axis)


@op("index_select")
def index_select(interpreter, x, dim, index):
    return wr.gather(x, index, axis_of(dim, x.ndim))


@op("take_along_dim")
def take_along_dim(interpreter, x, index, dim):
    return wr.take_along(x, index, axis_of(dim, x.ndim))


@op("index.Tensor")
def index(interpreter, x, indices):
    given = [(i, t) for i, t in enumerate(indices) if t is not None]
    if any(t.dtype == "bool" for _, t in given):
        raise Error("indexing by a boolean mask gives a shape that depends on values; use torch.where, or multiply by the mask")
    axes = [a for a, _ in given]
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise Error("index: tensors of indices must stand side by side")
    flat, size = None, 1
    for a, t in reversed(given):
        t = wr.where(wr.lt(t, 0), t + x.shape[a], t)  # negative ones count from the end
        part = t * size if size > 1 else t
        flat = part if flat is None else flat + part
        size *= x.shape[a]
    shape = list(x.shape)
    merged = x if len(given) == 1 else wr.reshape(x, tuple(shape[:axes[0]] + [size] + shape[axes[-1] + 1:]))
    return wr.gather(merged, flat, axes[0])


@op("one_hot")
def one_hot(interpreter, index, classes=-1):
    if classes < 0:
        raise Error("one_hot: give the number of classes; it cannot depend on values")
    return wr.one_hot(index, classes, "i32")


@op("scatter_add", "index_add")
def scatter_add(interpreter, x, dim, index, source, alpha=1):
    axis = axis_of(dim, x.ndim)
    if interpreter.name.startswith("index_add"):
        return wr.scatter_add(x, index, source if alpha == 1 else source * alpha, axis)
    if any(index.shape[i] != x.shape[i] for i in range(x.ndim) if i != axis):
        raise Error("scatter_add: an index that is smaller than the tensor on other axes is not supported")
    placed = wr.sum(wr.one_hot(index, x.shape[axis], x.dtype) * wr.expand_dims(source, source.ndim), axis)
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return x + wr.permute(placed, order)


@op("cumsum")
def cumsum(interpreter, x, dim, dtype=None):
    """As a product with a triangle of ones, in f32 or f64; so for some thousand elements at most."""
    axis, n = axis_of(dim, x.ndim), x.shape[dim] if x.ndim else 1
    if x.ndim == 0:
        return x
    if n > 2048:
        raise Error(f"cumsum of {n} elements is not supported: 2048 at most")
    kind = interpreter.result_dtype if interpreter.result_dtype == "f64" else "f32"
    x = as_type(x, kind)
    order = [i for i in range(x.ndim) if i != axis] + [axis]
    ones = as_type(wr.le(wr.iota((n, n), 0), wr.iota((n, n), 1)), kind)
    moved = wr.permute(x, order) if axis != x.ndim - 1 else x
    y = wr.reshape(wr.matmul(wr.reshape(moved, (-1, n)), ones), tuple(moved.shape))
    y = wr.permute(y, [order.index(i) for i in range(x.ndim)]) if axis != x.ndim - 1 else y
    return as_type(y, interpreter.result_dtype)


@op("sort", "topk", "argsort", "unique", "nonzero", "masked_select", "kthvalue", "median", "cumprod", "cummax", "cummin")
def no_order(interpreter, *args, **kwargs):
    raise Error("is not supported: Windrow has no op that sorts or keeps a running best, or whose result's shape depends on values")


# ---- shapes that are no views ----------------------------------------------------------------------------------------
@op("cat", "concat", "concatenate")
def cat(interpreter, tensors, dim=0):
    kept = [as_type(t, interpreter.result_dtype) for t in tensors if not (t.ndim == 1 and t.shape[0] == 0)]
    return kept[0] if len(kept) == 1 else wr.concat(kept, axis_of(dim, kept[0].ndim))


@op("stack")
def stack(interpreter, tensors, dim=0):
    return wr.stack([as_type(t, interpreter.result_dtype) for t in tensors], axis_of(dim, tensors[0].ndim + 1))


@op("repeat", "tile")
def repeat(interpreter, x, counts):
    x = wr.reshape(x, (1,) * (len(counts) - x.ndim) + tuple(x.shape)) if len(counts) > x.ndim else x
    for axis, c in enumerate([1] * (x.ndim - len(counts)) + list(counts)):
        x = wr.concat([x] * c, axis) if c > 1 else x
    return x


@op("repeat_interleave.self_int")
def repeat_interleave(interpreter, x, repeats, dim=None, **kwargs):
    x, dim = (wr.reshape(x, (-1,)), 0) if dim is None else (x, dim)
    axis, shape = axis_of(dim, x.ndim), list(x.shape)
    y = wr.broadcast_to(wr.expand_dims(x, axis + 1), tuple(shape[:axis + 1] + [repeats] + shape[axis + 1:]))
    return wr.reshape(y, tuple(shape[:axis] + [shape[axis] * repeats] + shape[axis + 1:]))


@op("flip")
def flip(interpreter, x, dims):
    for d in dims:
        x = wr.flip(x, axis_of(d, x.ndim))
    return x


@op("roll")
def roll(interpreter, x, shifts, dims=()):
    if not dims:
        raise Error("roll without dims is not supported")
    for s, d in zip(pair(shifts, 1), pair(dims, 1)):
        axis = axis_of(d, x.ndim)
        n = x.shape[axis]
        x = wr.concat([wr.slice(x, axis, n - s % n, n), wr.slice(x, axis, 0, n - s % n)], axis) if s % n else x
    return x


@op("broadcast_tensors")
def broadcast_tensors(interpreter, tensors):
    return tuple(broadcast(t, s) for t, s in zip(tensors, interpreter.result_shapes))


# ---- attention and recurrent nets ------------------------------------------------------------------------------------
@op("scaled_dot_product_attention")
def attention(interpreter, q, k, v, mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        raise Error("scaled_dot_product_attention: enable_gqa is not supported")
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


# ---- random numbers --------------------------------------------------------------------------------------------------
@op("dropout", "feature_dropout")
def dropout(interpreter, x, p, train):
    if not train or p == 0:
        return x
    if interpreter.name.startswith("feature"):
        mask = interpreter.random().bernoulli(1 - p, tuple(x.shape)[:2] + (1,) * (x.ndim - 2))
        return x * (wr.cast(mask, x.dtype) / (1 - p))
    return interpreter.dropout(x, p)


@op("rand", "rand_like")
def rand(interpreter, *args, **kwargs):
    return interpreter.random().uniform(interpreter.result_shape, interpreter.result_dtype)


@op("uniform")
def uniform(interpreter, x, low=0.0, high=1.0):
    return rand(interpreter) * (high - low) + low


@op("randn", "randn_like")
def randn(interpreter, *args, **kwargs):
    return interpreter.random().normal(interpreter.result_shape, interpreter.result_dtype)


@op("normal.in_place")
def normal_in_place(interpreter, x, mean=0.0, deviation=1.0):
    return randn(interpreter) * deviation + mean


@op("normal")
def normal(interpreter, mean=0.0, deviation=1.0, *rest, **kwargs):
    return randn(interpreter) * deviation + mean


@op("bernoulli")
def bernoulli(interpreter, x, p=None):
    u = interpreter.random().uniform(interpreter.result_shape, "f32")
    return as_type(wr.lt(u, as_type(x, "f32") if p is None else p), interpreter.result_dtype)


@op("randint", "randperm", "multinomial", "poisson", "exponential")
def no_draw(interpreter, *args, **kwargs):
    raise Error("is not drawn in a step; draw outside and pass the numbers as an argument")


# ---- losses ----------------------------------------------------------------------------------------------------------
def reduced(x, reduction):
    return x if reduction == 0 else wr.mean(x) if reduction == 1 else wr.sum(x)


@op("mse_loss")
def mse_loss(interpreter, x, y, reduction=1):
    return reduced(wr.square(x - y), reduction)


@op("l1_loss")
def l1_loss(interpreter, x, y, reduction=1):
    return reduced(wr.abs(x - y), reduction)


@op("smooth_l1_loss")
def smooth_l1_loss(interpreter, x, y, reduction=1, beta=1.0):
    d = wr.abs(x - y)
    return reduced(wr.where(d < beta, wr.square(d) * (0.5 / beta), d - 0.5 * beta) if beta else d, reduction)


@op("huber_loss")
def huber_loss(interpreter, x, y, reduction=1, delta=1.0):
    d = wr.abs(x - y)
    return reduced(wr.where(d <= delta, wr.square(d) * 0.5, delta * (d - 0.5 * delta)), reduction)


@op("binary_cross_entropy_with_logits")
def bce_logits(interpreter, x, y, weight=None, pos_weight=None, reduction=1):
    y = as_type(y, x.dtype)
    log = wr.softplus(-x)  # -log sigmoid(x)
    loss = (1 - y) * x + (log if pos_weight is None else (1 + (pos_weight - 1) * y) * log)
    return reduced(loss if weight is None else loss * weight, reduction)


@op("binary_cross_entropy")
def bce(interpreter, x, y, weight=None, reduction=1):
    log = lambda t: wr.maximum(wr.log(t), -100.0)  # noqa: E731
    loss = -(y * log(x) + (1 - y) * log(1 - x))
    return reduced(loss if weight is None else loss * weight, reduction)


@op("kl_div")
def kl_div(interpreter, x, y, reduction=1, log_target=False):
    if log_target:
        return reduced(wr.exp(y) * (y - x), reduction)
    some = wr.gt(y, 0)
    return reduced(wr.where(some, y * wr.log(wr.where(some, y, 1.0)), 0.0) - y * x, reduction)


@op("margin_ranking_loss")
def margin_ranking(interpreter, a, b, y, margin=0.0, reduction=1):
    return reduced(wr.relu(margin - y * (a - b)), reduction)


@op("triplet_margin_loss")
def triplet(interpreter, anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    if p != 2 or swap:
        raise Error("triplet_margin_loss: p = 2 without swap alone")
    distance = lambda a, b: wr.sqrt(wr.sum(wr.square(a - b + eps), -1))  # noqa: E731
    return reduced(wr.relu(distance(anchor, positive) - distance(anchor, negative) + margin), reduction)


def _classes_last(x):
    """[b, classes, ...] to [b, ..., classes]."""
    return x if x.ndim <= 2 else wr.permute(x, [0, *range(2, x.ndim), 1])


def _nll(log_p, target, weight, reduction, ignore):
    """-log_p[target], with class weights and a label that does not count; and the weight of each row."""
    counted = wr.ne(target, ignore)
    label = wr.where(counted, target, 0)
    picked = -wr.squeeze(wr.take_along(log_p, wr.expand_dims(label, label.ndim), label.ndim), label.ndim)
    rows = wr.cast(counted, log_p.dtype)
    rows = rows if weight is None else rows * wr.gather(weight, label, 0)
    loss = wr.where(counted, picked, scalar(0, picked)) * rows  # an ignored row may hold an infinity
    if reduction == 0:
        return loss, rows
    return (wr.sum(loss) / wr.sum(rows) if reduction == 1 else wr.sum(loss)), rows


@op("nll_loss", "nll_loss_nd", "nll_loss2d")
def nll_loss(interpreter, x, target, weight=None, reduction=1, ignore_index=-100):
    return _nll(_classes_last(x), target, weight, reduction, ignore_index)[0]


@op("cross_entropy_loss")
def cross_entropy(interpreter, x, target, weight=None, reduction=1, ignore_index=-100, smoothing=0.0):
    if x.ndim == 1:
        raise Error("cross_entropy without a batch axis is not supported; unsqueeze(0) first")
    x = _classes_last(x)
    log_p, classes = wr.log_softmax(x, -1), x.shape[-1]
    if target.dtype in ("f32", "f64"):
        q = _classes_last(target)
        q = q * (1 - smoothing) + smoothing / classes if smoothing else q
        return reduced(-wr.sum(log_p * q if weight is None else log_p * q * weight, -1), reduction)
    nll, rows = _nll(log_p, target, weight, reduction, ignore_index)
    if not smoothing:
        return nll
    counted = wr.cast(wr.ne(target, ignore_index), x.dtype)
    spread = -wr.sum(log_p if weight is None else log_p * weight, -1) * counted
    spread = spread if reduction == 0 else wr.sum(spread) / wr.sum(rows) if reduction == 1 else wr.sum(spread)
    return (1 - smoothing) * nll + smoothing / classes * spread
