// SPDX-License-Identifier: Apache-2.0
// Checkpoint names are those of transformers' BertModel behind a prefix.
#include "baselines/models/parts/bert.hpp"

#include <algorithm>
#include <cmath>

#include "baselines/models/parts/gelu.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

BertConfig read_bert(const Config& config) {
  BertConfig c;
  c.hidden_size = read_size(config, "hidden_size");
  c.intermediate_size = read_size(config, "intermediate_size");
  c.layers = read_count(config, "num_hidden_layers");
  c.heads = read_count(config, "num_attention_heads");
  c.vocab_size = read_size(config, "vocab_size");
  c.max_position = read_size(config, "max_position_embeddings");
  c.type_vocab_size = read_size(config, "type_vocab_size");
  c.eps = config.number("layer_norm_eps");
  c.approximate = read_gelu(config, "hidden_act");
  if (c.hidden_size % c.heads != 0)
    config.fail_at("num_attention_heads", "it does not divide hidden_size");
  need_text(config, "position_embedding_type", "absolute");
  need_boolean(config, {"is_decoder", "add_cross_attention"}, false);
  return c;
}

Value record_bert(Net& n, const BertConfig& config) {
  const Expr tokens = n.axis("T"), requests = n.axis("B");
  const int64_t width = config.hidden_size / config.heads;
  const auto input = [&](const char* name) { return n.input(name, DType::i64, {tokens}); };
  n.common({{"eps", config.eps},
            {"num_heads", config.heads},
            {"head_dim", width},
            {"scale", 1 / std::sqrt(static_cast<double>(width))},
            {"intermediate_size", config.intermediate_size},
            {"approximate", config.approximate},
            {"cu_seqlens", n.input("cu_seqlens", DType::i32, {requests + 1})},
            {"max_seqlen", Expr::min(tokens, n.limits().max_context)}});
  Value x = n("bert_embedding", config.prefix + "embeddings",
              {{"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"max_position", config.max_position},
               {"type_vocab_size", config.type_vocab_size},
               {"ids", input("ids")},
               {"positions", input("positions")},
               {"types", input("types")}});
  n.tap("hidden.0", {x});
  for (int64_t i = 0; i < config.layers; ++i) {
    x = n("encoder_layer", config.prefix + "encoder.layer." + std::to_string(i), {{"x", x}});
    n.tap("hidden." + std::to_string(i + 1), {x});
  }
  return x;
}

int64_t encoder_axis_limit(const std::string& phase, const std::string& axis,
                           const Limits& limits) {
  if (axis == "T") return std::max(limits.chunk_tokens, limits.max_context);
  if (axis == "B") return limits.max_batch;
  fail("phase " + phase, "there is no axis `" + axis + "`", did_you_mean(axis, {"T", "B"}));
}

}  // namespace fk::parts
