# SPDX-License-Identifier: Apache-2.0
# mamba_chunk_scan_combined_varlen of vLLM: Mamba's kernels, where no chunk has tokens of two requests
import triton
import triton.language as tl

from _mamba import kernel

cumsum_kernel = kernel("ssd_chunk_state", "_chunk_cumsum_fwd_kernel")
state_kernel = kernel("ssd_chunk_state", "_chunk_state_fwd_kernel")
passing_kernel = kernel("ssd_state_passing", "_state_passing_fwd_kernel")
bmm_kernel = kernel("ssd_bmm", "_bmm_chunk_fwd_kernel")
scan_kernel = kernel("ssd_chunk_scan", "_chunk_scan_fwd_kernel")


@triton.jit
def prepare(cu_seqlens, state_slots, has_initial_state, ssm_state, starts, slots, last, T, B, H, D, DS, ssm_state_stride_0, SIZE: tl.constexpr):
    """On the device, what vLLM makes on the host: `starts` has the first token of each chunk, `slots` its state, `last` the last chunk of each
    request. Program B fills the rest with chunks without tokens. The second axis of the grid clears states which requests do not begin with.
    """
    n, part = tl.program_id(0), tl.program_id(1)
    if part == 0:
        before = 0
        for start in range(0, n, 1024):
            at = start + tl.arange(0, 1024)
            length = tl.load(cu_seqlens + at + 1, mask=at < n, other=0) - tl.load(cu_seqlens + at, mask=at < n, other=0)
            before += tl.sum((length + SIZE - 1) // SIZE)
        first, slot, step, count = T, 0, 0, tl.cdiv(T, SIZE) + B - before + 1
        if n < B:
            first, slot, step = tl.load(cu_seqlens + n), tl.load(state_slots + n), SIZE
            count = (tl.load(cu_seqlens + n + 1) - first + SIZE - 1) // SIZE
            tl.store(last + n, before + count - 1)
        for start in range(0, count, 1024):
            at = start + tl.arange(0, 1024)
            tl.store(starts + before + at, first + at * step, mask=at < count)
            tl.store(slots + before + at, slot + at * 0, mask=at < count)
    if n < B:
        if (tl.load(has_initial_state + n) == 0) & (tl.load(cu_seqlens + n + 1) > tl.load(cu_seqlens + n)):
            at = part.to(tl.int64) * 4096 + tl.arange(0, 4096)
            to = ssm_state + tl.load(state_slots + n).to(tl.int64) * ssm_state_stride_0 + at
            tl.store(to, tl.zeros((4096,), tl.float32).to(ssm_state.dtype.element_ty), mask=at < H * D * DS)


@triton.jit
def sums(dt, a, dt_bias, steps, decays, starts, T, B, H, dt_min, dt_max, dt_stride_0, dt_softplus: tl.constexpr, SIZE: tl.constexpr):
    chunks = (tl.cdiv(T, SIZE) + B).to(tl.int64)
    cumsum_kernel(dt, a, dt_bias, steps, decays, starts, H, SIZE, dt_min, tl.where(dt_max > 0, dt_max, float("inf")), dt_stride_0, 1, 1, 1,
                  chunks * SIZE, SIZE, 1, chunks * SIZE, SIZE, 1, dt_softplus, dt_bias is not None, 4, SIZE)


@triton.jit
def chunk_states(x, b, own, steps, decays, starts, T, B, H, D, G, DS, x_stride_0, b_stride_0, SIZE: tl.constexpr):
    chunks = (tl.cdiv(T, SIZE) + B).to(tl.int64)
    state_kernel(x, b, own, steps, decays, starts, D, DS, SIZE, H // G, x_stride_0, D, 1, b_stride_0, DS, 1, tl.cast(H, tl.int64) * D * DS, D * DS,
                 DS, 1, chunks * SIZE, SIZE, 1, chunks * SIZE, SIZE, 1, 64, 128, 32)


@triton.jit
def pass_states(own, passed, decays, ssm_state, state_slots, last, T, B, H, D, DS, ssm_state_stride_0, SIZE: tl.constexpr):
    chunks = (tl.cdiv(T, SIZE) + B).to(tl.int64)
    n = tl.program_id(1).to(tl.int64)  # the kernel takes initial state n
    state = ssm_state + (tl.load(state_slots + n).to(tl.int64) - n) * ssm_state_stride_0
    wide = tl.cast(H, tl.int64) * D * DS
    passing_kernel(own, passed.to(tl.pointer_type(ssm_state.dtype.element_ty), bitcast=True), decays, state, last, D * DS, SIZE, wide, D * DS, 1, wide,
                   D * DS, 1, chunks * SIZE, SIZE, 1, ssm_state_stride_0, D * DS, 1, True, 512)


@triton.jit
def products(b, c, both, starts, G, DS, b_stride_0, c_stride_0, SIZE: tl.constexpr):
    bmm_kernel(c, b, both, starts, SIZE, DS, G, c_stride_0, DS, 1, b_stride_0, DS, 1, tl.cast(G, tl.int64) * SIZE * SIZE, SIZE * SIZE, SIZE, 1, False,
               b.dtype.element_ty, 64, 64, 64)


@triton.jit
def scan(x, c, d, both, steps, decays, passed, ssm_state, slots, starts, out, T, B, H, D, G, DS, x_stride_0, c_stride_0, ssm_state_stride_0,
         BLOCK_DS: tl.constexpr, SIZE: tl.constexpr):
    chunks = (tl.cdiv(T, SIZE) + B).to(tl.int64)
    # Slots are distinct, so the number of a slot also tells requests apart.
    scan_kernel(both, x, None, out, steps, decays, slots, c, passed.to(tl.pointer_type(ssm_state.dtype.element_ty), bitcast=True), d, ssm_state, starts,
                SIZE, D, DS, H // G, tl.cast(G, tl.int64) * SIZE * SIZE, SIZE * SIZE, SIZE, 1, x_stride_0, D, 1, 0, 0, 0, tl.cast(H, tl.int64) * D, D, 1,
                SIZE, chunks * SIZE, 1, SIZE, chunks * SIZE, 1, 1, c_stride_0, DS, 1, tl.cast(H, tl.int64) * D * DS, D * DS, DS, 1, ssm_state_stride_0,
                D * DS, DS, 1, 1, True, d is not None, False, False, 64, 64, 32, BLOCK_DS, True, True)


@triton.jit
def store(cu_seqlens, state_slots, ssm_state, passed, last, H, D, DS, ssm_state_stride_0):
    n = tl.program_id(0)
    if tl.load(cu_seqlens + n + 1) > tl.load(cu_seqlens + n):
        wide = tl.cast(H, tl.int64) * D * DS
        at = tl.program_id(1).to(tl.int64) * 4096 + tl.arange(0, 4096)
        kept = passed.to(tl.pointer_type(ssm_state.dtype.element_ty), bitcast=True) + tl.load(last + n).to(tl.int64) * wide
        tl.store(ssm_state + tl.load(state_slots + n).to(tl.int64) * ssm_state_stride_0 + at, tl.load(kept + at, mask=at < wide), mask=at < wide)


CHUNKS = "(cdiv(T, SIZE) + B)"  # the most there can be
LAUNCH = [(prepare, ["B + 1", "cdiv(H * D * DS, 4096)"]), (sums, [CHUNKS, "cdiv(H, 4)"]),
          (chunk_states, ["cdiv(D, 64) * cdiv(DS, 128)", CHUNKS, "H"], {"num_warps": 4, "num_stages": 4}),
          (pass_states, ["cdiv(D * DS, 512)", "B", "H"]), (products, ["cdiv(SIZE, 64) * cdiv(SIZE, 64)", f"{CHUNKS} * G"], {"num_warps": 4, "num_stages": 3}),
          (scan, ["cdiv(SIZE, 64) * cdiv(D, 64)", CHUNKS, "H"], {"num_warps": 4, "num_stages": 4}), (store, ["B", "cdiv(H * D * DS, 4096)"])]
SCRATCH = {"starts": ("i32", f"{CHUNKS} + 1"), "slots": ("i32", f"{CHUNKS} + 1"), "last": ("i32", "B"),
           "steps": ("f32", f"H * {CHUNKS} * SIZE"), "decays": ("f32", f"H * {CHUNKS} * SIZE"), "own": ("f32", f"{CHUNKS} * H * D * DS"),
           "passed": ("u8", f"{CHUNKS} * H * D * DS * ssm_state_bytes"), "both": ("f32", f"{CHUNKS} * G * SIZE * SIZE")}
pairs = lambda x: dict.fromkeys(((x, x), ("f32", "f32"), (None, "f32"), (None, x), ("f32", None)))  # dtypes of d and dt_bias
DTYPES = [{"x": x, "d": d, "dt_bias": dt_bias, "ssm_state": state} for x in ("bf16", "f16") for d, dt_bias in pairs(x) for state in ("f32", x)]
WIDE = {"divisible": ["x", "b", "c", "ssm_state", "D", "DS", "x_stride_0", "b_stride_0", "c_stride_0", "ssm_state_stride_0"]}
# The model's chunks, up to 256 tokens. Blocks are out of the package's lists: 64 by 64, and 64 by 128 for states.
VARIANTS = [{"when": f"DS <= {DS} and chunk_size {chunk}", "BLOCK_DS": DS, "SIZE": size, "dt_softplus": softplus} | wide for wide, DS in (
    (WIDE, 128), ({}, 64), ({}, 256)) for chunk, size in ((">= 256", 256), ("< 256", 64)) for softplus in (1, 0)]
CLAIMS = {"deterministic": True, "batch_invariant": False}
