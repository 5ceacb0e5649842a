"""ATen ops of losses. A reduction is none (0), the mean (1) or the sum (2)."""
import math

import windrow as wr

from ._ops import as_type, broadcast, op, scalar
from ._reduce import vector_norm


def reduced(x, reduction):
    return x if reduction == 0 else wr.mean(x) if reduction == 1 else wr.sum(x)


@op("mse_loss")
def mse_loss(interpreter, x, y, reduction=1):
    return reduced(wr.square(x - y), reduction)


@op("l1_loss")
def l1_loss(interpreter, x, y, reduction=1):
    return reduced(wr.abs(x - y), reduction)


@op("smooth_l1_loss")
def smooth_l1_loss(interpreter, x, y, reduction=1, beta=1.0):
    d = wr.abs(x - y)
    return reduced(wr.where(d < beta, wr.square(d) * (0.5 / beta), d - 0.5 * beta) if beta else d, reduction)


@op("huber_loss")
def huber_loss(interpreter, x, y, reduction=1, delta=1.0):
    d = wr.abs(x - y)
    return reduced(wr.where(d <= delta, wr.square(d) * 0.5, delta * (d - 0.5 * delta)), reduction)


@op("binary_cross_entropy_with_logits")
def bce_logits(interpreter, x, y, weight=None, pos_weight=None, reduction=1):
    """The gradient is torch's own formula: that of the value would cancel where the logits are far out."""
    y = as_type(y, x.dtype)
    balance = 1 if pos_weight is None else 1 + (pos_weight - 1) * y
    below = wr.softplus(-x)  # -log sigmoid(x)
    value = wr.stop_gradient((1 - y) * x + balance * below)

    def rule(arguments, _, g):
        x, y = arguments[:2]
        if pos_weight is None:
            return [g * (wr.sigmoid(x) - y), -g * x]
        positive = arguments[2]
        ours = [g * ((positive * y + 1 - y) * wr.sigmoid(x) - positive * y), g * ((positive - 1) * wr.softplus(-x) - x)]
        return [*ours, None]

    x, y = broadcast(x, tuple(value.shape)), broadcast(y, tuple(value.shape))
    loss = wr.custom_gradient(value, [x, y] if pos_weight is None else [x, y, wr.stop_gradient(pos_weight)], rule)
    return reduced(loss if weight is None else loss * weight, reduction)


@op("binary_cross_entropy")
def bce(interpreter, x, y, weight=None, reduction=1):
    log = lambda t: wr.maximum(wr.log(t), -100.0)  # noqa: E731
    loss = -(y * log(x) + (1 - y) * log(1 - x))
    return reduced(loss if weight is None else loss * weight, reduction)


@op("kl_div")
def kl_div(interpreter, x, y, reduction=1, log_target=False):
    if log_target:
        return reduced(wr.exp(y) * (y - x), reduction)
    some = wr.gt(y, 0)
    return reduced(wr.where(some, y * wr.log(wr.where(some, y, 1.0)), 0.0) - y * x, reduction)


@op("margin_ranking_loss")
def margin_ranking(interpreter, a, b, y, margin=0.0, reduction=1):
    return reduced(wr.relu(margin - y * (a - b)), reduction)


@op("soft_margin_loss")
def soft_margin(interpreter, x, y, reduction=1):
    return reduced(wr.softplus(-y * x), reduction)


@op("hinge_embedding_loss")
def hinge_embedding(interpreter, x, y, margin=1.0, reduction=1):
    return reduced(wr.where(wr.eq(y, 1), x, wr.relu(margin - x)), reduction)


@op("cosine_embedding_loss")
def cosine_embedding(interpreter, a, b, y, margin=0.0, reduction=1):
    size = lambda t, u: wr.sum(t * u, -1)  # noqa: E731
    similar = size(a, b) / wr.sqrt((size(a, a) + 1e-12) * (size(b, b) + 1e-12))
    return reduced(wr.where(wr.eq(y, 1), 1 - similar, wr.relu(similar - margin)), reduction)


