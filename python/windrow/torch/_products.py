"""ATen ops that multiply: products of matrices, einsum, diagonals."""
import windrow as wr
from windrow import Error

from ._ops import as_type, axis_of, broadcast, op, root, scaled


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
    return scaled(matmul(interpreter, a, b), alpha) + scaled(c, beta)


@op("outer", "ger")
def outer(interpreter, a, b):
    return wr.expand_dims(a, 1) * wr.expand_dims(b, 0)


@op("addr")
def addr(interpreter, c, a, b, beta=1, alpha=1):
    return scaled(outer(interpreter, a, b), alpha) + scaled(c, beta)


@op("kron")
def kron(interpreter, a, b):
    if a.ndim != b.ndim:
        raise Error("kron of tensors with different numbers of axes is not supported")
    apart = lambda t, k: wr.reshape(t, tuple(n for size in t.shape for n in ((size, 1) if k == 0 else (1, size))))  # noqa: E731
    return wr.reshape(apart(a, 0) * apart(b, 1), interpreter.result_shape)


@op("einsum")
def einsum(interpreter, spec, operands, path=None):
    spec = spec.replace(" ", "")
    if "..." in spec:
        raise Error("einsum: '...' is not supported; name all labels")
    if "->" not in spec:
        labels = spec.replace(",", "")
        spec += "->" + "".join(sorted(c for c in set(labels) if labels.count(c) == 1))
    return wr.einsum(spec, *operands)


@op("cosine_similarity")
def cosine_similarity(interpreter, a, b, dim=1, eps=1e-8):
    axis = axis_of(dim, max(a.ndim, b.ndim))
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


@op("diagonal", "linalg_diagonal")
def diagonal(interpreter, x, offset=0, dim1=0, dim2=1, **kwargs):
    if offset or {axis_of(kwargs.get("dim1", dim1), x.ndim), axis_of(kwargs.get("dim2", dim2), x.ndim)} != {x.ndim - 2, x.ndim - 1}:
        raise Error("diagonal: the main one of the last two axes alone")
    n = min(x.shape[-2:])
    square = wr.slice(wr.slice(x, x.ndim - 2, 0, n), x.ndim - 1, 0, n)
    return wr.sum(square * _diagonal_of_ones(n, n, x.dtype), x.ndim - 1)


@op("diag_embed", "diag")
def diag_embed(interpreter, x, *offset, **kwargs):
    if any(offset) or kwargs:
        raise Error("a diagonal elsewhere than in the middle of the last two axes is not supported")
    if interpreter.name.startswith("diag.") and x.ndim == 2:
        return diagonal(interpreter, x)
    return wr.expand_dims(x, x.ndim) * _diagonal_of_ones(x.shape[-1], x.shape[-1], x.dtype)
