// SPDX-License-Identifier: Apache-2.0
// tree_attention by FlashInfer's FA2 kernel with a mask. A target model uses it to verify a tree of
// drafted tokens, and the drafter uses it to grow the tree.
#include "fk/ops/tree_attention.h"
#include "split_plan.hpp"

namespace {
using namespace fkf;
using op = fk::tree_attention;

class TreeAttention {
 public:
  using op = ::op;
  // The split of a context, and so the order of its sum, depends on the batch.
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_UNIFORM_DECODE, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& wanted) {
    need_16bit(max.q);
    need(FK_DTYPE(max.k_cache) == FK_DTYPE(max.q), "k_cache: the dtype of q only");
    need(init.head_dim == 64 || init.head_dim == 128, "head_dim: 64 or 128");
    need(init.num_kv_heads < 65536, "num_kv_heads: below 65536");
    for (const fk_in* view : {max.q, max.k_cache, max.v_cache}) need_aligned(view);
    need_offsets(max.q);
    for (int i = 0; i < 3; ++i)
      need(max.k_cache->strides[i] == max.v_cache->strides[i],
           "v_cache: the strides of k_cache only");
    need(max.k_cache->strides[0] < int64_t{1} << 31, "k_cache: pages of less than 2^31 elements");
    need(max.tree_mask->shape[0] * max.tree_mask->shape[1] < int64_t{1} << 31,
         "tree_mask: less than 2^31 numbers");
    split_plan(init, max).ask(max.block_tables->shape[1], wanted);
  }
  TreeAttention(const fk_host&, const op::init& init, const op::weights&) : init_(init) {}
  void prepare(const op::forward& max, const fk_memory& memory) {
    split_.emplace(split_plan(init_, max));
    split_->prepare(max.block_tables->shape[1], memory);
  }
  int64_t plan(const op::plan& a, void* blob, int64_t) {
    return split_->write(fk::host<int32_t>(a.cu_seqlens), fk::host<int32_t>(a.seq_lens),
                         a.seq_lens->shape[0], blob);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.q->shape[0] || !a.seq_lens->shape[0]) return;
    Attention p = over_pages(init_, a, ctx);
    p.tree_lengths = fk::data<int32_t>(a.tree_lens);
    p.tree_mask = fk::data<int32_t>(a.tree_mask);
    p.tree_width = int(a.tree_mask->shape[1]);
    const auto run =
        by_type(FK_DTYPE(a.q), init_.head_dim, [&](auto type, auto width) -> split_attention {
          using T = decltype(type);
          constexpr int D = decltype(width)::value;
          return split_->rows() == 16 ? split<T, D, 16, Mask::tree> : split<T, D, 64, Mask::tree>;
        });
    run(p, split_->blocks(p, ctx));
  }

 private:
  static SplitPlan split_plan(const op::init& init, const op::forward& max) {
    const int64_t tokens = max.q->shape[0], requests = max.seq_lens->shape[0];
    const bool few = tokens * (init.num_heads / init.num_kv_heads) <= 16 * requests;
    return SplitPlan({init.num_heads, init.num_kv_heads, init.head_dim, few ? 16 : 64, true, 0,
                      tokens, requests});
  }

  const op::init& init_;
  std::optional<SplitPlan> split_;
};
FK_OP(tree_attention, TreeAttention);

}  // namespace
