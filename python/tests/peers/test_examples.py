"""The examples run from top to bottom, and learn what they say."""
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
