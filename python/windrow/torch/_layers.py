"""ATen ops of layers: convolutions, pools, norms."""
import math

import windrow as wr
from windrow import Error

from ._ops import op


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


@op("conv_transpose1d")
def conv_transpose1d(interpreter, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """As images of one column, for which the stride between columns does not matter."""
    stride, padding, extra, dilation = (pair(v, 1)[0] for v in (stride, padding, output_padding, dilation))
    y = conv_transpose2d(interpreter, wr.expand_dims(x, 3), wr.expand_dims(weight, 3), bias, stride, [padding, 0], [extra, 0], groups, dilation)
    return wr.squeeze(y, 3)


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


@op("adaptive_max_pool2d", "adaptive_max_pool1d")
def adaptive_max_pool(interpreter, x, size):
    old, size = list(x.shape)[2:], pair(size, x.ndim - 2)
    size = [o if s is None else s for s, o in zip(size, old)]
    if any(o % s for o, s in zip(old, size)):
        raise Error(f"adaptive_max_pool: {tuple(old)} is no multiple of {tuple(size)}")
    kernel = [o // s for o, s in zip(old, size)]
    return _pooled(x, len(old), lambda t: wr.max_pool(t, _window(len(old), kernel, kernel, 0)), False), None


@op("upsample_nearest2d", "upsample_nearest1d")
def upsample_nearest(interpreter, x, *args, **kwargs):
    shape, wide = list(x.shape)[:2], list(x.shape)[:2]
    for old, new in zip(x.shape[2:], interpreter.result_shape[2:]):
        if new % old:
            raise Error("upsample: whole factors alone")
        shape, wide = shape + [old, 1], wide + [old, new // old]
    return wr.reshape(wr.broadcast_to(wr.reshape(x, tuple(shape)), tuple(wide)), interpreter.result_shape)


def _between(old, new, align, scale):
    """[old, new]: how much of each old place goes into a new one, in linear interpolation."""
    rows = [[0.0] * new for _ in range(old)]
    for i in range(new):
        if align:
            at = i * (old - 1) / (new - 1) if new > 1 else 0.0
        else:
            at = max((i + 0.5) * (1 / scale if scale else old / new) - 0.5, 0.0)
        low = min(int(at), old - 1)
        high = min(low + 1, old - 1)
        rows[low][i] += 1 - (at - low)
        rows[high][i] += at - low
    return rows


@op("upsample_bilinear2d", "upsample_linear1d")
def upsample_linear(interpreter, x, size=None, align=False, *scales, **kwargs):
    """A product along each axis."""
    axes = x.ndim - 2
    align, scales = kwargs.get("align_corners", align), kwargs.get("scale_factors", scales[0] if scales else None)
    scales = list(scales) if isinstance(scales, (list, tuple)) else [None] * axes
    for i in range(axes):
        old, new = x.shape[2 + i], interpreter.result_shape[2 + i]
        weights = wr.Tensor(wr.array(_between(old, new, align, scales[i]), x.dtype))
        order = [a for a in range(x.ndim) if a != 2 + i] + [2 + i]
        x = wr.matmul(wr.permute(x, order), weights)
        x = wr.permute(x, [order.index(a) for a in range(x.ndim)])
    return x


@op("pixel_shuffle")
def pixel_shuffle(interpreter, x, factor):
    b, c, h, w = x.shape
    x = wr.reshape(x, (b, c // factor ** 2, factor, factor, h, w))
    return wr.reshape(wr.permute(x, [0, 1, 4, 2, 5, 3]), interpreter.result_shape)


@op("pixel_unshuffle")
def pixel_unshuffle(interpreter, x, factor):
    b, c, h, w = x.shape
    x = wr.reshape(x, (b, c, h // factor, factor, w // factor, factor))
    return wr.reshape(wr.permute(x, [0, 1, 3, 5, 2, 4]), interpreter.result_shape)


@op("im2col")
def im2col(interpreter, x, kernel, dilation=1, padding=0, stride=1):
    """Patches as torch's F.unfold has them: [batch, channels * kernel, places]."""
    patches = wr.unfold(channels_last(x), _window(2, kernel, stride, padding, dilation))
    return wr.reshape(wr.permute(patches, [0, 5, 3, 4, 1, 2]), interpreter.result_shape)


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


@op("pad", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d")
def pad(interpreter, x, pads, mode="constant", value=None):
    named = {"reflection": "reflect", "replication": "replicate"}.get(interpreter.name.split("_")[0])
    value, mode = value if isinstance(mode, str) else mode, named or (mode if isinstance(mode, str) else "constant")
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pads) // 2):
        before[x.ndim - 1 - i], after[x.ndim - 1 - i] = pads[2 * i], pads[2 * i + 1]
    if min(before + after) < 0:
        raise Error("pad: negative padding is not supported; slice instead")
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
