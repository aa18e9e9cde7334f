# SPDX-License-Identifier: Apache-2.0
# rms_norm: out = x / sqrt(mean(x^2) + eps) * weight. One warp for each row.
# The contract as a page: fk-host show rms_norm
import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import Float32


@cute.kernel
def norm(x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, eps: Float32):
    lane, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    width = x.shape[1]
    total = Float32(0.0)
    for i in range(lane, width, 32):
        value = x[row, i].to(Float32)
        total += value * value
    total = cute.arch.warp_reduction_sum(total)
    scale = cute.math.rsqrt(total / Float32(width) + eps)
    for i in range(lane, width, 32):
        value = x[row, i].to(Float32) * scale
        if cutlass.const_expr(weight is not None):
            value = value * weight[i].to(Float32)
        out[row, i] = value.to(out.element_type)


# Parameters are tensors, scalars and axes of the contract, and the stream.
@cute.jit
def rms_norm(x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, eps: Float32, stream: CUstream):
    norm(x, weight, out, eps).launch(grid=[x.shape[0], 1, 1], block=[32, 1, 1], stream=stream)


PLUGIN = ("frozen_cutedsl", "1.0.0")
LAUNCH = rms_norm
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{"x": x, "weight": x} for x in ("bf16", "f32")]
CLAIMS = {"deterministic": True, "batch_invariant": True}
