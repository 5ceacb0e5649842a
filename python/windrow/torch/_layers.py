"""ATen ops of layers: convolutions, paddings, norms."""
import math

import windrow as wr
from ._ops import op


# ---- convolutions: torch has channels second, Windrow last --------------------------------------------------
def channels_last(x):
    return wr.permute(x, [0, *range(2, x.ndim), 1])


def channels_second(x):
    return wr.permute(x, [0, x.ndim - 1, *range(1, x.ndim - 1)])


def pair(value, count=2):
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * count if len(value) == 1 else value


@op("conv1d", "conv2d", "conv3d")
def conv(interpreter, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    spatial = weight.ndim - 2
    if x.ndim == spatial + 1:
        return wr.squeeze(conv(interpreter, wr.expand_dims(x, 0), weight, bias, stride, padding, dilation, groups), 0)
    stride, dilation, kernel = pair(stride, spatial), pair(dilation, spatial), list(weight.shape)[2:]
    if isinstance(padding, str):
        total = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation)]
        pads = [(t // 2, t - t // 2) for t in total]
    else:
        pads = [(p, p) for p in pair(padding, spatial)]
    x, w = channels_last(x), wr.permute(weight, [*range(2, weight.ndim), 1, 0])
    y = (_conv3d if spatial == 3 else _conv)(x, w, stride, pads, dilation, groups)
    return channels_second(y if bias is None else y + bias)


def _conv(x, w, stride, pads, dilation, groups):
    """Over one or two axes, with channels last and kernels [..., in, out]."""
    spatial = w.ndim - 2
    if len(set(stride)) == 1 and len(set(dilation)) == 1 and len({p for ab in pads for p in ab}) == 1:
        f = wr.conv1d if spatial == 1 else wr.conv2d
        return f(x, w, padding=pads[0][0], stride=stride[0], dilation=dilation[0], groups=groups)
    if groups == 1:
        return _uneven_conv(x, w, stride, pads, dilation, spatial)
    inside, out = w.shape[-2], w.shape[-1] // groups
    parts = [_uneven_conv(wr.slice(x, x.ndim - 1, g * inside, (g + 1) * inside), wr.slice(w, w.ndim - 1, g * out, (g + 1) * out), stride, pads,
                          dilation, spatial) for g in range(groups)]
    return wr.concat(parts, x.ndim - 1)


def _conv3d(x, w, stride, pads, dilation, groups):
    """For each slice of the kernel, a convolution of pictures, those of all depths at once; their sum."""
    b, d, h, width, c = x.shape
    x = wr.pad(x, [0, pads[0][0], 0, 0, 0], [0, pads[0][1], 0, 0, 0]) if any(pads[0]) else x
    places, total = (x.shape[1] - dilation[0] * (w.shape[0] - 1) - 1) // stride[0] + 1, None
    for k in range(w.shape[0]):
        first = k * dilation[0]
        depths = wr.slice(x, 1, first, first + (places - 1) * stride[0] + 1, stride[0])
        kernel = wr.squeeze(wr.slice(w, 0, k, k + 1), 0)
        y = _conv(wr.reshape(depths, (b * places, h, width, c)), kernel, stride[1:], pads[1:], dilation[1:], groups)
        total = y if total is None else total + y
    return wr.reshape(total, (b, places) + tuple(total.shape)[1:])


def _uneven_conv(x, w, stride, pads, dilation, spatial):
    """Strides, dilations or paddings that differ by axis, by patches."""
    if spatial == 1:
        x, w = wr.expand_dims(x, 1), wr.expand_dims(w, 0)
        stride, dilation, pads = [1, *stride], [1, *dilation], [(0, 0), *pads]
    window = wr.Window(w.shape[0], w.shape[1], stride[0], stride[1], dilation[0], dilation[1], *pads[0], *pads[1])
    y = wr.einsum("bhwklc,klco->bhwo", wr.unfold(x, window), w)
    return wr.squeeze(y, 1) if spatial == 1 else y


@op("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(interpreter, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    spatial = weight.ndim - 2
    if x.ndim == spatial + 1:
        return wr.squeeze(conv_transpose(interpreter, wr.expand_dims(x, 0), weight, bias, stride, padding, output_padding, groups, dilation), 0)
    stride, padding, dilation, extra = (pair(v, spatial) for v in (stride, padding, dilation, output_padding))
    if spatial == 1 and groups == 1:  # as images of one column, for which the stride between columns does not matter
        y = conv_transpose(interpreter, wr.expand_dims(x, 3), wr.expand_dims(weight, 3), bias, stride, [padding[0], 0], [extra[0], 0], 1, dilation)
        return wr.squeeze(y, 3)
    if spatial == 2 and groups == 1 and len(set(stride)) == 1 and len(set(dilation)) == 1:
        y = wr.conv_transpose2d(channels_last(x), wr.permute(weight, [0, 2, 3, 1]), stride=stride[0], dilation=dilation[0])
        y = wr.pad(y, [0] * 4, [0, extra[0], extra[1], 0]) if any(extra) else y
        for axis, p in enumerate(padding):  # what torch cuts off each side
            y = wr.slice(y, axis + 1, p, y.shape[axis + 1] - p) if p else y
        return channels_second(y if bias is None else y + bias)
    # any other is the gradient of the convolution that it goes back through
    sizes = [(n - 1) * s - 2 * p + d * (k - 1) + e + 1
             for n, s, p, d, k, e in zip(list(x.shape)[2:], stride, padding, dilation, list(weight.shape)[2:], extra)]
    nothing = wr.full((x.shape[0], *sizes, weight.shape[1] * groups), 0, x.dtype)
    w = wr.permute(weight, [*range(2, weight.ndim), 1, 0])
    there = (_conv3d if spatial == 3 else _conv)(nothing, w, stride, [(p, p) for p in padding], dilation, groups)
    y = wr.grad(wr.sum(there * channels_last(x)), nothing)
    return channels_second(y if bias is None else y + bias)


def _edge(x, axis, before, after, mode):
    """One axis with what stands beyond its ends: mirrored, the last value again, or the other end."""
    n = x.shape[axis]
    cut = lambda a, b: wr.slice(x, axis, a, b)  # noqa: E731
    if mode == "reflect":
        ends = wr.flip(cut(1, before + 1), axis) if before else None, wr.flip(cut(n - 1 - after, n - 1), axis) if after else None
    elif mode == "circular":
        ends = cut(n - before, n) if before else None, cut(0, after) if after else None
    else:
        repeated = lambda part, count: wr.broadcast_to(part, tuple(count if a == axis else s for a, s in enumerate(x.shape)))  # noqa: E731
        ends = repeated(cut(0, 1), before) if before else None, repeated(cut(n - 1, n), after) if after else None
    return wr.concat([part for part in (ends[0], x, ends[1]) if part is not None], axis)


@op("pad", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d",
    "replication_pad3d")
def pad(interpreter, x, pads, mode="constant", value=None):
    named = {"reflection": "reflect", "replication": "replicate"}.get(interpreter.name.split("_")[0])
    value, mode = value if isinstance(mode, str) else mode, named or (mode if isinstance(mode, str) else "constant")
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pads) // 2):
        before[x.ndim - 1 - i], after[x.ndim - 1 - i] = pads[2 * i], pads[2 * i + 1]
    for axis in range(x.ndim):  # what is negative is cut off
        if before[axis] < 0 or after[axis] < 0:
            x = wr.slice(x, axis, max(-before[axis], 0), x.shape[axis] - max(-after[axis], 0))
            before[axis], after[axis] = max(before[axis], 0), max(after[axis], 0)
    if mode == "constant":
        return wr.pad(x, before, after, float(value or 0))
    for axis in range(x.ndim):
        x = _edge(x, axis, before[axis], after[axis], mode) if before[axis] or after[axis] else x
    return x


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
    shape, axes = (1, x.shape[1]) + (1,) * (x.ndim - 2), list(range(2, x.ndim))
    if not use_input:
        return affine((x - wr.reshape(mean, shape)) * wr.reshape(wr.rsqrt(variance + eps), shape), weight, bias, shape)
    if mean is not None:  # they move towards the mean of all instances'
        kept, count = wr.stop_gradient(x), math.prod(x.shape[a] for a in axes)
        interpreter.write_argument(3, mean + momentum * (wr.mean(wr.mean(kept, axes), 0) - mean))
        interpreter.write_argument(4, variance + momentum * (wr.mean(wr.variance(kept, axes), 0) * (count / max(count - 1, 1)) - variance))
    return affine(wr.standardise(x, axes, eps), weight, bias, shape)


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
