"""The examples run from top to bottom, and learn what they say."""
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"
QUICK = {"mlp": ["1"], "char_gpt": ["--steps", "200"], "dqn": ["--steps", "12000"], "gymnasium_native": ["dqn", "--steps", "12000"]}
AGAIN = [("gymnasium_native", ["ppo", "--steps", "20480"])]
RUNS = [(path.stem, QUICK.get(path.stem, [])) for path in sorted(FOLDER.glob("*.py"))] + AGAIN


@pytest.mark.parametrize("name, arguments", RUNS, ids=lambda a: a if isinstance(a, str) else "_".join(a))
def test_example(name, arguments):
    done = subprocess.run([sys.executable, str(FOLDER / f"{name}.py"), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
