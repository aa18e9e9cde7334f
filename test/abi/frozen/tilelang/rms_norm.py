# SPDX-License-Identifier: Apache-2.0
# rms_norm: out = x / sqrt(mean(x^2) + eps) * weight. With a residual, x + residual replaces it and is normalised.
# One block for each row, for the listed numbers of channels.
# The contract as a page: fk-host show rms_norm
import tilelang  # noqa: F401
import tilelang.language as T


# `dtypes` has the name of each tensor's dtype, and None for an absent tensor. Parameters have the contract's names.
def rms_norm(dtypes, C):
    tokens = T.dynamic("T")
    dtype = dtypes["x"]

    @T.macro
    def normalise(x, residual, weight, out, eps):
        with T.Kernel(tokens, threads=128) as row:
            values = T.alloc_fragment((1, C), "float32")
            squares = T.alloc_fragment((1, C), "float32")
            total = T.alloc_fragment((1,), "float32")
            for i in T.Parallel(C):
                values[0, i] = x[row, i]
            if residual is not None:
                for i in T.Parallel(C):
                    values[0, i] += residual[row, i]
                for i in T.Parallel(C):
                    residual[row, i] = values[0, i]
            for i in T.Parallel(C):
                squares[0, i] = values[0, i] * values[0, i]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(C):
                out[row, i] = values[0, i] * T.rsqrt(total[0] / C + eps) * weight[i]

    @T.prim_func
    def plain(x: T.Tensor((tokens, C), dtype), weight: T.Tensor((C,), dtype), out: T.Tensor((tokens, C), dtype), eps: T.float32):
        normalise(x, None, weight, out, eps)

    @T.prim_func
    def of_sum(x: T.Tensor((tokens, C), dtype), residual: T.Tensor((tokens, C), dtype), weight: T.Tensor((C,), dtype),
               out: T.Tensor((tokens, C), dtype), eps: T.float32):
        normalise(x, residual, weight, out, eps)

    return of_sum if dtypes["residual"] else plain


PLUGIN = ("frozen_tilelang", "1.0.0")
PROGRAM = rms_norm
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{"x": "bf16", "weight": "bf16", "residual": None}]
# Arguments of PROGRAM. An axis or a scalar of the contract has this value in the calls that the entry takes.
VARIANTS = [{"C": C} for C in (2048, 4096)]
CLAIMS = {"deterministic": True, "batch_invariant": True}
