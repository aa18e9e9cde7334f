// SPDX-License-Identifier: Apache-2.0
// TTT-E2E: a decoder with attention over a window, which learns from the text that it reads. The
// last layers have a second MLP, the prime one. After each chunk these MLPs take a step down the
// gradient of the chunk's loss. The phase `learn` has this gradient as calls of its own: from the
// logits back through the last layers, up to the first prime MLP.
//
// Keys and values of earlier tokens are constants of a chunk: no gradient passes through them.
#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/rope.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/engines/adapt/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;

struct TttConfig {
  int64_t hidden = 0, heads = 0, mlp = 0, layers = 0, learning = 0, vocabulary = 0;
  int64_t chunk = 0, window = 0, positions = 0;
  double eps = 0, theta = 0, lr = 0, clip = 0;
  bool tied = false;
  int64_t width() const { return hidden / heads; }
  int64_t first_learning() const { return layers - learning; }
};

TttConfig read_ttt(const Config& config) {
  TttConfig c;
  c.hidden = read_size(config, "hidden_size");
  c.heads = read_count(config, "num_attention_heads");
  if (c.hidden % (2 * c.heads) != 0)
    config.fail_at("num_attention_heads", "heads of an even width do not divide hidden_size");
  c.mlp = read_size(config, "intermediate_size");
  c.layers = read_count(config, "num_hidden_layers");
  c.learning = bounded(config, "suffix_len", config.integer("suffix_len"), c.layers);
  c.vocabulary = read_size(config, "vocab_size");
  c.chunk = read_size(config, "mini_batch_size");
  c.window = read_size(config, "sliding_window_size");
  c.positions = read_size(config, "max_position_embeddings");
  c.eps = config.number("rms_norm_eps");
  c.theta = config.number("rope_theta");
  c.lr = config.number("inner_lr");
  c.clip = config.number("inner_clip_gradient");
  if (!(c.clip > 0)) config.fail_at("inner_clip_gradient", "a norm is above 0");
  c.tied = config.boolean("tie_word_embeddings");
  need_boolean(config, {"prime", "qk_norm", "pre_norm", "post_norm"}, true);
  need_text(config, "seq_modeling_block", "SWA");
  need_text(config, "inner_optimizer", "sgd");
  return c;
}

// A layer's values which its gradients need.
struct Kept {
  Value x, q_raw, k_raw, q, keys, values, mixed, attended;  // attended: behind the last product
  Value sum, prime_in, prime_out, prime_sum;
  Value mlp_in, gate_up, activated, mlp_out;
};

