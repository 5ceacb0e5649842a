"""torch.optim's rules, with their options read at every call: a schedule compiles nothing anew.

Rules are written with the ops that the fusing of updates knows (src/ir/updates.def), so that each is one call a parameter.
Each rule says which memories a parameter has (as torch names them in optimizer.state), which options are numbers of a
group, and what an update is. Numbers are f64 tensors of the plan."""
import torch

import windrow as wr
from windrow import Error


class Rule:
    def __init__(self, numbers, memories, update, flags=()):
        self.numbers, self.memories, self.update, self.flags = numbers, memories, update, flags


def like(number, p):
    """A number of the plan in the parameter's type."""
    return number if p.dtype == "f64" else wr.cast(number, p.dtype)


def decayed(p, g, n, flags):
    if flags.get("maximize"):
        g = -g
    return g + like(n["weight_decay"], p) * p if flags["_decays"] else g


def decoupled(p, g, n, flags, apart):
    """(p, g) after weight decay: of the parameter itself, or in the gradient."""
    if not (flags["_decays"] and apart):
        return p, decayed(p, g, n, flags)
    return p * like(1 - n["lr"] * n["weight_decay"], p), -g if flags.get("maximize") else g


def _sgd(p, g, n, m, t, flags):
    g = decayed(p, g, n, flags)
    if flags["_momentum"]:
        momentum = like(n["momentum"], p)
        velocity = wr.muladd(m["momentum_buffer"], momentum, g)
        if flags["_dampened"]:  # torch's first velocity is the gradient itself
            velocity = velocity - like(n["dampening"], p) * wr.cast(wr.gt(t, 1), p.dtype) * g
        m["momentum_buffer"] = velocity
        g = wr.muladd(velocity, momentum, g) if flags["nesterov"] else velocity
    return p - like(n["lr"], p) * g


def _moments(p, g, n, m):
    m["exp_avg"] = mean = wr.lerp(m["exp_avg"], g, like(1 - n["beta1"], p))
    m["exp_avg_sq"] = square = wr.lerp_square(m["exp_avg_sq"], g, like(1 - n["beta2"], p))
    return mean, square


def power(base, exponent):
    return wr.exp(wr.log(base) * exponent)


def _adam(p, g, n, m, t, flags):
    p, g = decoupled(p, g, n, flags, flags["_decoupled"])
    mean, square = _moments(p, g, n, m)
    correction1, correction2 = 1 - power(n["beta1"], t), 1 - power(n["beta2"], t)
    if flags["amsgrad"]:
        m["max_exp_avg_sq"] = square = wr.maximum(m["max_exp_avg_sq"], square)
    root = wr.sqrt(correction2)  # it goes into rate and eps
    return wr.adam_step(p, mean, square, like(n["lr"] * root / correction1, p), like(n["eps"] * root, p))


def _rmsprop(p, g, n, m, t, flags):
    g = decayed(p, g, n, flags)
    share = like(1 - n["alpha"], p)
    m["square_avg"] = square = wr.lerp_square(m["square_avg"], g, share)
    if flags["centered"]:
        m["grad_avg"] = average = wr.lerp(m["grad_avg"], g, share)
        square = square - average * average
    if not flags["_momentum"]:
        return wr.adam_step(p, g, square, like(n["lr"], p), like(n["eps"], p))
    step = g / (wr.sqrt(square) + like(n["eps"], p))
    m["momentum_buffer"] = step = wr.muladd(m["momentum_buffer"], like(n["momentum"], p), step)
    return p - like(n["lr"], p) * step


def _adagrad(p, g, n, m, t, flags):
    g = decayed(p, g, n, flags)
    m["sum"] = total = m["sum"] + g * g
    return p - like(n["lr"] / (1 + (t - 1) * n["lr_decay"]), p) * (g / (wr.sqrt(total) + like(n["eps"], p)))


def _adadelta(p, g, n, m, t, flags):
    g, eps, share = decayed(p, g, n, flags), like(n["eps"], p), like(1 - n["rho"], p)
    m["square_avg"] = square = wr.lerp_square(m["square_avg"], g, share)
    delta = wr.sqrt(m["acc_delta"] + eps) / wr.sqrt(square + eps) * g
    m["acc_delta"] = wr.lerp_square(m["acc_delta"], delta, share)
    return p - like(n["lr"], p) * delta


def _adamax(p, g, n, m, t, flags):
    g = decayed(p, g, n, flags)
    m["exp_avg"] = mean = wr.lerp(m["exp_avg"], g, like(1 - n["beta1"], p))
    m["exp_inf"] = most = wr.maximum(m["exp_inf"] * like(n["beta2"], p), wr.abs(g) + like(n["eps"], p))
    return p - like(n["lr"] / (1 - power(n["beta1"], t)), p) * (mean / most)


