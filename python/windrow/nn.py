"""Layers, containers, and modules of the user's own.

Layers are C++'s own: vectors [batch, features], sequences [batch, time, features], images [batch, height, width,
channels]. A module of one's own sets layers and States as attributes:

    class Net(wr.nn.Module):
        def __init__(self):
            self.hidden = wr.nn.Dense(4, 64)
            self.value, self.advantage = wr.nn.Dense(64, 1), wr.nn.Dense(64, 2)

        def forward(self, x, mode="train"):
            h = wr.relu(self.hidden(x))
            a = self.advantage(h)
            return self.value(h) + a - a.mean(-1, keepdims=True)
"""
from ._core import Array, Error, State, array
from ._core.nn import *  # noqa: F401,F403
from ._core.nn import Layer, init  # noqa: F401


def _children(what):
    """(name, part) of everything below a module that has states."""
    if isinstance(what, Module):
        items = vars(what).items()
    elif isinstance(what, dict):
        items = what.items()
    else:
        items = enumerate(what)
    for name, part in items:
        if isinstance(part, (State, Layer, Module)) or hasattr(part, "states"):
            yield str(name), part
        elif isinstance(part, (list, tuple, dict)):
            yield str(name), part


def _walk(what, path, trained, found, seen):
    if isinstance(what, State):
        if what not in seen:
            seen.add(what)
            found[path] = what
        return
    if isinstance(what, (Module, list, tuple, dict)):
        for name, part in _children(what):
            if trained and isinstance(what, Module) and name in what._buffer_names():
                continue
            _walk(part, f"{path}.{name}" if path else name, trained, found, seen)
        return
    # a layer, an optimiser or a learner of C++: its states carry names of their own
    if isinstance(what, Layer):
        if path and what.path != path:
            what.rename(path)
        strip, prefix = (what.path + "." if what.path and not path else ""), ""
    else:
        strip, prefix = "", path + "." if path else ""
    for i, state in enumerate(what.parameters() if trained and hasattr(what, "parameters") else what.states()):
        if state in seen:
            continue
        seen.add(state)
        name = prefix + (state.name.removeprefix(strip) or str(i))
        while name in found:
            name += "'"
        found[name] = state


def named_states(what):
    """All states of a module, layer, optimiser, or a list or dict of them: {path: State}."""
    if hasattr(what, "named_states"):
        return what.named_states()
    found = {}
    _walk(what, "", False, found, set())
    return found


class Module:
    """A net of one's own: override forward(x, mode). Attributes that are layers, modules, States, or lists and dicts of
    them are its parts."""

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args, mode="train", **kwargs):
        import inspect  # here: it is half of what importing windrow would take

        if "mode" in inspect.signature(self.forward).parameters:
            kwargs["mode"] = mode
        return self.forward(*args, **kwargs)

    def _buffer_names(self):
        """Names of States that are kept but not trained: self.buffers = {"steps"}."""
        return getattr(self, "buffers", ())

    def named_parameters(self):
        found = {}
        _walk(self, "", True, found, set())
        return found

    def named_states(self):
        found = {}
        _walk(self, "", False, found, set())
        return found

    def parameters(self):
        """What training changes."""
        return list(self.named_parameters().values())

    def states(self):
        """Parameters and buffers: what a checkpoint holds."""
        return list(self.named_states().values())

    def state_dict(self):
        """{path: Array}, copies."""
        return {name: state.value() for name, state in self.named_states().items()}

    def load_state_dict(self, values):
        """Sets every state; names, shapes and types must be those of state_dict(). All of them or none."""
        states = self.named_states()
        missing, unexpected = sorted(states.keys() - values.keys()), sorted(values.keys() - states.keys())
        if missing or unexpected:
            raise Error("load_state_dict: " + "; ".join(
                ([f"missing: {', '.join(missing)}"] if missing else [])
                + ([f"unexpected: {', '.join(unexpected)}"] if unexpected else [])))
        arrays = {name: value if isinstance(value, Array) else array(value) for name, value in values.items()}
        wrong = [f"{name} is {states[name].spec}, the value is {a.dtype.name}{list(a.shape)}" for name, a in arrays.items()
                 if a.shape != states[name].shape or a.dtype != states[name].dtype]
        if wrong:
            raise Error("load_state_dict: " + "; ".join(wrong))
        for name, value in arrays.items():
            states[name].set(value)

    def __repr__(self):
        parts = [f"  {name}: " + repr(part).replace("\n", "\n  ") for name, part in _children(self)]
        return type(self).__name__ + ("(\n" + "\n".join(parts) + "\n)" if parts else "()")


class Sequential(Module):
    """One after the other. Parts are named by their position, or by name: Sequential(conv=Conv2D(1, 8, 3))."""

    def __init__(self, *parts, **named):
        for i, part in enumerate(parts):
            setattr(self, str(i), part if callable(part) else _refuse(part))
        for name, part in named.items():
            setattr(self, name, part if callable(part) else _refuse(part))

    def __iter__(self):
        return iter(vars(self).values())

    def __len__(self):
        return len(vars(self))

    def __getitem__(self, i):
        return list(self)[i]

    def append(self, part):
        setattr(self, str(len(self)), part)
        return self

    def forward(self, x, mode="train"):
        for part in self:
            x = part(x, mode=mode) if isinstance(part, (Layer, Module)) else part(x)
        return x


class Residual(Module):
    """x + part(x)."""

    def __init__(self, part):
        self.part = part

    def forward(self, x, mode="train"):
        return x + self.part(x, mode=mode)


class Concat(Module):
    """Several parts on the same input, their results put together along an axis."""

    def __init__(self, *parts, axis=-1):
        self.parts, self.axis = list(parts), axis

    def forward(self, x, mode="train"):
        from ._core import concat

        return concat([part(x, mode=mode) for part in self.parts], self.axis)


def _refuse(part):
    raise Error(f"Sequential: {part!r} is no layer, module or function of a tensor")


from ._layouts import load_torch, load_torch_state_dict, save_torch, torch_state_dict  # noqa: E402,F401  (it needs the above)


def _no_copy(self):
    raise TypeError(f"{type(self).__name__} is neither pickled nor copied: its States are. Make it again, and load_state_dict(net.state_dict())")


Layer.__reduce__ = _no_copy
_ELSEWHERE = {"linear": "Dense", "modulelist": "a list", "moduledict": "a dict", "parameter": "windrow.State"}


def __getattr__(name):
    """Says what a layer of another library's name is called here."""
    known = {n.lower(): n for n in globals() if n[0].isupper()} | _ELSEWHERE
    found = known.get(name.lower()) or known.get(name.lower().removesuffix("1d").removesuffix("2d"))
    if not found and not name.startswith("_"):
        import difflib  # here, as it is seldom needed

        close = difflib.get_close_matches(name.lower(), known, 1, 0.75)
        found = known[close[0]] if close else None
        raise AttributeError(f"module 'windrow.nn' has no attribute '{name}'" + (f"; is {found} meant?" if found else ""))
    raise AttributeError(f"module 'windrow.nn' has no attribute '{name}'" + (f"; here it is {found}" if found else ""))
