// SPDX-License-Identifier: Apache-2.0
// For one token: a router that chooses experts by groups, the chosen experts and the shared ones.
// deepseek_moe is this, and so is the second half of mla_moe_decoder_layer.
#pragma once
#include "fp8_block.hpp"
#include "grouped_topk.hpp"

namespace fk::reference {

// Rows of scratch (op.hpp) for grouped_experts().
struct GroupedExpertsRows {
  double *logits, *weights, *shared;
  int32_t* ids;
  GroupedChoiceRows choice;
  GatedRows mlp;
  template <class Init>
  GroupedExpertsRows(Scratch& s, const Init& i)
      : logits(s.take(i.num_experts)),
        weights(s.take(i.top_k)),
        shared(s.take(i.hidden_size)),
        ids(reinterpret_cast<int32_t*>(s.take(i.top_k))),
        choice(s, i.num_experts, i.num_expert_group),
        mlp(s, i.hidden_size, std::max(i.intermediate_size, i.shared_intermediate_size)) {}
};

// Refuses dtypes and numbers that grouped_experts() does not take.
template <class Init, class Weights>
void need_grouped_experts(const Init& init, const Weights& weights) {
  need_floats(weights.gate);
  need_weights(weights.w13, weights.w2, weights.shared_gate_up.or_null,
               weights.shared_down.or_null);
  need_groups(init.num_experts, init.top_k, init.num_expert_group, init.topk_group);
}

// out[C] = the weighted sum of the chosen experts for x[C], plus the shared experts.
template <class Init, class Weights>
void grouped_experts(const Init& init, const Weights& weights, bool sigmoid, const double* x,
                     const GroupedExpertsRows& row, double* out) {
  const int64_t channels = init.hidden_size;
  matrix_vector(weights.gate, 0, init.num_experts, channels, nullptr, x, row.logits);
  choose_grouped(
      {init.num_experts, init.top_k, init.num_expert_group, init.topk_group, sigmoid,
       init.renormalize != 0, init.routed_scaling_factor, weights.e_score_correction_bias.or_null},
      row.logits, row.choice, row.weights, row.ids);
  experts_sum(init, weights, row.weights, row.ids, x, row.mlp, out);
  if (!weights.shared_down.or_null) return;
  gated_mlp(matrix_of(weights.shared_gate_up.or_null, weights.shared_gate_up_scale_inv),
            matrix_of(weights.shared_down.or_null, weights.shared_down_scale_inv), block_of(init),
            channels, init.shared_intermediate_size, x, row.mlp, row.shared);
  for (int64_t c = 0; c < channels; ++c) out[c] += row.shared[c];
}

}  // namespace fk::reference
