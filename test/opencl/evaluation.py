#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Verdict, receipt, archive and evaluation of a candidate on an OpenCL device carry the kind of device and its driver.

    evaluation.py FK-HOST PROJECT
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HOST = sys.argv[1]
SUITE = """suite: tiny
summary: one op and one model
minutes: 2
ops:
  size: smoke
  seconds: 0.05
  families: [ordinary]
models:
  scenarios: [mixtral]
  profile: tiny
  workloads: [single_request]
"""
MANIFEST = """submission: mine
author: somebody
kind: human
plugins:
  mine.so: [silu_and_mul]
"""


def main():
    devices = subprocess.run([HOST, "list", "devices"], capture_output=True, text=True).stdout
    if "opencl:0" not in devices:
        print("skipped: the OpenCL loader finds no platform")
        return 77
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        env = dict(os.environ, FK_CANDIDATES=str(folder / "candidates"), FK_CACHE=str(folder / "cache"), FK_DATA=str(folder / "data"))

        def run(*words):
            done = subprocess.run([HOST, *words], cwd=folder, capture_output=True, text=True, env=env)
            assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
            return done.stdout

        run("new", "silu_and_mul", "--lang", "opencl", "--name", "mine")
        run("build", "mine")
        words = ["bench", "mine", "--device", "opencl:0", "--size", "smoke", "--seconds", "0.05", "--json", "verdict.json"]
        run(*words)
        verdict = json.loads((folder / "verdict.json").read_text())
        assert verdict["device"].startswith("opencl:0 "), verdict["device"]
        assert "backend opencl " in verdict["driver"], verdict["driver"]  # the library's version and hash
        # The store answers an equal question with the same receipt.
        run(*words[:-1], "again.json")
        again = json.loads((folder / "again.json").read_text())
        assert again["commitment"] == verdict["commitment"], "judged a second time"
        assert "opencl:0 " in run("receipts")
        # The archive keeps kinds of device apart.
        assert "correct" in run("archive", "best", "silu_and_mul", "--device", "opencl")
        assert "correct" not in run("archive", "best", "silu_and_mul", "--device", "cpu")
        # A submission gets a score in a model on the device.
        submission = folder / "submission"
        submission.mkdir()
        (submission / "mine.so").write_bytes((folder / "candidates/mine/mine.so").read_bytes())
        (submission / "manifest.yaml").write_text(MANIFEST)
        (folder / "tiny.yaml").write_text(SUITE)
        said = run("eval", "tiny.yaml", "--candidates", "submission", "--device", "opencl:0", "--json", "score.json")
        assert "MacroEval 1.000" in said, said
        text = (folder / "score.json").read_text()
        assert '"opencl:0 ' in text and "backend opencl " in text, text
    return 0


if __name__ == "__main__":
    sys.exit(main())
