#!/usr/bin/env python3
"""Treats the windrow program as an enemy, an unlucky user and a full disk would, and checks what it makes of it.

usage: scripts/attack.py [--quick] [PROGRAM [NAME...]]     (build/windrow, all attacks; --quick: those of a second or so)

Each attack is a function below; what it expects is an assertion. The exit code is 1 if one failed. Everything happens in
a temporary folder.
"""
import argparse
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ATTACKS = []
SLOW = set()


def attack(function):
    ATTACKS.append(function)
    return function


def slow(function):
    SLOW.add(function.__name__)
    return attack(function)


class Said:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit {self.code}\n{self.out[-600:]}\n{self.err[-600:]}"


class World:
    """The program, a folder to work in, and small things to be attacked with."""

    def __init__(self, program, folder, kept):
        self.program, self.folder, self.kept = program, pathlib.Path(folder), pathlib.Path(kept)

    def path(self, name):
        return self.folder / name

    def run(self, *arguments, timeout=60, stdout=subprocess.PIPE, before=None, env=None):
        done = subprocess.run([self.program, *map(os.fspath, arguments)], stdin=subprocess.DEVNULL, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=timeout, preexec_fn=before, cwd=self.folder,
                              env={**os.environ, **(env or {})})
        out = done.stdout.decode("utf-8", "surrogateescape") if done.stdout else ""
        return Said(done.returncode, out, done.stderr.decode("utf-8", "surrogateescape"))

    def digits(self):
        """A folder with MNIST's four files: 200 and 50 pictures of stripes."""
        folder = self.kept / "digits"
        if not folder.exists():
            folder.mkdir()
            for part, count in (("train", 200), ("t10k", 50)):
                labels = bytes(i % 10 for i in range(count))
                pixels = b"".join(bytes(255 if (x // 2 + y) % 10 == k else 0 for y in range(28) for x in range(28))
                                  for k in labels)
                (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + pixels)
                (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)
        return folder

    def train(self):
        return ["train", "fashion", "--net", "softmax", "--batch", "50", "--threads", "1", "--data", self.digits()]

    def once(self, name, *arguments):
        """A checkpoint, trained once for all attacks and copied for each who wants it."""
        kept = self.kept / name
        if not kept.exists():
            said = self.run(*arguments, "--save", kept)
            assert kept.exists(), said
        copy = self.path(name)
        shutil.copy(kept, copy)
        return copy

    def fashion(self):
        return self.once("fashion.safetensors", *self.train(), "--epochs", "1")

    def cube(self):
        return self.once("cube.safetensors", "train", "cube", "--hidden", "8", "--batch", "8", "--steps", "5",
                         "--threads", "1")

    def cube_by_moves(self):
        return self.once("moves.safetensors", "train", "cube", "--preset", "dqn", "--hidden", "8", "--batch", "8",
                         "--pretrain", "2", "--episodes", "3", "--warm-up", "8", "--replay", "64", "--threads", "1")

    def automaton(self):
        return self.once("life.safetensors", "train", "life", "--updates", "1", "--batch", "1", "--threads", "1",
                         "--update-gates", "16,8,1")


def parts_of(path):
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:8 + size]), raw[8 + size:]


def with_metadata(path, **changes):
    """The same checkpoint saying something else about itself."""
    header, data = parts_of(path)
    header["__metadata__"].update(changes)
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def with_numbers(path, prefix, bits):
    """The same checkpoint with the first number of a tensor changed."""
    header, data = parts_of(path)
    name = next(n for n in header if n.startswith(prefix) and header[n]["dtype"] == "F32")
    at = header[name]["data_offsets"][0]
    data = data[:at] + struct.pack("<I", bits) + data[at + 4:]
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def refused(said, *words, code=1):
    assert said.code == code, said
    for word in words:
        assert str(word) in said.err, f"'{word}' is not in what was said: {said}"
    assert "Traceback" not in said.err and "terminate called" not in said.err, said


# ---- outputs ----

