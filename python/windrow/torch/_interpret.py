"""A captured graph as a trace of Windrow: values and what they alias, gradients, optimizers."""
import operator
import os

import torch

import windrow as wr
from windrow import Error, _core

from . import (_activations, _custom, _functions, _index, _layers, _linalg, _losses, _optim, _pools, _products, _random, _reduce,  # noqa: F401
               _running, _sequence)  # they register their ops
from ._decompose import decomposition, functional
from ._ops import as_type, broadcast, dtype_of, is_tensor, lookup
from ._views import COPIES, DETACHED, ITSELF, MAYBE_ITSELF, SEVERAL, VIEWS, parts_of


class Cell:
    """Memory that several values may show: what it holds now, and the State it is to be left in."""

    __slots__ = ("tensor", "state", "written")

    def __init__(self, tensor, state=None):
        self.tensor, self.state, self.written = tensor, state, False


class Value:
    """A tensor of torch's: a cell, seen through views."""

    __slots__ = ("cell", "views", "cached", "version")

    def __init__(self, cell, views=()):
        self.cell, self.views, self.cached, self.version = cell, views, None, None

    def read(self):
        whole = self.cell.tensor
        if not self.views:
            return whole
        if self.version is not whole:
            part = whole
            for view in self.views:
                part = view.get(part)
            self.cached, self.version = part, whole
        return self.cached

    def write(self, part):
        wholes = [self.cell.tensor]
        for view in self.views[:-1]:
            wholes.append(view.get(wholes[-1]))
        for view, whole in zip(reversed(self.views), reversed(wholes)):
            part = view.put(whole, part)
        self.cell.tensor, self.cell.written = part, True


def constant(tensor):
    return wr.Tensor(wr.array(tensor.detach().numpy().copy(), dtype_of(tensor.dtype)))


