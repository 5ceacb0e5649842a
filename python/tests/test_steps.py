"""Steps: plans by shape, static arguments, results, errors that name the line, threads, memory."""
import _thread
import copy
import gc
import io
import inspect
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import windrow as wr


def line_here(offset=0):
    return inspect.currentframe().f_back.f_lineno + offset


def test_one_plan_a_shape_and_the_same_results():
    @wr.compile
    def double(x):
        return x * 2

    for n in (3, 5, 3, 1):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(np.asarray(double(x)), x * 2)
    assert double.plans == 3 and double.compiled == 3 and double.calls == 4


def test_static_arguments_by_keyword_make_plans_of_their_own():
    @wr.compile
    def scaled(x, *, factor, half=False):
        return x * (factor / 2 if half else factor)

    x = np.ones(2, np.float32)
    assert scaled(x, factor=3).tolist() == [3, 3]
    assert scaled(x, factor=4, half=True).tolist() == [2, 2]
    assert scaled(x, factor=3).tolist() == [3, 3]
    assert scaled.compiled == 2
    with pytest.raises(TypeError, match="keyword arguments are static"):
        scaled(x, factor=x)


def test_numbers_are_arguments_not_constants():
    @wr.compile
    def scaled(x, factor):
        return x * factor

    x = np.ones(2, np.float32)
    assert scaled(x, 3.0).tolist() == [3, 3] and scaled(x, 5.0).tolist() == [5, 5]
    assert scaled.compiled == 1


def test_results_keep_their_shape():
    @wr.compile
    def f(x):
        return {"a": x, "b": (x + 1, [x + 2])}, None

    result, nothing = f(np.zeros(1, np.float32))
    assert nothing is None and result["b"][0].tolist() == [1.0] and result["b"][1][0].tolist() == [2.0]


def test_results_are_fresh_and_out_is_reused():
    @wr.compile
    def f(x):
        return x + 1

    first = f(np.zeros(2, np.float32))
    f(np.ones(2, np.float32))
    assert first.tolist() == [1, 1]
    out = np.empty(2, np.float32)
    assert f(np.ones(2, np.float32), out=out) is out and out.tolist() == [2, 2]
    with pytest.raises(wr.Error, match=r"out: is f32\[3\], the result is f32\[2\]"):
        f(np.ones(2, np.float32), out=np.empty(3, np.float32))
    frozen = np.empty(2, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="writable"):
        f(np.ones(2, np.float32), out=frozen)


def test_errors_name_the_users_line():
    @wr.compile
    def f(x, y):
        return wr.matmul(x, y)

    with pytest.raises(wr.Error, match=rf"test_steps.py:{line_here(-2)}: matmul: inner sizes differ"):
        f(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))


