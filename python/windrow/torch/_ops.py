"""What each ATen op is in Windrow. A function takes the interpreter and the op's arguments, tensors as windrow.Tensor,
and gives a windrow.Tensor or a tuple of them. An op that is not here is refused by name and line."""
import math

import torch

import windrow as wr
from windrow import Error

TABLE = {}


def op(*names):
    """Registers a function for ATen ops: "relu" for every overload, or "add.Tensor" for one."""

    def register(fn):
        for name in names:
            TABLE[name] = fn
        return fn

    return register


def lookup(target):
    name = str(target).removeprefix("aten.")
    return TABLE.get(name) or TABLE.get(name.split(".")[0])


# ---- small things ----------------------------------------------------------------------------------------------------
DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.int32: "i32", torch.int64: "i32", torch.uint8: "u8",
          torch.bool: "bool"}


def dtype_of(torch_dtype):
    if torch_dtype not in DTYPES:
        raise Error(f"no element type for {torch_dtype}; there are float32, float64, int32, int64 (as i32), uint8 and bool")
    return DTYPES[torch_dtype]


def is_tensor(x):
    return isinstance(x, wr.Tensor)


def axis_of(dim, rank):
    return dim + rank if dim < 0 else dim


def as_type(x, dtype):
    return wr.cast(x, dtype) if is_tensor(x) and x.dtype != dtype else x


def scalar(value, x):
    """A number as a tensor of x's type without axes."""
    return wr.full((), float(value), x.dtype)


def promoted(interpreter, *values):
    """Operands in the type of the result, as the trace has it."""
    return [as_type(v, interpreter.result_dtype) for v in values]


_WIDTH = {"bool": 0, "u8": 1, "i32": 2, "f32": 3, "f64": 4}


def common(*values):
    """Operands of a comparison in one type."""
    tensors = [v for v in values if is_tensor(v)]
    widest = max((t.dtype.name for t in [t for t in tensors if t.ndim] or tensors), key=_WIDTH.get)
    if _WIDTH[widest] < 3:
        widest = "f32" if any(isinstance(v, float) for v in values) else "i32"
    return [as_type(v, widest) for v in values]


def broadcast(x, shape):
    return x if tuple(x.shape) == tuple(shape) else wr.broadcast_to(x, tuple(shape))


# ---- elementwise -----------------------------------------------------------------------------------------------------
for _name in ("abs", "sign", "square", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh",
              "erf", "sigmoid", "relu", "relu6", "silu", "floor", "ceil", "round", "neg"):
    def _unary(interpreter, x, _f=getattr(wr, _name)):
        return _f(*promoted(interpreter, x))
    op(_name)(_unary)


for _name, _base in (("log2", 2.0), ("log10", 10.0)):
    def _log(interpreter, x, _factor=1 / math.log(_base)):
        return wr.log(*promoted(interpreter, x)) * _factor
    op(_name)(_log)


@op("exp2")
def exp2(interpreter, x):
    return wr.exp(promoted(interpreter, x)[0] * math.log(2.0))


@op("tan")
def tan(interpreter, x):
    (x,) = promoted(interpreter, x)
    return wr.sin(x) / wr.cos(x)


@op("trunc", "fix")
def trunc(interpreter, x):
    return wr.where(x < 0, wr.ceil(x), wr.floor(x))


def scaled(x, alpha):
    return x if alpha == 1 else wr.mul(x, alpha) if is_tensor(x) else x * alpha


@op("add")
def add(interpreter, a, b, alpha=1):
    a, b = promoted(interpreter, a, b)
    return wr.logical_or(a, b) if interpreter.result_dtype == "bool" else wr.add(a, scaled(b, alpha))


@op("sub", "subtract")
def sub(interpreter, a, b, alpha=1):
    a, b = promoted(interpreter, a, b)
    return wr.sub(a, scaled(b, alpha))


@op("rsub")
def rsub(interpreter, a, b, alpha=1):
    a, b = promoted(interpreter, a, b)
    return wr.sub(b, scaled(a, alpha))