def _nadam(p, g, n, m, t, flags):
    p, g = decoupled(p, g, n, flags, flags["decoupled_weight_decay"])
    shrink = lambda k: power(wr.full((), 0.96, "f64"), k * n["momentum_decay"])  # noqa: E731
    mu, mu_next = n["beta1"] * (1 - 0.5 * shrink(t)), n["beta1"] * (1 - 0.5 * shrink(t + 1))
    product = wr.cast(m["mu_product"], "f64") * mu
    m["mu_product"] = wr.cast(product, m["mu_product"].dtype)
    mean, square = _moments(p, g, n, m)
    root = wr.sqrt(square / like(1 - power(n["beta2"], t), p)) + like(n["eps"], p)
    p = p - like(n["lr"] * (1 - mu) / (1 - product), p) * (g / root)
    return p - like(n["lr"] * mu_next / (1 - product * mu_next), p) * (mean / root)


def _radam(p, g, n, m, t, flags):
    p, g = decoupled(p, g, n, flags, flags["decoupled_weight_decay"])
    mean, square = _moments(p, g, n, m)
    correction1, power2 = 1 - power(n["beta1"], t), power(n["beta2"], t)
    longest = 2 / (1 - n["beta2"]) - 1
    length = longest - 2 * t * power2 / (1 - power2)
    known = wr.gt(length, 5)
    safe = wr.where(known, length, 6.0)
    rectified = wr.sqrt((safe - 4) * (safe - 2) * longest / ((longest - 4) * (longest - 2) * safe))
    adaptive = like(wr.sqrt(1 - power2), p) / (wr.sqrt(square) + like(n["eps"], p))
    is_known = wr.cast(known, "f64")
    factor = like(is_known * rectified, p) * adaptive + like(1 - is_known, p)
    return p - like(n["lr"] / correction1, p) * mean * factor


RULES = {
    "SGD": Rule(("lr", "momentum", "dampening", "weight_decay"), lambda f: ("momentum_buffer",) if f["_momentum"] else (), _sgd,
                ("nesterov", "maximize")),
    "Adam": Rule(("lr", "beta1", "beta2", "eps", "weight_decay"),
                 lambda f: ("exp_avg", "exp_avg_sq") + (("max_exp_avg_sq",) if f["amsgrad"] else ()), _adam, ("amsgrad", "maximize")),
    "RMSprop": Rule(("lr", "alpha", "eps", "momentum", "weight_decay"),
                    lambda f: ("square_avg",) + (("grad_avg",) if f["centered"] else ()) + (("momentum_buffer",) if f["_momentum"] else ()),
                    _rmsprop, ("centered", "maximize")),
    "Adagrad": Rule(("lr", "lr_decay", "eps", "weight_decay"), lambda f: ("sum",), _adagrad, ("maximize",)),
    "Adadelta": Rule(("lr", "rho", "eps", "weight_decay"), lambda f: ("square_avg", "acc_delta"), _adadelta, ("maximize",)),
    "Adamax": Rule(("lr", "beta1", "beta2", "eps", "weight_decay"), lambda f: ("exp_avg", "exp_inf"), _adamax, ("maximize",)),
    "NAdam": Rule(("lr", "beta1", "beta2", "eps", "weight_decay", "momentum_decay"),
                  lambda f: ("exp_avg", "exp_avg_sq", "mu_product"), _nadam, ("decoupled_weight_decay", "maximize")),
    "RAdam": Rule(("lr", "beta1", "beta2", "eps", "weight_decay"), lambda f: ("exp_avg", "exp_avg_sq"), _radam,
                  ("decoupled_weight_decay", "maximize")),
}
RULES["AdamW"] = RULES["Adam"]


def rule_of(optimizer):
    name = type(optimizer).__name__
    if name == "LBFGS":
        raise Error("optimizer LBFGS is not supported inside: it looks at values. Compile the closure (zero_grad(), the loss, backward()) and give that to "
                    "step() outside")
    if name not in RULES or not type(optimizer).__module__.startswith("torch.optim"):
        raise Error(f"optimizer {name} is not supported; there are {', '.join(RULES)}. Another rule can be written out in the function, on p.grad "
                    "under torch.no_grad()")
    return RULES[name]


def number(group, name):
    """A group's number by our name."""
    if name == "beta1":
        return float(group["betas"][0])
    if name == "beta2":
        return float(group["betas"][1])
    return float(group.get(name, 0))


def flags_of(optimizer, group):
    flags = {name: bool(group.get(name, False)) for name in rule_of(optimizer).flags}
    flags["_decays"] = number(group, "weight_decay") != 0
    flags["_momentum"] = number(group, "momentum") != 0
    flags["_dampened"] = number(group, "dampening") != 0
    flags["_decoupled"] = type(optimizer).__name__ == "AdamW" or bool(group.get("decoupled_weight_decay", False))
    if group.get("differentiable"):
        raise Error(f"optimizer {type(optimizer).__name__}: differentiable=True is not supported")
    return flags


def fresh(name, p, group):
    """A memory as torch begins it."""
    if name == "mu_product":
        return torch.ones((), dtype=torch.float32)
    value = group.get("initial_accumulator_value", 0.0) if name == "sum" else 0.0
    return torch.full_like(p, value, memory_format=torch.contiguous_format).detach()
