// SPDX-License-Identifier: Apache-2.0
// ColBERTv2: BERT, and one normalised vector per token. The configuration says which checkpoint it
// is: HF_ColBERT has its names below `bert.` and a projection `linear.weight` of `dim` rows (128
// when the file is silent, as the published one is); BertModel is the bare encoder.
#include <algorithm>

#include "baselines/models/parts/bert.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct ColbertConfig {
  BertConfig bert;
  int64_t projected = 0;  // 0: no projection
};

ColbertConfig read_colbertv2(const Config& config) {
  ColbertConfig c;
  c.bert = read_bert(config);
  const auto classes = config.texts("architectures", {});
  if (std::find(classes.begin(), classes.end(), "HF_ColBERT") != classes.end()) {
    c.bert.prefix = "bert.";
    c.projected = bounded(config, "dim", config.integer("dim", 128), kSizeMax);
  }
  return c;
}

class Colbert : public Model {
 public:
  explicit Colbert(const Config& config) : config_(read_colbertv2(config)) {}

  std::vector<std::string> phases() const override { return {"encode"}; }

  void forward(Net& n, const std::string&) const override {
    const Value x = record_bert(n, config_.bert);
    n.output("last_hidden_state", x);
    if (config_.projected == 0) return;
    const Value y = n("linear", "linear", {{"out_features", config_.projected}, {"x", x}});
    n.output("embeddings", n("l2_norm", "normalize", {{"eps", 1e-12}, {"x", y}}));
  }

  void drive(Session& session) const override {
    EncodeOptions options;
    if (config_.projected > 0) options.output = "embeddings";
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
  int64_t max_positions() const override { return config_.bert.max_position; }

 private:
  ColbertConfig config_;
};

std::unique_ptr<Model> make_colbertv2(const Config& config) {
  return std::make_unique<Colbert>(config);
}

FK_MODEL(colbertv2, make_colbertv2, {"HF_ColBERT", "BertModel"}, {"bert"}, {"tie_word_embeddings"});

}  // namespace
}  // namespace fk
