"""ATen ops of pools and of pictures made larger, smaller or sampled: torch has channels second, Windrow last."""
import math

import windrow as wr
from windrow import Error

from ._layers import channels_last, channels_second, pair
from ._ops import as_type, op


# ---- pools -----------------------------------------------------------------------------------------------------------
class Windows:
    """The windows of a pool over some axes: kernel, stride, dilation, and the padding before and behind each axis."""

    def __init__(self, sizes, kernel, stride, padding, dilation=1, ceil_mode=False):
        count = len(sizes)
        self.sizes, self.kernel, self.dilation = list(sizes), pair(kernel, count), pair(dilation, count)
        self.stride = pair(stride, count) if stride else self.kernel
        self.padding = pair(padding, count)
        self.behind = []
        for n, k, s, p, d in zip(self.sizes, self.kernel, self.stride, self.padding, self.dilation):
            reach = d * (k - 1) + 1
            places = (n + 2 * p - reach) // s + 1
            if ceil_mode and (n + 2 * p - reach) % s and places * s < n + p:  # a last window that hangs over, but begins inside
                places += 1
            self.behind.append(max((places - 1) * s + reach - n - p, p))

    def of_axes(self, first, last):
        """A Window over two axes, or over one beside an axis of 1."""
        axes = list(range(first, last))
        lead = [None] * (2 - len(axes))
        picked = lambda values, none: [none if a is None else values[a] for a in lead + axes]  # noqa: E731
        before, behind = picked(self.padding, 0), picked(self.behind, 0)
        return wr.Window(*picked(self.kernel, 1), *picked(self.stride, 1), *picked(self.dilation, 1), before[0], behind[0], before[1], behind[1])

    def counts(self, axis, padded):
        """How many places of each window count: those inside, or inside the padding that was asked for."""
        n, k, s, p = self.sizes[axis], self.kernel[axis], self.stride[axis], self.padding[axis]
        places = (n + p + self.behind[axis] - k) // s + 1
        low, high = (-p, n + p) if padded else (0, n)
        return [max(1, min(i * s - p + k, high) - max(i * s - p, low)) for i in range(places)]


def _pooled(x, windows, pool):
    """pool(x with channels last, a Window) over one, two or three axes: the last two first, then the one before them."""
    axes = len(windows.sizes)
    if x.ndim == axes + 1:
        return wr.squeeze(_pooled(wr.expand_dims(x, 0), windows, pool), 0)
    x = channels_last(x)
    if axes == 1:
        return channels_second(wr.squeeze(pool(wr.expand_dims(x, 1), windows.of_axes(0, 1)), 1))
    if axes == 2:
        return channels_second(pool(x, windows.of_axes(0, 2)))
    b, d, h, w, c = x.shape
    x = pool(wr.reshape(x, (b * d, h, w, c)), windows.of_axes(1, 3))
    h, w = x.shape[1:3]
    x = pool(wr.reshape(x, (b, 1, d, h * w * c)), windows.of_axes(0, 1))
    return channels_second(wr.reshape(x, (b, x.shape[2], h, w, c)))


def _axes(interpreter):
    return int(interpreter.name.split(".")[0].removesuffix("_with_indices")[-2])


