// SPDX-License-Identifier: Apache-2.0
// RetNet: linear attention with a fixed decay for each head, and rotated queries and keys.
#include "baselines/models/parts/linear_attention.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

std::unique_ptr<Model> make_retnet(const Config& config) {
  parts::LinearAttentionConfig c = parts::read_linear_attention(config);
  parts::DecoderConfig& d = c.decoder;
  if (d.head_dim % 2) config.fail_at("expand_k", "rotated heads have an odd width");
  d.rope.rotary_dim = d.head_dim;
  d.rope.theta = 10000;
  return std::make_unique<parts::LinearAttentionModel>(std::move(c));
}

FK_MODEL(retnet, make_retnet, {"RetNetForCausalLM"}, {"retnet"},
         {"attn_mode", "fuse_swiglu", "fuse_cross_entropy", "fuse_linear_cross_entropy",
          "use_l2warp", "conv_size", "share_conv_kernel", "max_position_embeddings"});

}  // namespace
}  // namespace fk
