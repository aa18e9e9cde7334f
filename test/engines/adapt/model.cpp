// SPDX-License-Identifier: Apache-2.0
// A model of the adapt engine whose numbers a test can follow. It has learned one number, which is
// 100 at the beginning of a text. A token's answer is this number plus the mean of the token and
// the one before it in the text. A step adds the gradients of the losses of its chunk, whose sum
// is 1.
#include "core/exec/model.hpp"
#include "core/engines/adapt/engine.hpp"

namespace toy {

namespace {

using namespace fk;

class ToyReader final : public Model {
 public:
  explicit ToyReader(const Config& config) : chunk_(config.integer("chunk")) {}

  std::unique_ptr<Engine> engine() const override {
    return adapt_engine({.vocabulary = kTokens, .positions = 0, .chunk = chunk_, .window = 1});
  }

  void forward(Net& n, const std::string& phase) const override {
    const Value learned = n.state("learned", DType::f32, {1, 1});
    if (phase == "begin") {
      n("scaled_add", "begin",
        {{"scale", 100.0},
         {"y", table(n, "one", {1, 1}, [](int64_t) { return 1.0; })},
         {"out", learned}});
      return;
    }
    const Expr rows = n.axis("T"), past = n.axis("A");
    // Row 0 is the token before the chunk. Without one, zeros stand there.
    const Value memory = n.state("memory", DType::f32, {1 + chunk_, 1});
    n("embedding", "tokens",
      {{"table",
        table(n, "values", {kTokens, 1}, [](int64_t i) { return static_cast<double>(i); })},
       {"ids", n.input("ids", DType::i64, {rows})},
       {"out", n.slice(memory, 0, 1, rows)}});
    const Value own = n.slice(memory, 0, 1, rows);
    const Value starts = n.input("cu_seqlens_k", DType::i32, {2});
    n.input("cu_seqlens_q", DType::i32, {2});
    n.input("positions", DType::i64, {rows});
    n.input("targets", DType::i64, {rows});
    // The mean of the keys which a token sees: itself, and one before where there is one.
    const Value keys = n.slice(memory, 0, 1 - past, past + rows);
    const auto heads = [&](Value v) { return n.reshape(v, {n.shape(v)[0], 1, 1}); };
    const Value seen = n("attention_varlen", "seen",
                         {{"scale", 0.0},
                          {"causal", true},
                          {"window", 2},
                          {"q", heads(own)},
                          {"k", heads(keys)},
                          {"v", heads(keys)},
                          {"cu_seqlens_q", n.input("cu_seqlens_q", DType::i32, {2})},
                          {"cu_seqlens_k", starts},
                          {"max_query_len", rows},
                          {"max_key_len", past + rows}});
    const Value spread =
        n("matmul_nt", "spread",
          {{"x", n.reshape(table(n, "one_each", {chunk_, 1}, [](int64_t) { return 1.0; }),
                           {1, chunk_, 1})},
           {"y", n.reshape(learned, {1, 1, 1})}});
    const Value mine = n.slice(n.reshape(spread, {chunk_, 1}), 0, 0, rows);
    n.output(
        "logprobs",
        n.reshape(n("add", "answer", {{"a", n.reshape(seen, {rows, 1})}, {"b", mine}}), {rows}));
    if (phase == "score") return;
    const Value grads = n.input("loss_grad", DType::f32, {rows});
    const Value total =
        n("linear_weight_grad", "total",
          {{"x", n.reshape(grads, {rows, 1})},
           {"grad",
            n.slice(table(n, "one_each", {chunk_, 1}, [](int64_t) { return 1.0; }), 0, 0, rows)}});
    n("clipped_sgd_step", "step",
      {{"num_tensors", 1},
       {"sizes", std::vector<int64_t>{1}},
       {"lr", -1.0},
       {"max_norm", 10.0},
       {"weight", std::vector<Value>{n.reshape(learned, {1})}},
       {"grad", std::vector<Value>{n.reshape(total, {1})}}});
    n("prepend_rows", "kept",
      {{"prefix_rows", 0},
       {"x", n.reshape(n.slice(memory, 0, rows, 1), {1, 1, 1})},
       {"out", n.reshape(n.slice(memory, 0, 0, 1), {1, 1, 1})}});
  }

 private:
  static constexpr int64_t kTokens = 50;

  static Value table(Net& n, const std::string& name, std::vector<int64_t> shape,
                     double (*value)(int64_t)) {
    WeightSpec spec;
    spec.name = name;
    spec.shape = shape;
    spec.compute = [count = shape[0] * shape[1], value] {
      std::vector<double> all;
      for (int64_t i = 0; i < count; ++i) all.push_back(value(i));
      return all;
    };
    return n.weight(std::move(spec));
  }

  int64_t chunk_;
};

std::unique_ptr<Model> make_toy_reader(const Config& config) {
  return std::make_unique<ToyReader>(config);
}

FK_MODEL(toy_reader, make_toy_reader, {"ToyReader"}, {});

}  // namespace
}  // namespace toy
