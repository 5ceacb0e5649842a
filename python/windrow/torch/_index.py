"""ATen ops that look up, place, order and put together: embeddings, gathers, scatters, sorts, concatenations."""
import math

import windrow as wr
from windrow import Error

from ._layers import pair
from ._ops import as_type, axis_of, broadcast, is_tensor, op


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
    """Rows of each bag summed (0), their mean (1) or their largest (2); bags of one length as a matrix, others by where they begin."""
    if sparse or scale_grad_by_freq:
        raise Error("embedding_bag: sparse gradients and scale_grad_by_freq are not supported")
    (bags, dim), count = interpreter.result_shapes[0], indices.size
    if padding_idx is not None and padding_idx < 0:
        padding_idx = None if padding_idx == -1 else padding_idx + weight.shape[0]
    flat = wr.reshape(indices, (-1,))
    rows = wr.gather(weight, flat, 0)
    counted = wr.full((count,), 1.0, weight.dtype) if padding_idx is None else wr.cast(wr.ne(flat, padding_idx), weight.dtype)
    rows = rows if weights is None else rows * wr.expand_dims(weights, 1)
    even = bags and count % bags == 0 and interpreter.is_arange(2)
    if even:  # [bags, length, dim]
        rows, counted = wr.reshape(rows, (bags, -1, dim)), wr.reshape(counted, (bags, -1))
        member = wr.broadcast_to(wr.expand_dims(counted, 2), tuple(rows.shape))
        total = lambda t: wr.sum(t, 1)  # noqa: E731
    else:
        offsets = wr.slice(offsets, 0, 0, bags) if include_last_offset else offsets
        begun = wr.le(wr.expand_dims(offsets, 0), wr.expand_dims(wr.iota((count,), 0), 1))
        bag = wr.sum(wr.cast(begun, "i32"), 1) - 1
        member = wr.permute(wr.one_hot(bag, bags, weight.dtype), [1, 0]) * counted
        total = lambda t: wr.scatter_add(wr.full((bags, *tuple(t.shape)[1:]), 0.0, t.dtype), bag, t, 0)  # noqa: E731
    if mode == 2:
        spread = rows if even else wr.broadcast_to(wr.expand_dims(rows, 0), (bags, count, dim))
        inside = wr.gt(member if even else wr.broadcast_to(wr.expand_dims(member, 2), (bags, count, dim)), 0)
        best = wr.argmax(wr.where(inside, wr.stop_gradient(spread), float("-inf")), 1, True)
        some = wr.broadcast_to(wr.expand_dims(wr.gt(wr.sum(counted if even else member, 1), 0), 1), (bags, dim))
        return wr.where(some, wr.squeeze(wr.take_along(spread, best, 1), 1), 0.0), None, None, None
    if padding_idx is not None:
        rows = rows * wr.expand_dims(counted, counted.ndim)
    result = total(rows)
    if mode == 1:
        result = result / wr.expand_dims(wr.maximum(total(counted), 1.0), 1)
    return result, None, None, None


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
def take_along_dim(interpreter, x, index, dim=None):
    if dim is None:
        return wr.gather(wr.reshape(x, (-1,)), wr.reshape(index, (-1,)), 0)
    axis = axis_of(dim, x.ndim)
    shape = [max(a, b) for a, b in zip(x.shape, index.shape)]
    x = broadcast(x, [n if a != axis else x.shape[a] for a, n in enumerate(shape)])
    return wr.take_along(x, broadcast(index, [n if a != axis else index.shape[a] for a, n in enumerate(shape)]), axis)


def _flat_index(x, given):
    """Indices into several axes of x, from (axis, tensor), as one into their product; and the axes."""
    flat, size = None, 1
    for a, t in reversed(given):
        t = wr.where(wr.lt(t, 0), t + x.shape[a], t)  # negative ones count from the end
        part = t * size if size > 1 else t
        flat = part if flat is None else flat + part
        size *= x.shape[a]
    return flat, [a for a, _ in given]


@op("index.Tensor")
def index(interpreter, x, indices):
    given = [(i, t) for i, t in enumerate(indices) if t is not None]
    if any(t.dtype == "bool" for _, t in given):
        raise Error("indexing by a boolean mask gives a shape that depends on values; use torch.where, or multiply by the mask")
    axes = [a for a, _ in given]
    if axes != list(range(axes[0], axes[0] + len(axes))):  # apart from one another: what they pick comes first
        order = axes + [a for a in range(x.ndim) if a not in axes]
        x, given, axes = wr.permute(x, order), [(i, t) for i, (_, t) in enumerate(given)], list(range(len(axes)))
    flat, _ = _flat_index(x, given)
    shape = list(x.shape)
    merged = x if len(given) == 1 else wr.reshape(x, tuple(shape[:axes[0]] + [-1] + shape[axes[-1] + 1:]))
    return wr.gather(merged, flat, axes[0])


