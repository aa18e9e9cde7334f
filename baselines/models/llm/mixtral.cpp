// SPDX-License-Identifier: Apache-2.0
// Mixtral: Llama's attention, and a mixture of experts in place of the MLP. The experts' matrices
// are stacked: w13 holds gate and up of every expert, w2 the way back. With expert parallelism
// every rank routes its part of the tokens, which go to the ranks of their experts and come back.
#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/parallel.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct MixtralConfig {
  DecoderConfig decoder;
  int64_t experts = 0, top_k = 0;
};

MixtralConfig read_mixtral(const Config& config) {
  MixtralConfig c;
  c.decoder = read_decoder(config);
  c.decoder.windows.assign(c.decoder.windows.size(), read_window(config));
  c.experts = read_count(config, "num_local_experts");
  c.top_k = read_top_k(config, c.experts);
  return c;
}

int64_t experts_per_rank(const MixtralConfig& config, const Parallel& parallel) {
  return (config.experts + parallel.ep - 1) / parallel.ep;
}

void add_experts(Args& args, Builder& b, const MixtralConfig& config, const Limits& limits,
                 int64_t layer) {
  const std::string moe = layer_path(layer) + ".block_sparse_moe.";
  const int64_t channels = config.decoder.hidden_size, hidden = config.decoder.intermediate_size;
  const DType dtype = limits.weights();
  const Parallel& parallel = limits.parallel;
  WeightSpec w13 =
      matrix(moe + "experts.w13.weight", dtype, {config.experts, 2 * hidden, channels}, {});
  WeightSpec w2 = matrix(moe + "experts.w2.weight", dtype, {config.experts, channels, hidden}, {});
  w13.stacked = w2.stacked = true;
  for (int64_t e = 0; e < config.experts; ++e) {
    const std::string expert = moe + "experts." + std::to_string(e);
    w13.parts.push_back({expert + ".w1.weight", expert + ".w3.weight"});
    w2.parts.push_back({expert + ".w2.weight"});
  }
  if (parallel.ep > 1) {
    const int64_t local = experts_per_rank(config, parallel);
    w13.cuts = w2.cuts = {{0, {{parallel.rank * local, local, config.experts}}}};
  } else if (parallel.tp > 1) {
    w13.cuts = {{1, {piece_of(hidden, parallel), piece_of(hidden, parallel, hidden)}}};
    w2.cuts = {{2, {piece_of(hidden, parallel)}}};
  }
  args.emplace_back("num_experts", config.experts);
  args.emplace_back("top_k", config.top_k);
  args.emplace_back("renormalize", true);
  args.emplace_back("gate",
                    b.weight(matrix(moe + "gate.weight", dtype, {config.experts, channels}, {})));
  args.emplace_back("w13", b.weight(std::move(w13)));
  args.emplace_back("w2", b.weight(std::move(w2)));
}

class Mixtral : public Model {
 public:
  explicit Mixtral(const Config& config) : config_(read_mixtral(config)) {}

  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }

  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    if (limits.parallel.ranks() > 1) return forward_part(b, phase, limits);
    const DecoderStep step = begin_step(b, phase, config_.decoder, limits);
    for (int64_t i = 0; i < config_.decoder.layers; ++i) {
      tap_hidden(b, step, i);
      Args args = layer_args(b, step, config_.decoder, limits, i);
      add_experts(args, b, config_, limits, i);
      b.call("moe_decoder_layer", layer_path(i), args);
    }
    end_step(b, step, config_.decoder, limits);
  }

  void drive(Session& session) const override { generate(session, {config_.decoder.eos}); }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    return decoder_axis_limit(phase, axis, limits);
  }
  int64_t vocab_size() const override { return config_.decoder.vocab_size; }
  int64_t max_positions() const override { return config_.decoder.max_position; }
  std::vector<Unread> unread() const override { return unread_head(config_.decoder); }
  std::string refusal(const Parallel& parallel) const override {
    return decoder_refusal(config_.decoder, config_.experts, parallel);
  }

 private:
  // What one of several ranks computes.
  void forward_part(Builder& b, const std::string& phase, const Limits& limits) const {
    const DecoderConfig& decoder = config_.decoder;
    ParallelStep p = begin_parallel(b, phase, decoder, limits);
    for (int64_t i = 0; i < decoder.layers; ++i) {
      Args args = layer_args(b, p.step, decoder, limits, i);
      add_experts(args, b, config_, limits, i);
      const Value x = parallel_attention(b, p, decoder, limits, i, args);
      const std::string path = layer_path(i) + ".block_sparse_moe";
      p.shares = limits.parallel.ep == 1;
      if (p.shares) {
        Args moe = args_of(b, "moe_block", args);
        moe.emplace_back("x", x);
        p.step.hidden = b.call("moe_block", path, moe);
      } else {
        p.step.hidden = spread_experts(b, path, phase, limits, args, x);
      }
    }
    end_parallel(b, p, decoder, limits);
  }

  // The mixture of x [T,C], equal on all ranks, by experts that are spread over them.
  Value spread_experts(Builder& b, const std::string& path, const std::string& phase,
                       const Limits& limits, const Args& args, Value x) const {
    const Parallel& parallel = limits.parallel;
    const int64_t channels = config_.decoder.hidden_size;
    const Value mine = tokens_of_rank(b, x, parallel);
    const Expr rows = b.shape(mine)[0];
    const Value logits = b.call("linear", path + ".gate",
                                {{"in_features", channels},
                                 {"out_features", config_.experts},
                                 {"weight", value_of(args, "gate")},
                                 {"x", mine},
                                 {"out", b.empty(DType::f32, {rows, config_.experts})}});
    const Outputs chosen = b.call("topk_softmax", path + ".topk",
                                  {{"num_experts", config_.experts},
                                   {"top_k", config_.top_k},
                                   {"renormalize", true},
                                   {"logits", logits}});
    const Value part = b.empty(b.dtype(x), {tokens_per_rank(b, x, parallel), channels});
    const int64_t most = axis_limit(phase, phase == "decode" ? "B" : "T", limits) / parallel.ep;
    b.call("fused_moe_ep", path + ".experts",
           {{"comm", parallel.ranks()},
            {"hidden_size", channels},
            {"intermediate_size", config_.decoder.intermediate_size},
            {"num_experts", config_.experts},
            {"top_k", config_.top_k},
            {"max_tokens_per_rank", most},
            {"w13", value_of(args, "w13")},
            {"w2", value_of(args, "w2")},
            {"x", mine},
            {"topk_weights", chosen["topk_weights"]},
            {"topk_ids", chosen["topk_ids"]},
            {"out", b.slice(part, 0, 0, rows)}});
    const Value all =
        b.call("all_gather", path + ".all_gather", {{"comm", parallel.ranks()}, {"x", part}});
    return b.slice(all, 0, 0, b.shape(x)[0]);
  }

  MixtralConfig config_;
};

std::unique_ptr<Model> make_mixtral(const Config& config) {
  return std::make_unique<Mixtral>(config);
}

FK_MODEL(mixtral, make_mixtral, {"MixtralForCausalLM"}, {"mixtral"});

}  // namespace
}  // namespace fk
