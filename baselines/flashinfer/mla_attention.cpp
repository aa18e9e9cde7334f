// SPDX-License-Identifier: Apache-2.0
// mla_attention by FlashInfer's kernel for Hopper, for the widths of DeepSeek's models. On the
// host, plan() does the work of FlashInfer's planner. It cuts queries into tiles and long contexts
// into parts, and divides these between persistent blocks.
#include "fk/ops/mla_attention.h"
#include "common.hpp"

namespace {
using namespace fkf;
using op = fk::mla_attention;

constexpr int64_t kKeysStep = 64;  // keys of a step of the kernel

class MlaAttention {
 public:
  using op = ::op;
  // The split of a context, and so the order of its sum, depends on the batch.
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_UNIFORM_DECODE, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& wanted) {
    need_16bit(max.q_latent);
    need(FK_DTYPE(max.kv_cache) == FK_DTYPE(max.q_latent), "kv_cache: the dtype of q_latent only");
    need(init.kv_lora_rank == kLatent && init.qk_rope_head_dim == kRotary,
         "kv_lora_rank: 512 with a qk_rope_head_dim of 64");
    // A tile of the kernel ends with a token, or it would see too few keys.
    need(std::has_single_bit(uint64_t(init.num_heads)) && init.num_heads <= 2 * kLatentRows,
         "num_heads: a power of two up to 128");
    for (const fk_in* view : {max.q_latent, max.q_pe, max.kv_cache}) need_aligned(view);
    // Its offsets have 32 bits.
    constexpr int64_t kFar = int64_t{1} << 32;
    const int64_t tokens = max.q_latent->shape[0];
    need(tokens * max.q_latent->strides[0] < kFar && tokens * max.q_pe->strides[0] < kFar &&
             tokens * init.num_heads * kLatent < kFar && max.kv_cache->strides[0] < kFar,
         "queries and pages of less than 2^32 elements");
    const Layout layout(init, max);
    wanted.plan = layout.bytes();
    wanted.scratch = layout.partial_rows() * (kLatent * 2 + 4);
  }
  MlaAttention(const fk_host&, const op::init& init, const op::weights&) : init_(init) {}
  void prepare(const op::forward& max, const fk_memory&) {
    layout_.emplace(init_, max);
    teams_ = std::min<int64_t>(block_count(), kBlocksMax) / layout_->per_tile;
  }