@op("one_hot")
def one_hot(interpreter, index, classes=-1):
    if classes < 0:
        raise Error("one_hot: give the number of classes; it cannot depend on values")
    return wr.one_hot(index, classes, "i32")


def _inside(x, axis, index, f):
    """f on that part of x which an index that is smaller on other axes reaches; the rest of x beside it."""
    for a in range(x.ndim):
        n, reached = x.shape[a], index.shape[a]
        if a != axis and reached != n:
            changed = _inside(wr.slice(x, a, 0, reached), axis, index, f)
            return wr.concat([changed, wr.slice(x, a, reached, n)], a)
    return f(x)


def _as_index(source, index):
    """What is scattered, in the index's shape; torch lets it be larger."""
    for a in range(source.ndim):
        source = wr.slice(source, a, 0, index.shape[a]) if source.shape[a] != index.shape[a] else source
    return source


@op("index_add")
def index_add(interpreter, x, dim, index, source, alpha=1):
    return wr.scatter_add(x, index, source if alpha == 1 else source * alpha, axis_of(dim, x.ndim))


@op("scatter_add")
def scatter_add(interpreter, x, dim, index, source):
    axis = axis_of(dim, x.ndim)
    rows = _of_rows(interpreter, x, axis, index, source)
    if rows is not None:
        return wr.scatter_add(x, rows, source, axis)
    return _inside(x, axis, index, lambda part: _scatter_add(part, axis, index, _as_index(source, index)))


def _of_rows(interpreter, x, axis, index, source):
    """An index that was expanded from one number a row, as graph nets have it: that row of numbers; else None."""
    if any(x.shape[a] != index.shape[a] for a in range(x.ndim) if a != axis) or tuple(source.shape) != tuple(index.shape):
        return None
    narrow = index if x.ndim == 1 else interpreter.before_expanding(2)
    if narrow is None or narrow.size != index.shape[axis] or (x.ndim > 1 and narrow.ndim == x.ndim and narrow.shape[axis] != index.shape[axis]):
        return None
    if x.ndim > 1 and narrow.ndim < x.ndim and axis != x.ndim - 1:
        return None  # it was the last axis that it had
    return wr.reshape(narrow, (-1,))


def _scatter_add(x, axis, index, source):
    placed = wr.sum(wr.one_hot(index, x.shape[axis], x.dtype) * wr.expand_dims(source, source.ndim), axis)
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return x + wr.permute(placed, order)


def _moved(x, axis, f):
    """f on the last axis, for any axis."""
    if axis == x.ndim - 1:
        return f(x)
    order = [i for i in range(x.ndim) if i != axis] + [axis]
    return wr.permute(f(wr.permute(x, order)), [order.index(i) for i in range(x.ndim)])


MOST_SORTED = 512


def _order(x, descending):
    """The indices that sort the last axis: each element's rank is the number of those before it. Equal ones stay in their order."""
    n = x.shape[-1]
    if n > MOST_SORTED:
        raise Error(f"a sort of {n} elements is not supported: {MOST_SORTED} at most, as every two are compared")
    x = wr.stop_gradient(x)
    nan = wr.ne(x, x)
    mine, other = wr.expand_dims(x, x.ndim), wr.expand_dims(x, x.ndim - 1)
    mine_nan, other_nan = wr.expand_dims(nan, x.ndim), wr.expand_dims(nan, x.ndim - 1)
    smaller = wr.gt if descending else wr.lt  # NaN counts as the largest
    ahead = wr.logical_and(mine_nan, wr.logical_not(other_nan)) if not descending else wr.logical_and(other_nan, wr.logical_not(mine_nan))
    equal = wr.logical_or(wr.eq(other, mine), wr.logical_and(mine_nan, other_nan))
    earlier = broadcast(wr.lt(wr.iota((n, n), 1), wr.iota((n, n), 0)), tuple(equal.shape))
    ahead = wr.logical_or(wr.logical_or(smaller(other, mine), ahead), wr.logical_and(equal, earlier))
    rank = wr.sum(wr.cast(ahead, "i32"), x.ndim)
    places = wr.cast(wr.eq(wr.expand_dims(rank, x.ndim - 1), wr.iota((n, n), 0)), "i32")  # [..., place, element]
    return wr.sum(places * wr.iota((n,), 0), x.ndim)


