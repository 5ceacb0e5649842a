"""What goes in and comes out, taken apart into tensors and the rest: lists, tuples, dicts, and objects that hold tensors (dataclasses,
batches of one's own, distributions), which are made again of the same class."""
import dataclasses
import types

import torch
from torch.utils._pytree import register_pytree_node, tree_flatten, tree_map, tree_unflatten

_CONTAINERS = (list, tuple, dict)
_WHOLE = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer, torch.Generator, type, types.ModuleType, types.FunctionType, types.MethodType)


class Held:
    """An object on its way through torch's pytree, which does not know its class."""

    def __init__(self, what):
        self.what = what


def _parts(what):
    if hasattr(what, "__dict__"):
        return vars(what)
    if dataclasses.is_dataclass(what):
        return {f.name: getattr(what, f.name) for f in dataclasses.fields(what)}
    return {}


def holds_tensors(what, depth=2):
    """Whether an object that is no container of torch's pytree has tensors in its attributes."""
    if isinstance(what, _WHOLE):
        return False
    return any(_is_tensor_somewhere(v, depth) for v in _parts(what).values())


def _is_tensor_somewhere(value, depth):
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, _CONTAINERS):
        return any(_is_tensor_somewhere(v, depth) for v in (value.values() if isinstance(value, dict) else value)) if len(value) <= 100 else False
    return depth > 0 and holds_tensors(value, depth - 1)


def _held(what):
    return tree_map(lambda leaf: Held(leaf) if holds_tensors(leaf) else leaf, what)


def _take_apart(held):
    parts = _parts(held.what)
    return [_held(v) for v in parts.values()], (type(held.what), tuple(parts))


def _make_again(values, context):
    cls, names = context
    made = object.__new__(cls)
    for name, value in zip(names, values):
        object.__setattr__(made, name, value)
    return made


register_pytree_node(Held, _take_apart, _make_again, serialized_type_name="windrow.Held")


def taken_apart(what):
    """(leaves, form)"""
    return tree_flatten(_held(what))


def put_together(leaves, form):
    return tree_unflatten(leaves, form)


def is_taken_apart(what):
    """Whether an argument is more than one leaf."""
    return isinstance(what, _CONTAINERS) or holds_tensors(what)


def tensors_in(what):
    return [leaf.detach() for leaf in taken_apart(what)[0] if isinstance(leaf, torch.Tensor)]
