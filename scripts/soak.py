#!/usr/bin/env python3
"""A long life of trainings in a short time: four at once on whatever cores there are, each killed, asked to stop, left
without disk space and resumed, again and again, until its last epoch. Nothing may be lost: every checkpoint can be read at any
moment, and every training ends with the bits of one that nobody disturbed.

usage: scripts/soak.py [PROGRAM [SECONDS]]   (make soak; about 300 seconds)
"""
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attack import World, parts_of  # noqa: E402

FATES = ("kill", "stop", "hang up", "no disk", "leave alone")


class Training(threading.Thread):
    """One training, with whatever comes its way."""

    def __init__(self, world, number, seconds):
        super().__init__(daemon=True)
        self.world, self.random, self.end = world, random.Random(number), time.monotonic() + seconds
        self.save = world.path(f"soak-{number}.safetensors")
        # Half of them on images, half on automata: two kinds of checkpoint.
        self.words = (world.train() + ["--schedule", "constant", "--epochs", "100000"] if number % 2 == 0 else
                      ["train", "life", "--batch", "4", "--update-gates", "32,16,8,4,1", "--updates", "10000000",
                       "--finish", "0", "--threads", "1"])
        self.words += ["--seed", str(number + 1)]
        self.fates = dict.fromkeys(FATES, 0)
        self.failure = None

    def command(self, save):
        if self.save.exists() and save == self.save:
            return [self.words[0], self.words[1], "--resume", save]
        return [*self.words, "--save", save]

    def one_session(self):
        fate = self.random.choice(FATES)
        self.fates[fate] += 1

        def little_disk():
            if fate == "no disk":
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

        child = subprocess.Popen([self.world.program, *map(os.fspath, self.command(self.save))], cwd=self.world.folder,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=little_disk)
        try:
            child.wait(timeout=self.random.uniform(0.1, 3))
        except subprocess.TimeoutExpired:
            pass
        if child.poll() is None:
            child.send_signal({"kill": signal.SIGKILL, "hang up": signal.SIGHUP}.get(fate, signal.SIGTERM))
        child.wait(timeout=120)
        if self.save.exists():
            parts_of(self.save)  # whole, whatever happened

    def run(self):
        try:
            while time.monotonic() < self.end:
                self.one_session()
        except Exception as error:  # noqa: BLE001: said by the main thread
            self.failure = error

    def compare(self):
        """An undisturbed training of as many steps ends with the same numbers."""
        header, data = parts_of(self.save)
        done = header["__metadata__"]["step" if "fashion" in self.words else "done"]
        whole = self.world.path("whole-" + self.save.name)
        words = [*self.words, "--save", whole]
        if "fashion" in self.words:  # 200 images, some of them put aside: so many steps are an epoch
            place = header["__metadata__"]["loader"]
            return f"{done} steps ({place})", self.same_after_epochs(words, header, data, whole)
        words[words.index("10000000")] = done
        self.world.run(*words, timeout=600)
        return f"{done} updates", parts_of(whole)[1] == data

    def same_after_epochs(self, words, header, data, whole):
        """The checkpoint goes on to the end of its epoch; so does the other."""
        history = [e for e in header["__metadata__"]["history"].split(";") if e]
        epochs = len(history) + 1
        with_limit = [str(epochs) if w == "100000" else w for w in words]
        assert self.world.run(*with_limit, timeout=600).code == 0
        best = header["__metadata__"]["history"]
        theirs = parts_of(whole)[0]["__metadata__"]["history"]
        # Losses and accuracies of every epoch, bit for bit; the times differ.
        figures = lambda text: [e.split()[:5] for e in text.split(";") if e]  # noqa: E731
        return figures(theirs)[:len(figures(best))] == figures(best)


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/windrow")
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 300
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a background job of a shell may ignore it, and so would the program
    with tempfile.TemporaryDirectory(prefix="windrow-soak-") as folder, tempfile.TemporaryDirectory() as kept:
        world = World(program, folder, kept)
        world.digits()
        trainings = [Training(world, i, seconds) for i in range(4)]
        for t in trainings:
            t.start()
        for t in trainings:
            t.join()
        failed = 0
        for t in trainings:
            if t.failure:
                what, same = repr(t.failure), False
            else:
                what, same = t.compare()
            failed += not same
            fates = ", ".join(f"{n} x {f}" for f, n in t.fates.items())
            print(f"{t.save.name}: {what}; {fates}: {'nothing lost' if same else 'FAILED'}", flush=True)
        left = [p.name for p in pathlib.Path(folder).iterdir() if ".tmp-" in p.name]
        # What a killed writer left goes away with the next save; at most one each is young enough to be there.
        if len(left) > len(trainings):
            failed += 1
            print(f"left behind: {left}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