@op("sort", "argsort")
def sort(interpreter, x, *args, dim=-1, descending=False, stable=None):
    if interpreter.name.endswith("stable") and args:
        args = args[1:]
    dim, descending = (*args, *(dim, descending)[len(args):])[:2]
    if x.ndim == 0:
        raise Error("a sort of a single number")
    axis = axis_of(dim, x.ndim)
    index = _moved(x, axis, lambda t: _order(t, descending))
    return index if interpreter.name.startswith("argsort") else (wr.take_along(x, index, axis), index)


@op("topk")
def topk(interpreter, x, k, dim=-1, largest=True, ordered=True):
    """The best, and the best of the rest, k times; the first k of a sort where they are many."""
    axis = axis_of(dim, x.ndim)
    if k > 8:
        index = wr.slice(_moved(x, axis, lambda t: _order(t, largest)), axis, 0, k)
        return wr.take_along(x, index, axis), index
    rest, found, count = wr.stop_gradient(x), [], wr.iota(tuple(x.shape), axis)
    worst = wr.full((), float("-inf") if largest else float("inf"), "f32" if x.dtype == "i32" else x.dtype)
    rest = as_type(rest, worst.dtype)
    for _ in range(k):
        found.append((wr.argmax if largest else wr.argmin)(rest, axis, True))
        rest = wr.where(wr.eq(count, found[-1]), worst, rest)
    index = found[0] if k == 1 else wr.concat(found, axis)
    return wr.take_along(x, index, axis), index


@op("median", "kthvalue")
def kthvalue(interpreter, x, *args, k=None, dim=None, keepdim=False):
    """The k-th of a sort; a median is that in the middle, the lower of two. NaN counts as the largest, for a median as the first."""
    median = interpreter.name.startswith("median")
    if median and interpreter.name.endswith("default"):
        x, args = wr.reshape(x, (-1,)), (0,)
    if not median:
        k, args = (args[0], args[1:]) if args else (k, args)
    dim, keepdim = (*args, *(dim if dim is not None else -1, keepdim)[len(args):])[:2]
    axis = axis_of(dim, x.ndim)
    if median:
        n = x.shape[axis]
        k = (n - 1) // 2 + 1
    index = wr.slice(_moved(x, axis, lambda t: _order(t, False)), axis, k - 1, k)
    if median and x.dtype in ("f32", "f64"):  # a NaN where there is one
        nan = wr.ne(wr.stop_gradient(x), wr.stop_gradient(x))
        first = wr.argmax(wr.cast(nan, "i32"), axis, True)
        index = wr.where(wr.gt(wr.sum(wr.cast(nan, "i32"), axis, True), 0), first, index)
    value = wr.take_along(x, index, axis)
    if interpreter.name.endswith("default") and median:
        return wr.reshape(value, ())
    return (value, index) if keepdim else (wr.squeeze(value, axis), wr.squeeze(index, axis))


@op("quantile", "nanquantile")
def quantile(interpreter, x, q, dim=None, keepdim=False, interpolation="linear"):
    """Between two of a sort, by numbers that are known: a Python number, or as many as a list of them."""
    if interpreter.name.startswith("nan") or is_tensor(q) or interpolation not in ("linear", "lower", "higher", "nearest", "midpoint"):
        raise Error("is supported for a number q and without NaN; take x.sort(dim).values and torch.lerp")
    whole = x.ndim
    x, axis = (wr.reshape(x, (-1,)), 0) if dim is None else (x, axis_of(dim, x.ndim))
    at = q * (x.shape[axis] - 1)
    low, high = math.floor(at), math.ceil(at)
    share = {"linear": at - low, "lower": 0.0, "higher": 1.0, "nearest": float(round(at) - low), "midpoint": 0.5 if high > low else 0.0}[interpolation]
    ordered = wr.take_along(x, _moved(x, axis, lambda t: _order(t, False)), axis)
    a, b = wr.slice(ordered, axis, low, low + 1), wr.slice(ordered, axis, high, high + 1)
    y = a + (b - a) * share if share else a
    if dim is None:
        return wr.reshape(y, (1,) * whole if keepdim else ())
    return y if keepdim else wr.squeeze(y, axis)


@op("unique", "nonzero", "masked_select")
def no_shape(interpreter, *args, **kwargs):
    raise Error("its result's shape depends on values; use torch.where, or multiply by a mask")


