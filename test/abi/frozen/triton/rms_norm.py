# SPDX-License-Identifier: Apache-2.0
# rms_norm: out = x / sqrt(mean(x^2) + eps) * weight; with a residual, x + residual comes first and is written back
# The contract as a page: fk-host show rms_norm
import triton
import triton.language as tl


@triton.jit
def rms_norm(x, residual, weight, out, C, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * C  # one block per row
    column = tl.arange(0, BLOCK)
    inside = column < C
    value = tl.load(x + at + column, mask=inside, other=0).to(tl.float32)
    if residual is not None:
        value += tl.load(residual + at + column, mask=inside, other=0).to(tl.float32)
        value = value.to(residual.dtype.element_ty)  # what is normalised is what is written back
        tl.store(residual + at + column, value, mask=inside)
        value = value.to(tl.float32)
    value *= tl.rsqrt(tl.sum(value * value) / C + eps)
    if weight is not None:
        value *= tl.load(weight + column, mask=inside, other=0).to(tl.float32)
    tl.store(out + at + column, value.to(out.dtype.element_ty), mask=inside)


PLUGIN = ("frozen_triton", "1.0.0")
# Kernels in the order of their launches, each with its grid.
LAUNCH = [(rms_norm, ["T"])]
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{"x": "bf16", "weight": "bf16"}, {"x": "bf16", "weight": "bf16", "residual": "bf16"}]
# The first entry whose condition holds takes the call. Arguments in `divisible` are multiples of 16 there.
VARIANTS = [
    {"when": "C <= 2048", "BLOCK": 2048, "num_warps": 4, "divisible": ["x", "residual", "out", "C"]},
    {"when": "C <= 32768", "BLOCK": 32768, "num_warps": 16},
]
CLAIMS = {"deterministic": True, "batch_invariant": True}
