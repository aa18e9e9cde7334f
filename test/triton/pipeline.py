#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pipeline.py FK_HOST SOURCE_DIR: `new --lang triton` and `build` make plugins that load their kernels in prepare, choose the variant of
the call, and launch it with the right arguments. The CUDA runtime is that of toolkit/, which notes calls: no GPU is needed.
"""
import ctypes, struct, sys

from environment import candidate, run, runtime, source, work

sys.path.insert(0, str(source / "plugin_api/adapters/torch"))
from fk_plugin import Failed, Plugin, Refused, View  # noqa: E402

library = ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)


class Note(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_char * 64), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint), ("shared", ctypes.c_uint),
                ("attributes", ctypes.c_uint), ("stream", ctypes.c_uint64), ("arguments", ctypes.c_uint64 * 48)]


notes = (Note * 256).in_dll(library, "fk_test_notes")
number = lambda name: ctypes.c_int.in_dll(library, f"fk_test_{name}").value


def launches(instance, values, *kinds, stream=0):
    """Notes of a call; for each launch `kinds` has struct's letters of the arguments."""
    sizes = (ctypes.c_char * 48 * 4).in_dll(library, "fk_test_sizes")
    for at, letters in enumerate(kinds):
        sizes[at].raw = bytes(struct.calcsize(kind) for kind in letters).ljust(48, b"\0")
    before, loads = number("launches"), number("loads")
    ctypes.c_int.in_dll(library, "fk_test_first").value = before
    instance.forward(values, stream)
    assert number("loads") == loads, "forward loaded a kernel"
    assert number("launches") - before == len(kinds), "this many launches"
    return [notes[at] for at in range(before, number("launches"))]


def values_of(note, kinds):
    return [struct.unpack(kind, bits.to_bytes(8, "little")[:struct.calcsize(kind)])[0] for kind, bits in zip(kinds, note.arguments)]


def refused(op, expected, *frames):
    try:
        op.create(*frames)
    except Refused as reason:
        assert expected in str(reason), reason
    else:
        raise AssertionError(f"taken, but expected: {expected}")


view = lambda at, shape, dtype="bf16", strides=None: View(at, shape, dtype, strides)

# Optional tensors, dtypes, constants of a variant, and the device's code.
norm = '''import triton
import triton.language as tl
@triton.jit
def norm(x, residual, weight, out, C, T: tl.int64, eps, BLOCK: tl.constexpr, TWICE: tl.constexpr = False):
    at = tl.program_id(0).to(tl.int64) * C + tl.arange(0, BLOCK)
    value = tl.load(x + at).to(tl.float32) * eps + T
    if weight is not None:
        value *= tl.load(weight + tl.arange(0, BLOCK)).to(tl.float32)
    if residual is not None:
        value += tl.load(residual + at).to(tl.float32)
    tl.store(out + at, value.to(out.dtype.element_ty))
PLUGIN = ("norms", "1.2")
LAUNCH = [(norm, ["T", "1 + (weight_bytes > 0)"])]
DTYPES = [{"x": "bf16"}, {"x": "bf16", "weight": "f32", "residual": "bf16"}]
VARIANTS = [{"when": "C <= 64 and T <= 4", "BLOCK": 64, "num_warps": 1, "divisible": ["x", "C"]},
            {"when": "C <= 64", "BLOCK": 64, "num_warps": 2},
            {"when": "C <= 128", "BLOCK": 128, "num_warps": 8}]
CLAIMS = {"deterministic": True}
'''
candidate("norms", "rms_norm", norm)
run("build", "norms", "--arch", "80 90")
norms = Plugin(work / "candidates/norms/norms.so")
assert (norms.name, norms.version) == ("norms", "1.2")
op = norms["rms_norm"]
assert (op.claims.deterministic, op.claims.batch_invariant, [op.claims.sm[i] for i in range(op.claims.sm_count)]) == (1, 0, [80, 90])
init = {"hidden_size": 64, "eps": 0.5}
with op.create(init, {"weight": None}, {"x": view(0, (9, 64)), "residual": None, "out": view(0, (9, 64))}) as it:
    assert number("loads") == 2, "two variants can take calls of 64 columns; the third cannot be reached"
    for rows, block in ((9, 64), (4, 32), (5, 64)):
        note, = launches(it, {"x": view(0x1000, (rows, 64)), "residual": None, "out": view(0x2000, (rows, 64))}, "QQiqfQQ", stream=0x77)
        assert values_of(note, "QQiqfQQ") == [0x1000, 0x2000, 64, rows, 0.5, 0, 0], values_of(note, "QQiqfQQ")
        assert (note.kernel, list(note.grid), note.block, note.stream) == (b"norm", [rows, 1, 1], block, 0x77)
    assert not launches(it, {"x": view(0, (0, 64)), "residual": None, "out": view(0, (0, 64))}), "no rows: nothing to launch"