@attack
def outputs_are_tried_before_training(w):
    for task in (w.train() + ["--epochs", "100000"], ["train", "cube", "--steps", "100000000"],
                 ["train", "life", "--updates", "100000000"]):
        refused(w.run(*task, "--save", w.path("no/such/folder/x"), timeout=30), "--save", "no/such/folder")
    refused(w.run("tune", "bench", "mlp_step", "--svg", "/no/such/x.svg", timeout=20), "--svg")
    refused(w.run("bench", "--seconds", "600", "--backends", "all", "--svg", "/no/such/x.svg", timeout=20), "--svg")
    refused(w.run("profile", "--out", "/no/such/x.json", "bench", "dqn_step_b64", timeout=20), "--out")


@attack
def two_outputs_are_not_one_file(w):
    same = w.path("same")
    refused(w.run(*w.train(), "--epochs", "100000", "--save", same, "--report", same), "--report", "--save")
    os.symlink(same, w.path("link"))
    refused(w.run(*w.train(), "--epochs", "100000", "--save", same, "--report", w.path("link")), "--report")
    assert not same.exists()
    log = w.path("same.csv")
    refused(w.run(*w.train(), "--epochs", "100000", "--save", log, "--log", log), "--log", "--save")
    refused(w.run("train", "life", "--updates", "100000000", "--log", w.path("no/such/x.csv"), timeout=30), "--log")


@attack
def logs_of_an_enemy_are_refused(w):
    """What `report` reads may be anything; what it writes shows it without doing what it says."""
    for name, content in (("random.csv", bytes(range(256)) * 40), ("deep.jsonl", b"{\"a\":" + b"[" * 100000),
                          ("wide.csv", b"a" + b",a" * 100000 + b"\n1\n"), ("x.tfevents.1", b"\xff" * 5000)):
        w.path(name).write_bytes(content)
        said = w.run("report", w.path(name), timeout=30)
        assert said.code in (0, 1) and "terminate called" not in said.err, said
    os.mkfifo(w.path("pipe.csv"))
    refused(w.run("report", w.path("pipe.csv"), timeout=10), "pipe.csv")
    evil = "<script>alert(1)</script>"
    w.path("evil.csv").write_text(f"step,{evil}\n1,2\n2,3\n")
    w.path("evil.jsonl").write_text(json.dumps({"step": 1, evil: 2}) + "\n")
    said = w.run("report", w.path("evil.csv"), w.path("evil.jsonl"), "--title", evil, "--out", w.path("evil.html"))
    assert said.code == 0, said
    assert "<script" not in w.path("evil.html").read_text()


@attack
def what_is_read_is_not_written_over(w):
    model = w.automaton()
    before = model.read_bytes()
    refused(w.run("circuit", model, "--svg", model), "--svg")
    refused(w.run("run", model, "--still", "--gif", model), "--gif")
    model2 = w.fashion()
    refused(w.run("train", "fashion", "--resume", model2, "--save", w.path("new"), "--report", model2), "--report")
    assert model.read_bytes() == before


@attack
def links_and_devices_are_kept(w):
    model = w.automaton()
    target, link, planted = w.path("target.svg"), w.path("link.svg"), w.path("drawing.svg.new")
    target.write_text("old")
    planted.write_text("mine")
    os.symlink(target, link)
    assert w.run("circuit", model, "--svg", link).code == 0
    assert link.is_symlink() and target.read_text().startswith("<svg")
    assert w.run("circuit", model, "--svg", w.path("drawing.svg")).code == 0
    assert planted.read_text() == "mine"
    assert w.run("circuit", model, "--svg", "/dev/null").code == 0
    assert not os.path.isfile("/dev/null")
    assert not [p for p in w.folder.iterdir() if ".tmp-" in p.name]


