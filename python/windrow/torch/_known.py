"""What is known of a call that has been made: most calls are like the one before, and then nothing is looked for again."""
import inspect
import operator

import torch
from torch._C import _is_any_autocast_enabled

from windrow._core import _looks

_FLAG = torch._C.TensorBase.requires_grad
_requires_grad = operator.attrgetter("requires_grad")


class Known:
    """The arguments of the last call, and what is known of such: most calls are like the one before."""

    def __init__(self, entry, around, values, args, outcome, graded):
        self.all_graded, self.graded, self.without = graded, list(graded), [p.grad is None for p in graded]
        self.parameters, self.differentiable = around.parameters, list(map(_requires_grad, around.parameters))
        self.entry, self.modules, self.outcome, self.around, self.values = entry, around.modules, outcome, around, values
        self.arguments = [(type(a), getattr(a, "shape", None), getattr(a, "dtype", None)) for a in args]
        self.flags = (torch.is_grad_enabled(), [m.training for m in self.modules])
        # the tensors that the function gives, if all is as it was; True, if something is to be done before or after the plan; None if not, and then
        # nothing has been done
        self.repeat = entry.step._repeat
        self.checks, self.fitted = None, 0  # made by the second call of its kind: shapes that take turns need none

    def as_tuples(self, args):
        """What `fits`, `Entry.is_current` and `Entry.bring_gradients` look at, for one call of C++ (unchanged.cpp): where all of it is as it was,
        they need not be asked. Before it the optimizers' numbers, or None where something is to be done before or after the plan. None alone where
        that cannot be said so."""
        around, entry = self.around, self.entry
        if not args or not all(self.without) or entry.kept:
            return None
        own = None if entry.cleared or entry.shadowed or entry.flags else tuple([slot.numbers for slot in entry.slots.all])
        looks = [_looks(a) for a in args]
        found = around.as_tuples(self.values)
        slots = [slot.as_tuples() for slot in entry.slots.all]
        if found is None or None in slots or not all(looks):
            return None
        attributes, items, lists, lengths = found
        rates = []
        for more_attributes, more_items, more_lists, more_lengths, numbers in slots:
            attributes, items, lists, lengths = attributes + more_attributes, items + more_items, lists + more_lists, lengths + more_lengths
            rates.append(numbers)
        grad, training = self.flags
        for m, is_training in zip(self.modules, training):
            if "training" in vars(m) and not hasattr(type(m), "training"):
                items.append((vars(m), "training", is_training))
            else:
                attributes.append((m, "training", is_training))
        flags = []
        for p, wanted in zip(self.parameters, self.differentiable):
            if inspect.getattr_static(type(p), "requires_grad") is _FLAG:
                flags.append((_FLAG, p, wanted))
            else:
                attributes.append((p, "requires_grad", wanted))
        attributes += [(p, "grad", None) for p in [*self.graded, *entry.assumed_none]] + [(entry, "shadowed", entry.shadowed)]
        lengths += [(held, len(held)) for held in (self.all_graded, entry.kept, entry.cleared, entry.assumed_none, entry.pointers, entry.slots.all)]
        places = [(where.__self__, address) for where, address in zip(entry.pointers, entry.expected)]
        parts = (looks, attributes, items + entry.places, [(torch.is_grad_enabled, grad), (_is_any_autocast_enabled, False)], lists, lengths, places, rates, flags)
        return own, (torch.Tensor, *map(tuple, parts))

    def fits(self, args):
        grad, training = self.flags
        if len(args) != len(self.arguments) or torch.is_grad_enabled() is not grad or _is_any_autocast_enabled() or [m.training for m in self.modules] != training:
            return False
        for a, (kind, shape, dtype) in zip(args, self.arguments):
            if kind is not torch.Tensor or type(a) is not kind or a.dtype is not dtype or a.shape != shape or a.requires_grad:
                return False
        if list(map(_requires_grad, self.parameters)) != self.differentiable:
            return False
        if self.graded and [p.grad is None for p in self.graded] != self.without:
            return False
        return self.around.same(self.around.values(), self.values) and self.entry.is_current()

    def refresh(self, args):
        """After a call that fitted although not all was as it was: ever more rarely, for what changes in every call is not worth it."""
        self.fitted += 1
        if self.fitted & (self.fitted - 1) == 0:
            self.checks = self.as_tuples(args)
