// SPDX-License-Identifier: Apache-2.0
// Llama with an EAGLE-3 draft: one layer over three of the target's hidden states. The
// configuration is the target's with the draft's under `draft`; in the checkpoint the draft's names
// (those of SafeAILab's and vLLM's) stand behind the prefix `draft.`.
#include <algorithm>
#include <cmath>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

using namespace parts;

constexpr int64_t kHiddenStates = 3;  // low, middle and high

struct EagleConfig {
  DecoderConfig target, draft;
  int64_t draft_vocab = 0;
  std::vector<int64_t> aux_layers;  // whose inputs the draft reads, ascending
  SpeculateOptions options;
};

SpeculateOptions read_options(const Config& config) {
  SpeculateOptions o;
  if (!config.has("speculation")) return o;
  const Config c = config.child("speculation");
  o.depth = bounded(c, "depth", c.integer("depth", o.depth), 64);
  o.top_k = bounded(c, "top_k", c.integer("top_k", o.top_k), 256);
  o.tokens = bounded(c, "tokens", c.integer("tokens", o.tokens), 1024);
  if (o.tokens < 2) c.fail_at("tokens", "a tree has a root and at least one guess");
  return o;
}

EagleConfig read_llama_eagle3(const Config& config) {
  EagleConfig c;
  c.target = read_decoder(config);
  const Config draft = with_defaults("llama", config.child("draft"));
  c.draft = read_decoder(draft);
  c.options = read_options(config);
  c.options.eos = c.target.eos;
  c.draft_vocab =
      draft.has("draft_vocab_size") ? read_size(draft, "draft_vocab_size") : c.target.vocab_size;
  if (c.draft_vocab > c.target.vocab_size)
    draft.fail_at("draft_vocab_size", "it is larger than the target's vocabulary");
  if (c.options.top_k > c.draft_vocab)
    draft.fail_at("draft_vocab_size", "it is smaller than the tree's top_k");
  if (c.draft.hidden_size != c.target.hidden_size)
    draft.fail_at("hidden_size", "it is not the target's, whose embeddings the draft uses");
  if (c.draft.layers != 1) draft.fail_at("num_hidden_layers", "a draft has one layer");
  const int64_t layers = c.target.layers;
  c.aux_layers = draft.integers("eagle_aux_hidden_state_layer_ids", {2, layers / 2, layers - 3});
  std::sort(c.aux_layers.begin(), c.aux_layers.end());
  if (static_cast<int64_t>(c.aux_layers.size()) != kHiddenStates || c.aux_layers.front() < 0 ||
      c.aux_layers.back() >= layers)
    draft.fail(
        "eagle_aux_hidden_state_layer_ids are three of the target's layers; without them "
        "they are 2, n/2 and n-3");
  return c;
}

int64_t pages_of_request(const EagleConfig& c, const Limits& limits) {
  const int64_t slots = limits.max_context + c.options.slots();
  return (slots + limits.page_size - 1) / limits.page_size;
}

class LlamaEagle3 : public Model {
 public:
  explicit LlamaEagle3(const Config& config) : config_(read_llama_eagle3(config)) {}

