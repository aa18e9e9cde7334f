// SPDX-License-Identifier: Apache-2.0
// tree_attention: lists the positions that a query sees in the tree of draft tokens (TreeOf in
// math.hpp), then attends to the list.
#include "fk/ops/tree_attention.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct TreeAttention : Base<tree_attention> {
  using Base::Base;
  struct Rows {
    double *q, *out, *scores;
    int64_t* seen;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : q(s.take(i.head_dim)),
          out(s.take(i.head_dim)),
          scores(s.take(args.block_tables->shape[1] * i.page_size)),
          seen(reinterpret_cast<int64_t*>(s.take(args.block_tables->shape[1] * i.page_size))) {}
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
      const PagedRequest request{args.k_cache, args.v_cache,
                                 data<int32_t>(args.block_tables) + offset(args.block_tables, b),
                                 init.page_size};
      const TreeOf tree{index<int32_t>(args.seq_lens, b), index<int32_t>(args.tree_lens, b)};
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      for (int64_t t = index<int32_t>(args.cu_seqlens, b); t < last; ++t) {
        const int64_t count =
            tree.seen(data<int32_t>(args.tree_mask) + offset(args.tree_mask, t), row.seen);
        attend(args, request, t, count, row);
      }
    }
  }

 private:
  void attend(const op::forward& args, const PagedRequest& request, int64_t t, int64_t count,
              const Rows& row) const {
    for (int64_t h = 0; h < init.num_heads; ++h) {
      load(args.q, offset(args.q, t, h), init.head_dim, row.q);
      request.attend_to({init.scale}, row.q, h / (init.num_heads / init.num_kv_heads),
                        init.head_dim, row.seen, count, row.scores, row.out);
      store(args.out, offset(args.out, t, h), init.head_dim, row.out);
    }
  }
};
FK_OP(tree_attention, TreeAttention);

}  // namespace
}  // namespace fk::reference
