// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/latents.hpp"

#include <algorithm>

#include "baselines/models/parts/description.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

// The eps of the indexer's norm is the library's own.
constexpr double kIndexEps = 1e-6;

// Layers with an indexer: by a list, a pattern of letters, or every so many.
std::vector<bool> read_own_index(const Config& config, int64_t layers) {
  std::vector<bool> own;
  const auto full = [&](const char* key, const std::string& type, const char* a, const char* b) {
    if (type != a && type != b)
      config.fail_at(key, "`" + excerpt(type) + "` is not a kind of indexer",
                     did_you_mean(type, {a, b}));
    own.push_back(type == a);
  };
  if (config.has("indexer_types")) {
    for (const auto& type : config.texts("indexer_types"))
      full("indexer_types", type, "full", "shared");
  } else if (config.has("index_topk_pattern")) {
    for (const char letter : config.text("index_topk_pattern"))
      full("index_topk_pattern", std::string(1, letter), "F", "S");
  } else {
    const int64_t every = std::max<int64_t>(config.integer("index_topk_freq", 1), 1);
    const int64_t offset = config.integer("index_skip_topk_offset", 2);
    for (int64_t i = 0; i < layers; ++i)
      own.push_back(std::max<int64_t>(i - offset + 1, 0) % every == 0);
  }
  for (const char* key : {"index_topk_pattern", "index_topk_freq", "index_skip_topk_offset"})
    config.ignore(key);
  if (static_cast<int64_t>(own.size()) != layers)
    config.fail_at("indexer_types", "it lists " + std::to_string(own.size()) + " layers of " +
                                        std::to_string(layers));
  if (!own.front())
    config.fail_at("indexer_types", "the first layer has no earlier one with an indexer");
  return own;
}

void read_indexer(const Config& indexer, const Config& config, DecoderForm& form) {
  DecoderForm::Latent& l = form.latent;
  if (l.q_rank == 0) config.fail_at("q_lora_rank", "an indexer needs latents of queries");
  l.index_neighbours = word(indexer, "pairs", {"halves", "neighbours"}) == "neighbours";
  l.index_heads = read_count(config, "index_n_heads");
  l.index_dim = read_count(config, "index_head_dim");
  l.index_top_k = read_size(config, "index_topk");
  if (l.index_dim < std::max<int64_t>(l.rotary, 16))
    config.fail_at("index_head_dim", "it is below 16, or below the part of a head that turns");
  l.own_index.assign(static_cast<size_t>(form.base.layers), true);
  if (indexer.boolean("shared", false)) l.own_index = read_own_index(config, form.base.layers);
}

// A latent of queries, of keys and values, and a rotated key: parts of one product.
struct Latents {
  Value q, kv, k_pe;
};

Latents project_latents(Net& n, const DecoderForm::Latent& l, const std::string& at, Value x) {
  const auto weight = [&](const char* field) { return n.find("mla_self_attention", at, field); };
  const Value all = n("linear", at + ".fused_qkv_a_proj", {{"weight", weight("qkv_a")}, {"x", x}});
  const Latents parts{n.slice(all, 1, 0, l.q_rank), n.slice(all, 1, l.q_rank, l.kv_rank),
                      n.slice(all, 1, l.q_rank + l.kv_rank, l.rotary)};
  n("q_kv_rms_norm", at + ".kv_a_layernorm",
    {{"q_lora_rank", l.q_rank},
     {"q_weight", weight("q_a_norm")},
     {"kv_weight", weight("kv_a_norm")},
     {"eps", DecoderForm::Latent::eps},
     {"q", parts.q},
     {"kv", parts.kv}});
  return parts;
}

