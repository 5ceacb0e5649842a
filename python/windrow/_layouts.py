"""The states of a native net by PyTorch's names and in its layouts, both ways: weight [out, in] instead of w [in, out],
[out, in, height, width] instead of [height, width, in, out]. Needs numpy alone."""
from . import _core
from ._core import Error, State
from .nn import Layer, Module, _children


def _moved(*order):
    """How an array goes to torch's axes, and back."""
    back = [order.index(i) for i in range(len(order))]
    return (lambda a: a.transpose(order)), (lambda a: a.transpose(back))


_SAME = (lambda a: a, lambda a: a)
_AFFINE = {"scale": ("weight", _SAME), "shift": ("bias", _SAME)}
_RUNNING = {**_AFFINE, "mean": ("running_mean", _SAME), "variance": ("running_var", _SAME)}


def _weights(to_and_back):
    return {"w": ("weight", to_and_back), "b": ("bias", _SAME)}


_nn = _core.nn
LAYOUTS = {  # layer -> {our name: (torch's name, (to torch, back))}
    _nn.Dense: _weights(_moved(1, 0)),
    _nn.Conv1D: _weights(_moved(2, 1, 0)),
    _nn.Conv2D: _weights(_moved(3, 2, 0, 1)),
    _nn.ConvTranspose2D: _weights(_moved(0, 3, 1, 2)),
    _nn.Embedding: _weights(_SAME),
    _nn.LayerNorm: _AFFINE,
    _nn.RmsNorm: _AFFINE,
    _nn.GroupNorm: _AFFINE,
    _nn.InstanceNorm: _AFFINE,
    _nn.BatchNorm: _RUNNING,
}
_NONE = (_nn.Dropout,)  # has a counter here and nothing there


def _entries(what, path=""):
    """(torch's name, State, (to torch, back)) of every state, and (name, None, None) of what torch has besides."""
    join = lambda name: f"{path}.{name}" if path else name  # noqa: E731
    if isinstance(what, State):
        yield path, what, _SAME
    elif isinstance(what, (Module, list, tuple, dict)):
        for name, part in _children(what):
            yield from _entries(part, join(name))
    elif isinstance(what, Layer):
        states = what.states()
        layout = LAYOUTS.get(type(what), {})
        if isinstance(what, _NONE):
            return
        if states and not layout:
            raise Error(f"{path or 'the net'}: {type(what).__name__} has no counterpart in PyTorch with known names and layouts; there are "
                        + ", ".join(sorted(t.__name__ for t in LAYOUTS)))
        for state in states:
            name, ways = layout[state.name.rsplit(".", 1)[-1]]
            yield join(name), state, ways
        if isinstance(what, _nn.BatchNorm):
            yield join("num_batches_tracked"), None, None


def torch_state_dict(net):
    """{name: numpy array} as PyTorch's state_dict() has it: copies, by its names and in its layouts."""
    import numpy as np  # not with the package, which is to be imported quickly

    found = {}
    for name, state, ways in _entries(net):
        found[name] = np.zeros((), np.int32) if state is None else np.ascontiguousarray(ways[0](state.numpy()))
    return found


def load_torch_state_dict(net, values):
    """Sets every state of a native net from arrays by PyTorch's names and in its layouts (numpy, torch, windrow). All of
    them or none."""
    import numpy as np

    entries = [e for e in _entries(net) if e[1] is not None]
    known = {name for name, _, _ in entries}
    missing = sorted(known - values.keys())
    unexpected = sorted(n for n in values.keys() - known if not n.endswith("num_batches_tracked"))
    if missing or unexpected:
        raise Error("load_torch_state_dict: " + "; ".join(([f"missing: {', '.join(missing)}"] if missing else [])
                                                           + ([f"unexpected: {', '.join(unexpected)}"] if unexpected else [])))
    arrays = []
    for name, state, ways in entries:
        value = values[name]
        value = np.asarray(value.detach() if hasattr(value, "detach") else value)
        there = ways[0](np.empty(state.shape, np.float32)).shape
        if value.shape != there:
            raise Error(f"load_torch_state_dict: {name} is {list(value.shape)}, expected {list(there)}")
        arrays.append((state, np.ascontiguousarray(ways[1](value)).astype(np.asarray(state.memory()).dtype)))
    for state, array in arrays:
        state.set(array)


def save_torch(path, net, metadata=None):
    """Writes a native net to a safetensors file that PyTorch programs read: safetensors.torch.load_file(path)."""
    _core.write_safetensors(str(path), torch_state_dict(net), {k: str(v) for k, v in (metadata or {"format": "pt"}).items()})


def load_torch(path, net):
    """Reads a safetensors file that a PyTorch program wrote into a native net; gives the file's metadata."""
    file = _core.read_safetensors(str(path))
    load_torch_state_dict(net, {name: a.numpy() for name, a in file.tensors.items()})
    return dict(file.metadata)
