"""The examples and the notebook run from top to bottom, and learn what they say."""
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"
QUICK = {"mlp": ["1"], "char_gpt": ["--steps", "200"], "dqn": ["--steps", "12000"]}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_example(path):
    done = subprocess.run([sys.executable, str(path), *QUICK.get(path.stem, [])], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_notebook():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(FOLDER / "first_steps.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    html = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs if "text/html" in o.get("data", {})]
    assert len(html) >= 2  # the plan and the profile
