"""Ops whose result shares memory with their operand: how the view is read, and how the whole is made anew when the view
is written to. VIEWS[name](shape of the whole, result shape, *args) gives a View."""
import windrow as wr
from windrow import Error

from ._ops import axis_of

VIEWS = {}


class View:
    """get(whole) -> part; put(whole, part) -> whole."""

    __slots__ = ("get", "put", "expands")

    def __init__(self, get, put, expands=False):
        self.get, self.put, self.expands = get, put, expands


DETACHED = View(wr.stop_gradient, lambda x, part: part)
COPIES = ("reshape", "flatten", "reshape_as", "ravel", "unflatten")  # views where torch can have one, copies elsewhere
ITSELF = ("contiguous", "to", "type_as", "float", "double", "long", "int", "bool", "positive", "lift_fresh", "real", "resolve_conj", "resolve_neg",
          "conj")  # the operand itself, where nothing is to be done
MAYBE_ITSELF = ("broadcast_tensors", "dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")


def view(*names):
    def register(fn):
        for name in names:
            VIEWS[name] = fn
        return fn

    return register


@view("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten", "view_as", "reshape_as", "_reshape_alias",
      "ravel", "atleast_1d", "atleast_2d", "atleast_3d")
def reshaped(whole, shape, *args, **kwargs):
    return View(lambda x: x if tuple(x.shape) == shape else wr.reshape(x, shape), lambda x, part: wr.reshape(part, whole))


def permuted(order):
    back = [order.index(i) for i in range(len(order))]
    if order == list(range(len(order))):
        return View(lambda x: x, lambda x, part: part)
    return View(lambda x: wr.permute(x, order), lambda x, part: wr.permute(part, back))


@view("permute")
def permute(whole, shape, dims, *args):
    return permuted([axis_of(d, len(whole)) for d in dims])


@view("transpose", "swapaxes", "swapdims")
def transpose(whole, shape, a, b):
    order = list(range(len(whole)))
    if order:
        a, b = axis_of(a, len(whole)), axis_of(b, len(whole))
        order[a], order[b] = order[b], order[a]
    return permuted(order)


@view("t", "numpy_T", "mT", "matrix_H", "adjoint", "mH")
def t(whole, shape, *args):
    order = list(range(len(whole)))
    if len(order) >= 2:
        order[-1], order[-2] = order[-2], order[-1]
    return permuted(order)


@view("movedim", "moveaxis")
def movedim(whole, shape, source, destination):
    source, destination = ([axis_of(d, len(whole)) for d in ([dims] if isinstance(dims, int) else dims)]
                           for dims in (source, destination))
    order = [i for i in range(len(whole)) if i not in source]
    for d, s in sorted(zip(destination, source)):
        order.insert(d, s)
    return permuted(order)


def placed(x, axis, part, places):
    """x with part[k] at place i of an axis, for each i: k."""
    n = x.shape[axis]
    spread = wr.gather(part, wr.Tensor(wr.array([places.get(i, 0) for i in range(n)], "i32")), axis)
    where = wr.Tensor(wr.array([i in places for i in range(n)], "bool"))
    where = wr.reshape(where, tuple(n if a == axis else 1 for a in range(x.ndim)))
    return wr.where(wr.broadcast_to(where, tuple(x.shape)), spread, x)


def sliced(whole, axis, start, stop, step):
    if step == 1 and start == 0 and stop >= whole[axis]:
        return View(lambda x: x, lambda x, part: part)

    def put(x, part):
        if step != 1:
            return placed(x, axis, part, {i: k for k, i in enumerate(range(start, stop, step))})
        parts = [part]
        if start > 0:
            parts.insert(0, wr.slice(x, axis, 0, start))
        if stop < whole[axis]:
            parts.append(wr.slice(x, axis, stop, whole[axis]))
        return parts[0] if len(parts) == 1 else wr.concat(parts, axis)

    return View(lambda x: wr.slice(x, axis, start, stop, step), put)


@view("slice")
def slice_(whole, shape, dim=0, start=None, stop=None, step=1):
    axis = axis_of(dim, len(whole))
    n = whole[axis]
    start, stop = 0 if start is None else start, n if stop is None else stop
    start, stop = (max(0, min(n, v + n if v < 0 else v)) for v in (start, stop))
    return sliced(whole, axis, start, max(start, stop), step)


@view("narrow")
def narrow(whole, shape, dim, start, length):
    axis = axis_of(dim, len(whole))
    start = start + whole[axis] if start < 0 else start
    return sliced(whole, axis, start, start + length, 1)