assert number("unloads") == number("loads") == 2
with op.create({"hidden_size": 128, "eps": 0.5}, {"weight": view(0x3000, (128,), "f32")},
               {"x": view(0, (9, 128)), "residual": view(0, (9, 128)), "out": view(0, (9, 128))}) as it:
    note, = launches(it, {"x": view(0x1000, (2, 128)), "residual": view(0x4000, (2, 128)), "out": view(0x2000, (2, 128))}, "QQQQiqfQQ")
    assert values_of(note, "QQQQiqfQQ") == [0x1000, 0x4000, 0x3000, 0x2000, 128, 2, 0.5, 0, 0] and list(note.grid) == [2, 2, 1]
plain = {"x": view(0, (9, 64)), "residual": None, "out": view(0, (9, 64))}
refused(op, "no entry of DTYPES", init, {"weight": None}, plain | {"x": view(0, (9, 64), "f32"), "out": view(0, (9, 64), "f32")})
refused(op, "no entry of DTYPES", init, {"weight": view(0, (64,))}, plain)
refused(op, "no entry of VARIANTS", {"hidden_size": 200, "eps": 0.5}, {"weight": None}, {"x": view(0, (9, 200)), "residual": None, "out": view(0, (9, 200))})
ctypes.c_int.in_dll(library, "fk_test_sm").value = 86  # runs what is for 80
op.create(init, {"weight": None}, plain).close()
ctypes.c_int.in_dll(library, "fk_test_sm").value = 100  # no later one of that major, and 90 is for 90 alone
try:
    op.create(init, {"weight": None}, plain)
    raise AssertionError("prepared without code for the device")
except Failed as reason:
    assert "it has no code for compute capability 100: build it with --arch 100" in str(reason), reason
ctypes.c_int.in_dll(library, "fk_test_sm").value = 90
assert number("unloads") == number("loads")

