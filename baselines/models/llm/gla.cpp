// SPDX-License-Identifier: Apache-2.0
// GLA: linear attention whose decays come from each token, through a product of low rank.
#include "baselines/models/parts/linear_attention.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

std::unique_ptr<Model> make_gla(const Config& config) {
  parts::LinearAttentionConfig c = parts::read_linear_attention(config);
  c.gate_rank = 16;  // fixed in the library's layer; no file changes it
  parts::need_boolean(config, {"use_gk"}, true);
  parts::need_boolean(config, {"use_gv"}, false);
  return std::make_unique<parts::LinearAttentionModel>(std::move(c));
}

FK_MODEL(gla, make_gla, {"GLAForCausalLM"}, {"gla"},
         {"attn_mode", "fuse_swiglu", "fuse_cross_entropy", "fuse_linear_cross_entropy",
          "use_l2warp", "conv_size", "share_conv_kernel", "max_position_embeddings"});

}  // namespace
}  // namespace fk
