// SPDX-License-Identifier: Apache-2.0
// Cells of point clouds on curves through space, and attention in patches of them.
#pragma once
#include "op.hpp"

namespace fk::reference {

inline constexpr int64_t kNoCode = std::numeric_limits<int64_t>::max();

// Bits of three coordinates in turns, the first axis highest.
inline int64_t interleaved(const std::array<uint32_t, 3>& at, int64_t depth) {
  int64_t code = 0;
  for (int64_t bit = depth; bit-- > 0;)
    for (const uint32_t c : at) code = code << 1 | static_cast<int64_t>(c >> bit & 1);
  return code;
}

// The place on Hilbert's curve, by Skilling's transform of the axes.
inline int64_t hilbert(std::array<uint32_t, 3> at, int64_t depth) {
  const uint32_t top = 1U << (depth - 1);
  for (uint32_t q = top; q > 1; q >>= 1) {
    const uint32_t below = q - 1;
    for (uint32_t& c : at) {
      if (c & q) {
        at[0] ^= below;
      } else {
        const uint32_t both = (at[0] ^ c) & below;
        at[0] ^= both;
        c ^= both;
      }
    }
  }
  at[1] ^= at[0];
  at[2] ^= at[1];
  uint32_t flips = 0;
  for (uint32_t q = top; q > 1; q >>= 1)
    if (at[2] & q) flips ^= q - 1;
  for (uint32_t& c : at) c ^= flips;
  return interleaved(at, depth);
}

// Rows of patch_attention() for `places` places.
struct PatchRows {
  double *q, *k, *v, *scores, *heads;
  PatchRows(Scratch& s, int64_t cells, int64_t places, int64_t channels)
      : q(s.take(cells * channels)),
        k(s.take(cells * channels)),
        v(s.take(cells * channels)),
        scores(s.take(places)),
        heads(s.take(channels)) {}
};

// Attention within patches, of cells whose q, k and v are in rows. sink(cell, heads) gets each
// cell's result.
template <class Init, class Forward, class Sink>
void patch_attention(const Init& init, const Forward& args, const PatchRows& rows, Sink sink) {
  const int64_t channels = init.hidden_size, width = channels / init.num_heads;
  const auto* mask = data<float>(args.mask);
  const int64_t patch = init.patch_size;
  const auto* cells = data<int32_t>(args.padded_rows);
  for (int64_t t = 0; t < args.x->shape[0]; ++t) {
    const int64_t place = data<int32_t>(args.places)[t];
    const int64_t first = place / patch * patch;
    const double* q = rows.q + cells[place] * channels;
    std::fill_n(rows.heads, channels, 0.0);
    const bool seen = std::any_of(mask + first, mask + first + patch, [](float m) {
      return m > -std::numeric_limits<float>::infinity();
    });
    for (int64_t h = 0; seen && h < init.num_heads; ++h) {
      Attention{}(
          0, patch, rows.scores,
          [&](int64_t j) {
            const double* k = rows.k + cells[first + j] * channels + h * width;
            double dot = 0;
            for (int64_t d = 0; d < width; ++d) dot += q[h * width + d] * k[d];
            return init.scale * dot + value(mask[first + j]);
          },
          [&](int64_t j, double p) {
            const double* v = rows.v + cells[first + j] * channels + h * width;
            for (int64_t d = 0; d < width; ++d) rows.heads[h * width + d] += p * v[d];
          });
    }
    sink(t, rows.heads);
  }
}

// q, k and v of cell t, whose normed input is x.
template <class Weights>
void patch_products(const Weights& w, int64_t t, int64_t channels, const double* x,
                    const PatchRows& rows) {
  double* const outs[] = {rows.q, rows.k, rows.v};
  for (int64_t part = 0; part < 3; ++part) {
    double* out = outs[part] + t * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t row = part * channels + c;
      double bias = 0;
      if (const fk_in* b = w.qkv_bias.or_null) load(b, row, 1, &bias);
      out[c] = bias + dot_view(w.qkv, row * channels, x, channels);
    }
  }
}

template <class Init>
void need_patch_attention(const Init& init) {
  if (init.hidden_size % init.num_heads) throw unsupported{"num_heads: must divide hidden_size"};
}

// Adds the sum over offsets of weight[o, k] @ x[table[k, t]] to out [O]; `row` has room for C.
inline void add_sparse_conv(const fk_in* weight, const fk_in* table, const fk_in* x, int64_t t,
                            double* row, double* out) {
  const int64_t outputs = weight->shape[0], offsets = weight->shape[1], channels = weight->shape[2];
  for (int64_t k = 0; k < offsets; ++k) {
    const int64_t from = data<int32_t>(table)[k * table->shape[1] + t];
    if (from < 0) continue;
    load(x, offset(x, from), channels, row);
    for (int64_t o = 0; o < outputs; ++o)
      out[o] += dot_view(weight, (o * offsets + k) * channels, row, channels);
  }
}

}  // namespace fk::reference
