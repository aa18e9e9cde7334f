# SPDX-License-Identifier: Apache-2.0
# fla.ops.generalized_delta_rule.fused_recurrent_dplr_delta_rule for one token of each request: fused_recurrent_rwkv7 calls it
import triton
import triton.language as tl

from _fla import kernel

fused_recurrent = kernel("generalized_delta_rule.dplr.fused_recurrent", "fused_recurrent_dplr_delta_rule_fwd_kernel")


@triton.jit
def recurrent(r, w, k, v, a, b, recurrent_state, state_slots, out, H, D, DV, scale, r_stride_0, w_stride_0, k_stride_0, v_stride_0,
              a_stride_0, b_stride_0, recurrent_state_stride_0, BK: tl.constexpr, BV: tl.constexpr):
    # The kernel takes request n from a dense tensor, so each pointer moves by the difference.
    n = (tl.program_id(0) // (tl.cdiv(DV, BV) * H)).to(tl.int64)
    state = recurrent_state + tl.load(state_slots + n).to(tl.int64) * recurrent_state_stride_0 - n * H * D * DV
    fused_recurrent(r + n * (r_stride_0 - H * D), k + n * (k_stride_0 - H * D), v + n * (v_stride_0 - H * DV), a + n * (a_stride_0 - H * D),
                    b + n * (b_stride_0 - H * D), w + n * (w_stride_0 - H * D), out, state, state, None, scale, 1, 1, H, D, DV, BK, BV, False,
                    True, True, False)


LAUNCH = [(recurrent, ["cdiv(DV, BV) * B * H"])]
DTYPES = [{"r": r, "w": w, "recurrent_state": state} for r in ("bf16", "f16", "f32") for w in dict.fromkeys(("f32", r))
          for state in dict.fromkeys(("f32", r)) if w == r or state == "f32"]
WIDE = ["r", "w", "k", "v", "a", "b", "recurrent_state", "D", "DV", "r_stride_0", "w_stride_0", "k_stride_0", "v_stride_0", "a_stride_0", "b_stride_0",
        "recurrent_state_stride_0"]
# A configuration of the package with few registers: each thread of a warp holds BK * BV / 32 values of the state.
VARIANTS = [{"when": "D <= 64", "BK": 64, "BV": 16, "num_warps": 2, "num_stages": 2, "divisible": WIDE},
            {"when": "D <= 128", "BK": 128, "BV": 16, "num_warps": 4, "num_stages": 2, "divisible": WIDE},
            {"when": "D <= 64", "BK": 64, "BV": 16, "num_warps": 2, "num_stages": 2},
            {"when": "D <= 256", "BK": 256, "BV": 16, "num_warps": 4, "num_stages": 2}]
CLAIMS = {"deterministic": True, "batch_invariant": True}
