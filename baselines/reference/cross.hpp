// SPDX-License-Identifier: Apache-2.0
// Attention of a decoder's token over the keys and values of an encoder's output. Earlier ops have
// stored these in a slot of source_k and source_v.
#pragma once
#include "op.hpp"

namespace fk::reference {

// Rows of scratch (op.hpp) for cross_attend().
struct CrossRows {
  double *q, *scores, *mixed;
  template <class Init>
  CrossRows(Scratch& s, const Init& i)
      : q(s.take(i.num_heads * i.head_dim)),
        scores(s.take(i.source_len)),
        mixed(s.take(i.num_heads * i.head_dim)) {}
};

// The projections of q and of the output, with their biases or null.
struct CrossWeights {
  const fk_in *q, *q_bias, *o, *o_bias;
};

// Computes out[C] from one token x[C] of request b: attention after its output projection.
template <class Init, class Forward>
void cross_attend(const Init& init, const CrossWeights& weights, const Forward& args, int64_t b,
                  const double* x, const CrossRows& rows, double* out) {
  const int64_t channels = init.hidden_size, width = init.head_dim, all = init.num_heads * width;
  const auto slot = static_cast<int32_t>(index<int32_t>(args.state_slots, b));
  matrix_vector(weights.q, 0, all, channels, weights.q_bias, x, rows.q);
  // The slot serves as a single page of source_len positions.
  const PagedRequest source{args.source_k, args.source_v, &slot, init.source_len};
  for (int64_t h = 0; h < init.num_heads; ++h) {
    source.attend_range({init.scale}, rows.q + h * width, h, width, 0,
                        index<int32_t>(args.source_lens, b), rows.scores, rows.mixed + h * width);
  }
  matrix_vector(weights.o, 0, channels, all, weights.o_bias, rows.mixed, out);
}

}  // namespace fk::reference
