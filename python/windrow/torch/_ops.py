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


def root(x):
    """The square root, whose gradient at 0 is 0: torch's norms and deviations have it so, its sqrt has not."""
    some = wr.gt(x, 0)
    return wr.where(some, wr.sqrt(wr.where(some, x, scalar(1, x))), x)


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
    return wr.rsqrt(x) if power == -0.5 else wr.pow(x, power)  # NaN for negative bases, as torch


@op("pow.Tensor_Tensor")
def pow_tensor(interpreter, x, power):
    """wr.pow is for positive bases; whole powers of negative ones, and powers of 0, are put beside."""
    x, power = promoted(interpreter, x, power)
    if interpreter.result_dtype not in ("f32", "f64"):
        raise Error("pow of two tensors of whole numbers is not supported; .float() first")
    one, size = scalar(1, x), wr.abs(x)
    odd = wr.ne(power - 2 * wr.floor(power / 2), 0)
    size = wr.pow(wr.where(wr.eq(x, 0), one, size), power)
    below = wr.where(wr.eq(wr.floor(power), power), wr.where(odd, -size, size), scalar(math.nan, x))
    at_zero = wr.where(wr.eq(power, 1), x, wr.where(wr.gt(power, 0), 0.0, wr.where(wr.eq(power, 0), one, scalar(math.inf, x))))
    return wr.where(wr.gt(x, 0), size, wr.where(wr.eq(x, 0), at_zero, below))


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


def refuse_bits(interpreter):
    if interpreter.result_dtype != "bool":
        raise Error("bitwise ops of integers are not supported")


@op("logical_and", "bitwise_and", "__and__")
def logical_and(interpreter, a, b):
    refuse_bits(interpreter)
    return wr.logical_and(truth(a), truth(b))


@op("logical_or", "bitwise_or", "__or__")
def logical_or(interpreter, a, b):
    refuse_bits(interpreter)
    return wr.logical_or(truth(a), truth(b))


@op("logical_xor", "bitwise_xor", "__xor__")
def logical_xor(interpreter, a, b):
    refuse_bits(interpreter)
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


@op("fmin", "fmax")
def best_number(interpreter, a, b):
    """The smaller or the larger; a number where the other is NaN."""
    a, b = promoted(interpreter, a, b)
    best = (wr.minimum if interpreter.name.startswith("fmin") else wr.maximum)(a, b)
    return wr.where(wr.ne(a, a), b, wr.where(wr.ne(b, b), a, best))


@op("copysign")
def copysign(interpreter, a, b):
    a = promoted(interpreter, a)[0]
    if not is_tensor(b):
        return wr.abs(a) if b >= 0 else -wr.abs(a)
    size = wr.abs(a)
    return wr.where(broadcast(wr.lt(b, 0), interpreter.result_shape), -size, size)


def _clamp_keeps_its_limits():
    """Whether torch's clamp has a gradient at a limit itself; versions differ."""
    x = torch.zeros(1, requires_grad=True)
    with torch.enable_grad():
        return float(torch.autograd.grad(x.clamp(0.0, 1.0), x)[0]) > 0


_above, _below = (wr.ge, wr.le) if _clamp_keeps_its_limits() else (wr.gt, wr.lt)


@op("clamp", "clip")
def clamp(interpreter, x, low=None, high=None, min=None, max=None):  # noqa: A002
    (x,) = promoted(interpreter, x)
    low, high = low if min is None else min, high if max is None else max
    if is_tensor(low) or is_tensor(high):
        x = x if low is None else wr.maximum(x, as_type(low, x.dtype))
        return x if high is None else wr.minimum(x, as_type(high, x.dtype))
    if low is not None:
        x = wr.where(_above(x, low), x, low)
    return x if high is None else wr.where(_below(x, high), x, high)


@op("hardtanh")
def hardtanh(interpreter, x, low=-1.0, high=1.0):
    return wr.where(wr.gt(x, low), wr.where(wr.lt(x, high), x, high), low)


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


@op("heaviside")
def heaviside(interpreter, x, at_zero):
    return wr.where(wr.eq(x, 0), as_type(at_zero, x.dtype), as_type(wr.gt(x, 0), x.dtype))


@op("hypot")
def hypot(interpreter, a, b):
    return root(wr.square(a) + wr.square(b))


@op("sinc", "special_sinc")
def sinc(interpreter, x):
    zero = wr.eq(x, 0)
    angle = wr.where(zero, 1.0, x) * math.pi
    return wr.where(zero, 1.0, wr.sin(angle) / angle)


@op("addcmul")
def addcmul(interpreter, x, a, b, value=1):
    return x + a * b * value


@op("addcdiv")
def addcdiv(interpreter, x, a, b, value=1):
    return x + a / b * value


@op("isnan")
def isnan(interpreter, x):
    return wr.ne(x, x)


@op("isinf")
def isinf(interpreter, x):
    return wr.eq(wr.abs(x), scalar(math.inf, x))


@op("isfinite")
def isfinite(interpreter, x):
    return wr.lt(wr.abs(x), scalar(math.inf, x))


@op("nan_to_num")
def nan_to_num(interpreter, x, nan=None, posinf=None, neginf=None):
    most = torch.finfo(torch.float64 if x.dtype == "f64" else torch.float32).max
    x = wr.where(wr.ne(x, x), scalar(nan or 0, x), x)
    x = wr.where(wr.gt(x, most), scalar(most if posinf is None else posinf, x), x)
    return wr.where(wr.lt(x, -most), scalar(-most if neginf is None else neginf, x), x)


@op("sinh", "cosh")
def sinh(interpreter, x):
    e = wr.expm1(x)
    back = e / (e + 1)  # 1 - exp(-x)
    return 0.5 * (e + back) if interpreter.name.startswith("sinh") else 0.5 * (e - back) + 1


@op("asinh", "arcsinh")
def asinh(interpreter, x):
    size = wr.abs(x)
    y = wr.sign(x) * wr.log1p(size + wr.square(size) / (1 + wr.sqrt(wr.square(size) + 1)))
    return wr.where(wr.eq(x, 0), x, y)


@op("acosh", "arccosh")
def acosh(interpreter, x):
    (x,) = promoted(interpreter, x)
    return wr.log(x + wr.sqrt(x - 1) * wr.sqrt(x + 1))


@op("atanh", "arctanh")
def atanh(interpreter, x):
    return 0.5 * (wr.log1p(x) - wr.log1p(-x))


@op("erfc", "special_erfc")
def erfc(interpreter, x):
    return 1 - wr.erf(x)


@op("logaddexp")
def logaddexp(interpreter, a, b):
    """Of two equal infinities nothing is left to subtract: it is they."""
    most = wr.stop_gradient(wr.maximum(a, b))
    finite = wr.where(isfinite(interpreter, most), most, 0.0)
    return finite + wr.log(wr.exp(a - finite) + wr.exp(b - finite))


@op("logit", "special_logit")
def logit(interpreter, x, eps=None):
    x = x if eps is None else clamp(interpreter, x, eps, 1 - eps)
    return wr.log(x) - wr.log1p(-x)


@op("xlogy", "special_xlogy")
def xlogy(interpreter, a, b):
    a, b = promoted(interpreter, a, b)
    some = wr.ne(a, 0)
    return wr.where(some, a * wr.log(wr.where(some, b, scalar(1, b))), 0.0)


@op("fmod")
def fmod(interpreter, a, b):
    return wr.sub(a, wr.mul(div(interpreter, a, b, "trunc"), b))


@op("frac")
def frac(interpreter, x):
    return x - wr.stop_gradient(trunc(interpreter, x))


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
