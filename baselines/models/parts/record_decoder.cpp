// SPDX-License-Identifier: Apache-2.0
// Records a decoder of any form as its parts: self_attention, gated_mlp and gelu_mlp if they fit,
// else the ops of their decompositions. The contracts find the weights, under the form's names.
#include <algorithm>

#include "baselines/models/parts/decoder_form.hpp"
#include "baselines/models/parts/decoder_weights.hpp"
#include "baselines/models/parts/fp8_layers.hpp"
#include "baselines/models/parts/latents.hpp"

namespace fk::parts {

namespace {

// Records one phase of a decoder. The residual stream is `stream_`, plus `pending_` if present: the
// last block's output, or this rank's share of it.
class Recording {
 public:
  Recording(Net& n, const std::string& phase, const DecoderForm& form)
      : n_(n),
        f_(form),
        c_(form.base),
        step_(form.bidirectional ? begin_texts(n) : begin_batch(n, phase)) {}

  void record() {
    begin();
    for (int64_t i = 0; i < c_.layers; ++i) {
      layer(i);
      if (seen_ && i < std::ssize(f_.vision->deep_layers))
        seen_->add_deep(i, pending_ && !n_.divided() ? pending_ : stream_);  // no share
    }
    end();
  }

 private:
  static DecoderStep begin_texts(Net& n) {
    DecoderStep s;
    s.tokens = n.axis("T");
    s.requests = n.axis("B");
    s.positions = n.input("positions", DType::i64, {s.tokens});
    n.common({{"positions", s.positions}});
    return s;
  }
  bool rms() const { return f_.norm == DecoderForm::Norm::rms; }
  Value add(const std::string& at, Value a, Value b) {
    return n_("add", at + ".add", {{"a", a}, {"b", b}});
  }
  Value scaled(const std::string& at, Value x, Value y, double scale) {
    Args args{{"scale", scale}, {"y", y}};
    if (x) args.emplace_back("x", x);
    return n_("scaled_add", at + ".scale", args);
  }

  Value norm(const std::string& path, Value x, Value residual = {}) {
    Args args{{"x", x}};
    if (residual) args.emplace_back("residual", residual);
    if (!f_.norm_weight) args.emplace_back("weight", Value{});
    if (!rms() && !f_.norm_bias) args.emplace_back("bias", Value{});
    return n_(rms() ? "rms_norm" : "layer_norm", path, args);
  }

  // Adds `pending_` to the stream and returns the stream as one tensor.
  Value whole(const std::string& at) {
    if (pending_) stream_ = add(at, stream_, pending_);
    pending_ = {};
    return stream_;
  }
  // The norm of the stream. Without a name: the stream itself.
  Value normed(const std::string& at, const std::string& name) {
    if (name.empty()) return whole(at);
    const std::string path = below(at, name);
    if (!pending_ || !rms()) return norm(path, whole(path));
    // The RMS norm writes the sum into the residual.
    const Value x = norm(path, pending_, stream_);
    pending_ = {};
    return x;
  }
  // Adds a block's output. With RMS norms the next norm adds it.
  void add_to_stream(const std::string& block, Value x) {
    if (f_.residual_scale != 1)
      stream_ = scaled(block, whole(block), x, f_.residual_scale);
    else if (!rms())
      stream_ = add(block, whole(block), x);
    else
      pending_ = x;
  }
  void tap(int64_t layer) {
    n_.tap("hidden." + std::to_string(layer),
           pending_ ? std::vector<Value>{pending_, stream_} : std::vector<Value>{stream_});
  }