@op("scatter")
def scatter(interpreter, x, dim, index, source=None, value=None, reduce=None):
    """Where several go to one place, torch takes any of them; here they must be alike or one."""
    source = value if source is None else source
    if reduce is not None:
        raise Error("scatter with reduce is not supported; scatter_add is")
    axis = axis_of(dim, x.ndim)
    source = source if isinstance(source, (int, float, bool)) else _as_index(source, index)
    return _inside(x, axis, index, lambda part: _scatter(part, axis, index, source))


def _scatter(x, axis, index, source):
    kind = x.dtype if x.dtype in ("f32", "f64") else "f32"
    places = wr.one_hot(index, x.shape[axis], kind)
    hits = wr.sum(places, axis)
    if isinstance(source, (int, float, bool)):
        source = wr.full(tuple(index.shape), float(source), kind)
    placed = wr.sum(places * wr.expand_dims(as_type(source, kind), index.ndim), axis) / wr.maximum(hits, wr.full((), 1.0, kind))
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return wr.where(wr.gt(wr.permute(hits, order), 0), as_type(wr.permute(placed, order), x.dtype), x)


@op("scatter_reduce")
def scatter_reduce(interpreter, x, dim, index, source, reduce, include_self=True):
    if reduce not in ("sum", "mean", "amax", "amin", "prod"):
        raise Error(f"scatter_reduce '{reduce}' is not supported; there are sum, mean, amax, amin and prod")
    axis = axis_of(dim, x.ndim)
    if reduce in ("amax", "amin", "prod"):
        return _inside(x, axis, index, lambda part: _scatter_best(part, axis, index, _as_index(source, index), reduce, include_self))
    zero, one = wr.full(tuple(x.shape), 0.0, x.dtype), wr.full(tuple(source.shape), 1.0, x.dtype)
    total = scatter_add(interpreter, zero, dim, index, source)
    hits = scatter_add(interpreter, zero, dim, index, one)
    kept = x if include_self else wr.where(wr.gt(hits, 0), zero, x)
    if reduce == "sum":
        return kept + total
    count = hits + 1 if include_self else wr.maximum(hits, wr.full((), 1.0, x.dtype))
    if x.dtype not in ("f32", "f64"):
        return as_type(wr.floor(as_type(kept + total, "f64") / as_type(count, "f64")), x.dtype)
    return (kept + total) / count


def _scatter_best(x, axis, index, source, reduce, include_self):
    """The largest, smallest or product of what goes to each place, the place's own value among them or not."""
    whole = {"f32": float("inf"), "f64": float("inf"), "i32": 2.0**31 - 1, "u8": 255.0, "bool": 1.0}[x.dtype.name]
    nothing = {"amax": -whole if x.dtype != "i32" else -whole - 1, "amin": whole, "prod": 1.0}[reduce]
    places = wr.one_hot(index, x.shape[axis], "bool")
    spread = wr.where(places, wr.broadcast_to(wr.expand_dims(source, source.ndim), tuple(places.shape)), wr.full((), nothing, x.dtype))
    last = [a for a in range(x.ndim) if a != axis] + [axis]
    own = wr.expand_dims(wr.permute(x, last), axis)
    spread = wr.concat([spread, own], axis) if include_self else spread
    found = {"amax": wr.max, "amin": wr.min, "prod": wr.prod}[reduce](spread, axis)
    if not include_self:
        hit = wr.gt(wr.sum(wr.cast(places, "i32"), axis), 0)
        found = wr.where(hit, found, wr.squeeze(own, axis))
    return wr.permute(found, [last.index(a) for a in range(x.ndim)])


@op("index_put")
def index_put(interpreter, x, indices, value, accumulate=False):
    """x[mask] = number or row, and x[index] = rows."""
    given = [(i, t) for i, t in enumerate(indices) if t is not None]
    axis, where = given[0]
    value = as_type(value, x.dtype)
    if len(given) == 1 and where.dtype == "bool":
        behind = x.ndim - axis - where.ndim
        if value.ndim > behind and value.size != 1:
            raise Error("x[mask] = values: a number or one row for all can be put; use torch.where")
        value = wr.reshape(value, ()) if value.size == 1 else value
        mask = wr.reshape(where, (1,) * axis + tuple(where.shape) + (1,) * behind)
        return wr.where(broadcast(mask, tuple(x.shape)), x + value if accumulate else broadcast(value, tuple(x.shape)), x)
    if any(t.dtype == "bool" for _, t in given):
        raise Error("writing to places by masks beside indices is not supported; use torch.where or scatter")
    axes = [a for a, _ in given]
    apart = axes != list(range(axes[0], axes[0] + len(axes)))  # then what they pick comes first
    order = axes + [a for a in range(x.ndim) if a not in axes]
    turned = wr.permute(x, order) if order != list(range(x.ndim)) else x
    flat, _ = _flat_index(turned, [(i, t) for i, (_, t) in enumerate(given)])
    rest, lead = tuple(turned.shape)[len(given):], 0 if apart else axes[0]
    value = broadcast(value, rest[:lead] + tuple(flat.shape) + rest[lead:])
    if lead:
        value = wr.permute(value, [*range(lead, lead + flat.ndim), *range(lead), *range(lead + flat.ndim, value.ndim)])
    rows = wr.reshape(value, (flat.size, *rest))
    merged, where = wr.reshape(turned, (-1, *rest)), wr.reshape(flat, (-1,))
    if accumulate:
        new = wr.scatter_add(merged, where, rows, 0)
    else:
        new = _scatter(merged, 0, broadcast(wr.reshape(where, (where.shape[0],) + (1,) * len(rest)), tuple(rows.shape)), rows)
    new = wr.reshape(new, tuple(turned.shape))
    return wr.permute(new, [order.index(a) for a in range(x.ndim)]) if turned is not x else new


