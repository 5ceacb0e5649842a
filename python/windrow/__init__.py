"""Windrow: a whole training step (forward, backward, optimiser) compiled into one static plan for CPU cores.

    import windrow as wr

    net = wr.nn.Sequential(wr.nn.Dense(784, 128), wr.nn.Relu(), wr.nn.Dense(128, 10))
    adam = wr.optim.Adam(lr=1e-3)

    @wr.compile
    def train(x, y):
        loss = wr.loss.cross_entropy(net(x), y)
        adam.minimize(loss, net.parameters())
        return loss

    for x, y in loader:
        loss = float(train(x, y))

Arrays of numpy, PyTorch, JAX and everything with a buffer or DLPack go in where they stand; results are windrow.Array,
which numpy.asarray() and torch.from_dlpack() see without a copy. windrow.torch compiles PyTorch programs as they are.
"""
from ._core import *  # noqa: F401,F403
from ._core import __version__, Error, doctor, loss, optim, rl, rules, schedule, logic  # noqa: F401
from . import _methods  # noqa: F401
from .data import Loader as _Loader  # makes windrow.data, over the module of C++
from .nn import Module as _Module
from ._compile import Step, compile, fit  # noqa: F401,A004
from ._checkpoint import load, save  # noqa: F401

import sys as _sys

del _Loader, _Module
Error.__doc__ = "What Windrow refuses, with the line and what was expected. A ValueError."
Safetensors.__doc__ = "What a safetensors file holds: tensors by name, and metadata."  # noqa: F405


def _without(module, of, name):
    """What a module says of a name that it does not have."""
    close = []
    if not name.startswith("_"):
        import difflib  # here, as it is seldom needed

        known = {n.lower(): n for n in vars(module) if not n.startswith("_")}
        close = [known[n] for n in difflib.get_close_matches(name.lower(), known, 1, 0.75)]
    return AttributeError(f"module '{of}' has no attribute '{name}'" + (f"; is {close[0]} meant?" if close else ""))


def _adopt(name):
    """A module of C++ as one of the package's: `import windrow.optim` works too."""
    module, full = globals()[name], f"{__name__}.{name}"
    _sys.modules[full] = module

    def missing(attribute):
        raise _without(module, full, attribute)

    module.__getattr__ = missing


for _name in ("loss", "optim", "rl", "rules", "schedule", "logic"):
    _adopt(_name)
del _name


def __getattr__(name):
    """Front ends that need another package are imported when they are first used: wr.torch."""
    if name in ("torch", "sklearn", "sb3"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise _without(_sys.modules[__name__], __name__, name)
