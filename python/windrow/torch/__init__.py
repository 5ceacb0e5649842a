"""PyTorch programs as they are: an update function, with its backward passes and optimizer steps, as one plan.

    import windrow as wr

    @wr.torch.compile
    def update(x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    act = wr.torch.compile(lambda x: model(x).argmax(1))
    step = wr.torch.compile_step(model, loss_fn, optimizer)       # the simple case: step(x, y) -> loss

Parameters, buffers and moments stay torch's: both see the same memory. Learning rates and other numbers of optimizers are
read at every call. The first call of each shape is checked against torch itself.
"""
import threading
import types
import warnings

import torch
from torch._C import _is_any_autocast_enabled

import windrow as wr
from windrow import Error

from ._check import check_against_eager, snapshot
from ._entry import Entry
from ._forms import is_taken_apart, put_together, taken_apart
from ._known import Known
from ._modules import from_module, to_module
from ._ops import TABLE, dtype_of
from ._surroundings import NUMBERS, Surroundings, content_of
from ._trace import is_tracing
from ._views import SEVERAL, VIEWS

__all__ = ["compile", "compile_step", "from_module", "supported_ops", "to_module"]


_tracing = threading.RLock()  # torch traces one function at a time
_PLAIN = (torch.dtype, torch.device, torch.Size, torch.Generator)
MANY_ENTRIES, MOST_ENTRIES = 9, 64  # of one function: when to say so, and how many are kept


def supported_ops():
    """The names of the ATen ops that a compiled function may use."""
    return sorted({n.split(".")[0] for n in TABLE} | set(VIEWS) | set(SEVERAL) | {"copy_", "zero_", "fill_"})


def compile(fn=None, *, check=True, modules=None, threads=0, lanes=0, name=None, profile=False):  # noqa: A001
    """Compiles a function of torch tensors: a model, a policy, or a whole update with backward() and optimizer steps.

    check    the first call of each shape, and one more, is compared with torch, on the same inputs and copies of all that it changes
    modules  those whose training flags, parameters and numbers are watched; by default all that the function can see, and all modules, tensors,
             optimizers and numbers behind the names that it reads
    threads, lanes, name, profile   as for windrow.compile

    Tensors among the arguments, also in lists, tuples and dicts, are arguments of the plan; everything else (numbers, strings,
    None) is part of it. The result is what the function returns, with fresh tensors.
    """
    if fn is None:
        return lambda f: compile(f, check=check, modules=modules, threads=threads, lanes=lanes, name=name, profile=profile)
    if isinstance(fn, type) or not callable(fn):
        raise Error("torch.compile: takes a function or a module")
    options = {"threads": threads, "lanes": lanes, "profile": profile}
    options["name"] = name or getattr(fn, "__name__", type(fn).__name__)
    return Compiled(fn, modules, check, options)


