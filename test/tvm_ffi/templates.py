#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""templates.py FK_HOST SOURCE_DIR: functions which tvm-ffi exports become plugins. Templates on the CPU are right, also with secret inputs; a wrong
one is found; errors which a function raises become refusals and failures with their sentence; mistakes have a file, a line and the nearest name."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
python = os.environ.get("PYTHON", sys.executable)
if subprocess.run([python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('tvm_ffi') is None)"]).returncode:
    print(f"skipped: {python} has no package apache-tvm-ffi; PYTHON names another Python")
    sys.exit(77)
place = tempfile.TemporaryDirectory()
work = pathlib.Path(place.name)
env = dict(os.environ, PYTHON=python, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"))


def run(*words, code=0):
    done = subprocess.run([host, *map(str, words)], env=env, capture_output=True, text=True)
    assert done.returncode == code, f"{words}: exit code {done.returncode}, expected {code}\n{done.stdout[-1500:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


for op in ("rms_norm", "linear", "paged_attention"):
    assert "plain and correct" in run("new", op, "--lang", "tvm_ffi", "--name", f"{op}_t")
    said = run("build", f"{op}_t")
    assert f"with {op}" in said and "warning" not in said and "refused" not in said, said
    assert "PASS" in run("check", f"{op}_t")
run("bench", "rms_norm_t", "--size", "smoke", "--seconds", "0", "--json", work / "verdict.json")
status = json.loads((work / "verdict.json").read_text())["status"]
assert status == "correct", status

# The function's own errors: a refusal before the call, and a failure in it. A wrong value is found.
file = work / "candidates/rms_norm_t/rms_norm.cpp"
text = file.read_text()
head = "TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm, rms_norm);"
refusing = f"""void rms_norm_supports(TensorView x, Optional<TensorView>, Optional<TensorView>, TensorView, double) {{
  if (x.dtype().bits == 16) TVM_FFI_THROW(TypeError) << "sixteen bits are too few";
}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm_supports, rms_norm_supports);
"""
file.write_text(text.replace(head, refusing + head).replace("static_cast<float>(eps)", "static_cast<float>(eps) + 1"))
run("build", "rms_norm_t")
said = run("check", "rms_norm_t", code=1)
assert "sixteen bits are too few" in said and "wrong" in said, said

# Mistakes: no compiler is needed to find them.
for old, new, want in [("residual, weight", "residual, wait", ":4: error: `wait` is no tensor and no scalar of `rms_norm`; did you mean `weight`?"),
                       ("x, residual", "residual", "error: the function does not get `x`, which calls of `rms_norm` give"),
                       (head, head.replace("(rms_norm,", "(norm,"), "error: TVM_FFI_DLL_EXPORT_TYPED_FUNC exports no `rms_norm`; did you mean"),
                       ("claims deterministic", "claims deterministik", "`deterministik` is no claim; did you mean `deterministic`?")]:
    assert old in text, old
    file.write_text(text.replace(old, new, 1))
    said = run("build", "rms_norm_t", code=1)
    assert want in said, said

# A source without a template compiles and refuses every case.
assert "refuses every case" in run("new", "softmax", "--lang", "tvm_ffi", "--name", "empty")
run("build", "empty")
assert "the function is not written yet" in run("check", "empty", code=1)
print("templates: they compile and are right")
