// SPDX-License-Identifier: Apache-2.0
// BGE-M3's encoder, an XLM-RoBERTa: BERT's layers, positions that count from pad_token_id + 1.
#include "baselines/models/parts/bert.hpp"

namespace fk {
namespace {

using namespace parts;

struct BgeConfig {
  BertConfig bert;
  int64_t pad_token = 1;
};

BgeConfig read_bge_m3(const Config& config) {
  BgeConfig c;
  c.bert = read_bert(config);
  c.pad_token = config.integer("pad_token_id");
  if (c.pad_token < 0 || c.pad_token + 1 >= c.bert.max_position) {
    config.fail_at("pad_token_id", "it leaves no positions");
  }
  return c;
}

class BgeM3 : public Model {
 public:
  explicit BgeM3(const Config& config) : config_(read_bge_m3(config)) {}

  std::vector<std::string> phases() const override { return {"encode"}; }

  void forward(Net& n, const std::string&) const override {
    n.output("last_hidden_state", record_bert(n, config_.bert));
  }

  void drive(Session& session) const override {
    EncodeOptions options;
    options.position_offset = config_.pad_token + 1;
    options.pad_token = config_.pad_token;
    encode(session, options);
  }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    return encoder_axis_limit(phase, axis, limits);
  }
  int64_t vocab_size() const override { return config_.bert.vocab_size; }
  std::vector<Unread> unread() const override {
    return {{config_.bert.prefix + "pooler.", "a pooler"}};
  }
  int64_t max_positions() const override {
    return config_.bert.max_position - config_.pad_token - 1;
  }

 private:
  BgeConfig config_;
};

std::unique_ptr<Model> make_bge_m3(const Config& config) { return std::make_unique<BgeM3>(config); }

FK_MODEL(bge_m3, make_bge_m3, {"XLMRobertaModel"}, {"xlm-roberta"}, {"tie_word_embeddings"});

}  // namespace
}  // namespace fk
