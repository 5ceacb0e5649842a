"""What is known of a call that has been made: most calls are like the one before, and then nothing is looked for again."""
import operator

import torch

from windrow._core import _unchanged

_requires_grad = operator.attrgetter("requires_grad")


class Known:
    """The arguments of the last call, and what is known of such: most calls are like the one before."""

    def __init__(self, entry, around, values, args, outcome, graded):
        self.graded, self.without = list(graded), [p.grad is None for p in graded]
        self.parameters, self.differentiable = around.parameters, list(map(_requires_grad, around.parameters))
        self.entry, self.modules, self.outcome, self.around, self.values = entry, around.modules, outcome, around, values
        self.arguments = [(type(a), getattr(a, "shape", None), getattr(a, "dtype", None)) for a in args]
        self.flags = (torch.is_grad_enabled(), [m.training for m in self.modules])
        self.checks, self.fitted = None, False  # made by the second call of its kind: shapes that take turns need none

    def as_tuples(self):
        """What `fits` and `Entry.is_current` look at, but for the optimizers, for one call of C++: where all of it is as it was, they need not be
        asked. None where that cannot be said so."""
        around, entry = self.around, self.entry
        if not all(self.without):
            return None
        found = around.as_tuples(self.values)
        if found is None:
            return None
        attributes, items, lists, lengths = found
        grad, training = self.flags
        attributes += [(m, "training", is_training) for m, is_training in zip(self.modules, training)]
        attributes += [(p, "requires_grad", wanted) for p, wanted in zip(self.parameters, self.differentiable)] + [(p, "grad", None) for p in self.graded]
        results = [(torch.is_grad_enabled, grad), *zip(entry.pointers, entry.expected)]
        arguments = [(dtype, shape) for _, shape, dtype in self.arguments]
        return (torch.Tensor, *map(tuple, (arguments, attributes, items + entry.places, results, lists, lengths)))

    def is_unchanged(self, args):
        if self.checks is None or not _unchanged(args, *self.checks):
            return False
        for slot in self.entry.slots.all:
            if not slot.is_current():
                return False
        return True

    def fits(self, args):
        grad, training = self.flags
        if len(args) != len(self.arguments) or torch.is_grad_enabled() is not grad or [m.training for m in self.modules] != training:
            return False
        for a, (kind, shape, dtype) in zip(args, self.arguments):
            if kind is not torch.Tensor or type(a) is not kind or a.dtype is not dtype or a.shape != shape or a.requires_grad:
                return False
        if list(map(_requires_grad, self.parameters)) != self.differentiable:
            return False
        if self.graded and [p.grad is None for p in self.graded] != self.without:
            return False
        if not self.around.same(self.around.values(), self.values):
            return False
        if not self.fitted:
            self.checks, self.fitted = self.as_tuples(), True
        return True