@op("multi_margin_loss")
def multi_margin(interpreter, x, target, p=1, margin=1.0, weight=None, reduction=1):
    own = wr.expand_dims(target, 1)
    short = wr.relu(margin - wr.take_along(x, own, 1) + x)
    short = wr.square(short) if p == 2 else short
    short = short if weight is None else short * wr.expand_dims(wr.gather(weight, target, 0), 1)
    others = wr.ne(wr.iota(tuple(x.shape), 1), own)
    return reduced(wr.sum(wr.where(others, short, scalar(0, x)), 1) / x.shape[1], reduction)


@op("poisson_nll_loss")
def poisson_nll(interpreter, x, y, log_input=True, full=False, eps=1e-8, reduction=1):
    loss = wr.exp(x) - y * x if log_input else x - y * wr.log(x + eps)
    if full:  # Stirling's formula, for more than one
        safe = wr.where(wr.gt(y, 1), y, 1.0)
        loss = loss + wr.where(wr.gt(y, 1), safe * wr.log(safe) - safe + 0.5 * wr.log(2 * math.pi * safe), 0.0)
    return reduced(loss, reduction)


@op("triplet_margin_loss")
def triplet(interpreter, anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    distance = lambda a, b: vector_norm(interpreter, a - b + eps, p, -1)  # noqa: E731
    far = distance(anchor, negative)
    far = wr.minimum(far, distance(positive, negative)) if swap else far
    return reduced(wr.relu(distance(anchor, positive) - far + margin), reduction)


def _classes_last(x):
    """[b, classes, ...] to [b, ..., classes]."""
    return x if x.ndim <= 2 else wr.permute(x, [0, *range(2, x.ndim), 1])


def _nll(log_p, target, weight, reduction, ignore):
    """-log_p[target], with class weights and a label that does not count; and the weight of each row."""
    counted = wr.ne(target, ignore)
    label = wr.where(counted, target, 0)
    picked = -wr.squeeze(wr.take_along(log_p, wr.expand_dims(label, label.ndim), label.ndim), label.ndim)
    rows = wr.cast(counted, log_p.dtype)
    rows = rows if weight is None else rows * wr.gather(weight, label, 0)
    loss = wr.where(counted, picked, scalar(0, picked)) * rows  # an ignored row may hold an infinity
    if reduction == 0:
        return loss, rows
    return (wr.sum(loss) / wr.sum(rows) if reduction == 1 else wr.sum(loss)), rows


@op("nll_loss", "nll_loss_nd", "nll_loss2d")
def nll_loss(interpreter, x, target, weight=None, reduction=1, ignore_index=-100):
    return _nll(_classes_last(x), target, weight, reduction, ignore_index)[0]


@op("cross_entropy_loss")
def cross_entropy(interpreter, x, target, weight=None, reduction=1, ignore_index=-100, smoothing=0.0):
    if x.ndim == 1:
        one = cross_entropy(interpreter, wr.expand_dims(x, 0), wr.expand_dims(target, 0), weight, reduction, ignore_index, smoothing)
        return one if reduction else wr.squeeze(one, 0)
    x = _classes_last(x)
    log_p, classes = wr.log_softmax(x, -1), x.shape[-1]
    if target.dtype in ("f32", "f64"):
        q = _classes_last(target)
        q = q * (1 - smoothing) + smoothing / classes if smoothing else q
        return reduced(-wr.sum(log_p * q if weight is None else log_p * q * weight, -1), reduction)
    nll, rows = _nll(log_p, target, weight, reduction, ignore_index)
    if not smoothing:
        return nll
    counted = wr.cast(wr.ne(target, ignore_index), x.dtype)
    spread = -wr.sum(log_p if weight is None else log_p * weight, -1) * counted
    spread = spread if reduction == 0 else wr.sum(spread) / wr.sum(rows) if reduction == 1 else wr.sum(spread)
    return (1 - smoothing) * nll + smoothing / classes * spread
