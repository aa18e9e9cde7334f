// SPDX-License-Identifier: Apache-2.0
// paged_attention by FlashInfer. Which kernel runs follows from the instance's limits, so that
// plan() and forward() agree:
//   few tokens per request (decode)   FA2 with 16 rows, the context split over blocks and merged
//   many                              FA3; FA2 with 64 rows where FA3 has no instance (window, soft
//   cap,
//                                     pages that its loader cannot fetch)
// plan() does on the host what FlashInfer's planners do: it lists blocks, and how far the context
// is split.
#include "common.hpp"
#define FK_PAGED_ATTENTION_EDITION 2
#include "fk/ops/paged_attention.h"

namespace {
using namespace fkf;
using op = fk::paged_attention;

enum class Way { few, dense, many };
constexpr int64_t kKeysStep = 256;  // parts of a context are multiples of it

int64_t group_of(const op::init& init) { return init.num_heads / init.num_kv_heads; }
Way way_of(const op::init& init, const op::forward& max) {
  if (init.causal && max.q->shape[0] * group_of(init) <= 16 * max.seq_lens->shape[0])
    return Way::few;
  const bool fetched = init.page_size == 8 || init.page_size % kPiece == 0;
  const bool masked = !init.window || (init.head_dim == 128 && FK_DTYPE(max.q) == FK_BF16);
  return fetched && masked && init.softcap == 0 ? Way::dense : Way::many;
}

// The blob of FA2: arrays one after the other; the room of each follows from the limits and not
// from the step.
struct Layout {
  int64_t blocks, requests, tokens;  // room
  int64_t rows;                      // of a block
  Layout(Way way, const op::init& init, const op::forward& max)
      : requests(max.seq_lens->shape[0]), tokens(max.q->shape[0]), rows(way == Way::few ? 16 : 64) {
    blocks = count(init, tokens, requests);
  }
  // Of the grid: every tile once, and for short queries about two more waves to split contexts
  // into.
  int64_t count(const op::init& init, int64_t t, int64_t b) const {
    return cdiv(t * group_of(init), rows) + b + (rows == 16 ? cdiv(2 * 132, init.num_kv_heads) : 0);
  }
  int64_t bytes() const { return (2 + 3 * blocks + (requests + 1) + tokens + 1) * 4 + blocks; }
  template <class F>
  void each(void* blob, F f) const {
    auto* at = static_cast<int32_t*>(blob);
    const auto take = [&at](int64_t n) { return std::exchange(at, at + n); };
    int32_t* const numbers = take(2);
    int32_t *const request = take(blocks), *const tile = take(blocks), *const part = take(blocks);
    int32_t *const first_part = take(requests + 1), *const merge = take(tokens + 1);
    f(numbers, request, tile, part, first_part, merge, reinterpret_cast<uint8_t*>(at));
  }
};

class PagedAttention {
 public:
  using op = ::op;
  // How far a context is split, and so how it is summed up, depends on the batch. Only decode has a
  // grid that follows from shapes alone.
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
    for (int i = 0; i < 3; ++i)
      need(max.k_cache->strides[i] == max.v_cache->strides[i],
           "v_cache: the strides of k_cache only");
    need(max.k_cache->strides[0] < int64_t{1} << 31, "k_cache: pages of less than 2^31 elements");
    const Way way = way_of(init, max);
    const int64_t tokens = max.q->shape[0], requests = max.seq_lens->shape[0];
    if (way == Way::dense) {
      wanted.plan = tiles_bytes(tokens, requests, init.num_heads, init.head_dim);
    } else {
      const Layout layout(way, init, max);
      wanted.persistent = (widths(max.block_tables->shape[1]) + 1) * (requests + 1) * 4;
      wanted.plan = layout.bytes();
      if (way == Way::few)
        wanted.scratch = parts_room(init, layout) * init.num_heads * (init.head_dim * 2 + 4);
    }
  }
  PagedAttention(const fk_host&, const op::init& init, const op::weights&) : init_(init) {}
  void prepare(const op::forward& max, const fk_memory& memory) {
    way_ = way_of(init_, max);
    layout_.emplace(way_, init_, max);
    page_starts_ = static_cast<int32_t*>(memory.persistent);
    if (way_ != Way::dense) write_page_starts(max);
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
    plan_blocks(starts, lengths, requests, blob);
    return layout_->bytes();
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
          return way_ == Way::few ? split<T, D, 16, true>
                 : init_.causal   ? split<T, D, 64, true>
                                  : split<T, D, 64, false>;
        });
    run(attention, blocks_of(attention, ctx));
  }

 private:
  // Block tables are as wide as the limit or as a smaller power of two.
  static int64_t widths(int64_t widest) {
    return std::bit_width(uint64_t(std::max<int64_t>(widest, 1)));
  }
  int64_t width_at(int64_t width) const {
    if (width == widest_) return widths(widest_);
    if (width <= widest_ && std::has_single_bit(uint64_t(width)))
      return std::bit_width(uint64_t(width)) - 1;
    throw std::runtime_error("block_tables: neither the limit nor a power of two wide");
  }
  void write_page_starts(const op::forward& max) {
    widest_ = max.block_tables->shape[1];
    std::vector<int32_t> all;
    for (int64_t i = 0; i <= widths(widest_); ++i)
      for (int64_t r = 0; r <= layout_->requests; ++r)
        all.push_back(int32_t(r * (i < widths(widest_) ? int64_t{1} << i : widest_)));
    if (cudaMemcpy(page_starts_, all.data(), all.size() * 4, cudaMemcpyHostToDevice) != cudaSuccess)
      throw std::runtime_error("paged_attention: the upload of page starts failed");
  }
  // A part is what a block leaves of a token: 16 rows are 16 / group tokens.
  static int64_t parts_room(const op::init& init, const Layout& layout) {
    return cdiv(16 * layout.blocks, group_of(init));
  }

  // How many keys are split into parts, as the kernel counts them.
  int64_t seen(int64_t length) const {
    return init_.window ? std::min(length, init_.window - 1 + layout_->rows) : length;
  }

  void plan_blocks(const int32_t* starts, const int32_t* lengths, int64_t requests,
                   void* blob) const {
    const int64_t rows = layout_->rows, group = group_of(init_),
                  room = layout_->count(init_, starts[requests], requests);
    const auto tiles_of = [&](int64_t r) {
      return cdiv((starts[r + 1] - starts[r]) * group, rows);
    };
    // The smallest part for which the blocks suffice.
    int64_t part_keys = int64_t{1} << 30;
    if (way_ == Way::few) {
      int64_t longest = 1;
      for (int64_t r = 0; r < requests; ++r) longest = std::max<int64_t>(longest, lengths[r]);
      const auto fits = [&](int64_t steps) {
        int64_t n = 0;
        for (int64_t r = 0; r < requests; ++r)
          n += tiles_of(r) * parts_of(lengths[r], steps * kKeysStep);
        return n <= room;
      };
      int64_t low = 1, high = cdiv(longest, kKeysStep);
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (fits(middle))
          high = middle;
        else
          low = middle + 1;
      }
      part_keys = low * kKeysStep;
    }
    layout_->each(blob, [&](int32_t* numbers, int32_t* request, int32_t* tile, int32_t* part,
                            int32_t* first_part, int32_t* merge, uint8_t* valid) {
      int64_t n = 0, parts = 0;
      for (int64_t r = 0; r < requests; ++r) {
        const int64_t own = way_ == Way::few ? parts_of(lengths[r], part_keys) : 1;
        first_part[r] = int32_t(parts);
        for (int64_t t = 0; t < tiles_of(r); ++t)
          for (int64_t p = 0; p < own; ++p, ++n)
            request[n] = int32_t(r), tile[n] = int32_t(t), part[n] = int32_t(p), valid[n] = 1;
        for (int64_t token = starts[r]; token < starts[r + 1]; ++token, parts += own)
          merge[token] = int32_t(parts);
      }
      merge[starts[requests]] = int32_t(parts);
      std::fill(valid + n, valid + layout_->blocks, uint8_t{0});
      numbers[0] = int32_t(part_keys);
      numbers[1] = starts[requests];
    });
  }
  int64_t parts_of(int64_t length, int64_t keys) const {
    return std::max<int64_t>(1, cdiv(seen(length), keys));
  }

  Attention describe(const op::forward& a, const fk_ctx& ctx) const {
    const auto cache = [](const fk_in* c) {
      return Cache{c->data, c->strides[0], c->strides[1], c->strides[2]};
    };
    Attention p{};
    p.q = a.q->data, p.out = a.out->data;
    p.q_token = a.q->strides[0], p.q_head = a.q->strides[1];
    p.k = cache(a.k_cache), p.v = cache(a.v_cache);
    p.tokens = a.q->shape[0], p.pages = a.k_cache->shape[0];
    p.tables = fk::data<int32_t>(a.block_tables), p.q_starts = fk::data<int32_t>(a.cu_seqlens),
    p.lengths = fk::data<int32_t>(a.seq_lens);
    p.requests = int(a.seq_lens->shape[0]), p.width = int(a.block_tables->shape[1]),
    p.page_size = int(init_.page_size);
    p.heads = int(init_.num_heads), p.kv_heads = int(init_.num_kv_heads),
    p.window = int(init_.window);
    p.scale = float(init_.scale), p.softcap = float(init_.softcap);
    p.stream = static_cast<cudaStream_t>(ctx.stream);
    return p;
  }
  Blocks blocks_of(const Attention& a, const fk_ctx& ctx) const {
    const int64_t at = width_at(a.width);
    Blocks b{};
    b.count = int(layout_->count(init_, a.tokens, a.requests));
    layout_->each(const_cast<void*>(ctx.plan),
                  [&](int32_t* numbers, int32_t* request, int32_t* tile, int32_t* part,
                      int32_t* first_part, int32_t* merge, uint8_t* valid) {
                    b.request = request, b.tile = tile, b.part = part, b.first_part = first_part,
                    b.valid = valid;
                    b.part_keys = numbers, b.tokens = reinterpret_cast<uint32_t*>(numbers + 1),
                    b.page_starts = page_starts_ + at * (layout_->requests + 1);
                    if (way_ == Way::few) b.merge = merge;
                  });
    if (b.merge) {
      const int64_t room = parts_room(init_, *layout_);
      b.partial = ctx.scratch;
      b.partial_lse = reinterpret_cast<float*>(static_cast<char*>(ctx.scratch) +
                                               room * a.heads * init_.head_dim * 2);
    }
    return b;
  }

  const op::init& init_;
  Way way_ = Way::many;
  std::optional<Layout> layout_;
  int32_t* page_starts_ = nullptr;  // of every width: request r's pages begin at r * width
  int64_t widest_ = 0;
  int blocks_ = 0;
};
FK_OP(paged_attention, PagedAttention);

}  // namespace
