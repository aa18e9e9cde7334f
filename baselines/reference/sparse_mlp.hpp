// SPDX-License-Identifier: Apache-2.0
// For one token: a router and its experts. moe_block is this, and so is the second half of
// moe_decoder_layer.
#pragma once
#include "fp8_block.hpp"

namespace fk::reference {

// Rows of scratch (op.hpp) for sparse_mlp().
struct SparseMlpRows {
  double *logits, *weights;
  GatedRows mlp;
  int32_t* ids;
  template <class Init>
  SparseMlpRows(Scratch& s, const Init& i)
      : logits(s.take(i.num_experts)),
        weights(s.take(i.top_k)),
        mlp(s, i.hidden_size, i.intermediate_size),
        ids(reinterpret_cast<int32_t*>(s.take(i.top_k))) {}
};

// out[C] = the weighted sum of the experts that the router chooses for x[C].
template <class Init, class Weights>
void sparse_mlp(const Init& init, const Weights& weights, const double* x, const SparseMlpRows& row,
                double* out) {
  matrix_vector(weights.gate, 0, init.num_experts, init.hidden_size, weights.gate_bias.or_null, x,
                row.logits);
  choose_experts(row.logits, init.num_experts, init.top_k, init.renormalize, row.logits,
                 row.weights, row.ids);
  experts_sum(init, weights, row.weights, row.ids, x, row.mlp, out);
}

}  // namespace fk::reference
