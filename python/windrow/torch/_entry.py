"""The plans of one compiled function for one setting of everything that is no tensor: traced, watched, and brought up to date."""
import gc
import random
import threading

import numpy
import torch
from torch.nn.parameter import is_lazy

import windrow as wr
from windrow import Error

from ._check import snapshot
from ._forms import put_together, taken_apart
from ._interpret import Interpreter
from ._memory import Memory, Slots
from ._surroundings import MISSING, NUMBERS, content_of, put, refuse_counters
from ._trace import trace


class Entry:
    """The plans of one setting of everything that is no tensor."""

    def __init__(self, owner, static):
        self.owner, self.static = owner, static
        self.again = False  # whether the next call is checked as well
        self.slots, self.memories, self.watched, self.pointers, self.expected = Slots(), [], {}, [], []
        self.assumed_none, self.absent, self.cleared = [], [], []
        self.flags = []  # (module or parameter, its flag before, after): those that the function sets
        self.left = []  # (mapping, list or cell; key): where the function leaves tensors, which a plan does not
        self.left_by_torch = []  # (mapping, list or cell; key; what was there before, after) of each check
        self.kept = []  # (parameter, its gradient's memory, whether none is as good as 0)
        self.shapes = {}  # and types that have a plan -> Outcome
        self.places = [(held, name, t) for m in owner.modules for held in (m._parameters, m._buffers)
                       for name, t in held.items()]
        self.pending, self.shadowed = None, []
        self.step = wr.compile(self.trace, **owner.options)

    def is_current(self):
        """Whether every tensor stands where the plan has it, and every optimizer does what it was compiled to do."""
        if [where() for where in self.pointers] != self.expected:
            return False
        for held, name, tensor in self.places:
            if held.get(name) is not tensor:
                return False
        for slot in self.slots.all:
            if not slot.is_current():
                return False
        return True

    def watch(self, memory):
        for tensor, _ in memory.tensors.values():
            if id(tensor) not in self.watched:  # plans of other shapes have the same ones
                self.watched[id(tensor)] = tensor
                self.pointers.append(tensor.data_ptr)
                self.expected.append(tensor.data_ptr())

    def capture(self, args):
        fn, position, form, plain = self.owner.fn, [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)], None, []

        def on_tensors(capture, *tensors):
            nonlocal form, plain
            full = list(args)
            for i, t in zip(position, tensors):
                full[i] = t
            leaves, form = taken_apart(fn(*full))
            capture.leave()
            plain = [MISSING if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

        tensors = [args[i] for i in position]
        capture, left_behind = self.traced(on_tensors, tensors)
        left = capture.accumulates()
        if left:  # gradients that stay: they are torch's own from here on
            for p in left:
                p.grad = torch.zeros_like(p, memory_format=torch.contiguous_format).detach()
            capture, left_behind = self.traced(on_tensors, tensors)
        self.refuse_memories(capture, left_behind, on_tensors, tensors)
        capture.outcome = Outcome(capture.graph_module, form, plain)
        self.flags, self.left = capture.flags, [(holder, key) for holder, key, _, _ in left_behind]
        return capture

    def refuse_memories(self, capture, left_behind, fn, tensors):
        """A tensor that is read from an attribute and replaced there, or that a second call would find: a plan would not see the new one."""
        if not left_behind:
            return
        around = self.owner.around
        for mapping, key, _, _ in left_behind:
            around.forget(mapping, key)
        replaced = [(m, k, old) for m, k, old, _ in left_behind if isinstance(old, torch.Tensor)]
        fresh = [(m, k, torch.zeros(tuple(t.shape), dtype=t.dtype)) for m, k, old, t in left_behind
                 if isinstance(old, NUMBERS) or (old is MISSING and isinstance(m, dict))]
        again = capture
        if fresh and not self.shapes:
            try:
                for mapping, key, stand_in in fresh:
                    put(mapping, key, stand_in)
                again, _ = self.traced(fn, tensors)
            finally:
                for mapping, key, old, _ in left_behind:
                    put(mapping, key, old)
        for found, candidates in ((capture, replaced), (again, fresh)):
            used = {t.data_ptr() for t in _constants(found.graph_module) if t.numel()}
            for mapping, key, tensor in candidates:
                if tensor.numel() and tensor.data_ptr() in used:
                    place = around.name_of(mapping, key)
                    write = f"self.{key}.copy_(new)" if place.startswith("attribute") else "copy_(new)"
                    raise Error(f"{self.owner.__name__}: the tensor in the {place} is read and replaced in the function, which a plan would not see. "
                                f"Keep it in a buffer and write to it: {write}; or pass it as an argument and return it")

    def traced(self, fn, tensors):
        """A capture, and what it left in attributes. Puts back what torch has written meanwhile: it carries out some ops in place (p.mul_(0.9) on a parameter, a
        count of batches) although it only traces."""
        around = self.owner.around
        attributes, flags, drawn = around.snapshot(), around.flags(), _drawn()
        own = [t for m in self.owner.modules for t in (*m.parameters(False), *m.buffers(False))] + around.parameters
        if any(map(is_lazy, own)):
            raise Error(f"{self.owner.__name__}: a parameter of a lazy module has no shape yet; call the module once before")
        kept = {id(t): (t, t.detach().clone()) for t in own + [t.grad for t in own if t.grad is not None]}
        versions = {id(t): (t, t._version) for t in gc.get_objects() if issubclass(type(t), torch.Tensor) and not is_lazy(t) and not t.is_inference()}
        try:
            capture = trace(fn, tensors)
        finally:
            numbers, left_behind = around.restore(attributes)
            changed = around.restore_flags(flags)
            is_drawn = _restore_drawn(drawn)
            with torch.no_grad():
                for tensor, value in kept.values():
                    if tensor._version != versions.get(id(tensor), (None, None))[1]:
                        tensor.detach().copy_(value)
        refuse_counters(numbers)
        if is_drawn and threading.active_count() == 1:  # else another thread may have drawn
            raise Error(f"{self.owner.__name__}: draws a number from {is_drawn}, which would be fixed when the function is compiled. Draw it outside and "
                        "pass it as an argument, or draw a tensor: torch.rand(())")
        capture.flags = changed
        for tensor in _constants(capture.graph_module):
            if id(tensor) not in kept and versions.get(id(tensor), (tensor, tensor._version))[1] != tensor._version:
                raise Error(f"a tensor of shape {tuple(tensor.shape)} was written to while the function was traced and cannot be put back: "
                            "write to tensor.data, or make it a parameter or buffer of a module that the function can see")
        return capture, left_behind

    def prepare(self, args):
        """Captures before the plan is traced: the optimizers' numbers are arguments of it."""
        capture = self.capture(args)
        for optimizer, members in capture.steps:
            self.slots.of(optimizer, [p for _, p in members])
        return capture

    def trace(self, *tensors):
        count = len(tensors) - len(self.slots.all)
        capture = self.owner.captured or self.prepare(self.owner.args)
        memory = Memory(self.slots, torch.initial_seed() & 0x7FFFFFFF)
        interpreter = Interpreter(capture, memory, 0)
        interpreter.grad_enabled = torch.is_grad_enabled()
        results = interpreter.run(tensors[:count], tensors[count:])
        self.memories.append(memory)
        self.watch(memory)
        self.shadowed = [m for m in self.memories if m.shadows]
        self.assumed_none += [t for t in capture.assumed_none.values()
                              if isinstance(t, torch.nn.Parameter) and not any(t is known for known in self.assumed_none)]
        self.note_gradients(capture, memory)
        self.pending = (snapshot(memory), interpreter.randoms, capture)
        return results

    def note_gradients(self, capture, memory):
        known = {id(p) for p, _, _ in self.kept}
        kept = [(p, g, key in capture.added_to) for key, (p, g) in capture.kept.items() if memory.key(g) in memory.tensors]
        self.kept += [k for k in kept if id(k[0]) not in known]
        self.absent += [p for key, p in capture.absent.items() if not any(p is known for known in self.absent)]
        self.cleared += [p for p, _ in capture.cleared() if not any(p is known for known in self.cleared)]
        watched = self.owner.graded
        watched += [p for p in [*self.absent, *[p for p, _, adds in self.kept if not adds]] if not any(p is w for w in watched)]

    def take_away(self):
        """What torch left behind in its checks."""
        for holder, key, before, after in reversed(self.left_by_torch):
            if isinstance(holder, list):
                added = {id(item) for item in after} - {id(item) for item in before}
                holder[:] = [item for item in holder if id(item) not in added]
            elif content_of(holder, key) is after:
                put(holder, key, before)
        self.left_by_torch = []

    def set_flags(self, after=True):
        """Modules and parameters as the function leaves them (net.eval() in it), or as it found them."""
        for what, old, new in self.flags:
            setattr(what, "training" if isinstance(what, torch.nn.Module) else "requires_grad", new if after else old)

    def bring_gradients(self):
        """Gradients that the plan has, where torch has put others; whether they are such as it was compiled for."""
        for p, g, adds in self.kept:
            own = p.grad
            if own is g:
                continue
            if own is None:
                if not adds:
                    return False
                g.zero_()
            elif own.shape != g.shape or own.dtype != g.dtype:
                return False
            else:
                g.copy_(own)
            p.grad = g
        for p in self.assumed_none:
            if p.grad is not None:
                return False
        return True


def _drawn():
    """Where Python's and numpy's generators stand."""
    return random.getstate(), numpy.random.get_state(legacy=False)


def _restore_drawn(before):
    """Puts the generators back; the name of one from which something has been drawn meanwhile."""
    (python, numpys), (python_now, numpys_now) = before, _drawn()
    if python_now != python:
        random.setstate(python)
        return "random"
    if numpys_now["state"]["pos"] != numpys["state"]["pos"] or (numpys_now["state"]["key"] != numpys["state"]["key"]).any():
        numpy.random.set_state(numpys)
        return "numpy.random"
    return None


def _constants(graph_module):
    """Tensors that a trace found outside of its arguments."""
    found = [getattr(graph_module, node.target) for node in graph_module.graph.nodes if node.op == "get_attr"]
    return [t for t in found if isinstance(t, torch.Tensor)]


class Outcome:
    """What a function returned: its form, and for each leaf the number of a result, or a value that is no tensor."""

    def __init__(self, graph_module, form, plain):
        (nodes,) = [node.args[0] for node in graph_module.graph.nodes if node.op == "output"]
        self.form, self.leaves, self.dtypes = form, [], []
        for value in plain:
            if value is not MISSING:
                self.leaves.append((None, value))
                continue
            meta = nodes[len(self.dtypes)].meta.get("val")
            self.leaves.append((len(self.dtypes), None))
            self.dtypes.append(meta.dtype if isinstance(meta, torch.Tensor) else None)
        self.single = form.is_leaf() and bool(self.dtypes)

    def of(self, tensors):
        if self.single and tensors[0].dtype is self.dtypes[0]:
            return tensors[0]
        found = [t if dtype is None or t.dtype is dtype else t.to(dtype) for t, dtype in zip(tensors, self.dtypes)]
        if self.single:
            return found[0]
        return put_together([value if number is None else found[number] for number, value in self.leaves], self.form)
