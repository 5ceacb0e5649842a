"""JAX's twin of logic_ca_checkerboard_update, in the best form we know: gates as their four coefficients, gate by gate
over all cells, each step of the automaton computed again on the way back."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

BATCH, SIDE, CHANNELS, KERNELS, STEPS = 2, 16, 8, 16, 20
CELLS = BATCH * SIDE * SIDE
UPDATE = [264] + [256] * 10 + [128, 64, 32, 16, 8, 8]
# Of each of the sixteen functions of a and b: the factors of 1, a, b and ab.
FUNCTIONS = np.array([[0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, -1], [0, 1, 0, 0], [0, 0, 1, -1], [0, 0, 1, 0], [0, 1, 1, -2],
                      [0, 1, 1, -1], [1, -1, -1, 1], [1, -1, -1, 2], [1, 0, -1, 0], [1, 0, -1, 1], [1, -1, 0, 0],
                      [1, -1, 0, 1], [1, 0, 0, -1], [1, 0, 0, 0]], np.float32)


def wires(random, inputs, gates):
    """Two different inputs for each gate: neighbours first, then those further apart."""
    pairs = [(i, i + 1) for start in (0, 1) for i in range(start, inputs - 1, 2)]
    for apart in range(2, inputs):
        pairs += [(i, i + apart) for i in range(inputs - apart)] if len(pairs) < gates else []
    return random.permutation(np.array(pairs[:gates]))


def passing(*shape):
    """Logits of gates that hand on their first wire."""
    return jnp.zeros(shape + (16,)).at[..., 3].set(10.0)


def neighbourhoods(x):
    padded = jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return jnp.stack([padded[:, :, i:i + SIDE, j:j + SIDE] for i in range(3) for j in range(3)])


def gates(c, a, b):
    return c[0] + c[1] * a + c[2] * b + c[3] * (a * b)


def checkerboard_update():
    random = np.random.default_rng(0)
    first = random.permutation(np.array([(i, 4) for i in range(9) if i != 4]))
    perception = [first, wires(random, 8, 4), wires(random, 4, 2)]
    update = [wires(random, i, o) for i, o in zip(UPDATE, UPDATE[1:])]
    parameters = {"perception": [passing(KERNELS, len(w)) for w in perception], "update": [passing(len(w)) for w in update]}
    row, column = np.mgrid[:SIDE, :SIDE]
    target = jnp.asarray((row // 2 + column // 2) % 2, jnp.float32)
    start = jnp.asarray(random.random((CHANNELS, BATCH, SIDE, SIDE)) < 0.5, jnp.float32)

    def moment(coefficients, x):
        v = neighbourhoods(x)[None]
        for c, w in zip(coefficients["perception"], perception):
            v = gates(jnp.moveaxis(c, -1, 0)[..., None, None, None, None], v[:, w[:, 0]], v[:, w[:, 1]])
        v = jnp.concatenate([x, v.transpose(2, 1, 0, 3, 4, 5).reshape(-1, BATCH, SIDE, SIDE)]).reshape(-1, CELLS)
        for c, w in zip(coefficients["update"], update):
            v = gates(c.T[..., None], v[w[:, 0]], v[w[:, 1]])
        return v.reshape(CHANNELS, BATCH, SIDE, SIDE)

    def loss(p):
        coefficients = jax.tree.map(lambda z: jax.nn.softmax(z, -1) @ FUNCTIONS, p)
        x, _ = jax.lax.scan(jax.checkpoint(lambda x, _: (moment(coefficients, x), None)), start, None, length=STEPS)
        return ((x[0] - target) ** 2).sum()

    adam = optax.chain(optax.clip(100.0), optax.adam(0.05, b1=0.9, b2=0.99))

    @jax.jit
    def step(p, state):
        value, g = jax.value_and_grad(loss)(p)
        change, state = adam.update(g, state, p)
        return optax.apply_updates(p, change), state, value

    box = [parameters, adam.init(parameters)]

    def go():
        box[0], box[1], value = step(*box)
        return jax.block_until_ready(value)

    return go
