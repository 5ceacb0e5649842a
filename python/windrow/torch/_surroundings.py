"""What of Python's a function sees and a trace would bake in: modules, tensors, optimizers and numbers behind the names that its code
reads, in closures, globals and objects. Objects that are replaced and numbers that change between two calls are noticed; numbers that the
function itself changes are refused, and tensors that it leaves in attributes are taken away again."""
import dis
import functools
import operator
import types

import numpy
import torch
from torch.nn.parameter import is_lazy
from torch.utils.hooks import RemovableHandle

from windrow import Error

NUMBERS = (int, float, bool, str, type(None), numpy.generic)
MOST_ITEMS = 1000  # of a container that is looked through: longer ones are memories of experience and the like
FEW_ITEMS = 64  # of a list whose items are watched one by one
_SKIPPED = (type, types.ModuleType, types.BuiltinFunctionType, torch.Tensor, torch.optim.Optimizer, torch.dtype, torch.device, *NUMBERS)


@functools.lru_cache(maxsize=4096)
def _reads(code):
    """(globals, attributes and keys) that a code object reads, those of functions inside it too."""
    names, attributes = set(), set()
    for i in dis.get_instructions(code):
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"):
            names.add(i.argval)
        elif i.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "LOAD_SUPER_ATTR"):
            attributes.add(i.argval)
    for constant in code.co_consts:
        if isinstance(constant, str):
            attributes.add(constant)
        elif isinstance(constant, tuple):  # names of keywords, for one
            attributes |= {name for name in constant if isinstance(name, str)}
        elif isinstance(constant, types.CodeType):
            inner = _reads(constant)
            names |= inner[0]
            attributes |= inner[1]
    return frozenset(names), frozenset(attributes)


def _is_torchs(cls):
    return cls.__module__.split(".")[0] == "torch"