@attack
def output_that_cannot_be_written_is_a_failure(w):
    model, cells = w.fashion(), w.automaton()
    for command in (["--help"], ["help", "train"], ["ops"], ["doctor"], ["bench", "--list"],
                    ["bench", "mlp_step_b64", "--seconds", "0.01"], ["bench", "mlp_step_b64", "--describe"],
                    ["bench", "mlp_step_b64", "--seconds", "0.01", "--json"], ["completion", "bash"], ["manual"],
                    w.train() + ["--epochs", "2", "--json"], ["eval", model, "--data", w.digits()],
                    ["circuit", cells], ["run", cells, "--still"], ["--version"]):
        with open("/dev/full", "w") as full:
            said = w.run(*command, stdout=full)
        assert said.code == 1, (command, said)
        assert said.err, command


@attack
def a_limit_on_files_is_an_error_not_the_end(w):
    save = w.path("limited.safetensors")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    said = w.run(*w.train(), "--epochs", "1", "--save", save, before=limit)
    refused(said, "limited.safetensors", "File too large")
    assert not save.exists()


# ---- signals ----

def stopped_by(w, number, save):
    child = subprocess.Popen([w.program, *map(os.fspath, w.train()), "--epochs", "1000000", "--save", os.fspath(save)],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=w.folder)
    for line in child.stdout:
        if b"images/s" in line:
            break
    child.send_signal(number)
    child.stdout.read()
    return child.wait(timeout=30)


@attack
def signals_save(w):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        save = w.path(f"signal-{number}.safetensors")
        assert stopped_by(w, number, save) == 130, number
        assert int(parts_of(save)[0]["__metadata__"]["step"]) > 0
        assert w.run("eval", save, "--data", w.digits()).code == 0


@attack
def a_closed_terminal_saves(w):
    save = w.path("terminal.safetensors")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(w.folder)
        os.execv(w.program, [w.program, *map(os.fspath, w.train()), "--epochs", "1000000", "--save", os.fspath(save)])
    seen = b""
    while b"images/s" not in seen:
        seen += os.read(terminal, 4096)
    save.unlink(missing_ok=True)
    os.close(terminal)  # the system sends SIGHUP, and text for the terminal fails from now on
    end = time.monotonic() + 30
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        assert time.monotonic() < end, "it goes on without its terminal"
        time.sleep(0.02)
    assert w.run("eval", save, "--data", w.digits()).code == 0