def test_conditions_on_tensors_are_refused_with_what_to_use_instead():
    @wr.compile
    def f(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(TypeError, match=rf"test_steps.py:{line_here(-2)}: if tensor.*wr.where"):
        f(np.ones(2, np.float32))


@pytest.mark.parametrize("use", [float, int, np.asarray, lambda t: t.item()])
def test_values_of_tensors_are_refused(use):
    with pytest.raises(TypeError, match="has no value while the step is traced"):
        wr.compile(lambda x: use(x.sum()))(np.ones(2, np.float32))


def test_what_is_no_tensor_cannot_be_returned():
    with pytest.raises(TypeError, match="a step returns tensors.*not int"):
        wr.compile(lambda x: 3)(np.ones(2, np.float32))


def test_an_exception_in_the_function_comes_through_and_the_step_still_works():
    fail = [True]

    @wr.compile
    def f(x):
        if fail[0]:
            raise KeyError("mine")
        return x

    with pytest.raises(KeyError, match="mine"):
        f(np.ones(1, np.float32))
    fail[0] = False
    assert f(np.ones(1, np.float32)).tolist() == [1]


def test_a_step_inside_another_is_part_of_it():
    inner = wr.compile(lambda x: x * 2)

    @wr.compile
    def outer(x):
        return inner(x) + 1

    assert outer(np.ones(1, np.float32)).tolist() == [3]
    assert inner.compiled == 0


def test_states_are_shared_by_steps():
    count = wr.State(0.0, "count")

    @wr.compile
    def up():
        count.assign(count + 1)

    @wr.compile
    def show():
        return count + 0

    up(), up()
    assert show().item() == 2.0
    count.memory().fill(10)
    up()
    assert show().item() == 11.0
    up.again(5)
    assert count.value().item() == 16.0


def test_training_learns_and_checkpoints_resume_bit_for_bit(tmp_path):
    wr.nn.seed(3)
    net = wr.nn.Sequential(wr.nn.Dense(2, 16), wr.nn.Tanh(), wr.nn.Dense(16, 2))
    adam = wr.optim.Adam(lr=0.05)

    @wr.compile
    def train(x, y):
        loss = wr.loss.cross_entropy(net(x), y)
        adam.minimize(loss, net.parameters())
        return loss

    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    y = np.array([0, 1, 1, 0])
    losses = [float(train(x, y)) for _ in range(200)]
    assert losses[0] > 0.5 and losses[-1] < 0.02
    path = tmp_path / "xor.safetensors"
    wr.save(path, model=net, optimiser=adam, metadata={"epoch": 7})
    after = [float(train(x, y)) for _ in range(3)]
    assert wr.load(path, model=net, optimiser=adam)["epoch"] == "7"
    assert [float(train(x, y)) for _ in range(3)] == after


def test_names_of_parameters_are_paths_and_stay():
    class Two(wr.nn.Module):
        def __init__(self):
            self.body = wr.nn.Sequential(wr.nn.Dense(2, 3), wr.nn.Relu())
            self.heads = [wr.nn.Dense(3, 1), wr.nn.Dense(3, 1)]
            self.scale = wr.State(1.0)

        def forward(self, x):
            h = self.body(x)
            return self.heads[0](h) + self.heads[1](h) * self.scale

    net = Two()
    names = ["body.0.w", "body.0.b", "heads.0.w", "heads.0.b", "heads.1.w", "heads.1.b", "scale"]
    assert list(net.named_parameters()) == names
    assert list(net.state_dict()) == names and net.parameters()[0].name == "body.0.w"
    assert wr.compile(lambda x: net(x))(np.ones((1, 2), np.float32)).shape == (1, 1)


def test_load_state_dict_is_all_or_nothing():
    net = wr.nn.Sequential(wr.nn.Dense(2, 3))
    values = net.state_dict()
    values["0.w"] = np.zeros((2, 4), np.float32)
    with pytest.raises(wr.Error, match=r"0.w is f32\[2,3\], the value is f32\[2, 4\]"):
        net.load_state_dict(values)
    with pytest.raises(wr.Error, match="missing: 0.b; unexpected: other"):
        net.load_state_dict({"0.w": values["0.w"], "other": 1.0})


def test_dropout_and_batch_norm_follow_the_mode():
    net = wr.nn.Sequential(wr.nn.BatchNorm(4), wr.nn.Dropout(0.5))
    x = np.random.default_rng(0).normal(3, 2, (64, 4)).astype("f")
    train, use = wr.compile(lambda x: net(x)), wr.compile(lambda x: net(x, mode="eval"))
    trained = np.asarray(train(x))
    assert 0.3 < (trained == 0).mean() < 0.7
    assert not np.array_equal(np.asarray(train(x)), trained)  # another mask
    assert (np.asarray(use(x)) == 0).mean() == 0
    with pytest.raises(ValueError, match="mode: 'test'"):
        wr.compile(lambda x: net(x, mode="test"))(x)


def test_states_are_pickled_and_plans_are_not():
    state = pickle.loads(pickle.dumps(wr.State([1.0, 2.0], "w")))
    assert state.name == "w" and state.value().tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(wr.compile(lambda x: x))


def test_nets_say_how_they_are_copied():
    net = wr.nn.Sequential(wr.nn.Dense(2, 3))
    with pytest.raises(TypeError, match="load_state_dict"):
        copy.deepcopy(net)
    with pytest.raises(TypeError, match="Dense is neither pickled nor copied"):
        pickle.dumps(net)


def test_two_threads_wait_their_turn():
    total = wr.State(0.0)

    @wr.compile
    def add(x):
        total.assign(total + x.sum())

    x = np.ones(1000, np.float32)
    add(x)
    threads = [threading.Thread(target=lambda: [add(x) for _ in range(200)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert total.value().item() == 801000.0


def test_fit_shows_progress_and_gives_means():
    step = wr.compile(lambda x: x.mean())
    out = io.StringIO()
    batches = [(np.full(4, i, np.float32),) for i in range(3)]
    assert wr.fit(step, batches, epochs=2, out=out) == [1.0, 1.0]
    assert "epoch 2/2" in out.getvalue() and "3/3" in out.getvalue()
    with pytest.raises(wr.Error, match="used up after one epoch"):
        wr.fit(step, iter(batches), epochs=2, progress=False)
    with pytest.warns(RuntimeWarning, match="nan after 4 steps of epoch 1.*check=True") as said:
        wr.fit(step, [*batches, (np.array([np.nan], np.float32),), *batches], progress=False)
    assert len(said) == 1


def test_describe_profile_and_notebooks():
    step = wr.compile(lambda x: wr.tanh(x @ x), name="square")
    with pytest.raises(wr.Error, match="square: describe: the step has no plan yet"):
        step.describe()
    step.prepare(wr.f32(8, 8))
    assert "square" in step.describe() and "<pre" in step._repr_html_()
    step.profile(True)
    for _ in range(3):
        step(np.ones((8, 8), np.float32))
    profile = step.profile()
    assert profile.runs == 3 and any(k.op == "einsum" for k in profile.kernels)
    assert "<iframe" in profile._repr_html_() and profile.kernels[0].file.endswith("test_steps.py")


def test_methods_cannot_be_decorated_silently():
    class Agent:
        @wr.compile
        def act(self, x):
            return x

    with pytest.raises(TypeError, match="self.step = windrow.compile"):
        Agent().act(np.ones(1, np.float32))


def test_many_plans_are_worth_a_word():
    step = wr.compile(lambda x: x + 1)
    with pytest.warns(RuntimeWarning, match="9 plans"):
        for n in range(1, 10):
            step(np.ones(n, np.float32))


def test_ctrl_c_ends_a_long_run_and_other_threads_go_on_meanwhile():
    count = wr.State(0.0)
    step = wr.compile(lambda: count.assign(count + 1))
    step()
    turns = []

    def interrupt():  # gets no turn unless the interpreter is free while the step runs
        for _ in range(5):
            time.sleep(0.01)
            turns.append(float(count.value()))
        _thread.interrupt_main()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            step.again(1_000_000_000)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(turns) == 5 and turns[-1] > turns[0]
    step()  # as good as before


def test_tuned_and_checked_steps():
    x = np.random.default_rng(0).normal(size=(32, 64)).astype(np.float32)
    product = wr.compile(lambda x: wr.tanh(x @ x.T).sum(1), tune=True)
    np.testing.assert_allclose(product(x).numpy(), np.tanh(x @ x.T).sum(1), rtol=1e-4, atol=1e-4)
    logarithm = wr.compile(lambda x: wr.log(x), check=True)
    with pytest.raises(wr.Error, match="log"):
        logarithm(np.array([1.0, -1.0], np.float32))
    with pytest.raises(TypeError, match="no option 'thread'"):
        wr.Step(lambda x: x, thread=1)


def test_labels_out_of_range_are_refused_and_other_indices_where_it_is_asked_for():
    x = np.zeros((4, 3), np.float32)

    @wr.compile
    def loss(x, y):
        return wr.loss.cross_entropy(x, y)

    with pytest.raises(wr.Error, match=r"test_steps.py:\d+: loss: argument 1 has 3 in row 2, but cross_entropy \(test_steps.py:\d+\) "
                                       "takes an index from 0 to 2"):
        loss(x, np.array([0, 1, 3, 2]))
    assert np.isfinite(float(loss(x, np.array([0, 1, 0, 2]))))
    rows = lambda x, i: wr.gather(x, i, 0)  # noqa: E731
    assert np.isnan(wr.compile(rows)(x, np.array([0, 4])).numpy()[1]).all()
    with pytest.raises(wr.Error, match=r"test_steps.py:\d+: .*argument 1 has 4 in row 1, but gather"):
        wr.compile(rows, check=True)(x, np.array([0, 4]))
    later = wr.compile(lambda x, i: wr.gather(x, i + 1, 0).sum(), check=True)
    with pytest.raises(wr.Error, match=r"^test_steps.py:\d+: check: gather \(test_steps.py:\d+\) gives nan in row 1"):
        later(x, np.array([0, 3]))


def test_parameters_that_no_gradient_reaches_are_named():
    w, idle = wr.State(np.ones(3, np.float32), "w"), wr.State(np.ones(3, np.float32), "idle")
    x = np.ones(3, np.float32)
    sgd = wr.optim.Sgd(lr=1.0)

    def gradients(x, unused=False):
        return wr.grad((x * w).sum(), [w, idle], allow_unused=unused)

    def update(x, unused=False):
        sgd.minimize((x * w).sum(), [w, idle], allow_unused=unused)

    for fn in (gradients, update):
        line = fn.__code__.co_firstlineno + 1
        with pytest.raises(wr.Error, match=f"test_steps.py:{line}: grad: no gradient reaches 'idle'.*does not depend on it.*allow_unused"):
            wr.compile(fn)(x)
    with pytest.raises(wr.Error, match="no gradient reaches 'w'.*round"):
        wr.compile(lambda x: wr.grad(wr.round(x * w).sum(), w))(x)
    first, second = wr.compile(gradients)(x, unused=True)
    assert first.numpy().tolist() == [1, 1, 1] and second.numpy().tolist() == [0, 0, 0]
    wr.compile(update)(x, unused=True)
    assert w.numpy().tolist() == [0, 0, 0] and idle.numpy().tolist() == [1, 1, 1]


def test_steps_in_cycles_are_collected():
    class Holder:
        pass

    import weakref

    holder = Holder()
    holder.step = wr.compile(lambda x: x + holder.offset)
    holder.offset = 1
    holder.step(np.ones(1, np.float32))
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_a_loop_is_compiled_once():
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(6, 4, 3)).astype(np.float32), rng.normal(size=(3, 3)).astype(np.float32)
    u = wr.State(w, "u")

    @wr.compile
    def last_and_all(x):
        body = lambda carry, now: ((wr.tanh(carry[0] @ u + now[0]),), (carry[0],))
        (h,), (before,) = wr.scan(body, [wr.full([4, 3], 0.5)], [x])
        return h, before, wr.grad(wr.sum(h), [u])[0]

    h, expected = np.full((4, 3), 0.5, np.float32), []
    for t in range(6):
        expected.append(h)
        h = np.tanh(h @ w + x[t])
    got, before, gradient = last_and_all(x)
    np.testing.assert_allclose(np.asarray(got), h, atol=1e-5)
    np.testing.assert_allclose(np.asarray(before), np.stack(expected), atol=1e-5)
    assert np.asarray(gradient).shape == (3, 3) and np.abs(np.asarray(gradient)).max() > 0
    with pytest.raises(Exception, match=r"test_steps.py:\d+: scan: .* a pair"):
        wr.compile(lambda x: wr.scan(lambda carry, now: carry, [x[0]], [x])[0][0])(x)


def test_numpys_functions_are_ops():
    a = np.full((2, 3), 4.0, "f")
    step = wr.compile(lambda x: (np.sqrt(x), a + x, a @ x.T, np.maximum(x, a), a > x, np.float32(2) * x))
    root, total, product, largest, above, twice = (np.asarray(r) for r in step(a))
    np.testing.assert_array_equal(root, np.sqrt(a))
    np.testing.assert_array_equal(total, a + a)
    np.testing.assert_array_equal(product, a @ a.T)
    np.testing.assert_array_equal(largest, a)
    assert not above.any()
    np.testing.assert_array_equal(twice, 2 * a)
    assert isinstance(np.exp(wr.array(a)), wr.Array)
    with pytest.raises(TypeError, match="numpy.arctan2 of a Tensor"):
        wr.compile(lambda x: np.arctan2(x, x))(a)
    with pytest.raises(TypeError, match="numpy.add.reduce of a Tensor"):
        wr.compile(lambda x: np.add.reduce(x))(a)


@pytest.mark.parametrize("argument, message", [(None, "argument 1: is a NoneType"), ("text", "argument 1: is a str"), ({"a": 1}, "argument 1: is a dict"),
                                               (np.ones(2, complex), "argument 1: array: no element type for complex128"),
                                               (np.array([2**40]), "argument 1: array: element 0")])
def test_arguments_that_are_no_arrays_are_named(argument, message):
    with pytest.raises((TypeError, wr.Error), match=message):
        wr.compile(lambda x, y: x)(1.0, argument)


def test_indices_and_what_is_no_index():
    x = np.arange(12, dtype="f").reshape(4, 3)
    np.testing.assert_array_equal(np.asarray(wr.compile(lambda x: x[np.array([2, 0])])(x)), x[[2, 0]])
    np.testing.assert_array_equal(np.asarray(wr.compile(lambda x: x[[3, 1]])(x)), x[[3, 1]])
    with pytest.raises(wr.Error, match=r"test_steps.py:\d+: index: what a mask picks"):
        wr.compile(lambda x: x[x > 1])(x)

    def assigns(x):
        x[0] = 1.0
        return x

    with pytest.raises(TypeError, match="not changed in place"):
        wr.compile(assigns)(x)


def test_layers_of_other_names_are_pointed_at():
    for name, known in (("Linear", "Dense"), ("ReLU", "Relu"), ("Conv2d", "Conv2D"), ("MaxPool2d", "MaxPool"), ("Parameter", "windrow.State")):
        with pytest.raises(AttributeError, match=f"'{name}'; here it is {known}"):
            getattr(wr.nn, name)


def test_an_error_leaves_no_complaint_at_the_end():
    program = ("import windrow as wr, numpy as np\nkept = []\ndef f(x):\n  kept.append(x)\n  return x @ x\n"
               "try: wr.compile(f)(np.ones((2, 3), 'f'))\nexcept wr.Error as e: kept.append(e)\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
