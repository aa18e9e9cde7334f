# SPDX-License-Identifier: Apache-2.0
# fla.ops.gla.fused_recurrent_gla and fla.ops.retention.fused_recurrent_retention for one token of each request
import triton
import triton.language as tl

from _fla import kernel

fused_recurrent = kernel("common.fused_recurrent", "fused_recurrent_fwd_kernel")


@triton.jit
def recurrent(q, k, v, g, decay, recurrent_state, state_slots, parts, B, H, D, DV, scale, q_stride_0, k_stride_0, v_stride_0,
              g_stride_0, recurrent_state_stride_0, BK: tl.constexpr, BV: tl.constexpr):
    # The kernel takes request n from a dense tensor, so each pointer moves by the difference.
    n = (tl.program_id(0) // (tl.cdiv(DV, BV) * tl.cdiv(D, BK) * H)).to(tl.int64)
    state = recurrent_state + tl.load(state_slots + n).to(tl.int64) * recurrent_state_stride_0 - n * H * D * DV
    gates = None
    if g is not None:
        gates = g + n * (g_stride_0 - H * D)
    fused_recurrent(q + n * (q_stride_0 - H * D), k + n * (k_stride_0 - H * D), v + n * (v_stride_0 - H * DV), None, decay, gates, None,
                    parts, state, state, None, scale, B, 1, H, D, DV, BK, BV, False, False, decay is not None, g is not None, False,
                    True, True, False)


@triton.jit
def total(parts, out, B, H, D, DV, BK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * 1024 + tl.arange(0, 1024)
    count = tl.cast(B, tl.int64) * H * DV
    sums = tl.zeros((1024,), tl.float32)
    for part in range(tl.cdiv(D, BK)):
        sums += tl.load(parts + part * count + at, mask=at < count, other=0)
    tl.store(out + at, sums.to(out.dtype.element_ty), mask=at < count)


LAUNCH = [(recurrent, ["cdiv(DV, BV) * cdiv(D, BK) * B * H"]), (total, ["cdiv(B * H * DV, 1024)"])]
DTYPES = [{"q": q, "g": g, "decay": decay, "recurrent_state": state} for q in ("bf16", "f16", "f32") for state in dict.fromkeys(("f32", q))
          for g, decay in dict.fromkeys((("f32", None), (q, None), (None, "f32"), ("f32", "f32")))]
SCRATCH = {"parts": ("f32", "cdiv(D, BK) * B * H * DV")}
WIDE = ["q", "k", "v", "g", "recurrent_state", "D", "DV", "q_stride_0", "k_stride_0", "v_stride_0", "g_stride_0", "recurrent_state_stride_0"]
VARIANTS = [{"BK": 64, "BV": 64, "num_warps": 4, "divisible": WIDE},
            {"BK": 64, "BV": 64, "num_warps": 4}]
CLAIMS = {"deterministic": True, "batch_invariant": True}
