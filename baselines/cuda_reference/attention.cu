// SPDX-License-Identifier: Apache-2.0
// paged_attention and attention_varlen: one block per query token and head. Keys are taken in chunks of one
// per thread; scores, the running maximum and the sums are double.
#include "common.cuh"
#include "fk/ops/attention_varlen.h"
#define FK_PAGED_ATTENTION_EDITION 2
#include "fk/ops/paged_attention.h"

namespace {
using namespace fkr;
constexpr int kChunk = 128;

// Where key `position` of request b lies: paged through the table, or dense from a start.
struct Keys {
  Ref k, v;
  const int32_t *table, *starts;  // one of them
  int64_t width, page;            // of the table, of a page
  __device__ int64_t at(const Ref& r, int64_t b, int64_t position, int64_t head) const {
    if (!table) return (starts[b] + position) * r.stride[0] + head * r.stride[1];
    const int64_t slot = table[b * width + position / page];
    return slot * r.stride[0] + position % page * r.stride[1] + head * r.stride[2];
  }
};
struct Rule {
  double scale, softcap;
  int64_t window;
  bool causal;
};

// Which request a query token belongs to: the last start that is not beyond it.
__device__ int64_t request_of(const int32_t* cu, int64_t requests, int64_t t) {
  int64_t b = 0;
  while (b + 1 < requests && cu[b + 1] <= t) ++b;
  return b;
}

__global__ void attend(Ref q, Keys keys, Ref sinks, Ref out, const int32_t* cu, const int32_t* lengths, int64_t requests,
                       int64_t group, int64_t width, Rule rule) {
  extern __shared__ double shared[];
  double* query = shared;                 // [width]
  double* sums = shared + width;          // [width]
  double* scores = shared + 2 * width;    // [kChunk]
  const int64_t t = blockIdx.x, head = blockIdx.y, kv = head / group;
  const int64_t b = request_of(cu, requests, t);
  if (t >= cu[requests]) return;
  const int64_t count = cu[b + 1] - cu[b];
  const int64_t length = keys.table ? lengths[b] : keys.starts[b + 1] - keys.starts[b];
  const int64_t position = length - count + (t - cu[b]);
  int64_t first = 0, last = rule.causal ? position : length - 1;
  if (rule.window > 0) {
    first = position - rule.window + 1 > 0 ? position - rule.window + 1 : 0;
    if (!rule.causal && position + rule.window - 1 < last) last = position + rule.window - 1;
  }
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) {
    query[d] = load(q, t * q.stride[0] + head * q.stride[1] + d);
    sums[d] = 0;
  }
  double most = sinks.data ? load(sinks, head) : -INFINITY, total = sinks.data ? 1 : 0;
  __syncthreads();
  for (int64_t start = first; start <= last; start += kChunk) {
    const int64_t here = start + threadIdx.x;
    double score = -INFINITY;
    if (here <= last) {
      const int64_t at = keys.at(keys.k, b, here, kv);
      score = 0;
      for (int64_t d = 0; d < width; ++d) score += query[d] * load(keys.k, at + d);
      score *= rule.scale;
      if (rule.softcap > 0) score = rule.softcap * tanh(score / rule.softcap);
    }
    const double next = fmax(most, block_max(score)), shrink = exp(most - next);
    const double weight = here <= last ? exp(score - next) : 0;
    total = total * shrink + block_sum(weight);
    most = next;
    scores[threadIdx.x] = weight;
    __syncthreads();
    const int64_t used = last - start + 1 < kChunk ? last - start + 1 : kChunk;
    for (int64_t d = threadIdx.x; d < width; d += blockDim.x) {
      double sum = sums[d] * shrink;
      for (int64_t i = 0; i < used; ++i) sum += scores[i] * load(keys.v, keys.at(keys.v, b, start + i, kv) + d);
      sums[d] = sum;
    }
    __syncthreads();
  }
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) store(out, t * out.stride[0] + head * out.stride[1] + d, total > 0 ? sums[d] / total : 0);
}

struct PagedAttention : Plain<fk::paged_attention> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.q->shape[0], width = init.head_dim;
    if (!tokens) return;
    const Keys keys{ref(a.k_cache), ref(a.v_cache), fk::data<int32_t>(a.block_tables), nullptr, a.block_tables->shape[1], init.page_size};
    attend<<<dim3(unsigned(tokens), unsigned(init.num_heads)), kChunk, size_t(2 * width + kChunk) * 8, stream(ctx)>>>(
        ref(a.q), keys, ref(weights.sinks), ref(a.out), fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.seq_lens), a.seq_lens->shape[0],
        init.num_heads / init.num_kv_heads, width, Rule{init.scale, init.softcap, init.window, init.causal != 0});
    launched();
  }
};
struct AttentionVarlen : Plain<fk::attention_varlen> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.q->shape[0], width = init.head_dim;
    if (!tokens) return;
    const Keys keys{ref(a.k), ref(a.v), nullptr, fk::data<int32_t>(a.cu_seqlens_k), 0, 0};
    attend<<<dim3(unsigned(tokens), unsigned(init.num_heads)), kChunk, size_t(2 * width + kChunk) * 8, stream(ctx)>>>(
        ref(a.q), keys, Ref{}, ref(a.out), fk::data<int32_t>(a.cu_seqlens_q), nullptr, a.cu_seqlens_q->shape[0] - 1,
        init.num_heads / init.num_kv_heads, width, Rule{init.scale, 0, init.window, init.causal != 0});
    launched();
  }
};
FK_OP(paged_attention, PagedAttention);
FK_OP(attention_varlen, AttentionVarlen);

}  // namespace
