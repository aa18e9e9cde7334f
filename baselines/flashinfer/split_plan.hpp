// SPDX-License-Identifier: Apache-2.0
// The plan of FlashInfer's FA2 kernel over pages, as FlashInfer's planners make it. It lists
// blocks, and splits contexts so that all multiprocessors have work.
#pragma once
#include "common.hpp"

namespace fkf {

class SplitPlan {
 public:
  struct Shape {
    int64_t heads, kv_heads, width;  // width: of a head
    int64_t rows;                    // of a block: 16 or 64
    bool splits;                     // splits contexts and merges their parts
    int64_t window;                  // 0: none
    int64_t tokens, requests;        // limits
  };
  explicit SplitPlan(const Shape& shape)
      : s_(shape), blocks_(count(shape.tokens, shape.requests)) {}

  int64_t rows() const { return s_.rows; }
  // The memory for supports().
  void ask(int64_t table_width, fk_need& wanted) const {
    wanted.persistent = (widths(table_width) + 1) * (s_.requests + 1) * 4;
    wanted.plan = bytes();
    if (s_.splits) wanted.scratch = parts_room() * s_.heads * (s_.width * 2 + 4);
  }
  // In prepare().
  void prepare(int64_t table_width, const fk_memory& memory) {
    page_starts_ = static_cast<int32_t*>(memory.persistent);
    widest_ = table_width;
    std::vector<int32_t> all;
    for (int64_t i = 0; i <= widths(widest_); ++i)
      for (int64_t r = 0; r <= s_.requests; ++r)
        all.push_back(int32_t(r * (i < widths(widest_) ? int64_t{1} << i : widest_)));
    const auto stream = static_cast<cudaStream_t>(memory.stream);
    if (cudaMemcpyAsync(page_starts_, all.data(), all.size() * 4, cudaMemcpyHostToDevice, stream) !=
            cudaSuccess ||
        cudaStreamSynchronize(stream) != cudaSuccess)
      throw std::runtime_error("attention over pages: the upload of page starts failed");
  }

  // Returns the bytes of the plan. `lengths`: of the contexts.
  int64_t write(const int32_t* starts, const int32_t* lengths, int64_t requests, void* blob) const {
    const int64_t room = count(starts[requests], requests);
    const auto tiles_of = [&](int64_t r) {
      return cdiv((starts[r + 1] - starts[r]) * group(), s_.rows);
    };
    // The smallest part for which there are enough blocks.
    int64_t part_keys = int64_t{1} << 30;
    if (s_.splits) {
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
    each(blob, [&](int32_t* numbers, int32_t* request, int32_t* tile, int32_t* part,
                   int32_t* first_part, int32_t* merge, uint8_t* valid) {
      int64_t n = 0, parts = 0;
      for (int64_t r = 0; r < requests; ++r) {
        const int64_t own = s_.splits ? parts_of(lengths[r], part_keys) : 1;
        first_part[r] = int32_t(parts);
        for (int64_t t = 0; t < tiles_of(r); ++t)
          for (int64_t p = 0; p < own; ++p, ++n)
            request[n] = int32_t(r), tile[n] = int32_t(t), part[n] = int32_t(p), valid[n] = 1;
        for (int64_t token = starts[r]; token < starts[r + 1]; ++token, parts += own)
          merge[token] = int32_t(parts);
      }
      merge[starts[requests]] = int32_t(parts);
      std::fill(valid + n, valid + blocks_, uint8_t{0});
      numbers[0] = int32_t(part_keys);
      numbers[1] = starts[requests];
    });
    return bytes();
  }

  // For a call with plan and scratch in `ctx`.
  Blocks blocks(const Attention& a, const fk_ctx& ctx) const {
    const int64_t at = width_at(a.width);
    Blocks b{};
    b.count = int(count(a.tokens, a.requests));
    each(const_cast<void*>(ctx.plan), [&](int32_t* numbers, int32_t* request, int32_t* tile,
                                          int32_t* part, int32_t* first_part, int32_t* merge,
                                          uint8_t* valid) {
      b.request = request, b.tile = tile, b.part = part, b.first_part = first_part, b.valid = valid;
      b.part_keys = numbers, b.tokens = reinterpret_cast<uint32_t*>(numbers + 1),
      b.page_starts = page_starts_ + at * (s_.requests + 1);
      if (s_.splits) b.merge = merge;
    });
    if (b.merge) {
      b.partial = ctx.scratch;
      b.partial_lse = reinterpret_cast<float*>(static_cast<char*>(ctx.scratch) +
                                               parts_room() * s_.heads * s_.width * 2);
    }
    return b;
  }

 private:
  static constexpr int64_t kKeysStep = 256;  // parts of a context are multiples of it

  int64_t group() const { return s_.heads / s_.kv_heads; }
  // Blocks of the grid: every tile once and, if contexts are split, about two more waves for the
  // parts.
  int64_t count(int64_t tokens, int64_t requests) const {
    return cdiv(tokens * group(), s_.rows) + requests +
           (s_.splits ? cdiv(2 * 132, s_.kv_heads) : 0);
  }
  // A part is a block's result for a token: 16 rows are 16 / group tokens.
  int64_t parts_room() const { return cdiv(s_.rows * blocks_, group()); }
  // The number of keys which are split into parts, as the kernel counts them.
  int64_t seen(int64_t length) const {
    return s_.window ? std::min(length, s_.window - 1 + s_.rows) : length;
  }
  int64_t parts_of(int64_t length, int64_t keys) const {
    return std::max<int64_t>(1, cdiv(seen(length), keys));
  }

  // The plan: arrays one after the other. The limits, and not the step, decide the room of each.
  int64_t bytes() const {
    return (2 + 3 * blocks_ + (s_.requests + 1) + s_.tokens + 1) * 4 + blocks_;
  }
  template <class F>
  void each(void* blob, F f) const {
    auto* at = static_cast<int32_t*>(blob);
    const auto take = [&at](int64_t n) { return std::exchange(at, at + n); };
    int32_t* const numbers = take(2);
    int32_t *const request = take(blocks_), *const tile = take(blocks_),
                   *const part = take(blocks_);
    int32_t *const first_part = take(s_.requests + 1), *const merge = take(s_.tokens + 1);
    f(numbers, request, tile, part, first_part, merge, reinterpret_cast<uint8_t*>(at));
  }

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

  Shape s_;
  int64_t blocks_;                  // room
  int32_t* page_starts_ = nullptr;  // for every width: the pages of request r begin at r * width
  int64_t widest_ = 0;
};

// The kernels' arguments from a call of an op over pages.
template <class Init, class Frame>
Attention over_pages(const Init& init, const Frame& a, const fk_ctx& ctx) {
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
  p.page_size = int(init.page_size);
  p.heads = int(init.num_heads), p.kv_heads = int(init.num_kv_heads);
  p.scale = float(init.scale), p.stream = static_cast<cudaStream_t>(ctx.stream);
  return p;
}

}  // namespace fkf
