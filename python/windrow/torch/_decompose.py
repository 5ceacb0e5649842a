"""Ops that are not in the table, as torch itself composes them of others: a graph of each, made when it is met."""
import torch
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten


def functional(plain, overload):
    """The op without in-place effect behind aten.plain_.overload, if there is one."""
    packet = getattr(torch.ops.aten, plain, None)
    return getattr(packet, overload, None) if packet is not None else None


def decomposition(target, args, kwargs):
    """(graph module, nodes and tensors that its placeholders stand for), or None if torch has none for it."""
    own = decomposition_table.get(target)
    if own is None and not (isinstance(target, torch._ops.OpOverload) and target._can_decompose()):
        return None
    leaves, form = tree_flatten((args, kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.fx.Node) and isinstance(x.meta.get("val"), torch.Tensor)]
    if any(isinstance(x, torch.fx.Node) for i, x in enumerate(leaves) if i not in places):
        return None

    def whole(*tensors):
        full = list(leaves)
        for i, t in zip(places, tensors):
            full[i] = t
        args, kwargs = tree_unflatten(full, form)
        return own(*args, **kwargs) if own is not None else target.decompose(*args, **kwargs)

    try:
        with torch.no_grad():
            graph = make_fx(whole)(*[leaves[i].meta["val"] for i in places])
    except Exception:  # torch could not: it is refused by its name
        return None
    return graph, [leaves[i] for i in places]
