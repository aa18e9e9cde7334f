# SPDX-License-Identifier: Apache-2.0
# linear: out = x @ weight^T + bias. One thread for each element of out.
# The contract as a page: fk-host show linear
import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import Float32

THREADS = 128


@cute.kernel
def product(x: cute.Tensor, weight: cute.Tensor, bias: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, row, _ = cute.arch.block_idx()
    column = block * THREADS + thread
    if column < out.shape[1]:
        total = Float32(0.0)
        for k in range(x.shape[1]):
            total += x[row, k].to(Float32) * weight[column, k].to(Float32)
        if cutlass.const_expr(bias is not None):
            total += bias[column].to(Float32)
        out[row, column] = total.to(out.element_type)


# Parameters are tensors, scalars and axes of the contract, and the stream.
@cute.jit
def linear(x: cute.Tensor, weight: cute.Tensor, bias: cute.Tensor, out: cute.Tensor, stream: CUstream):
    grid = [(out.shape[1] + THREADS - 1) // THREADS, out.shape[0], 1]
    product(x, weight, bias, out).launch(grid=grid, block=[THREADS, 1, 1], stream=stream)


PLUGIN = ("template_cutedsl", "0.1.0")
LAUNCH = linear
LIMITS = {"M": 65535}  # of the grid
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{"x": x, "weight": x, "bias": bias, "out": x} for x in ("bf16", "f16", "f32") for bias in (x, None)]
CLAIMS = {"deterministic": True, "batch_invariant": True}
