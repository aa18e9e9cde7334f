# SPDX-License-Identifier: Apache-2.0
# fla.ops.gla.chunk_gla and fla.ops.retention.chunk_retention. For requests of at most 64 tokens fla.ops.gla.fused_recurrent_gla, as the package's
# layers choose, and where no chunked form is: with float32, or with both kinds of decays.
import triton
import triton.language as tl

from _fla import chunk_table, clear_state, copy_row, dense_or_copy, kernel, typed

cumsum = kernel("utils.cumsum", "chunk_local_cumsum_vector_kernel")
chunk_h = kernel("common.chunk_h", "chunk_fwd_kernel_h")
chunk_o = kernel("common.chunk_o", "chunk_fwd_kernel_o")
gla_inter = kernel("gla.chunk", "chunk_gla_fwd_A_kernel_intra_sub_inter")
gla_intra = kernel("gla.chunk", "chunk_gla_fwd_A_kernel_intra_sub_intra")
gla_o = kernel("gla.chunk", "chunk_gla_fwd_kernel_o")
fused_recurrent = kernel("common.fused_recurrent", "fused_recurrent_fwd_kernel")
LOG2_E = tl.constexpr(1.4426950216293335)  # the package's decays are powers of 2


@triton.jit
def prepare(q, k, v, g, q_copy, k_copy, v_copy, g_copy, H, D, DV, q_stride_0, k_stride_0, v_stride_0, g_stride_0):
    row = tl.program_id(0).to(tl.int64)
    copy_row(q, q_copy, row, q_stride_0, H * D, 1024)
    copy_row(k, k_copy, row, k_stride_0, H * D, 1024)
    copy_row(v, v_copy, row, v_stride_0, H * DV, 1024)
    if g is not None:
        copy_row(g, g_copy, row, g_stride_0, H * D, 1024)


@triton.jit
def clear(recurrent_state, cu_seqlens, state_slots, has_initial_state, H, D, DV, recurrent_state_stride_0):
    clear_state(recurrent_state, cu_seqlens, state_slots, has_initial_state, recurrent_state_stride_0, H * D * DV, 4096)


@triton.jit
def table(cu_seqlens, decay, decay_2, chunks, offsets, T, B, H, CHUNKED: tl.constexpr):
    if CHUNKED:
        chunk_table(cu_seqlens, chunks, offsets, B, tl.cdiv(T, 64) + B, 64)
        if decay is not None:
            for start in range(0, H, 1024):
                at = start + tl.arange(0, 1024)
                tl.store(decay_2 + at, tl.load(decay + at, mask=at < H) * LOG2_E, mask=at < H)


@triton.jit
def sums(g, g_copy, gates, cu_seqlens, chunks, T, H, D, g_stride_0, CHUNKED: tl.constexpr):
    if CHUNKED:
        if g is not None:
            cumsum(dense_or_copy(g, g_copy, g_stride_0 == H * D), gates, LOG2_E, cu_seqlens, chunks, T, 1, H, D, 64, 64, False, True, True)


