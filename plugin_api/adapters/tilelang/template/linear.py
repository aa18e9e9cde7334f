# SPDX-License-Identifier: Apache-2.0
# linear: out = x @ weight^T. One block for each tile of out, for the listed sizes of the weight.
# The contract as a page: fk-host show linear
import tilelang  # noqa: F401
import tilelang.language as T

ROWS, COLUMNS, DEPTH = 64, 64, 32


# `dtypes` has the name of each tensor's dtype, and None for an absent tensor. Parameters have the contract's names.
def linear(dtypes, N, K):
    rows = T.dynamic("M")
    dtype = dtypes["x"]

    @T.prim_func
    def main(x: T.Tensor((rows, K), dtype), weight: T.Tensor((N, K), dtype), out: T.Tensor((rows, N), dtype)):
        with T.Kernel(T.ceildiv(N, COLUMNS), T.ceildiv(rows, ROWS), threads=128) as (column, row):
            left = T.alloc_shared((ROWS, DEPTH), dtype)
            right = T.alloc_shared((COLUMNS, DEPTH), dtype)
            total = T.alloc_fragment((ROWS, COLUMNS), "float32")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, DEPTH), num_stages=2):
                T.copy(x[row * ROWS, k * DEPTH], left)
                T.copy(weight[column * COLUMNS, k * DEPTH], right)
                T.gemm(left, right, total, transpose_B=True)
            T.copy(total, out[row * ROWS, column * COLUMNS])

    return main


PLUGIN = ("template_tilelang", "0.1.0")
PROGRAM = linear
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{"x": x, "weight": x, "out": x} for x in ("bf16", "f16")]
# Arguments of PROGRAM. An axis or a scalar of the contract has this value in the calls that the entry takes.
VARIANTS = [{"N": 4096, "K": 4096}, {"N": 14336, "K": 4096}, {"N": 4096, "K": 14336}]
CLAIMS = {"deterministic": True, "batch_invariant": True}
