"""What every peer's script shares: the names of the cases, the timing, and a loop that is told what to time.

A peer is a process that stays: it reads lines "CASE SECONDS" and answers each with a line of JSON, so that compare.py can
take turns between Windrow and the peers, case by case, without starting (and compiling) anything anew.
"""
import json
import re
import resource
import sys
import time

BLOCKS = 9


class Unknown(Exception):
    """The peer has no such case."""


def parse(case):
    """(family, sizes, batch): "plain_mlp_784_128_10_b64" -> ("plain_mlp", (784, 128, 10), 64)."""
    if m := re.fullmatch(r"plain_mlp((?:_\d+){2,})_b(\d+)", case):
        return "plain_mlp", tuple(int(n) for n in m[1][1:].split("_")), int(m[2])
    if m := re.fullmatch(r"(dqn_step|dqn_act)(?:_w(\d+))?_b(\d+)", case):
        return m[1], (int(m[2] or 128),), int(m[3])
    if m := re.fullmatch(r"(mlp_step|cnn_step)_b(\d+)", case):
        return m[1], (), int(m[2])
    if m := re.fullmatch(r"([a-z_]+_step)(?:_w(\d+))?_b(\d+)", case):  # the families; width 0: the usual one
        return m[1], (int(m[2] or 0),), int(m[3])
    if m := re.fullmatch(r"matmul(1000)_(f32|f64)", case):
        return "matmul_" + m[2], (1000, 1000, 1000), 0
    if m := re.fullmatch(r"matmul_(\d+)x(\d+)x(\d+)_(f32|f64)", case):
        return "matmul_" + m[4], (int(m[1]), int(m[2]), int(m[3])), 0
    return case, (), 0


def dense_net(nn, sizes):
    """Linear layers with ReLU between them, of PyTorch's nn or of another that names its layers alike."""
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def blocks(call, seconds):
    """Microseconds a call, of blocks of calls that take about `seconds` in all; sorted."""
    start = time.perf_counter()
    call()
    one = max(time.perf_counter() - start, 1e-7)
    turns = max(1, int(seconds / BLOCKS / one))
    times = []
    for _ in range(BLOCKS):
        start = time.perf_counter()
        for _ in range(turns):
            call()
        times.append((time.perf_counter() - start) / turns * 1e6)
    return sorted(times)


def serve(make, versions):
    """`make(family, sizes, batch)` returns a function that does the work once and returns when it is done."""
    print(json.dumps({"ready": True, **versions}), flush=True)
    calls = {}
    for line in sys.stdin:
        case, seconds = line.split()
        answer = {"case": case}
        try:
            if case not in calls:
                start = time.perf_counter()
                calls[case] = make(*parse(case))
                calls[case]()
                answer["first_ms"] = (time.perf_counter() - start) * 1e3
                for _ in range(3):
                    calls[case]()
            times = blocks(calls[case], float(seconds))
            answer |= {"us": times[len(times) // 2], "best_us": times[0], "blocks": times}
            answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        except Unknown:
            answer["missing"] = True
        except Exception as problem:  # a peer's failure is a result, not an end of the comparison
            answer["failed"] = f"{type(problem).__name__}: {problem}"[:300]
        print(json.dumps(answer), flush=True)