@op("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(interpreter, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    sizes = list(x.shape)[-_axes(interpreter):]
    return _pooled(x, Windows(sizes, kernel, stride, padding, dilation, ceil_mode), wr.max_pool)


@op("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(interpreter, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    sizes = list(x.shape)[-_axes(interpreter):]
    windows = Windows(sizes, kernel, stride, padding, 1, ceil_mode)
    y, whole = _pooled(x, windows, wr.avg_pool), math.prod(windows.kernel)
    if divisor_override is not None:
        return y * (whole / divisor_override)
    for axis, k in enumerate(windows.kernel):
        counts = windows.counts(axis, count_include_pad)
        if any(c != k for c in counts):
            shape = [1] * y.ndim
            shape[axis - len(windows.kernel)] = len(counts)
            y = y * wr.reshape(wr.Tensor(wr.array([k / c for c in counts], y.dtype)), tuple(shape))
    return y


def _spans(old, new):
    """Where adaptive pools begin and end."""
    return [(i * old // new, -(-(i + 1) * old // new)) for i in range(new)]


def _along(x, axis, weights):
    """A product with `weights` [old, new] along one axis."""
    order = [a for a in range(x.ndim) if a != axis] + [axis]
    x = wr.matmul(wr.permute(x, order), wr.Tensor(wr.array(weights, x.dtype)))
    return wr.permute(x, [order.index(a) for a in range(x.ndim)])


def _adapted(x, size):
    old = list(x.shape)[2:]
    return old, [o if s is None else s for s, o in zip(pair(size, len(old)), old)]


@op("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def adaptive_avg_pool(interpreter, x, size):
    if x.ndim == _axes(interpreter) + 1:
        return wr.squeeze(adaptive_avg_pool(interpreter, wr.expand_dims(x, 0), size), 0)
    old, size = _adapted(x, size)
    if any(o % s for o, s in zip(old, size)):
        for axis, (o, s) in enumerate(zip(old, size)):
            spans = _spans(o, s)
            x = _along(x, axis + 2, [[1 / (b - a) if a <= i < b else 0.0 for a, b in spans] for i in range(o)])
        return x
    shape, axes = list(x.shape)[:2], []
    for o, s in zip(old, size):
        shape += [s, o // s]
        axes.append(len(shape) - 1)
    return wr.mean(wr.reshape(x, tuple(shape)), axes)


@op("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(interpreter, x, size):
    if x.ndim == _axes(interpreter) + 1:
        return wr.squeeze(adaptive_max_pool(interpreter, wr.expand_dims(x, 0), size)[0], 0), None
    old, size = _adapted(x, size)
    if any(o % s for o, s in zip(old, size)):
        for axis, (o, s) in enumerate(zip(old, size)):  # windows of different widths: one after the other
            parts = [wr.max(wr.slice(x, axis + 2, a, b), axis + 2, True) for a, b in _spans(o, s)]
            x = parts[0] if len(parts) == 1 else wr.concat(parts, axis + 2)
        return x, None
    kernel = [o // s for o, s in zip(old, size)]
    return _pooled(x, Windows(old, kernel, kernel, 0), wr.max_pool), None


# ---- other sizes -----------------------------------------------------------------------------------------------------
@op("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def upsample_nearest(interpreter, x, size=None, scales=None, *rest, **kwargs):
    """A given factor counts, not the ratio of the sizes, which is rounded; but torch takes no notice of it for sizes as they were, or doubled."""
    scales = kwargs.get("scale_factors", scales)
    for axis, new in enumerate(interpreter.result_shape[2:], 2):
        old = x.shape[axis]
        factor = scales[axis - 2] if isinstance(scales, (list, tuple)) and scales[axis - 2] else new / old
        if new in (old, 2 * old) or (new % old == 0 and factor == new / old):
            shape = tuple(x.shape)
            x = wr.broadcast_to(wr.expand_dims(x, axis + 1), shape[:axis + 1] + (new // old,) + shape[axis + 1:])
            x = wr.reshape(x, shape[:axis] + (new,) + shape[axis + 1:])
        else:
            x = wr.gather(x, wr.Tensor(wr.array([min(int(i * (1 / factor)), old - 1) for i in range(new)], "i32")), axis)
    return x


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


@op("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def upsample_linear(interpreter, x, size=None, align=False, *scales, **kwargs):
    """A product along each axis."""
    axes = x.ndim - 2
    align, scales = kwargs.get("align_corners", align), kwargs.get("scale_factors", scales[0] if scales else None)
    scales = list(scales) if isinstance(scales, (list, tuple)) else [None] * axes
    for i in range(axes):
        x = _along(x, 2 + i, _between(x.shape[2 + i], interpreter.result_shape[2 + i], align, scales[i]))
    return x


def _cubic(distance, a):
    """Keys's kernel."""
    d = abs(distance)
    return ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else (((d - 5) * d + 8) * d - 4) * a if d < 2 else 0.0


def _cubic_between(old, new, align, scale):
    """[old, new]: four old places for each new one; beyond the edges the edge counts again."""
    rows = [[0.0] * new for _ in range(old)]
    for i in range(new):
        at = (i * (old - 1) / (new - 1) if new > 1 else 0.0) if align else (i + 0.5) * (1 / scale if scale else old / new) - 0.5
        low = math.floor(at)
        for place in range(low - 1, low + 3):
            rows[min(max(place, 0), old - 1)][i] += _cubic(at - place, -0.75)
    return rows


def _smoothed_between(old, new, align, scale, kernel, reach):
    """[old, new]: a kernel as wide as what one new place stands for, as PIL has it."""
    step = (old - 1) / (new - 1) if align and new > 1 else 0.0 if align else (1 / scale if scale else old / new)
    wide = max(step, 1.0)
    rows = [[0.0] * new for _ in range(old)]
    for i in range(new):
        centre = step * (i + 0.5)
        first, last = max(int(centre - reach * wide + 0.5), 0), min(int(centre + reach * wide + 0.5), old)
        weights = [kernel((k - centre + 0.5) / wide) for k in range(first, last)]
        for k, w in zip(range(first, last), weights):
            rows[k][i] = w / sum(weights)
    return rows


@op("upsample_bicubic2d", "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa")
def upsample_cubic(interpreter, x, size=None, align=False, *scales, **kwargs):
    align, scales = kwargs.get("align_corners", align), kwargs.get("scale_factors", scales[0] if scales else None)
    scales = list(scales) if isinstance(scales, (list, tuple)) else [None] * 2
    kinds = {"upsample_bicubic2d": _cubic_between, "_upsample_bicubic2d_aa": lambda *a: _smoothed_between(*a, lambda d: _cubic(d, -0.5), 2),
             "_upsample_bilinear2d_aa": lambda *a: _smoothed_between(*a, lambda d: max(1 - abs(d), 0.0), 1)}
    between = kinds[interpreter.name.split(".")[0]]
    for i in range(2):
        x = _along(x, 2 + i, between(x.shape[2 + i], interpreter.result_shape[2 + i], align, scales[i]))
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


@op("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(interpreter, x, groups):
    shape = tuple(x.shape)
    apart = wr.reshape(x, (shape[0], groups, shape[1] // groups, -1))
    return wr.reshape(wr.permute(apart, [0, 2, 1, 3]), shape)


@op("im2col")
def im2col(interpreter, x, kernel, dilation=1, padding=0, stride=1):
    """Patches as torch's F.unfold has them: [batch, channels * kernel, places]."""
    windows = Windows(list(x.shape)[2:], kernel, stride, padding, dilation)
    patches = wr.unfold(channels_last(x), windows.of_axes(0, 2))
    return wr.reshape(wr.permute(patches, [0, 5, 3, 4, 1, 2]), interpreter.result_shape)


@op("col2im")
def col2im(interpreter, x, size, kernel, dilation=1, padding=0, stride=1):
    """Patches summed where they overlap, as torch's F.fold has it: what the gradient of im2col is."""
    if x.ndim != 3:
        raise Error("fold without a batch axis is not supported; unsqueeze(0) first")
    windows = Windows(size, kernel, stride, padding, dilation)
    (kh, kw), channels = windows.kernel, x.shape[1] // math.prod(windows.kernel)
    nothing = wr.full((x.shape[0], *size, channels), 0, x.dtype)
    patches = wr.unfold(nothing, windows.of_axes(0, 2))
    h, w = patches.shape[1:3]
    x = wr.permute(wr.reshape(x, (x.shape[0], channels, kh, kw, h, w)), [0, 4, 5, 2, 3, 1])
    return channels_second(wr.grad(wr.sum(patches * x), nothing))


# ---- samples at places that depend on values -------------------------------------------------------------------------
@op("affine_grid_generator")
def affine_grid(interpreter, theta, size, align):
    if len(size) != 4:
        raise Error("affine_grid over volumes is not supported; over pictures it is")
    b, _, h, w = size
    line = lambda n: [(2 * i / (n - 1) - 1 if n > 1 else 0.0) if align else (2 * i + 1) / n - 1 for i in range(n)]  # noqa: E731
    base = wr.Tensor(wr.array([[x, y, 1.0] for y in line(h) for x in line(w)], theta.dtype))
    return wr.reshape(wr.einsum("pk,bik->bpi", base, theta), (b, h, w, 2))


@op("grid_sampler", "grid_sampler_2d")
def grid_sample(interpreter, x, grid, mode=0, padding=0, align=False):
    """Four neighbours of each place, or the nearest one; 0 or the nearest edge beyond the picture."""
    if x.ndim != 4 or mode not in (0, 1) or padding not in (0, 1):
        raise Error("grid_sample: there are 'bilinear' and 'nearest' over pictures, padded by 'zeros' or 'border'")
    b, c, h, w = x.shape
    high, wide = grid.shape[1:3]
    places = []
    for axis, n in ((1, h), (0, w)):
        at = wr.squeeze(wr.slice(grid, 3, axis, axis + 1), 3)
        at = (at + 1) * ((n - 1) / 2) if align else ((at + 1) * n - 1) * 0.5
        places.append(wr.reshape(wr.minimum(wr.maximum(at, 0.0), float(n - 1)) if padding else at, (b, high * wide)))
    flat = wr.reshape(x, (b, c, h * w))

    def picked(row, column):
        row, column = wr.stop_gradient(row), wr.stop_gradient(column)
        inside = wr.logical_and(wr.logical_and(wr.ge(row, 0), wr.lt(row, h)), wr.logical_and(wr.ge(column, 0), wr.lt(column, w)))
        index = wr.cast(wr.where(inside, row * w + column, 0.0), "i32")
        index = wr.broadcast_to(wr.expand_dims(index, 1), (b, c, high * wide))
        return wr.take_along(flat, index, 2) * wr.expand_dims(as_type(inside, x.dtype), 1)

    if mode == 1:
        return wr.reshape(picked(*(wr.round(p) for p in places)), (b, c, high, wide))
    rows, columns = ((lambda low: ((low, 1 - (p - low)), (low + 1, p - low)))(wr.stop_gradient(wr.floor(p))) for p in places)
    total = None
    for row, share in rows:
        for column, part in columns:
            each = picked(row, column) * wr.expand_dims(share * part, 1)
            total = each if total is None else total + each
    return wr.reshape(total, (b, c, high, wide))
