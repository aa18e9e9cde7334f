#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source in CuTe DSL -> one C++ file, and a library with the exported objects beside it. No GPU is needed.

    build.py SOURCE --header fk/ops/OP.h --arch "90a 100a" --out OUT.cpp

Writes OUT.cpp, which is compiled with the headers of the ABI, of this folder and of the CUDA toolkit, and OUT.a, which is linked with it and
with the CUDA runtime. SOURCE has the name of its op. Mistakes are printed as FILE:LINE: error: SENTENCE, and the exit code is 1.
"""
import argparse
import ctypes
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "triton")]  # contract.py is Triton's
from contract import Contract, Problem  # noqa: E402


def arches(text):
    words = [word.removeprefix("sm_") for word in text.replace(",", " ").split()]
    for word in words:
        if not re.fullmatch(r"\d{2,3}[af]?", word) or int(word.rstrip("af")) < 80:
            raise argparse.ArgumentTypeError(f"`{word}` is not a compute capability of sm_80 or later, such as 90a")
    if not words:
        raise argparse.ArgumentTypeError("no compute capability")
    return sorted(set(words))


def imported(folder):
    """The package's folder of libraries. The export looks for the names of its runtime in this process, and the package loads
    the runtime only where a GPU is."""
    os.environ.setdefault("CUTE_DSL_CACHE_DIR", str(folder / "cute"))
    os.environ.setdefault("CUTE_DSL_DISABLE_FILE_CACHING", "1")
    found = importlib.util.find_spec("cutlass")
    if not found or not found.origin:
        raise Problem(f"{sys.executable} has no CuTe DSL: install nvidia-cutlass-dsl, or name another Python by PYTHON")
    libraries = sorted(pathlib.Path(found.origin).parents[2].glob("cu*/lib/libcuda_dialect_runtime_static.a"))
    if not libraries:
        raise Problem("this version of nvidia-cutlass-dsl has no libcuda_dialect_runtime_static.a; tried: 4.8.1")
    ctypes.CDLL(str(libraries[-1].parent / "libcute_dsl_runtime.so"), mode=ctypes.RTLD_GLOBAL)
    return libraries[-1]


def archive(out, objects, library):
    """One library with all objects and those of the runtime."""
    script = f"create {out}\naddlib {library}\n" + "".join(f"addmod {file}\n" for file in objects) + "save\nend\n"
    done = subprocess.run(["ar", "-M"], input=script, capture_output=True, text=True)
    if done.returncode:
        raise Problem(f"ar cannot make {out}: {(done.stdout + done.stderr).strip()[:300]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--header", required=True)
    parser.add_argument("--arch", type=arches, default=["90a"])
    parser.add_argument("--out", required=True)
    a = parser.parse_args()
    out = pathlib.Path(a.out).resolve()
    try:
        library = imported(out.parent)
        from export import Source
        text = pathlib.Path(a.header).read_text()
        source = Source(a.source, lambda edition: Contract(pathlib.Path(a.source).stem, text, edition))
        made = out.with_suffix(".made")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        codes = source.compiled(a.arch, made)
        from generate import plugin_text
        out.write_text(plugin_text(source, codes, a.source))
        archive(out.with_suffix(".a"), [code.file.with_suffix(".o") for code in codes], library)
    except Problem as problem:
        where = problem.file or a.source
        print(f"{where}:{problem.line or 1}: error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
