#!/usr/bin/env python3
"""Runs what the documentation tells people to run: every command line of README.md that begins with build/windrow, and
every example of `windrow --help` and of its commands' help, one after the other in an empty folder.

usage: scripts/run_examples.py PROGRAM

Trainings are cut short (WINDROW_SECONDS=0.5), as are measurements (--seconds 0.01). What such a training leaves need not
be exact or solve a cube, which the commands say with exit code 1; any other command must end with 0.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def readme_lines():
    text = (ROOT / "README.md").read_text()
    return [line.strip() for line in text.splitlines() if line.startswith("    build/windrow ")]


def help_lines(program, path=()):
    """The examples in the help of a command and of all its commands."""
    text = subprocess.run([program, *path, "--help"], check=True, capture_output=True, text=True).stdout
    lines = re.findall(r"^  (windrow .*)$", text, re.MULTILINE)
    lines = [re.split(r"  +", line)[0] for line in lines if not line.startswith("windrow completion")]
    commands = text.partition("Subcommands:")[2].partition("\n\n")[0]
    for name in re.findall(r"^  ([a-z-]+) ", commands, re.MULTILINE):
        if name not in ("help", "life", "checkerboard-async", "colour"):
            lines += help_lines(program, (*path, name))
    return lines


def shortened(words):
    if "bench" in words and "--list" not in words and "--describe" not in words:
        cases = [w for w in words[words.index("bench") + 1:] if not w.startswith("-")]
        return words + ([] if cases else ["mlp_step_b64"]) + ["--seconds", "0.01"]
    return words


def main():
    program = os.path.abspath(sys.argv[1])
    lines = readme_lines()
    assert len(lines) > 10, "README.md has no command lines any more"
    seen = {tuple(shlex.split(line, comments=True)[1:]) for line in lines}
    lines += [line for line in dict.fromkeys(help_lines(program)) if tuple(shlex.split(line)[1:]) not in seen]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="windrow-examples-") as folder:
        os.symlink(ROOT / "examples", os.path.join(folder, "examples"))
        for line in lines:
            words = shortened(shlex.split(line, comments=True))
            words[0] = program
            # What an example reads was written by an earlier one, or is written here.
            if words[1:3] == ["profile", "diff"]:
                for name in words[3:]:
                    subprocess.run([program, "profile", "--out", name, "bench", "mlp_step_b64", "--runs", "1"],
                                   check=True, cwd=folder, capture_output=True)
            if words[1] == "report":  # half a second is less than an epoch: nothing was logged
                for name in [w for w in words[2:] if w.endswith(".csv")]:
                    pathlib.Path(folder, name).write_text("step,loss\n1,0.5\n2,0.25\n")
            start = time.monotonic()
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "WINDROW_SECONDS": "0.5"})
            cut_short = done.returncode == 1 and ("not exact" in done.stdout or "no solution" in done.stdout)
            good = (done.returncode == 0 or cut_short) and done.stdout
            failed += not good
            print(f"{time.monotonic() - start:6.1f} s  {'ok' if good else 'FAILED'}  {line}", flush=True)
            if not good:
                print(done.stdout[-2000:], done.stderr[-2000:])
    print(f"{len(lines)} lines, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