class TttE2e : public Model {
 public:
  explicit TttE2e(const Config& config) : config_(read_ttt(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const TttConfig& c = config_;
    return adapt_engine({.vocabulary = c.vocabulary,
                         .positions = c.positions,
                         .chunk = c.chunk,
                         .window = c.window});
  }

  std::string refusal(const Parallel& parallel) const override {
    return parallel.ranks() > 1 ? "gradients have no exchange between ranks" : "";
  }

  void forward(Net& n, const std::string& phase) const override {
    n.common({{"eps", config_.eps}});
    if (phase == "begin")
      begin(n);
    else
      chunk(n, phase == "learn");
  }

  std::vector<Unread> unread() const override {
    if (!config_.tied) return {};
    return {{"lm_head.weight", "a tied head", "model.wte.weight"}};
  }

 private:
  static constexpr const char* kMatrices[] = {"gate_up", "down"};

  static std::string path_of(int64_t layer) { return fmt::format("model.h.{}", layer); }
  static std::string prime(int64_t layer) { return path_of(layer) + ".feed_forward_prime"; }

  std::vector<int64_t> shape_of(const std::string& matrix) const {
    if (matrix == "down") return {config_.hidden, config_.mlp};
    return {2 * config_.mlp, config_.hidden};
  }

  // A weight of the checkpoint, which is the tensor of its name or all `parts`.
  static Value weight(Net& n, const std::string& name, std::vector<int64_t> shape, DType dtype,
                      std::vector<std::string> parts = {}) {
    WeightSpec spec;
    spec.name = name;
    spec.dtype = dtype;
    spec.shape = std::move(shape);
    if (!parts.empty()) spec.parts = {std::move(parts)};
    return n.weight(std::move(spec));
  }
  // A matrix of an MLP: gate rows, then up rows, or `down`.
  Value of_mlp(Net& n, const std::string& at, const std::string& matrix, DType dtype) const {
    std::vector<std::string> parts = {at + ".w2.weight"};
    if (matrix == "gate_up") parts = {at + ".w1.weight", at + ".w3.weight"};
    return weight(n, at + "." + matrix, shape_of(matrix), dtype, parts);
  }
  Value fixed(Net& n, const std::string& at, const std::string& matrix) const {
    return of_mlp(n, at, matrix, n.limits().weights());
  }
  // A square matrix of attention.
  Value square(Net& n, const std::string& path) const {
    return weight(n, path + ".weight", {config_.hidden, config_.hidden}, n.limits().weights());
  }

  // A matrix of a prime MLP as the text at hand has made it, in float32.
  Value learned(Net& n, int64_t layer, const std::string& matrix) const {
    const auto shape = shape_of(matrix);
    return n.state(prime(layer) + "." + matrix, DType::f32, {shape[0], shape[1]});
  }

  void begin(Net& n) const {
    for (int64_t i = config_.first_learning(); i < config_.layers; ++i)
      for (const std::string matrix : kMatrices)
        n("scaled_add", prime(i) + "." + matrix,
          {{"scale", 1.0},
           {"y", of_mlp(n, prime(i), matrix, DType::f32)},
           {"out", learned(n, i, matrix)}});
  }

  void chunk(Net& n, bool learns) const {
    const TttConfig& c = config_;
    const Expr rows = n.axis("T");
    Value x = n("embedding", "model.wte",
                {{"table", table(n)},
                 {"ids", n.input("ids", DType::i64, {rows})},
                 {"out", std::string(name(n.limits().dtype))}});
    const Value positions = n.input("positions", DType::i64, {rows});
    std::vector<Kept> kept;
    for (int64_t i = 0; i < c.layers; ++i) {
      n.tap(fmt::format("hidden.{}", i), {x});
      const bool back = learns && i >= c.first_learning();
      Kept layer = attention(n, i, x, positions);
      x = mlps(n, i, layer, back);
      if (back) kept.push_back(layer);
    }
    const Value last = norm(n, "model.ln_f", x);
    n.tap(fmt::format("hidden.{}", c.layers), {last});
    const Value head = head_of(n);
    const Value logits =
        n("linear", "lm_head",
          {{"weight", head}, {"x", last}, {"out", std::string(fk::name(DType::f32))}});
    const Value targets = n.input("targets", DType::i64, {rows});
    n.output("logprobs", n("token_logprob", "logprobs", {{"logits", logits}, {"tokens", targets}}));
    if (!learns) return;
    const Value of_logits = n("cross_entropy_backward", "loss.grad",
                              {{"logits", logits},
                               {"targets", targets},
                               {"grad", n.input("loss_grad", DType::f32, {rows})},
                               {"out", std::string(name(n.limits().dtype))}});
    Value grad = through(n, "lm_head.grad", of_logits, head);
    grad = norm_back(n, "model.ln_f", x, grad);
    learn(n, kept, grad);
    keep_window(n);
  }

  Value table(Net& n) const {
    return weight(n, "model.wte.weight", {config_.vocabulary, config_.hidden},
                  n.limits().weights());
  }
  Value head_of(Net& n) const {
    return config_.tied ? table(n)
                        : weight(n, "lm_head.weight", {config_.vocabulary, config_.hidden},
                                 n.limits().weights());
  }

  static Value norm(Net& n, const std::string& path, Value x) {
    return n("rms_norm", path, {{"x", x}});
  }
  static Value sum(Net& n, const std::string& path, Value a, Value b) {
    return n("add", path, {{"a", a}, {"b", b}});
  }
  // The rows [tokens * heads, width] of a value [tokens, hidden], and back.
  Value by_head(Net& n, Value v) const {
    return n.reshape(v, {n.shape(v)[0] * config_.heads, config_.width()});
  }
  Value by_token(Net& n, Value v) const {
    return n.reshape(v, {n.shape(v)[0], config_.heads, config_.width()});
  }

  // Keys or values [window + chunk, hidden]: those of earlier tokens end at row `window`.
  Value memory(Net& n, int64_t layer, const char* what) const {
    return n.state(fmt::format("{}.{}", path_of(layer), what), n.limits().dtype,
                   {config_.window + config_.chunk, config_.hidden});
  }
  Value own_rows(Net& n, Value all) const { return n.slice(all, 0, config_.window, n.axis("T")); }
  Value seen_rows(Net& n, Value all) const {
    const Expr past = n.axis("A");
    return by_token(n, n.slice(all, 0, config_.window - past, past + n.axis("T")));
  }

  // [positions, width]: cosines, then sines, which `reversed` turns round.
  Value angles(Net& n, bool reversed) const {
    Rope rope;
    rope.rotary_dim = config_.width();
    rope.theta = config_.theta;
    rope.reversed = reversed;
    return computed(n, reversed ? "rope.reversed" : "rope", DType::f32,
                    {config_.positions, config_.width()},
                    [rope, l = config_.positions] { return rope_table(rope, l); });
  }
  void rotate(Net& n, const std::string& path, Value q, Value k, Value positions,
              bool reversed) const {
    n("rotary_embedding", path,
      {{"interleaved", true},
       {"rotary_dim", config_.width()},
       {"cos_sin_cache", angles(n, reversed)},
       {"positions", positions},
       {"q", q},
       {"k", k}});
  }

  Args seen(Net& n) const {
    const Expr rows = n.axis("T");
    return {{"scale", 1 / std::sqrt(static_cast<double>(config_.width()))},
            {"causal", true},
            {"window", config_.window},
            {"cu_seqlens_q", n.input("cu_seqlens_q", DType::i32, {2})},
            {"cu_seqlens_k", n.input("cu_seqlens_k", DType::i32, {2})},
            {"max_query_len", rows},
            {"max_key_len", n.axis("A") + rows}};
  }

  Kept attention(Net& n, int64_t layer, Value x, Value positions) const {
    const std::string path = path_of(layer), at = path + ".seq_modeling_block";
    const auto product = [&](const char* w, Value v, Value out = {}) -> Value {
      Args args = {{"weight", square(n, at + w)}, {"x", v}};
      if (out) args.emplace_back("out", out);
      const Outputs made = n("linear", at + w, args);
      return out ? out : Value(made);
    };
    Kept k;
    k.x = x;
    const Value in = norm(n, path + ".seq_norm", x);
    k.q_raw = product(".wq", in);
    k.k_raw = product(".wk", in);
    const Value all_keys = memory(n, layer, "keys"), all_values = memory(n, layer, "values");
    product(".wv", in, own_rows(n, all_values));
    k.q = n.reshape(norm(n, at + ".q_norm", by_head(n, k.q_raw)), n.shape(x));
    n("rms_norm", at + ".k_norm",
      {{"x", by_head(n, k.k_raw)}, {"out", by_head(n, own_rows(n, all_keys))}});
    rotate(n, at + ".rope", by_token(n, k.q), by_token(n, own_rows(n, all_keys)), positions, false);
    k.keys = seen_rows(n, all_keys);
    k.values = seen_rows(n, all_values);
    Args args = seen(n);
    args.insert(args.end(), {{"q", by_token(n, k.q)}, {"k", k.keys}, {"v", k.values}});
    k.mixed = n.reshape(n("attention_varlen", at, args), n.shape(x));
    k.attended = product(".wo", k.mixed);
    k.sum = sum(n, path + ".seq_sum", x, norm(n, path + ".seq_post_norm", k.attended));
    return k;
  }

  // Both MLPs of a layer, or the only one. `parts`: with the values between the products.
  Value mlps(Net& n, int64_t layer, Kept& k, bool parts) const {
    const std::string path = path_of(layer), at = path + ".feed_forward";
    k.prime_sum = k.sum;
    if (layer >= config_.first_learning()) {
      k.prime_in = norm(n, path + ".ffn_prime_norm", k.sum);
      k.prime_out = n("adapted_mlp", prime(layer),
                      {{"x", k.prime_in},
                       {"gate_up", lowered(n, layer, "gate_up")},
                       {"down", lowered(n, layer, "down")}});
      k.prime_sum = sum(n, path + ".ffn_prime_sum", k.sum,
                        norm(n, path + ".ffn_prime_post_norm", k.prime_out));
    }
    k.mlp_in = norm(n, path + ".ffn_norm", k.prime_sum);
    if (parts) {
      k.gate_up =
          n("linear", at + ".gate_up_proj", {{"weight", fixed(n, at, "gate_up")}, {"x", k.mlp_in}});
      k.activated = n("silu_and_mul", at + ".act_fn", {{"size", config_.mlp}, {"x", k.gate_up}});
      k.mlp_out =
          n("linear", at + ".down_proj", {{"weight", fixed(n, at, "down")}, {"x", k.activated}});
    } else {
      k.mlp_out = n(
          "gated_mlp", at,
          {{"gate_up", fixed(n, at, "gate_up")}, {"down", fixed(n, at, "down")}, {"x", k.mlp_in}});
    }
    return sum(n, path + ".ffn_sum", k.prime_sum, norm(n, path + ".ffn_post_norm", k.mlp_out));
  }

  // A learned matrix in the dtype of activations.
  Value lowered(Net& n, int64_t layer, const std::string& matrix) const {
    const Value all = learned(n, layer, matrix);
    if (n.limits().dtype == DType::f32) return all;
    const Dims shape = n.shape(all);
    const Value cast = n("transpose", prime(layer) + "." + matrix + ".cast",
                         {{"x", n.reshape(all, {shape[0], 1, shape[1]})},
                          {"out", std::string(name(n.limits().dtype))}});
    return n.reshape(cast, shape);
  }

  // The gradient of a product's input.
  static Value through(Net& n, const std::string& path, Value grad, Value weight) {
    return n("linear_input_grad", path,
             {{"grad", grad},
              {"weight", weight},
              {"out", n.empty(n.dtype(grad), {n.shape(grad)[0], n.shape(weight)[1]})}});
  }
  static Value norm_back(Net& n, const std::string& path, Value x, Value grad) {
    return n("rms_norm_backward", path, {{"x", x}, {"grad", grad}});
  }

  // Gradients from the last layer back to the first one which learns, then the step.
  void learn(Net& n, const std::vector<Kept>& kept, Value grad) const {
    std::vector<Value> weights, grads;
    std::vector<int64_t> sizes;
    for (int64_t i = config_.layers - 1; i >= config_.first_learning(); --i) {
      const Kept& k = kept[static_cast<size_t>(i - config_.first_learning())];
      const std::string path = path_of(i);
      grad = sum(n, path + ".ffn_grad", grad, mlp_back(n, path, k, grad));
      const Value of_out = norm_back(n, path + ".ffn_prime_post_norm", k.prime_out, grad);
      const Outputs made = n("adapted_mlp_backward", prime(i) + ".grad",
                             {{"x", k.prime_in},
                              {"gate_up", lowered(n, i, "gate_up")},
                              {"down", lowered(n, i, "down")},
                              {"grad", of_out},
                              {"gate_up_grad", std::string(name(DType::f32))},
                              {"down_grad", std::string(name(DType::f32))}});
      for (const std::string matrix : kMatrices) {
        const Value of_weight = made[matrix + "_grad"], weight = learned(n, i, matrix);
        n.tap(fmt::format("grad.{}.{}", i, matrix), {of_weight});
        const auto shape = shape_of(matrix);
        sizes.push_back(shape[0] * shape[1]);
        weights.push_back(n.reshape(weight, {sizes.back()}));
        grads.push_back(n.reshape(of_weight, {sizes.back()}));
      }
      if (i == config_.first_learning()) break;
      const Value of_sum = norm_back(n, path + ".ffn_prime_norm", k.sum, made["out"]);
      grad = sum(n, path + ".ffn_prime_grad", grad, of_sum);
      grad = sum(n, path + ".seq_grad", grad, attention_back(n, i, k, grad));
    }
    n("clipped_sgd_step", "inner_optimizer",
      {{"num_tensors", static_cast<int64_t>(sizes.size())},
       {"sizes", sizes},
       {"lr", config_.lr},
       {"max_norm", config_.clip},
       {"weight", weights},
       {"grad", grads}});
  }

  // The gradient of a layer's sum through its other MLP, whose weights stay.
  Value mlp_back(Net& n, const std::string& path, const Kept& k, Value grad) const {
    const std::string at = path + ".feed_forward";
    Value g = norm_back(n, path + ".ffn_post_norm", k.mlp_out, grad);
    g = through(n, at + ".down_proj.grad", g, fixed(n, at, "down"));
    g = n("silu_and_mul_backward", at + ".act_fn.grad",
          {{"size", config_.mlp}, {"x", k.gate_up}, {"grad", g}});
    g = through(n, at + ".gate_up_proj.grad", g, fixed(n, at, "gate_up"));
    return norm_back(n, path + ".ffn_norm", k.prime_sum, g);
  }

  // The gradient of a layer's input through its attention, over the chunk's own keys and values.
  Value attention_back(Net& n, int64_t layer, const Kept& k, Value grad) const {
    const std::string path = path_of(layer), at = path + ".seq_modeling_block";
    Value g = norm_back(n, path + ".seq_post_norm", k.attended, grad);
    g = through(n, at + ".wo.grad", g, square(n, at + ".wo"));
    Args args = seen(n);
    args.insert(
        args.end(),
        {{"q", by_token(n, k.q)}, {"k", k.keys}, {"v", k.values}, {"grad", by_token(n, g)}});
    const Outputs made = n("attention_varlen_backward", at + ".grad", args);
    const auto own = [&](const char* field) {
      return n.slice(made[field], 0, n.axis("A"), n.axis("T"));
    };
    const Value of_q = made["dq"], of_k = own("dk");
    rotate(n, at + ".rope.grad", of_q, of_k, n.input("positions", DType::i64, {n.axis("T")}), true);
    const auto flat = [&](Value v) { return n.reshape(v, {n.axis("T"), config_.hidden}); };
    const auto through_norm = [&](const char* name, Value raw, Value v) {
      return n.reshape(norm_back(n, at + name, by_head(n, raw), by_head(n, flat(v))),
                       n.shape(grad));
    };
    const Value of_in =
        through(n, at + ".wq.grad", through_norm(".q_norm", k.q_raw, of_q), square(n, at + ".wq"));
    const Value more =
        through(n, at + ".wk.grad", through_norm(".k_norm", k.k_raw, of_k), square(n, at + ".wk"));
    const Value rest = through(n, at + ".wv.grad", flat(own("dv")), square(n, at + ".wv"));
    const Value all = sum(n, at + ".grad.sum", sum(n, at + ".grad.qk", of_in, more), rest);
    return norm_back(n, path + ".seq_norm", k.x, all);
  }

  // The last rows of keys and values become those of earlier tokens. A chunk which learns is full.
  void keep_window(Net& n) const {
    const int64_t window = config_.window, wide = config_.hidden;
    for (int64_t i = 0; i < config_.layers; ++i)
      for (const char* what : {"keys", "values"}) {
        const Value all = memory(n, i, what);
        const auto part = [&](Expr start) {
          return n.reshape(n.slice(all, 0, start, window), {1, window, wide});
        };
        const std::string at = fmt::format("{}.{}.kept", path_of(i), what);
        Value from = part(n.axis("T"));
        // Rows which overlap go through a copy.
        if (window > config_.chunk)
          from = n("prepend_rows", at + ".copy", {{"prefix_rows", 0}, {"x", from}});
        n("prepend_rows", at, {{"prefix_rows", 0}, {"x", from}, {"out", part(0)}});
      }
  }

  TttConfig config_;
};

std::unique_ptr<Model> make_ttt_e2e(const Config& config) {
  return std::make_unique<TttE2e>(config);
}

FK_MODEL(ttt_e2e, make_ttt_e2e, {"TTTE2EForCausalLM"}, {"ttt_e2e"});

}  // namespace
}  // namespace fk
