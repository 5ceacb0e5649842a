"""Native nets by PyTorch's names and layouts, without torch; types for editors."""
import ast
import pathlib

import numpy as np
import pytest
import windrow as wr


def net():
    return wr.nn.Sequential(wr.nn.Dense(3, 4), wr.nn.LayerNorm(4), wr.nn.Dense(4, 2, bias=False), wr.nn.BatchNorm(2))


def test_names_and_layouts_are_torchs():
    n = net()
    d = wr.nn.torch_state_dict(n)
    assert {k: v.shape for k, v in d.items()} == {
        "0.weight": (4, 3), "0.bias": (4,), "1.weight": (4,), "1.bias": (4,), "2.weight": (2, 4), "3.weight": (2,), "3.bias": (2,),
        "3.running_mean": (2,), "3.running_var": (2,), "3.num_batches_tracked": ()}
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("f")
    first = wr.compile(lambda x: n[0](x))(x)
    np.testing.assert_allclose(np.asarray(first), x @ d["0.weight"].T + d["0.bias"], rtol=1e-5, atol=1e-6)
    conv = wr.nn.torch_state_dict([wr.nn.Conv2D(2, 5, 3)])
    assert conv["0.weight"].shape == (5, 2, 3, 3)


def test_files_round_trip(tmp_path):
    a, b = net(), net()
    wr.nn.save_torch(tmp_path / "net.safetensors", a)
    assert wr.nn.load_torch(tmp_path / "net.safetensors", b) == {"format": "pt"}
    for name, value in wr.nn.torch_state_dict(a).items():
        np.testing.assert_array_equal(wr.nn.torch_state_dict(b)[name], value)


def test_what_does_not_fit_changes_nothing():
    n = net()
    before = wr.nn.torch_state_dict(n)
    wrong = dict(before, **{"0.bias": np.ones(4, "f"), "2.weight": np.ones((4, 2), "f")})
    with pytest.raises(wr.Error, match=r"2.weight is \[4, 2\], expected \[2, 4\]"):
        wr.nn.load_torch_state_dict(n, wrong)
    with pytest.raises(wr.Error, match="missing: 0.bias; unexpected: other"):
        wr.nn.load_torch_state_dict(n, {**{k: v for k, v in before.items() if k != "0.bias"}, "other": np.ones(1, "f")})
    np.testing.assert_array_equal(wr.nn.torch_state_dict(n)["0.bias"], before["0.bias"])


def test_layers_without_a_counterpart_are_named():
    with pytest.raises(wr.Error, match="0: Attention has no counterpart"):
        wr.nn.torch_state_dict([wr.nn.Attention(8, 2)])


def test_stubs_are_there_and_know_every_function():
    folder = pathlib.Path(wr._core.__file__).parent
    assert (folder / "py.typed").is_file()
    names = set()
    for node in ast.parse((folder / "_core" / "__init__.pyi").read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
            if node.name == "Tensor":
                methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    public = {n for n in dir(wr._core) if not n.startswith("_") and callable(getattr(wr._core, n))}
    assert not {n for n in public if not isinstance(getattr(wr._core, n), wr.DType)} - names
    assert {"reshape", "permute", "T", "flatten", "__iter__", "astype"} <= methods
