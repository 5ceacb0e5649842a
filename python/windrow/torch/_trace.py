"""The user's update function as one graph of ATen ops, before autograd: make_fx over fake tensors, with backward(),
autograd.grad() and optimizer.step() recorded as marker ops. What tracing would get silently wrong is refused here."""
import contextlib
import gc
import inspect
import logging
import os
import sys
import threading
import warnings

import torch
import torch.utils.checkpoint
from torch._subclasses import fake_tensor
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import make_fx
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from windrow import Error
from windrow._core import _count_traces

from . import _custom, _optim

_library = torch.library.Library("windrow", "DEF")
_library.define("backward(Tensor loss, Tensor? gradient, Tensor[] leaves) -> Tensor[]")
_library.define("grad(Tensor[] outputs, Tensor?[] gradients, Tensor[] inputs, bool create_graph) -> Tensor[]")
_library.define("step(int which, Tensor[] parameters, Tensor[] gradients) -> ()")
_library.impl("backward", lambda loss, gradient, leaves: [torch.empty_like(x) for x in leaves], "CompositeExplicitAutograd")
_library.impl("step", lambda which, parameters, gradients: None, "CompositeExplicitAutograd")


def _grad_marker(outputs, gradients, inputs, create_graph):
    return [torch.empty_like(x) for x in inputs]