# Two launches with scratch between them, strides, and more shared memory than a kernel has without asking.
split = '''import triton
import triton.language as tl
@triton.jit
def parts_of(x, weight, parts, M, N, K, x_stride_0, BLOCK: tl.constexpr, SPLITS: tl.constexpr):
    m, k = tl.arange(0, 128), tl.arange(0, BLOCK)
    a = tl.load(x + m[:, None].to(tl.int64) * x_stride_0 + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0)
    b = tl.load(weight + m[None, :] * K + k[:, None], mask=(m < N)[None, :] & (k < K)[:, None], other=0)
    tl.store(parts + (tl.program_id(0) * M + m[:, None]) * N + m[None, :], tl.dot(a, b), mask=(m < M)[:, None] & (m < N)[None, :])
@triton.jit
def sum_of(parts, out, M, N, SPLITS: tl.constexpr):
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    total = tl.zeros((128,), tl.float32)
    for part in range(SPLITS):
        total += tl.load(parts + part * M * N + at, mask=at < M * N, other=0)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=at < M * N)
PLUGIN = ("split", "0.1.0")
LAUNCH = [(parts_of, ["SPLITS"]), (sum_of, ["cdiv(M * N, 128)"])]
SCRATCH = {"parts": ("f32", "SPLITS * M * N")}
DTYPES = [{"x": "bf16", "weight": "bf16", "out": "bf16"}]
VARIANTS = [{"when": "M <= 4", "SPLITS": 4, "BLOCK": 256, "num_warps": 8}, {"SPLITS": 2, "BLOCK": 256, "num_warps": 8}]
'''
candidate("split", "linear", split)
run("build", "split")
op = Plugin(work / "candidates/split/split.so")["linear"]
assert (op.claims.deterministic, op.claims.batch_invariant) == (0, 0), "nothing is claimed that the author does not claim"
with op.create({"in_features": 64, "out_features": 48}, {"weight": view(0x3000, (48, 64)), "bias": None},
               {"x": view(0, (100, 64), strides=(72, 1)), "out": view(0, (100, 48))}) as it:
    assert it.need.scratch == 4 * 4 * 100 * 48, "the variant that needs most may take the largest call: 4 splits"
    for rows, splits in ((100, 2), (3, 4)):
        call = {"x": view(0x1000, (rows, 64), strides=(72, 1)), "out": view(0x2000, (rows, 48))}
        first, second = launches(it, call, "QQQiiiqQQ", "QQiiQQ")
        scratch = it.memory["scratch"][0]
        assert values_of(first, "QQQiiiqQQ") == [0x1000, 0x3000, scratch, rows, 48, 64, 72, 0, 0] and first.grid[0] == splits
        assert first.shared > 48 << 10, "this test needs a kernel with more shared memory than 48 KiB"
        assert values_of(second, "QQiiQQ") == [scratch, 0x2000, rows, 48, 0, 0] and second.kernel == b"sum_of" and second.grid[0] == -(-rows * 48 // 128)
refused(op, "no entry of DTYPES", {"in_features": 64, "out_features": 48}, {"weight": view(0, (48, 64)), "bias": view(0, (48,))},
        {"x": view(0, (5, 64)), "out": view(0, (5, 48))})

# A kernel that makes tensor descriptors has memory of its own for each block, behind what the author asks for.
described = '''import triton
import triton.language as tl
@triton.jit
def copy(x, out, parts, T, C, BLOCK: tl.constexpr):
    from_x = tl.make_tensor_descriptor(x, shape=[T, C], strides=[C, 1], block_shape=[BLOCK, 64])
    to_out = tl.make_tensor_descriptor(out, shape=[T, C], strides=[C, 1], block_shape=[BLOCK, 64])
    to_out.store([tl.program_id(0) * BLOCK, 0], from_x.load([tl.program_id(0) * BLOCK, 0]))
    tl.store(parts + tl.program_id(0), 1)
PLUGIN = ("described", "0.1.0")
LAUNCH = [(copy, ["cdiv(T, BLOCK)"])]
SCRATCH = {"parts": ("i32", "cdiv(T, BLOCK)")}
DTYPES = [{"x": "bf16"}]
VARIANTS = [{"when": "C == 64", "BLOCK": 16}]
'''
candidate("described", "rms_norm", described)
run("build", "described")
op = Plugin(work / "candidates/described/described.so")["rms_norm"]
with op.create({"hidden_size": 64, "eps": 1e-6}, {"weight": None}, {"x": view(0, (160, 64)), "residual": None, "out": view(0, (160, 64))}) as it:
    scratch = it.memory["scratch"][0]
    assert it.need.scratch >= 256 + 10 * 2 * 128, "ten blocks with two descriptors of 128 bytes"
    note, = launches(it, {"x": view(0x1000, (40, 64)), "residual": None, "out": view(0x2000, (40, 64))}, "QQQiiQQ")
    assert values_of(note, "QQQiiQQ") == [0x1000, 0x2000, scratch, 40, 64, scratch + 256, 0] and note.grid[0] == 3

# A kernel without strides takes dense tensors alone, and without a setting the setting's default alone.
act = '''import triton
import triton.language as tl
@triton.jit
def linear(x, weight, out, M, N, K, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)) + tl.load(weight + tl.arange(0, BLOCK)))
PLUGIN = ("dense", "0.1.0")
LAUNCH = [(linear, ["M", "N", "K"])]
DTYPES = [{"x": "f32", "weight": "f32", "out": "f32"}]
VARIANTS = [{"BLOCK": 64}]
'''
candidate("dense", "linear", act)
run("build", "dense")
op = Plugin(work / "candidates/dense/dense.so")["linear"]
wide = {"in_features": 8, "out_features": 4}
op.create(wide, {"weight": view(0, (4, 8), "f32"), "bias": None}, {"x": view(0, (5, 8), "f32"), "out": view(0, (5, 4), "f32")}).close()
refused(op, "no entry of VARIANTS", wide, {"weight": view(0, (4, 8), "f32"), "bias": None},
        {"x": view(0, (5, 8), "f32", strides=(16, 1)), "out": view(0, (5, 4), "f32")})
refused(op, "no entry of VARIANTS", {"in_features": 70000, "out_features": 4}, {"weight": view(0, (4, 70000), "f32"), "bias": None},
        {"x": view(0, (5, 70000), "f32"), "out": view(0, (5, 4), "f32")})  # a grid has 65535 blocks in its third axis at most

# A changed source makes a plugin out of date, as does a changed file that sources share.
with open(work / "candidates/dense/linear.py", "a") as file:
    file.write("# changed\n")
assert "out of date" in run("check", "dense", code=1)
print("pipeline: right")