@attack
def a_reader_that_goes_away_saves(w):
    """windrow train ... | head -1: what was trained is not lost."""
    save = w.path("piped.safetensors")
    child = subprocess.Popen([w.program, *map(os.fspath, w.train()), "--epochs", "1000000", "--save", os.fspath(save)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=w.folder)
    while b"images/s" not in child.stdout.readline():
        pass
    save.unlink(missing_ok=True)
    child.stdout.close()
    assert child.wait(timeout=30) == 130, child.stderr.read()
    assert w.run("eval", save, "--data", w.digits()).code == 0


@attack
def an_ignored_hangup_stays_ignored(w):
    """nohup windrow train ...: the run goes on."""
    save = w.path("nohup.safetensors")
    child = subprocess.Popen([w.program, *map(os.fspath, w.train()), "--epochs", "1000000", "--save", os.fspath(save)],
                             stdout=subprocess.PIPE, cwd=w.folder,
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    lines = 0
    for line in child.stdout:
        lines += b"images/s" in line
        if lines == 1:
            child.send_signal(signal.SIGHUP)
        if lines > 20:
            break
    child.send_signal(signal.SIGINT)
    child.stdout.read()
    assert child.wait(timeout=30) == 130 and lines > 20


# ---- inputs ----

@attack
def pipes_and_devices_are_no_inputs(w):
    model, fifo = w.fashion(), w.path("fifo")
    os.mkfifo(fifo)
    for path in (fifo, "/dev/zero", w.folder):
        refused(w.run("predict", model, path, timeout=10), path)
        refused(w.run("eval", path, timeout=10), path)
        refused(w.run("run", path, timeout=10), path)
        refused(w.run("rules", "run", path, timeout=10), path)
        refused(w.run("rules", "fmt", path, timeout=10), path)
        refused(w.run("profile", "diff", path, path, timeout=10), path)
        refused(w.run("train", "pattern", "--picture", path, "--updates", "1", timeout=10), path)


@attack
def numbers_are_numbers(w):
    for arguments in (["bench", "--seconds", "nan"], ["bench", "--seconds", "inf"], ["bench", "--seconds", "-1"],
                      ["bench", "--seconds", "1e999"], ["bench", "--threads", "0"], ["bench", "--threads", "1e9"],
                      ["bench", "--threads", "2.5"], ["tune", "bench", "x", "--seconds", "nan"],
                      ["run", "x", "--fps", "nan"], ["run", "x", "--seed", "-1"], ["run", "x", "--steps", "-1"],
                      ["run", "x", "--grid", "0x5"], ["run", "x", "--grid", "5x5x5"],
                      ["train", "fashion", "--lr", "nan"], ["train", "fashion", "--epochs", "-1"],
                      ["train", "cube", "--lr", "inf"], ["train", "life", "--noise", "nan"],
                      ["rules", "train", "x", "--lr", "nan"], ["rules", "run", "x", "--tolerance", "nan"],
                      ["solve", "x", "--seed", "99999999999999999999"]):
        said = w.run(*arguments, timeout=10)
        assert said.code in (1, 2) and said.err and not said.out, (arguments, said)
        assert arguments[-1] in said.err, (arguments, said)


@attack
def many_threads_are_quick_or_refused(w):
    start = time.monotonic()
    said = w.run("bench", "mlp_step_b64", "--seconds", "0.01", "--threads", "256", timeout=60)
    assert said.code in (0, 2), said
    assert time.monotonic() - start < 30, "took too long"


@attack
def metadata_of_an_enemy_is_refused(w):
    train = ["train", "fashion", "--resume"]
    for field, value in (("step", "-1"), ("step", "nan"), ("step", str(2**63 - 1)), ("lanes", "3x"), ("lanes", "100000"),
                         ("loader", "\x1b[2J"), ("so_far", "nan nan nan nan"), ("history", "1 2"), ("epochs", "1e99")):
        bad = with_metadata(w.fashion(), **{field: value})
        refused(w.run(*train, bad), "fashion.safetensors", field)
    for field, value in (("scale", "nan"), ("offset", "inf"), ("scale", "1e99")):
        bad = with_metadata(w.fashion(), **{field: value})
        refused(w.run("eval", bad, "--json"), "fashion.safetensors", field)
    for field, value in (("hidden", ",".join(["16384"] * 40)), ("replay", "100000000"), ("moves", "-1"),
                         ("done", "-1"), ("done", "nan"), ("lanes", "0")):
        bad = with_metadata(w.cube_by_moves(), **{field: value})
        refused(w.run("train", "cube", "--resume", bad, timeout=20), "moves.safetensors")
    for field, value in (("lanes", "1024"), ("done", str(2**63 - 1)), ("so_far", "nan"), ("restarts", "-1"),
                         ("channels", "4096"), ("height", "0"), ("update-gates", "1048576x1000")):
        bad = with_metadata(w.automaton(), **{field: value})
        refused(w.run("train", "life", "--resume", bad, timeout=20), "life.safetensors")


@attack
def weights_that_are_not_finite_are_refused(w):
    picture = w.digits() / "t10k-images-idx3-ubyte"
    for bits in (0x7fc00000, 0x7f800000, 0xff800000):
        bad = with_numbers(w.fashion(), "model.", bits)
        refused(w.run("predict", bad, picture), "fashion.safetensors", "not finite")
        refused(w.run("eval", bad, "--json"), "fashion.safetensors", "not finite")
        refused(w.run("train", "fashion", "--resume", bad), "fashion.safetensors", "not finite")
        bad = with_numbers(w.cube(), "model.", bits)
        refused(w.run("eval", bad), "cube.safetensors", "not finite")
        refused(w.run("solve", bad, "R"), "cube.safetensors", "not finite")
        bad = with_numbers(w.automaton(), "model.", bits)
        refused(w.run("circuit", bad), "life.safetensors", "not finite")


@attack
def json_is_json(w):
    model, cube, cells = w.fashion(), w.cube(), w.automaton()
    odd = w.path(b'\xff"\n\x1b[31m.safetensors'.decode("utf-8", "surrogateescape"))
    shutil.copy(model, odd)
    picture = w.digits() / "t10k-images-idx3-ubyte"
    for command in (w.train() + ["--epochs", "2", "--json"], ["eval", model, "--json"], ["eval", cube, "--json"],
                    ["eval", cells, "--json"], ["eval", odd, "--json"], ["predict", odd, picture, "--json"],
                    ["solve", cube, "--json"], ["solve", cube, "R U", "--json"], ["circuit", cells, "--json"],
                    ["run", cells, "--json"], ["doctor", "--json"], ["ops", "--json"], ["bench", "--list", "--json"],
                    ["bench", "mlp_step_b64", "--seconds", "0.01", "--json"],
                    ["tune", "bench", "mlp_step", "--to", "2", "--seconds", "0.01", "--json"],
                    ["train", "life", "--updates", "2", "--json"],
                    ["train", "cube", "--hidden", "8", "--batch", "8", "--steps", "3", "--json"]):
        said = w.run(*command)
        assert said.code == 0 or command[0] in ("train", "solve"), (command, said)
        assert said.out, (command, said)
        for line in said.out.splitlines():
            try:
                json.loads(line, parse_constant=lambda name: 1 / 0)
            except (ValueError, ZeroDivisionError):
                raise AssertionError(f"{command}: this is no JSON: {line!r}") from None


@attack
def what_is_shown_is_harmless(w):
    script, escape = "<script>alert(1)</script>", "\x1b[2J\x07\u009b31m\u202e"
    model = with_metadata(w.fashion(), classes="|".join([escape + script] * 10), data_name=escape)
    said = w.run("eval", model, "--data", w.digits())
    assert said.code == 0, said
    for bad in ("\x1b", "\x07", "\u009b", "\u202e"):
        assert bad not in said.out + said.err, repr(said.out)
    life = w.automaton()
    odd = w.path("<script>.safetensors")
    shutil.copy(life, odd)
    page = w.path("<b>.html")
    assert w.run("run", odd, "--html", page).code == 0
    assert page.read_text().count("<script") == 1  # the page's own
    name = w.path("a\x1b[31m\nb")
    for command in (["eval", name], ["train", "fashion", "--resume", name], ["rules", "run", name], ["run", name]):
        said = w.run(*command)
        refused(said)
        assert "\x1b" not in said.err, said
    said = w.run(b"eval".decode(), b"\xff\xfe".decode("utf-8", "surrogateescape"))
    refused(said)
    assert "\udcff" not in said.err, said


@attack
def a_profile_names_no_devices(w):
    profile = w.path("p.json")
    assert w.run("profile", "--out", profile, "bench", "mlp_step_b64", "--runs", "1").code == 0
    text = re.sub(r'"file":"[^"]*"', '"file":"/dev/zero"', profile.read_text())
    profile.write_text(text)
    assert w.run("profile", "diff", profile, profile, timeout=20).code in (0, 1)


@attack
def deep_and_broken_files_are_refused(w):
    for name, text in (("deep.json", b"[" * 100000), ("cut.json", b'{"steps":['), ("zero.json", b'[]\0[]'),
                       ("deep.wr", b"?- " + b"(" * 100000), ("bytes.wr", bytes(range(256)) * 50)):
        path = w.path(name)
        path.write_bytes(text)
        command = ["rules", "run", path] if name.endswith(".wr") else ["profile", "diff", path, path]
        refused(w.run(*command, timeout=20), name)


@attack
def mistyped_words_are_understood(w):
    for words, meant in ((["train", "fasion"], "fashion"), (["trian", "fashion"], "train"), (["evla", "x"], "eval"),
                         (["train", "fashion", "--epcohs", "1"], "--epochs"), (["help", "profle"], "profile")):
        refused(w.run(*words), "did you mean " + meant, code=2)
    assert w.run("trian").err.startswith("windrow: there is no command 'trian'"), w.run("trian")


@attack
def the_best_is_kept_beside_the_last(w):
    """A learning rate that ruins the net: the last epoch is not the best, and --resume goes on from the last."""
    save = w.path("run.safetensors")
    assert w.run(*w.train(), "--epochs", "6", "--lr", "0.5", "--validation", "0.2", "--save", save).code == 0
    history = [row.split() for row in parts_of(save)[0]["__metadata__"]["history"].split(";")]
    best = parts_of(w.path("run.best.safetensors"))[0]["__metadata__"]
    accuracies = [float(row[4]) for row in history]
    assert accuracies[len(best["history"].split(";")) - 1] == max(accuracies), (best["history"], history)
    assert len(history) == 6 and w.run("eval", w.path("run.best.safetensors")).code == 0


@attack
def a_budget_of_seconds_ends_a_training(w):
    for task in (w.train() + ["--epochs", "1000000"], ["train", "cube", "--hidden", "8", "--steps", "100000000"]):
        said = w.run(*task, "--save", w.path("x.safetensors"), env={"WINDROW_SECONDS": "0.2"}, timeout=60)
        assert said.code == 0 and w.path("x.safetensors").exists(), said
        w.path("x.safetensors").unlink()
    said = w.run("train", "life", "--seconds", "0.2", "--updates", "1000000", "--batch", "1", timeout=60)
    assert said.code == 1 and "not exact" in said.out, said
    refused(w.run(*w.train(), env={"WINDROW_SECONDS": "soon"}), "WINDROW_SECONDS")


# ---- slow ----

@slow
def kills_lose_nothing(w):
    """Killed at any moment, a checkpoint is whole, and the resumed run ends as an uninterrupted one."""
    save, whole = w.path("killed.safetensors"), w.path("whole.safetensors")
    long = w.train() + ["--epochs", "400"]
    assert w.run(*long, "--save", whole).code == 0
    kills = 0
    for round in range(200):
        command = [w.program, "train", "fashion", "--resume", save] if save.exists() else [w.program, *long, "--save", save]
        child = subprocess.Popen([os.fspath(c) for c in command], stdout=subprocess.DEVNULL, cwd=w.folder)
        try:
            if child.wait(timeout=0.15 + 0.01 * (round % 20)) == 0:
                break
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            kills += 1
            if save.exists():
                parts_of(save)
    assert kills > 0
    assert w.run("train", "fashion", "--resume", save).code == 0
    assert parts_of(save)[1] == parts_of(whole)[1], "the resumed run ended elsewhere"
    assert not [p for p in w.folder.iterdir() if ".tmp-" in p.name], "something was left behind"


@slow
def many_at_once(w):
    """Four trainings on whatever cores there are, one disk limit among them: nobody disturbs the others."""
    saves = [w.path(f"many-{i}.safetensors") for i in range(4)]
    children = [subprocess.Popen([w.program, *map(os.fspath, w.train()), "--epochs", "200", "--save", os.fspath(s)],
                                 stdout=subprocess.DEVNULL, cwd=w.folder) for s in saves]
    assert [c.wait(timeout=300) for c in children] == [0] * 4
    assert len({parts_of(s)[1] for s in saves}) == 1, "the same settings gave different bits"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("program", nargs="?", default="build/windrow")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    os.environ["WINDROW_THREADS"] = "2"
    for number in (signal.SIGINT, signal.SIGHUP):  # a background job of a shell may ignore them, and so would the program
        signal.signal(number, signal.SIG_DFL)
    failed = 0
    shared = tempfile.TemporaryDirectory(prefix="windrow-attack-")
    for function in ATTACKS:
        name = function.__name__
        if given.names and name not in given.names or not given.names and given.quick and name in SLOW:
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="windrow-attack-") as folder:
            try:
                function(World(os.path.abspath(given.program), folder, shared.name))
                result = "held"
            except (AssertionError, subprocess.TimeoutExpired, OSError) as error:
                failed += 1
                result = f"FAILED: {type(error).__name__}: {error}"
        print(f"{name:<48} {time.monotonic() - start:6.1f} s  {result}", flush=True)
    print(f"{failed} attacks succeeded" if failed else "every attack was held")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
