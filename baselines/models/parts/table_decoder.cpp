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

  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(form_.base));
  }
  void forward(Net& n, const std::string& phase) const override { record_decoder(n, phase, form_); }
  std::string refusal(const Parallel& parallel) const override {
    if (parallel.tp > 1 && form_.qk_norm == DecoderForm::QkNorm::full)
      return "a norm over all heads cannot be divided between ranks";
    return decoder_refusal(form_.base, form_.mixture.experts, parallel);
  }
  std::vector<Unread> unread() const override {
    std::vector<Unread> list = unread_head(form_.base);
    for (int64_t i = 0; i < form_.base.layers; ++i)
      for (const auto& name : form_.buffers)
        list.push_back({layer_path(form_.base, i) + "." + name, "a mask", ""});
    for (int64_t i = 0; i < form_.further_layers; ++i)
      list.push_back(
          {layer_path(form_.base, form_.base.layers + i) + ".", "next-token prediction", ""});
    return list;
  }

 private:
  const DecoderForm form_;
};

// An encoder of the parts that decoders have.
class TableBidirectional final : public Model {
 public:
  explicit TableBidirectional(DecoderForm form) : form_(std::move(form)) {}

  std::unique_ptr<Engine> engine() const override {
    EncodeOptions options = encode_options(form_.vectors);
    options.vocabulary = form_.base.vocab_size;
    options.positions = form_.base.max_position - form_.pad_token - 1;
    options.position_offset = form_.pad_token + 1;
    options.pad_token = form_.pad_token;
    return encode_engine(std::move(options));
  }
  void forward(Net& n, const std::string& phase) const override { record_decoder(n, phase, form_); }
  std::vector<Unread> unread() const override {
    std::vector<Unread> list;
    for (const auto& name : form_.heads) list.push_back({name, "a head", ""});
    return list;
  }

 private:
  const DecoderForm form_;
};

// Mixtral's form: whole layers with experts.
class TableMixture final : public DenseDecoder {
 public:
  explicit TableMixture(DecoderForm form) : DenseDecoder(form.base), form_(std::move(form)) {}

  void forward(Net& n, const std::string& phase) const override {
    n.rename(names_of_mixture(form_, "block_sparse_moe"));
    n.adapt([this](WeightSpec& spec) { adapt_weight(form_, spec); });
    DenseDecoder::forward(n, phase);
  }

 private:
  int64_t experts() const override { return form_.mixture.experts; }
  void layer(Net& n, const DecoderStep& step, int64_t number) const override {
    const DecoderForm::Mixture& m = form_.mixture;
    record_layer(n, "moe_decoder_layer", step, config(), number,
                 {{"intermediate_size", m.width},
                  {"num_experts", m.experts},
                  {"top_k", m.top_k},
                  {"renormalize", m.renormalize}});
  }

  const DecoderForm form_;
};

std::unique_ptr<Model> make_table_decoder(const Config& description, const Config& config) {
  DecoderForm form = read_decoder_form(description, config);
  if (form.bidirectional) return std::make_unique<TableBidirectional>(std::move(form));
  if (form.is_plain() && form.mixture.experts > 0)
    return std::make_unique<TableMixture>(std::move(form));
  if (form.is_plain()) return std::make_unique<DenseDecoder>(std::move(form.base));
  return std::make_unique<TableDecoder>(std::move(form));
}

FK_MODEL_FORM(decoder, make_table_decoder);

}  // namespace

}  // namespace fk::parts
