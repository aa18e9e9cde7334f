// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/parallel.hpp"

#include "core/base/error.hpp"

namespace fk::parts {

namespace {

Value norm(Builder& b, const ParallelStep& p, const DecoderConfig& config, const Limits& limits,
           const std::string& path, Value weight, Value x) {
  Args args{{"hidden_size", config.hidden_size},
            {"eps", config.eps},
            {"weight", weight},
            {"x", x},
            {"residual", p.step.residual}};
  if (p.shares) args.emplace_back("comm", limits.parallel.ranks());
  return b.call(p.shares ? "all_reduce_add_rms_norm" : "rms_norm", path, args);
}

// A block as its parts, the last of which, the product that gives its output, is one with the sum.
Value call_and_sum(Builder& b, const std::string& op, const std::string& path, const Args& args,
                   int64_t ranks) {
  const Value out = b.call(op, path, args);
  const Call block = b.take_last();
  find_expansion(op)(b, b.region(block));
  const Call product = b.take_last();
  const Region r = b.region(product);
  if (product.contract->op != "linear" || r.has("bias") || r["out"] != out)
    fail(Graph::label(block), "it does not end with a product without a bias",
         "record it with its shares, which the next norm adds up");
  return b.call("linear_all_reduce", product.path,
                {{"comm", ranks},
                 {"in_features", r.integer("in_features")},
                 {"out_features", r.integer("out_features")},
                 {"weight", r["weight"]},
                 {"x", r["x"]},
                 {"out", out}});
}

}  // namespace

Value value_of(const Args& args, const std::string& name) {
  for (const auto& a : args)
    if (a.name == name) return std::get<Value>(a.value);
  return {};
}

Args args_of(const Builder& b, const std::string& op, const Args& all) {
  Args out;
  for (const auto& a : all)
    if (b.catalog().at(op).find(a.name)) out.push_back(a);
  return out;
}

ParallelStep begin_parallel(Builder& b, const std::string& phase, const DecoderConfig& config,
                            const Limits& limits) {
  const Parallel& parallel = limits.parallel;
  if (parallel.tp == 1) return {begin_step(b, phase, config, limits), false};
  ParallelStep p{begin_inputs(b, phase, config, limits), true};
  DecoderStep& s = p.step;
  s.hidden = b.call("vocab_parallel_embedding", "model.embed_tokens",
                    {{"comm", parallel.ranks()},
                     {"num_embeddings_per_partition", DecoderShare(config, parallel).vocab_size},
                     {"embedding_dim", config.hidden_size},
                     {"table", b.weight(embedding_table(config, limits.weights(), parallel))},
                     {"ids", b.input("ids", DType::i64, {s.tokens})},
                     {"out", b.empty(limits.dtype, {s.tokens, config.hidden_size})}});
  return p;
}

Value parallel_block(Builder& b, ParallelStep& p, const Limits& limits, const std::string& op,
                     const std::string& path, const Args& args) {
  const Parallel& parallel = limits.parallel;
  // A step of decode has few rows: there the sum with the norm behind it is the quickest.
  const bool overlap = parallel.overlap && !p.step.decode;
  p.shares = parallel.tp > 1 && !overlap;
  if (parallel.tp == 1 || !overlap) return b.call(op, path, args);
  return call_and_sum(b, op, path, args, parallel.ranks());
}

Value parallel_attention(Builder& b, ParallelStep& p, const DecoderConfig& config,
                         const Limits& limits, int64_t layer, const Args& args) {
  const std::string path = layer_path(layer);
  const Value x = norm(b, p, config, limits, path + ".input_layernorm",
                       value_of(args, "input_norm"), p.step.hidden);
  // After the norm the residual is the sum on every rank.
  b.tap("hidden." + std::to_string(layer), {p.step.residual});
  Args attention = args_of(b, "self_attention", args);
  attention.emplace_back("x", x);
  const Value attended =
      parallel_block(b, p, limits, "self_attention", path + ".self_attn", attention);
  return norm(b, p, config, limits, path + ".post_attention_layernorm", value_of(args, "post_norm"),
              attended);
}

void end_parallel(Builder& b, const ParallelStep& p, const DecoderConfig& config,
                  const Limits& limits) {
  const int64_t channels = config.hidden_size;
  const Value weight = b.weight(norm_weight("model.norm.weight", limits.weights(), channels));
  const Value x = norm(b, p, config, limits, "model.norm", weight, p.step.hidden);
  b.tap("hidden." + std::to_string(config.layers), {x});
  const Parallel& parallel = limits.parallel;
  WeightSpec head =
      config.tied ? embedding_table(config, limits.weights(), parallel)
                  : matrix("lm_head.weight", limits.weights(), {config.vocab_size, channels}, {});
  if (parallel.tp == 1) return sample_rows(b, p.step, x, head);
  head.cuts = {{0, {piece_of(config.vocab_size, parallel)}}};
  const int64_t here = DecoderShare(config, parallel).vocab_size;
  const Value part = b.call("linear", "lm_head",
                            {{"in_features", channels},
                             {"out_features", here},
                             {"weight", b.weight(head)},
                             {"x", wanted_rows(b, p.step, x)},
                             {"out", b.empty(DType::f32, {p.step.rows_count, here})}});
  sample_logits(
      b, p.step,
      b.call("all_gather_columns", "lm_head.all_gather",
             {{"comm", parallel.ranks()}, {"out_features", config.vocab_size}, {"x", part}}));
}

Expr tokens_per_rank(Builder& b, Value x, const Parallel& parallel) {
  return Expr::cdiv(b.shape(x)[0], parallel.ep);
}

Value tokens_of_rank(Builder& b, Value x, const Parallel& parallel) {
  const Expr all = b.shape(x)[0], part = tokens_per_rank(b, x, parallel);
  const Expr first = Expr::min(part * parallel.rank, all);
  return b.slice(x, 0, first, Expr::min(part, all - first));
}

}  // namespace fk::parts
