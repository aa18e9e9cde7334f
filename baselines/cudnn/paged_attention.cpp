// SPDX-License-Identifier: Apache-2.0
// paged_attention by cuDNN. Decode reads pages in place. Steps of many queries first copy the pages
// to dense rows, if there is room for them. plan() decides. It tells forward() the choice of graph
// by the number of bytes of the plan.
#include "common.hpp"
#define FK_PAGED_ATTENTION_EDITION 2
#include "fk/ops/paged_attention.h"

namespace {
using namespace fkd;
using op = fk::paged_attention;

constexpr int64_t kStep =
    512;  // requests of one length which is a multiple of it have a graph of their own
constexpr int64_t kLogs = 32;     // ragged: 1 + log2(keys) * kLogs + log2(queries)
constexpr int64_t kExact = 1024;  // one length: kExact + keys / kStep

// Dense rows for the copy of pages: at least those of the longest request with room, as few queries
// of many keys take longest. Decode has none.
int64_t room_of(const op::init& init, const op::forward& max) {
  constexpr int64_t kLeast = 32768, kLongest = 131072;  // of 8 heads of 128 it is 512 MiB
  const int64_t tokens = max.q->shape[0], context = max.block_tables->shape[1] * init.page_size;
  if (tokens < 8 * max.seq_lens->shape[0]) return 0;
  const int64_t fit = ((int64_t{1} << 31) - 1) / (init.num_kv_heads * init.head_dim);  // write_starts()
  return std::min(std::max({2 * tokens, kLeast, std::min(context, kLongest)}), fit);
}
int64_t log_of(int64_t length) { return std::bit_width(uint64_t(rounded(length))) - 1; }

class PagedAttention {
 public:
  using op = ::op;
  // The kernel depends on the number of requests. A graph for a new shape is made in a step which
  // is not captured.
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_UNIFORM_DECODE, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& wanted) {
    need_16bit(max.q);
    need(FK_DTYPE(max.k_cache) == FK_DTYPE(max.q), "k_cache: the dtype of q only");
    need(init.head_dim == 64 || init.head_dim == 128, "head_dim: 64 or 128");
    need(!weights.sinks.or_null, "sinks: none");
    need(init.softcap == 0, "softcap: none");
    need(init.causal || !init.window, "window: none where attention is not causal");
    need(std::has_single_bit(uint64_t(init.page_size)), "page_size: powers of two");
    for (const fk_in* view : {max.q, max.k_cache, max.v_cache}) need_layout(view);
    for (const fk_in* view : {max.q, fk_as_in(max.out)}) need_offsets(view);
    const int64_t room = room_of(init, max);
    wanted.scratch = kWorkspace + 2 * room * init.num_kv_heads * init.head_dim * 2;
    wanted.plan = (base(max.seq_lens->shape[0]) + kExact + room / kStep) * 4;
  }
  PagedAttention(const fk_host&, const op::init& init, const op::weights&) : init_(init) {}
  void prepare(const op::forward& max, const fk_memory&) {
    q_token_ = max.q->strides[0], room_ = room_of(init_, max);
    if (!room_) make_attention(paged(max));
  }
  int64_t plan(const op::plan& a, void* blob, int64_t) {
    const int64_t requests = a.seq_lens->shape[0];
    const auto *starts = fk::host<int32_t>(a.cu_seqlens), *lengths = fk::host<int32_t>(a.seq_lens);
    auto* end = static_cast<int32_t*>(blob);
    int64_t keys = 0, longest = 0, queries = 0;
    bool exact = true;
    for (int64_t r = 0; r < requests; ++r) {
      const int64_t own = starts[r + 1] - starts[r];
      keys += lengths[r], longest = std::max<int64_t>(longest, lengths[r]),
                          queries = std::max(queries, own);
      exact = exact && own == starts[1] && lengths[r] == lengths[0];
    }
    if (!room_ || keys > room_) {
      end = write_lengths(end, starts, requests);
      end = write_starts(end, starts, requests, q_token_);
      end = write_starts(end, starts, requests, init_.num_heads * init_.head_dim);
      return (end - static_cast<int32_t*>(blob)) * 4;
    }
    std::vector<int32_t> rows{0};
    for (int64_t r = 0; r < requests; ++r) rows.push_back(rows.back() + lengths[r]);
    // The number of requests is rounded up to a power of two, with empty requests.
    const int64_t all = rounded(requests);
    const auto pad = [all](int32_t* from, int64_t n, int64_t extra, int32_t value) {
      return std::fill_n(from + n, all + extra - n, value);
    };
    const auto put_starts = [&](const int32_t* of, int64_t stride) {
      write_starts(end, of, requests, stride);
      end = pad(end, requests + 1, 1, end[requests]);
    };
    put_starts(rows.data(), 1);
    write_lengths(end, starts, requests), end = pad(end, requests, 0, 0);
    write_lengths(end, rows.data(), requests), end = pad(end, requests, 0, 0);
    put_starts(starts, q_token_);
    put_starts(starts, init_.num_heads * init_.head_dim);
    put_starts(rows.data(), init_.num_kv_heads * init_.head_dim);
    // One graph for each power of two, and not for each batch.
    exact = exact && std::has_single_bit(uint64_t(requests)) && starts[1] % kStep == 0 &&
            longest % kStep == 0 && longest >= starts[1];
    const int64_t code =
        exact ? kExact + longest / kStep : 1 + log_of(longest) * kLogs + log_of(queries);
    return (base(requests) + code) * 4;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t requests = a.seq_lens->shape[0];
    if (!a.q->shape[0] || !requests) return;
    const auto* blob = static_cast<const int32_t*>(ctx.plan);
    const auto stream = static_cast<cudaStream_t>(ctx.stream);
    if (const int64_t code = ctx.plan_bytes / 4 - base(requests); code > 0)
      return dense(a, ctx, blob, code);
    run_attention(paged(a), {a.q->data, a.k_cache->data, a.v_cache->data, a.out->data,
                             fk::data<int32_t>(a.block_tables), blob, fk::data<int32_t>(a.seq_lens),
                             blob + requests, blob + 2 * requests + 1, nullptr, nullptr,
                             ctx.scratch, ctx.scratch_bytes, stream});
  }

