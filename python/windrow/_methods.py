"""Methods of Tensor, Array and State that are functions of the package under another spelling: x.reshape(2, -1), x.T."""
from . import _core
from ._core import Array, State, Tensor


def _sizes(sizes):
    return sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes


def _reshape(x, *sizes):
    """One size may be -1: it is worked out."""
    return _core.reshape(x, _sizes(sizes))


def _permute(x, *order):
    return _core.permute(x, _sizes(order))


def _matmul(a, b):
    return _core.matmul(a, b)


def _rmatmul(b, a):
    return _core.matmul(a, b)


_NUMPY = {"subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg", "absolute": "abs", "power": "pow", "greater": "gt",
          "greater_equal": "ge", "less": "lt", "less_equal": "le", "equal": "eq", "not_equal": "ne"}  # under another name here


def _array_ufunc(self, ufunc, method, *operands, **options):
    """numpy.exp(tensor), array * tensor: the op of that name."""
    op = getattr(_core, _NUMPY.get(ufunc.__name__, ufunc.__name__), None)
    if method != "__call__" or options or op is None:
        what = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise TypeError(f"numpy.{what} of a {type(self).__name__}: Windrow has no such op, or not with these options; the ops there are "
                        "stand in dir(windrow)")
    return op(*operands)


def _no_item(x, key, value):
    raise TypeError("x[...] = value: a Tensor is not changed in place; wr.where(mask, value, x), wr.concat and wr.scatter_add make a new one, "
                    "State.assign() keeps one")


def _iterate(x):
    return (x[i] for i in range(len(x)))


for _type in (Tensor, State):
    _type.reshape = _reshape
    _type.permute = _permute
    _type.T = property(lambda x: _core.transpose(x), doc="The last two axes swapped.")
Tensor.flatten = lambda x, from_axis=0: _core.flatten(x, from_axis)
Tensor.expand_dims = lambda x, axis: _core.expand_dims(x, axis)
Tensor.squeeze = lambda x, axis: _core.squeeze(x, axis)
Tensor.broadcast_to = lambda x, shape: _core.broadcast_to(x, shape)
Tensor.astype = lambda x, dtype: _core.cast(x, dtype)
Tensor.__iter__ = _iterate
Array.__iter__ = _iterate
Array.__matmul__ = _matmul
Array.__rmatmul__ = _rmatmul
Array.__array_ufunc__ = Tensor.__array_ufunc__ = State.__array_ufunc__ = _array_ufunc
Tensor.__setitem__ = _no_item