@triton.jit
def states(k, v, g, k_copy, v_copy, gates, decay, decay_2, h, recurrent_state, cu_seqlens, state_slots, offsets, T, H, D, DV, k_stride_0, v_stride_0,
           recurrent_state_stride_0, CHUNKED: tl.constexpr):
    if CHUNKED:
        n = (tl.program_id(0) // (tl.cdiv(D, 64) * tl.cdiv(DV, 64) * H)).to(tl.int64)
        state = recurrent_state + tl.load(state_slots + n).to(tl.int64) * recurrent_state_stride_0 - n * H * D * DV
        chunk_h(dense_or_copy(k, k_copy, k_stride_0 == H * D), dense_or_copy(v, v_copy, v_stride_0 == H * DV), typed(h, k), None,
                decay_2, gates, None, state, state, cu_seqlens, offsets, T, H, D, DV, 64, 64, 64, 64, False, decay is not None, g is not None,
                False, True, True, True, False)


@triton.jit
def inter(q, k, g, q_copy, k_copy, gates, scores, cu_seqlens, chunks, T, H, D, scale, q_stride_0, k_stride_0, CHUNKED: tl.constexpr):
    if CHUNKED:
        if g is not None:
            gla_inter(dense_or_copy(q, q_copy, q_stride_0 == H * D), dense_or_copy(k, k_copy, k_stride_0 == H * D), gates, scores, cu_seqlens,
                      chunks, scale, T, H, D, 64, 16, 64, 4, True)


@triton.jit
def intra(q, k, g, q_copy, k_copy, gates, scores, cu_seqlens, chunks, T, H, D, scale, q_stride_0, k_stride_0, CHUNKED: tl.constexpr,
          BK: tl.constexpr):
    if CHUNKED:
        if g is not None:
            gla_intra(dense_or_copy(q, q_copy, q_stride_0 == H * D), dense_or_copy(k, k_copy, k_stride_0 == H * D), gates, scores, cu_seqlens,
                      chunks, scale, T, H, D, 64, 16, BK, True)


@triton.jit
def output(q, k, v, g, q_copy, k_copy, v_copy, gates, decay_2, scores, h, out, cu_seqlens, chunks, T, H, D, DV, scale, q_stride_0, k_stride_0,
           v_stride_0, CHUNKED: tl.constexpr):
    if CHUNKED:
        q = dense_or_copy(q, q_copy, q_stride_0 == H * D)
        v = dense_or_copy(v, v_copy, v_stride_0 == H * DV)
        if g is not None:
            gla_o(q, v, gates, typed(h, q), out, scores, cu_seqlens, chunks, scale, T, H, H, D, DV, 64, 64, 64, False, True)
        else:
            k = dense_or_copy(k, k_copy, k_stride_0 == H * D)
            chunk_o(q, k, v, typed(h, q), None, decay_2, out, cu_seqlens, chunks, scale, T, H, H, D, DV, 64, 64, 64, False, True, False, True)


@triton.jit
def recurrent(q, k, v, g, q_copy, k_copy, v_copy, g_copy, decay, recurrent_state, cu_seqlens, state_slots, parts, T, H, D, DV, scale, q_stride_0,
              k_stride_0, v_stride_0, g_stride_0, recurrent_state_stride_0, CHUNKED: tl.constexpr):
    if not CHUNKED:
        n = (tl.program_id(0) // (tl.cdiv(DV, 64) * tl.cdiv(D, 64) * H)).to(tl.int64)
        state = recurrent_state + tl.load(state_slots + n).to(tl.int64) * recurrent_state_stride_0 - n * H * D * DV
        logs = None
        if g is not None:
            logs = dense_or_copy(g, g_copy, g_stride_0 == H * D)
        fused_recurrent(dense_or_copy(q, q_copy, q_stride_0 == H * D), dense_or_copy(k, k_copy, k_stride_0 == H * D),
                        dense_or_copy(v, v_copy, v_stride_0 == H * DV), None, decay, logs, None, parts, state, state, cu_seqlens, scale, 1, T, H, D,
                        DV, 64, 64, False, False, decay is not None, g is not None, False, True, True, True)


@triton.jit
def total(parts, out, T, H, D, DV, CHUNKED: tl.constexpr):
    if not CHUNKED:
        at = tl.program_id(0).to(tl.int64) * 1024 + tl.arange(0, 1024)
        count = tl.cast(T, tl.int64) * H * DV
        both = tl.zeros((1024,), tl.float32)
        for part in range(tl.cdiv(D, 64)):
            both += tl.load(parts + part * count + at, mask=at < count, other=0)
        tl.store(out + at, both.to(out.dtype.element_ty), mask=at < count)


GAPS = {name: f"({name}_stride_0 != H * {'DV' if name == 'v' else 'D'})" for name in "qkv"} | {"g": "(g_bytes > 0) * (g_stride_0 != H * D)"}
CHUNKS = "(cdiv(T, 64) + B)"  # the most there can be
BLOCKS = "cdiv(D, 64) * cdiv(DV, 64) * B * H"
LAUNCH = [(prepare, [f"T * ({' or '.join(GAPS.values())})"]), (clear, ["B", "cdiv(H * D * DV, 4096)"]), (table, ["(B + 1) * CHUNKED"]),
          (sums, [f"cdiv(D, 64) * {CHUNKS} * (g_bytes > 0) * CHUNKED", "H"], {"num_warps": 4}),
          (states, [f"{BLOCKS} * CHUNKED"], {"num_warps": 4, "num_stages": 3}),
          (inter, [f"{CHUNKS} * (g_bytes > 0) * CHUNKED", "16", "H"], {"num_warps": 2, "num_stages": 3}),
          (intra, [f"{CHUNKS} * (g_bytes > 0) * CHUNKED", "4", "H"], {"num_warps": 4, "num_stages": 2}),
          (output, [f"cdiv(DV, 64) * {CHUNKS} * CHUNKED", "H"], {"num_warps": 4, "num_stages": 3}),
          (recurrent, [f"{BLOCKS} * (1 - CHUNKED)"], {"num_warps": 4}), (total, ["cdiv(T * H * DV, 1024) * (1 - CHUNKED)"])]
SCRATCH = {f"{name}_copy": ("u8", f"T * H * {'DV' if name == 'v' else 'D'} * {name}_bytes * {gaps}") for name, gaps in GAPS.items()} | {
    "decay_2": ("f32", "H * CHUNKED"), "chunks": ("i32", f"2 * {CHUNKS} * CHUNKED"), "offsets": ("i32", "B * CHUNKED"),
    "gates": ("f32", "T * H * D * (g_bytes > 0) * CHUNKED"), "scores": ("f32", "T * H * 64 * (g_bytes > 0) * CHUNKED"),
    "h": ("u8", f"{CHUNKS} * H * D * DV * q_bytes * CHUNKED"), "parts": ("f32", "cdiv(D, 64) * T * H * DV * (1 - CHUNKED)")}
DTYPES = [{"q": q, "g": g, "decay": decay, "recurrent_state": state} for q in ("bf16", "f16", "f32") for state in dict.fromkeys(("f32", q))
          for g, decay in dict.fromkeys((("f32", None), (q, None), (None, "f32"), ("f32", "f32"))) if q == "bf16" or state == "f32"]
WIDE = ["q", "k", "v", "recurrent_state", "D", "DV", "q_stride_0", "k_stride_0", "v_stride_0", "recurrent_state_stride_0"]
CHUNKED = {"when": "q_bytes == 2 and decay_bytes * g_bytes == 0", "CHUNKED": True}
# Configurations out of the package's lists: blocks of 64 in each axis.
VARIANTS = [{"when": "max_query_len <= 64", "CHUNKED": False, "BK": 64, "divisible": WIDE},
            CHUNKED | {"when": f"{CHUNKED['when']} and D <= 128", "BK": 128, "divisible": WIDE},
            CHUNKED | {"when": f"{CHUNKED['when']} and D <= 256", "BK": 256, "divisible": WIDE},
            {"CHUNKED": False, "BK": 64}]
CLAIMS = {"deterministic": True, "batch_invariant": False}