@op("mul", "multiply")
def mul(interpreter, a, b):
    a, b = promoted(interpreter, a, b)
    return wr.logical_and(a, b) if interpreter.result_dtype == "bool" else wr.mul(a, b)


@op("div", "true_divide", "divide")
def div(interpreter, a, b, rounding_mode=None):
    if rounding_mode is None:
        return wr.div(*promoted(interpreter, a, b))
    a, b = promoted(interpreter, a, b)
    if interpreter.result_dtype not in ("f32", "f64"):
        a, b = as_type(a, "f64"), as_type(b, "f64")
    q = wr.div(a, b)
    q = wr.floor(q) if rounding_mode == "floor" else wr.where(q < 0, wr.ceil(q), wr.floor(q))
    return as_type(q, interpreter.result_dtype)


@op("floor_divide")
def floor_divide(interpreter, a, b):
    return div(interpreter, a, b, "floor")


@op("remainder")
def remainder(interpreter, a, b):
    return wr.sub(a, wr.mul(div(interpreter, a, b, "floor"), b))


@op("pow.Tensor_Scalar")
def pow_scalar(interpreter, x, power):
    (x,) = promoted(interpreter, x)
    if power == int(power) and abs(power) <= 16:
        n = abs(int(power))
        if n == 0:
            return wr.full(tuple(x.shape), 1.0, x.dtype)
        result, square = None, x
        while n:
            if n & 1:
                result = square if result is None else result * square
            n >>= 1
            square = wr.square(square) if n else square
        return wr.reciprocal(result) if power < 0 else result
    if power == 0.5:
        return wr.sqrt(x)
    return wr.rsqrt(x) if power == -0.5 else wr.exp(wr.mul(wr.log(x), power))  # NaN for negative bases, as torch


@op("pow.Tensor_Tensor")
def pow_tensor(interpreter, x, power):
    raise Error("pow of two tensors is not supported: its base may be negative; use exp(p * log(x))")


@op("pow.Scalar")
def pow_base(interpreter, base, power):
    if base <= 0:
        raise Error(f"pow: a base of {base}")
    return wr.exp(wr.mul(promoted(interpreter, power)[0], math.log(base)))


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    def _compare(interpreter, a, b, _f=getattr(wr, _name)):
        return _f(*common(a, b))
    op(_name)(_compare)


def truth(x):
    return x if x.dtype == "bool" else wr.ne(x, 0)


@op("logical_and", "bitwise_and", "__and__")
def logical_and(interpreter, a, b):
    return wr.logical_and(truth(a), truth(b))


@op("logical_or", "bitwise_or", "__or__")
def logical_or(interpreter, a, b):
    return wr.logical_or(truth(a), truth(b))


@op("logical_xor", "bitwise_xor", "__xor__")
def logical_xor(interpreter, a, b):
    if interpreter.result_dtype != "bool":
        raise Error("bitwise ops of integers are not supported")
    return wr.logical_xor(truth(a), truth(b))


@op("logical_not", "bitwise_not")
def logical_not(interpreter, x):
    if interpreter.result_dtype != "bool":
        raise Error("bitwise_not of integers is not supported")
    return wr.logical_not(truth(x))


@op("minimum", "min.other")
def minimum(interpreter, a, b):
    return wr.minimum(*promoted(interpreter, a, b))


@op("maximum", "max.other")
def maximum(interpreter, a, b):
    return wr.maximum(*promoted(interpreter, a, b))


@op("clamp", "clip", "hardtanh")
def clamp(interpreter, x, low=None, high=None, min=None, max=None):  # noqa: A002
    (x,) = promoted(interpreter, x)
    low, high = low if min is None else min, high if max is None else max
    if interpreter.name.startswith("hardtanh"):
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    if low is not None:  # at the limit itself the gradient is x's, as torch has it
        x = wr.where(wr.ge(x, low), x, low)
    return x if high is None else wr.where(wr.le(x, high), x, high)


@op("clamp_min")
def clamp_min(interpreter, x, low):
    return clamp(interpreter, x, low, None)


@op("clamp_max")
def clamp_max(interpreter, x, high):
    return clamp(interpreter, x, None, high)


