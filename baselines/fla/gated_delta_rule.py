# SPDX-License-Identifier: Apache-2.0
# fla.ops.gated_delta_rule.chunk_gated_delta_rule, with chunks of 64 tokens. For requests of at most 64 tokens fused_recurrent_gated_delta_rule, as
# the package's layers choose, and where no chunked form is here: other widths of keys, float32, and a decay for each channel (its argument gk).
import triton
import triton.language as tl

from _fla import chunk_table, clear_state, copy_row, dense_or_copy, kernel, typed

cumsum = kernel("utils.cumsum", "chunk_local_cumsum_scalar_kernel")
kkt_solve = kernel("gated_delta_rule.chunk_fwd", "chunk_gated_delta_rule_fwd_kkt_solve_kernel")
recompute = kernel("gated_delta_rule.wy_fast", "recompute_w_u_fwd_kernel")
chunk_h = kernel("common.chunk_delta_h", "chunk_gated_delta_rule_fwd_kernel_h_blockdim64")
chunk_o = kernel("common.chunk_o", "chunk_fwd_kernel_o")
l2_norm = kernel("modules.norm.l2norm", "l2norm_fwd_kernel")
fused_recurrent = kernel("gated_delta_rule.fused_recurrent", "fused_recurrent_gated_delta_rule_fwd_kernel")
LOG2_E = tl.constexpr(1.4426950216293335)  # the package's decays are powers of 2


@triton.jit
def copies(q, k, v, g, beta, q_copy, k_copy, v_copy, g_copy, beta_copy, G, H, D, DV, DG, q_stride_0, k_stride_0, v_stride_0, g_stride_0,
           beta_stride_0):
    row = tl.program_id(0).to(tl.int64)
    copy_row(q, q_copy, row, q_stride_0, G * D, 1024)
    copy_row(k, k_copy, row, k_stride_0, G * D, 1024)
    copy_row(v, v_copy, row, v_stride_0, H * DV, 1024)
    copy_row(g, g_copy, row, g_stride_0, H * DG, 1024)
    copy_row(beta, beta_copy, row, beta_stride_0, H, 1024)


@triton.jit
def clear(recurrent_state, cu_seqlens, state_slots, has_initial_state, H, D, DV, recurrent_state_stride_0):
    clear_state(recurrent_state, cu_seqlens, state_slots, has_initial_state, recurrent_state_stride_0, H * D * DV, 4096)


@triton.jit
def table(cu_seqlens, chunks, offsets, T, B, CHUNKED: tl.constexpr):
    if CHUNKED:
        chunk_table(cu_seqlens, chunks, offsets, B, tl.cdiv(T, 64) + B, 64)


@triton.jit
def zeros(q, solved, T, H, CHUNKED: tl.constexpr):
    if CHUNKED:
        at = tl.program_id(0).to(tl.int64) * 4096 + tl.arange(0, 4096)
        tl.store(typed(solved, q) + at, tl.zeros((4096,), tl.float32).to(q.dtype.element_ty), mask=at < tl.cast(T, tl.int64) * H * 64)


@triton.jit
def norms(q, k, q_copy, k_copy, q_unit, k_unit, lengths, T, G, D, q_stride_0, k_stride_0, WIDTH: tl.constexpr,
          CHUNKED: tl.constexpr):
    if CHUNKED:
        l2_norm(dense_or_copy(q, q_copy, q_stride_0 == G * D), typed(q_unit, q), lengths, 1e-6, T * G, D, WIDTH, 1, 32)
        l2_norm(dense_or_copy(k, k_copy, k_stride_0 == G * D), typed(k_unit, k), lengths, 1e-6, T * G, D, WIDTH, 1, 32)


@triton.jit
def sums(g, g_copy, gates, cu_seqlens, chunks, T, H, g_stride_0, CHUNKED: tl.constexpr):
    if CHUNKED:
        cumsum(dense_or_copy(g, g_copy, g_stride_0 == H), gates, LOG2_E, cu_seqlens, chunks, T, 1, H, 64, False, True, True)


@triton.jit
def units(x, copy, unit, stride, width, qk_l2_norm: tl.constexpr):
    """Normed rows, or the rows themselves."""
    if qk_l2_norm:
        at = typed(unit, x)
    else:
        at = dense_or_copy(x, copy, stride == width)
    return at


