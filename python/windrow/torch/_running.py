"""ATen ops along an axis where each element sees those before it: running sums, products, maxima.

Each element is combined with the one 1, 2, 4 ... places before it, so n elements take log2(n) passes. Sums of short rows are a
product with a triangle of ones instead."""
import windrow as wr

from ._ops import as_type, axis_of, op

SHORT = 2048


def _doubled(parts, axis, combine):
    """parts, a list of tensors that belong together, each combined with all before it: combine(later, earlier) -> list."""
    n, distance = parts[0].shape[axis], 1
    while distance < n:
        later = combine([wr.slice(p, axis, distance, n) for p in parts], [wr.slice(p, axis, 0, n - distance) for p in parts])
        parts = [wr.concat([wr.slice(p, axis, 0, distance), q], axis) for p, q in zip(parts, later)]
        distance *= 2
    return parts


def _triangle_product(x, axis, kind):
    n = x.shape[axis]
    ones = as_type(wr.le(wr.iota((n, n), 0), wr.iota((n, n), 1)), kind)
    order = [i for i in range(x.ndim) if i != axis] + [axis]
    moved = wr.permute(x, order) if axis != x.ndim - 1 else x
    y = wr.reshape(wr.matmul(wr.reshape(moved, (-1, n)), ones), tuple(moved.shape))
    return wr.permute(y, [order.index(i) for i in range(x.ndim)]) if axis != x.ndim - 1 else y


@op("cumsum")
def cumsum(interpreter, x, dim, dtype=None):
    if x.ndim == 0:
        return as_type(x, interpreter.result_dtype)
    axis = axis_of(dim, x.ndim)
    kind = interpreter.result_dtype if interpreter.result_dtype in ("f32", "f64") else "i32"
    x = as_type(x, kind)
    if kind != "i32" and x.shape[axis] <= SHORT:
        return _triangle_product(x, axis, kind)
    return as_type(_doubled([x], axis, lambda later, earlier: [later[0] + earlier[0]])[0], interpreter.result_dtype)


@op("cumprod")
def cumprod(interpreter, x, dim, dtype=None):
    x = as_type(x, interpreter.result_dtype)
    return x if x.ndim == 0 else _doubled([x], axis_of(dim, x.ndim), lambda later, earlier: [later[0] * earlier[0]])[0]


@op("logcumsumexp")
def logcumsumexp(interpreter, x, dim):
    def combine(later, earlier):
        (a,), (b,) = later, earlier
        most = wr.stop_gradient(wr.maximum(a, b))
        finite = wr.where(wr.lt(wr.abs(most), float("inf")), most, 0.0)  # of two -inf nothing is left to subtract
        return [finite + wr.log(wr.exp(a - finite) + wr.exp(b - finite))]

    return x if x.ndim == 0 else _doubled([x], axis_of(dim, x.ndim), combine)[0]


@op("cummax", "cummin")
def cummax(interpreter, x, dim):
    """The last of equal ones, as torch has it; a NaN stays the best. The gradient goes to that one index."""
    if x.ndim == 0:
        return x, wr.full((), 0, "i32")
    axis, ahead = axis_of(dim, x.ndim), wr.gt if interpreter.name.startswith("cummax") else wr.lt

    def combine(later, earlier):
        (a, i), (b, j) = later, earlier
        kept = wr.logical_and(wr.logical_or(ahead(b, a), wr.ne(b, b)), wr.eq(a, a))
        return [wr.where(kept, b, a), wr.where(kept, j, i)]

    index = _doubled([wr.stop_gradient(x), wr.iota(tuple(x.shape), axis)], axis, combine)[1]
    return wr.take_along(x, index, axis), index