class Surroundings:
    def __init__(self, fn, given=None, depth=2):
        self.modules, self.parameters = [], []
        self.bindings, self.cells = [], []  # (mapping, key) and cells of closures whose values are watched
        self.labels = []  # what to call them
        self.objects, self.lists = [], []  # those with attributes of their own, and dicts; lists
        self.watched_lists, self.registers = [], []  # lists behind names; what modules have registered, where names may be added
        self.optimizers = []
        self.hooks, self.handles = [], None  # dicts of hooks that are not empty, and how many handles torch had given out then
        self._functions, self._attributes, self._seen = [], set(), {}
        if given is None:
            self._visit(fn, depth)
        for module in given or ():
            self._visit(module, depth)
        while self._add_methods(depth):
            pass
        for function in self._functions:
            self._bind_names(function)
        for what in self.objects:
            self._bind_attributes(what)
        for m in self.modules:
            self._bind_children(m)
        if "param_groups" in self._attributes:
            self._bind_options()
        self.held = self.values()
        self._seen = None  # it would keep alive what is replaced

    # ---- looking round
    def _visit(self, what, left):
        stack = [(what, left)]
        while stack:
            what, left = stack.pop()
            if id(what) in self._seen:
                continue
            if isinstance(what, torch.optim.Optimizer):
                self._seen[id(what)] = what
                self.optimizers.append(what)
                stack += [(p, left) for group in what.param_groups for p in group["params"]]
            if isinstance(what, torch.Tensor) and what.is_leaf:
                self._seen[id(what)] = what
                self.parameters.append(what)
            stack += [(hook, left) for hooks in hooks_of(what) for hook in hooks.values()]
            if isinstance(what, _SKIPPED):
                continue
            self._seen[id(what)] = what
            if type(what).__module__.split(".")[0] == "windrow":  # another compiled function
                stack.append((getattr(what, "__wrapped__", None), left))
                continue
            if isinstance(what, (list, tuple, set, dict)) and len(what) > MOST_ITEMS:
                continue
            if isinstance(what, torch.nn.Module):
                self._visit_modules(what, left)
            elif isinstance(what, types.MethodType):
                stack += [(what.__func__, left), (what.__self__, left)]
            elif isinstance(what, types.FunctionType):
                stack += [(v, left) for v in self._visit_function(what)]
            elif isinstance(what, functools.partial):
                stack += [(what.func, left), (what.args, left), (what.keywords, left)]
            elif isinstance(what, (list, tuple, set)):
                self.lists += [what] if type(what) is list else []
                stack += [(v, left) for v in what]
            elif isinstance(what, dict):
                self.objects.append(what)
                stack += [(v, left) for v in what.values()]
            elif left and hasattr(what, "__dict__") and not _is_torchs(type(what)):
                self.objects.append(what)
                stack += [(v, left - 1) for v in vars(what).values()]
                call = getattr(type(what), "__call__", None)
                stack += [(call, left)] if isinstance(call, types.FunctionType) else []

    def _visit_modules(self, root, left):
        for m in root.modules():
            if m is root or id(m) not in self._seen:
                self._seen[id(m)] = m
                if isinstance(m, torch.jit.ScriptModule):
                    raise Error("a module of torch.jit is not supported: give Windrow the module itself, without torch.jit.script or trace")
                self.modules.append(m)
                self.objects.append(m)
                for p in m._parameters.values():
                    self._visit(p, left)
                for hooks in hooks_of(m):
                    for hook in hooks.values():
                        self._visit(hook, left)
                if not _is_torchs(type(m)):
                    self._visit(type(m).forward, left)
                    for name, value in vars(m).items():
                        if not name.startswith("_") or isinstance(value, (types.FunctionType, types.MethodType)):
                            self._visit(value, left)

    def _visit_function(self, function):
        if function.__module__ and function.__module__.split(".")[0] in ("torch", "numpy", "windrow"):
            return list(getattr(function, "uses", ()))  # compile_step's
        self._functions.append(function)
        names, attributes = _reads(function.__code__)
        self._attributes |= attributes
        found = [function.__globals__[n] for n in names if n in function.__globals__]
        found += [_contents(c) for c in function.__closure__ or ()]
        return [*found, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *getattr(function, "uses", ())]

    def _add_methods(self, depth):
        """Methods by the names that are read, of the objects that were found; whether there are new ones."""
        before = len(self._functions)
        for what in list(self.objects):
            if isinstance(what, dict) or _is_torchs(type(what)):
                continue
            for cls in type(what).__mro__:
                if _is_torchs(cls):
                    continue
                for name, value in vars(cls).items():
                    value = value.fget if isinstance(value, property) else value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
                    value = getattr(value, "__wrapped__", value) if type(value).__module__.split(".")[0] == "windrow" else value
                    if name in self._attributes and isinstance(value, types.FunctionType):
                        self._visit(value, depth)
        return len(self._functions) > before

    # ---- what is watched
    def _bind(self, mapping, key, label):
        self.bindings.append((mapping, key))
        self.labels.append(label)
        self._watch_items(mapping.get(key))

    def _watch_items(self, value):
        if type(value) is list and len(value) <= FEW_ITEMS and not any(value is known for known in self.watched_lists):
            self.watched_lists.append(value)

    def _bind_children(self, module):
        """Layers that are replaced or added, and parameters that are registered later."""
        for name in module._modules:
            self._bind(module._modules, name, f"{type(module).__name__}.{name}")
        self.registers += [held for held in (module._modules, module._parameters, module._buffers) if held or not _is_torchs(type(module))]

    def _bind_options(self):
        """Numbers of optimizers that the function itself reads by their names: what it makes of them is part of the plan."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for key in group:
                    if key in self._attributes and key != "params":
                        self._bind(group, key, f"{type(optimizer).__name__}.{key}")

    def _bind_names(self, function):
        names, _ = _reads(function.__code__)
        for name in sorted(names):
            value = function.__globals__.get(name, self)
            if value is not self and _is_watched(value):
                self._bind(function.__globals__, name, name)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if _is_watched(_contents(cell)) and not any(cell is c for c in self.cells):
                self.cells.append(cell)
                self._watch_items(_contents(cell))

    def _bind_attributes(self, what):
        mapping, name = (what, "") if isinstance(what, dict) else (vars(what), type(what).__name__ + ".")
        own = isinstance(what, torch.nn.Module) and _is_torchs(type(what))
        for key, value in mapping.items():
            if not isinstance(key, str) or key == "training" or key.startswith("__"):
                continue
            if own and not (key in ("p", "momentum", "eps") and isinstance(value, float)):
                continue  # its sizes do not change
            if (own or key in self._attributes) and _is_watched(value):
                self._bind(mapping, key, name + key)

    def forget(self, mapping, key):
        """An attribute, variable or item that the function itself replaces is not watched."""
        if not isinstance(mapping, dict):
            self.cells = [c for c in self.cells if c is not mapping]
            self.watched_lists = [items for items in self.watched_lists if items is not mapping]
            self.held = self.values()
            return
        kept = [i for i, (m, k) in enumerate(self.bindings) if m is not mapping or k != key]
        if len(kept) < len(self.bindings):
            count = len(self.bindings)
            self.held = [self.held[i] for i in kept] + self.held[count:]
            self.bindings, self.labels = [self.bindings[i] for i in kept], [self.labels[i] for i in kept]

    def copies(self):
        return [list(items) for items in self.watched_lists]

    def forget_changed(self, copies):
        """Lists that the function itself adds to are not watched."""
        kept = [items for items, before in zip(self.watched_lists, copies) if len(items) == len(before) and all(map(operator.is_, items, before))]
        if len(kept) < len(self.watched_lists):
            self.watched_lists = kept
            self.held = self.values()

    def values(self):
        found = [mapping.get(key) for mapping, key in self.bindings] + [_contents(c) for c in self.cells]
        for items in self.watched_lists:
            found += items if len(items) <= FEW_ITEMS else [items]
        found.append(sum(map(len, self.registers)) + self._hooked())
        return found

    def _hooked(self):
        """A number that changes where hooks of modules, parameters and optimizers come or go. torch gives a handle for each that comes."""
        if self.handles != RemovableHandle.next_id:
            self.handles = RemovableHandle.next_id
            self.hooks = [hooks for what in [*self.modules, *self.parameters, *self.optimizers] for hooks in hooks_of(what)]
        return sum([(1 + hash(key)) << 20 for hooks in self.hooks for key in hooks])

    def has_changed(self, values, before):
        """Whether other objects stand where some stood; numbers are part of the key and may differ."""
        if len(values) != len(before) or values[-1] != before[-1]:
            return True
        return any(a is not b and not (isinstance(a, NUMBERS) and isinstance(b, NUMBERS)) for a, b in zip(values, before))

    @staticmethod
    def numbers(values):
        return tuple([v for v in values if isinstance(v, NUMBERS)])

    @staticmethod
    def same(values, before):
        if len(values) != len(before):
            return False
        return all(map(operator.is_, values, before)) or all(
            [a is b or (type(a) is type(b) and isinstance(a, NUMBERS) and a == b) for a, b in zip(values, before)])

    def as_tuples(self, values):
        """What `values` looks at and what was there: attributes, items of dicts, lists and lengths; None where it is something else."""
        items = [(mapping, key, value) for (mapping, key), value in zip(self.bindings, values)]
        attributes = [(cell, "cell_contents", value) for cell, value in zip(self.cells, values[len(items):])]
        attributes.append((RemovableHandle, "next_id", self.handles))
        if any(not isinstance(mapping, dict) for mapping, _, _ in items) or any(len(held) > FEW_ITEMS for held in self.watched_lists):
            return None
        return attributes, items, [(held, tuple(held)) for held in self.watched_lists], [(held, len(held)) for held in [*self.registers, *self.hooks]]

    # ---- before and after a trace
    def snapshot(self):
        def copied(v):
            return list(v) if type(v) is list else dict(v) if type(v) is dict else None

        objects = []
        for what in self.objects:
            mapping = what if isinstance(what, dict) else vars(what)
            objects.append((what, mapping, dict(mapping), {k: copied(v) for k, v in mapping.items() if type(v) in (list, dict) and len(v) <= MOST_ITEMS}))
        return self.values(), objects, [(what, list(what)) for what in self.lists]

    def restore(self, snapshot):
        """Puts attributes back as they were; gives the numbers that had changed, as (name, before, after), and the tensors that had been left
        there, as (mapping, list or cell; key; what was there before or `MISSING`; tensor)."""
        values, objects, lists = snapshot
        numbers, tensors = [], []
        for (mapping, key), old, label in zip(self.bindings, values, self.labels):
            new = mapping.get(key)
            if new is not old and isinstance(new, NUMBERS) and isinstance(old, NUMBERS) and new != old:
                numbers.append((label, old, new))
                mapping[key] = old
            elif _is_traced(new) and any(mapping is group for optimizer in self.optimizers for group in optimizer.param_groups):
                numbers.append((label, old, "a tensor"))
                mapping[key] = old
            elif _is_traced(new):
                tensors.append((mapping, key, old, new))
                mapping[key] = old
        for cell, old in zip(self.cells, values[len(self.bindings):]):
            new = _contents(cell)
            if new is not old and isinstance(new, NUMBERS) and isinstance(old, NUMBERS) and new != old:
                numbers.append((_name_of(cell, self._functions), old, new))
                cell.cell_contents = old
            elif _is_traced(new):
                tensors.append((cell, "cell_contents", old, new))
                cell.cell_contents = old
        for what, mapping, before, containers in objects:
            for key in [k for k in mapping if k not in before or mapping[k] is not before[k]]:
                new, old = mapping[key], before.get(key, MISSING)
                if isinstance(new, torch.Tensor):
                    tensors.append((mapping, key, old, new))
                elif isinstance(new, (int, float, str)) and isinstance(old, NUMBERS) and new != old and key != "training":
                    numbers.append((key if mapping is what else f"{type(what).__name__}.{key}", old, new))
                else:
                    continue
                put(mapping, key, old)
            for key, old in containers.items():
                now = mapping.get(key)
                if type(now) is type(old) and now is before.get(key) and _holds_traced(now):
                    now.clear()
                    (now.extend if isinstance(now, list) else now.update)(old)
        for what, before in lists:
            if _holds_traced(what):
                tensors += [(what, i, before[i] if i < len(before) else MISSING, v) for i, v in enumerate(what) if _is_traced(v)]
                what[:] = before
        return numbers, tensors

    def flags(self):
        return [(m, m.training) for m in self.modules] + [(p, p.requires_grad) for p in self.parameters]

    @staticmethod
    def restore_flags(before):
        """Puts them back; gives those that had changed, as (module or parameter, before, after)."""
        changed = []
        for what, old in before:
            name = "training" if isinstance(what, torch.nn.Module) else "requires_grad"
            if (new := getattr(what, name)) is not old:
                changed.append((what, old, new))
                setattr(what, name, old)
        return changed

    def name_of(self, holder, key=None):
        """What to call the place of a tensor in a message."""
        if isinstance(holder, types.CellType):
            return f"variable {_name_of(holder, self._functions)}"
        if isinstance(holder, list):
            return "list" if key is None else f"item {key} of a list"
        owner = next((type(what).__name__ for what in self.objects if not isinstance(what, dict) and vars(what) is holder), None)
        if owner is None and any(holder is function.__globals__ for function in self._functions):
            return f"variable {key}"
        return f"item {key!r} of a dict" if owner is None else f"attribute {key}"


MISSING = object()


def put(holder, key, value):
    if isinstance(holder, types.CellType):
        holder.cell_contents = value
    elif value is not MISSING:
        holder[key] = value
    elif isinstance(holder, dict):
        holder.pop(key, None)


def content_of(holder, key):
    if isinstance(holder, list):
        return list(holder)
    return _contents(holder) if isinstance(holder, types.CellType) else holder.get(key, MISSING)


def hooks_of(what):
    """Dicts of the hooks that a module, a parameter or an optimizer has."""
    if isinstance(what, torch.nn.Module):
        found = (what._forward_pre_hooks, what._forward_hooks, what._backward_pre_hooks, what._backward_hooks)
    elif isinstance(what, torch.optim.Optimizer):
        found = (what._optimizer_step_pre_hooks, what._optimizer_step_post_hooks)
    elif isinstance(what, torch.Tensor) and not is_lazy(what):
        found = (what._backward_hooks, what._post_accumulate_grad_hooks)
    else:
        return []
    return [hooks for hooks in found if hooks]


def refuse_counters(numbers):
    if numbers:
        name, old, new = numbers[0]
        if hasattr(torch.optim, name.split(".")[0]):
            raise Error(f"{name} changes in the function, from {old} to {new}, which would happen once, when it is compiled. Set it outside, before the "
                        "call: what stands in param_groups is read at every call")
        raise Error(f"{name} changes in the function, from {old} to {new}: a number of Python's is fixed when the function is compiled. Keep it "
                    "in a buffer, or pass it as an argument")


def _contents(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _name_of(cell, functions):
    for function in functions:
        for name, c in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if c is cell:
                return name
    return "a variable"


def _is_watched(value):
    return not isinstance(value, (type, types.ModuleType))


def _holds_traced(container):
    values = container.values() if isinstance(container, dict) else container
    return any(map(_is_traced, values))


def _is_traced(value):
    return isinstance(value, torch._subclasses.FakeTensor)