  void begin() {
    n_.rename(names_of(f_));
    if (f_.mixture.experts > 0) n_.rename(names_of_mixture(f_, parent_of(f_.down)));
    n_.adapt([this](WeightSpec& spec) { adapt_weight(f_, spec); });
    n_.common({{"hidden_size", c_.hidden_size},
               {"num_heads", c_.heads},
               {"num_kv_heads", c_.kv_heads},
               {"head_dim", c_.head_dim},
               {"intermediate_size", c_.intermediate_size},
               {"scale", f_.attention_scale},
               {"max_tokens_per_rank", generate_axis_limit(step_.decode ? "decode" : "prefill",
                                                           step_.decode ? "B" : "T", n_.limits()) /
                                           n_.parallel().ep},
               {"block_n", f_.fp8.rows},
               {"block_k", f_.fp8.columns},
               {"quantize_input", f_.fp8.quantize_input},
               {"eps", c_.eps}});
    const int64_t positions = table_positions(c_, n_.limits());
    const bool by_axes = !c_.rope.sections.empty();
    if (by_axes) turns_ = axis_tables(n_, f_, step_.tokens, positions);
    for (size_t i = 0; i < f_.ropes.size() && !by_axes; ++i)
      tables_.push_back(n_.weight(rope_weight(f_, i, positions)));
    if (c_.rope.query_beta != 0) query_scale_ = n_.weight(query_scale_weight(f_, positions));
    look_up(n_, step_, c_);
    const std::string& at = c_.names.embedding;
    stream_ = step_.hidden;
    if (f_.vision && !step_.decode)
      stream_ = seen_.emplace(n_, *f_.vision, f_.source_rows()).replace(stream_);
    if (f_.embedding_scale != 1) stream_ = scaled(at, {}, stream_, f_.embedding_scale);
    if (f_.learned_positions)
      stream_ = add(f_.position, stream_,
                    n_("embedding", f_.position,
                       {{"num_embeddings", c_.max_position},
                        {"embedding_dim", c_.hidden_size},
                        {"ids", step_.positions}}));
    if (f_.token_types > 0)
      stream_ = add(f_.types, stream_,
                    n_("embedding", f_.types,
                       {{"num_embeddings", f_.token_types},
                        {"embedding_dim", c_.hidden_size},
                        {"ids", n_.input("types", DType::i64, {step_.tokens})}}));
    if (!f_.embedding_norm.empty()) stream_ = norm(f_.embedding_norm, stream_);
    if (!n_.divided()) return;
    // Each rank has a share of the embedding, or the sum. The first norm sums shares.
    pending_ = stream_;
    stream_ = n_.zeros(n_.limits().dtype, {step_.tokens, c_.hidden_size});
    if (!rms()) whole(at);
  }

  void layer(int64_t i) {
    tap(i);
    const std::string at = layer_path(c_, i);
    const std::string attention_path = below(at, parent_of(f_.o));
    const std::string mlp_path = below(at, parent_of(f_.down));
    const auto after = [&](const std::string& name, Value x) {
      return name.empty() ? x : norm(below(at, name), x);
    };
    const std::string& after_mlp = f_.is_mixture(i) ? f_.after_experts : f_.after_mlp;
    const auto norm_of_sum = [&](const std::string& name, const std::string& block, Value x) {
      const Value sum = rms() ? add(block, stream_, x) : x;
      stream_ = norm(below(at, name), sum, rms() ? Value{} : stream_);
    };
    if (f_.norms_after_sum) {
      norm_of_sum(f_.after_attention, attention_path, attention(attention_path, i, stream_));
      return norm_of_sum(f_.after_mlp, mlp_path, mlp(mlp_path, i, stream_));
    }
    const bool bare = f_.first_layer_bare && i == 0;
    const Value x = normed(at, bare ? "" : f_.before_attention);
    if (f_.parallel) {
      const Value y = f_.before_mlp.empty() ? x : normed(at, f_.before_mlp);
      const Value attended = after(f_.after_attention, attention(attention_path, i, x));
      add_to_stream(mlp_path, add(attention_path, attended, after(after_mlp, mlp(mlp_path, i, y))));
      return;
    }
    add_to_stream(attention_path, after(f_.after_attention, attention(attention_path, i, x)));
    const Value y = normed(at, f_.before_mlp);
    add_to_stream(mlp_path, after(after_mlp, mlp(mlp_path, i, y)));
  }

  // ---- attention ----

  // True if the contract self_attention describes the attention of this layer.
  bool is_self_attention(int64_t layer) const {
    const bool norms = f_.qk_norm == DecoderForm::QkNorm::none ||
                       (f_.qk_norm == DecoderForm::QkNorm::head &&
                        (!f_.plus_one || n_.limits().weights() == DType::f32));
    return norms && !f_.products.on() && !f_.bidirectional && f_.rotates(layer) &&
           !f_.interleaved && !turns_.cos && f_.attention_cap == 0 && f_.norm_weight &&
           f_.gate.empty() && f_.inside_attention.empty() && c_.rope.query_beta == 0;
  }