  std::vector<std::string> phases() const override {
    return {"prefill", "verify", "accept", "extend", "draft"};
  }

  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    if (phase == "accept") return accept(b, limits);
    if (phase == "prefill" || phase == "verify") return target(b, phase, limits);
    draft(b, phase == "draft", limits);
  }

  void drive(Session& session) const override { speculate(session, config_.options); }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    const SpeculateOptions& o = config_.options;
    const int64_t batch = limits.max_batch, tree = batch * o.tokens;
    const int64_t width = pages_of_request(config_, limits);
    if (axis == "B") return batch;
    if (axis == "W") return width;
    if (axis == "P") return limits.pages > 0 ? limits.pages : batch * width;
    if (axis == "N") return batch * (1 + o.expansions());
    if (axis == "M") return batch * o.depth;
    if (axis == "A") return std::max(limits.chunk_tokens, tree);
    if (axis == "TW") return phase == "draft" ? std::max<int64_t>(1, o.expansions()) : o.tokens;
    if (axis == "Q" && phase == "extend") return batch;
    if (axis == "T" && phase == "draft") return batch * o.top_k;
    if (axis == "T" && phase == "extend")
      return std::max(limits.chunk_tokens, batch * (o.depth + 1));
    if (phase == "verify" && (axis == "T" || axis == "Q")) return tree;
    return decoder_axis_limit(phase, axis, limits);
  }
  int64_t vocab_size() const override { return config_.target.vocab_size; }
  int64_t max_positions() const override { return config_.target.max_position; }
  std::vector<Unread> unread() const override {
    std::vector<Unread> all = unread_head(config_.target);
    all.push_back({"draft.t2d", "the inverse of draft.d2t"});
    return all;
  }

 private:
  void target(Builder& b, const std::string& phase, const Limits& limits) const {
    const DecoderConfig& c = config_.target;
    const DecoderStep step = begin_step(b, phase, c, limits);
    Value tree_lens, tree_mask;
    if (phase == "verify") {
      tree_lens = b.input("tree_lens", DType::i32, {step.requests});
      tree_mask = b.input("tree_mask", DType::i32, {step.tokens, b.axis("TW")});
    }
    std::vector<Value> kept;
    for (int64_t i = 0; i < c.layers; ++i) {
      tap_hidden(b, step, i);
      for (const int64_t layer : config_.aux_layers)
        if (layer == i) kept.push_back(sum_of(b, step, i));
      Args args = layer_args(b, step, c, limits, i);
      add_gated_mlp(args, b, c, limits, i);
      args.emplace_back("tree_lens", tree_lens);
      args.emplace_back("tree_mask", tree_mask);
      b.call("decoder_layer", layer_path(i), args);
    }
    b.call("concat", "draft.aux",
           {{"num_parts", kHiddenStates},
            {"size", c.hidden_size},
            {"x", kept},
            {"out", aux_state(b, limits, step.tokens)}});
    end_step(b, step, c, limits);
  }

  Value sum_of(Builder& b, const DecoderStep& step, int64_t layer) const {
    return b.call("add", "draft.aux." + std::to_string(layer),
                  {{"size", config_.target.hidden_size}, {"a", step.hidden}, {"b", step.residual}});
  }
  // What the target leaves for the draft: the hidden states of the tokens of its last step.
  Value aux_state(Builder& b, const Limits& limits, const Expr& rows) const {
    return b.state("draft.aux", limits.dtype, {rows, kHiddenStates * config_.target.hidden_size});
  }

  void accept(Builder& b, const Limits& limits) const {
    const DecoderConfig& c = config_.target;
    const Expr count = b.axis("M");
    const Value from = b.input("from_slots", DType::i64, {count});
    const Value to = b.input("to_slots", DType::i64, {count});
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string path = layer_path(i) + ".self_attn.";
      const auto cache = [&](const char* name) {
        return b.state(path + name, limits.cache_dtype,
                       {b.axis("P"), limits.page_size, c.kv_heads, c.head_dim});
      };
      b.call("kv_cache_move", path + "kv_cache",
             {{"num_kv_heads", c.kv_heads},
              {"head_dim", c.head_dim},
              {"page_size", limits.page_size},
              {"k_cache", cache("k_cache")},
              {"v_cache", cache("v_cache")},
              {"from_slots", from},
              {"to_slots", to}});
    }
  }

  // Over positions that the target has computed, or over a level of the trees.
  void draft(Builder& b, bool tree, const Limits& limits) const {
    const int64_t channels = config_.draft.hidden_size;
    const Expr tokens = b.axis("T");
    const Value states = b.state("draft.hidden", limits.dtype, {b.axis("N"), channels});
    const auto gather = [&](const char* path, int64_t size, Value x, const char* rows,
                            const Expr& count) -> Value {
      return b.call("gather_rows", path,
                    {{"size", size}, {"x", x}, {"rows", b.input(rows, DType::i32, {count})}});
    };
    Value hidden;
    if (tree) {
      hidden = gather("draft.parents", channels, states, "hidden_rows", tokens);
    } else {
      const int64_t wide = kHiddenStates * channels;
      const Value aux =
          gather("draft.aux", wide, aux_state(b, limits, b.axis("A")), "aux_rows", tokens);
      hidden = b.call(
          "linear", "draft.fc",
          {{"in_features", wide},
           {"out_features", channels},
           {"weight", b.weight(matrix("draft.fc.weight", limits.weights(), {channels, wide}, {}))},
           {"x", aux}});
    }
    const Value out = layer(b, tree, limits, hidden);
    Value x =
        b.call("rms_norm", "draft.norm",
               {{"hidden_size", channels},
                {"eps", config_.draft.eps},
                {"weight", b.weight(norm_weight("draft.norm.weight", limits.weights(), channels))},
                {"x", out},
                {"residual", hidden}});
    if (!tree) {
      b.tap("draft_hidden", {hidden});
      const Value rows = b.input("rows", DType::i32, {b.axis("Q")});
      const auto last = [&](const char* path, Value from) -> Value {
        return b.call("gather_rows", path, {{"size", channels}, {"x", from}, {"rows", rows}});
      };
      x = last("draft.rows", x);
      hidden = last("draft.last", hidden);
    }
    const Expr count = b.shape(hidden)[0];
    b.call("scatter_rows", "draft.keep",
           {{"size", channels},
            {"x", hidden},
            {"rows", b.input("state_rows", DType::i32, {count})},
            {"out", states}});
    guess(b, limits, x, count);
  }

  Value layer(Builder& b, bool tree, const Limits& limits, Value hidden) const {
    const DecoderConfig& c = config_.draft;
    const Expr tokens = b.axis("T"), requests = b.axis("B"), width = b.axis("W");
    const int64_t channels = c.hidden_size;
    const std::string path = "draft.midlayer", attention = path + ".self_attn.";
    const std::string mlp = path + ".mlp.";
    const auto weight = [&](const std::string& name, int64_t rows, int64_t columns,
                            std::vector<std::string> parts = {}) {
      return b.weight(matrix(name, limits.weights(), {rows, columns}, std::move(parts)));
    };
    const auto norm = [&](const char* name) {
      return b.weight(
          norm_weight(path + name + std::string(".weight"), limits.weights(), channels));
    };
    const auto cache = [&](const char* name) {
      return b.state(attention + name, limits.cache_dtype,
                     {b.axis("P"), limits.page_size, c.kv_heads, c.head_dim});
    };
    Args args{{"hidden_size", channels},
              {"intermediate_size", c.intermediate_size},
              {"num_heads", c.heads},
              {"num_kv_heads", c.kv_heads},
              {"head_dim", c.head_dim},
              {"page_size", limits.page_size},
              {"rotary_dim", c.rope.rotary_dim},
              {"max_position", positions(limits)},
              {"scale", 1 / std::sqrt(static_cast<double>(c.head_dim))},
              {"eps", c.eps},
              {"input_norm", norm(".input_layernorm")},
              {"hidden_norm", norm(".hidden_norm")},
              {"qkv", weight(attention + "qkv_proj.weight", (c.heads + 2 * c.kv_heads) * c.head_dim,
                             2 * channels,
                             {attention + "q_proj.weight", attention + "k_proj.weight",
                              attention + "v_proj.weight"})},
              {"o", weight(attention + "o_proj.weight", channels, c.heads * c.head_dim)},
              {"cos_sin_cache", b.weight(angles(limits))},
              {"post_norm", norm(".post_attention_layernorm")},
              {"gate_up", weight(mlp + "gate_up_proj.weight", 2 * c.intermediate_size, channels,
                                 {mlp + "gate_proj.weight", mlp + "up_proj.weight"})},
              {"down", weight(mlp + "down_proj.weight", channels, c.intermediate_size)},
              {"positions", b.input("positions", DType::i64, {tokens})},
              {"embeds", embeds(b, limits, tokens)},
              {"hidden", hidden},
              {"k_cache", cache("k_cache")},
              {"v_cache", cache("v_cache")},
              {"block_tables", b.input("block_tables", DType::i32, {requests, width})},
              {"cu_seqlens", b.input("cu_seqlens", DType::i32, {requests + 1})},
              {"seq_lens", b.input("seq_lens", DType::i32, {requests})},
              {"slot_mapping", b.input("slot_mapping", DType::i64, {tokens})},
              {"max_query_len", tokens},
              {"max_seq_len", width * limits.page_size}};
    if (tree) {
      args.emplace_back("tree_lens", b.input("tree_lens", DType::i32, {requests}));
      args.emplace_back("tree_mask", b.input("tree_mask", DType::i32, {tokens, b.axis("TW")}));
    }
    return b.call("eagle3_decoder_layer", path, args);
  }

  // The target's own table.
  Value embeds(Builder& b, const Limits& limits, const Expr& tokens) const {
    return b.call("embedding", "draft.embed_tokens",
                  {{"num_embeddings", config_.target.vocab_size},
                   {"embedding_dim", config_.target.hidden_size},
                   {"table", b.weight(embedding_table(config_.target, limits.weights()))},
                   {"ids", b.input("ids", DType::i64, {tokens})},
                   {"out", b.empty(limits.dtype, {tokens, config_.target.hidden_size})}});
  }

  int64_t positions(const Limits& limits) const {
    return std::min(config_.target.max_position, limits.max_context);
  }
  WeightSpec angles(const Limits& limits) const {
    WeightSpec spec;
    spec.name = "draft.rotary_emb.cos_sin_cache";
    spec.shape = {positions(limits), config_.draft.rope.rotary_dim};
    spec.compute = [rope = config_.draft.rope, count = positions(limits)] {
      return rope_table(rope, count);
    };
    return spec;
  }

  // The most probable next tokens, numbered as the target numbers them.
  void guess(Builder& b, const Limits& limits, Value x, const Expr& count) const {
    const int64_t channels = config_.draft.hidden_size, vocab = config_.draft_vocab;
    const Value logits =
        b.call("linear", "draft.lm_head",
               {{"in_features", channels},
                {"out_features", vocab},
                {"weight",
                 b.weight(matrix("draft.lm_head.weight", limits.weights(), {vocab, channels}, {}))},
                {"x", x},
                {"out", b.empty(DType::f32, {count, vocab})}});
    WeightSpec offsets;
    offsets.name = "draft.d2t";
    offsets.dtype = DType::i64;
    offsets.shape = {vocab};
    offsets.in_checkpoint = true;
    offsets.compute = [vocab, all = config_.target.vocab_size] {
      std::vector<double> values;
      for (int64_t i = 0; i < vocab; ++i)
        values.push_back(static_cast<double>(i * (all / vocab) - i));
      return values;
    };
    const Outputs best = b.call("topk_logprobs", "draft.top_k",
                                {{"vocab_size", vocab},
                                 {"top_k", config_.options.top_k},
                                 {"offsets", b.weight(std::move(offsets))},
                                 {"logits", logits}});
    b.tap("draft_logprobs", {best["logprobs"]});
    b.output("tokens", best["tokens"]);
    b.output("logprobs", best["logprobs"]);
  }

  EagleConfig config_;
};

std::unique_ptr<Model> make_llama_eagle3(const Config& config) {
  return std::make_unique<LlamaEagle3>(config);
}

FK_MODEL(llama_eagle3, make_llama_eagle3, {"LlamaEagle3ForCausalLM"}, {"llama_eagle3"});

}  // namespace
}  // namespace fk
