// SPDX-License-Identifier: Apache-2.0
// paged_attention by FlashInfer. The instance's limits choose the kernel, so that plan() and
// forward() agree:
//   few tokens per request (decode)   FA2 with 16 rows, the context split over blocks and merged
//   many                              FA3; FA2 with 64 rows if FA3 has no instance (window, soft cap,
//                                     pages which its loader cannot load)
#include "split_plan.hpp"
#define FK_PAGED_ATTENTION_EDITION 2
#include "fk/ops/paged_attention.h"

namespace {
using namespace fkf;
using op = fk::paged_attention;

enum class Way { few, dense, many };

int64_t group_of(const op::init& init) { return init.num_heads / init.num_kv_heads; }
Way way_of(const op::init& init, const op::forward& max) {
  if (init.causal && max.q->shape[0] * group_of(init) <= 16 * max.seq_lens->shape[0])
    return Way::few;
  const bool fetched = init.page_size == 8 || init.page_size % kPiece == 0;
  const bool masked = !init.window || (init.head_dim == 128 && FK_DTYPE(max.q) == FK_BF16);
  return fetched && masked && init.softcap == 0 ? Way::dense : Way::many;
}

SplitPlan split_plan(Way way, const op::init& init, const op::forward& max) {
  const bool few = way == Way::few;
  return SplitPlan({init.num_heads, init.num_kv_heads, init.head_dim, few ? 16 : 64, few,
                    init.window, max.q->shape[0], max.seq_lens->shape[0]});
}

class PagedAttention {
 public:
  using op = ::op;
  // The split of a context, and so the order of its sum, depends on the batch. The grid follows
  // from shapes alone only in decode.
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_UNIFORM_DECODE, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& wanted) {
    need_16bit(max.q);
    need(FK_DTYPE(max.k_cache) == FK_DTYPE(max.q), "k_cache: the dtype of q only");
    need(init.head_dim == 64 || init.head_dim == 128, "head_dim: 64 or 128");
    need(!weights.sinks.or_null, "sinks: none");
    need(init.causal || !init.window, "window: none where attention is not causal");
    need(init.num_heads < 256, "num_heads: below 256");
    for (const fk_in* view : {max.q, max.k_cache, max.v_cache}) need_aligned(view);
    need_offsets(max.q);
    for (int i = 0; i < 3; ++i)
      need(max.k_cache->strides[i] == max.v_cache->strides[i],
           "v_cache: the strides of k_cache only");
    need(max.k_cache->strides[0] < int64_t{1} << 31, "k_cache: pages of less than 2^31 elements");
    const Way way = way_of(init, max);
    const int64_t tokens = max.q->shape[0], requests = max.seq_lens->shape[0];
    if (way == Way::dense) {
      wanted.plan = tiles_bytes(tokens, requests, init.num_heads, init.head_dim);
    } else {
      split_plan(way, init, max).ask(max.block_tables->shape[1], wanted);
    }
  }
  PagedAttention(const fk_host&, const op::init& init, const op::weights&) : init_(init) {}
  void prepare(const op::forward& max, const fk_memory& memory) {
    way_ = way_of(init_, max);
    split_.emplace(split_plan(way_, init_, max));
    if (way_ != Way::dense) split_->prepare(max.block_tables->shape[1], memory);
    blocks_ = std::min<int>(block_count(), kBlocksMax);
  }

  int64_t plan(const op::plan& a, void* blob, int64_t) {
    const auto* starts = fk::host<int32_t>(a.cu_seqlens);
    const auto* lengths = fk::host<int32_t>(a.seq_lens);
    const int64_t requests = a.seq_lens->shape[0];
    if (way_ == Way::dense)
      return deal_tiles(
          starts, requests, [&](int64_t r) { return int64_t{lengths[r]}; },
          {init_.num_heads, init_.head_dim, init_.causal != 0, init_.window}, blocks_, blob);
    return split_->write(starts, lengths, requests, blob);
  }

  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.q->shape[0] || !a.seq_lens->shape[0]) return;
    const Attention attention = describe(a, ctx);
    if (way_ == Way::dense) {
      return dense_for(FK_DTYPE(a.q), init_.head_dim, init_.causal, init_.window)(
          attention, tiles_at(ctx.plan, blocks_));
    }
    const auto run =
        by_type(FK_DTYPE(a.q), init_.head_dim, [&](auto type, auto width) -> split_attention {
          using T = decltype(type);
          constexpr int D = decltype(width)::value;
          return way_ == Way::few ? split<T, D, 16, Mask::causal>
                 : init_.causal   ? split<T, D, 64, Mask::causal>
                                  : split<T, D, 64, Mask::none>;
        });
    run(attention, split_->blocks(attention, ctx));
  }

 private:
  Attention describe(const op::forward& a, const fk_ctx& ctx) const {
    Attention p = over_pages(init_, a, ctx);
    p.window = int(init_.window), p.softcap = float(init_.softcap);
    return p;
  }
  const op::init& init_;
  Way way_ = Way::many;
  std::optional<SplitPlan> split_;
  int blocks_ = 0;
};
FK_OP(paged_attention, PagedAttention);

}  // namespace
