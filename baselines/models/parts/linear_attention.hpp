// SPDX-License-Identifier: Apache-2.0
// Models of linear attention with decays, as in flash-linear-attention: pre-norm layers of
// gla_attention and a gated MLP. A request's past is one matrix for each head. GLA makes decays
// from tokens. RetNet has fixed decays and rotates queries and keys.
#pragma once
#include <optional>

#include "baselines/models/parts/recurrent.hpp"

namespace fk::parts {

struct LinearAttentionConfig {
  DecoderConfig decoder;  // its head_dim is the keys' width
  int64_t v_head_dim = 0;
  int64_t gate_rank = 0;  // 0: decays are fixed, and keys are rotated
  double gate_normalizer = 16;
  bool fused_norm = true;  // name of the heads' norm in checkpoints: g_norm_swish_gate, or g_norm
};

// Reads the keys of both models.
LinearAttentionConfig read_linear_attention(const Config& config);

class LinearAttentionModel : public Model {
 public:
  explicit LinearAttentionModel(LinearAttentionConfig config) : config_(std::move(config)) {}
  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(config_.decoder));
  }
  void forward(Net& n, const std::string& phase) const override;
  std::string refusal(const Parallel& parallel) const override {
    return decoder_refusal(config_.decoder, 0, parallel);
  }
  std::vector<Unread> unread() const override { return unread_head(config_.decoder); }

 private:
  Args decays(Net& n, const DecoderStep& step, const std::string& path) const;
  LinearAttentionConfig config_;
};

}  // namespace fk::parts
