"""ATen ops of matrices: inverses, systems, determinants, Cholesky's factor, exponentials. In double, with gradients of their own.

Eliminations are one loop over the columns (wr.scan), whatever their number, for any axes before the last two."""
import windrow as wr
from windrow import Error

from ._ops import as_type, broadcast, op

MOST = 256


def _square(a):
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise Error(f"takes square matrices, is given {list(a.shape)}")
    if a.shape[-1] > MOST:
        raise Error(f"of a matrix of {a.shape[-1]} rows is not supported: {MOST} at most")
    return a.shape[-1]


def _columns(n):
    """What a loop over the columns is given: the number of each, and a row that has 1 there."""
    return [wr.iota((n,), 0), as_type(wr.eq(wr.iota((n, n), 0), wr.iota((n, n), 1)), "f64")]


def _turned(x):
    order = list(range(x.ndim))
    return wr.permute(x, order[:-2] + [order[-1], order[-2]])


def _as_row(x):
    return wr.expand_dims(x, x.ndim - 1)


def _as_column(x):
    return wr.expand_dims(x, x.ndim)


def _eliminated(a):
    """Gauss and Jordan's way with the largest pivot: (inverse, sign of the determinant, logarithm of its size)."""
    n, lead = _square(a), tuple(a.shape)[:-2]
    whole = wr.concat([a, broadcast(_columns(n)[1], (*lead, n, n))], a.ndim - 1)
    rows = broadcast(wr.iota((n,), 0), (*lead, n))

    def column(carry, k):
        work, sign, log = carry
        number, here = k
        values = wr.sum(wr.slice(work, work.ndim - 1, 0, n) * here, -1)
        size = wr.where(wr.ge(rows, number), wr.abs(values), -1.0)
        best = wr.argmax(size, size.ndim - 1, True)
        there = as_type(wr.eq(rows, best), "f64")  # the row of the largest
        top = wr.sum(work * _as_column(there), work.ndim - 2)
        old = wr.sum(work * wr.expand_dims(here, 1), work.ndim - 2)
        swapped = work + _as_column(there) * _as_row(old - top) + wr.expand_dims(here, 1) * _as_row(top - old)
        pivot = wr.sum(values * there, -1)
        moved = as_type(wr.ne(wr.squeeze(best, best.ndim - 1), number), "f64")
        row = top / _as_column(pivot)
        left = wr.sum(wr.slice(swapped, work.ndim - 1, 0, n) * here, -1)
        work = swapped - _as_column(left - here) * _as_row(row)  # the pivot's own row becomes `row`
        return [work, sign * wr.sign(pivot) * (1 - 2 * moved), log + wr.log(wr.abs(pivot))], []

    start = [whole, wr.full(lead, 1.0, "f64"), wr.full(lead, 0.0, "f64")]
    (work, sign, log), _ = wr.scan(column, start, _columns(n))
    return wr.slice(work, work.ndim - 1, n, 2 * n), sign, log


def _inverse(a):
    """In double."""
    found = _eliminated(wr.stop_gradient(a))[0]

    def rule(arguments, value, g):
        back = _turned(value)
        return [-wr.matmul(wr.matmul(back, g), back)]

    return wr.custom_gradient(found, [a], rule)


def _in_double(f, *tensors):
    return as_type(f(*(as_type(t, "f64") for t in tensors)), tensors[0].dtype)


@op("linalg_inv", "inverse", "linalg_inv_ex")
def inverse(interpreter, a, check_errors=False):
    y = _in_double(_inverse, a)
    return (y, wr.full(tuple(a.shape)[:-2], 0, "i32")) if "_ex" in interpreter.name else y


@op("linalg_solve", "linalg_solve_ex")
def solve(interpreter, a, b, left=True, check_errors=False):
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and tuple(b.shape) == tuple(a.shape)[:-1])
    b = _as_column(b) if vector else b
    y = _in_double(lambda a, b: wr.matmul(_inverse(a), b) if left else wr.matmul(b, _inverse(a)), a, b)
    y = wr.squeeze(y, y.ndim - 1) if vector else y
    return (y, wr.full(tuple(a.shape)[:-2], 0, "i32")) if "_ex" in interpreter.name else y


@op("linalg_solve_triangular")
def solve_triangular(interpreter, a, b, upper, left=True, unitriangular=False):
    n = _square(a)
    rows, columns = wr.iota((n, n), 0), wr.iota((n, n), 1)
    kept = (wr.lt if unitriangular else wr.le)(rows, columns) if upper else (wr.gt if unitriangular else wr.ge)(rows, columns)
    a = wr.where(broadcast(kept, tuple(a.shape)), a, 0.0)
    a = a + as_type(wr.eq(rows, columns), a.dtype) if unitriangular else a
    return _in_double(lambda a, b: wr.matmul(_inverse(a), b) if left else wr.matmul(b, _inverse(a)), a, b)


