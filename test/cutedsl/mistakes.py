#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mistakes.py FK_HOST SOURCE_DIR: each mistake in a CuTe DSL source is told with file and line and the nearest right name."""
from environment import run, source, work

GOOD = (source / "plugin_api/adapters/cutedsl/template/rms_norm.py").read_text()
GOOD = GOOD.replace(' for x in ("bf16", "f16", "f32")] + [{"x": x} for x in ("bf16", "f16", "f32")]', ' for x in ("bf16",)]')
folder = work / "candidates/m"
folder.mkdir(parents=True)


def line_of(word):
    return 1 + GOOD[:GOOD.index(word)].count("\n")


for old, new, expected in (
        ('DTYPES = [', 'DTYPES = [[', "error: "),
        ('PLUGIN = ("template_cutedsl", "0.1.0")', 'PLUGIN = "m"', f"rms_norm.py:{line_of('PLUGIN')}: error: PLUGIN has to be a pair of a name and a version"),
        ("DTYPES =", "DTYPE =", f"rms_norm.py:{line_of('DTYPES = [')}: error: `DTYPE` is not a table of this adapter; did you mean `DTYPES`?"),
        ('"weight": x', '"wieght": x', "DTYPES: `wieght` is no tensor of `rms_norm`; did you mean `weight`?"),
        ('("bf16",)', '("i32",)', "DTYPES: `weight` is never 'i32'; expected: f32, bf16, f16"),
        ("LAUNCH = rms_norm", "LAUNCH = 3", "LAUNCH has to be a function with @cute.jit"),
        ("def rms_norm(x: cute.Tensor, weight", "def rms_norm(x: cute.Tensor, wieght", f"rms_norm.py:{line_of('def rms_norm')}: error: parameter `wieght` is nothing "
         "that the contract of `rms_norm` has"),
        ("stream: CUstream):", "stream):", "error: `stream` needs its type: `stream: CUstream`"),
        ('"deterministic": True', '"determinist": True', "CLAIMS: `determinist` is not a claim; did you mean `deterministic`?"),
        ("cute.math.rsqrt(", "cute.math.rsqr(", f"rms_norm.py:{line_of('cute.math.rsqrt')}: error: ")):
    assert GOOD.count(old) >= 1, old
    (folder / "rms_norm.py").write_text(GOOD.replace(old, new, 1))
    said = " ".join(run("build", "m", code=1).split())
    assert expected in said and "Traceback" not in said, f"expected: {expected}\nsaid: {said[-1500:]}"
(folder / "rms_norm.py").write_text("open('/etc/hostname').read()\n" + GOOD)
assert "rms_norm.py:1: error: PermissionError" in run("build", "m", code=1)
print("mistakes: each is told")
