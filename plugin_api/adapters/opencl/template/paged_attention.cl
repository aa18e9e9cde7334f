// fk-host: paged_attention, plugin template_opencl 0.1.0
// SPDX-License-Identifier: Apache-2.0
// paged_attention: attention of ragged queries over a paged cache
// The contract as a page: fk-host show paged_attention
// edition 1
// launch paged_attention: T * H
// A work item has a query of a head. It computes its scores again for each column, which is slow and needs no memory.
float score_of(TENSOR(q), TENSOR(k_cache), long query, long key, long D, float scale, float softcap) {
  float score = 0;
  for (long d = 0; d < D; ++d) score += (float)GET(q, query + d) * (float)GET(k_cache, key + d);
  score *= scale;
  return softcap > 0 ? softcap * tanh(score / softcap) : score;
}
__kernel void paged_attention(TENSOR(q), TENSOR(k_cache), TENSOR(v_cache), TENSOR(block_tables), TENSOR(cu_seqlens),
                              TENSOR(seq_lens), TENSOR(sinks), TENSOR(out), long B, long W, long H, long G, long D,
                              long Z, float scale, float softcap, long window, long q_stride_0, long q_stride_1,
                              long k_cache_stride_0, long k_cache_stride_1, long k_cache_stride_2,
                              long v_cache_stride_0, long v_cache_stride_1, long v_cache_stride_2, long items) {
  const long i = get_global_id(0);
  if (i >= items) return;
  const long t = i / H, head = i % H, kv_head = head / (H / G);
  long b = 0;
  while (b + 1 < B && GET(cu_seqlens, b + 1) <= t) ++b;
  const long last = GET(seq_lens, b) - (GET(cu_seqlens, b + 1) - t);
  const long first = window && last - window + 1 > 0 ? last - window + 1 : 0;
  const long query = t * q_stride_0 + head * q_stride_1;
#define KEY(p)                                                                                        \
  (GET(block_tables, b * W + (p) / Z) * k_cache_stride_0 + (p) % Z * k_cache_stride_1 + \
   kv_head * k_cache_stride_2)
#define VALUE(p)                                                                                      \
  (GET(block_tables, b * W + (p) / Z) * v_cache_stride_0 + (p) % Z * v_cache_stride_1 + \
   kv_head * v_cache_stride_2)
  float most = HAS(sinks) ? GET(sinks, head) : -INFINITY;
  for (long p = first; p <= last; ++p) most = fmax(most, score_of(q, k_cache, query, KEY(p), D, scale, softcap));
  float total = HAS(sinks) ? exp(GET(sinks, head) - most) : 0.0f;
  for (long p = first; p <= last; ++p) total += exp(score_of(q, k_cache, query, KEY(p), D, scale, softcap) - most);
  for (long d = 0; d < D; ++d) {
    float sum = 0;
    for (long p = first; p <= last; ++p)
      sum += exp(score_of(q, k_cache, query, KEY(p), D, scale, softcap) - most) * (float)GET(v_cache, VALUE(p) + d);
    PUT(out, i * D + d, sum / total);
  }
}
