#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source in TileLang -> one C++ file with cubins inside. No GPU is needed.

    build.py SOURCE --header fk/ops/OP.h --arch 90a --out OUT.cpp

TileLang writes the CUDA source of each kernel, and nvcc (NVCC, CUDA_HOME) compiles it. OUT.cpp is compiled with the headers of the ABI, of this
folder and of the CUDA toolkit, and linked with the CUDA runtime. SOURCE has the name of its op. Mistakes are printed as FILE:LINE: error:
SENTENCE, and the exit code is 1.
"""
import argparse
import os
import pathlib
import re
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--header", required=True)
    parser.add_argument("--arch", type=arches, default=["90a"])
    parser.add_argument("--out", required=True)
    a = parser.parse_args()
    folder = pathlib.Path(a.out).resolve().parent
    for name in ("TILELANG_CACHE_DIR", "TILELANG_TMP_DIR", "TVM_CACHE_DIR", "HOME"):
        os.environ[name] = str(folder)
    try:
        try:
            import tilelang  # noqa: F401
        except ImportError as error:
            raise Problem(f"{sys.executable} has no TileLang ({error}): install tilelang, or name another Python by PYTHON") from None
        from export import Source
        from generate import plugin_text
        text = pathlib.Path(a.header).read_text()
        source = Source(a.source, lambda edition: Contract(pathlib.Path(a.source).stem, text, edition))
        kernels = source.compiled(a.arch, folder)
        pathlib.Path(a.out).write_text(plugin_text(source, kernels, a.arch, a.source))
    except Problem as problem:
        print(f"{problem.file or a.source}:{problem.line or 1}: error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
