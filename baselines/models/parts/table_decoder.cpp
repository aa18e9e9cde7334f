// SPDX-License-Identifier: Apache-2.0
// The model behind every description of a decoder (`decoder` in registry/models). Layers of Llama's
// form are recorded as whole layers (dense_decoder.hpp), all others as their parts.
#include "baselines/models/parts/decoder_form.hpp"
#include "baselines/models/parts/dense_decoder.hpp"

namespace fk::parts {

namespace {

class TableDecoder final : public Model {
 public:
  explicit TableDecoder(DecoderForm form) : form_(std::move(form)) {}

  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }
  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    record_decoder(b, phase, form_, limits);
  }
  void drive(Session& session) const override { generate(session, {form_.base.eos}); }
  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    return decoder_axis_limit(phase, axis, limits);
  }
  int64_t vocab_size() const override { return form_.base.vocab_size; }
  int64_t max_positions() const override { return form_.base.max_position; }
  std::string refusal(const Parallel& parallel) const override {
    if (parallel.tp > 1 && form_.qk_norm == DecoderForm::QkNorm::full)
      return "a norm over all heads cannot be divided between ranks";
    return decoder_refusal(form_.base, 0, parallel);
  }
  std::vector<Unread> unread() const override {
    std::vector<Unread> list;
    if (form_.base.tied)
      list.push_back({form_.head + ".weight", "a tied head", form_.embedding + ".weight"});
    for (int64_t i = 0; i < form_.base.layers; ++i)
      for (const auto& name : form_.buffers)
        list.push_back({form_.layers + "." + std::to_string(i) + "." + name, "a mask", ""});
    return list;
  }

 private:
  const DecoderForm form_;
};

// Whole layers of Llama's form, with or without a norm of q and k.
class PlainDecoder final : public DenseDecoder {
 public:
  explicit PlainDecoder(const DecoderForm& form)
      : DenseDecoder(form.base), qk_norm_(form.qk_norm == DecoderForm::QkNorm::head) {}

 private:
  void add_to_layer(Args& args, Builder& b, const Limits& limits, int64_t layer) const override {
    for (const char* name : {"q_norm", "k_norm"}) {
      const std::string weight = layer_path(layer) + ".self_attn." + name + ".weight";
      if (qk_norm_)
        args.emplace_back(name, b.weight(norm_weight(weight, limits.weights(), config().head_dim)));
    }
  }
  bool qk_norm_;
};

std::unique_ptr<Model> make_table_decoder(const Config& description, const Config& config) {
  DecoderForm form = read_decoder_form(description, config);
  if (form.is_plain()) return std::make_unique<PlainDecoder>(form);
  return std::make_unique<TableDecoder>(std::move(form));
}

FK_MODEL_FORM(decoder, make_table_decoder);

}  // namespace

}  // namespace fk::parts
