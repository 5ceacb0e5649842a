"""ATen ops of angles and of the gamma function: computed in double, with gradients of their own."""
import math

import windrow as wr

from ._ops import as_type, op, promoted


def _smooth(value, slope):
    """An op of one argument: value(x) of x in double, and slope(x), its derivative, in x's own type."""

    def apply(interpreter, x):
        (x,) = promoted(interpreter, x)
        y = as_type(value(as_type(wr.stop_gradient(x), "f64")), x.dtype)
        return wr.custom_gradient(y, [x], lambda arguments, _, g: [g * slope(interpreter, arguments[0])])

    return apply


# ---- angles ----------------------------------------------------------------------------------------------------------
def _arc_tangent(x):
    """For -1 to 1: the angle is halved twice, then a series."""
    for _ in range(2):
        x = x / (1 + wr.sqrt(1 + wr.square(x)))
    square = wr.square(x)
    series = 1 / 21 - square / 23
    for n in range(19, 0, -2):
        series = 1 / n - square * series
    return 4 * x * series


def _angle(y, x):
    """Of the point (x, y), in double."""
    high, wide = wr.abs(y), wr.abs(x)
    most = wr.maximum(high, wide)
    angle = _arc_tangent(wr.minimum(high, wide) / wr.where(wr.gt(most, 0), most, 1.0))
    angle = wr.where(wr.gt(high, wide), math.pi / 2 - angle, angle)
    angle = wr.where(wr.lt(x, 0), math.pi - angle, angle)
    return wr.where(wr.lt(y, 0), -angle, angle)


@op("atan2", "arctan2")
def atan2(interpreter, y, x):
    y, x = promoted(interpreter, y, x)
    angle = as_type(_angle(*(as_type(wr.stop_gradient(t), "f64") for t in (y, x))), y.dtype)

    def rule(arguments, _, g):
        y, x = arguments
        share = g / (wr.square(x) + wr.square(y))
        return [_summed_to(share * x, y.shape), _summed_to(-share * y, x.shape)]

    return wr.custom_gradient(angle, [y, x], rule)


def _summed_to(g, shape):
    """A gradient of what was spread out over more axes, for what it was spread from."""
    lead = g.ndim - len(shape)
    g = wr.sum(g, list(range(lead))) if lead else g
    wide = [i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1]
    return wr.sum(g, wide, True) if wide else g


def _turned(x):
    whole = wr.gt(wr.abs(x), 1)
    angle = _arc_tangent(wr.where(whole, wr.reciprocal(wr.where(whole, x, 1.0)), x))
    return wr.where(whole, wr.sign(x) * (math.pi / 2) - angle, angle)


op("atan", "arctan")(_smooth(_turned, lambda _, x: wr.reciprocal(1 + wr.square(x))))
op("asin", "arcsin")(_smooth(lambda x: _angle(x, wr.sqrt((1 - x) * (1 + x))), lambda _, x: wr.rsqrt((1 - x) * (1 + x))))
op("acos", "arccos")(_smooth(lambda x: _angle(wr.sqrt((1 - x) * (1 + x)), x), lambda _, x: -wr.rsqrt((1 - x) * (1 + x))))


def _inverse_erf(y):
    """Winitzki's approximation, then three of Newton's steps."""
    inside = wr.lt(wr.abs(y), 1)
    y = wr.where(inside, y, 0.0)
    log = wr.log((1 - y) * (1 + y))
    half = 2 / (math.pi * 0.147) + 0.5 * log
    x = wr.sign(y) * wr.sqrt(wr.maximum(wr.sqrt(wr.square(half) - log / 0.147) - half, 0.0))
    for _ in range(3):
        x = x - (wr.erf(x) - y) * (0.5 * math.sqrt(math.pi)) * wr.exp(wr.square(x))
    return x


@op("erfinv", "special_erfinv")
def erfinv(interpreter, y):
    (y,) = promoted(interpreter, y)
    x = _inverse_erf(as_type(wr.stop_gradient(y), "f64"))
    edge = wr.where(wr.eq(wr.abs(y), 1), y * math.inf, wr.full((), math.nan, y.dtype))
    value = wr.where(wr.lt(wr.abs(y), 1), as_type(x, y.dtype), wr.stop_gradient(edge))
    return wr.custom_gradient(value, [y], lambda arguments, x, g: [g * (0.5 * math.sqrt(math.pi)) * wr.exp(wr.square(x))])


# ---- the gamma function ----------------------------------------------------------------------------------------------
# Arguments below 1/2 are reflected, the others moved up by eight, where Stirling's series has fifteen digits.
STEPS = 8


def _reflected(x, upper, lower):
    """upper(x) from 1/2 on, lower(x, upper(1 - x)) below."""
    low = wr.lt(x, 0.5)
    above = upper(wr.where(low, 1 - x, x))
    return wr.where(low, lower(wr.where(low, x, 0.25), above), above)


def _sine(x):
    """sin(pi x), exact where it is 0."""
    return wr.sin(math.pi * (x - 2 * wr.floor(x / 2)))


def _log_gamma(x):
    def upper(x):
        product, z = x, x + STEPS
        for i in range(1, STEPS):
            product = product * (x + i)
        r = wr.reciprocal(z)
        square = wr.square(r)
        series = r * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square * (1 / 1188 - square * 691 / 360360)))))
        return (z - 0.5) * wr.log(z) - z + 0.5 * math.log(2 * math.pi) + series - wr.log(product)

    return _reflected(x, upper, lambda x, above: math.log(math.pi) - wr.log(wr.abs(_sine(x))) - above)


def _digamma(x):
    def upper(x):
        z, below = x + STEPS, wr.reciprocal(x)
        for i in range(1, STEPS):
            below = below + wr.reciprocal(x + i)
        r = wr.reciprocal(z)
        square = wr.square(r)
        series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square * (1 / 132 - square * 691 / 32760)))))
        return wr.log(z) - 0.5 * r - series - below

    return _reflected(x, upper, lambda x, above: above - math.pi * _sine(x + 0.5) / _sine(x))


def _trigamma(x):
    """Its own derivatives are those of the series."""

    def upper(x):
        z, below = x + STEPS, wr.square(wr.reciprocal(x))
        for i in range(1, STEPS):
            below = below + wr.square(wr.reciprocal(x + i))
        r = wr.reciprocal(z)
        square = wr.square(r)
        series = r * (1 + 0.5 * r + square * (1 / 6 - square * (1 / 30 - square * (1 / 42 - square * (1 / 30 - square * 5 / 66)))))
        return series + below

    return _reflected(x, upper, lambda x, above: wr.square(math.pi / _sine(x)) - above)


@op("polygamma")
def polygamma(interpreter, n, x):
    n, x = (x, n) if not isinstance(n, int) else (n, x)
    if n not in (0, 1):
        raise wr.Error(f"polygamma of order {n} is not supported; there are 0 and 1")
    return digamma(interpreter, x) if n == 0 else _in_double(_trigamma, x)


def _in_double(f, x):
    return as_type(f(as_type(x, "f64")), x.dtype)


digamma = _smooth(_digamma, lambda _, x: _in_double(_trigamma, x))
op("digamma", "special_digamma", "special_psi")(digamma)
op("lgamma", "special_gammaln")(_smooth(_log_gamma, digamma))
