#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source in Triton -> one C++ file with cubins inside. No GPU is needed.

    build.py SOURCE --header fk/ops/OP.h --arch 90 --out OUT.cpp

OUT.cpp is compiled as C++17 with the headers of the ABI, of this folder and of the CUDA toolkit, and linked with the CUDA runtime.
SOURCE has the name of its op. Mistakes are printed as FILE:LINE: error: SENTENCE, and the exit code is 1.
"""
import argparse
import os
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def arches(text):
    """"90a,100" or "sm_80 sm_90" -> [90, 100]."""
    out = []
    for word in text.replace(",", " ").split():
        number = re.fullmatch(r"(?:sm_)?(\d+)[af]?", word)
        if not number or int(number.group(1)) < 80:
            raise argparse.ArgumentTypeError(f"`{word}` is not a compute capability of sm_80 or later, such as 90")
        out.append(int(number.group(1)))
    if not out:
        raise argparse.ArgumentTypeError("no compute capability")
    return sorted(set(out))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--header", required=True)
    parser.add_argument("--arch", type=arches, default=[90])
    parser.add_argument("--out", required=True)
    a = parser.parse_args()
    folder = pathlib.Path(a.out).resolve().parent
    os.environ.setdefault("TRITON_HOME", str(folder))
    os.environ.setdefault("TRITON_CACHE_DIR", str(folder / "triton"))
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # later versions change their default
    from contract import Contract, Problem
    try:
        try:
            import triton  # noqa: F401
        except ImportError as error:
            raise Problem(f"{sys.executable} has no Triton ({error}): install it, or name another Python by PYTHON") from None
        import compile as kernels
        import generate
        import source as authors
        if said := kernels.warning():
            print(f"{a.source}: note: {said}", file=sys.stderr)
        text = pathlib.Path(a.header).read_text()
        read = authors.Source(a.source, lambda edition: Contract(pathlib.Path(a.source).stem, text, edition))
        jobs = kernels.jobs_of(read, a.arch)
        with tempfile.TemporaryDirectory(dir=folder) as own:  # several sources may be built at the same time
            made = kernels.compile_all(read, jobs.values(), own)
        pathlib.Path(a.out).write_text(generate.plugin_text(read, jobs, made, a.arch, a.source))
    except Problem as problem:
        where = a.source
        if problem.file and pathlib.Path(problem.file).resolve() != pathlib.Path(a.source).resolve():
            where = os.path.relpath(problem.file)
        print(f"{where}:{problem.line or 1}: error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
