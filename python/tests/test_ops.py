"""Every op of the C++ list is there, and eager and traced ops agree with numpy."""
import pathlib
import re

import numpy as np
import pytest
import windrow as wr

ROOT = pathlib.Path(__file__).resolve().parents[2]


def names_in_the_op_list():
    """The functions that docs/ops.md, which is made from the ops' definitions, says a user can call."""
    names = set()
    for line in (ROOT / "docs" / "ops.md").read_text().splitlines():
        if not line.startswith("| "):
            continue
        cells = [c.strip() for c in line.strip("|").split(" | ")]
        first = re.match(r"([a-z_0-9]+)\(", cells[0])
        if first:
            names.add(first.group(1))
        for cell in cells[:3]:
            for code in re.findall(r"`([^`]*)`", cell):
                names.update(re.findall(r"(?<![A-Za-z:._])([a-z][a-z_0-9]*)\(", code))
    return names


# What Python says in another way: a method of an array, an argument, or a class.
OTHERWISE = {
    "compile": "windrow.compile", "fill": "Array.fill", "copy": "Array.copy_from", "apply": "numpy",
    "gradient": "windrow.grad", "conv2d_image_gradient": "windrow.grad", "conv2d_weights_gradient": "windrow.grad",
    "max_pool_gradient": "windrow.grad", "avg_pool_gradient": "windrow.grad",
}


def test_every_op_of_the_list_can_be_called():
    names = names_in_the_op_list()
    assert len(names) > 80, "the list was not read"
    missing = sorted(n for n in names if not hasattr(wr, n) and n not in OTHERWISE)
    assert not missing


UNARY = {"neg": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square, "sqrt": np.sqrt, "exp": np.exp, "log": np.log,
         "sin": np.sin, "tanh": np.tanh, "floor": np.floor, "relu": lambda x: np.maximum(x, 0)}


@pytest.mark.parametrize("name", UNARY)
def test_eager_and_traced_agree_with_numpy(name):
    x = np.linspace(0.1, 3, 12, dtype=np.float32).reshape(3, 4)
    op = getattr(wr, name)
    np.testing.assert_allclose(np.asarray(op(x)), UNARY[name](x), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(wr.compile(lambda t: op(t))(x)), UNARY[name](x), rtol=1e-5)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("axis", [None, 0, (0, 1), -1])
def test_reductions(name, axis):
    x = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    expected = getattr(np, name)(x, axis=axis)
    np.testing.assert_allclose(np.asarray(getattr(wr, name)(x, axis)), expected, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(wr.compile(lambda t: getattr(t, name)(axis))(x)), expected, rtol=1e-5)


def test_contractions_and_shapes_in_a_trace():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(3, 4)).astype("f"), rng.normal(size=(4, 5)).astype("f")

    @wr.compile
    def f(x, y):
        return (x @ y, wr.einsum("ij,jk->ki", x, y), x.T, x.reshape(2, 6), wr.concat([x, x], 1), x[:, 1:3], x[-1],
                wr.flip(x, 0), wr.stack([x, x], 0), wr.pad(x, [1, 0], [0, 2]))

    expected = (a @ b, (a @ b).T, a.T, a.reshape(2, 6), np.concatenate([a, a], 1), a[:, 1:3], a[-1], a[::-1], np.stack([a, a]),
                np.pad(a, ((1, 0), (0, 2))))
    for got, want in zip(f(a, b), expected):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5)


def test_gradients_are_right():
    x = np.array([0.5, -1.0, 2.0], np.float32)

    @wr.compile
    def f(x):
        return wr.grad(wr.sum(wr.square(x) * x), x)

    np.testing.assert_allclose(np.asarray(f(x)), 3 * x ** 2, rtol=1e-5)


def test_custom_gradient_passes_through_a_rounding():
    @wr.compile
    def f(x):
        y = wr.custom_gradient(wr.round(x), [x], lambda arguments, value, g: [g])
        return wr.grad(wr.sum(y * y), x)

    np.testing.assert_allclose(np.asarray(f(np.array([1.4, 2.6], np.float32))), [2.0, 6.0])


def test_eval_computes_an_expression_now():
    s = wr.State([1.0, 2.0])
    assert wr.eval(s * 3).tolist() == [3.0, 6.0]


def test_power_of_a_negative_base():
    assert (wr.array([-2.0]) ** 2).tolist() == [4.0]
    assert (wr.array([-2.0]) ** 3).tolist() == [-8.0]


def test_scan_is_a_loop_with_gradients():
    x, w = np.random.default_rng(0).normal(size=(6, 2, 3)).astype("f"), np.random.default_rng(1).normal(size=(3, 3)).astype("f")

    @wr.compile
    def run(x, w, h):
        last, outputs = wr.scan(lambda carry, x: ([wr.tanh(carry[0] @ w + x[0])], [carry[0]]), [h], [x])
        return last[0], outputs[0], wr.grad(last[0].sum(), w)

    def loop(w, h):
        seen = []
        for moment in x.astype(float):
            seen.append(h)
            h = np.tanh(h @ w + moment)
        return h, np.stack(seen)

    h = np.zeros((2, 3))
    last, outputs, gradient = run(x, w, h.astype("f"))
    np.testing.assert_allclose(last.numpy(), loop(w, h)[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs.numpy(), loop(w, h)[1], rtol=1e-4, atol=1e-5)
    step = np.zeros((3, 3))
    step[1, 2] = 1e-5
    slope = (loop(w + step, h)[0].sum() - loop(w - step, h)[0].sum()) / 2e-5
    assert gradient.numpy()[1, 2] == pytest.approx(slope, rel=1e-3)
    with pytest.raises(wr.Error, match="the body must return a pair"):
        wr.compile(lambda h: wr.scan(lambda carry, x: carry, [h], steps=3)[0])(h)
