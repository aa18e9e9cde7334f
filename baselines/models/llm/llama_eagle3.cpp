// SPDX-License-Identifier: Apache-2.0
// Llama with an EAGLE-3 draft: one layer over three of the target's hidden states. The
// configuration is the target's, with the draft's under `draft`. In the checkpoint, the draft's
// tensors have the prefix `draft.` before the names of SafeAILab and vLLM.
#include <algorithm>
#include <cmath>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/engines/speculate/engine.hpp"

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
  c.draft.names = {"draft.embed_tokens", "draft.midlayer", "draft.norm", "draft.lm_head",
                   "draft.rotary_emb"};
  // Target and draft have the positions of the target.
  c.draft.max_position = c.target.max_position;
  c.options = read_options(config);
  c.options.vocabulary = c.target.vocab_size;
  c.options.positions = c.target.max_position;
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

class LlamaEagle3 : public Model {
 public:
  explicit LlamaEagle3(const Config& config) : config_(read_llama_eagle3(config)) {}

  std::unique_ptr<Engine> engine() const override { return speculate_engine(config_.options); }

  void forward(Net& n, const std::string& phase) const override {
    if (phase == "accept") return accept(n);
    if (phase == "prefill" || phase == "verify") return target(n, phase);
    draft(n, phase == "draft");
  }

  std::vector<Unread> unread() const override {
    std::vector<Unread> all = unread_head(config_.target);
    all.push_back({"draft.t2d", "the inverse of draft.d2t"});
    return all;
  }

 private:
  void target(Net& n, const std::string& phase) const {
    const DecoderConfig& c = config_.target;
    const DecoderStep step = begin_step(n, phase, c);
    if (phase == "verify") common_tree(n, step.tokens, step.requests);
    std::vector<Value> kept;
    for (int64_t i = 0; i < c.layers; ++i) {
      for (const int64_t layer : config_.aux_layers)
        if (layer == i) kept.push_back(sum_of(n, step, i));
      record_layer(n, "decoder_layer", step, c, i);
    }
    n("concat", "draft.aux",
      {{"num_parts", kHiddenStates},
       {"size", c.hidden_size},
       {"x", kept},
       {"out", aux_state(n, step.tokens)}});
    end_step(n, step, c);
  }

  static void common_tree(Net& n, const Expr& tokens, const Expr& requests) {
    n.common({{"tree_lens", n.input("tree_lens", DType::i32, {requests})},
              {"tree_mask", n.input("tree_mask", DType::i32, {tokens, n.axis("TW")})}});
  }
  static Value sum_of(Net& n, const DecoderStep& step, int64_t layer) {
    return n("add", "draft.aux." + std::to_string(layer),
             {{"a", step.hidden}, {"b", step.residual}});
  }
  // The target writes the hidden states of its last step into this state, for the draft.
  Value aux_state(Net& n, const Expr& rows) const {
    return n.state("draft.aux", n.limits().dtype,
                   {rows, kHiddenStates * config_.target.hidden_size});
  }

  void accept(Net& n) const {
    const DecoderConfig& c = config_.target;
    const Expr count = n.axis("M");
    n.common({{"from_slots", n.input("from_slots", DType::i64, {count})},
              {"to_slots", n.input("to_slots", DType::i64, {count})},
              {"num_kv_heads", c.kv_heads},
              {"head_dim", c.head_dim},
              {"page_size", n.limits().page_size}});
    for (int64_t i = 0; i < c.layers; ++i) n("kv_cache_move", layer_path(c, i) + ".self_attn", {});
  }

  // Records the draft over positions which the target has computed, or over a level of the trees.
  void draft(Net& n, bool tree) const {
    const DecoderConfig& c = config_.draft;
    const Expr tokens = n.axis("T");
    const auto row_numbers = [&](const char* name, const Expr& count) {
      return n.input(name, DType::i32, {count});
    };
    const Value states = n.state("draft.hidden", n.limits().dtype, {n.axis("N"), c.hidden_size});
    Value hidden;
    if (tree) {
      hidden = n("gather_rows", "draft.parents",
                 {{"x", states}, {"rows", row_numbers("hidden_rows", tokens)}});
    } else {
      const Value aux =
          n("gather_rows", "draft.aux",
            {{"x", aux_state(n, n.axis("A"))}, {"rows", row_numbers("aux_rows", tokens)}});
      hidden = n("linear", "draft.fc", {{"out_features", c.hidden_size}, {"x", aux}});
    }
    const Value out = layer(n, tree, hidden);
    Value x = n("rms_norm", c.names.norm, {{"x", out}, {"residual", hidden}});
    if (!tree) {
      n.tap("draft_hidden", {hidden});
      const Value rows = row_numbers("rows", n.axis("Q"));
      x = n("gather_rows", "draft.rows", {{"x", x}, {"rows", rows}});
      hidden = n("gather_rows", "draft.last", {{"x", hidden}, {"rows", rows}});
    }
    n("scatter_rows", "draft.keep",
      {{"x", hidden}, {"rows", row_numbers("state_rows", n.shape(hidden)[0])}, {"out", states}});
    guess(n, x);
  }

  // The draft's embeddings are the target's table.
  Value layer(Net& n, bool tree, Value hidden) const {
    const DecoderConfig& c = config_.draft;
    DecoderStep step;
    step.tokens = n.axis("T");
    const Expr requests = n.axis("B"), width = n.axis("W");
    begin_attention(n, c);
    look_up(n, step, config_.target);
    if (tree) common_tree(n, step.tokens, requests);
    return n("eagle3_decoder_layer", c.names.layers,
             {{"embeds", step.hidden},
              {"hidden", hidden},
              {"positions", n.input("positions", DType::i64, {step.tokens})},
              {"page_size", n.limits().page_size},
              {"block_tables", n.input("block_tables", DType::i32, {requests, width})},
              {"cu_seqlens", n.input("cu_seqlens", DType::i32, {requests + 1})},
              {"seq_lens", n.input("seq_lens", DType::i32, {requests})},
              {"slot_mapping", n.input("slot_mapping", DType::i64, {step.tokens})},
              {"max_query_len", step.tokens},
              {"max_seq_len", width * n.limits().page_size}});
  }

  // The most probable next tokens, numbered as the target numbers them.
  void guess(Net& n, Value x) const {
    const int64_t vocab = config_.draft_vocab;
    const Value logits = n.columns(config_.draft.names.head, x, vocab, DType::f32);
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
    const Outputs best = n("topk_logprobs", "draft.top_k",
                           {{"top_k", config_.options.top_k},
                            {"offsets", n.weight(std::move(offsets))},
                            {"logits", logits}});
    n.tap("draft_logprobs", {best["logprobs"]});
    n.output("tokens", best["tokens"]);
    n.output("logprobs", best["logprobs"]);
  }

  EagleConfig config_;
};

std::unique_ptr<Model> make_llama_eagle3(const Config& config) {
  return std::make_unique<LlamaEagle3>(config);
}

FK_MODEL(llama_eagle3, make_llama_eagle3, {"LlamaEagle3ForCausalLM"}, {"llama_eagle3"});

}  // namespace
}  // namespace fk
