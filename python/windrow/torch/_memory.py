"""torch's memory as Windrow's states: parameters, buffers and optimizers' moments are used where they stand."""
import weakref

import torch

import windrow as wr
from windrow import Error

from . import _optim
from ._ops import dtype_of


class Memory:
    """The states of one captured function. A State is made over a tensor's own memory, so that torch and the plan see the
    same bytes; int64 tensors, which Windrow has not, and those in another order (channels_last) have a shadow that is brought up to date
    round each call."""

    def __init__(self, slots, seed):
        self.slots, self.seed = slots, seed
        self.tensors = {}  # key -> (tensor, State)
        self.shadows, self.loaded = [], []  # (tensor, State), and what was loaded
        self.randoms = []

    @staticmethod
    def key(tensor):
        if isinstance(tensor, torch._subclasses.FakeTensor):
            raise Error("a tensor made while tracing is used as if it were there before; was it assigned to tensor.data?")
        return tensor.data_ptr(), tuple(tensor.shape), tensor.dtype

    def state_of(self, tensor, name):
        key = self.key(tensor)
        if key in self.tensors:
            return self.tensors[key][1]
        if tensor.device.type != "cpu":
            raise Error(f"a tensor on {tensor.device} is not supported: Windrow computes on the CPU; model.cpu()")
        if tensor.layout != torch.strided:
            raise Error("sparse tensors are not supported")
        dtype_of(tensor.dtype)
        self.refuse_overlap(tensor)
        if tensor.dtype == torch.int64 or not tensor.is_contiguous():
            state = wr.State(wr.array(tensor.detach().contiguous().numpy().copy()), name)
            self.shadows.append((tensor, state))
            self.loaded.append(tensor.detach().clone())
        else:
            state = wr.state_over(tensor.detach(), name)
        self.tensors[key] = (tensor, state)
        return state

    def refuse_overlap(self, tensor):
        start = tensor.data_ptr()
        end = start + tensor.numel() * tensor.element_size()
        for other, _ in self.tensors.values():
            begin = other.data_ptr()
            if start < begin + other.numel() * other.element_size() and begin < end:
                raise Error(f"two tensors that the function uses, of shapes {tuple(tensor.shape)} and {tuple(other.shape)}, share "
                            "memory; use one of them and take the view inside the function")

    def random(self, number):
        while len(self.randoms) < number:
            self.randoms.append(wr.Random(self.seed + len(self.randoms)))
        return self.randoms[number - 1]

    def slot_of(self, optimizer, members):
        return self.slots.of(optimizer, members)

    def load_shadows(self):
        self.loaded = [tensor.detach().clone() for tensor, _ in self.shadows]
        for tensor, state in self.shadows:
            state.set(tensor.detach().contiguous().numpy())

    def store_shadows(self):
        """What the plan that ran has changed; another plan's shadows are as they were loaded."""
        for (tensor, state), before in zip(self.shadows, self.loaded):
            value = torch.from_numpy(state.numpy()).to(tensor.dtype)
            if not torch.equal(value, before):
                tensor.detach().copy_(value)


class Counts:
    """How many steps each parameter of an optimizer has taken, in one piece of memory for all plans that step it; optimizer.state shows torch
    its parts. SGD has no counts: there they say whether a parameter has a velocity."""

    of_optimizers = weakref.WeakKeyDictionary()

    def __init__(self, optimizer):
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.places = {id(p): i for i, p in enumerate(self.parameters)}
        self.memory = torch.zeros(len(self.parameters))
        self.parts = list(self.memory.unbind())
        self.stepped_by, self.version = None, 0  # the token of the slot that ran last, and torch's count of its own writes

    @classmethod
    def of(cls, optimizer):
        found = cls.of_optimizers.get(optimizer)
        if found is None or any(id(p) not in found.places for group in optimizer.param_groups for p in group["params"]):
            found = cls.of_optimizers[optimizer] = cls(optimizer)
        return found

    def adopt(self, optimizer, members):
        """Brings torch's own counts in, where they stand elsewhere; gives the places of the members."""
        counted = type(optimizer).__name__ != "SGD"
        for p in members:
            part = self.parts[self.places[id(p)]]
            if not counted:
                part.fill_(float(optimizer.state.get(p, {}).get("momentum_buffer") is not None))
            elif optimizer.state[p].get("step") is not part:
                part.fill_(float(optimizer.state[p].get("step", 0.0)))
                optimizer.state[p]["step"] = part
        return [self.places[id(p)] for p in members]


