#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mistakes.py FK_HOST SOURCE_DIR: each mistake in a Triton source is told with file, line, what was expected and the nearest right name."""
import shutil, subprocess

from environment import env, host, python, run, source, work

adapter = source / "plugin_api/adapters/triton"
header = work / "rms_norm.h"
header.write_text(subprocess.run([host, "show", "rms_norm", "--header"], capture_output=True, text=True, check=True).stdout)
paged = work / "paged_attention.h"
paged.write_text(subprocess.run([host, "show", "paged_attention", "--header"], capture_output=True, text=True, check=True).stdout)

GOOD = '''import triton
import triton.language as tl
@triton.jit
def half(value):
    return value / 2
@triton.jit
def norm(x, weight, out, C, eps,
         BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * C + tl.arange(0, BLOCK)
    value = tl.load(x + at).to(tl.float32) * eps
    value = half(value)
    tl.store(out + at, value.to(out.dtype.element_ty))
PLUGIN = ("norms", "0.1.0")
LAUNCH = [(norm, ["T"])]
DTYPES = [{"x": "bf16", "weight": "bf16"}]
VARIANTS = [{"when": "C <= 64", "BLOCK": 64}]
'''


def build(text, expected, arch="90", op="rms_norm", code=1):
    folder = work / "source"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / f"{op}.py").write_text(text)
    done = subprocess.run([python, adapter / "build.py", f"{op}.py", "--header", header if op == "rms_norm" else paged, "--arch", arch,
                           "--out", work / "made.cpp"], cwd=folder, env=env, capture_output=True, text=True)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == code, f"exit code {done.returncode}, expected {code} ({expected}): {said[-1500:]}"
    assert expected in said, f"expected: {expected}\nsaid: {said[-1500:]}"
    assert "Traceback" not in said, said[-1500:]


build(GOOD, "", code=0)
for old, new, expected in (
        # the file and its tables
        ("LAUNCH = [", "LAUNCH = [[", "rms_norm.py:14: error: '[' was never closed"),
        ("PLUGIN = ", "PLUGIN = wrong + ", "rms_norm.py:13: error: NameError: name 'wrong' is not defined"),
        ("VARIANTS = ", "VARIANT = ", "rms_norm.py:16: error: `VARIANT` is not a table of this adapter; did you mean `VARIANTS`?"),
        ('("norms", "0.1.0")', '"norms"', 'rms_norm.py:13: error: PLUGIN has to be a pair of a name and a version'),
        ("LAUNCH = [(norm", "LAUNCH = [(print", "rms_norm.py:14: error: LAUNCH: the kernel is a builtin_function_or_method, but a function with @triton.jit"),
        ('LAUNCH = [(norm, ["T"])]', "", "error: LAUNCH is missing: a list of pairs (kernel, [grid])"),
        ('["T"]', "[]", "rms_norm.py:14: error: LAUNCH: ("),
        ('["T"]', '["T / 2"]', "rms_norm.py:14: error: the grid `T / 2`: `T / 2` is not possible here; an expression has"),
        ('["T"]', '["Tokens"]', "the grid `Tokens`: `Tokens` is no axis, scalar, stride or constexpr; known: "),
        ("@triton.jit\ndef norm", "@triton.autotune([], key=[])\n@triton.jit\ndef norm", "the kernel is a Autotuner, but a function with @triton.jit alone is "
         "expected; list its configurations in VARIANTS instead"),
        ('"C <= 64"', '"C <= 64 and"', "rms_norm.py:16: error: the condition `C <= 64 and` is not an expression"),
        # dtypes
        ('"x": "bf16", ', "", "rms_norm.py:15: error: DTYPES: `x` may be f32, bf16, f16: name one"),
        ('{"x": "bf16", ', '{"y": "bf16", "x": "bf16", ', "DTYPES: `y` is no tensor of `rms_norm`"),
        ('"x": "bf16"', '"x": "i32"', "DTYPES: `x` is never 'i32'; expected: f32, bf16, f16"),
        ('"x": "bf16"', '"x": None', "DTYPES: `x` is required and cannot be None"),
        ('"x": "bf16"', '"out": "f32", "x": "bf16"', "DTYPES: `out` has the dtype of `x`, which is bf16, not f32"),
        ('DTYPES = [{', 'DTYPES = [{"x": "bf16", "weight": "bf16"}, {', "DTYPES: two entries are equal"),
        # variants
        ('"BLOCK": 64', '"BLOK": 64', "rms_norm.py:16: error: VARIANTS: `BLOK` is no constexpr of a kernel and no option; did you mean `BLOCK`?"),
        (', "BLOCK": 64', "", "VARIANTS: the constexpr `BLOCK` of kernel `norm` has no value"),
        ('"BLOCK": 64', '"BLOCK": 64, "num_warp": 4', "`num_warp` is no constexpr of a kernel and no option; did you mean `num_warps`?"),
        ('"BLOCK": 64', '"BLOCK": 64, "num_warps": 0', "VARIANTS: `num_warps` has to be a number above 0, not 0"),
        ('"BLOCK": 64', '"BLOCK": "64"', "VARIANTS: `BLOCK` has to be a number, not '64'"),
        ('"BLOCK": 64', '"BLOCK": 64, "divisible": ["y"]', "VARIANTS: `y` is divisible, but no kernel has such a parameter"),
        ('"C <= 64"', '"T <= 64"', "every variant has a condition on T, which changes from call to call: one has to take all calls"),
        ("VARIANTS = [", 'CLAIMS = {"determinist": 1}\nVARIANTS = [', "CLAIMS: `determinist` is not a claim; did you mean `deterministic`?"),
        ("VARIANTS = [", 'SCRATCH = {"parts": ("f31", "1")}\nVARIANTS = [', "SCRATCH: `parts` has to be a pair (dtype, number of elements)"),
        ("VARIANTS = [", 'SCRATCH = {"x": ("f32", "1")}\nVARIANTS = [', "SCRATCH: `x` is a slot of the contract; choose another name"),
        # the kernel's parameters
        ("def norm(x, weight, out, C, eps,", "def norm(x, wieght, out, C, eps,", "rms_norm.py:7: error: parameter `wieght` of kernel `norm` is nothing that the "
         "contract of `rms_norm` has; expected: a tensor, SLOT_stride_K, an axis, a scalar, an entry of SCRATCH or a tl.constexpr; did you mean `weight`?"),
        ("C, eps,", "C, eps, x_stride_2,", "parameter `x_stride_2` of kernel `norm` is nothing that"),
        ("def norm(x, weight, ", "def norm(x, ", "no kernel has the parameter `weight`, an optional tensor of `rms_norm` that DTYPES gives a dtype"),
        ("C, eps,", "C, eps: tl.int32,", "parameter `eps` cannot have the type int32; expected: tl.float32 or tl.float64"),
        # Triton's own errors, in a kernel and in a function that it calls
        ("tl.load(x + at)", "tl.loat(x + at)", "rms_norm.py:10: error: "),
        ("return value / 2", "return value / nothing", "rms_norm.py:5: error: NameError('nothing is not defined')"),
        ("tl.arange(0, BLOCK)", "tl.arange(0, C)", "rms_norm.py:9: error: "),
        ('"BLOCK": 64', '"BLOCK": 60', "rms_norm.py:9: error: ")):
    assert GOOD.count(old) >= 1, old
    build(GOOD.replace(old, new, 1), expected)
