"""The net under every tracing error: the first call of each shape beside torch itself."""
import torch

from windrow import Error

from ._forms import tensors_in
from ._trace import as_torch_has_it, assigned_in_place


def snapshot(memory):
    return [(tensor, tensor.detach().clone()) for tensor, _ in memory.tensors.values()]


def _restore(values):
    with torch.no_grad():
        for tensor, value in values:
            tensor.detach().copy_(value)


def _names(compiled):
    return {p.data_ptr(): name for m in compiled.modules for name, p in m.named_parameters()}


NOISE = 1e-5  # of the largest: what a gradient that is 0 but for rounding (a bias before a batch norm) may come to


def _kept(slot, *names):
    """By parameter: what an optimizer keeps under the first of these names that it has; and the largest number in all of it."""
    found = {p: next((slot.state[p][n] for n in names if n in slot.state[p]), None) for p in slot.parameters if p in slot.state}
    found = {p: m for p, m in found.items() if m is not None and m.numel()}
    return found, max((float(m.abs().max()) for m in found.values()), default=0.0)


def _unclear(entry):
    """For each parameter of an optimizer that divides by a gradient's size: where that size is rounding error, torch's own
    step is noise."""
    means = {}
    for slot in entry.slots.all:
        found, largest = _kept(slot, "exp_avg", "square_avg")
        means |= {p.data_ptr(): m.abs() <= NOISE * largest for p, m in found.items()}
    return means


def _noise(entry):
    """For each mean of gradients that an optimizer keeps: how much of it may be rounding error, by the largest of its kind."""
    noise = {}
    for slot in entry.slots.all:
        for name in ("exp_avg", "momentum_buffer", "grad_avg"):
            found, largest = _kept(slot, name)
            noise |= {m.data_ptr(): NOISE * largest for m in found.values()}
    return noise


def _difference(ours, theirs, skip=None, noise=0.0):
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"is {ours.dtype} {tuple(ours.shape)}, torch's {theirs.dtype} {tuple(theirs.shape)}"
    if not theirs.is_floating_point():
        wrong = int((ours != theirs).sum())
        return f"{wrong} of {theirs.numel()} elements differ" if wrong > theirs.numel() // 100 else None
    if theirs.numel() == 0:
        return None
    same = (ours == theirs) | (ours.isnan() & theirs.isnan())
    if skip is not None:
        same |= skip
    finite = theirs[torch.isfinite(theirs)]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    off = torch.where(same, torch.zeros_like(ours), (ours - theirs).abs())
    worst = float(off.nan_to_num(nan=float("inf")).max())
    if worst <= 2e-4 * scale + max(2e-6, noise):
        return None
    return f"differs by up to {worst:.3g} where values are up to {scale:.3g}"


def check_against_eager(compiled, args, result, before, entry):
    """Raises if torch, from the same start, comes to something else. What the plan left is left."""
    ours = [(tensor, tensor.detach().clone()) for tensor, _ in before]
    gradients = [(p, p.grad) for m in compiled.modules for p in m.parameters()] + [(p, p.grad) for p, _, _ in entry.kept]
    _restore(before)
    for p, g, _ in entry.kept:
        p.grad = g
    owners = {g.data_ptr(): p for p, g, _ in entry.kept}
    # torch's SGD treats a velocity that is not there yet in its own way, and counts no steps
    velocities = [(slot.state[p], slot.state[p].pop(name)) for slot in entry.slots.all for p, name in slot.fresh
                  if name == "momentum_buffer" and type(slot.optimizer).__name__ == "SGD"]
    apart = {t.data_ptr() for _, t in velocities} | {s.counts.data_ptr() for s in entry.slots.all if type(s.optimizer).__name__ == "SGD"}
    try:
        with assigned_in_place(), as_torch_has_it():
            expected = compiled.fn(*args)
        names, unclear, noise, wrong = _names(compiled), _unclear(entry), _noise(entry), []
        for i, (a, b) in enumerate(zip(tensors_in(result), tensors_in(expected))):
            problem = _difference(a, b)
            if problem:
                wrong.append(f"result {i} {problem}")
        for tensor, value in ours:
            at = tensor.data_ptr()
            theirs = owners[at].grad if at in owners else tensor  # torch makes a gradient anew, or leaves none
            if at in apart or theirs is None:
                continue
            problem = _difference(value, theirs.detach(), unclear.get(at), noise.get(at, 0.0))
            if problem:
                name = names.get(tensor.data_ptr(), f"a tensor of shape {tuple(tensor.shape)}")
                wrong.append(f"{name} {problem}")
    finally:
        for slot in entry.slots.all:
            slot.fresh = []
        for state, tensor in velocities:
            state["momentum_buffer"] = tensor
        _restore(ours)
        for p, g in gradients:
            p.grad = g
    if wrong:
        _restore(before)
        raise Error(f"{compiled.__name__}: what was compiled is not what torch computes (nothing has changed; check=False goes "
                    "without this test): " + "; ".join(wrong[:5]) + ". What Python makes anew at each call (random, numpy, a clock) is fixed when "
                    "a function is compiled: pass it as an argument")
