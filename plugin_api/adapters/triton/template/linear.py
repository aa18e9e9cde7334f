# SPDX-License-Identifier: Apache-2.0
# linear: out = x @ weight^T + bias
# The contract as a page: fk-host show linear
import triton
import triton.language as tl


@triton.jit
def linear(x, weight, bias, out, M, N, K, x_stride_0, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    tiles = tl.cdiv(M, BLOCK_M)  # blocks that follow each other read the same rows of weight
    row = tl.program_id(0) % tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(0) // tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_at = x + row.to(tl.int64)[:, None] * x_stride_0 + k[None, :]
    weight_at = weight + column.to(tl.int64)[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        left = K - start
        a = tl.load(x_at + start, mask=(row < M)[:, None] & (k < left)[None, :], other=0)
        b = tl.load(weight_at + start, mask=(column < N)[None, :] & (k < left)[:, None], other=0)
        total = tl.dot(a, b, total, input_precision="ieee")
    if bias is not None:
        total += tl.load(bias + column, mask=column < N, other=0).to(tl.float32)[None, :]
    out_at = out + row.to(tl.int64)[:, None] * N + column[None, :]
    tl.store(out_at, total.to(out.dtype.element_ty), mask=(row < M)[:, None] & (column < N)[None, :])


PLUGIN = ("template_triton", "0.1.0")
# Kernels in the order of their launches, each with its grid.
LAUNCH = [(linear, ["cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)"])]
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{"x": x, "weight": x, "out": out, "bias": bias}
          for x, outs in (("bf16", ("bf16", "f32")), ("f16", ("f16", "f32")), ("f32", ("f32",))) for out in outs for bias in dict.fromkeys((x, "f32", None))]
# The first entry whose condition holds takes the call. Arguments in `divisible` are multiples of 16 there.
FAST = {"when": "x_bytes == 2", "divisible": ["x", "K", "x_stride_0"]}
VARIANTS = [
    FAST | {"when": "x_bytes == 2 and M <= 16", "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 256, "num_warps": 4, "num_stages": 4},
    FAST | {"when": "x_bytes == 2 and M <= 64", "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128, "num_warps": 4, "num_stages": 4},
    FAST | {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
    {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2},
]
CLAIMS = {"deterministic": True, "batch_invariant": False}
