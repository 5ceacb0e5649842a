"""torch.autograd.Function in a trace: forward and backward are both recorded, and a marker says which belongs to which."""
import torch

from windrow import Error

_library = torch.library.Library("windrow", "FRAGMENT")
_library.define("incoming(Tensor output) -> Tensor")
_library.define("custom(Tensor output, Tensor[] inputs, Tensor incoming, Tensor?[] gradients) -> Tensor")
_library.impl("incoming", torch.empty_like, "CompositeExplicitAutograd")
_library.impl("custom", lambda output, inputs, incoming, gradients: torch.empty_like(output), "CompositeExplicitAutograd")


class Context:
    """What forward() and backward() have in common, as torch's FunctionCtx has it."""

    def __init__(self, inputs):
        self.needs_input_grad = tuple(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
        self.saved_tensors = ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def set_materialize_grads(self, value):
        pass  # they always are: a function has one result, and is differentiated only by way of it

    def mark_non_differentiable(self, *tensors):
        raise Error("ctx.mark_non_differentiable() is not supported; return such results from another function")

    def mark_dirty(self, *tensors):
        raise Error("ctx.mark_dirty() is not supported: a function that changes its arguments")


def apply(cls, *args):
    """cls.apply(*args) while a function is traced."""
    ctx = Context(args)
    with torch.no_grad():
        if cls.setup_context is not torch.autograd.Function.setup_context:
            output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
        else:
            output = cls.forward(ctx, *args)
        if not isinstance(output, torch.Tensor):
            raise Error(f"autograd.Function {cls.__name__}: returns a {type(output).__name__}; functions with one tensor as their result are supported")
        incoming = torch.ops.windrow.incoming(output)
        gradients = cls.backward(ctx, incoming)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    if len(gradients) < len(args) or any(g is not None for g in gradients[len(args):]):
        raise Error(f"autograd.Function {cls.__name__}: backward gives {len(gradients)} gradients for {len(args)} arguments")
    pairs = [(x, g) for x, g in zip(args, gradients) if isinstance(x, torch.Tensor)]
    return torch.ops.windrow.custom(output, [x for x, _ in pairs], incoming, [g for _, g in pairs])


def backward_nodes(graph):
    """For each marker, the nodes of its backward, in order: those that depend on the gradient that comes in."""
    found, owner = {}, {}
    for node in graph.nodes:
        name = str(node.target)
        if name.startswith("windrow.incoming"):
            owner[node] = node
            found[node] = []
            continue
        sources = {owner[n] for n in node.all_input_nodes if n in owner}
        if name.startswith("windrow.custom"):
            sources.discard(node.args[2])  # its own backward ends here
        if not sources:
            continue
        if len(sources) > 1 or node.op == "output":
            raise Error("a backward() of one's own whose gradients are used elsewhere is not supported")
        (source,) = sources
        owner[node] = source
        found[source].append(node)
    return found
