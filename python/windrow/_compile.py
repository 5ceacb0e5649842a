"""compile(): a function becomes a step. fit(): a loop over batches with progress."""
import sys
import time
import warnings

from . import _core
from ._core import Step


def compile(fn=None, *, name=None, threads=0, lanes=0, simd="", machine="", device="", tune=False, check=None,  # noqa: A001
            profile=False):
    """Compiles a function of tensors into a step.

    The function is traced when it is first called with arguments of some shapes and types, and compiled into a plan
    that later calls run; a new shape makes another plan. Positional arguments are arrays and numbers. Keyword arguments
    are static: they are given to the function as they are and are part of the plan. Results are fresh arrays; with
    `out=` (an array, or a sequence of them) they are written there instead.

    name     for describe() and errors; the function's own where it is not given
    threads  at most; 0: WINDROW_THREADS, else the cores there are. Results do not depend on it
    lanes    virtual cores the plan is made for; 0: chosen for this machine
    simd     'sse4', 'avx2', 'avx512' or 'neon'; by default the best there is
    machine  to plan for: 'sapphire', 'zen3', 'zen5', 'desktop', 'pi4' or a file; by default this one. The same machine and SIMD give the
             same plan and the same bits anywhere
    device   where it runs: 'cpu', 'auto', 'opencl', 'opencl:1', 'opencl:NAME', 'cuda', 'cuda:1' (docs/devices.md); by default as
             WINDROW_DEVICE says, else the CPU
    tune     times the few plans that are estimated to be fastest, takes the fastest, and remembers it for the next time
    check    after each run, results and states must be finite, and before it, indices in range: otherwise an Error names the op
             that is to blame, and the states are as they were. None: as WINDROW_CHECK says
    profile  from the first run on; see Step.profile

        @wr.compile
        def train(x, y): ...

        @wr.compile(threads=1)
        def act(x): ...
    """
    options = {"threads": threads, "lanes": lanes, "simd": simd, "machine": machine, "device": device, "tune": tune, "check": check,
               "profile": profile}
    if name is not None:
        options["name"] = name

    def make(function):
        step = Step(function, **options)
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(function, attribute):
                setattr(step, attribute, getattr(function, attribute))
        return step

    return make if fn is None else make(fn)


def fit(step, batches, *, epochs=1, progress=True, every=0.1, out=None):
    """Runs step(*batch) for every batch and gives the mean of its first result for each epoch.

    `batches` is anything that can be iterated once an epoch: a Loader, a list, a function that gives an iterator.
    Progress goes to `out` (stderr) where that is a terminal. Ctrl-C ends the loop between two steps.
    """
    if not callable(step):
        raise _core.Error(f"fit: the step is a {type(step).__name__}; a function that windrow.compile has made is wanted")
    if epochs < 1:
        raise _core.Error(f"fit: epochs must be at least 1, is {epochs}")
    stream = sys.stderr if out is None else out
    shown = progress and (out is not None or stream.isatty())
    means = []
    for epoch in range(epochs):
        source = batches() if callable(batches) else batches
        total = len(source) if hasattr(source, "__len__") else None
        seen, sum_of, start, last = 0, 0.0, time.perf_counter(), 0.0
        for batch in source:
            result = step(*batch) if isinstance(batch, (tuple, list)) else step(batch)
            first = result[0] if isinstance(result, (tuple, list)) else result
            if first is not None:
                value = float(first)
                if value != value and sum_of == sum_of:  # the first of them
                    warnings.warn(f"fit: the result is nan after {seen + 1} steps of epoch {epoch + 1}; a step compiled with check=True "
                                  "names the op and the row", RuntimeWarning, stacklevel=2)
                sum_of += value
            seen += 1
            now = time.perf_counter()
            if shown and now - last >= every:
                last = now
                _show(stream, epoch, epochs, seen, total, sum_of / seen, seen / (now - start))
        if seen == 0:
            raise _core.Error(f"fit: epoch {epoch + 1} has no batches; an iterator is used up after one epoch: give a list "
                              "or a function that makes one")
        means.append(sum_of / seen)
        if shown:
            _show(stream, epoch, epochs, seen, total, means[-1], seen / (time.perf_counter() - start))
            stream.write("\n")
    return means


def _show(stream, epoch, epochs, seen, total, mean, rate):
    of = f"/{total}" if total else ""
    bar = ""
    if total:
        done = min(20, 20 * seen // total)
        bar = "[" + "=" * done + " " * (20 - done) + "] "
    stream.write(f"\repoch {epoch + 1}/{epochs} {bar}{seen}{of}  loss {mean:.4g}  {rate:.0f} steps/s ")
    stream.flush()
