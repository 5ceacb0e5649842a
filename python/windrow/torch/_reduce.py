"""ATen ops that reduce: sums, maxima, norms, variances."""
import math

import windrow as wr
from windrow import Error

from ._ops import as_type, axis_of, op, root, truth


def dims_of(dim, rank):
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    return [axis_of(d, rank) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


for _name, _kernel in (("sum", wr.sum), ("mean", wr.mean), ("prod", wr.prod)):
    def _reduce(interpreter, x, dim=None, keepdim=False, dtype=None, _f=_kernel):
        return _f(as_type(x, interpreter.result_dtype), dims_of(dim, x.ndim), keepdim)
    op(_name)(_reduce)


@op("amax", "max.default")
def amax(interpreter, x, dim=None, keepdim=False):
    return wr.max(x, dims_of(dim, x.ndim), keepdim)


@op("amin", "min.default")
def amin(interpreter, x, dim=None, keepdim=False):
    return wr.min(x, dims_of(dim, x.ndim), keepdim)


def _best(x, dim, keepdim, arg):
    """Value and index; the gradient goes to that one index, as torch has it."""
    axis = axis_of(dim, x.ndim)
    index = arg(x, axis, True)
    value = wr.take_along(x, index, axis)
    return (value, index) if keepdim else (wr.squeeze(value, axis), wr.squeeze(index, axis))


@op("max.dim")
def max_dim(interpreter, x, dim, keepdim=False):
    return _best(x, dim, keepdim, wr.argmax)


@op("min.dim")
def min_dim(interpreter, x, dim, keepdim=False):
    return _best(x, dim, keepdim, wr.argmin)


@op("argmax")
def argmax(interpreter, x, dim=None, keepdim=False):
    return wr.argmax(x, dims_of(dim, x.ndim), keepdim)


@op("argmin")
def argmin(interpreter, x, dim=None, keepdim=False):
    return wr.argmin(x, dims_of(dim, x.ndim), keepdim)


@op("logsumexp")
def logsumexp(interpreter, x, dim, keepdim=False):
    return wr.logsumexp(x, dims_of(dim, x.ndim), keepdim)


@op("any")
def any_(interpreter, x, dim=None, keepdim=False):
    return wr.gt(wr.sum(wr.cast(truth(x), "i32"), dims_of(dim, x.ndim), keepdim), 0)


@op("all")
def all_(interpreter, x, dim=None, keepdim=False):
    return wr.eq(wr.sum(wr.cast(wr.logical_not(truth(x)), "i32"), dims_of(dim, x.ndim), keepdim), 0)


def _variance(x, dim, correction, keepdim):
    axes = dims_of(dim, x.ndim)
    count = math.prod(x.shape[a] for a in (axes if axes is not None else range(x.ndim)))
    if count <= correction:
        raise Error(f"variance of {count} values with correction {correction} is not defined")
    v = wr.variance(x, axes, keepdim)
    return v if correction == 0 else v * (count / (count - correction))


def _spread_options(interpreter, args, kwargs):
    """(dim, correction, keepdim) of the overloads of var and std."""
    if interpreter.name.endswith("correction"):
        correction = kwargs.get("correction", 1)
        return args[0] if args else kwargs.get("dim"), 1 if correction is None else correction, kwargs.get("keepdim", False)
    if interpreter.name.endswith("dim"):
        return args[0], int(args[1]) if len(args) > 1 else 1, args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    return None, int(args[0]) if args else 1, False


@op("var_mean", "std_mean")
def spread_and_mean(interpreter, x, *args, **kwargs):
    dim, correction, keepdim = _spread_options(interpreter, args, kwargs)
    v = _variance(x, dim, correction, keepdim)
    return (root(v) if interpreter.name.startswith("std") else v), wr.mean(x, dims_of(dim, x.ndim), keepdim)


@op("var")
def var(interpreter, x, *args, **kwargs):
    return _variance(x, *_spread_options(interpreter, args, kwargs))


@op("std")
def std(interpreter, x, *args, **kwargs):
    return root(_variance(x, *_spread_options(interpreter, args, kwargs)))


@op("linalg_vector_norm", "norm", "linalg_norm")
def vector_norm(interpreter, x, order=2, dim=None, keepdim=False, dtype=None):
    axes, order = dims_of(dim, x.ndim), 2 if order is None else order
    if order == 2:
        return root(wr.sum(wr.square(x), axes, keepdim))
    if order == 1:
        return wr.sum(wr.abs(x), axes, keepdim)
    if order == math.inf:
        return wr.max(wr.abs(x), axes, keepdim)
    if order == -math.inf:
        return wr.min(wr.abs(x), axes, keepdim)
    if order == 0:
        return wr.sum(as_type(wr.ne(x, 0), x.dtype), axes, keepdim)
    if order < 0:
        raise Error(f"a norm of order {order} is not supported")
    size = wr.abs(x)
    some = wr.gt(size, 0)  # at 0 the gradient is 0, as torch has it
    total = wr.sum(wr.where(some, wr.pow(wr.where(some, size, 1.0), float(order)), 0.0), axes, keepdim)
    some = wr.gt(total, 0)
    return wr.where(some, wr.pow(wr.where(some, total, 1.0), 1.0 / float(order)), total)


@op("linalg_matrix_norm", "frobenius_norm")
def matrix_norm(interpreter, x, order="fro", dim=(-2, -1), keepdim=False, dtype=None):
    if order != "fro":
        raise Error(f"a matrix norm of order {order!r}: there is 'fro'")
    return root(wr.sum(wr.square(x), dims_of(dim, x.ndim), keepdim))


@op("dist")
def dist(interpreter, a, b, order=2):
    return vector_norm(interpreter, a - b, order)


@op("pairwise_distance")
def pairwise_distance(interpreter, a, b, order=2, eps=1e-6, keepdim=False):
    return vector_norm(interpreter, a - b + eps, order, -1, keepdim)


@op("cdist")
def cdist(interpreter, a, b, order=2, mode=None):
    return vector_norm(interpreter, wr.expand_dims(a, a.ndim - 1) - wr.expand_dims(b, b.ndim - 2), order, -1)


@op("pdist")
def pdist(interpreter, x, order=2):
    rows = range(x.shape[0])
    first, second = ([pair[k] for i in rows for pair in ((i, j) for j in rows if j > i)] for k in (0, 1))
    a, b = (wr.gather(x, wr.Tensor(wr.array(which, "i32")), 0) for which in (first, second))
    return vector_norm(interpreter, a - b, order, -1)


@op("nansum", "nanmean")
def nansum(interpreter, x, dim=None, keepdim=False, dtype=None):
    axes = None if dim is None or dim == [] else dim
    known = wr.eq(x, x)
    total = wr.sum(wr.where(known, x, wr.full((), 0, x.dtype)), axes, keepdim)
    if interpreter.name.startswith("nansum"):
        return total
    return total / wr.sum(wr.cast(known, x.dtype), axes, keepdim)


@op("trapezoid", "trapz")
def trapezoid(interpreter, y, x=None, dx=1, dim=-1):
    if isinstance(x, (int, float)):
        x, dx = None, x
    axis = axis_of(dim, y.ndim)
    both = lambda t, a: (wr.slice(t, a, 1, t.shape[a]), wr.slice(t, a, 0, t.shape[a] - 1))  # noqa: E731
    after, before = both(y, axis)
    width = dx
    if x is not None:
        right, left = both(x, 0 if x.ndim == 1 else axis)
        width = right - left
        if x.ndim == 1:
            width = wr.reshape(width, tuple(-1 if a == axis else 1 for a in range(y.ndim)))
    return wr.sum((after + before) * width, axis) * 0.5
