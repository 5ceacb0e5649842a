"""The notebook runs from top to bottom; what it asserts holds, and steps and profiles show themselves."""
import pathlib
import sys

import nbclient
import nbformat
from jupyter_client.kernelspec import KernelSpec

PATH = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python" / "first_steps.ipynb"


class Client(nbclient.NotebookClient):
    """Runs cells by this Python, whichever kernels are installed."""

    def create_kernel_manager(self):
        manager = super().create_kernel_manager()
        manager._kernel_spec = KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                                          display_name="Python", language="python")
        return manager


def shown(notebook, source):
    """The HTML that a cell shows."""
    (cell,) = [c for c in notebook.cells if c.source == source]
    return "".join(o.data.get("text/html", "") for o in cell.outputs if "data" in o)


def test_notebook():
    notebook = nbformat.read(PATH, as_version=4)
    Client(notebook, timeout=600, kernel_name="python3").execute()
    assert "region" in shown(notebook, "train")
    assert "<iframe" in shown(notebook, "profile")
