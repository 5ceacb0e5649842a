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


_NUMPY_FUNCTIONS = {"amax": "max", "amin": "min", "concatenate": "concat", "dot": "matmul", "var": "variance"}
_PLAIN = ("sum", "mean", "max", "min", "prod", "argmax", "argmin", "variance", "concat", "stack", "where", "reshape", "expand_dims",
          "broadcast_to", "matmul")  # what numpy's function of that name takes too


def _array_function(self, function, kinds, args, options):
    """numpy.sum(tensor, axis=0): the op of that name, with an axis and keepdims."""
    name = function.__name__
    if name in ("shape", "ndim", "size") and not options and len(args) == 1:
        return getattr(args[0], name)
    found = _NUMPY_FUNCTIONS.get(name, name)
    if function.__module__ != "numpy" or found not in _PLAIN or set(options) - {"axis", "keepdims"}:
        raise TypeError(f"{function.__module__}.{name} of a {type(self).__name__}: Windrow has no such op, or not with these options; the ops there "
                        "are stand in dir(windrow)")
    if found in ("concat", "stack") and len(args) == 1:
        options = {"axis": 0, **options}
    return getattr(_core, found)(*args, **options)


_ELSEWHERE = {"view": "reshape", "size": "shape", "dim": "ndim", "unsqueeze": "expand_dims", "to": "astype", "float": "astype('f32')",
              "long": "astype('i32')", "detach": "windrow.stop_gradient(x)", "transpose": "permute, or x.T", "item": "float() outside of the step",
              "numpy": "numpy.asarray() outside of the step", "backward": "windrow.grad(loss, parameters), or optimiser.minimize()",
              "clone": "the tensor itself, which never changes", "contiguous": "the tensor itself", "grad": "windrow.grad(loss, parameters)"}


def _no_attribute(x, name):
    """Only asked for what there is not: says what it is called here."""
    here = _ELSEWHERE.get(name) or (f"windrow.{name}(x, ...)" if not name.startswith("_") and callable(getattr(_core, name, None)) else None)
    raise AttributeError(f"'{type(x).__name__}' object has no attribute '{name}'" + (f"; here it is {here}" if here else ""))


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
Tensor.__array_function__ = State.__array_function__ = _array_function
Tensor.__getattr__ = _no_attribute
Tensor.__setitem__ = _no_item
