"""save() and load(): nets, optimisers and single states in one safetensors file."""
from . import _core
from .nn import named_states


def _collect(groups):
    states = {}
    for group, what in groups.items():
        if isinstance(what, _core.State):
            states[group] = what
        elif not (hasattr(what, "states") or hasattr(what, "named_states") or isinstance(what, (list, tuple, dict))):
            raise _core.Error(f"checkpoint: {group} is a {type(what).__name__}; nets, optimisers, States, and lists and dicts of them are wanted")
        else:
            for name, state in named_states(what).items():
                states[f"{group}.{name}"] = state
    if not states:
        raise _core.Error("checkpoint: nothing to save; give nets, optimisers or states by keyword: save(path, model=net)")
    return states


def save(path, metadata=None, **groups):
    """Writes nets, optimisers and states to a safetensors file that appears complete or not at all.

        wr.save("run.safetensors", model=net, optimiser=adam, metadata={"epoch": "3"})

    Optimisers have their moments once their step is compiled: run it once before.
    """
    _core.save_checkpoint(str(path), _collect(groups), {k: str(v) for k, v in (metadata or {}).items()})


def load(path, **groups):
    """Sets nets, optimisers and states to what the file holds and gives its metadata; all of them or none."""
    return _core.load_checkpoint(str(path), _collect(groups))