@view("select")
def select(whole, shape, dim, index):
    axis = axis_of(dim, len(whole))
    index = index + whole[axis] if index < 0 else index
    part = sliced(whole, axis, index, index + 1, 1)
    one = whole[:axis] + (1,) + whole[axis + 1:]
    return View(lambda x: wr.reshape(part.get(x), shape), lambda x, v: part.put(x, wr.reshape(v, one)))


@view("expand", "expand_as", "broadcast_to")
def expand(whole, shape, *args, **kwargs):
    def put(x, part):
        raise Error("writing to an expanded tensor is not supported")

    return View(lambda x: x if tuple(x.shape) == shape else wr.broadcast_to(x, shape), put, True)


@view("unfold")
def unfold(whole, shape, dim, size, step):
    """Windows along an axis; they become the last."""
    if not whole:
        return View(lambda x: wr.reshape(x, shape), lambda x, part: wr.reshape(part, ()))
    axis = axis_of(dim, len(whole))
    count = shape[axis]
    last = [i for i in range(len(whole) + 1) if i != axis + 1] + [axis + 1]

    def get(x):
        if size == step:
            x = wr.slice(x, axis, 0, count * size)
        else:
            x = wr.gather(x, wr.Tensor(wr.array([k * step + i for k in range(count) for i in range(size)], "i32")), axis)
        return wr.permute(wr.reshape(x, whole[:axis] + (count, size) + whole[axis + 1:]), last)

    def put(x, part):
        raise Error("writing to what unfold() gives is not supported")

    return View(get, put)


@view("linalg_diagonal")
def linalg_diagonal(whole, shape, offset=0, dim1=-2, dim2=-1):
    return diagonal(whole, shape, offset, dim1, dim2)


@view("diagonal")
def diagonal(whole, shape, offset=0, dim1=0, dim2=1):
    """The two axes go last; the elements of the diagonal stand in them as one at equal distances."""
    a, b = axis_of(dim1, len(whole)), axis_of(dim2, len(whole))
    order = [i for i in range(len(whole)) if i not in (a, b)] + [a, b]
    lead, rows, columns = tuple(whole[i] for i in order[:-2]), whole[a], whole[b]
    places = [r * columns + r + offset for r in range(rows) if 0 <= r + offset < columns]
    back = [order.index(i) for i in range(len(order))]
    flat = lambda x: wr.reshape(wr.permute(x, order), lead + (rows * columns,))  # noqa: E731

    def put(x, part):
        new = placed(flat(x), len(lead), part, {i: k for k, i in enumerate(places)})
        return wr.permute(wr.reshape(new, lead + (rows, columns)), back)

    return View(lambda x: wr.gather(flat(x), wr.Tensor(wr.array(places, "i32")), len(lead)), put)


@view("detach", "detach_")
def detach(whole, shape, *args):
    return DETACHED


@view("alias")
def alias(whole, shape, *args):
    return View(lambda x: x, lambda x, part: part)


def parts_of(name, whole, args):
    """The views of an op with several results: chunk, split, unbind."""
    if name == "unbind":
        dim = axis_of(args[0] if args else 0, len(whole))
        return [select(whole, whole[:dim] + whole[dim + 1:], dim, i) for i in range(whole[dim])]
    if name in ("hsplit", "vsplit", "dsplit"):
        axis = {"hsplit": min(1, len(whole) - 1), "vsplit": 0, "dsplit": 2}[name]
        name, args = "tensor_split", (args[0], axis)
    size = args[0]
    axis = axis_of(args[1] if len(args) > 1 else 0, len(whole))
    n = whole[axis]
    if name == "chunk":
        size = -(-n // size)
    if name == "tensor_split" and isinstance(size, (list, tuple)):
        ends = [max(0, min(n, e + n if e < 0 else e)) for e in (*size, n)]
        sizes = [max(0, end - start) for start, end in zip([0, *ends], ends)]
        return [sliced(whole, axis, min(start, n), min(start, n) + s, 1) for start, s in zip([0, *ends], sizes)]
    if name == "tensor_split":
        sizes = [n // size + (i < n % size) for i in range(size)]
    elif isinstance(size, (list, tuple)):
        sizes = list(size)
    else:
        sizes = [size] * (n // size) + ([n % size] if n % size else [])
    views, start = [], 0
    for s in sizes:
        views.append(sliced(whole, axis, start, start + s, 1))
        start += s
    return views


SEVERAL = ("chunk", "split", "split_with_sizes", "unbind", "tensor_split", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "hsplit", "vsplit", "dsplit")