// mla_self_attention in parts: between them the indexer chooses positions.
Value sparse_attention(Net& n, const DecoderForm& f, const std::string& at, int64_t layer, Value x,
                       Value cos_sin, Value& chosen) {
  const DecoderForm::Latent& l = f.latent;
  const auto weight = [&](const char* field) { return n.find("mla_self_attention", at, field); };
  const Latents latents = project_latents(n, l, at, x);
  if (l.own_index[static_cast<size_t>(layer)])
    chosen = n("sparse_indexer", at + ".indexer",
               {{"index_n_heads", l.index_heads},
                {"index_head_dim", l.index_dim},
                {"index_topk", l.index_top_k},
                {"interleaved", l.index_neighbours},
                {"eps", kIndexEps},
                {"cos_sin_cache", cos_sin},
                {"x", x},
                {"q_c", latents.q}})["ids"];
  const Expr tokens = n.shape(x)[0];
  const int64_t heads = f.base.heads / n.parallel().tp;
  const Value q =
      n.reshape(n("linear", at + ".q_b_proj", {{"weight", weight("q_b")}, {"x", latents.q}}),
                {tokens, heads, l.nope + l.rotary});
  const Value q_pe = n.slice(q, 2, l.nope, l.rotary);
  n("rotary_embedding", at + ".rotary_emb",
    {{"interleaved", f.interleaved},
     {"cos_sin_cache", cos_sin},
     {"q", q_pe},
     {"k", n.reshape(latents.k_pe, {tokens, 1, l.rotary})}});
  const Value cache = n.state(at + ".kv_cache", n.limits().cache_dtype,
                              {n.axis("P"), n.limits().page_size, l.kv_rank + l.rotary});
  n("mla_cache_append", at + ".kv_cache",
    {{"kv_c", latents.kv}, {"k_pe", latents.k_pe}, {"kv_cache", cache}});
  const Value q_latent = n("batched_linear", at + ".w_uk",
                           {{"weight", weight("w_uk")}, {"x", n.slice(q, 2, 0, l.nope)}});
  const Value mixed =
      n("sparse_mla_attention", at + ".mla_attn",
        {{"q_latent", q_latent}, {"q_pe", q_pe}, {"kv_cache", cache}, {"topk_ids", chosen}});
  const Value v = n("batched_linear", at + ".w_uv", {{"weight", weight("w_uv")}, {"x", mixed}});
  const Value out = n("linear", at + ".o_proj",
                      {{"weight", weight("o")}, {"x", n.reshape(v, {tokens, heads * l.values})}});
  if (n.parallel().tp == 1) return out;
  return n("all_reduce", at + ".o_proj.all_reduce", {{"comm", n.parallel().ranks()}, {"x", out}});
}

}  // namespace

void read_latents(const Config& description, const Config& config, DecoderForm& form) {
  DecoderForm::Latent& l = form.latent;
  l.q_rank = config.has("q_lora_rank") ? read_size(config, "q_lora_rank") : 0;
  l.kv_rank = read_size(config, "kv_lora_rank");
  l.nope = read_count(config, "qk_nope_head_dim");
  l.rotary = form.base.head_dim;
  l.values = config.has("v_head_dim") ? read_count(config, "v_head_dim")
                                      : form.base.hidden_size / form.base.heads;
  need_number(config, "qk_head_dim", static_cast<double>(l.nope + l.rotary));
  if (description.has("indexer")) read_indexer(description.child("indexer"), config, form);
}

Value latent_attention(Net& n, const DecoderForm& f, const std::string& at, int64_t layer, Value x,
                       Value cos_sin, Value& chosen) {
  const DecoderForm::Latent& l = f.latent;
  n.common({{"q_lora_rank", l.q_rank},
            {"kv_lora_rank", l.kv_rank},
            {"qk_nope_head_dim", l.nope},
            {"qk_rope_head_dim", l.rotary},
            {"v_head_dim", l.values}});
  if (l.index_heads > 0) return sparse_attention(n, f, at, layer, x, cos_sin, chosen);
  std::vector<std::string> with(l.q_rank > 0 ? 1 : 0, "q_a_norm");
  if (f.fp8.on) with.emplace_back("fp8");
  return n("mla_self_attention", at,
           {{"interleaved", f.interleaved},
            {"eps", DecoderForm::Latent::eps},
            {"x", x},
            {"cos_sin_cache", cos_sin}},
           with);
}

}  // namespace fk::parts