@op("where")
def where(interpreter, condition, a, b):
    a, b = (as_type(v, interpreter.result_dtype) if is_tensor(v) else wr.full((), float(v), interpreter.result_dtype) for v in (a, b))
    return wr.where(condition, a, b)


@op("masked_fill")
def masked_fill(interpreter, x, mask, value):
    shape = interpreter.result_shape
    value = as_type(value, x.dtype) if is_tensor(value) else scalar(value, x)
    return wr.where(broadcast(mask, shape), value, broadcast(x, shape))


@op("lerp")
def lerp(interpreter, a, b, weight):
    return a + (b - a) * weight


@op("addcmul")
def addcmul(interpreter, x, a, b, value=1):
    return x + a * b * value


@op("addcdiv")
def addcdiv(interpreter, x, a, b, value=1):
    return x + a / b * value


@op("isnan")
def isnan(interpreter, x):
    return wr.ne(x, x)


# ---- activations -----------------------------------------------------------------------------------------------------
@op("gelu")
def gelu(interpreter, x, approximate="none"):
    if approximate == "none":
        return wr.gelu(x)
    return 0.5 * x * (1 + wr.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


@op("leaky_relu")
def leaky_relu(interpreter, x, slope=0.01):
    return wr.leaky_relu(x, slope)


@op("prelu")
def prelu(interpreter, x, weight):
    shape = [1] * x.ndim
    if x.ndim > 1:
        shape[1] = weight.size
    return wr.where(x > 0, x, x * wr.reshape(weight, tuple(shape)))


@op("elu")
def elu(interpreter, x, alpha=1.0, scale=1.0, input_scale=1.0):
    return scale * wr.where(x > 0, x, alpha * wr.expm1(wr.where(x > 0, 0.0, x) * input_scale))


@op("selu")
def selu(interpreter, x):
    return elu(interpreter, x, 1.6732632423543772, 1.0507009873554805)


@op("celu")
def celu(interpreter, x, alpha=1.0):
    return elu(interpreter, x, alpha, 1.0, 1 / alpha)


@op("softplus")
def softplus(interpreter, x, beta=1, threshold=20):
    y = wr.softplus(x) if beta == 1 else wr.softplus(x * beta) / beta
    return wr.where(wr.gt(x * beta, threshold), x, y)


@op("softsign")
def softsign(interpreter, x):
    return x / (1 + wr.abs(x))


@op("log_sigmoid")
def log_sigmoid(interpreter, x):
    return -wr.softplus(-x)


@op("mish")
def mish(interpreter, x):
    return x * wr.tanh(wr.softplus(x))


@op("hardsigmoid")
def hardsigmoid(interpreter, x):
    return clamp(interpreter, x / 6 + 0.5, 0.0, 1.0)


@op("hardswish")
def hardswish(interpreter, x):
    return x * hardsigmoid(interpreter, x)


@op("glu")
def glu(interpreter, x, dim=-1):
    axis = axis_of(dim, x.ndim)
    half = x.shape[axis] // 2
    return wr.slice(x, axis, 0, half) * wr.sigmoid(wr.slice(x, axis, half, 2 * half))


@op("softmax", "_softmax")
def softmax(interpreter, x, dim, *rest, **kwargs):
    return wr.softmax(as_type(x, interpreter.result_dtype), axis_of(dim, x.ndim))


@op("log_softmax", "_log_softmax")
def log_softmax(interpreter, x, dim, *rest, **kwargs):
    return wr.log_softmax(as_type(x, interpreter.result_dtype), axis_of(dim, x.ndim))


# ---- reductions ------------------------------------------------------------------------------------------------------
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
    return (wr.sqrt(v) if interpreter.name.startswith("std") else v), wr.mean(x, dims_of(dim, x.ndim), keepdim)


@op("var")
def var(interpreter, x, *args, **kwargs):
    return _variance(x, *_spread_options(interpreter, args, kwargs))


@op("std")
def std(interpreter, x, *args, **kwargs):
    return wr.sqrt(_variance(x, *_spread_options(interpreter, args, kwargs)))


@op("linalg_vector_norm", "norm", "linalg_norm")
def vector_norm(interpreter, x, order=2, dim=None, keepdim=False, dtype=None):
    axes, order = dims_of(dim, x.ndim), 2 if order is None else order
    if order == 2:
        return wr.sqrt(wr.sum(wr.square(x), axes, keepdim))
    if order == 1:
        return wr.sum(wr.abs(x), axes, keepdim)
    if order == math.inf:
        return wr.max(wr.abs(x), axes, keepdim)
    raise Error(f"a norm of order {order}: there are 1, 2 and inf")


# ---- products --------------------------------------------------------------------------------------------------------
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
    a, b = (t / wr.maximum(wr.sqrt(wr.sum(wr.square(t), axis, True)), eps) for t in (a, b))
    return wr.sum(a * b, axis)


# ---- new tensors -----------------------------------------------------------------------------------------------------
@op("zeros", "new_zeros", "zeros_like", "empty", "empty_like", "new_empty")
def zeros(interpreter, *args, **kwargs):
    return wr.full(interpreter.result_shape, 0.0, interpreter.result_dtype)


@op("ones", "new_ones", "ones_like")
def ones(interpreter, *args, **kwargs):
    return wr.full(interpreter.result_shape, 1.0, interpreter.result_dtype)


@op("full", "full_like", "new_full")
def full(interpreter, first, *rest, **kwargs):
    value = kwargs.get("fill_value", rest[-1] if rest else 0)
    if is_tensor(value):
        return broadcast(as_type(value, interpreter.result_dtype), interpreter.result_shape)
    return wr.full(interpreter.result_shape, float(value), interpreter.result_dtype)


@op("scalar_tensor")
def scalar_tensor(interpreter, value, **kwargs):
    return wr.full((), float(value), interpreter.result_dtype)


@op("arange")
def arange(interpreter, *args, **kwargs):
    start = args[0] if len(args) >= 2 else 0
    step = args[2] if len(args) >= 3 else 1
    count = wr.iota(interpreter.result_shape, 0, "i32")
    if (start, step) != (0, 1):
        count = as_type(count, interpreter.result_dtype) * step + start
    return as_type(count, interpreter.result_dtype)


@op("linspace")
def linspace(interpreter, start, end, steps, **kwargs):
    count = as_type(wr.iota(interpreter.result_shape, 0, "i32"), interpreter.result_dtype)
    return count * ((end - start) / max(steps - 1, 1)) + start


@op("tril_indices", "triu_indices")
def triangle_indices(interpreter, rows, columns, offset=0, **kwargs):
    """[2, n]: where the triangle of a matrix has its elements, row by row."""
    lower = interpreter.name.startswith("tril")
    places = [(r, c) for r in range(rows) for c in range(columns) if (c <= r + offset if lower else c >= r + offset)]
    return wr.Tensor(wr.array([[r for r, _ in places], [c for _, c in places]], "i32"))


@op("eye")
def eye(interpreter, *args, **kwargs):
    shape = interpreter.result_shape
    return as_type(wr.eq(wr.iota(shape, 0), wr.iota(shape, 1)), interpreter.result_dtype)


@op("tril", "triu")
def triangle(interpreter, x, diagonal=0):
    shape = tuple(x.shape)
    rows, columns = wr.iota(shape[-2:], 0), wr.iota(shape[-2:], 1)
    keep = broadcast(wr.le(columns, rows + diagonal) if interpreter.name.startswith("tril") else wr.ge(columns, rows + diagonal), shape)
    return wr.logical_and(x, keep) if x.dtype == "bool" else wr.where(keep, x, scalar(0, x))


@op("clone", "contiguous", "lift_fresh_copy", "lift_fresh", "positive")
def same(interpreter, x, *args, **kwargs):
    return x


@op("to", "_to_copy", "type_as", "float", "double", "long", "int", "bool")
def to(interpreter, x, *args, **kwargs):
    return truth(x) if interpreter.result_dtype == "bool" else as_type(x, interpreter.result_dtype)
