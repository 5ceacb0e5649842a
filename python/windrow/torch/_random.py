"""ATen ops that draw random numbers: from Windrow's own generators, seeded by torch's."""
import windrow as wr
from windrow import Error

from ._ops import as_type, op


@op("dropout", "feature_dropout")
def dropout(interpreter, x, p, train):
    if not train or p == 0:
        return x
    if p == 1:
        return x * 0
    if interpreter.name.startswith("feature"):
        mask = interpreter.random().bernoulli(1 - p, tuple(x.shape)[:2] + (1,) * (x.ndim - 2))
        return x * (wr.cast(mask, x.dtype) / (1 - p))
    return interpreter.dropout(x, p)


@op("rand", "rand_like")
def rand(interpreter, *args, **kwargs):
    return interpreter.random().uniform(interpreter.result_shape, interpreter.result_dtype)


@op("uniform")
def uniform(interpreter, x, low=0.0, high=1.0):
    return rand(interpreter) * (high - low) + low


@op("randn", "randn_like")
def randn(interpreter, *args, **kwargs):
    return interpreter.random().normal(interpreter.result_shape, interpreter.result_dtype)


@op("normal.in_place")
def normal_in_place(interpreter, x, mean=0.0, deviation=1.0):
    return randn(interpreter) * deviation + mean


@op("normal")
def normal(interpreter, mean=0.0, deviation=1.0, *rest, **kwargs):
    return randn(interpreter) * deviation + mean


@op("bernoulli")
def bernoulli(interpreter, x, p=None):
    u = interpreter.random().uniform(interpreter.result_shape, "f32")
    return as_type(wr.lt(u, as_type(x, "f32") if p is None else p), interpreter.result_dtype)


@op("exponential")
def exponential(interpreter, x, rate=1.0):
    return -wr.log1p(-interpreter.random().uniform(interpreter.result_shape, interpreter.result_dtype)) / rate


@op("randint", "randperm", "multinomial", "poisson")
def no_draw(interpreter, *args, **kwargs):
    raise Error("is not drawn in a step; draw outside and pass the numbers as an argument")