  Value attention(const std::string& at, int64_t layer, Value x) {
    n_.common({{"window", c_.windows[static_cast<size_t>(layer)]}});
    if (f_.latent.kv_rank > 0)
      return latent_attention(n_, f_, at, layer, x, tables_[f_.rope_at(layer)], chosen_);
    if (!is_self_attention(layer)) return attention_in_parts(at, layer, x);
    std::vector<std::string> with = c_.with;
    if (f_.sinks) with.emplace_back("sinks");
    if (f_.o_bias) with.emplace_back("o_bias");
    return n_("self_attention", at, {{"x", x}, {"cos_sin_cache", tables_[f_.rope_at(layer)]}},
              with);
  }

  // This rank's part of a weight. Null if `there` is false.
  Value weight_if(bool there, const char* op, const std::string& at, const char* field) {
    return there ? n_.find(op, at, field) : Value{};
  }

  struct Heads {
    Value q, k, v;
  };

  Heads project(const std::string& at, int64_t layer, Value x) {
    const int64_t tp = n_.parallel().tp, heads = c_.heads / tp,
                  kv_heads = std::max<int64_t>(1, c_.kv_heads / tp);
    const Value bias = weight_if(c_.attention_bias, "self_attention", at, "qkv_bias");
    const auto weight = [&] { return n_.find("self_attention", at, "qkv"); };
    const Value all = f_.products.on() ? fp8_qkv(n_, f_, at, layer_path(c_, layer), bias, x)
                                       : n_("linear", below(at, "qkv_proj"),
                                            {{"weight", weight()}, {"bias", bias}, {"x", x}});
    const auto part = [&](int64_t first, int64_t count) {
      const int64_t width = c_.head_dim;
      return n_.reshape(n_.slice(all, 1, first * width, count * width),
                        {step_.tokens, count, width});
    };
    return {part(0, heads), part(heads, kv_heads), part(heads + kv_heads, kv_heads)};
  }

  // For norms over all heads of q and of k. They need dense rows, so q, k, v are three products.
  Heads project_apart(const std::string& layer, Value x) {
    const std::vector<std::string> with(c_.attention_bias ? 1 : 0, "bias");
    const auto part = [&](size_t which, int64_t heads, const std::string& norm_name) {
      Value y = n_("linear", below(layer, f_.qkv[which]),
                   {{"x", x}, {"out_features", heads * c_.head_dim}}, with);
      if (!norm_name.empty()) y = norm(below(layer, norm_name), y);
      return n_.reshape(y, {step_.tokens, heads, c_.head_dim});
    };
    return {part(0, c_.heads, f_.q_norm), part(1, c_.kv_heads, f_.k_norm),
            part(2, c_.kv_heads, "")};
  }

  // The same for a layer norm over every head of q and of k.
  Heads project_and_norm(const std::string& layer, Value x) {
    const auto part = [&](size_t which, const std::string& norm_name) {
      const auto weight = [&](bool bias) {
        return n_.weight(qkv_weight(f_, layer, which, bias, n_.limits()));
      };
      const std::string name{"qkv"[which]};
      Value y = n_("linear", below(layer, parent_of(f_.o)) + "." + name + "_proj",
                   {{"x", x},
                    {"weight", weight(false)},
                    {"bias", c_.attention_bias ? weight(true) : Value{}}});
      const Expr heads = n_.shape(y)[1].value() / c_.head_dim;
      if (!norm_name.empty())
        y = norm(below(layer, norm_name), n_.reshape(y, {step_.tokens * heads, c_.head_dim}));
      return n_.reshape(y, {step_.tokens, heads, c_.head_dim});
    };
    return {part(0, f_.q_norm), part(1, f_.k_norm), part(2, "")};
  }

