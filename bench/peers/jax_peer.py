"""JAX with jit; parameters and optimiser state are donated. usage: jax_peer.py jit THREADS"""
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if sys.argv[2] == "1":
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
import jax
import jax.numpy as jnp
import numpy as np
import optax

from jax_logic import checkerboard_update
from jax_models import MODELS
from serve import Unknown, serve

random = np.random.default_rng(0)


def normal(*shape):
    return jnp.asarray(random.standard_normal(shape, dtype=np.float32))


def integers(below, *shape):
    return jnp.asarray(random.integers(0, below, shape))


def done(f):
    return lambda: jax.block_until_ready(f())


def trainer(parameters, loss, *data):
    adam = optax.adam(1e-3)

    def step(p, state, *d):
        value, g = jax.value_and_grad(loss)(p, *d)
        update, state = adam.update(g, state, p)
        return optax.apply_updates(p, update), state, value

    step = jax.jit(step, donate_argnums=(0, 1))
    box = [parameters, adam.init(parameters)]

    def go():
        box[0], box[1], value = step(box[0], box[1], *data)
        return value, box

    return done(go)


def dense(i, o):
    return {"w": normal(i, o) / np.sqrt(i), "b": jnp.zeros(o)}


def normed(i, o):
    return dense(i, o) | {"scale": jnp.ones(o), "shift": jnp.zeros(o)}


def layer_norm(p, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]


def dueling(width):
    return [normed(144, width), normed(width, width // 2), dense(width // 2, 1), dense(width // 2, 6)]


def q_values(p, x):
    for layer in p[:2]:
        x = jax.nn.relu(layer_norm(layer, x @ layer["w"] + layer["b"]))
    a = x @ p[3]["w"] + p[3]["b"]
    return x @ p[2]["w"] + p[2]["b"] + a - a.mean(1, keepdims=True)


def states(batch):
    return jnp.eye(6)[integers(6, batch, 24)].reshape(batch, 144)


def dqn_step(sizes, batch):
    def loss(p, target, s, s2, action, reward, not_done, weight):
        i = jnp.arange(batch)
        q = q_values(p, s)[i, action]
        best = q_values(jax.lax.stop_gradient(p), s2).argmax(1)
        y = jax.lax.stop_gradient(reward + 0.99 * not_done * q_values(target, s2)[i, best])
        return (optax.huber_loss(q, y) * weight).mean()

    return trainer(dueling(*sizes), loss, dueling(*sizes), states(batch), states(batch), integers(6, batch), normal(batch),
                   jnp.ones(batch), jnp.ones(batch))


def dqn_act(sizes, batch):
    p, x, f = dueling(*sizes), states(batch), jax.jit(q_values)
    return done(lambda: f(p, x))


def dense_net(p, x):
    for layer in p[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ p[-1]["w"] + p[-1]["b"]


def cross_entropy(logits, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def plain_mlp(sizes, batch):
    p = [dense(i, o) for i, o in zip(sizes, sizes[1:])]
    return trainer(p, lambda p, x, y: ((dense_net(p, x) - y) ** 2).mean(), normal(batch, sizes[0]), normal(batch, sizes[-1]))


def mlp_step(_, batch):
    p = [dense(784, 128), dense(128, 10)]
    return trainer(p, lambda p, x, y: cross_entropy(dense_net(p, x), y), normal(batch, 784), integers(10, batch))


def cnn_step(_, batch):
    p = [{"w": normal(3, 3, 1, 8) * 0.2, "b": jnp.zeros(8)}, {"w": normal(3, 3, 8, 16) * 0.1, "b": jnp.zeros(16)},
         dense(784, 10)]

    def layer(p, x):
        x = jax.lax.conv_general_dilated(x, p["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + p["b"]
        return jax.lax.reduce_window(jax.nn.relu(x), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(p, x, y):
        x = layer(p[1], layer(p[0], x))
        return cross_entropy(x.reshape(batch, -1) @ p[2]["w"] + p[2]["b"], y)

    return trainer(p, loss, normal(batch, 28, 28, 1), integers(10, batch))


def einsum_rule(*_):
    p, q, age = (jnp.asarray(random.random(s, dtype=np.float32)) for s in ((256, 256), (256, 256), (256,)))

    @jax.jit
    def rule(p, q, age):
        g, h = jax.nn.sigmoid(jnp.einsum("xy,yz->xz", p, q)), jax.nn.sigmoid(jnp.einsum("xy,yz,z->xz", p, p, age))
        o = g + h - g * h
        return o.max(1), o.mean()

    return done(lambda: rule(p, q, age))


def matmul(sizes, _):
    m, k, n = sizes
    a, b, f = normal(m, k), normal(k, n), jax.jit(lambda a, b: a @ b)
    return done(lambda: f(a, b))


def adam(*_):
    optimiser = optax.adam(1e-3)

    def update(p, state, g):
        change, state = optimiser.update(g, state, p)
        return optax.apply_updates(p, change), state

    update = jax.jit(update, donate_argnums=(0, 1))
    p, g = normal(1_000_000), normal(1_000_000)
    box = [p, optimiser.init(p)]

    def go():
        box[:] = update(*box, g)
        return box

    return done(go)


def function(f, *shape):
    def make(*_):
        x, y, compiled = normal(*shape), normal(*shape), jax.jit(f)
        return done(lambda: compiled(x, y))

    return make


MILLION = 1_000_000
CASES = {
    "dqn_step": dqn_step, "dqn_act": dqn_act, "plain_mlp": plain_mlp, "mlp_step": mlp_step, "cnn_step": cnn_step,
    "einsum_rule256": einsum_rule, "matmul_f32": matmul, "adam1M": adam,
    "sgd1M": function(lambda x, y: x - 1e-3 * y, MILLION), "add1M": function(lambda x, y: x + y, MILLION),
    "relu1M": function(lambda x, y: jnp.maximum(x, 0), MILLION), "exp1M": function(lambda x, y: jnp.exp(x), MILLION),
    "tanh1M": function(lambda x, y: jnp.tanh(x), MILLION), "sum1M": function(lambda x, y: x.sum(), MILLION),
    "softmax1024": function(lambda x, y: jax.nn.softmax(x, 1), 1024, 1024),
    "fused_relu_mul_add_tanh1M": function(lambda x, y: jnp.tanh(jnp.maximum(x, 0) * y + 0.5), MILLION),
    "logic_ca_checkerboard_update": lambda *_: checkerboard_update(),
}


def make(family, sizes, batch):
    if family in MODELS:
        model, width = MODELS[family]
        return model(sizes[0] or width, batch)
    if family not in CASES:
        raise Unknown(family)
    return CASES[family](sizes, batch)


serve(make, {"peer": "JAX", "version": jax.__version__})
