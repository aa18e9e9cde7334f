# SPDX-License-Identifier: Apache-2.0
# fla.ops.generalized_delta_rule.fused_recurrent_dplr_delta_rule over the tokens of each request
import triton
import triton.language as tl

from _fla import clear_state, copy_row, dense_or_copy, kernel

fused_recurrent = kernel("generalized_delta_rule.dplr.fused_recurrent", "fused_recurrent_dplr_delta_rule_fwd_kernel")


@triton.jit
def copies(r, w, k, v, a, b, r_copy, w_copy, k_copy, v_copy, a_copy, b_copy, H, D, DV, r_stride_0, w_stride_0, k_stride_0, v_stride_0,
           a_stride_0, b_stride_0):
    row = tl.program_id(0).to(tl.int64)
    copy_row(r, r_copy, row, r_stride_0, H * D, 1024)
    copy_row(w, w_copy, row, w_stride_0, H * D, 1024)
    copy_row(k, k_copy, row, k_stride_0, H * D, 1024)
    copy_row(v, v_copy, row, v_stride_0, H * DV, 1024)
    copy_row(a, a_copy, row, a_stride_0, H * D, 1024)
    copy_row(b, b_copy, row, b_stride_0, H * D, 1024)


@triton.jit
def clear(recurrent_state, cu_seqlens, state_slots, has_initial_state, H, D, DV, recurrent_state_stride_0):
    clear_state(recurrent_state, cu_seqlens, state_slots, has_initial_state, recurrent_state_stride_0, H * D * DV, 4096)


@triton.jit
def recurrent(r, w, k, v, a, b, r_copy, w_copy, k_copy, v_copy, a_copy, b_copy, recurrent_state, cu_seqlens, state_slots, out, T, H, D, DV, scale,
              r_stride_0, w_stride_0, k_stride_0, v_stride_0, a_stride_0, b_stride_0, recurrent_state_stride_0,
              BK: tl.constexpr, BV: tl.constexpr):
    n = (tl.program_id(0) // (tl.cdiv(DV, BV) * H)).to(tl.int64)
    state = recurrent_state + tl.load(state_slots + n).to(tl.int64) * recurrent_state_stride_0 - n * H * D * DV
    fused_recurrent(dense_or_copy(r, r_copy, r_stride_0 == H * D), dense_or_copy(k, k_copy, k_stride_0 == H * D),
                    dense_or_copy(v, v_copy, v_stride_0 == H * DV), dense_or_copy(a, a_copy, a_stride_0 == H * D),
                    dense_or_copy(b, b_copy, b_stride_0 == H * D), dense_or_copy(w, w_copy, w_stride_0 == H * D), out, state, state,
                    cu_seqlens, scale, T, 1, H, D, DV, BK, BV, False, True, True, True)


GAPS = {name: f"({name}_stride_0 != H * {'DV' if name == 'v' else 'D'})" for name in "rwkvab"}
LAUNCH = [(copies, [f"T * ({' or '.join(GAPS.values())})"]), (clear, ["B", "cdiv(H * D * DV, 4096)"]), (recurrent, ["cdiv(DV, BV) * B * H"])]
SCRATCH = {f"{name}_copy": ("u8", f"T * H * {'DV' if name == 'v' else 'D'} * {name}_bytes * {gaps}") for name, gaps in GAPS.items()}
DTYPES = [{"r": r, "w": w, "recurrent_state": state} for r in ("bf16", "f16", "f32") for w in dict.fromkeys(("f32", r))
          for state in dict.fromkeys(("f32", r)) if w == r or state == "f32"]
WIDE = ["r", "w", "k", "v", "a", "b", "recurrent_state", "D", "DV", "r_stride_0", "w_stride_0", "k_stride_0", "v_stride_0", "a_stride_0", "b_stride_0",
        "recurrent_state_stride_0"]
VARIANTS = [{"when": "D <= 64", "BK": 64, "BV": 16, "num_warps": 2, "num_stages": 2, "divisible": WIDE},
            {"when": "D <= 128", "BK": 128, "BV": 16, "num_warps": 4, "num_stages": 2, "divisible": WIDE},
            {"when": "D <= 64", "BK": 64, "BV": 16, "num_warps": 2, "num_stages": 2},
            {"when": "D <= 256", "BK": 256, "BV": 16, "num_warps": 4, "num_stages": 2}]
CLAIMS = {"deterministic": True, "batch_invariant": True}
