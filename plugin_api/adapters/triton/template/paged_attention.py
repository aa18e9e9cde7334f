# SPDX-License-Identifier: Apache-2.0
# paged_attention: attention of ragged queries over a paged cache, with one query token per request decode
# The contract as a page: fk-host show paged_attention
import triton
import triton.language as tl


@triton.jit
def paged_attention(q, k_cache, v_cache, block_tables, cu_seqlens, seq_lens, sinks, out, q_stride_0, q_stride_1, k_cache_stride_0,
                    k_cache_stride_1, k_cache_stride_2, v_cache_stride_0, v_cache_stride_1, v_cache_stride_2, H, G, D, Z, W,
                    max_query_len, scale, window, softcap, causal, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                    BLOCK_D: tl.constexpr):
    # One block: rows of one request and one key head. A row is a query token with one of the heads that share the key head.
    shared = H // G
    blocks = tl.cdiv(max_query_len * shared, BLOCK_M)
    block = tl.program_id(0) % blocks
    group = tl.program_id(0) // blocks % G
    request = tl.program_id(0) // blocks // G
    first = tl.load(cu_seqlens + request)
    tokens = tl.load(cu_seqlens + request + 1) - first
    if block * BLOCK_M >= tokens * shared:
        return
    length = tl.load(seq_lens + request)
    row = block * BLOCK_M + tl.arange(0, BLOCK_M)
    head = group * shared + row % shared
    inside = row < tokens * shared
    position = length - tokens + row // shared
    # The keys that a row sees, and those that the block sees.
    low = tl.where(window > 0, position - window + 1, 0)
    high = tl.where(causal != 0, position, tl.where(window > 0, position + window - 1, length - 1))
    high = tl.where(inside, tl.minimum(high, length - 1), -1)
    begin = tl.maximum(tl.min(low), 0)
    end = tl.max(high) + 1

    d = tl.arange(0, BLOCK_D)
    at = (first + row // shared).to(tl.int64)
    query = tl.load(q + (at * q_stride_0 + head * q_stride_1)[:, None] + d[None, :], mask=inside[:, None] & (d < D)[None, :], other=0)
    total = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    if sinks is not None:
        most = tl.load(sinks + head, mask=inside, other=0)
        weight = tl.full((BLOCK_M,), 1, tl.float32)
    else:
        most = tl.full((BLOCK_M,), float("-inf"), tl.float32)
        weight = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(begin, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        there = key < end
        page = tl.load(block_tables + request.to(tl.int64) * W + key // Z, mask=there, other=0).to(tl.int64)
        slot = (key % Z).to(tl.int64)
        k_at = page * k_cache_stride_0 + slot * k_cache_stride_1 + group * k_cache_stride_2
        v_at = page * v_cache_stride_0 + slot * v_cache_stride_1 + group * v_cache_stride_2
        k = tl.load(k_cache + k_at[None, :] + d[:, None], mask=there[None, :] & (d < D)[:, None], other=0)
        score = tl.dot(query, k, input_precision="ieee") * scale
        if softcap > 0:
            small = tl.exp(-2 * tl.abs(score) / softcap)
            bent = softcap * (1 - small) / (1 + small)
            score = tl.where(score < 0, -bent, bent)
        score = tl.where((key[None, :] >= low[:, None]) & (key[None, :] <= high[:, None]), score, float("-inf"))
        above = tl.maximum(most, tl.max(score, 1))
        base = tl.where(above == float("-inf"), 0, above)
        share = tl.exp(score - base[:, None])
        before = tl.exp(most - base)
        v = tl.load(v_cache + v_at[:, None] + d[None, :], mask=there[:, None] & (d < D)[None, :], other=0)
        total = tl.dot(share.to(v.dtype), v, total * before[:, None], input_precision="ieee")
        weight = weight * before + tl.sum(share, 1)
        most = above
    result = total / tl.where(weight > 0, weight, 1)[:, None]  # a query that sees nothing gives 0
    tl.store(out + ((at * H + head) * D)[:, None] + d[None, :], result.to(out.dtype.element_ty),
             mask=inside[:, None] & (d < D)[None, :])


PLUGIN = ("template_triton", "0.1.0")
EDITION = 2
# Kernels in the order of their launches, each with its grid.
LAUNCH = [(paged_attention, ["B * G * cdiv(max_query_len * (H // G), BLOCK_M)"])]
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{"q": q, "k_cache": q, "sinks": sinks} for q in ("bf16", "f16", "f32") for sinks in ("f32", None)]
# The first entry whose condition holds takes the call. Arguments in `divisible` are multiples of 16 there.
STRIDES = ["q", "k_cache", "v_cache", "D", "q_stride_0", "q_stride_1", "k_cache_stride_0", "k_cache_stride_1", "k_cache_stride_2",
           "v_cache_stride_0", "v_cache_stride_1", "v_cache_stride_2"]
VARIANTS = [
    {"when": "q_bytes == 2 and D <= 64 and max_query_len * H <= 16 * G", "BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_D": 64, "divisible": STRIDES},
    {"when": "q_bytes == 2 and D <= 64", "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_D": 64, "divisible": STRIDES},
    {"when": "q_bytes == 2 and D <= 128 and max_query_len * H <= 16 * G", "BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_D": 128, "divisible": STRIDES},
    {"when": "q_bytes == 2 and D <= 128", "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_D": 128, "num_stages": 2, "divisible": STRIDES},
    {"when": "D <= 64", "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_D": 64, "num_stages": 2},
    {"when": "D <= 256", "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_D": 256, "num_stages": 2},
]
CLAIMS = {"deterministic": True, "batch_invariant": False}
