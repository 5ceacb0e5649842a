"""Type stubs of windrow._core, for editors and type checkers: what nanobind says of the module as C++ made it, with what
the package adds to its classes (stubs.txt).

usage: stubs.py FOLDER_OF_THE_PACKAGE
"""
import importlib
import pathlib
import re
import sys
import types

from nanobind.stubgen import StubGen, load_pattern_file


def main(folder):
    package = types.ModuleType("windrow")  # not the package's own files: they change the classes they import
    package.__path__ = [str(folder)]
    sys.modules["windrow"] = package
    core = importlib.import_module("windrow._core")
    out = folder / "_core" / "__init__.pyi"
    out.parent.mkdir(exist_ok=True)
    patterns = load_pattern_file(str(pathlib.Path(__file__).with_name("stubs.txt")))
    generator = StubGen(core, recursive=True, patterns=patterns, output_file=out)
    generator.put(core)
    out.write_text(generator.get())
    for file in out.parent.rglob("*.pyi"):
        # an op gives a Tensor or an Array, as its operands are
        text = re.sub(r"-> object\b", "-> typing.Any", file.read_text())
        if "typing.Any" in text and "\nimport typing" not in text:
            text = re.sub(r"\A(\"\"\".*?\"\"\"\n\n)?", r"\1import typing\n", text, count=1, flags=re.S)
        file.write_text(text)
    (folder / "py.typed").write_text("")


main(pathlib.Path(sys.argv[1]))
