"""Exchanges files with Python's safetensors; safetensors_test.cpp runs it.

check FILE           FILE, written by Windrow, holds exactly what is expected
write FILE           writes the same with the Python library
damage FILE FOLDER   writes damaged copies of FILE, *.bad where the library refuses them and *.good where it does not
"""
import json
import random
import struct
import sys

import numpy as np
from safetensors import deserialize, safe_open
from safetensors.numpy import load_file, save_file

TENSORS = {
    "f32": np.array([[1, 2, 3], [4, 5, 6.5]], np.float32),
    "f64": np.array([1e300, -0.0]),
    "i32": np.array([-2147483647, 7], np.int32),
    "u8": np.array([0, 255], np.uint8),
    "flags": np.array([True, False, True]),
    "scalar": np.array(2.5, np.float32),
    "none": np.zeros((0, 3), np.float32),
}
METADATA = {"step": "12", "\u00e9": '"\n'}


def check(path):
    found = load_file(path)
    assert set(found) == set(TENSORS), found.keys()
    for name, array in TENSORS.items():
        same = found[name].dtype == array.dtype and found[name].shape == array.shape
        assert same and found[name].tobytes() == array.tobytes(), name
    with safe_open(path, "numpy") as file:
        assert file.metadata() == METADATA, file.metadata()


def damaged(good, rng):
    """One damaged copy: bytes changed anywhere, or the header rewritten with one thing wrong."""
    (size,) = struct.unpack("<Q", good[:8])
    header, data = good[8 : 8 + size], good[8 + size :]
    kind = rng.randrange(6)
    if kind == 0:
        return good[: rng.randrange(len(good))]
    if kind == 1:
        return good + bytes(rng.randrange(1, 9))
    if kind == 2:
        at = rng.randrange(len(good))
        return good[:at] + bytes([rng.randrange(256)]) + good[at + 1 :]
    if kind == 3:  # a byte of the header replaced by one JSON cares about
        at = rng.randrange(size)
        header = header[:at] + rng.choice(b'{}[]",:019-.eE \x00\xff').to_bytes(1, "little") + header[at + 1 :]
    elif kind == 4:  # a number changed
        tree = json.loads(header)
        entry = tree[rng.choice([name for name in tree if name != "__metadata__"])]
        numbers = entry[rng.choice(["shape", "data_offsets"])]
        values = [0, 1, 2, 3, 4, 8, 24, -1, 1.5, 2**31, 2**32, 2**62, 2**63, 2**64 - 1, 2**64, "1", None, [1]]
        if numbers and rng.randrange(4):
            numbers[rng.randrange(len(numbers))] = rng.choice(values)
        elif rng.randrange(2):
            numbers.append(rng.choice(values))
        elif numbers:
            numbers.pop()
        header = json.dumps(tree).encode()
    else:  # an entry or field changed
        tree = json.loads(header)
        name = rng.choice(list(tree))
        what = rng.randrange(5)
        if what == 0:
            del tree[name]
        elif what == 1:
            tree[name] = rng.choice([1, "x", None, [], {}])
        elif what == 2 and name != "__metadata__":
            tree[name]["dtype"] = rng.choice(["F32", "I32", "F64", "U8", "BOOL", "f32", "", 1, None])
        elif what == 3 and name != "__metadata__":
            del tree[name][rng.choice(["dtype", "shape", "data_offsets"])]
        else:
            tree[name]["more"] = rng.choice([1, "x", None, [[]], {"a": 1}])
        header = json.dumps(tree).encode()
    return struct.pack("<Q", len(header)) + header + data


def damage(path, folder):
    rng = random.Random(1)
    good = open(path, "rb").read()
    for i in range(2000):
        content = damaged(good, rng)
        try:
            deserialize(content)
            refused = False
        except Exception:
            refused = True
        with open(f"{folder}/{i}.{'bad' if refused else 'good'}", "wb") as out:
            out.write(content)


if __name__ == "__main__":
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "write":
        save_file(TENSORS, arguments[0], METADATA)
    else:
        {"check": check, "damage": damage}[command](*arguments)
