// SPDX-License-Identifier: Apache-2.0
// A decoder of equal dense layers: rotary attention and a gated MLP, with the paged cache, whole or
// as one of several ranks. What a model adds to it stands in the model's file.
#pragma once
#include "baselines/models/parts/decoder.hpp"

namespace fk::parts {

class DenseDecoder : public Model {
 public:
  explicit DenseDecoder(DecoderConfig config) : config_(std::move(config)) {}

  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }
  void forward(Builder& b, const std::string& phase, const Limits& limits) const override;
  void drive(Session& session) const override;
  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override;
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.max_position; }
  std::string refusal(const Parallel& parallel) const override;
  std::vector<Unread> unread() const override { return unread_head(config_); }

 protected:
  // Arguments of a layer beyond those of attention, both norms and the MLP.
  virtual void add_to_layer(Args& /*args*/, Builder& /*b*/, const Limits& /*limits*/,
                            int64_t /*layer*/) const {}
  const DecoderConfig& config() const { return config_; }

 private:
  void forward_part(Builder& b, const std::string& phase, const Limits& limits) const;
  Args arguments(Builder& b, const DecoderStep& step, const Limits& limits, int64_t layer) const;

  DecoderConfig config_;
};

}  // namespace fk::parts
