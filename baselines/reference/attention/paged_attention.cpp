// SPDX-License-Identifier: Apache-2.0
// paged_attention: softmax attention of each query head over the pages of its request (PagedRequest
// in math.hpp).
#define FK_PAGED_ATTENTION_EDITION \
  3  // with the fields that the contract marks `since: 2` and `since: 3`
#include "fk/ops/paged_attention.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct PagedAttention : Base<paged_attention> {
  using Base::Base;
  struct Rows {
    double *q, *out, *scores;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : q(s.take(i.head_dim)),
          out(s.take(i.head_dim)),
          scores(s.take(args.block_tables->shape[1] * i.page_size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.q, max.k_cache, max.v_cache, max.out);
    if (init.num_heads % init.num_kv_heads)
      throw unsupported{"num_heads is not a multiple of num_kv_heads"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init, args);
    for (int64_t b = 0; b < args.block_tables->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      const int64_t length = index<int32_t>(args.seq_lens, b);
      const PagedRequest request{args.k_cache, args.v_cache,
                                 data<int32_t>(args.block_tables) + offset(args.block_tables, b),
                                 init.page_size};
      for (int64_t t = first; t < last; ++t)
        attend(args, request, t, length - last + t, seen(length - last + t, length), row);
    }
  }

 private:
  struct Range {
    int64_t first, end;
  };
  // The positions that the query at `position` of a context of `length` sees.
  Range seen(int64_t position, int64_t length) const {
    Range range{0, init.causal ? position + 1 : length};
    if (init.window > 0) {
      range.first = std::max<int64_t>(0, position - init.window + 1);
      range.end = std::min(range.end, position + init.window);
    }
    return range;
  }

  void attend(const op::forward& args, const PagedRequest& request, int64_t t, int64_t position,
              Range range, const Rows& row) const {
    const float* sinks = data<float>(weights.sinks);
    const float* slopes = data<float>(weights.alibi_slopes);
    for (int64_t h = 0; h < init.num_heads; ++h) {
      const int64_t kv_head = h / (init.num_heads / init.num_kv_heads);
      load(args.q, offset(args.q, t, h), init.head_dim, row.q);
      request.attend_range({init.scale, init.softcap, sinks ? sinks + h : nullptr,
                            slopes ? value(slopes[h]) : 0, position},
                           row.q, kv_head, init.head_dim, range.first, range.end, row.scores,
                           row.out);
      store(args.out, offset(args.out, t, h), init.head_dim, row.out);
    }
  }
};
FK_OP(paged_attention, PagedAttention);

}  // namespace
}  // namespace fk::reference