@op("take")
def take(interpreter, x, index):
    return wr.gather(wr.reshape(x, (-1,)), index, 0)


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
        return wr.reshape(roll(interpreter, wr.reshape(x, (-1,)), shifts, [0]), tuple(x.shape))
    for s, d in zip(pair(shifts, 1), pair(dims, 1)):
        axis = axis_of(d, x.ndim)
        n = max(x.shape[axis], 1)
        x = wr.concat([wr.slice(x, axis, n - s % n, n), wr.slice(x, axis, 0, n - s % n)], axis) if s % n else x
    return x


@op("broadcast_tensors")
def broadcast_tensors(interpreter, tensors):
    return tuple(broadcast(t, s) for t, s in zip(tensors, interpreter.result_shapes))


@op("hstack", "vstack", "dstack", "column_stack")
def stacked(interpreter, tensors):
    """Along axis 1, 0 or 2, after axes that are missing are put where numpy would."""
    tensors = [as_type(t, interpreter.result_dtype) for t in tensors]
    kind, rank = interpreter.name.split(".")[0], tensors[0].ndim
    if kind == "hstack":
        return wr.concat(tensors, 0 if rank == 1 else 1)
    if kind == "dstack" and rank < 3:
        raise Error("dstack of tensors with fewer than three axes is not supported; torch.stack is")
    if rank == 1:
        tensors = [wr.expand_dims(t, 1 if kind == "column_stack" else 0) for t in tensors]
    return wr.concat(tensors, {"vstack": 0, "column_stack": 1, "dstack": 2}[kind])


@op("meshgrid")
def meshgrid(interpreter, tensors, indexing="ij"):
    n, shape = len(tensors), interpreter.result_shape
    places = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else range(n)  # the axis of each
    return tuple(wr.broadcast_to(wr.reshape(t, tuple(t.size if a == i else 1 for a in range(n))), shape) for i, t in zip(places, tensors))


@op("diff")
def diff(interpreter, x, n=1, dim=-1, prepend=None, append=None):
    axis = axis_of(dim, x.ndim)
    parts = [t for t in (prepend, x, append) if t is not None]
    x = parts[0] if len(parts) == 1 else wr.concat(parts, axis)
    for _ in range(n):
        size = x.shape[axis]
        x = wr.slice(x, axis, 1, size) - wr.slice(x, axis, 0, size - 1)
    return x


@op("rot90")
def rot90(interpreter, x, k=1, dims=(0, 1)):
    a, b = (axis_of(d, x.ndim) for d in dims)
    if k % 4 == 0:
        return x
    if k % 4 == 2:
        return wr.flip(wr.flip(x, a), b)
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return wr.flip(wr.permute(x, order), a if k % 4 == 1 else b)


@op("bucketize", "searchsorted")
def bucketize(interpreter, first, second, *, out_int32=False, right=False, side=None, sorter=None):
    """How many boundaries lie before each value; every boundary is compared."""
    x, boundaries = (first, second) if interpreter.name.startswith("bucketize") else (second, first)
    if sorter is not None:
        raise Error("searchsorted with a sorter is not supported; sort the boundaries")
    if boundaries.ndim == 1:
        boundaries = wr.reshape(boundaries, (1,) * x.ndim + (-1,))
    else:
        boundaries = wr.expand_dims(boundaries, boundaries.ndim - 1)
    before = (wr.le if right or side == "right" else wr.lt)(boundaries, wr.expand_dims(x, x.ndim))
    return wr.sum(wr.cast(before, "i32"), -1)
