"""Writes a first corpus for each fuzz target: small valid files of every kind. usage: seeds.py FOLDER [PROGRAM]

With the windrow program, checkpoints and profiles are among them.
"""
import gzip
import io
import json
import pathlib
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

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


def png(width, height, colour, samples, filter):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(bytes([filter]) + bytes((x * 7 + y) % 256 for x in range(width * samples)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


for filter in range(5):
    for colour, samples in ((0, 1), (2, 3), (4, 2), (6, 4)):
        put("picture", f"{colour}-{filter}.png", png(5, 3, colour, samples, filter))
put("picture", "plain.pgm", b"P2\n# two\n2 1 255\n0 255\n")
put("picture", "raw.pgm", b"P5 2 2 65535\n" + bytes(8))
put("picture", "a.npy", npy("|u1", [2, 2], bytes(4)))
put("picture", "b.npy", npy("<f4", [1, 2, 2, 1], bytes(16)))
put("picture", "a.idx", idx(8, [2, 2, 2], bytes(8)))
put("picture", "a.idx.gz", gzip.compress(idx(8, [1, 2, 2], bytes(4)), mtime=0))


def metadata_alone(path):
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    metadata = json.loads(raw[8:8 + size])["__metadata__"]
    return safetensors({}, b"", __metadata__={k: v for k, v in metadata.items() if len(v) < 200})


program = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else ""
if os.access(program, os.X_OK):
    with tempfile.TemporaryDirectory() as folder:
        def windrow(*arguments):
            subprocess.run([program, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env={**os.environ, "WINDROW_SECONDS": "0.01"})
        for task, more in (("fashion", ["--net", "softmax"]), ("cube", ["--hidden", "8"]), ("life", ["--batch", "1"])):
            windrow("train", task, *more, "--save", task)
            if os.path.exists(f"{folder}/{task}"):
                put("checkpoint", task, metadata_alone(f"{folder}/{task}"))
        windrow("profile", "--out", "p.json", "bench", "matmul_4x4x4_f32", "--runs", "1")
        if os.path.exists(f"{folder}/p.json"):
            put("profile", "one", pathlib.Path(f"{folder}/p.json").read_bytes())

        made = subprocess.run([program, "ops", "--json"], capture_output=True, text=True).stdout
        for name in sorted({json.loads(line)["op"].split("(")[0] for line in made.splitlines()}):
            put("graph", name, f"%0 = input 0 : f32[2,3]\n%1 = {name}(%0, %0) {{ints=[1, 0]}} : f32[2,3]\noutputs %1\n".encode())

put("graph", "step", b"""graph scopes=1 random_streams=0
%0 = input 0 : f32[4,3]
%1 = state "w" : f32[2,3]
%2 = permute(%1) {ints=[1, 0]} : f32[3,2] scope=1
%3 = einsum(%0, %2) {text="bi,io->bo"} : f32[4,2] scope=1
%4 = constant [2] : f32[1,1]
%5 = broadcast(%4) {ints=[4, 2]} : f32[4,2]
%6 = mul(%5, %3) : f32[4,2] copy=1
%7 = div(%6, %4) : f32[4,2] gradient
outputs %7
updates %1 <- %1
""")
put("graph", "scan", b"""%0 = input 0 : f32[3,2]
%1 = input 1 : f32[2]
%2 = scan(%1, %0) {ints=[3, 0, 1, 1, 0, 0, 1]} : f32[4,2]
{
  %0 = input 0 : f32[2]
  %1 = input 1 : f32[2]
  %2 = add(%0, %1) : f32[2]
  outputs %2
}
outputs %2
""")
put("log", "table", b"\0step,seconds,loss\n1,0.5,0.25\n2,1,\"1e-3\"\n")
put("log", "lines", b'\0{"step":1,"loss":0.5}\n{"epoch":2,"note":"x","loss":null}\n')
put("log", "event", b"\1" + bytes.fromhex("09000000000000f03f10ac022a0d0a0b0a046c6f7373150000003f"))
put("log", "record", b"\3" + bytes.fromhex("1b000000000000001a0d9e1309000000000000f03f10ac022a0d0a0b0a046c6f7373150000003f4e5c1fd1"))
