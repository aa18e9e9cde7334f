# SPDX-License-Identifier: Apache-2.0
# paged_attention: attention of ragged queries over a paged cache. One warp for each query token and head.
# The contract as a page: fk-host show paged_attention
import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import Float32, Int32

LANES = 32
WIDTH = 8  # elements of a head for each lane: heads have at most 256


@cute.kernel
def attend(q: cute.Tensor, k_cache: cute.Tensor, v_cache: cute.Tensor, block_tables: cute.Tensor, cu_seqlens: cute.Tensor,
           seq_lens: cute.Tensor, sinks: cute.Tensor, out: cute.Tensor, scale: Float32, window: Int32, softcap: Float32, causal: Int32):
    lane, _, _ = cute.arch.thread_idx()
    query, head, request = cute.arch.block_idx()
    first = cu_seqlens[request]
    tokens = cu_seqlens[request + 1] - first
    width = q.shape[2]
    page_size = k_cache.shape[1]
    if query < tokens:
        token = first + query
        length = seq_lens[request]
        position = length - tokens + query
        low = Int32(0)
        if window > 0:
            low = cutlass.max(position - window + 1, 0)
        high = length
        if causal != 0:
            high = cutlass.min(position + 1, length)
        else:
            if window > 0:
                high = cutlass.min(position + window, length)
        group = head // (q.shape[1] // k_cache.shape[2])
        asked = cute.make_rmem_tensor(WIDTH, Float32)
        total = cute.make_rmem_tensor(WIDTH, Float32)
        for j in cutlass.range_constexpr(WIDTH):
            asked[j] = Float32(0.0)
            total[j] = Float32(0.0)
            if lane + j * LANES < width:
                asked[j] = q[token, head, lane + j * LANES].to(Float32)
        most = Float32(-3.0e38)
        weight = Float32(0.0)
        if cutlass.const_expr(sinks is not None):
            most = sinks[head]
            weight = Float32(1.0)
        for key in range(low, high):
            page = block_tables[request, key // page_size]
            slot = key % page_size
            part = Float32(0.0)
            for j in cutlass.range_constexpr(WIDTH):
                if lane + j * LANES < width:
                    part += asked[j] * k_cache[page, slot, group, lane + j * LANES].to(Float32)
            score = cute.arch.warp_reduction_sum(part) * scale
            if softcap > Float32(0.0):
                score = softcap * cute.math.tanh(score / softcap)
            above = cutlass.max(most, score)
            before = cute.math.exp(most - above)
            share = cute.math.exp(score - above)
            for j in cutlass.range_constexpr(WIDTH):
                if lane + j * LANES < width:
                    total[j] = total[j] * before + share * v_cache[page, slot, group, lane + j * LANES].to(Float32)
            weight = weight * before + share
            most = above
        if weight == Float32(0.0):
            weight = Float32(1.0)  # a query that sees nothing gives 0
        for j in cutlass.range_constexpr(WIDTH):
            if lane + j * LANES < width:
                out[token, head, lane + j * LANES] = (total[j] / weight).to(out.element_type)


# Parameters are tensors, scalars and axes of the contract, and the stream.
@cute.jit
def paged_attention(q: cute.Tensor, k_cache: cute.Tensor, v_cache: cute.Tensor, block_tables: cute.Tensor, cu_seqlens: cute.Tensor,
                    seq_lens: cute.Tensor, sinks: cute.Tensor, out: cute.Tensor, scale: Float32, window: Int32, softcap: Float32,
                    causal: Int32, max_query_len: Int32, stream: CUstream):
    attend(q, k_cache, v_cache, block_tables, cu_seqlens, seq_lens, sinks, out, scale, window, softcap, causal).launch(
        grid=[max_query_len, q.shape[1], seq_lens.shape[0]], block=[LANES, 1, 1], stream=stream)


PLUGIN = ("template_cutedsl", "0.1.0")
EDITION = 2
LAUNCH = paged_attention
LIMITS = {"D": 256, "B": 65535}
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{"q": q, "k_cache": q, "sinks": sinks} for q in ("bf16", "f16", "f32") for sinks in ("f32", None)]
CLAIMS = {"deterministic": True, "batch_invariant": True}