@triton.jit
def solve(k, beta, k_copy, k_unit, beta_copy, gates, solved, cu_seqlens, chunks, T, G, H, D, k_stride_0, beta_stride_0, qk_l2_norm: tl.constexpr,
          CHUNKED: tl.constexpr):
    if CHUNKED:
        kkt_solve(units(k, k_copy, k_unit, k_stride_0, G * D, qk_l2_norm), gates, dense_or_copy(beta, beta_copy, beta_stride_0 == H),
                  typed(solved, k), cu_seqlens, chunks, T, G, H, D, 64, 16, 64, True, True)


@triton.jit
def parts(k, v, beta, k_copy, k_unit, v_copy, beta_copy, gates, solved, w, u, cu_seqlens, chunks, T, G, H, D, DV, k_stride_0, v_stride_0,
          beta_stride_0, qk_l2_norm: tl.constexpr, CHUNKED: tl.constexpr):
    if CHUNKED:
        recompute(units(k, k_copy, k_unit, k_stride_0, G * D, qk_l2_norm), dense_or_copy(v, v_copy, v_stride_0 == H * DV),
                  dense_or_copy(beta, beta_copy, beta_stride_0 == H), typed(w, k), typed(u, v), typed(solved, k), gates, cu_seqlens, chunks, T, G, H,
                  D, DV, 64, 64, 64, True, True)