def compile_step(model, loss_fn, optimizer, **options):
    """step(*inputs, target) -> loss: loss_fn(model(*inputs), target), its gradients and the optimizer's update."""

    def step(*args):
        loss = loss_fn(model(*args[:-1]), args[-1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step.uses = (model, loss_fn, optimizer)
    return compile(step, **options)


def is_object(what):
    """Whether an argument is one whose attributes a function reads: a module, an optimizer, settings, another function."""
    return hasattr(what, "__dict__") and not isinstance(what, (torch.Tensor, type, *_PLAIN)) and not is_taken_apart(what)


class Compiled:
    """What compile() gives: called as the function is."""

    def __init__(self, fn, given, check, options, around=None):
        self.fn, self.given, self.check, self.options = fn, given, check, options
        self.around = around  # looked for at the first call: names may be defined later than the function
        self.has_warned = False  # of tensors that are left behind
        self.replaced = 0  # how often an object behind a name was another one
        self.entries = {}
        self.graded = []  # parameters of which it matters whether they have a gradient
        self.nested = {}  # for arguments in containers, by keyword, and objects: the same function of their leaves
        self.args = self.captured = self.last = self.known = None
        self.__name__ = options["name"]
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def __call__(self, *args, **keywords):
        known = self.known
        if known is not None and known.checks is not None and not keywords:
            self.last = known.entry
            found = known.repeat(args, *known.checks)  # nothing, if any thread traces
            if found is not None:
                return self.run(known.entry, args, known.outcome) if found is True else known.outcome.of(found)
        if is_tracing():
            return self.fn(*args, **keywords)
        if known is not None and not keywords:
            self.last = known.entry
            if not known.entry.kept and known.fits(args) and known.entry.bring_gradients():
                result = self.run(known.entry, args, known.outcome)
                known.refresh(args)
                return result
        return self.call(args, keywords)

    def call(self, args, keywords):
        """Any call; the one above is for arguments that are as they were the last time."""
        if _is_any_autocast_enabled():
            raise Error(f"{self.__name__}: is called under autocast, which is not supported: Windrow computes in the parameters' own type")
        static = tuple([None if isinstance(a, torch.Tensor) else a for a in args])
        values = self.look_round()
        if keywords or any([not isinstance(a, NUMBERS) and (is_object(a) or is_taken_apart(a)) for a in static]):
            return self.on_leaves(args, keywords)
        key = self.key(static, values)
        try:
            entry = self.entries.get(key)
        except TypeError:
            self.refuse_unhashable(static)
            raise
        if entry is None or not entry.is_current():
            entry = self.entry(key, static)
        if not entry.bring_gradients():
            entry = self.entry(key, static)
        tensors = [a.detach() if a.requires_grad else a for a in args if isinstance(a, torch.Tensor)]
        shape = tuple([(t.shape, t.dtype) for t in tensors])
        self.last = entry
        outcome = entry.shapes.get(shape)
        if outcome is None:
            with _tracing:
                outcome = entry.shapes.get(shape)  # another thread may have been quicker
                if outcome is None:
                    return self.first(entry, shape, args, tensors)
        if entry.again:
            return self.run_checked(entry, args, tensors, outcome)
        self.known = Known(entry, self.around, values, args, outcome, self.graded) if all(a is None for a in static) else None
        return self.run(entry, tensors, outcome)

    def key(self, static, values):
        around = self.around
        return (static, torch.is_grad_enabled(), around.numbers(values), tuple([m.training for m in around.modules]),
                tuple([p.requires_grad for p in around.parameters]), tuple([p.grad is None for p in self.graded]))

    @property
    def modules(self):
        return self.around.modules if self.around is not None else []

    def look_round(self):
        """The values behind the names that the function reads. Where other objects stand there, nothing that was compiled holds any longer."""
        around = self.around
        if around is None:
            self.around = around = Surroundings(self.fn, self.given)
            return around.held
        values = around.values()
        if around.has_changed(values, around.held):
            self.replaced += 1
            if self.replaced == MANY_ENTRIES:
                changed = next(a for a, new, old in zip(around.labels + ["a variable"] * len(values), values, around.held) if new is not old)
                warnings.warn(f"{self.__name__}: is compiled for the {MANY_ENTRIES}th time, as {changed} is another object than before: pass it as an "
                              "argument, or copy into the one that is there", stacklevel=4)
            self.around = around = Surroundings(self.fn, self.given)
            self.entries.clear()
            self.nested.clear()
            return around.held
        return values

    def on_leaves(self, args, keywords):
        """The call as one of a function of the leaves of its containers. Objects among them (modules, optimizers, settings) are not its
        arguments: they are looked at as those behind names are."""
        leaves, form = taken_apart((args, keywords))
        objects = {i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, NUMBERS) and is_object(leaf)}
        key, count = (form, tuple([(i, id(o)) for i, o in objects.items()])), len(leaves)
        if key not in self.nested:
            def fn(*flat, _fn=self.fn):
                rest = iter(flat)
                positional, named = put_together([objects[i] if i in objects else next(rest) for i in range(count)], form)
                return _fn(*positional, **named)

            if len(self.nested) >= MOST_ENTRIES:
                del self.nested[next(iter(self.nested))]
            fn.uses = (self.fn, *objects.values())
            given = self.given if self.given is None else [*self.given, *objects.values()]
            self.nested[key] = Compiled(fn, given, self.check, self.options, None if objects else self.around)
        inner = self.nested[key]
        result = inner(*[leaf for i, leaf in enumerate(leaves) if i not in objects])
        self.last = inner.last
        return result

    def refuse_unhashable(self, static):
        for i, a in enumerate(static):
            if type(a).__hash__ is None:
                hint = "torch.from_numpy() makes it a tensor" if type(a).__module__ == "numpy" else "pass what it holds"
                raise Error(f"{self.__name__}: argument {i} is a {type(a).__name__}, which can be neither an argument of a plan nor part of one; "
                            f"{hint}") from None

    def entry(self, key, static):
        """A new entry; the oldest goes where there are many."""
        if key not in self.entries and len(self.entries) + 1 == MANY_ENTRIES:
            warnings.warn(f"{self.__name__}: is compiled for the {MANY_ENTRIES}th set of arguments that are no tensors. They are part of the "
                          "plan, as are numbers that the function reads from param_groups; numbers that change are better passed as tensors: "
                          "torch.tensor(value)", stacklevel=3)
        if key not in self.entries and len(self.entries) >= MOST_ENTRIES:
            del self.entries[next(iter(self.entries))]
        found = self.entries[key] = Entry(self, static)
        return found

    def first(self, entry, shape, args, tensors):
        for a in tensors:
            if a.device.type != "cpu":
                raise Error(f"{self.__name__}: an argument is on {a.device}; Windrow computes on the CPU: .cpu()")
            if a.layout != torch.strided:
                raise Error(f"{self.__name__}: sparse tensors are not supported")
            dtype_of(a.dtype)
        self.args = args
        self.captured = entry.prepare(args)
        outcome = self.captured.outcome
        try:
            result = self.run(entry, tensors, outcome)
        finally:
            self.args = self.captured = None
        if entry.pending is not None:  # int32 and int64 share a plan
            (before, randoms, capture), entry.pending = entry.pending, None
            if self.check and not randoms:
                lists = self.around.copies()
                self.check_with_torch(args, result, before, entry, is_last=bool(entry.shapes))
                self.around.forget_changed(lists)
                entry.again = not entry.shapes  # what Python keeps from call to call shows in a second one
            self.warn_of_what_is_left(entry)
        if not entry.shapes and isinstance(self.fn, torch.nn.Module) and self.fn.training and torch.is_grad_enabled():
            warnings.warn(f"{self.__name__}: what a compiled module gives has no gradients to go back through. To train, compile the whole update: "
                          "windrow.torch.compile_step(model, loss_fn, optimizer); to use it, model.eval() or torch.no_grad()", stacklevel=4)
        if not entry.shapes:  # what is watched may have become less
            self.entries = {k: e for k, e in self.entries.items() if e is not entry} | {self.key(entry.static, self.around.values()): entry}
        entry.shapes[shape] = outcome
        return result

    def run_checked(self, entry, args, tensors, outcome):
        entry.again = False
        with _tracing:
            before = [pair for memory in entry.memories for pair in snapshot(memory)]
            result = self.run(entry, tensors, outcome)
            self.check_with_torch(args, result, before, entry, is_last=True)
        return result

    def check_with_torch(self, args, result, before, entry, is_last):
        """What the function leaves behind is taken away after the last check: it would be of that call, and later ones leave nothing."""
        entry.set_flags(after=False)
        found = [(holder, key, content_of(holder, key)) for holder, key in entry.left]
        try:
            check_against_eager(self, args, result, before, entry)
        finally:
            entry.set_flags()
            entry.left_by_torch += [(*place, content_of(*place[:2])) for place in found]
            if is_last:
                entry.take_away()

    def warn_of_what_is_left(self, entry):
        if entry.left and not self.has_warned:
            self.has_warned = True
            holder, key = entry.left[0]
            place = self.around.name_of(holder, None if isinstance(holder, list) else key)
            warnings.warn(f"{self.__name__}: the function leaves a tensor in the {place}, which a compiled one does not. Return it, if it is to be seen "
                          "outside", stacklevel=5)

    def run(self, entry, tensors, outcome):
        for memory in entry.shadowed:
            memory.load_shadows()
        arrays = entry.step(*tensors, *[slot.numbers for slot in entry.slots.all])
        for memory in entry.shadowed:
            memory.store_shadows()
        for p in entry.cleared:
            p.grad = None
        entry.set_flags()
        return outcome.of([torch.from_numpy(array.numpy()) for array in arrays])

    def __get__(self, owner, cls=None):
        """As a method: a function of its own for each object, which is found in it."""
        if owner is None:
            return self
        name = f"_compiled_{self.__name__}"
        found = getattr(owner, "__dict__", {}).get(name)
        if not isinstance(found, Compiled) or found.fn.__self__ is not owner:
            if not hasattr(owner, "__dict__"):
                raise Error(f"{self.__name__}: a {type(owner).__name__} has no __dict__ to keep its plans in; compile the bound method")
            found = vars(owner)[name] = Compiled(types.MethodType(self.fn, owner), self.given, self.check, self.options)
        return found

    def __getattr__(self, name):
        """A compiled module has the attributes of the module itself: parameters(), eval(), state_dict()."""
        fn = self.__dict__.get("fn")
        if isinstance(fn, torch.nn.Module) and not name.startswith("__"):
            return getattr(fn, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __reduce__(self):
        """Copied and pickled without its plans; as a method it is the one of the copy."""
        owner, name = getattr(self.fn, "__self__", None), getattr(self.fn, "__name__", "")
        if owner is not None and isinstance(getattr(type(owner), name, None), Compiled):
            return getattr, (owner, name)
        return Compiled, (self.fn, self.given, self.check, self.options)

    @property
    def plans(self):
        return sum(e.step.plans for e in self.entries.values()) + sum(n.plans for n in self.nested.values())

    def _step(self):
        if self.last is None:
            raise Error(f"{self.__name__}: has no plan yet; call it once")
        return self.last.step

    def describe(self):
        """The plan of the last call, for people."""
        return self._step().describe()

    def profile(self, *on):
        """profile(True) begins, profile() gives what was found."""
        return self._step().profile(*on)

    def __repr__(self):
        return f"<windrow.torch.Compiled {self.__name__}, {self.plans} plans>"
