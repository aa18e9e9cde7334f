# SPDX-License-Identifier: Apache-2.0
# paged_attention: attention of ragged queries over a paged cache. One block for each query token and head, a page at a time.
# The contract as a page: fk-host show paged_attention
import tilelang  # noqa: F401
import tilelang.language as tl  # axes of the contract have the names T and B

LOW = -1.0e30  # the score of a key which the query does not see


# `dtypes` has the name of each tensor's dtype, and None for an absent tensor. Parameters have the contract's names.
def paged_attention(dtypes, D, Z):
    T, B, H, G, P, W = (tl.dynamic(axis) for axis in "TBHGPW")
    dtype = dtypes["q"]

    @tl.macro
    def attend(q, k_cache, v_cache, block_tables, cu_seqlens, seq_lens, out, scale, window, softcap, causal, max_query_len, sinks):
        with tl.Kernel(max_query_len, H, B, threads=128) as (query, head, request):
            query_row = tl.alloc_fragment((D,), "float32")
            total = tl.alloc_fragment((D,), "float32")
            part = tl.alloc_fragment((D,), "float32")
            product = tl.alloc_fragment((Z, D), "float32")
            score = tl.alloc_fragment((Z,), "float32")
            most = tl.alloc_fragment((1,), "float32")
            above = tl.alloc_fragment((1,), "float32")
            weight = tl.alloc_fragment((1,), "float32")
            share = tl.alloc_fragment((1,), "float32")
            first = cu_seqlens[request]
            tokens = cu_seqlens[request + 1] - first
            token = tl.min(first + query, T - 1)
            length = seq_lens[request]
            position = length - tokens + query
            low = tl.if_then_else(window > 0, tl.max(position - window + 1, 0), 0)
            far = tl.if_then_else(window > 0, tl.min(position + window, length), length)
            high = tl.if_then_else(query < tokens, tl.if_then_else(causal != 0, tl.min(position + 1, length), far), 0)
            group = head // (H // G)
            for d in tl.Parallel(D):
                query_row[d] = q[token, head, d]
            tl.clear(total)
            if sinks is None:
                tl.fill(most, LOW)
                tl.clear(weight)
            else:
                most[0] = sinks[head]
                weight[0] = 1.0
            for page in tl.serial(low // Z, tl.ceildiv(high, Z)):
                for z, d in tl.Parallel(Z, D):
                    product[z, d] = query_row[d] * k_cache[block_tables[request, page], z, group, d]
                tl.reduce_sum(product, score, dim=1)
                for z in tl.Parallel(Z):
                    plain = score[z] * scale
                    capped = tl.if_then_else(softcap > 0.0, softcap * tl.tanh(plain / softcap), plain)
                    key = page * Z + z
                    score[z] = tl.if_then_else(key >= low and key < high, capped, LOW)
                tl.reduce_max(score, above, dim=0)
                above[0] = tl.max(above[0], most[0])
                for z in tl.Parallel(Z):
                    score[z] = tl.if_then_else(score[z] == LOW, 0.0, tl.exp(score[z] - above[0]))
                tl.reduce_sum(score, share, dim=0)
                weight[0] = weight[0] * tl.exp(most[0] - above[0]) + share[0]
                for z, d in tl.Parallel(Z, D):
                    # A page may have slots behind the last key, whose values are unknown.
                    product[z, d] = tl.if_then_else(score[z] > 0.0, score[z] * v_cache[block_tables[request, page], z, group, d], 0.0)
                tl.reduce_sum(product, part, dim=0)
                for d in tl.Parallel(D):
                    total[d] = total[d] * tl.exp(most[0] - above[0]) + part[d]
                most[0] = above[0]
            if query < tokens:
                for d in tl.Parallel(D):  # a query that sees nothing gives 0
                    out[token, head, d] = total[d] / tl.if_then_else(weight[0] > 0.0, weight[0], 1.0)

    # A dynamic size NAME_stride_AXIS is a stride of the call. Without it, a tensor with gaps is refused.
    def strides(name, axes):
        return (*(tl.dynamic(f"{name}_stride_{axis}") for axis in range(axes - 1)), 1)

    asked, keys, values = strides("q", 3), strides("k_cache", 4), strides("v_cache", 4)
    pages, numbers = (P, Z, G, D), "int32"

    @tl.prim_func
    def plain(q: tl.StridedTensor((T, H, D), asked, dtype), k_cache: tl.StridedTensor(pages, keys, dtype), v_cache: tl.StridedTensor(pages, values, dtype),
              block_tables: tl.Tensor((B, W), numbers), cu_seqlens: tl.Tensor((B + 1,), numbers), seq_lens: tl.Tensor((B,), numbers),
              out: tl.Tensor((T, H, D), dtype), scale: tl.float32, window: tl.int32, softcap: tl.float32, causal: tl.int32, max_query_len: tl.int32):
        attend(q, k_cache, v_cache, block_tables, cu_seqlens, seq_lens, out, scale, window, softcap, causal, max_query_len, None)

    @tl.prim_func
    def with_sinks(q: tl.StridedTensor((T, H, D), asked, dtype), k_cache: tl.StridedTensor(pages, keys, dtype), v_cache: tl.StridedTensor(pages, values, dtype),
                   block_tables: tl.Tensor((B, W), numbers), cu_seqlens: tl.Tensor((B + 1,), numbers), seq_lens: tl.Tensor((B,), numbers),
                   sinks: tl.Tensor((H,), "float32"), out: tl.Tensor((T, H, D), dtype), scale: tl.float32, window: tl.int32, softcap: tl.float32,
                   causal: tl.int32, max_query_len: tl.int32):
        attend(q, k_cache, v_cache, block_tables, cu_seqlens, seq_lens, out, scale, window, softcap, causal, max_query_len, sinks)

    return with_sinks if dtypes["sinks"] else plain


PLUGIN = ("template_tilelang", "0.1.0")
EDITION = 2
PROGRAM = paged_attention
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{"q": q, "k_cache": q, "sinks": sinks} for q in ("bf16", "f16", "f32") for sinks in ("f32", None)]
# Arguments of PROGRAM. An axis or a scalar of the contract has this value in the calls that the entry takes.
VARIANTS = [{"D": D, "Z": 16} for D in (64, 128)]
CLAIMS = {"deterministic": True, "batch_invariant": True}
