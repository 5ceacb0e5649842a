"""ATen ops that multiply: products of matrices, einsum, diagonals."""
import windrow as wr
from windrow import Error

from ._ops import as_type, axis_of, broadcast, op, root, scaled
from ._views import diagonal


@op("linear")
def linear(interpreter, x, weight, bias=None):
    y = wr.matmul_nt(x, weight) if x.ndim > 1 else wr.squeeze(wr.matmul_nt(wr.expand_dims(x, 0), weight), 0)
    return y if bias is None else y + bias


@op("matmul", "mm", "bmm", "mv", "dot", "vdot")
def matmul(interpreter, a, b):
    if a.ndim == 1 and b.ndim == 1:
        return wr.sum(a * b)
    if a.ndim == 1:
        return wr.squeeze(wr.matmul(wr.expand_dims(a, 0), b), b.ndim - 2)
    if b.ndim == 1:
        return wr.squeeze(wr.matmul(a, wr.expand_dims(b, 1)), a.ndim - 1)
    return wr.matmul(a, b)


@op("addmm", "baddbmm", "addmv")
def addmm(interpreter, c, a, b, beta=1, alpha=1):
    product = scaled(matmul(interpreter, a, b), alpha)
    return broadcast(product, interpreter.result_shape) if beta == 0 else product + scaled(c, beta)


@op("addbmm")
def addbmm(interpreter, c, a, b, beta=1, alpha=1):
    product = scaled(wr.sum(wr.matmul(a, b), 0), alpha)
    return product if beta == 0 else product + scaled(c, beta)


@op("outer", "ger")
def outer(interpreter, a, b):
    return wr.expand_dims(a, 1) * wr.expand_dims(b, 0)


@op("addr")
def addr(interpreter, c, a, b, beta=1, alpha=1):
    product = scaled(outer(interpreter, a, b), alpha)
    return product if beta == 0 else product + scaled(c, beta)


@op("kron")
def kron(interpreter, a, b):
    if a.ndim != b.ndim:
        raise Error("kron of tensors with different numbers of axes is not supported")
    apart = lambda t, k: wr.reshape(t, tuple(n for size in t.shape for n in ((size, 1) if k == 0 else (1, size))))  # noqa: E731
    return wr.reshape(apart(a, 0) * apart(b, 1), interpreter.result_shape)


@op("einsum")
def einsum(interpreter, spec, operands, path=None):
    spec = spec.replace(" ", "")
    if "->" not in spec:
        labels = spec.replace("...", "").replace(",", "")
        spec += "->" + "..." * ("..." in spec) + "".join(sorted(c for c in set(labels) if labels.count(c) == 1))
    if "..." in spec:
        spec, operands = _named_labels(spec, operands)
    return wr.einsum(spec, *operands)


def _named_labels(spec, operands):
    """'...' by labels that nobody uses; axes of 1 that meet others are left out of their operand."""
    inside, out = spec.split("->")
    free = [c for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in spec]
    terms = inside.split(",")
    counts = [x.ndim - len(t.replace("...", "")) if "..." in t else 0 for t, x in zip(terms, operands)]
    names = free[:max(counts)]
    sizes = [max(x.shape[t.index("...") + count - i] for t, x, count in zip(terms, operands, counts) if count >= i)
             for i in range(len(names), 0, -1)]
    found, kept = [], []
    for term, x, count in zip(terms, operands, counts):
        start, label = term.find("..."), ""
        for i in range(count):
            at, name = start + len(label), len(names) - count + i
            if x.shape[at] == 1 and sizes[name] != 1:
                x = wr.squeeze(x, at)
            else:
                label += names[name]
        found.append(term.replace("...", label))
        kept.append(x)
    return ",".join(found) + "->" + out.replace("...", "".join(names)), kept


@op("cosine_similarity")
def cosine_similarity(interpreter, a, b, dim=1, eps=1e-8):
    rank = max(a.ndim, b.ndim)
    axis = axis_of(dim, rank)
    a, b = (wr.reshape(t, (1,) * (rank - t.ndim) + tuple(t.shape)) if t.ndim < rank else t for t in (a, b))
    a, b = (t / wr.maximum(root(wr.sum(wr.square(t), axis, True)), eps) for t in (a, b))
    return wr.sum(a * b, axis)


@op("bilinear")
def bilinear(interpreter, a, b, weight, bias=None):
    y = wr.einsum("bi,oij,bj->bo", a, weight, b)
    return y if bias is None else y + bias


@op("tensordot")
def tensordot(interpreter, a, b, dims_a, dims_b):
    names = "abcdefghijklmnopqrstuvwxyz"
    left, right = list(names[:a.ndim]), list(names[a.ndim:a.ndim + b.ndim])
    for i, j in zip(dims_a, dims_b):
        right[axis_of(j, b.ndim)] = left[axis_of(i, a.ndim)]
    kept = [c for c in left + right if (c in left) != (c in right)]
    return wr.einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", a, b)


@op("linalg_cross", "cross")
def cross(interpreter, a, b, dim=-1):
    axis = axis_of(-1 if dim is None else dim, a.ndim)
    a, b = (broadcast(t, interpreter.result_shape) for t in (a, b))
    turn = lambda t, k: wr.concat([wr.slice(t, axis, k, 3), wr.slice(t, axis, 0, k)], axis)  # noqa: E731
    return turn(a, 1) * turn(b, 2) - turn(a, 2) * turn(b, 1)


@op("trace")
def trace(interpreter, x):
    return wr.sum(x * _diagonal_of_ones(*x.shape, x.dtype))


def _diagonal_of_ones(rows, columns, dtype):
    return as_type(wr.eq(wr.iota((rows, columns), 0), wr.iota((rows, columns), 1)), dtype)


@op("fill_diagonal")
def fill_diagonal(interpreter, x, value, wrap=False):
    if x.ndim != 2 or wrap:
        raise Error("fill_diagonal_: of matrices, without wrap, alone")
    return wr.where(wr.eq(wr.iota(tuple(x.shape), 0), wr.iota(tuple(x.shape), 1)), wr.full((), float(value), x.dtype), x)


@op("diag_embed", "diag")
def diag_embed(interpreter, x, offset=0, dim1=-2, dim2=-1):
    """On any diagonal of any two axes of the result; a matrix's diagonal where diag() is given one."""
    if interpreter.name.startswith("diag.") and x.ndim == 2:
        return diagonal(tuple(x.shape), None, offset).get(x)
    rank, n = x.ndim + 1, x.shape[-1] + abs(offset)
    x = wr.pad(x, [0] * (x.ndim - 1) + [max(offset, 0)], [0] * (x.ndim - 1) + [max(-offset, 0)]) if offset else x  # by its columns
    placed = wr.expand_dims(x, x.ndim - 1) * as_type(wr.eq(wr.iota((n, n), 0) + offset, wr.iota((n, n), 1)), x.dtype)
    a, b = axis_of(dim1, rank), axis_of(dim2, rank)
    order = iter(range(rank - 2))
    return wr.permute(placed, [rank - 2 if i == a else rank - 1 if i == b else next(order) for i in range(rank)])


@op("linalg_multi_dot", "chain_matmul")
def multi_dot(interpreter, tensors):
    product = tensors[0]
    for t in tensors[1:]:
        product = wr.matmul(product, t)
    return product