_library.impl("grad", _grad_marker, "CompositeExplicitAutograd")

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_line():
    """(file, line) of the innermost frame that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_TORCH, _OWN)) and not name.startswith("<"):
            return name, frame.f_lineno
        frame = frame.f_back
    return "python", 0


def refuse(message):
    file, line = user_line()
    raise Error(f"{os.path.basename(file)}:{line}: {message}")


def functions_of(tensors):
    """All that autograd would go back through."""
    seen, stack = {}, [t.grad_fn for t in tensors]
    while stack:
        function = stack.pop()
        if function is None or function in seen:
            continue
        seen[function] = None
        stack.extend(f for f, _ in function.next_functions)
    return seen


def leaves_of(tensor):
    """Tensors that autograd would give a gradient to."""
    return [f.variable for f in functions_of([tensor]) if hasattr(f, "variable")]


def is_reached(tensor, functions):
    if tensor.grad_fn is not None:
        return tensor.grad_fn in functions
    return any(f.variable is tensor for f in functions if hasattr(f, "variable"))


class Capture:
    """One trace: the graph, the optimizers it steps and the gradients as they stand while it is made."""

    def __init__(self):
        self.steps = []  # (optimizer, [(group number, parameter)])
        self.grads = {}  # id -> (tensor, gradient or None): what this trace has set
        self.assumed_none = {}  # parameters whose gradient was taken to be None at the start
        self.kept = {}  # id -> (parameter, its own gradient tensor)
        self.added_to = set()  # of those: whose gradient is added to before anything else is done with it, so that none is as good as 0
        self.stepped = set()  # ids of parameters that an optimizer has stepped
        self.absent = {}  # id -> parameter that was found to have no gradient
        self.flags = []
        self.graph_module = self.outcome = None

    # ---- gradients
    def get_grad(self, tensor):
        if id(tensor) in self.grads:
            return self.grads[id(tensor)][1]
        real = _real_grad(tensor)
        if real is not None:
            self.kept[id(tensor)] = (tensor, real)
            self.grads[id(tensor)] = (tensor, real)
        return real

    def find_grad(self, tensor):
        """A gradient whose absence makes a difference."""
        found = self.get_grad(tensor)
        if found is None and id(tensor) not in self.grads and isinstance(tensor, torch.nn.Parameter):
            self.absent[id(tensor)] = tensor
        return found

    def read_grad(self, tensor):
        """tensor.grad, in the user's code or in torch's that works for it; not where torch makes a tensor's stand-in."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename == __file__:
            frame = frame.f_back
        return self.get_grad(tensor) if "_subclasses" in frame.f_code.co_filename else self.find_grad(tensor)

    def set_grad(self, tensor, value):
        self.grads[id(tensor)] = (tensor, value)

    def accumulate(self, leaf, gradient):
        known = id(leaf) in self.grads
        before = self.get_grad(leaf)
        if before is not None and not known:
            self.added_to.add(id(leaf))
        if id(leaf) not in self.grads:
            self.assumed_none[id(leaf)] = leaf
        if before is None:
            self.set_grad(leaf, gradient)
        elif id(leaf) in self.kept and before is self.kept[id(leaf)][1]:
            with torch.no_grad():
                before.add_(gradient)
        else:
            self.set_grad(leaf, before + gradient)

    def backward(self, loss, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        if create_graph:
            refuse("backward(create_graph=True) is not supported; use torch.autograd.grad(..., create_graph=True)")
        if loss.numel() != 1 and gradient is None:
            refuse("backward: the loss has more than one element; give gradient=, or reduce it")
        leaves = list(inputs) if inputs is not None else leaves_of(loss)
        if not leaves and not loss.requires_grad:
            refuse("backward: the loss depends on no tensor that requires a gradient")
        # the markers' results are gradients and must not themselves require one
        with torch.no_grad():
            gradients = torch.ops.windrow.backward(loss, gradient, leaves)
            for leaf, g in zip(leaves, gradients):
                self.accumulate(leaf, _through_hooks(leaf, g))
        for leaf in leaves:
            for hook in (leaf._post_accumulate_grad_hooks or {}).values():
                hook(leaf)

    def autograd_backward(self, tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        gradients = [grad_tensors] if isinstance(grad_tensors, torch.Tensor) else list(grad_tensors or [None] * len(tensors))
        for loss, gradient in zip(tensors, gradients):
            self.backward(loss, gradient, retain_graph, create_graph, [inputs] if isinstance(inputs, torch.Tensor) else inputs)

    def autograd_grad(self, outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
                      allow_unused=None, is_grads_batched=False, materialize_grads=False):
        single = isinstance(inputs, torch.Tensor)
        outputs = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
        inputs = [inputs] if single else list(inputs)
        gradients = [grad_outputs] if isinstance(grad_outputs, torch.Tensor) else list(grad_outputs or [None] * len(outputs))
        if is_grads_batched:
            refuse("autograd.grad(is_grads_batched=True) is not supported")
        reached = functions_of(outputs)
        used = [x for x in inputs if is_reached(x, reached)]
        if len(used) < len(inputs) and not (allow_unused or materialize_grads):
            refuse("autograd.grad: an input is not used by the outputs; allow_unused=True gives None for it")
        with torch.enable_grad() if create_graph else torch.no_grad():
            found = torch.ops.windrow.grad(outputs, gradients, used, bool(create_graph)) if used else []
            found = iter([_through_hooks(x, g) if x.is_leaf else g for x, g in zip(used, found)])
        missing = torch.zeros_like if materialize_grads else lambda x: None
        return tuple([next(found) if is_reached(x, reached) else missing(x) for x in inputs])

    def step(self, optimizer, closure=None):
        try:
            _optim.rule_of(optimizer)
        except Error as error:
            refuse(str(error))
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for hook in (*_global_optimizer_pre_hooks.values(), *optimizer._optimizer_step_pre_hooks.values()):
            if hook(optimizer, (optimizer,), {}) is not None:
                refuse("a hook before an optimizer's step that gives other arguments is not supported")
        members = [(i, p) for i, group in enumerate(optimizer.param_groups) for p in group["params"]]
        members = [(i, p, self.find_grad(p)) for i, p in members]
        members = [m for m in members if m[2] is not None]
        if not members:
            refuse(f"{type(optimizer).__name__}.step(): no parameter has a gradient; call backward() before")
        self.steps.append((optimizer, [(i, p) for i, p, _ in members]))
        with torch.no_grad():
            torch.ops.windrow.step(len(self.steps) - 1, [p for _, p, _ in members], [g for _, _, g in members])
        self.stepped |= {id(p) for _, p, _ in members}
        for hook in (*optimizer._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
            hook(optimizer, (optimizer,), {})
        return loss

    def accumulates(self):
        """Parameters that end with a gradient, which was there from no call before: it is kept from here on. One of a parameter that was cleared
        and stepped is not: the next call clears it."""
        return [t for key, (t, g) in self.grads.items() if g is not None and key not in self.kept and _real_grad(t) is None
                and not isinstance(t, fake_tensor.FakeTensor) and (key in self.assumed_none or key not in self.stepped)]

    def leave(self):
        """Writes gradients that stay where torch has them: those that were cleared and computed anew."""
        for key, (t, g) in list(self.grads.items()):
            own = self.kept[key][1] if key in self.kept else _real_grad(t)
            if g is None or own is None or g is own or (key not in self.kept and key in self.stepped):
                continue
            if key not in self.kept:
                self.added_to.add(key)
            self.kept[key] = (t, own)
            with torch.no_grad():
                own.copy_(g)
            self.grads[key] = (t, own)

    def clear_grads(self, parameters):
        for p in parameters:
            self.set_grad(p, None)

    def cleared(self):
        """Gradients from before that the function ends by clearing."""
        return [(p, g) for key, (p, g) in self.kept.items() if self.grads[key][1] is not g]


def _through_hooks(leaf, gradient):
    """What hooks of a parameter, which were there before the trace, make of its gradient."""
    for hook in (leaf._backward_hooks or {}).values():
        found = hook(gradient)
        gradient = gradient if found is None else found
    return gradient


_grad_slot = torch._C.TensorBase.grad


def _real_grad(tensor):
    with torch._C.DisableTorchFunction():  # a trace's own mode would ask what is patched
        return _grad_slot.__get__(tensor)


def _classes_with_steps(base):
    found, stack = [], [base]
    while stack:
        cls = stack.pop()
        stack.extend(cls.__subclasses__())
        if "step" in vars(cls):
            found.append(cls)
    return found


def _wrapped_optimizers():
    """Schedulers give an optimizer a step() of its own, which hides the class's."""
    return [o for o in gc.get_objects() if issubclass(type(o), torch.optim.Optimizer) and "step" in vars(o)]


def _refuse_call(what):
    def call(*args, **kwargs):
        refuse(what)

    return call


def _unless_disabled(context, _original=torch.autocast.__enter__):
    if context._enabled:
        refuse("autocast is not supported: Windrow computes in the parameters' own type")
    return _original(context)


def _in_this_thread(new, old):
    """`new` for the thread that traces, `old` for all others: they may be computing with torch meanwhile."""
    thread = threading.get_ident()
    here = lambda: threading.get_ident() == thread  # noqa: E731
    if isinstance(new, property):
        return property(lambda t: new.fget(t) if here() else old.__get__(t), lambda t, value: new.fset(t, value) if here() else old.__set__(t, value))
    if isinstance(new, classmethod):
        return classmethod(lambda cls, *a, **k: (new if here() else old).__get__(None, cls)(*a, **k))
    return (lambda *a, **k: (new if here() else old)(*a, **k)) if callable(new) else new


def _custom_apply(cls, *args):
    if cls is torch.utils.checkpoint.CheckpointFunction:  # a plan keeps what it needs: nothing is computed twice
        differentiable = any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)
        with contextlib.nullcontext() if differentiable else torch.no_grad():
            return args[0](*args[2:])
    if cls.__module__.startswith("torch.nn.modules"):
        refuse("backward hooks of modules vanish in a trace and are not supported; compute what the hook would")
    try:
        return _custom.apply(cls, *args)
    except Error as error:
        if ".py:" in str(error):
            raise
        refuse(str(error))


def _assign(tensor, value):
    """tensor.data = value as a copy: memory stays where it is."""
    if not isinstance(value, torch.Tensor) or value.shape != tensor.shape or value.dtype != tensor.dtype:
        refuse("tensor.data = ...: of another shape or type is not supported")
    with torch.no_grad():
        tensor.detach().copy_(value)


@contextlib.contextmanager
def assigned_in_place():
    """While torch itself computes what a plan has: tensor.data = value leaves the memory that the plan knows."""
    slot, thread = torch.Tensor.data, threading.get_ident()
    torch.Tensor.data = property(lambda t: slot.__get__(t), lambda t, value: _assign(t, value) if threading.get_ident() == thread else slot.__set__(t, value))
    try:
        yield
    finally:
        del torch.Tensor.data


@contextlib.contextmanager
def _patched(capture):
    """Python's side of torch while a function is traced."""
    changes = []

    def change(owner, name, value):
        changes.append((owner, name, vars(owner).get(name, changes)))
        setattr(owner, name, _in_this_thread(value, inspect.getattr_static(owner, name)))

    def change_instance(optimizer):
        changes.append((optimizer, "step", optimizer.step))
        optimizer.step = lambda closure=None: capture.step(optimizer, closure)

    def create_node(graph, *args, _original=torch.fx.Graph.create_node, **kwargs):
        node = _original(graph, *args, **kwargs)
        node.meta["line"] = user_line()
        return node

    function = torch.autograd.Function
    hook = "hooks of tensors vanish in a trace and are not supported; compute what the hook would"
    change(torch.Tensor, "backward", lambda t, *a, **k: capture.backward(t, *a, **k))
    change(torch.Tensor, "grad", property(capture.read_grad, capture.set_grad))
    change(torch.Tensor, "data", property(lambda t: t.detach(), _assign))
    change(torch.Tensor, "register_hook", _refuse_call(hook))
    change(torch.autograd, "grad", capture.autograd_grad)
    change(torch.autograd, "backward", capture.autograd_backward)
    change(function, "apply", classmethod(_custom_apply))
    change(torch.distributions.Distribution, "_validate_args", False)
    change(torch.optim.Optimizer, "zero_grad", lambda o, set_to_none=True: capture.clear_grads(
        p for group in o.param_groups for p in group["params"]))
    change(torch.nn.Module, "zero_grad", lambda m, set_to_none=True: capture.clear_grads(m.parameters()))
    change(torch.fx.Graph, "create_node", create_node)
    for module in ("torch", "torch.func", "torch._functorch.apis"):
        if module in sys.modules and hasattr(sys.modules[module], "vmap"):
            change(sys.modules[module], "vmap", _refuse_call("torch.vmap is not supported: write the batch axis out"))
    for name in ("grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "linearize"):
        if hasattr(torch.func, name):
            change(torch.func, name, _refuse_call(f"torch.func.{name} is not supported: torch.autograd.grad is"))
    for owner in (torch, torch.random):
        change(owner, "manual_seed", _refuse_call("torch.manual_seed() would seed the trace alone; call it outside"))
    scale = torch.amp.GradScaler.scale
    change(torch.amp.GradScaler, "scale", lambda scaler, loss: _refuse_call(
        "GradScaler looks at values, and there is no autocast: GradScaler(enabled=False)")() if scaler.is_enabled() else scale(scaler, loss))
    change(torch.autocast, "__enter__", _unless_disabled)
    change(torch.nn.modules.batchnorm._BatchNorm, "forward", _counted_batch_norm)
    for name in ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__", "__format__"):
        what = {"__bool__": "if tensor", "__float__": "float(tensor)", "__int__": "int(tensor)", "__index__": "an index from a tensor",
                "__format__": "a tensor in a text"}
        change(torch.Tensor, name, _value_refused(what.get(name, f"tensor.{name}()"), getattr(torch.Tensor, name)))
    for optimizer in _wrapped_optimizers():
        change_instance(optimizer)
    for cls in _classes_with_steps(torch.optim.Optimizer):
        change(cls, "step", lambda optimizer, closure=None: capture.step(optimizer, closure))
    for cls in _classes_with_steps(torch.optim.lr_scheduler.LRScheduler):
        change(cls, "step", lambda scheduler, *a, **k: refuse(
            f"{type(scheduler).__name__}.step(): a schedule is Python's and would go on only while the function is traced; call it outside"))
    try:
        yield
    finally:
        for owner, name, value in reversed(changes):
            if value is changes:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


# torch's own conditions on values that only complain, or look for a shorter way: here they do not hold.
_HARMLESS = ("gaussian_nll_loss", "_detect_is_causal_mask")


def _value_refused(what, original):
    def call(tensor, *args, **kwargs):
        frame = sys._getframe(1)
        while frame.f_code.co_filename == __file__:
            frame = frame.f_back
        if what == "if tensor" and frame.f_code.co_name in _HARMLESS and frame.f_code.co_filename.startswith(_TORCH):
            return False
        if isinstance(tensor, torch._subclasses.FakeTensor) or tensor.requires_grad or user_line()[0] == "python":
            refuse(f"{what}: a value is not known while the step is traced. For a condition use torch.where; "
                   "return what you want to see, and look at it outside")
        return original(tensor, *args, **kwargs)

    return call


def _counted_batch_norm(module, x, _original=torch.nn.modules.batchnorm._BatchNorm.forward):
    """momentum=None: the mean of all batches so far, whose weight is a number of the count, which is a tensor."""
    if module.momentum is not None or not module.training or not module.track_running_stats or module.num_batches_tracked is None:
        return _original(module, x)
    module._check_input_dim(x)
    axes = [0, *range(2, x.dim())]
    with torch.no_grad():
        module.num_batches_tracked.add_(1)
        share = 1.0 / module.num_batches_tracked.to(x.dtype)
        module.running_mean.add_(share * (x.mean(axes) - module.running_mean))
        module.running_var.add_(share * (x.var(axes) - module.running_var))
    return torch.nn.functional.batch_norm(x, None, None, module.weight, module.bias, True, 0.0, module.eps)


@contextlib.contextmanager
def _quiet():
    """torch logs and warns of what is raised anyway, or does not concern the user."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


_here = threading.local()


def is_tracing():
    """Whether this thread is tracing a function, or computing it with torch for the comparison."""
    return getattr(_here, "depth", 0) > 0


@contextlib.contextmanager
def as_torch_has_it():
    """Compiled functions that are called meanwhile are the functions themselves."""
    _here.depth = getattr(_here, "depth", 0) + 1
    _count_traces(1)
    try:
        yield
    finally:
        _count_traces(-1)
        _here.depth -= 1


def trace(fn, args):
    """A Capture of fn(capture, *args). Tensors among args become placeholders; the rest is part of the graph."""
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise Error("autocast is not supported: Windrow computes in the parameters' own type")
    capture = Capture()
    # lazy: the graph is read, never run, and torch keeps the source text of every one that it makes code of
    with _patched(capture), _quiet(), as_torch_has_it(), _use_lazy_graph_module(True):
        try:
            capture.graph_module = make_fx(lambda *tensors: fn(capture, *tensors), tracing_mode="fake", pre_dispatch=True, _allow_non_fake_inputs=True)(*args)
        except (fake_tensor.DynamicOutputShapeException, fake_tensor.DataDependentOutputException, fake_tensor.UnsupportedOperatorException) as error:
            file, line = _line_of(error)
            raise Error(f"{os.path.basename(file)}:{line}: {error.args[0] if error.args else error}: what it gives depends on values, which are "
                        "not known while the step is traced: compute it outside of the function, or of other ops") from None
        except RuntimeError as error:
            file, line = _line_of(error)
            if not _raised_in(error).startswith(_TORCH):
                raise  # the user's own
            if "data-dependent" in str(error):
                raise Error(f"{os.path.basename(file)}:{line}: a shape or a condition here depends on values, which are not known while the step is "
                            "traced; use torch.where, or multiply by a mask") from None
            hint = " Give Windrow the function itself, without torch.compile." if "dynamo" in str(error) else ""
            where = f"{os.path.basename(file)}:{line}: " if line else ""
            raise Error(f"{where}torch says: {error}{hint}") from None
    return capture


def _raised_in(error):
    at = error.__traceback__
    while at.tb_next is not None:
        at = at.tb_next
    return at.tb_frame.f_code.co_filename


def _line_of(error):
    """Where the user's code was when torch gave up."""
    found, at = ("python", 0), error.__traceback__
    while at is not None:
        name = at.tb_frame.f_code.co_filename
        if not name.startswith((_TORCH, _OWN, "<")):
            found = name, at.tb_lineno
        at = at.tb_next
    return found
