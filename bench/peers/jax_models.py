"""The twins of bench/families.cpp in JAX: the same layers, losses, sizes and optimisers, one jitted step each."""
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

random = np.random.default_rng(0)


def normal(*shape):
    return jnp.asarray(random.standard_normal(shape, dtype=np.float32))


def uniform(*shape):
    return jnp.asarray(random.random(shape, dtype=np.float32))


def integers(below, *shape):
    return jnp.asarray(random.integers(0, below, shape))


def dense(i, o):
    return {"w": normal(i, o) / np.sqrt(i), "b": jnp.zeros(o)}


def apply(p, x):
    return x @ p["w"] + p["b"]


def mlp(*sizes):
    return [dense(i, o) for i, o in zip(sizes, sizes[1:])]


def run(p, x, activation=jax.nn.relu):
    for layer in p[:-1]:
        x = activation(apply(layer, x))
    return apply(p[-1], x)


def cross_entropy(logits, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def trained(parameters, loss, *data, by=None):
    """One step of an optimiser; what it changes is donated."""
    by = by or optax.adam(1e-3)

    def step(p, state, *d):
        value, g = jax.value_and_grad(loss)(p, *d)
        update, state = by.update(g, state, p)
        return optax.apply_updates(p, update), state, value

    return repeated(step, (parameters, by.init(parameters)), data)


def repeated(step, state, data):
    step = jax.jit(step, donate_argnums=tuple(range(len(state))))
    box = list(state)

    def go():
        *box[:], value = step(*box, *data)
        return jax.block_until_ready((value, box))

    return go


def recommender(rows, batch):
    p = {"users": normal(rows, 32), "items": normal(rows, 32), "net": mlp(64, 64, 1)}

    def loss(p, user, item, y):
        u, i = p["users"][user], p["items"][item]
        logits = (u * i).sum(1) + run(p["net"], jnp.concatenate([u, i], 1))[:, 0]
        return optax.sigmoid_binary_cross_entropy(logits, y).mean()

    return trained(p, loss, integers(rows, batch), integers(rows, batch), uniform(batch))


def wide(width, batch):
    return trained(mlp(width, width, width, 10), lambda p, x, y: cross_entropy(run(p, x), y), normal(batch, width),
                   integers(10, batch))


def autoencoder(width, batch):
    p = mlp(784, width, width // 2, width // 8, width // 2, width, 784)
    return trained(p, lambda p, x: ((jax.nn.sigmoid(run(p, x)) - x) ** 2).mean(), uniform(batch, 784))


# ---- images, [batch, height, width, channels] -----------------------------------------------------------------------
def kernel(size, i, o):
    return normal(size, size, i, o) / np.sqrt(size * size * i)


def conv(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(p, x, running):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    count = x.size / x.shape[-1]
    moved = {"mean": 0.9 * running["mean"] + 0.1 * mean,
             "variance": 0.9 * running["variance"] + 0.1 * variance * count / (count - 1)}
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"], moved


def norm(width):
    return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}


def statistics(width):
    return {"mean": jnp.zeros(width), "variance": jnp.ones(width)}


def resnet(channels, batch):
    p, running, strides, width = [{"w": kernel(3, 3, channels), "n": norm(channels)}], [statistics(channels)], [], channels
    for stage in range(3):
        for i in range(2):
            out, stride = channels << stage, 2 if stage and i == 0 else 1
            block = {"a": kernel(3, width, out), "na": norm(out), "b": kernel(3, out, out), "nb": norm(out)}
            if stride != 1 or width != out:
                block["shortcut"] = kernel(1, width, out)
            p.append(block)
            running += [statistics(out), statistics(out)]
            strides.append(stride)
            width = out
    p.append(dense(width, 10))

    def loss(p, running, x, y):
        moved = []

        def normalise(n, x):
            x, now = batch_norm(n, x, running[len(moved)])
            moved.append(now)
            return x

        x = jax.nn.relu(normalise(p[0]["n"], conv(x, p[0]["w"])))
        for block, stride in zip(p[1:-1], strides):
            inner = jax.nn.relu(normalise(block["na"], conv(x, block["a"], stride)))
            inner = normalise(block["nb"], conv(inner, block["b"]))
            x = jax.nn.relu(inner + (conv(x, block["shortcut"], stride) if "shortcut" in block else x))
        return cross_entropy(apply(p[-1], x.mean((1, 2))), y), moved

    sgd = optax.sgd(0.1, momentum=0.9)

    def step(p, state, running, x, y):
        (value, running), g = jax.value_and_grad(loss, has_aux=True)(p, running, x, y)
        update, state = sgd.update(g, state, p)
        return optax.apply_updates(p, update), state, running, value

    return repeated(step, (p, sgd.init(p), running), (normal(batch, 32, 32, 3), integers(10, batch)))


def unet(c, batch):
    def layer(i, o, size=3):
        return {"w": kernel(size, i, o), "b": jnp.zeros(o)}

    p = {"a": layer(3, c), "b": layer(c, 2 * c), "middle": layer(2 * c, 4 * c), "up1": layer(4 * c, 2 * c, 2),
         "d": layer(4 * c, 2 * c), "up2": layer(2 * c, c, 2), "e": layer(2 * c, c), "last": layer(c, 1, 1)}

    def at(p, x):
        return conv(x, p["w"]) + p["b"]

    def up(p, x):
        return jax.lax.conv_transpose(x, p["w"], (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + p["b"]

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(p, x, y):
        x1 = jax.nn.relu(at(p["a"], x))
        x2 = jax.nn.relu(at(p["b"], pool(x1)))
        x3 = jax.nn.relu(at(p["middle"], pool(x2)))
        y2 = jax.nn.relu(at(p["d"], jnp.concatenate([up(p["up1"], x3), x2], 3)))
        y1 = jax.nn.relu(at(p["e"], jnp.concatenate([up(p["up2"], y2), x1], 3)))
        return optax.sigmoid_binary_cross_entropy(at(p["last"], y1), y).mean()

    return trained(p, loss, normal(batch, 32, 32, 3), uniform(batch, 32, 32, 1))


# ---- sequences ------------------------------------------------------------------------------------------------------
def layer_norm(p, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]


def block(width):
    return {"n1": norm(width), "n2": norm(width), "q": dense(width, width), "k": dense(width, width),
            "v": dense(width, width), "out": dense(width, width), "up": dense(width, 4 * width),
            "down": dense(4 * width, width)}


def attend(p, x, causal):
    b, t, width = x.shape
    y = layer_norm(p["n1"], x)
    q, k, v = (apply(p[name], y).reshape(b, t, width // 32, 32) for name in "qkv")
    x = x + apply(p["out"], jax.nn.dot_product_attention(q, k, v, is_causal=causal).reshape(b, t, width))
    return x + apply(p["down"], jax.nn.gelu(apply(p["up"], layer_norm(p["n2"], x)), approximate=False))


def gpt(width, batch):
    p = {"characters": 0.02 * normal(65, width), "positions": 0.02 * normal(64, width),
         "blocks": [block(width) for _ in range(4)], "norm": norm(width), "head": dense(width, 65)}

    def loss(p, x, y):
        h = p["characters"][x] + p["positions"]
        for each in p["blocks"]:
            h = attend(each, h, True)
        return cross_entropy(apply(p["head"], layer_norm(p["norm"], h)), y)

    return trained(p, loss, integers(65, batch, 64), integers(65, batch, 64))


def transformer(width, batch):
    return trained(block(width), lambda p, x, y: ((attend(p, x, False) - y) ** 2).mean(), normal(batch, 64, width),
                   normal(batch, 64, width))


def lstm_cell(p, state, x):
    h, c = state
    i, f, g, o = jnp.split(x + h @ p["u"], 4, 1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru_cell(p, state, x):
    (h,) = state
    xr, xz, xn = jnp.split(x, 3, 1)
    hr, hz, hn = jnp.split(h @ p["u"] + p["bu"], 3, 1)
    z = jax.nn.sigmoid(xz + hz)
    return ((1 - z) * jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn) + z * h,)


def gated_cell(p, state, x):
    (h,) = state
    f_x, n_x = jnp.split(x, 2, 1)
    f_h, n_h = jnp.split(h @ p["u"], 2, 1)
    f = jax.nn.sigmoid(f_x + f_h)
    return (h + f * (jnp.tanh(layer_norm(p["norm"], n_x + f * n_h)) - h),)


def recurrent(cell, gates, states, steps=50):
    """The products with the inputs are one for all steps, as in any fast implementation."""
    def make(hidden, batch):
        p = {"w": dense(32, gates * hidden), "u": normal(hidden, gates * hidden) / np.sqrt(hidden),
             "bu": jnp.zeros(gates * hidden), "last": dense(hidden, 10), "norm": norm(hidden)}

        def loss(p, x, y):
            inputs = apply(p["w"], x).swapaxes(0, 1)
            start = (jnp.zeros((batch, hidden)),) * states
            end, _ = jax.lax.scan(lambda s, x: (cell(p, s, x), None), start, inputs)
            return cross_entropy(apply(p["last"], end[0]), y)

        return trained(p, loss, normal(batch, steps, 32), integers(10, batch))

    return make


# ---- agents and generators ------------------------------------------------------------------------------------------
def ppo(width, batch):
    p = {"policy": mlp(17, width, width, 6), "value": mlp(17, width, width, 1)}

    def loss(p, s, action, old, advantage, target):
        every = jax.nn.log_softmax(run(p["policy"], s, jnp.tanh), 1)
        ratio = jnp.exp(jnp.take_along_axis(every, action, 1) - (old - math.log(6)))
        gain = jnp.minimum(ratio * advantage, ratio.clip(0.8, 1.2) * advantage).mean()
        entropy = -(jnp.exp(every) * every).sum(1).mean()
        return 0.5 * ((run(p["value"], s, jnp.tanh) - target) ** 2).mean() - gain - 0.01 * entropy

    return trained(p, loss, normal(batch, 17), integers(6, batch, 1), 0.1 * normal(batch, 1), normal(batch, 1),
                   normal(batch, 1), by=optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4)))


def sac(width, batch):
    def critics():
        return [mlp(23, width, width, 1) for _ in range(2)]

    actor, online, targets, adam = mlp(17, width, width, 12), critics(), critics(), optax.adam(3e-4)

    def act(actor, s, noise):
        mu, log_std = jnp.split(run(actor, s), 2, 1)
        log_std = -1.5 + 3.5 * jnp.tanh(log_std)
        raw = mu + jnp.exp(log_std) * noise
        squashed = 2 * (math.log(2) - raw - jax.nn.softplus(-2 * raw))
        return jnp.tanh(raw), (-0.5 * noise * noise - log_std - squashed).sum(1, keepdims=True)

    def critic_loss(critics, actor, targets, s, a, r, s2, noise2):
        a2, log_p2 = act(actor, s2, noise2)
        following = jnp.concatenate([s2, a2], 1)
        y = r + 0.99 * (jnp.minimum(run(targets[0], following), run(targets[1], following)) - 0.2 * log_p2)
        here = jnp.concatenate([s, a], 1)
        return sum(((run(c, here) - jax.lax.stop_gradient(y)) ** 2).mean() for c in critics)

    def actor_loss(actor, critics, s, noise):
        a, log_p = act(actor, s, noise)
        chosen = jnp.concatenate([s, a], 1)
        return (0.2 * log_p - jnp.minimum(run(critics[0], chosen), run(critics[1], chosen))).mean()

    def step(actor, critics, targets, for_actor, for_critics, s, a, r, s2, noise, noise2):
        value, g = jax.value_and_grad(critic_loss)(critics, actor, targets, s, a, r, s2, noise2)
        update, for_critics = adam.update(g, for_critics)
        critics = optax.apply_updates(critics, update)
        _, g = jax.value_and_grad(actor_loss)(actor, critics, s, noise)
        update, for_actor = adam.update(g, for_actor)
        targets = jax.tree.map(lambda t, c: t + 0.005 * (c - t), targets, critics)
        return optax.apply_updates(actor, update), critics, targets, for_actor, for_critics, value

    return repeated(step, (actor, online, targets, adam.init(actor), adam.init(online)),
                    (normal(batch, 17), 0.5 * normal(batch, 6), normal(batch, 1), normal(batch, 17), normal(batch, 6),
                     normal(batch, 6)))


def wgan(width, batch):
    def critic(p, x):
        return run(p, x, jnp.tanh)

    def loss(p, real, fake, mix):
        between = mix * real + (1 - mix) * fake
        slope = jax.grad(lambda x: critic(p, x).sum())(between)
        penalty = ((jnp.sqrt((slope ** 2).sum(1) + 1e-12) - 1) ** 2).mean()
        return critic(p, fake).mean() - critic(p, real).mean() + 10 * penalty

    return trained(mlp(64, width, width, 1), loss, normal(batch, 64), normal(batch, 64), uniform(batch, 1),
                   by=optax.adam(1e-4, 0.5, 0.9))


def vae(width, batch):
    p = {"encoder": mlp(784, width, 40), "decoder": mlp(20, width, 784)}

    def loss(p, x, noise):
        mu, log_var = jnp.split(run(p["encoder"], x), 2, 1)
        logits = run(p["decoder"], mu + jnp.exp(0.5 * log_var) * noise)
        likeness = (jax.nn.softplus(logits) - x * logits).sum(1).mean()
        return likeness - 0.5 * (1 + log_var - mu * mu - jnp.exp(log_var)).sum(1).mean()

    return trained(p, loss, uniform(batch, 784), normal(batch, 20))


MODELS = {
    "recommender_step": (recommender, 10000), "wide_step": (wide, 2048), "autoencoder_step": (autoencoder, 512),
    "resnet_step": (resnet, 16), "gpt_step": (gpt, 128), "transformer_step": (transformer, 128),
    "cell_step": (recurrent(gated_cell, 2, 1, 100), 64),
    "long_cell_step": (recurrent(gated_cell, 2, 1, 1000), 32),
    "lstm_step": (recurrent(lstm_cell, 4, 2), 128), "gru_step": (recurrent(gru_cell, 3, 1), 128), "ppo_step": (ppo, 256),
    "sac_step": (sac, 256), "wgan_step": (wgan, 256), "vae_step": (vae, 400), "unet_step": (unet, 16),
}