 private:
  // Numbers of the plan for dense rows.
  static int64_t base(int64_t requests) { return 6 * rounded(requests) + 4; }

  void dense(const op::forward& a, const fk_ctx& ctx, const int32_t* blob, int64_t code) const {
    const int64_t requests = a.seq_lens->shape[0], all = rounded(requests),
                  row = init_.num_kv_heads * init_.head_dim;
    const auto stream = static_cast<cudaStream_t>(ctx.stream);
    auto* k = static_cast<char*>(ctx.scratch) + kWorkspace;
    auto* v = k + room_ * row * 2;
    const auto *ks = a.k_cache->strides, *vs = a.v_cache->strides;
    gather_pages({a.k_cache->data, a.v_cache->data, k, v, fk::data<int32_t>(a.block_tables), blob,
                  ks[0], ks[1], ks[2], vs[0], vs[1], vs[2], int(requests),
                  int(a.block_tables->shape[1]), int(init_.page_size), int(init_.num_kv_heads),
                  int(init_.head_dim), stream});
    const bool exact = code >= kExact;
    Shape shape = paged(a);
    shape.requests = exact ? requests : all;
    shape.queries = exact ? a.q->shape[0] / requests : int64_t{1} << (code - 1) % kLogs;
    shape.keys = exact ? (code - kExact) * kStep : int64_t{1} << (code - 1) / kLogs;
    shape.exact = exact;
    shape.k_slot = shape.v_slot = row, shape.k_head = shape.v_head = init_.head_dim;
    shape.pages = shape.page_size = shape.table_width = shape.k_page = shape.v_page = 0;
    const int32_t *queries = blob + all + 1, *keys = queries + all, *q_starts = keys + all,
                  *out_starts = q_starts + all + 1;
    const int32_t* k_starts = out_starts + all + 1;
    run_attention(shape, {a.q->data, k, v, a.out->data, nullptr, queries, keys, q_starts,
                          out_starts, k_starts, k_starts, ctx.scratch, kWorkspace, stream});
  }
  Shape paged(const op::forward& a) const {
    const auto *k = a.k_cache->strides, *v = a.v_cache->strides;
    const int64_t queries = std::min(rounded(a.max_query_len), rounded(a.q->shape[0])),
                  width = a.block_tables->shape[1];
    return {FK_DTYPE(a.q) == FK_BF16,
            init_.causal,
            init_.window,
            a.seq_lens->shape[0],
            init_.num_heads,
            init_.num_kv_heads,
            init_.head_dim,
            queries,
            width * init_.page_size,
            0,
            a.q->strides[0],
            a.q->strides[1],
            k[1],
            k[2],
            v[1],
            v[2],
            a.k_cache->shape[0],
            init_.page_size,
            width,
            k[0],
            v[0],
            init_.scale};
  }
  const op::init& init_;
  int64_t q_token_ = 0, room_ = 0;
};
FK_OP(paged_attention, PagedAttention);

}  // namespace
