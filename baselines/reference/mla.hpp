// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention (MLA): a token's key and value are one latent vector, shared by all
// heads, plus a rotated part of the key. LatentRequest is one head's attention over cached latents
// (mla_attention). MlaDecoder is the whole module, in two passes for the reason in decoder.hpp.
#pragma once
#include "fp8_block.hpp"

namespace fk::reference {

// A request's latents, in pages, as in PagedRequest (math.hpp).
struct LatentRequest {
  const fk_in* cache;
  const int32_t* pages;
  int64_t page_size;

  // out[latent] = attention of q[width] at `position` over all positions up to it. The latent part
  // of q comes first.
  void attend(double scale, const double* q, int64_t latent, int64_t width, int64_t position,
              double* scores, double* out) const {
    const auto at = [&](int64_t j) { return offset(cache, pages[j / page_size], j % page_size); };
    std::fill_n(out, latent, 0.0);
    Attention{scale}(
        0, position + 1, scores, [&](int64_t j) { return dot_view(cache, at(j), q, width); },
        [&](int64_t j, double p) { add_scaled(cache, at(j), latent, p, out); });
  }
};

// Rows of scratch (op.hpp) for MlaDecoder.
struct MlaRows {
  double *x, *all, *q, *row, *quantized, *scores, *mixed, *queries;
  template <class Init, class Forward>
  MlaRows(Scratch& s, const Init& i, const Forward& args)
      : x(s.take(i.hidden_size)),
        all(s.take(i.q_lora_rank + i.kv_lora_rank + i.qk_rope_head_dim)),
        q(s.take(i.num_heads * (i.qk_nope_head_dim + i.qk_rope_head_dim))),
        row(s.take(std::max({i.hidden_size, i.q_lora_rank, i.kv_lora_rank}))),
        quantized(s.take(std::max({i.hidden_size, i.q_lora_rank, i.num_heads * i.v_head_dim}))),
        scores(s.take(args.block_tables->shape[1] * i.page_size)),
        mixed(s.take(i.num_heads * i.v_head_dim)),
        queries(s.take(args.positions->shape[0] * i.num_heads *
                       (i.kv_lora_rank + i.qk_rope_head_dim))) {}
};

// Refuses dtypes that MlaDecoder does not take.
template <class Weights, class Forward>
void need_mla(const Weights& weights, const Forward& max) {
  need_weights(weights.qkv_a, weights.q_b, weights.o);
  need_floats(weights.q_a_norm.or_null, weights.kv_a_norm, weights.w_uk, weights.w_uv,
              max.kv_cache);
}

// The two passes of one call.
template <class Init, class Weights, class Forward>
struct MlaDecoder {
  const Init& init;
  const Weights& weights;
  const Forward& args;
  const MlaRows& rows;

  int64_t tokens() const { return args.positions->shape[0]; }
  // width of a cache entry
  int64_t cached() const { return init.kv_lora_rank + init.qk_rope_head_dim; }
  double* query(int64_t t, int64_t h) const {
    return rows.queries + (t * init.num_heads + h) * cached();
  }

  // First pass, from x[C] of token t: keeps its queries in scratch, and stores its latent and key
  // in the cache.
  void project(int64_t t, const double* x) const {
    const int64_t q_rank = init.q_lora_rank, rank = init.kv_lora_rank;
    const int64_t nope = init.qk_nope_head_dim, rotary = init.qk_rope_head_dim;
    const Fp8Block block = block_of(init);
    double *latent = rows.all + q_rank, *key = latent + rank;
    reference::project(matrix_of(weights.qkv_a, weights.qkv_a_scale_inv), block,
                       q_rank + rank + rotary, init.hidden_size, x, rows.quantized, rows.all);
    if (q_rank > 0) rms_normalize(rows.all, q_rank, init.eps, weights.q_a_norm.or_null, rows.row);
    reference::project(matrix_of(weights.q_b, weights.q_b_scale_inv), block,
                       init.num_heads * (nope + rotary), q_rank > 0 ? q_rank : init.hidden_size,
                       q_rank > 0 ? rows.all : x, rows.quantized, rows.q);
    rms_normalize(latent, rank, init.eps, weights.kv_a_norm, rows.row);
    const fk_in* cache = weights.cos_sin_cache;
    const float* table = data<float>(cache) + offset(cache, index<int64_t>(args.positions, t));
    rotate(key, rotary, init.interleaved != 0, table);
    for (int64_t h = 0; h < init.num_heads; ++h) {
      double* q = rows.q + h * (nope + rotary);
      rotate(q + nope, rotary, init.interleaved != 0, table);
      matrix_vector(weights.w_uk, offset(weights.w_uk, h), rank, nope, nullptr, q, query(t, h));
      std::copy_n(q + nope, rotary, query(t, h) + rank);
    }
    const int64_t slot = index<int64_t>(args.slot_mapping, t);
    if (slot >= 0)
      store(args.kv_cache, offset(args.kv_cache, slot / init.page_size, slot % init.page_size),
            cached(), latent);
  }

  // Second pass: calls then(t, attended[C]) for every token. `attended` is attention after its
  // output projection.
  template <class Then>
  void attend(double* attended, Then then) const {
    for (int64_t b = 0; b < args.block_tables->shape[0]; ++b) {
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      const int64_t length = index<int32_t>(args.seq_lens, b);
      const LatentRequest request{fk_as_in(args.kv_cache),
                                  data<int32_t>(args.block_tables) + offset(args.block_tables, b),
                                  init.page_size};
      for (int64_t t = index<int32_t>(args.cu_seqlens, b); t < last; ++t) {
        for (int64_t h = 0; h < init.num_heads; ++h) mix(request, t, h, length - last + t);
        reference::project(matrix_of(weights.o, weights.o_scale_inv), block_of(init),
                           init.hidden_size, init.num_heads * init.v_head_dim, rows.mixed,
                           rows.quantized, attended);
        then(t, attended);
      }
    }
  }

 private:
  void mix(const LatentRequest& request, int64_t t, int64_t h, int64_t position) const {
    request.attend(init.scale, query(t, h), init.kv_lora_rank, cached(), position, rows.scores,
                   rows.row);
    matrix_vector(weights.w_uv, offset(weights.w_uv, h), init.v_head_dim, init.kv_lora_rank,
                  nullptr, rows.row, rows.mixed + h * init.v_head_dim);
  }
};

}  // namespace fk::reference