  Value attention_in_parts(const std::string& at, int64_t layer, Value x) {
    const Heads h =
        f_.qk_norm == DecoderForm::QkNorm::full         ? project_apart(layer_path(c_, layer), x)
        : f_.qk_norm == DecoderForm::QkNorm::head_layer ? project_and_norm(layer_path(c_, layer), x)
                                                        : project(at, layer, x);
    const Value q = h.q, k = h.k, v = h.v;
    const auto norm_heads = [&](DecoderForm::QkNorm when) {
      if (f_.qk_norm != when) return;
      const auto weight = [&](const char* field) {
        return f_.norm_weight ? n_.find("self_attention", at, field)
                              : n_.weight(ones_weight(f_, n_.limits().weights()));
      };
      n_("qk_rms_norm", at + ".qk_norm",
         {{"q_weight", weight("q_norm")}, {"k_weight", weight("k_norm")}, {"q", q}, {"k", k}});
    };
    norm_heads(DecoderForm::QkNorm::head);
    if (turns_.cos)
      n_("rotary_rows", at + ".rotary_emb",
         {{"cos", turns_.cos}, {"sin", turns_.sin}, {"q", q}, {"k", k}});
    else if (f_.rotates(layer))
      n_("rotary_embedding", at + ".rotary_emb",
         {{"interleaved", f_.interleaved},
          {"cos_sin_cache", tables_[f_.rope_at(layer)]},
          {"q", q},
          {"k", k}});
    if (query_scale_) scale_queries(at, q, k);
    norm_heads(DecoderForm::QkNorm::head_after);
    const Value mixed = f_.bidirectional ? over_texts(at, q, k, v) : over_cache(at, q, k, v);
    Value inner = n_.reshape(mixed, {step_.tokens, n_.shape(q)[1] * c_.head_dim});
    if (!f_.gate.empty()) inner = gated(at, layer, x, inner);
    if (!f_.inside_attention.empty())
      inner = norm(below(layer_path(c_, layer), f_.inside_attention), inner);
    const Value bias = weight_if(f_.o_bias, "self_attention", at, "o_bias");
    if (f_.products.on()) return fp8_output(n_, f_, at, layer_path(c_, layer), bias, inner);
    return share_of(below(at, "o_proj"),
                    {{"weight", n_.find("self_attention", at, "o")}, {"bias", bias}, {"x", inner}});
  }

  // Multiplies queries by a factor of their position. The op needs keys too, and gets zeros.
  void scale_queries(const std::string& at, Value q, Value k) {
    const Value none = n_.zeros(n_.dtype(k), {step_.tokens, 1, c_.head_dim});
    n_("rotary_embedding", at + ".query_scale",
       {{"interleaved", false}, {"cos_sin_cache", query_scale_}, {"q", q}, {"k", none}});
  }

  // sigmoid(gate) times attention's output, [T, heads * width].
  Value gated(const std::string& at, int64_t layer, Value x, Value attended) {
    const Dims shape = n_.shape(attended);
    const std::string path = below(layer_path(c_, layer), f_.gate);
    const Value weight = n_.weight(output_gate_weight(f_, path, n_.limits()));
    const Value gate = n_("linear", path, {{"weight", weight}, {"x", x}});
    const int64_t width = shape[1].value();
    const Value both = n_.empty(n_.dtype(x), {shape[0], 2 * width});
    n_("concat", at + ".gate",
       {{"num_parts", 2},
        {"size", width},
        {"x", std::vector<Value>{gate, attended}},
        {"out", both}});
    return n_("activation_and_mul", at + ".gated",
              {{"size", width}, {"kind", "sigmoid"}, {"x", both}});
  }

  Value over_texts(const std::string& at, Value q, Value k, Value v) {
    const Value starts = n_.input("cu_seqlens", DType::i32, {step_.requests + 1});
    const Expr longest = Expr::min(step_.tokens, n_.limits().max_context);
    return n_("attention_varlen", at + ".attn",
              {{"causal", false},
               {"q", q},
               {"k", k},
               {"v", v},
               {"cu_seqlens_q", starts},
               {"cu_seqlens_k", starts},
               {"max_query_len", longest},
               {"max_key_len", longest}});
  }

  Value over_cache(const std::string& at, Value q, Value k, Value v) {
    const auto cache = [&](const char* name) {
      const Dims heads = n_.shape(k);
      return n_.state(below(at, name), n_.limits().cache_dtype,
                      {n_.axis("P"), n_.limits().page_size, heads[1], heads[2]});
    };
    const Value k_cache = cache("k_cache"), v_cache = cache("v_cache");
    n_("kv_cache_append", at + ".kv_cache",
       {{"k", k}, {"v", v}, {"k_cache", k_cache}, {"v_cache", v_cache}});
    return n_("paged_attention", at + ".attn",
              {{"q", q},
               {"k_cache", k_cache},
               {"v_cache", v_cache},
               {"softcap", f_.attention_cap},
               {"sinks", weight_if(f_.sinks, "self_attention", at, "sinks")},
               {"alibi_slopes",
                f_.alibi_scale == 0 ? Value{} : n_.weight(alibi_weight(f_, n_.parallel()))}});
  }

