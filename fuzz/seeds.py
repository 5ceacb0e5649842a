"""Writes a first corpus for each fuzz target: small valid files of every kind. usage: seeds.py FOLDER"""
import gzip
import io
import json
import pathlib
import struct
import sys
import zipfile

root = pathlib.Path(sys.argv[1])


def put(target, name, content):
    folder = root / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def idx(code, shape, data):
    return bytes([0, 0, code, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape) + data


def npy(descr, shape, data, fortran=False, version=1):
    dims = "(" + "".join(f"{n}, " for n in shape) + ")"
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {dims}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


def safetensors(entries, data, **more):
    tree = {name: {"dtype": d, "shape": s, "data_offsets": o} for name, (d, s, o) in entries.items()}
    header = json.dumps({**tree, **more}).encode()
    return struct.pack("<Q", len(header)) + header + data


for code, size in {8: 1, 9: 1, 11: 2, 12: 4, 13: 4, 14: 8}.items():
    plain = idx(code, [2, 3], bytes(range(6 * size)))
    put("idx", f"{code}", plain)
    put("idx", f"{code}.gz", gzip.compress(plain, mtime=0))

arrays = {}
for descr in ["<f4", ">f4", "<f8", ">f8", "<i4", ">i4", "<i8", ">i8", "|u1", "|i1", "<u2", "<u4"]:
    arrays[descr[1:] + ("b" if descr[0] == ">" else "")] = npy(descr, [2, 1], bytes(2 * int(descr[2])))
arrays["b1"] = npy("|b1", [2], b"\x01\x00")
arrays["f"] = npy("<f4", [2, 2], bytes(16), fortran=True)
arrays["v2"] = npy("<f4", [], bytes(4), version=2)
arrays["v3"] = npy("<f4", [0, 3], b"", version=3)
for name, content in arrays.items():
    put("npy", name, content)
for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", method) as out:
        for name in ("f4", "b1", "f"):
            out.writestr(zipfile.ZipInfo(name + ".npy"), arrays[name], method)
    put("npz", str(method), archive.getvalue())

texts = [b"1,2\n3,4\n", b"x,y\r\n1,\r\nNA,2e-3\r\n", b'"a ""b""","x\ny"\n"1",2\n', b"x;y\n1;nan\n", b"\xef\xbb\xbfx\n1\n\n2"]
for i, text in enumerate(texts):
    for options in (0, 1, 16, 40, 64, 128):
        put("csv", f"{i}-{options}", bytes([options]) + text)

put("safetensors", "empty", safetensors({}, b""))
put("safetensors", "metadata", safetensors({}, b"", __metadata__={"a": "b"}))
put("safetensors", "some", safetensors(
    {"w": ("F32", [2, 1], [0, 8]), "n": ("F64", [0], [8, 8]), "s": ("I32", [], [8, 12]), "b": ("BOOL", [2], [12, 14]),
     "u": ("U8", [1], [14, 15])}, bytes(15), __metadata__={"step": "1"}))

for program in sorted((pathlib.Path(__file__).parent.parent / "examples/rules").glob("*.wr")):
    put("rules", program.stem, program.read_bytes())