class Slot:
    """One optimizer: its numbers as an argument of the plan, its moments in optimizer.state as torch has them. `parameters` are those that
    the function gives a gradient; torch leaves the others alone."""

    def __init__(self, optimizer, number, members):
        import numpy

        self.optimizer, self.number = optimizer, number
        self.rule = _optim.rule_of(optimizer)
        self.numbers = numpy.zeros((len(optimizer.param_groups), len(self.rule.numbers)))
        self.state = optimizer.state
        self.parameters = members
        self.groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        self.flags = self.current_flags()
        self.seen = []  # the groups' values when the numbers were read last
        self.has_tensors = False  # among them: a rate that may change in its place
        self.members = [len(group["params"]) for group in optimizer.param_groups]
        self.fresh = []  # memories that torch had not made yet
        self.token = object()
        self.remembered = {}  # (id of a parameter, name) -> (parameter, name, tensor in optimizer.state)
        self.shared = Counts.of(optimizer)
        self.counts = self.shared.memory
        self.places = self.shared.adopt(optimizer, members)
        self.classes = self.equal_counts()
        self.length = len(self.state)
        self.read_numbers()

    def current_flags(self):
        return [tuple(_optim.flags_of(self.optimizer, g).items()) for g in self.optimizer.param_groups]

    def equal_counts(self):
        """Places of parameters that have taken as many steps, which the plan counts as one: {count: [place]}."""
        found = {}
        for place in self.places:
            found.setdefault(float(self.counts[place]), []).append(place)
        return list(found.values())

    def count_apart(self):
        """Where other steps of the same optimizer lie between."""
        self.classes = [[place] for place in self.places]

    def counts_are_ours(self):
        """Whether those that the plan takes to be equal are: other plans and torch itself may have stepped some of them."""
        shared = self.shared
        if shared.stepped_by is self.token and shared.version == self.counts._version and len(self.state) == self.length:
            return True
        if Counts.of_optimizers.get(self.optimizer) is not shared:
            return False
        if type(self.optimizer).__name__ != "SGD" and any(
                self.state.get(p, {}).get("step") is not shared.parts[i] for p, i in zip(self.parameters, self.places)):
            return False
        if any(self.state.get(p, {}).get(name) is not tensor for p, name, tensor in self.remembered.values()):
            return False
        counts = self.counts.tolist()
        if any(counts[i] != counts[places[0]] for places in self.classes for i in places):
            return False
        shared.stepped_by, shared.version, self.length = self.token, self.counts._version, len(self.state)
        return True

    def memory(self, p, name):
        existing = self.state[p].get(name)
        if existing is None:
            existing = _optim.fresh(name, p, self.groups[id(p)])
            self.state[p][name] = existing
            self.fresh.append((p, name))
        self.remembered[id(p), name] = p, name, existing
        return existing

    def read_numbers(self):
        for i, group in enumerate(self.optimizer.param_groups):
            row = self.numbers[i]
            for k, name in enumerate(self.rule.numbers):
                row[k] = _optim.number(group, name)

    def is_current(self):
        """Whether the plan is still this optimizer's; its numbers are read on the way, if any has changed."""
        optimizer = self.optimizer
        optimizer._opt_called = True  # schedulers ask
        groups = optimizer.param_groups
        if optimizer.state is not self.state or len(groups) != len(self.numbers):
            return False
        if not self.counts_are_ours():
            return False
        values = [tuple(group.values()) for group in groups]
        try:
            same = values == self.seen
        except RuntimeError:  # a tensor among them, as a rate may be
            same = False
        if same and not self.has_tensors:
            return True
        if self.flags != self.current_flags() or self.members != [len(group["params"]) for group in groups]:
            return False
        self.read_numbers()
        self.seen[:] = values
        self.has_tensors = any(isinstance(v, torch.Tensor) for group in values for v in group)
        return True


    def as_tuples(self):
        """What `is_current` looks at: attributes, items of dicts, lists, lengths, and the numbers, which may differ. None where that cannot be said
        so."""
        optimizer, shared, groups = self.optimizer, self.shared, self.optimizer.param_groups
        if self.has_tensors or shared.stepped_by is not self.token:
            return None
        attributes = [(optimizer, "_opt_called", True), (optimizer, "state", self.state), (optimizer, "param_groups", groups),
                      (shared, "stepped_by", self.token), (shared, "version", shared.version), (self.counts, "_version", shared.version)]
        names, items, numbers = self.rule.numbers, [], []
        for i, group in enumerate(groups):
            for key, value in group.items():
                name, is_pair = ("beta1", True) if key == "betas" else (key, False)
                if name in names and [type(v) for v in (value if is_pair else [value])] == [float] * (1 + is_pair):
                    numbers.append((group, key, i * len(names) + names.index(name), is_pair))
                elif key != "params":
                    items.append((group, key, value))
        lists = [(groups, tuple(groups))] + [(group["params"], tuple(group["params"])) for group in groups]
        items += [(group, "params", group["params"]) for group in groups]
        return attributes, items, lists, [(self.state, self.length)], (self.numbers, self.seen, tuple(numbers))


class Slots:
    def __init__(self):
        self.all = []

    def of(self, optimizer, members):
        """Its slot; `members` are the parameters that have a gradient when it takes its step."""
        others = [slot for slot in self.all if slot.optimizer is optimizer]
        for slot in others:
            if {id(p) for p in members} == {id(p) for p in slot.parameters}:
                return slot
        self.all.append(Slot(optimizer, len(self.all), members))
        for slot in [*others, self.all[-1]] if others else []:
            slot.count_apart()
        return self.all[-1]