  // A product whose shares of all ranks are summed.
  Value share_of(const std::string& path, const Args& args) {
    const Value x = n_("linear", path, args);
    if (n_.parallel().tp == 1) return x;
    return n_("all_reduce", path + ".all_reduce", {{"comm", n_.parallel().ranks()}, {"x", x}});
  }

  // ---- the MLP ----

  Value mlp(const std::string& at, int64_t layer, Value x) {
    if (f_.is_mixture(layer)) return mixture(at, layer, x);
    return dense(at, x, c_.intermediate_size, {f_.mlp_bias, f_.down_bias}, f_.up,
                 layer_path(c_, layer));
  }

  // An MLP with the names `up` of its first products below a layer.
  struct MlpBiases {
    bool up, down;
  };
  Value dense(const std::string& at, Value x, int64_t size, MlpBiases biases,
              const std::vector<std::string>& up, const std::string& layer) {
    n_.common({{"intermediate_size", size}});
    const bool exact = f_.activation == "gelu", silu = f_.activation == "silu";
    if (f_.products.on()) return fp8_mlp(n_, f_, at, layer, x, size, {biases.up, biases.down});
    if (f_.gated && silu && !biases.up && !biases.down && f_.inside_mlp.empty())
      return n_("gated_mlp", at, {{"x", x}}, std::vector<std::string>(f_.fp8.on ? 1 : 0, "fp8"));
    if (!f_.gated && f_.inside_mlp.empty() && (exact || f_.activation == "gelu_tanh")) {
      std::vector<std::string> with;
      if (biases.up) with.emplace_back("fc1_bias");
      if (biases.down) with.emplace_back("fc2_bias");
      return n_("gelu_mlp", at, {{"x", x}, {"approximate", exact ? "none" : "tanh"}}, with);
    }
    const Value weight =
        n_.find(f_.gated ? "gated_mlp" : "gelu_mlp", at, f_.gated ? "gate_up" : "fc1");
    std::vector<std::string> names;
    for (const auto& name : up) names.push_back(below(layer, name));
    const Value bias = f_.gated && biases.up ? n_.weight(gate_up_bias(at, names, size, n_.limits()))
                                             : weight_if(biases.up, "gelu_mlp", at, "fc1_bias");
    const Value wide = n_("linear", below(at, f_.gated ? "gate_up_proj" : "up_proj"),
                          {{"weight", weight}, {"bias", bias}, {"x", x}});
    const int64_t columns = n_.shape(wide)[1].value();
    Args args{{"size", f_.gated ? columns / 2 : columns}, {"x", wide}};
    if (!f_.gated || !silu) args.emplace_back("kind", f_.activation);
    const char* op = !f_.gated ? "activation" : silu ? "silu_and_mul" : "activation_and_mul";
    const std::vector<std::string> own(f_.activation == "xielu" ? 1 : 0, "xielu");
    Value activated = n_(op, below(at, "act_fn"), args, own);
    if (!f_.inside_mlp.empty()) activated = norm(below(layer, f_.inside_mlp), activated);
    return share_of(below(at, "down_proj"),
                    {{"weight", n_.find("gelu_mlp", at, "fc2")},
                     {"bias", weight_if(biases.down, "gelu_mlp", at, "fc2_bias")},
                     {"x", activated}});
  }

