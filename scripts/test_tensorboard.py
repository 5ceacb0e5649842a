#!/usr/bin/env python3
"""Whether the tensorboard package reads what `windrow train --log FOLDER` writes: every figure of the CSV log of the same
training, at the same step; and whether `windrow report` reads what tensorboard's own writer writes.

usage: scripts/test_tensorboard.py PROGRAM   (in an environment with tensorboard: make test-tensorboard)
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="windrow-tensorboard-") as folder:
        subprocess.run([program, "train", "life", "--seconds", "2", "--log", "run.csv", "--log", "events"], cwd=folder,
                       stdout=subprocess.DEVNULL, check=False)
        with open(os.path.join(folder, "run.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows, "nothing was logged"
        read = EventAccumulator(os.path.join(folder, "events"))
        read.Reload()
        figures = 0
        for name in [n for n in rows[0] if n not in ("step", "seconds")]:
            events = [(e.step, e.value) for e in read.Scalars(name)]
            wanted = [(int(r["step"]), float(r[name])) for r in rows if r[name]]
            assert len(events) == len(wanted), f"{name}: {len(events)} events for {len(wanted)} rows"
            for (step, value), (row_step, row_value) in zip(events, wanted):
                assert step == row_step and abs(value - row_value) <= 1e-6 * max(1, abs(row_value)), (name, step, value)
                figures += 1

        writer = EventFileWriter(os.path.join(folder, "theirs"))
        for step in range(5):
            value = Summary.Value(tag="loss", simple_value=1 / (1 + step))
            writer.add_event(Event(wall_time=100 + step, step=step, summary=Summary(value=[value])))
        writer.close()
        answer = subprocess.run([program, "report", "theirs", "--json"], cwd=folder, capture_output=True, check=True).stdout
        last = json.loads(answer)["runs"][0]
        assert last["points"] == 5 and last["step"] == 4 and abs(last["last"]["loss"] - 0.2) < 1e-6, last
    print(f"tensorboard reads all {figures} figures, and windrow reads tensorboard's")


if __name__ == "__main__":
    main()
