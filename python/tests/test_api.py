"""What C++ has, Python has: the public headers are read and compared with the modules."""
import inspect
import pathlib
import re

import numpy as np
import pytest
import windrow as wr

HEADERS = pathlib.Path(__file__).resolve().parents[2] / "include" / "windrow"


def classes(header, base):
    return re.findall(rf"^class (\w+)(?: final)? : public {base}", (HEADERS / header).read_text(), re.M)


def functions(header, results):
    return re.findall(rf"^(?:{results}) (\w+)\(", (HEADERS / header).read_text(), re.M)


# What Python has otherwise: Sequential and Module of its own take their place.
OWN = {"Sequential", "Lambda", "List", "Net"}


@pytest.mark.parametrize("header, base, module, least", [("nn.h", "Module", wr.nn, 15), ("transformer.h", "Module", wr.nn, 4),
                                                         ("logic.h", "nn::Module", wr.logic, 3), ("optim.h", "(?:Optimiser|Adam)", wr.optim, 5)])
def test_classes(header, base, module, least):
    found = set(classes(header, base))
    assert len(found) >= least, "the header was not read"
    assert not sorted(n for n in found - OWN if not hasattr(module, n))


@pytest.mark.parametrize("header, results, module, least", [("losses.h", "Tensor", wr.loss, 6), ("optim.h", "Schedule", wr.schedule, 4),
                                                            ("transformer.h", "Tensor|Array", wr.nn, 3), ("tensor.h", "Tensor", wr, 50)])
def test_functions(header, results, module, least):
    found = set(functions(header, results))
    assert len(found) >= least, "the header was not read"
    assert not sorted(n for n in found if not hasattr(module, n) and not hasattr(wr, n))


def test_rules_have_every_member_of_the_program():
    text = (HEADERS / "rules.h").read_text()
    body = text[text.index("class Program"):text.index("struct Inside;")]
    found = set(re.findall(r"^  [\w:<>, &]+ (\w+)\(", body, re.M)) - {"parse", "parse_file", "parse_in_folder", "Program", "operator"}
    assert len(found) > 12 and not sorted(n for n in found if not hasattr(wr.rules.Program, n))


@pytest.mark.parametrize("module", [wr, wr.nn, wr.optim, wr.loss, wr.schedule, wr.data, wr.rl, wr.logic, wr.rules])
def test_everything_helps(module):
    names = [n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n))]
    assert names and not [n for n in names if not inspect.getdoc(getattr(module, n))]


def test_a_decoder_goes_on_one_position_at_a_time_as_it_does_at_once():
    layer, b, t, width = wr.nn.TransformerEncoderLayer(8, 2, causal=True, rotary=True), 3, 5, 8
    x = np.random.default_rng(0).normal(size=(b, t, width)).astype(np.float32)
    at_once = wr.compile(lambda x: layer(x, "eval"))(x).numpy()
    seen = wr.nn.KeyValues(b, t, 2, width)
    step = wr.compile(lambda x, position: layer.next(x, seen, position))
    one_by_one = np.concatenate([step(np.ascontiguousarray(x[:, i:i + 1]), i).numpy() for i in range(t)], 1)
    np.testing.assert_allclose(one_by_one, at_once, rtol=1e-4, atol=1e-5)


def test_a_transformer_learns():
    net = wr.nn.Sequential(wr.nn.Embedding(7, 16), wr.nn.Positions(6, 16), wr.nn.TransformerEncoderLayer(16, 2, causal=True), wr.nn.Dense(16, 7))
    adam = wr.optim.Adam(lr=1e-2)

    @wr.compile
    def train(x):
        loss = wr.loss.cross_entropy(net(x).reshape(-1, 7), x.reshape(-1))
        adam.minimize(loss, net.parameters())
        return loss

    x = np.random.default_rng(0).integers(0, 7, (8, 6)).astype(np.int32)
    losses = [float(train(x)) for _ in range(40)]
    assert losses[-1] < losses[0] / 4


def test_sparse_adam_leaves_what_was_not_looked_up():
    table = wr.State(np.ones((5, 3), np.float32))
    adam = wr.optim.SparseAdam(lr=0.1)

    @wr.compile
    def train(i):
        adam.minimize(wr.gather(table.tensor(), i, 0).sum(), [table])

    train(np.array([1, 3]))
    changed = (table.numpy() != 1).any(1)
    assert changed.tolist() == [False, True, False, True, False]


# ---- names and functions of other libraries --------------------------------------------------------------------------
def test_functions_of_numpy_are_ops():
    x = np.arange(6, dtype="f4").reshape(2, 3)
    step = wr.compile(lambda t: (np.sum(t), np.mean(t, axis=0), np.amax(t, axis=1, keepdims=True), np.concatenate([t, t]), np.where(t > 2, t, -t)))
    want = (np.sum(x), np.mean(x, axis=0), np.amax(x, axis=1, keepdims=True), np.concatenate([x, x]), np.where(x > 2, x, -x))
    for got, expected in zip(step(x), want):
        np.testing.assert_allclose(np.asarray(got), expected)
    assert wr.compile(lambda t: t * np.shape(t)[0])(x).shape == (2, 3)


@pytest.mark.parametrize("fn, message", [
    (lambda t: np.linalg.norm(t), "numpy.linalg.norm of a Tensor"),
    (lambda t: np.median(t), "numpy.median of a Tensor"),
    (lambda t: np.sum(t, dtype="f8"), "numpy.sum of a Tensor"),
], ids=["linalg", "median", "an option"])
def test_other_functions_of_numpy_are_refused_by_name(fn, message):
    with pytest.raises(TypeError, match=message):
        wr.compile(fn)(np.ones((2, 3), "f4"))


@pytest.mark.parametrize("fn, message", [
    (lambda t: t.view(-1), "here it is reshape"),
    (lambda t: t.unsqueeze(0), "here it is expand_dims"),
    (lambda t: t.softmax(-1), r"here it is windrow.softmax\(x, ...\)"),
    (lambda t: t.backward(), "here it is windrow.grad"),
    (lambda t: wr.nn.Droput(0.1), "is Dropout meant"),
    (lambda t: wr.softmx(t), "is softmax meant"),
    (lambda t: wr.optim.Adamw(lr=0.1), "module 'windrow.optim' has no attribute 'Adamw'; is AdamW meant"),
    (lambda t: wr.loss.crossentropy(t, t), "is cross_entropy meant"),
])
def test_names_of_other_libraries_are_told(fn, message):
    with pytest.raises(AttributeError, match=message):
        wr.compile(fn)(np.ones((2, 3), "f4"))


def test_fit_and_save_say_what_they_want(tmp_path):
    with pytest.raises(wr.Error, match="fit: the step is a int"):
        wr.fit(3, [1])
    with pytest.raises(wr.Error, match="epochs must be at least 1"):
        wr.fit(wr.compile(lambda x: x), [np.ones(2, "f4")], epochs=0)
    with pytest.raises(wr.Error, match="model is a str"):
        wr.save(tmp_path / "a.safetensors", model="a")
