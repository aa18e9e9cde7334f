# SPDX-License-Identifier: Apache-2.0
# selective_state_update of Mamba, with vLLM's slots of states
import triton
import triton.language as tl

from _mamba import kernel

update_kernel = kernel("mamba_ssm", "_selective_scan_update_kernel")


@triton.jit
def update(x, dt, b, c, a, d, dt_bias, ssm_state, state_slots, out, B, H, D, G, DS, x_stride_0, dt_stride_0, b_stride_0, c_stride_0,
           ssm_state_stride_0, dt_softplus: tl.constexpr, BLOCK: tl.constexpr, BLOCK_DS: tl.constexpr):
    # Strides of 0 repeat a head's values of dt, a, d and dt_bias.
    update_kernel(ssm_state, None, x, dt, dt_bias, a, b, c, d, None, out, state_slots, state_slots, tl.full((), -1, tl.int64), None, None, B, H, D, DS, H // G,
                  ssm_state_stride_0, D * DS, DS, 1, x_stride_0, D, 1, dt_stride_0, 1, 0, 1, 0, 1, 0, 0, b_stride_0, DS, 1, c_stride_0, DS, 1,
                  1, 0, 0, 0, 0, tl.cast(H, tl.int64) * D, D, 1, 1, 0, 1, 0, dt_softplus, True, BLOCK, dt_bias is not None, d is not None,
                  False, True, False, False, BLOCK_DS, False, 0)


LAUNCH = [(update, ["cdiv(D, BLOCK)", "B", "H"])]
pairs = lambda x: dict.fromkeys(((x, x), ("f32", "f32"), (None, "f32"), (None, x), ("f32", None)))  # dtypes of d and dt_bias
DTYPES = [{"x": x, "d": d, "dt_bias": dt_bias, "ssm_state": state} for x in ("bf16", "f16", "f32") for d, dt_bias in pairs(x)
          for state in dict.fromkeys(("f32", x))]
WIDE = {"divisible": ["x", "b", "c", "ssm_state", "D", "DS", "x_stride_0", "b_stride_0", "c_stride_0", "ssm_state_stride_0"]}
# For a state of width 128 the choices which vLLM measured on an H200; for others its rule. Without softplus the contract has a limit of dt
# which the kernel does not have.
VARIANTS = [entry | {"dt_softplus": 1} for entry in (
    {"when": "DS <= 128 and B * H <= 12", "BLOCK": 8, "BLOCK_DS": 128, "num_warps": 4} | WIDE,
    {"when": "DS <= 128", "BLOCK": 4, "BLOCK_DS": 128, "num_warps": 1} | WIDE, {"when": "DS <= 16", "BLOCK": 32, "BLOCK_DS": 16, "num_warps": 4},
    {"when": "DS <= 64", "BLOCK": 8, "BLOCK_DS": 64, "num_warps": 4}, {"when": "DS <= 256", "BLOCK": 4, "BLOCK_DS": 256, "num_warps": 8})]
CLAIMS = {"deterministic": True, "batch_invariant": False}
