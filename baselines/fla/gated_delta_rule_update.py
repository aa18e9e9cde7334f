# SPDX-License-Identifier: Apache-2.0
# fla.ops.gated_delta_rule.fused_recurrent_gated_delta_rule for one token of each request. With a decay for each channel it is fused_recurrent_kda's
# recurrence, by the same kernel's argument gk.
import triton
import triton.language as tl

from _fla import kernel

fused_recurrent = kernel("gated_delta_rule.fused_recurrent", "fused_recurrent_gated_delta_rule_fwd_kernel")


@triton.jit
def recurrent(q, k, v, g, beta, recurrent_state, state_slots, out, G, H, D, DV, scale, q_stride_0, k_stride_0, v_stride_0, g_stride_0,
              beta_stride_0, recurrent_state_stride_0, qk_l2_norm: tl.constexpr, CHANNELS: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    # The kernel takes request n from a dense tensor, so each pointer moves by the difference.
    n = (tl.program_id(0) // (tl.cdiv(DV, BV) * H)).to(tl.int64)
    state = recurrent_state + tl.load(state_slots + n).to(tl.int64) * recurrent_state_stride_0 - n * H * D * DV
    if CHANNELS:
        gate = None
        gates = g + n * (g_stride_0 - H * D)
    else:
        gate = g + n * (g_stride_0 - H)
        gates = None
    fused_recurrent(q + n * (q_stride_0 - G * D), k + n * (k_stride_0 - G * D), v + n * (v_stride_0 - H * DV), gate, gates, None,
                    beta + n * (beta_stride_0 - H), None, None, out, state, state, None, scale, 1, G, H, D, DV, BK, BV, not CHANNELS, CHANNELS,
                    False, qk_l2_norm, True, True, True, False, False, False, False, False, False)


LAUNCH = [(recurrent, ["cdiv(DV, BV) * B * H"])]
DTYPES = [{"q": q, "beta": beta, "recurrent_state": state} for q in ("bf16", "f16", "f32") for beta in dict.fromkeys(("f32", q))
          for state in dict.fromkeys(("f32", q)) if q == "bf16" or beta == state]
WIDE = {"divisible": ["q", "k", "v", "recurrent_state", "D", "DV", "q_stride_0", "k_stride_0", "v_stride_0", "recurrent_state_stride_0"]}
# The package chooses one warp and eight values for all shapes.
VARIANTS = [{"when": f"D <= {BK} and DG == {'D' if channels else 1}", "qk_l2_norm": norm, "CHANNELS": channels, "BK": BK, "BV": 8, "num_warps": 1, "num_stages": 3}
            | wide for wide, BK in ((WIDE, 128), (WIDE, 256), ({}, 64), ({}, 256)) for channels in (False, True) for norm in (1, 0)]
CLAIMS = {"deterministic": True, "batch_invariant": True}
