// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/diffusers/clip_text.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

constexpr double kHidden = -1e4;  // what a key's score gains where a token must not see the key
// Configurations of the first CLIP name this token. Its texts end at the largest token.
constexpr int64_t kOldEnd = 2;

// Rows of a table [rows, width] for each token of all texts: [texts * positions, width]. Without
// `table` it is the weight of the path.
Value looked_up(Net& n, const std::string& path, const ClipText& c,
                const std::vector<Value>& tokens, int64_t width, DType dtype, Value table = {}) {
  const Expr each = n.shape(tokens[0])[0] * c.positions;
  const Expr texts = n.shape(tokens[0])[0] * static_cast<int64_t>(tokens.size());
  const Value all = n.empty(dtype, {texts * c.positions, width});
  for (size_t i = 0; i < tokens.size(); ++i) {
    Args args = {{"num_embeddings", c.vocabulary},
                 {"ids", n.reshape(tokens[i], {each})},
                 {"out", n.slice(all, 0, each * static_cast<int64_t>(i), each)}};
    if (table) args.emplace_back("table", table);
    n("embedding", path, args);
  }
  return all;
}

// The embedding of each position, for each of `texts` texts.
Value embedded_positions(Net& n, const std::string& path, const ClipText& c, const Expr& texts) {
  const Value ids = computed(n, path + ".positions.ids", DType::i64, {c.positions}, [c] {
    std::vector<double> all(static_cast<size_t>(c.positions));
    std::iota(all.begin(), all.end(), 0.0);
    return all;
  });
  const Value rows = n("embedding", path + ".position_embedding",
                       {{"num_embeddings", c.positions},
                        {"embedding_dim", c.hidden},
                        {"ids", ids},
                        {"out", std::string(name(n.limits().dtype))}});
  const Value same =
      repeated_row(n, path + ".positions", n.reshape(rows, {1, c.positions * c.hidden}), texts);
  return n.reshape(same, {texts * c.positions, c.hidden});
}

// [positions, positions]: a token sees itself and the tokens before.
Value causal_mask(Net& n, const std::string& path, int64_t positions) {
  return computed(n, path + ".causal_mask", DType::f32, {1, positions, positions}, [positions] {
    std::vector<double> mask(static_cast<size_t>(positions * positions));
    for (int64_t at = 0; at < positions * positions; ++at)
      mask[static_cast<size_t>(at)] = at % positions > at / positions ? kHidden : 0;
    return mask;
  });
}

}  // namespace

ClipText read_clip_text(const Config& config, bool projected) {
  ClipText c;
  c.hidden = read_size(config, "hidden_size");
  c.layers = read_count(config, "num_hidden_layers");
  if (c.layers < 2) config.fail_at("num_hidden_layers", "it must be at least 2");
  c.heads = read_count(config, "num_attention_heads");
  if (c.hidden % c.heads != 0)
    config.fail_at("num_attention_heads", "hidden_size is not a multiple of it");
  c.mlp = read_size(config, "intermediate_size");
  c.vocabulary = bounded(config, "vocab_size", config.integer("vocab_size"), 1 << 24);
  c.positions = read_count(config, "max_position_embeddings");
  c.end = config.integer("eos_token_id", kOldEnd);
  if (c.end < 0 || c.end >= c.vocabulary)
    config.fail_at("eos_token_id", "it is outside of the vocabulary");
  c.eps = config.number("layer_norm_eps", 1e-5);
  const std::string act = config.text("hidden_act", "quick_gelu");
  if (act != "quick_gelu" && act != "gelu")
    config.fail_at("hidden_act", "`" + excerpt(act) + "` is not supported",
                   did_you_mean(act, {"quick_gelu", "gelu"}));
  c.approximate = act == "gelu" ? "none" : "quick";
  if (projected)
    c.projection = read_size(config, "projection_dim");
  else
    config.ignore("projection_dim");
  for (const char* key : {"architectures", "model_type", "pad_token_id"}) config.ignore(key);
  return c;
}

ClipStates clip_states(Net& n, const std::string& path, const ClipText& c,
                       const std::vector<Value>& tokens, bool last) {
  const Expr first = n.shape(tokens[0])[0], texts = first * static_cast<int64_t>(tokens.size());
  const std::string embeddings = path + ".embeddings";
  const Value words =
      looked_up(n, embeddings + ".token_embedding", c, tokens, c.hidden, n.limits().dtype);
  Value x = n("add", embeddings + ".sum",
              {{"a", words}, {"b", embedded_positions(n, embeddings, c, texts)}});
  x = n.reshape(x, {texts, c.positions, c.hidden});
  const Value mask = causal_mask(n, path, c.positions);
  const int64_t width = c.hidden / c.heads;
  ClipStates states;
  for (int64_t i = 0; i < c.layers; ++i) {
    if (i + 1 == c.layers) states.before = x;
    if (i + 1 == c.layers && !last) return states;
    x = n("vit_layer", fmt::format("{}.encoder.layers.{}", path, i),
          {{"num_heads", c.heads},
           {"head_dim", width},
           {"scale", 1 / std::sqrt(static_cast<double>(width))},
           {"intermediate_size", c.mlp},
           {"approximate", c.approximate},
           {"eps", c.eps},
           {"x", x},
           {"mask", mask}});
    n.tap(fmt::format("{}.{}", path, i), {n.slice(x, 0, 0, first)});
  }
  states.last = x;
  return states;
}

Value clip_pooled(Net& n, const std::string& path, const ClipText& c,
                  const std::vector<Value>& tokens, Value states) {
  const Expr texts = n.shape(states)[0];
  // The end has the largest rank, and the first one of several counts.
  const Value ranks = computed(n, path + ".end_ranks", DType::f32, {c.vocabulary, 1}, [c] {
    std::vector<double> all(static_cast<size_t>(c.vocabulary));
    if (c.end == kOldEnd)
      std::iota(all.begin(), all.end(), 0.0);
    else
      all[static_cast<size_t>(c.end)] = 1;
    return all;
  });
  const Value rank = looked_up(n, path + ".end_rank", c, tokens, 1, DType::f32, ranks);
  const Outputs end =
      n("topk_rows", path + ".end", {{"top_k", 1}, {"x", n.reshape(rank, {texts, c.positions})}});
  const Value last = n("gather_rows", path + ".pooled",
                       {{"x", n.reshape(states, {texts * c.positions, c.hidden})},
                        {"rows", n.reshape(end["rows"], {texts})}});
  const Value normed = n("layer_norm", path + ".final_layer_norm", {{"eps", c.eps}, {"x", last}});
  if (c.projection == 0) return normed;
  // The projection is beside the text model, not in it.
  const std::string owner = path.substr(0, path.rfind('.'));
  return n("linear", owner + ".text_projection", {{"out_features", c.projection}, {"x", normed}});
}

Value repeated_row(Net& n, const std::string& path, Value row, const Expr& count) {
  const int64_t width = n.shape(row).back().value();
  const Value all = n.empty(n.dtype(row), {count, 1, 1, width});
  n("resize2d", path, {{"mode", "nearest"}, {"x", n.reshape(row, {1, 1, 1, width})}, {"out", all}});
  return n.reshape(all, {count, width});
}

}  // namespace fk::parts