class Interpreter:
    def __init__(self, capture, states, seed):
        self.capture, self.states, self.seed = capture, states, seed
        self.values = {}  # node -> Value, or a list of them, or anything that is no tensor
        self.cells = {}  # id of a captured tensor -> Cell
        self.grad_enabled = True
        self.randoms = 0
        self.within = 0  # how deep in ops that torch composes
        self.numbers = None  # options of optimizers, f64, one argument each
        self.name, self.node, self.fx_args = "", None, ()
        self.result_dtype, self.result_shape, self.result_shapes = None, (), ()

    # ---- what ops ask for
    def random(self):
        self.randoms += 1
        return self.states.random(self.randoms)

    def dropout(self, x, p):
        return wr.dropout(x, p, self.random())

    def write_argument(self, i, tensor):
        self.fx_args[i].write(wr.stop_gradient(tensor))

    def before_expanding(self, i):
        """Argument i as it was before it was expanded last, or None."""
        value = self.fx_args[i]
        if not isinstance(value, Value) or not value.views or not value.views[-1].expands:
            return None
        return Value(value.cell, value.views[:-1]).read()

    def is_arange(self, i):
        """Whether argument i is arange(0, n, step): offsets of bags that are all as long."""
        node = self.node.args[i]
        return isinstance(node, torch.fx.Node) and "arange" in str(node.target)

    # ---- the graph
    def cell_of(self, tensor, name):
        key = self.states.key(tensor)
        if key not in self.cells:
            state = self.states.state_of(tensor, name)
            self.cells[key] = Cell(state.tensor(), state)
        return self.cells[key]

    def run(self, tensors, numbers):
        self.numbers = numbers
        graph_module, rest = self.capture.graph_module, iter(tensors)
        result = None
        self.backwards = _custom.backward_nodes(graph_module.graph)
        later = {node for nodes in self.backwards.values() for node in nodes} | self.backwards.keys()
        for node in graph_module.graph.nodes:
            if node in later:
                continue
            file, line = node.meta.get("line", ("python", 0))
            if line:
                _core._set_line(file, line)
            self.node = node
            try:
                if node.op == "placeholder":
                    self.values[node] = self.placeholder(node, rest)
                elif node.op == "get_attr":
                    self.values[node] = Value(self.cell_of(getattr(graph_module, node.target), node.target))
                elif node.op == "output":
                    result = [self.values[leaf].read() for leaf in node.args[0] if isinstance(leaf, torch.fx.Node)]
                else:
                    self.values[node] = self.call(node)
            except Error as error:
                raise self.located(error, node, file, line) from None
            except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                found = Error(f"called in a way that is not supported ({type(error).__name__}: {error})")
                raise self.located(found, node, file, line) from error
            finally:
                _core._set_line("", 0)
        self.leave_states()
        return result

    def located(self, error, node, file, line):
        text = str(error)
        start = f"{os.path.basename(file)}:{line}: "
        text = text.removeprefix(start)
        return Error(f"{start}{str(node.target).removeprefix('aten.')}: {text}")

    def placeholder(self, node, rest):
        value = node.meta.get("val")
        return Value(Cell(next(rest))) if isinstance(value, torch.Tensor) else value

    def leave_states(self):
        for parameter, gradient in self.capture.cleared():
            if self.states.key(gradient) not in self.cells:
                continue  # never looked at
            cell = self.cell_of(gradient, "gradient")
            cell.tensor, cell.written = wr.full(tuple(gradient.shape), 0.0, cell.tensor.dtype), True
        for cell in self.cells.values():
            if cell.state is not None and cell.written:
                cell.state.assign(cell.tensor)

    # ---- one node
    def call(self, node):
        target = node.target
        if target is torch._C._set_grad_enabled:
            self.grad_enabled = node.args[0]
            return None
        if target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        if "_autocast" in getattr(target, "__name__", ""):
            if len(node.args) > 2 and node.args[2]:
                raise Error("autocast is not supported: Windrow computes in the parameters' own type")
            return None
        if isinstance(target, type):  # a named tuple of results
            return [self.values[a] for a in (node.args[0] if len(node.args) == 1 and isinstance(node.args[0], (list, tuple)) else node.args)]
        name = str(target)
        if name.startswith("windrow."):
            return self.marker(name, node)
        if name.startswith("profiler."):
            return None
        if not name.startswith("aten."):
            raise Error("is not supported")
        name = name.removeprefix("aten.")
        base = name.split(".")[0]
        meta = node.meta.get("val")
        self.name = name
        self.describe_result(meta)
        if base.startswith("_foreach_"):
            return self.for_each(base.removeprefix("_foreach_"), name, node)
        if base in VIEWS:
            return self.view(base, node)
        if base in ITSELF and self.is_alias(node):
            return self.seen(self.values[node.args[0]])
        if base in SEVERAL:
            value = self.values[node.args[0]]
            views = parts_of(base.removeprefix("unsafe_"), tuple(value.read().shape), self.plain(node.args[1:], node.kwargs))
            return [self.seen(value, v) for v in views]
        if base.endswith("_") and not base.endswith("__"):
            return self.in_place(target, base, node)
        if "out" in node.kwargs:
            return self.into(base, node)
        result = self.apply(lookup(target), node)
        return self.shared(result, node) if base in MAYBE_ITSELF else self.wrap(result)

    def shared(self, result, node):
        """A result that is an operand itself shares its memory: without dropout, or where nothing is to be spread."""
        if isinstance(result, (tuple, list)):
            return [self.shared(r, node) for r in result]
        for value in (self.values[n] for n in node.all_input_nodes):
            if isinstance(value, Value) and value.read() is result:
                return self.seen(value)
        return self.wrap(result)

    def describe_result(self, meta):
        several = meta if isinstance(meta, (list, tuple)) else [meta]
        tensors = [m for m in several if isinstance(m, torch.Tensor)]
        if not all(isinstance(n, int) for m in tensors for n in m.shape):
            raise Error("its result's shape depends on values; use torch.where, or multiply by a mask")
        self.result_shapes = [tuple(int(s) for s in m.shape) for m in tensors]
        self.result_shape = self.result_shapes[0] if tensors else ()
        self.result_dtype = dtype_of(tensors[0].dtype) if tensors else None

    def plain(self, args, kwargs):
        """Positional numbers of a view; the names of keywords are in the order of the schema."""
        return tuple(args) + tuple(kwargs.values())

    def argument(self, a):
        if isinstance(a, torch.fx.Node):
            value = self.values[a]
            if isinstance(value, Value):
                return value.read()
            if isinstance(value, list):
                return [v.read() if isinstance(v, Value) else v for v in value]
            return value
        if isinstance(a, (list, tuple)):
            return type(a)(self.argument(x) for x in a) if not isinstance(a, torch.fx.immutable_collections.immutable_list) else [
                self.argument(x) for x in a]
        return a

    DROPPED = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "generator", "requires_grad", "names", "out")

    def apply(self, fn, node, target=None):
        if fn is None:
            return self.composed(node, target or node.target)
        self.fx_args = [self.values.get(a) if isinstance(a, torch.fx.Node) else a for a in node.args]
        args = [self.argument(a) for a in node.args]
        kwargs = {k: self.argument(v) for k, v in node.kwargs.items() if k not in self.DROPPED}
        try:
            return fn(self, *args, **kwargs)
        except TypeError as error:
            raise Error(f"called in a way that is not supported: {error}") from error

    def composed(self, node, target):
        """What torch makes of an op that is not in the table, if that is."""
        found = None if self.within > 3 else decomposition(target, node.args, {k: v for k, v in node.kwargs.items() if k != "out"})
        if found is None:
            raise Error("is not supported yet: compute it outside of the function, or of other ops (docs/python.md has the list)")
        graph_module, operands = found
        operands, outer, self.within = iter(operands), (self.node, self.name), self.within + 1
        try:
            for inner in graph_module.graph.nodes:
                self.node = inner
                if inner.op == "placeholder":
                    self.values[inner] = self.values[next(operands)]
                elif inner.op == "get_attr":
                    self.values[inner] = Value(Cell(constant(getattr(graph_module, inner.target))))
                elif inner.op == "output":
                    shared = target is node.target and isinstance(inner.args[0], torch.fx.Node) and node.args and isinstance(node.args[0], torch.fx.Node) and self.is_alias(node)
                    return self.values[inner.args[0]] if shared else self.argument(inner.args[0])
                else:
                    self.values[inner] = self.call(inner)
        except Error:
            raise Error("is not supported yet: compute it outside of the function, or of other ops (docs/python.md has the list)") from None
        finally:
            (self.node, self.name), self.within = outer, self.within - 1

    def wrap(self, result):
        if isinstance(result, (tuple, list)):
            return [self.wrap(r) for r in result]
        if not is_tensor(result):
            return result
        return Value(Cell(result if self.grad_enabled else wr.stop_gradient(result)))

    def view(self, base, node):
        value = self.values[node.args[0]]
        if not isinstance(value, Value):
            raise Error("a view of what is no tensor")
        whole = tuple(value.read().shape)
        args = [self.values.get(a, a) if isinstance(a, torch.fx.Node) else a for a in node.args[1:]]
        kwargs = {k: v for k, v in node.kwargs.items() if k not in ("implicit",)}
        view = VIEWS[base](whole, self.result_shape, *args, **kwargs)
        if base in COPIES and not self.is_alias(node):
            return self.wrap(view.get(value.read()))
        return self.seen(value, view)

    def seen(self, value, *views):
        """A value through further views; in a region without gradients none goes back through them."""
        return Value(value.cell, value.views + views + (() if self.grad_enabled else (DETACHED,)))

    def is_alias(self, node):
        """Whether torch's result is the operand's own memory: some ops copy only where they must."""
        source, result = node.args[0].meta.get("val"), node.meta.get("val")
        if node.args[0].op == "get_attr":
            source = getattr(self.capture.graph_module, node.args[0].target)
        if not isinstance(source, torch.Tensor) or not isinstance(result, torch.Tensor):
            return False
        if node.kwargs.get("copy") or any(a is True for a in node.args[1:]) or source.dtype != result.dtype:
            return False
        base = str(node.target).split(".")[1]
        if base in ITSELF and base != "contiguous":
            return True
        return source.is_contiguous() or source.untyped_storage()._cdata == result.untyped_storage()._cdata

    def into(self, base, node):
        """An op with out=: its result is written there."""
        value = self.values.get(node.kwargs["out"]) if isinstance(node.kwargs["out"], torch.fx.Node) else None
        if not isinstance(value, Value):
            raise Error("out= of several tensors is not supported in a compiled function")
        old = value.read()
        new = broadcast(as_type(self.apply(lookup(f"aten.{base}"), node), old.dtype), tuple(old.shape))
        value.write(new if self.grad_enabled else wr.stop_gradient(new))
        return value

    def in_place(self, target, base, node):
        value = self.values[node.args[0]]
        old = value.read()
        plain = base.removesuffix("_")
        if plain in ("requires_grad",):
            return value
        if plain == "zero":
            new = wr.full(tuple(old.shape), 0.0, old.dtype)
        elif plain == "fill":
            fill = self.argument(node.args[1])
            new = broadcast(as_type(fill, old.dtype), tuple(old.shape)) if is_tensor(fill) else wr.full(
                tuple(old.shape), float(fill), old.dtype)
        elif plain == "copy":
            source = self.argument(node.args[1])
            new = broadcast(as_type(source, old.dtype), tuple(old.shape))
        elif plain in ("normal", "uniform", "bernoulli"):
            new = self.apply(lookup("aten.normal.in_place" if plain == "normal" else f"aten.{plain}"), node)
        else:
            overload = str(target).split(".")[-1]
            new = self.apply(lookup(f"aten.{plain}.{overload}"), node, functional(plain, overload))
        new = broadcast(as_type(new, old.dtype), tuple(old.shape))
        value.write(new if self.grad_enabled else wr.stop_gradient(new))
        return value

    def for_each(self, base, name, node):
        """An op on each of a list of tensors, in place or not. Other arguments are lists too, or for all."""
        values = [self.values[a] for a in node.args[0]]
        plain = base.removesuffix("_")
        found = []
        for i, value in enumerate(values):
            old = value.read()
            rest = [self.argument(a[i] if isinstance(a, (list, tuple)) else a) for a in node.args[1:]]
            self.name, self.result_dtype, self.result_shape = plain, old.dtype.name, tuple(old.shape)
            if plain in ("copy", "zero"):
                new = as_type(rest[0], old.dtype) if rest else wr.full(tuple(old.shape), 0.0, old.dtype)
            else:
                fn = lookup(f"aten.{plain}.{'Tensor_Scalar' if plain == 'pow' else 'default'}")
                if fn is None:
                    raise Error(f"{name} is not supported")
                new = fn(self, old, *rest, **{k: v for k, v in node.kwargs.items() if k not in self.DROPPED})
            if base.endswith("_"):
                value.write(new if self.grad_enabled else wr.stop_gradient(new))
            else:
                found.append(new)
        return self.wrap(found)

    # ---- markers
    def marker(self, name, node):
        if name.startswith("windrow.backward"):
            loss, gradient, leaves = (self.argument(a) for a in node.args)
            loss = loss * gradient if gradient is not None else loss
            loss = loss if loss.ndim == 0 else wr.sum(loss)
            return [Value(Cell(wr.stop_gradient(g))) for g in wr.grad(loss, leaves, allow_unused=True)]
        if name.startswith("windrow.grad"):
            outputs, gradients, inputs, create_graph = (self.argument(a) for a in node.args)
            total = None
            for y, g in zip(outputs, gradients):
                y = wr.sum(y if g is None else y * g)
                total = y if total is None else total + y
            found = wr.grad(total, inputs, allow_unused=True)
            return [Value(Cell(g if create_graph else wr.stop_gradient(g))) for g in found]
        if name.startswith("windrow.custom"):
            return self.custom(node)
        return self.step(node)

    def custom(self, node):
        """A value with a gradient of the user's: the nodes of his backward, once for each gradient that comes in."""
        output, inputs, incoming, gradients = node.args
        inputs = [self.argument(x) for x in inputs]

        def rule(arguments, value, g):
            outer, self.values = self.values, {**self.values, incoming: Value(Cell(g))}
            state, self.grad_enabled = (self.node, self.grad_enabled), True
            try:
                for inner in self.backwards[incoming]:
                    self.node = inner
                    self.values[inner] = self.call(inner)
                return [None if d is None else self.argument(d) for d in gradients]
            finally:
                self.values, (self.node, self.grad_enabled) = outer, state

        return Value(Cell(wr.custom_gradient(self.argument(output), inputs, rule)))

    def counted(self, slot):
        """Counts one step more: {place of a parameter: its count}."""
        cell = self.cell_of(slot.counts, "step")
        stepped = set(slot.places)
        everywhere = len(stepped) == len(slot.counts)
        more = 1 if everywhere else constant(torch.tensor([float(i in stepped) for i in range(len(slot.counts))]))
        cell.tensor, cell.written = cell.tensor + more, True
        counts = {}
        for places in slot.classes:
            count = wr.cast(wr.reshape(wr.slice(cell.tensor, 0, places[0], places[0] + 1), ()), "f64")
            counts |= dict.fromkeys(places, count)
        return counts

    def step(self, node):
        which = node.args[0]
        optimizer, members = self.capture.steps[which]
        rule = _optim.rule_of(optimizer)
        slot = self.states.slot_of(optimizer, [p for _, p in members])
        values = [self.values[a] for a in node.args[1]]
        values = [v if v.cell.state is not None else Value(self.cell_of(p, "parameter")) for v, (_, p) in zip(values, members)]
        gradients = [self.argument(a) for a in node.args[2]]
        groups = optimizer.param_groups
        numbers = self.numbers[slot.number]
        options = []
        for i, group in enumerate(groups):
            options.append({n: wr.reshape(wr.slice(wr.slice(numbers, 0, i, i + 1), 1, k, k + 1), ())
                            for k, n in enumerate(rule.numbers)})
        counts = self.counted(slot)
        for (group, parameter), value, gradient in zip(members, values, gradients):
            t = counts[slot.shared.places[id(parameter)]]
            flags = _optim.flags_of(optimizer, groups[group])
            cells = {m: self.cell_of(slot.memory(parameter, m), m) for m in rule.memories(flags)}
            memory = {m: c.tensor for m, c in cells.items()}
            new = rule.update(value.read(), gradient, options[group], memory, t, flags)
            for m, c in cells.items():
                c.tensor, c.written = wr.stop_gradient(memory[m]), True
            value.write(wr.stop_gradient(new))
        return None