  int64_t plan(const op::plan& a, void* blob, int64_t) {
    Writer writer(*layout_, blob);
    deal(fk::host<int32_t>(a.cu_seqlens), fk::host<int32_t>(a.seq_lens), a.seq_lens->shape[0],
         writer);
    return layout_->bytes();
  }

  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.q_latent->shape[0] || !a.seq_lens->shape[0]) return;
    LatentAttention p{};
    p.q_latent = a.q_latent->data, p.q_pe = a.q_pe->data, p.cache = a.kv_cache->data;
    p.out = a.out->data;
    p.q_latent_token = a.q_latent->strides[0], p.q_latent_head = a.q_latent->strides[1];
    p.q_pe_token = a.q_pe->strides[0], p.q_pe_head = a.q_pe->strides[1];
    p.page = a.kv_cache->strides[0], p.slot = a.kv_cache->strides[1];
    p.tables = fk::data<int32_t>(a.block_tables), p.width = int(a.block_tables->shape[1]);
    p.page_size = int(init_.page_size), p.heads = int(init_.num_heads);
    p.scale = float(init_.scale), p.stream = static_cast<cudaStream_t>(ctx.stream);
    LatentWork w = layout_->work(ctx.plan);
    w.per_tile = int(layout_->per_tile), w.teams = int(teams_);
    w.partial = ctx.scratch;
    w.partial_lse = reinterpret_cast<float*>(static_cast<char*>(ctx.scratch) +
                                             layout_->partial_rows() * kLatent * 2);
    const auto run = FK_DTYPE(a.q_latent) == FK_BF16 ? latent_attention<__nv_bfloat16>
                                                     : latent_attention<__half>;
    run(p, w);
  }

 private:
  // The plan: arrays one after the other, with room for any step within the limits.
  struct Layout {
    int64_t per_tile, rows, items;
    Layout(const op::init& init, const op::forward& max) {
      const int64_t tokens = max.q_latent->shape[0], requests = max.seq_lens->shape[0];
      per_tile =
          init.num_heads > kLatentRows || tokens * init.num_heads > kLatentRows * requests ? 2 : 1;
      rows = per_tile * kLatentRows;
      // Every tile once, the last one of every request, and as many more parts as there are teams.
      items = cdiv(tokens * init.num_heads, rows) + requests + kBlocksMax;
    }
    int64_t partial_rows() const { return 2 * kBlocksMax * kLatentRows; }
    int64_t bytes() const { return (kBlocksMax + 1 + 8 * items + 5 * kBlocksMax) * 4; }
    LatentWork work(const void* blob) const {
      auto* at = static_cast<const int32_t*>(blob);
      const auto take = [&at](int64_t n) { return std::exchange(at, at + n); };
      LatentWork w{};
      w.bounds = take(kBlocksMax + 1);
      for (auto* array : {&w.request, &w.q_first, &w.queries, &w.keys, &w.row, &w.key_first,
                          &w.key_end, &w.partial_row})
        *array = take(items);
      for (auto* array : {&w.merge_row, &w.merge_end, &w.parts_row, &w.parts_end, &w.parts_stride})
        *array = take(kBlocksMax);
      return w;
    }
  };
  struct Writer {
    LatentWork to;
    Writer(const Layout& layout, void* blob) : to(layout.work(blob)) {}
    static void set(const int32_t* array, int64_t at, int64_t value) {
      const_cast<int32_t*>(array)[at] = int32_t(value);
    }
  };
  struct Tile {
    int64_t request, row, rows, keys;  // keys: visible to its last row
  };
  struct Item {
    Tile tile;
    int64_t key_first, key_end, partial_row;
  };

  std::vector<Tile> tiles_of(const int32_t* starts, const int32_t* lengths,
                             int64_t requests) const {
    std::vector<Tile> tiles;
    for (int64_t r = 0; r < requests; ++r) {
      const int64_t queries = starts[r + 1] - starts[r], all = queries * init_.num_heads;
      for (int64_t row = 0; row < all; row += layout_->rows) {
        const int64_t end = std::min(row + layout_->rows, all);
        const int64_t seen = lengths[r] - queries + cdiv(end, init_.num_heads);
        tiles.push_back({r, row, end - row, std::clamp<int64_t>(seen, 0, lengths[r])});
      }
    }
    return tiles;
  }

  void deal(const int32_t* starts, const int32_t* lengths, int64_t requests, Writer& out) const {
    std::vector<Tile> tiles = tiles_of(starts, lengths, requests);
    int64_t keys = 0;
    for (const Tile& t : tiles) keys += t.keys;
    // Every team's share. Cuts add at most as many parts as there are teams, and at most as many
    // rows to merge as there are blocks.
    const int64_t share = std::max<int64_t>(cdiv(cdiv(keys, teams_), kKeysStep), 1) * kKeysStep;
    // The most expensive ones first, each to the team with the least work.
    std::stable_sort(tiles.begin(), tiles.end(),
                     [](const Tile& a, const Tile& b) { return a.keys > b.keys; });
    Loads loads(teams_);
    std::vector<std::vector<Item>> dealt(static_cast<size_t>(teams_));
    int64_t merges = 0, partial = 0;
    for (const Tile& tile : tiles) {
      const int64_t parts = std::max<int64_t>(cdiv(tile.keys, share), 1);
      if (parts > 1) add_merges(tile, starts, tile.keys / share, partial, parts, merges, out);
      for (int64_t p = 0; p < parts; ++p) {
        const int64_t end = std::min((p + 1) * share, tile.keys);
        const int64_t cost =
            end - p * share + 2 * layout_->rows;  // and the cost of start and end
        dealt[loads.give(cost)].push_back({tile, p * share, end, parts > 1 ? partial : -1});
        if (parts > 1) partial += tile.rows;
      }
    }
    for (; merges < kBlocksMax; ++merges)
      for (const auto* array : {out.to.merge_row, out.to.merge_end, out.to.parts_row,
                                out.to.parts_end, out.to.parts_stride})
        Writer::set(array, merges, 0);
    int64_t n = 0;
    for (int64_t t = 0; t < teams_; ++t) {
      Writer::set(out.to.bounds, t, n);
      for (const Item& item : dealt[size_t(t)]) write(item, starts, lengths, n++, out);
    }
    Writer::set(out.to.bounds, teams_, n);
  }

  // A tile's rows are merged by as many blocks as it has whole shares for each block of a team.
  void add_merges(const Tile& tile, const int32_t* starts, int64_t shares, int64_t partial,
                  int64_t parts, int64_t& merges, Writer& out) const {
    const int64_t first = starts[tile.request] * init_.num_heads + tile.row;
    const int64_t some = cdiv(tile.rows, std::max<int64_t>(shares * layout_->per_tile, 1));
    for (int64_t at = 0; at < tile.rows; at += some, ++merges) {
      Writer::set(out.to.merge_row, merges, first + at);
      Writer::set(out.to.merge_end, merges, first + std::min(at + some, tile.rows));
      Writer::set(out.to.parts_row, merges, partial + at);
      Writer::set(out.to.parts_end, merges, partial + parts * tile.rows);
      Writer::set(out.to.parts_stride, merges, tile.rows);
    }
  }

  static void write(const Item& item, const int32_t* starts, const int32_t* lengths, int64_t at,
                    Writer& out) {
    const int64_t r = item.tile.request;
    Writer::set(out.to.request, at, r);
    Writer::set(out.to.q_first, at, starts[r]);
    Writer::set(out.to.queries, at, starts[r + 1] - starts[r]);
    Writer::set(out.to.keys, at, lengths[r]);
    Writer::set(out.to.row, at, item.tile.row);
    Writer::set(out.to.key_first, at, item.key_first);
    Writer::set(out.to.key_end, at, item.key_end);
    Writer::set(out.to.partial_row, at, item.partial_row);
  }

  const op::init& init_;
  std::optional<Layout> layout_;
  int64_t teams_ = 1;
};
FK_OP(mla_attention, MlaAttention);

}  // namespace
