// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/text_vectors.hpp"

#include <algorithm>
#include <numeric>

#include "baselines/models/parts/description.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

namespace {

// The vector of each text's first token.
Value first_of(Net& n, Value x) {
  return n("gather_rows", "pooling",
           {{"x", x}, {"rows", n.input("first_rows", DType::i32, {n.axis("B")})}});
}

// The mean of each text. It is attention with a query of zeros, because then every token has the
// same weight.
Value mean_of(Net& n, Value x) {
  const Expr texts = n.axis("B"), tokens = n.shape(x)[0];
  const int64_t channels = n.shape(x)[1].value();
  const int64_t width = std::gcd(channels, int64_t{64}), heads = channels / width;
  const Value rows = n.reshape(x, {tokens, heads, width});
  const Value pooled = n("attention_varlen", "pooling",
                         {{"q", n.zeros(n.dtype(x), {texts, heads, width})},
                          {"k", rows},
                          {"v", rows},
                          {"num_heads", heads},
                          {"num_kv_heads", heads},
                          {"head_dim", width},
                          {"scale", 1.0},
                          {"causal", false},
                          {"window", 0},
                          {"cu_seqlens_q", n.input("one_each", DType::i32, {texts + 1})},
                          {"cu_seqlens_k", n.input("cu_seqlens", DType::i32, {texts + 1})},
                          {"max_query_len", Expr(1)},
                          {"max_key_len", Expr::min(tokens, n.limits().max_context)}});
  return n.reshape(pooled, {texts, channels});
}

}  // namespace

TextVectors read_text_vectors(const Config& config) {
  const std::string pooling = word(config, "pooling", {"none", "cls", "mean"});
  TextVectors v;
  v.pooling = pooling == "cls"    ? TextVectors::Pooling::cls
              : pooling == "mean" ? TextVectors::Pooling::mean
                                  : TextVectors::Pooling::none;
  v.normalize = config.boolean("normalize", false);
  if (v.normalize && pooling == "none")
    config.fail_at("normalize", "it is of one vector for each text", "pooling: cls, mean");
  return v;
}

int64_t read_pad_token(const Config& config, int64_t positions) {
  const int64_t token = config.integer("pad_token_id");
  if (token < 0 || token + 1 >= positions) config.fail_at("pad_token_id", "it leaves no positions");
  return token;
}

void output_vectors(Net& n, Value x, const TextVectors& vectors) {
  n.output("last_hidden_state", x);
  if (vectors.pooling == TextVectors::Pooling::none) return;
  Value pooled = vectors.pooling == TextVectors::Pooling::cls ? first_of(n, x) : mean_of(n, x);
  if (vectors.normalize) pooled = n("l2_norm", "normalize", {{"eps", 1e-12}, {"x", pooled}});
  n.output("embedding", pooled);
}

EncodeOptions encode_options(const TextVectors& vectors) {
  EncodeOptions options;
  if (vectors.pooling == TextVectors::Pooling::none) return options;
  options.output = "embedding";
  options.of_texts = true;
  return options;
}

}  // namespace fk::parts
