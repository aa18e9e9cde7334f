// SPDX-License-Identifier: Apache-2.0
// pairformer_block: the updates of pair_block, then attention and a transition of tokens.
#include "baselines/blocks/fold/fold.hpp"

namespace fk {
namespace {

void expand_pairformer_block(Builder& b, const Region& r) {
  const Value z = fold::update_pairs(b, r, ".pair_stack", r["z"], r["out_z"]);
  Args args = {{"eps", r.number("eps")},
               {"num_heads", r.integer("single_heads")},
               {"head_dim", r.integer("single_head_dim")},
               {"x", r["s"]},
               {"z", z}};
  for (const char* weight :
       {"norm", "norm_bias", "norm_z", "norm_z_bias", "bias_proj", "q", "q_bias", "kvg", "o"})
    args.emplace_back(weight, r[std::string("single_") + weight]);
  const Value more = b.call("attention_pair_bias", r.path() + ".attn_pair_bias", args);
  const Value s = fold::added(b, r, ".attn_pair_bias.sum", r["s"], more);
  fold::transition(b, r, ".single_transition", "single_transition", s, r["out_s"]);
}

FK_BLOCK(pairformer_block, expand_pairformer_block);

}  // namespace
}  // namespace fk