build(GOOD.replace(" * eps\n", "\n").replace("C, eps,", "C,"), "", code=0)  # eps has a default: other values are refused when it is run
build(GOOD, "`90x` is not a compute capability of sm_80 or later", arch="90x", code=2)
build(GOOD, "`70` is not a compute capability", arch="70", code=2)
build(GOOD, "op `paged_attention` has 3 editions: say which one the kernel knows, as in `EDITION = 3`", op="paged_attention")
large = GOOD.replace('''    value = half(value)
''', '''    row = tl.arange(0, 128)
    total = tl.zeros((128, 128), tl.float32)
    for start in range(0, C, 128):
        total = tl.dot(tl.load(x + row[:, None] * C + start + row[None, :]), tl.load(x + (start + row)[:, None] * C + row[None, :]), total)
    tl.store(out + row[:, None] * C + row[None, :], total.to(out.dtype.element_ty))
''').replace('"BLOCK": 64', '"BLOCK": 64, "num_warps": 8, "num_stages": 8, "divisible": ["x", "C"]')
build(large, "KiB of shared memory, and a block of sm_90 has 227 KiB: use smaller blocks or fewer num_stages")
other = work / "empty" / "triton"
other.mkdir(parents=True)
(other / "__init__.py").write_text('raise ImportError("no such module")\n')
done = subprocess.run([python, adapter / "build.py", "rms_norm.py", "--header", header, "--out", work / "made.cpp"], cwd=work / "source",
                      env=dict(env, PYTHONPATH=str(other.parent)), capture_output=True, text=True)
assert done.returncode == 1 and "has no Triton (no such module): install it, or name another Python by PYTHON" in done.stderr, done.stderr
# A version that was not tried says so.
for version, kind in (("3.0.0", "older than"), ("4.1.0", "newer than")):
    said = subprocess.run([python, "-c", f"import sys, triton; triton.__version__ = '{version}'; sys.path.insert(0, r'{adapter}'); import compile; "
                           "print(compile.warning())"], env=env, capture_output=True, text=True).stdout
    assert f"Triton {version} is {kind} the versions that were tried (3.6 and 3.9)" in said, said


# Messages of the verbs.
def told(words, code, expected, **more):
    said = " ".join(run(*words, code=code, **more).split())
    assert expected in said, f"{words}: expected: {expected}\nsaid: {said[-1500:]}"


told(["new", "rms_norm", "--name", "n", "--lang", "tritn"], 2, "`tritn` is not a language here (did you mean `triton`?)")
told(["new", "conv2d", "--name", "n", "--lang", "triton"], 2, "no tensor or scalar gives the axis")
assert not (work / "candidates/n").exists(), "half a candidate is in the way of the next one"
folder = work / "candidates/n"
folder.mkdir(parents=True)
(folder / "rms_nrom.py").write_text(GOOD)
told(["build", "n"], 2, "its name is that of no op (did you mean `rms_norm`?; names of files that sources share begin with `_`)")
(folder / "rms_nrom.py").rename(folder / "rms_norm.py")
told(["build", "n"], 2, "`/no/python` cannot be started", PYTHON="/no/python")
told(["build", "n", "--arch", "90x"], 2, "`90x` is not a compute capability")
(folder / "rms_norm.py").write_text(GOOD.replace("tl.load(x + at)", "tl.loat(x + at)"))
told(["build", "n"], 1, "rms_norm.py:10: error: ")
(folder / "rms_norm.py").write_text("open('/etc/hostname').read()\n" + GOOD)
told(["build", "n"], 1, "rms_norm.py:1: error: PermissionError")
print("mistakes: each is told")
