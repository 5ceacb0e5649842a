"""ATen ops of activations."""
import windrow as wr

from ._ops import as_type, axis_of, clamp, op


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


@op("threshold")
def threshold(interpreter, x, limit, value):
    return wr.where(wr.gt(x, limit), x, float(value))


@op("softshrink")
def softshrink(interpreter, x, limit=0.5):
    return wr.where(wr.gt(x, limit), x - limit, wr.where(wr.lt(x, -limit), x + limit, 0.0))


@op("hardshrink")
def hardshrink(interpreter, x, limit=0.5):
    return wr.where(wr.gt(wr.abs(x), limit), x, 0.0)