  // A mixture of experts, and its shared ones.
  Value mixture(const std::string& at, int64_t layer, Value x) {
    const DecoderForm::Mixture& m = f_.mixture;
    n_.common({{"intermediate_size", m.width},
               {"num_experts", m.experts},
               {"top_k", m.top_k},
               {"renormalize", m.renormalize}});
    if (f_.mxfp4 || m.jitter > 0) return mixture_in_parts(at, layer, x);
    if (m.is_simple()) {
      std::vector<std::string> with;
      if (m.bias) with = {"gate_bias", "expert_biases"};
      return n_("moe_block", at, {{"activation", m.activation}, {"x", x}}, with);
    }
    const bool apart = m.shared_width > 0 && (m.shared_bias || !m.shared_gate.empty());
    std::vector<std::string> with;
    if (!m.correction.empty()) with.emplace_back("e_score_correction_bias");
    if (m.shared_width > 0 && !apart) with.emplace_back("shared");
    if (f_.fp8.on) with.emplace_back("fp8");
    if (f_.fp8.on && m.shared_width > 0 && !apart) with.emplace_back("shared_fp8");
    const Value routed = n_("deepseek_moe", at,
                            {{"num_expert_group", m.groups},
                             {"topk_group", m.kept_groups},
                             {"scoring_func", m.sigmoid ? "sigmoid" : "softmax"},
                             {"routed_scaling_factor", m.scale},
                             {"shared_intermediate_size", apart ? 0 : m.shared_width},
                             {"x", x}},
                            with);
    if (!apart) return routed;
    return add(at, routed, m.shared_gate.empty() ? shared(at, layer, x) : gated_shared(at, x));
  }

  // moe_block in parts, for a router with a jitter, or for experts in mxfp4 with other weights.
  Value mixture_in_parts(const std::string& at, int64_t layer, Value x) {
    const DecoderForm::Mixture& m = f_.mixture;
    const std::string gate = below(layer_path(c_, layer), m.gate);
    const std::vector<std::string> with(m.bias ? 1 : 0, "bias"),
        biases(m.bias ? 1 : 0, "expert_biases");
    const Value logits =
        n_("linear", gate, {{"x", x}, {"out_features", m.experts}, {"out", "f32"}}, with);
    const Outputs chosen =
        n_("topk_softmax", below(at, "topk"), {{"jitter", m.jitter}, {"logits", logits}});
    Args args{{"x", x}, {"topk_weights", chosen["topk_weights"]}, {"topk_ids", chosen["topk_ids"]}};
    if (f_.mxfp4)
      return n_("fused_moe_mxfp4", below(layer_path(c_, layer), parent_of(m.down)), args, biases);
    args.emplace_back("w13", n_.find("moe_block", at, "w13"));
    args.emplace_back("w2", n_.find("moe_block", at, "w2"));
    return n_("fused_moe", below(at, "experts"), args);
  }

  // A gated shared expert is a mixture of one expert. The gate's sigmoid is the expert's weight.
  Value gated_shared(const std::string& at, Value x) {
    return n_("deepseek_moe", below(at, "shared"),
              {{"intermediate_size", f_.mixture.shared_width},
               {"num_experts", 1},
               {"top_k", 1},
               {"scoring_func", "sigmoid"},
               {"renormalize", false},
               {"x", x}});
  }

  Value shared(const std::string& at, int64_t layer, Value x) {
    const DecoderForm::Mixture& m = f_.mixture;
    return dense(below(at, "shared_experts"), x, m.shared_width, {m.shared_bias, m.shared_bias},
                 m.shared_up, layer_path(c_, layer));
  }

  // ---- the head ----

  void end() {
    // All rows, because the tap needs the whole last hidden state for comparisons.
    const Value x = normed("", c_.names.norm);
    n_.tap("hidden." + std::to_string(c_.layers), {x});
    if (f_.bidirectional) return output_vectors(n_, x, f_.vectors);
    const std::string& at = c_.names.head;
    Value logits = wanted_logits(n_, step_, x, c_);
    if (f_.logit_scale != 1) logits = scaled(at, {}, logits, f_.logit_scale);
    if (f_.logit_cap > 0)
      logits = n_("activation", at + ".softcap",
                  {{"kind", "softcap"}, {"alpha", f_.logit_cap}, {"x", logits}});
    sample(n_, step_, logits);
  }

  Net& n_;
  const DecoderForm& f_;
  const DecoderConfig& c_;
  DecoderStep step_;
  std::vector<Value> tables_;  // of the ropes
  AxisTables turns_;           // of tokens with three positions
  std::optional<SeenImages> seen_;
  Value query_scale_;
  Value chosen_;  // the positions that an indexer has chosen
  Value stream_, pending_;
};

}  // namespace

void record_decoder(Net& n, const std::string& phase, const DecoderForm& form) {
  Recording(n, phase, form).record();
}

}  // namespace fk::parts
