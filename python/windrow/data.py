"""Files, image sets and loaders; what is read from a file is checked as if an enemy wrote it."""
from ._core import data as _data
from ._core.data import *  # noqa: F401,F403


class Loader(_data.Loader):
    """Mini-batches in an order that depends on nothing but the seed and the epoch. `for x, y in loader` is one epoch."""

    def __iter__(self):
        while True:
            yield self.next()
            if self.position == 0 or self.position >= len(self):
                return
