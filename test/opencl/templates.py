#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Candidates in OpenCL C, as an author makes them: new, build, check, and mistakes with their lines.

    templates.py FK-HOST PROJECT
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HOST, PROJECT = sys.argv[1:3]
TEMPLATES = pathlib.Path(PROJECT) / "plugin_api/adapters/opencl/template"


def run(folder, *words, status=0):
    env = dict(os.environ, FK_CANDIDATES=str(folder / "candidates"), FK_CACHE=str(folder / "cache"))
    done = subprocess.run([HOST, *words], cwd=folder, capture_output=True, text=True, env=env)
    said = done.stdout + done.stderr
    assert done.returncode == status, f"{words}: exit {done.returncode} instead of {status}\n{said}"
    return said


def main():
    devices = subprocess.run([HOST, "list", "devices"], capture_output=True, text=True).stdout
    if "opencl:0" not in devices:
        print("skipped: the OpenCL loader finds no platform")
        return 77
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        for source in sorted(TEMPLATES.glob("*.cl")):
            op = source.stem
            run(folder, "new", op, "--lang", "opencl", "--name", f"my_{op}")
            run(folder, "build", f"my_{op}")
            said = run(folder, "check", f"my_{op}", "--device", "opencl:0")
            assert "PASS" in said, said
        # A source without a template compiles and refuses every case.
        run(folder, "new", "softmax", "--lang", "opencl", "--name", "empty")
        run(folder, "build", "empty")
        said = run(folder, "check", "empty", "--device", "opencl:0", status=1)
        assert "the kernel is not written yet" in said, said
        # Mistakes have a file, a line and the nearest name.
        wrong = folder / "candidates/my_silu_and_mul/silu_and_mul.cl"
        text = wrong.read_text()
        for old, new, want in [
                ("TENSOR(out)", "TENSOR(outt)", ":6: error: `outt` is no tensor of the op; did you mean `out`?"),
                ("launch silu_and_mul:", "launch silu_and_mull:", ":5: error: there is no kernel `silu_and_mull`; did you mean `silu_and_mul`?"),
                ("T * F", "T * FF", ":5: error: `FF` is no axis and no scalar of the op; did you mean `F`?")]:
            assert old in text, old
            wrong.write_text(text.replace(old, new))
            said = run(folder, "build", "my_silu_and_mul", status=1)
            assert want in said, said
        # A kernel with another value is wrong.
        wrong.write_text(text.replace("1 + exp(-gate)", "1 + exp(gate)"))
        run(folder, "build", "my_silu_and_mul")
        said = run(folder, "check", "my_silu_and_mul", "--device", "opencl:0", status=1)
        assert "wrong" in said, said
    return 0


if __name__ == "__main__":
    sys.exit(main())