def _sign_and_log(a):
    _, sign, log = _eliminated(wr.stop_gradient(a))
    return sign, wr.custom_gradient(log, [a], lambda arguments, value, g: [_as_column(_as_column(g)) * _turned(_inverse(arguments[0]))])


@op("slogdet", "linalg_slogdet")
def slogdet(interpreter, a):
    sign, log = _sign_and_log(as_type(a, "f64"))
    return as_type(sign, a.dtype), as_type(log, a.dtype)


@op("logdet")
def logdet(interpreter, a):
    sign, log = _sign_and_log(as_type(a, "f64"))
    return as_type(wr.where(wr.lt(sign, 0), wr.full((), float("nan"), "f64"), log), a.dtype)


@op("det", "linalg_det")
def det(interpreter, a):
    sign, log = _sign_and_log(as_type(a, "f64"))
    return as_type(wr.stop_gradient(sign) * wr.exp(log), a.dtype)


# ---- Cholesky --------------------------------------------------------------------------------------------------------
def _factor(a):
    """The lower one, column by column."""
    n, lead = _square(a), tuple(a.shape)[:-2]
    rows = broadcast(wr.iota((n,), 0), (*lead, n))

    def column(carry, k):
        (done,), (number, here) = carry, k
        known = wr.sum(done * wr.expand_dims(here, 1), done.ndim - 2)
        rest = wr.sum(a * here, -1) - wr.sum(done * _as_row(known), -1)
        corner = wr.sum(rest * here, -1)
        new = wr.where(wr.ge(rows, number), rest / _as_column(wr.sqrt(corner)), 0.0)
        return [done + _as_column(new) * here], []

    return wr.scan(column, [wr.full(tuple(a.shape), 0.0, "f64")], _columns(n))[0][0]


def _cholesky(a):
    value = _factor(wr.stop_gradient(a))

    def rule(arguments, lower, g):
        n = lower.shape[-1]
        rows, columns = wr.iota((n, n), 0), wr.iota((n, n), 1)
        half = as_type(wr.gt(rows, columns), "f64") + 0.5 * as_type(wr.eq(rows, columns), "f64")
        back = _turned(_inverse(lower))
        s = wr.matmul(wr.matmul(back, wr.matmul(_turned(lower), g) * half), _turned(back))
        return [0.5 * (s + _turned(s))]

    return wr.custom_gradient(value, [a], rule)


@op("linalg_cholesky", "cholesky", "linalg_cholesky_ex")
def cholesky(interpreter, a, upper=False, check_errors=False):
    y = _in_double(_cholesky, a)
    y = _turned(y) if upper else y
    return (y, wr.full(tuple(a.shape)[:-2], 0, "i32")) if "_ex" in interpreter.name else y


@op("cholesky_solve")
def cholesky_solve(interpreter, b, factor, upper=False):
    def solved(b, factor):
        factor = _turned(factor) if upper else factor
        inverse = _inverse(factor)
        return wr.matmul(_turned(inverse), wr.matmul(inverse, b))

    return _in_double(solved, b, factor)


@op("cholesky_inverse")
def cholesky_inverse(interpreter, factor, upper=False):
    def inverted(factor):
        inverse = _inverse(_turned(factor) if upper else factor)
        return wr.matmul(_turned(inverse), inverse)

    return _in_double(inverted, factor)


# ---- orthogonal ones -------------------------------------------------------------------------------------------------
@op("matrix_exp", "linalg_matrix_exp")
def matrix_exp(interpreter, a):
    """Taylor's series of a 1024th, squared ten times."""
    n = _square(a)

    def exponential(a):
        one, small = broadcast(_columns(n)[1], tuple(a.shape)), a / 1024
        total = one + small / 8
        for k in range(7, 0, -1):
            total = one + wr.matmul(small, total) / k
        for _ in range(10):
            total = wr.matmul(total, total)
        return total

    return _in_double(exponential, a)


@op("linalg_householder_product", "orgqr")
def householder_product(interpreter, a, tau):
    m, n, count = a.shape[-2], a.shape[-1], tau.shape[-1]
    lead = tuple(a.shape)[:-2]
    rows, columns = wr.iota((m, n), 0), wr.iota((m, n), 1)
    below = wr.where(broadcast(wr.gt(rows, columns), tuple(a.shape)), a, 0.0) + as_type(wr.eq(rows, columns), a.dtype)
    q = broadcast(as_type(wr.eq(rows, columns), a.dtype), (*lead, m, n))
    for i in reversed(range(count)):
        v = wr.slice(below, a.ndim - 1, i, i + 1)
        t = wr.expand_dims(wr.slice(tau, tau.ndim - 1, i, i + 1), tau.ndim)
        q = q - t * wr.matmul(v, wr.matmul(_turned(v), q))
    return q
