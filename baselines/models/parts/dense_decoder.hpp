// SPDX-License-Identifier: Apache-2.0
// A decoder of equal layers with rotary attention and the paged cache, whole or as one of several
// ranks. A model's own file overrides the parts which differ.
#pragma once
#include "baselines/models/parts/decoder.hpp"

namespace fk::parts {

class DenseDecoder : public Model {
 public:
  explicit DenseDecoder(DecoderConfig config) : config_(std::move(config)) {}

  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(config_));
  }
  void forward(Net& n, const std::string& phase) const override;
  std::string refusal(const Parallel& parallel) const override {
    return decoder_refusal(config_, experts(), parallel);
  }
  std::vector<Unread> unread() const override { return unread_head(config_); }

 protected:
  virtual int64_t experts() const { return 0; }
  // True if the op decode_step describes a whole step.
  virtual bool is_decode_step() const { return true; }
  virtual void layer(Net& n, const DecoderStep& step, int64_t number) const {
    record_layer(n, "decoder_layer", step, config_, number);
  }
  const DecoderConfig& config() const { return config_; }

 private:
  DecoderConfig config_;
};

}  // namespace fk::parts
