"""The package: quick to import, without numpy or torch; the program; data; learners; gates."""
import subprocess
import sys

import numpy as np
import pytest
import windrow as wr


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout


def test_import_takes_nothing_that_is_slow_to_import():
    out = run("-c", "import sys, windrow; print([m for m in ('numpy', 'torch', 'sklearn', 'inspect', 'html') if m in sys.modules])")
    assert out.strip() == "[]"


def test_doctor_says_what_it_found():
    out = run("-m", "windrow", "doctor")
    assert "machine" in out and "SIMD" in out


def test_doctor_does_not_mind_who_stops_reading():
    program = subprocess.Popen([sys.executable, "-m", "windrow", "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.stdout.close()
    assert program.stderr.read() == b"" and program.wait() == 0


def test_every_function_has_a_signature_and_help():
    undocumented = [n for n in dir(wr) if callable(getattr(wr, n)) and not n.startswith("_") and not getattr(wr, n).__doc__]
    assert not undocumented


def test_loader_goes_through_an_epoch_at_a_time():
    data = wr.data.Dataset(np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10))
    loader = wr.data.Loader(data, batch=4, seed=1)
    epoch = list(loader)
    assert len(epoch) == len(loader) == 2
    labels = np.concatenate([np.asarray(y) for _, y in epoch])
    assert len(set(labels.tolist())) == 8
    for x, y in epoch:
        np.testing.assert_array_equal(np.asarray(x)[:, 0], np.asarray(y) * 2)
    state = loader.state
    after = [np.asarray(y).tolist() for _, y in loader]
    loader.state = state
    assert [np.asarray(y).tolist() for _, y in loader] == after


def test_files_round_trip(tmp_path):
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("f")
    wr.write_safetensors(str(tmp_path / "x.safetensors"), {"x": x, "n": np.array([1, 2])}, {"about": "test"})
    back = wr.read_safetensors(str(tmp_path / "x.safetensors"))
    np.testing.assert_array_equal(np.asarray(back.tensors["x"]), x)
    assert back.metadata["about"] == "test"
    wr.data.write_npy(str(tmp_path / "x.npy"), x)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 16)
    with pytest.raises(wr.Error, match="bad.safetensors"):
        wr.read_safetensors(str(tmp_path / "bad.safetensors"))


def test_schedule_of_ones_own_and_groups():
    w = wr.State([1.0])
    sgd = wr.optim.Sgd(lr=1.0, schedule=lambda updates: 1 / (updates + 1))

    @wr.compile
    def train():
        sgd.minimize(w.tensor().sum(), [w])

    train()
    train()
    np.testing.assert_allclose(w.value().tolist(), [1 - 1 - 0.5], atol=1e-6)


def test_dqn_learner_trains():
    net = wr.rl.Net(4, 2, hidden=[16])
    dqn = wr.rl.Dqn(net, batch=8, lr=1e-2)
    rng = np.random.default_rng(0)
    batch = (rng.normal(size=(8, 4)).astype("f"), rng.integers(0, 2, 8), np.ones(8, "f"), rng.normal(size=(8, 4)).astype("f"),
             np.zeros(8, "f"))
    first = dqn.train(*batch)[0]
    for _ in range(100):
        last, errors = dqn.train(*batch)
    assert last < first / 4 and errors.shape == (8,)
    assert dqn.act(np.zeros((1, 4), "f")).shape == (1, 2)


def test_cartpole_falls_when_pushed_one_way():
    env, rng = wr.rl.CartPole(), wr.rl.Rng(1)
    assert env.reset(rng).shape == (4,)
    for steps in range(1, 500):
        if env.step(1).over:
            break
    assert 5 < steps < 30
    with pytest.raises(ValueError):
        env.step(2)


def test_gate_layers_learn_a_function():
    layers = wr.logic.GateLayers([2, 4, 1], connect="random", pass_=0.0, noise=1.0, seed=3)
    adam = wr.optim.Adam(lr=0.1)
    x = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], np.float32)
    y = np.array([[0, 1, 1, 0]], np.float32)

    @wr.compile
    def train(x, y):
        loss = wr.loss.mse(layers(x), y)
        adam.minimize(loss, layers.parameters())
        return loss

    first = float(train(x, y))
    for _ in range(300):
        last = float(train(x, y))
    assert last < first / 2