@triton.jit
def states(k, k_copy, k_unit, gates, w, u, new, h, recurrent_state, cu_seqlens, state_slots, offsets, T, G, H, DV, k_stride_0,
           recurrent_state_stride_0, WIDTH: tl.constexpr, qk_l2_norm: tl.constexpr, CHUNKED: tl.constexpr):
    if CHUNKED:
        n = (tl.program_id(0) // (tl.cdiv(DV, 32) * H)).to(tl.int64)
        state = recurrent_state + tl.load(state_slots + n).to(tl.int64) * recurrent_state_stride_0 - n * H * WIDTH * DV
        chunk_h(units(k, k_copy, k_unit, k_stride_0, G * WIDTH, qk_l2_norm), typed(u, k), typed(w, k), typed(new, k), gates, None, typed(h, k), state,
                state, cu_seqlens, offsets, T, G, H, WIDTH, DV, 64, 32, True, False, True, True, True, False, True)


@triton.jit
def output(q, k, q_copy, k_copy, q_unit, k_unit, gates, new, h, out, cu_seqlens, chunks, T, G, H, D, DV, scale, q_stride_0, k_stride_0,
           qk_l2_norm: tl.constexpr, CHUNKED: tl.constexpr):
    if CHUNKED:
        chunk_o(units(q, q_copy, q_unit, q_stride_0, G * D, qk_l2_norm), units(k, k_copy, k_unit, k_stride_0, G * D, qk_l2_norm), typed(new, q),
                typed(h, q), gates, None, out, cu_seqlens, chunks, scale, T, G, H, D, DV, 64, 64, 64, True, False, False, True)


@triton.jit
def recurrent(q, k, v, g, beta, q_copy, k_copy, v_copy, g_copy, beta_copy, recurrent_state, cu_seqlens, state_slots, out, T, G, H, D, DV, scale,
              q_stride_0, k_stride_0, v_stride_0, g_stride_0, beta_stride_0, recurrent_state_stride_0, qk_l2_norm: tl.constexpr, CHANNELS: tl.constexpr,
              CHUNKED: tl.constexpr, BK: tl.constexpr):
    if not CHUNKED:
        n = (tl.program_id(0) // (tl.cdiv(DV, 8) * H)).to(tl.int64)
        state = recurrent_state + tl.load(state_slots + n).to(tl.int64) * recurrent_state_stride_0 - n * H * D * DV
        if CHANNELS:
            gate = None
            gates = dense_or_copy(g, g_copy, g_stride_0 == H * D)
        else:
            gate = dense_or_copy(g, g_copy, g_stride_0 == H)
            gates = None
        fused_recurrent(dense_or_copy(q, q_copy, q_stride_0 == G * D), dense_or_copy(k, k_copy, k_stride_0 == G * D),
                        dense_or_copy(v, v_copy, v_stride_0 == H * DV), gate, gates, None, dense_or_copy(beta, beta_copy, beta_stride_0 == H), None,
                        None, out, state, state, cu_seqlens, scale, T, G, H, D, DV, BK, 8, not CHANNELS, CHANNELS, False, qk_l2_norm, True, True,
                        True, False, True, False, False, False, False)


ROWS = {"q": "G * D", "k": "G * D", "v": "H * DV", "g": "H * DG", "beta": "H"}
GAPS = {name: f"({name}_stride_0 != {width})" for name, width in ROWS.items()}
MOST = "(cdiv(T, 64) + B)"  # chunks
LAUNCH = [(copies, [f"T * ({' or '.join(GAPS.values())})"]), (clear, ["B", "cdiv(H * D * DV, 4096)"]), (table, ["(B + 1) * CHUNKED"]),
          (zeros, ["cdiv(T * H * 64, 4096) * CHUNKED"]), (norms, ["cdiv(T * G, 32) * qk_l2_norm * CHUNKED"], {"num_warps": 4}),
          (sums, [f"{MOST} * H * CHUNKED"], {"num_warps": 1}), (solve, [f"{MOST} * CHUNKED", "H"], {"num_warps": 2}),
          (parts, [f"{MOST} * CHUNKED", "H"], {"num_warps": 4, "num_stages": 3}),
          (states, ["cdiv(DV, 32) * B * H * CHUNKED"], {"num_warps": 4, "num_stages": 2}),
          (output, [f"cdiv(DV, 64) * {MOST} * CHUNKED", "H"], {"num_warps": 4, "num_stages": 3}),
          (recurrent, ["cdiv(DV, 8) * B * H * (1 - CHUNKED)"], {"num_warps": 1, "num_stages": 3})]
SCRATCH = {f"{name}_copy": ("u8", f"T * {ROWS[name]} * {name}_bytes * {gaps}") for name, gaps in GAPS.items()} | {
    "q_unit": ("u8", "T * G * D * q_bytes * qk_l2_norm * CHUNKED"), "k_unit": ("u8", "T * G * D * q_bytes * qk_l2_norm * CHUNKED"),
    "lengths": ("f32", "T * G * qk_l2_norm * CHUNKED"), "chunks": ("i32", f"2 * {MOST} * CHUNKED"), "offsets": ("i32", "B * CHUNKED"),
    "gates": ("f32", "T * H * CHUNKED"), "solved": ("u8", "T * H * 64 * q_bytes * CHUNKED"), "w": ("u8", "T * H * D * q_bytes * CHUNKED"),
    "u": ("u8", "T * H * DV * q_bytes * CHUNKED"), "new": ("u8", "T * H * DV * q_bytes * CHUNKED"),
    "h": ("u8", f"{MOST} * H * D * DV * q_bytes * CHUNKED")}
DTYPES = [{"q": q, "beta": beta, "recurrent_state": state} for q in ("bf16", "f16", "f32") for beta in dict.fromkeys(("f32", q))
          for state in dict.fromkeys(("f32", q)) if q == "bf16" or beta == state]
WIDE = {"divisible": ["q", "k", "v", "recurrent_state", "D", "DV", "q_stride_0", "k_stride_0", "v_stride_0", "recurrent_state_stride_0"]}
TOKENWISE = [{"when": f"D <= {BK} and DG == {'D' if channels else 1}", "qk_l2_norm": norm, "CHANNELS": channels, "BK": BK, "WIDTH": 0, "CHUNKED": False}
             for BK in (64, 128, 256) for channels in (False, True) for norm in (1, 0)]
# Widths of keys in models; the package's lists have these configurations.
VARIANTS = [entry | WIDE | {"when": f"max_query_len <= 64 and {entry['when']}"} for entry in TOKENWISE] + [
    {"when": f"q_bytes == 2 and DG == 1 and D == {D}", "qk_l2_norm": norm, "CHANNELS": False, "BK": D, "WIDTH": D, "CHUNKED": True} | WIDE for D in (64, 128, 256)
    for norm in (1, 0)] + TOKENWISE
CLAIMS = {"deterministic": True, "batch_invariant": False}
