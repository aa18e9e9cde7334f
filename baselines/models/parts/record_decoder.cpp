// SPDX-License-Identifier: Apache-2.0
// A decoder of any form, recorded as its parts: self_attention, gated_mlp and gelu_mlp where they
// fit, else the ops below them.
#include "baselines/models/parts/decoder_form.hpp"

namespace fk::parts {

namespace {

double plus_one(double x) { return x + 1; }

WeightSpec bias_spec(std::string name, DType dtype, int64_t size,
                     std::vector<std::string> concatenated = {}) {
  WeightSpec spec = matrix(std::move(name), dtype, {size}, std::move(concatenated));
  spec.stddev = 0.1;
  return spec;
}

// One phase of a decoder while it is recorded. The residual stream is `stream_` plus, where there
// is one, `pending_`: what the last block has added, on several ranks perhaps a share of it.
class Recording {
 public:
  Recording(Builder& b, const std::string& phase, const DecoderForm& form, const Limits& limits)
      : b_(b),
        f_(form),
        c_(form.base),
        l_(limits),
        share_(form.base, limits.parallel),
        step_(begin_batch(b, phase, limits)) {}

  void record() {
    begin();
    for (int64_t i = 0; i < c_.layers; ++i) layer(i);
    end();
  }

 private:
  bool divided() const { return l_.parallel.tp > 1; }
  std::string path(int64_t layer) const { return f_.layers + "." + std::to_string(layer) + "."; }
  // "model.layers.0.self_attn" of "model.layers.0.self_attn.o_proj"
  static std::string parent(const std::string& name) { return name.substr(0, name.rfind('.')); }

  Value norm_gain(const std::string& name, int64_t channels) {
    // 1 + weight has more digits than a weight of 16 bits.
    WeightSpec spec = norm_weight(name, f_.plus_one ? DType::f32 : l_.weights(), channels);
    if (f_.plus_one) spec.mean = 0, spec.map = plus_one;
    return b_.weight(std::move(spec));
  }

  // A matrix of a layer, [out, in], whatever its checkpoint has.
  WeightSpec layer_matrix(std::string name, int64_t out, int64_t in,
                          std::vector<std::string> concatenated = {}) {
    WeightSpec spec = matrix(std::move(name), l_.weights(), {out, in}, std::move(concatenated));
    if (f_.transposed) spec.view = PartView{{in, out}, 0, 0, in, {1, 0}};
    return spec;
  }

  // Views of q, k and v in a fused tensor whose rows are groups: a key/value head and its queries.
  std::vector<PartView> group_views(bool of_bias) const {
    const int64_t queries = c_.heads / c_.kv_heads;
    const auto view = [&](int64_t start, int64_t length) {
      PartView v{{c_.kv_heads, queries + 2, c_.head_dim}, 1, start, length, {0, 1, 2}};
      if (!of_bias) v.shape.push_back(c_.hidden_size), v.order.push_back(3);
      return v;
    };
    return {view(0, queries), view(queries, 1), view(queries + 1, 1)};
  }

  std::vector<std::string> named(const std::string& below, const std::vector<std::string>& names,
                                 const char* ending) const {
    std::vector<std::string> out;
    for (const auto& name : names) out.push_back(below + name + ending);
    return out;
  }

  WeightSpec qkv(int64_t layer, bool of_bias) {
    const std::string below = path(layer), ending = of_bias ? ".bias" : ".weight";
    std::vector<std::string> names = named(below, f_.qkv, ending.c_str());
    const std::string name = parent(below + f_.o) + ".qkv_proj" + ending;
    const int64_t rows = (c_.heads + 2 * c_.kv_heads) * c_.head_dim;
    if (f_.qkv_in_groups) names = {names[0], names[0], names[0]};
    WeightSpec spec = of_bias ? bias_spec(name, l_.weights(), rows, names)
                              : layer_matrix(name, rows, c_.hidden_size, names);
    if (f_.qkv_in_groups) spec.views = group_views(of_bias);
    if (divided()) spec.cuts = {{0, qkv_pieces(c_, l_.parallel)}};
    return spec;
  }

  // A bias that every rank's share would have: the first rank has it, the others have zeros.
  Value shared_bias(const std::string& name, int64_t size) {
    WeightSpec spec = bias_spec(name, l_.weights(), size);
    if (divided()) spec.cuts = {{0, {{0, size, l_.parallel.rank == 0 ? size : 0}}}};
    return b_.weight(std::move(spec));
  }

  // A matrix whose columns are divided between the ranks.
  Value by_columns(WeightSpec spec) {
    if (divided()) spec.cuts = {{1, {piece_of(spec.shape[1], l_.parallel)}}};
    return b_.weight(std::move(spec));
  }

  Value all_reduce(const std::string& at, Value x) {
    return b_.call("all_reduce", at + ".all_reduce", {{"comm", l_.parallel.ranks()}, {"x", x}});
  }
  Value add(const std::string& at, Value a, Value b) {
    return b_.call("add", at + ".add", {{"size", c_.hidden_size}, {"a", a}, {"b", b}});
  }
  Value scaled(const std::string& at, Value x, Value y, double scale, int64_t size) {
    Args args{{"size", size}, {"scale", scale}, {"y", y}};
    if (x) args.emplace_back("x", x);
    return b_.call("scaled_add", at + ".scale", args);
  }

  Value norm(const std::string& at, Value x, Value residual, int64_t channels) {
    Args args{{"hidden_size", channels}, {"eps", c_.eps}, {"x", x}};
    if (f_.norm_weight) args.emplace_back("weight", norm_gain(at + ".weight", channels));
    if (f_.norm_bias)
      args.emplace_back("bias", b_.weight(bias_spec(at + ".bias", l_.weights(), channels)));
    if (residual) args.emplace_back("residual", residual);
    return b_.call(f_.norm == DecoderForm::Norm::layer ? "layer_norm" : "rms_norm", at, args);
  }

  // The stream as one tensor.
  Value whole(const std::string& at) {
    if (pending_) stream_ = add(at, stream_, pending_);
    pending_ = {};
    return stream_;
  }
  // The norm of the stream; without a name the stream.
  Value normed(const std::string& at, const std::string& name) {
    if (name.empty()) return whole(at);
    const std::string path = at + name;
    if (!pending_ || f_.norm == DecoderForm::Norm::layer)
      return norm(path, whole(parent(path)), {}, c_.hidden_size);
    // An RMS norm leaves the sum in the residual.
    const Value x = norm(path, pending_, stream_, c_.hidden_size);
    pending_ = {};
    return x;
  }
  // Adds what a block gave.
  void add_to_stream(const std::string& at, const std::string& block, Value x,
                     const std::string& after) {
    if (divided()) x = all_reduce(block, x);
    if (!after.empty()) x = norm(at + after, x, {}, c_.hidden_size);
    if (f_.residual_scale != 1)
      stream_ = scaled(block, whole(block), x, f_.residual_scale, c_.hidden_size);
    else if (pending_)
      pending_ = add(block, pending_, x);
    else
      pending_ = x;
  }
  void tap(int64_t layer) {
    std::vector<Value> sum{stream_};
    if (pending_) sum.push_back(pending_);
    b_.tap("hidden." + std::to_string(layer), std::move(sum));
  }

  WeightSpec embedding_spec() const {
    WeightSpec spec = embedding_table(c_, l_.weights(), l_.parallel);
    spec.name = f_.embedding + ".weight";
    return spec;
  }

  void begin() {
    for (size_t i = 0; i < f_.ropes.size(); ++i) {
      WeightSpec table;
      table.name = "model.rotary_emb.cos_sin_cache" + (i == 0 ? "" : "." + std::to_string(i));
      const int64_t positions = table_positions(c_, l_);
      table.shape = {positions, f_.ropes[i].rotary_dim};
      table.compute = [rope = f_.ropes[i], positions] { return rope_table(rope, positions); };
      tables_.push_back(b_.weight(std::move(table)));
    }
    const Value ids = b_.input("ids", DType::i64, {step_.tokens});
    const Value out = b_.empty(l_.dtype, {step_.tokens, c_.hidden_size});
    Args args{{"embedding_dim", c_.hidden_size},
              {"table", b_.weight(embedding_spec())},
              {"ids", ids},
              {"out", out}};
    if (divided()) {
      args.emplace_back("comm", l_.parallel.ranks());
      args.emplace_back("num_embeddings_per_partition", share_.vocab_size);
      stream_ = all_reduce(f_.embedding, b_.call("vocab_parallel_embedding", f_.embedding, args));
    } else {
      args.emplace_back("num_embeddings", c_.vocab_size);
      stream_ = b_.call("embedding", f_.embedding, args);
    }
    if (f_.embedding_scale != 1)
      stream_ = scaled(f_.embedding, {}, stream_, f_.embedding_scale, c_.hidden_size);
    if (f_.learned_positions) add_positions();
  }

  void add_positions() {
    WeightSpec table =
        matrix(f_.position + ".weight", l_.weights(), {c_.max_position, c_.hidden_size}, {});
    table.stddev = 0.5;
    if (f_.position_offset > 0)
      table.view = PartView{{c_.max_position + f_.position_offset, c_.hidden_size},
                            0,
                            f_.position_offset,
                            c_.max_position,
                            {0, 1}};
    const Value out = b_.empty(l_.dtype, {step_.tokens, c_.hidden_size});
    const Value at = b_.call("embedding", f_.position,
                             {{"num_embeddings", c_.max_position},
                              {"embedding_dim", c_.hidden_size},
                              {"table", b_.weight(std::move(table))},
                              {"ids", step_.positions},
                              {"out", out}});
    stream_ = add(f_.position, stream_, at);
  }

  void layer(int64_t i) {
    tap(i);
    const std::string at = path(i);
    const Value x = normed(at, f_.before_attention);
    if (f_.parallel) {
      const Value y = f_.before_mlp.empty() ? x : normed(at, f_.before_mlp);
      const Value attended = attention(i, x);
      add_to_stream(at, parent(at + f_.o), attended, f_.after_attention);
      add_to_stream(at, parent(at + f_.down), mlp(i, y), f_.after_mlp);
      return;
    }
    add_to_stream(at, parent(at + f_.o), attention(i, x), f_.after_attention);
    const Value y = normed(at, f_.before_mlp);
    add_to_stream(at, parent(at + f_.down), mlp(i, y), f_.after_mlp);
  }

  // ---- attention ----

  Value cache(int64_t layer, const char* name) {
    return b_.state(parent(path(layer) + f_.o) + "." + name, l_.cache_dtype,
                    {b_.axis("P"), l_.page_size, share_.kv_heads, c_.head_dim});
  }
  Value head_gain(int64_t layer, const std::string& name) {
    return norm_gain(path(layer) + name + ".weight", c_.head_dim);
  }
  // Whether a layer's attention is what the contract self_attention says.
  bool is_self_attention(int64_t layer) const {
    const bool norms =
        f_.qk_norm == DecoderForm::QkNorm::none ||
        (f_.qk_norm == DecoderForm::QkNorm::head && (!f_.plus_one || l_.weights() == DType::f32));
    return norms && f_.rotates(layer) && !f_.interleaved && f_.attention_cap == 0;
  }
  // What the contracts of attention have in common.
  Args attention_args(int64_t layer) {
    return {{"num_heads", share_.heads},
            {"num_kv_heads", share_.kv_heads},
            {"head_dim", c_.head_dim},
            {"page_size", l_.page_size},
            {"scale", f_.attention_scale},
            {"window", c_.windows[static_cast<size_t>(layer)]},
            {"k_cache", cache(layer, "k_cache")},
            {"v_cache", cache(layer, "v_cache")},
            {"block_tables", step_.block_tables},
            {"cu_seqlens", step_.cu_seqlens},
            {"seq_lens", step_.seq_lens},
            {"max_query_len", step_.max_query_len},
            {"max_seq_len", step_.max_seq_len}};
  }
  WeightSpec o_spec(int64_t layer) {
    return layer_matrix(path(layer) + f_.o + ".weight", c_.hidden_size, c_.heads * c_.head_dim);
  }

  Value attention(int64_t layer, Value x) {
    if (!is_self_attention(layer)) return attention_in_parts(layer, x);
    Args args = attention_args(layer);
    const size_t rope = f_.rope_at(layer);
    args.emplace_back("hidden_size", c_.hidden_size);
    args.emplace_back("rotary_dim", f_.ropes[rope].rotary_dim);
    args.emplace_back("max_position", table_positions(c_, l_));
    args.emplace_back("eps", c_.eps);
    args.emplace_back("qkv", b_.weight(qkv(layer, false)));
    if (f_.qkv_bias) args.emplace_back("qkv_bias", b_.weight(qkv(layer, true)));
    args.emplace_back("o", by_columns(o_spec(layer)));
    if (f_.o_bias)
      args.emplace_back("o_bias", shared_bias(path(layer) + f_.o + ".bias", c_.hidden_size));
    if (f_.qk_norm == DecoderForm::QkNorm::head) {
      args.emplace_back("q_norm", head_gain(layer, f_.q_norm));
      args.emplace_back("k_norm", head_gain(layer, f_.k_norm));
    }
    args.emplace_back("cos_sin_cache", tables_[rope]);
    args.emplace_back("positions", step_.positions);
    args.emplace_back("slot_mapping", step_.slot_mapping);
    args.emplace_back("x", x);
    return b_.call("self_attention", parent(path(layer) + f_.o), args);
  }

  struct Heads {
    Value q, k, v;
  };

  Heads project(int64_t layer, Value x) {
    const std::string at = parent(path(layer) + f_.o);
    const int64_t width = c_.head_dim, heads = share_.heads, kv_heads = share_.kv_heads;
    const Value all = b_.call("linear", at + ".qkv_proj",
                              {{"in_features", c_.hidden_size},
                               {"out_features", (heads + 2 * kv_heads) * width},
                               {"weight", b_.weight(qkv(layer, false))},
                               {"bias", f_.qkv_bias ? b_.weight(qkv(layer, true)) : Value{}},
                               {"x", x}});
    const auto part = [&](int64_t first, int64_t count) {
      return b_.reshape(b_.slice(all, 1, first * width, count * width),
                        {step_.tokens, count, width});
    };
    return {part(0, heads), part(heads, kv_heads), part(heads + kv_heads, kv_heads)};
  }

  // With a norm over all heads of q, and of k: products of their own, whose outputs are dense.
  Heads project_apart(int64_t layer, Value x) {
    const std::string at = path(layer);
    const auto part = [&](size_t which, int64_t heads, const std::string& norm_name) -> Value {
      const std::string name = at + f_.qkv[which];
      const int64_t rows = heads * c_.head_dim;
      Value y =
          b_.call("linear", name,
                  {{"in_features", c_.hidden_size},
                   {"out_features", rows},
                   {"weight", b_.weight(layer_matrix(name + ".weight", rows, c_.hidden_size))},
                   {"bias", f_.qkv_bias ? b_.weight(bias_spec(name + ".bias", l_.weights(), rows))
                                        : Value{}},
                   {"x", x}});
      if (!norm_name.empty()) y = norm(at + norm_name, y, {}, rows);
      return b_.reshape(y, {step_.tokens, heads, c_.head_dim});
    };
    return {part(0, c_.heads, f_.q_norm), part(1, c_.kv_heads, f_.k_norm),
            part(2, c_.kv_heads, "")};
  }

  Value attention_in_parts(int64_t layer, Value x) {
    const std::string at = parent(path(layer) + f_.o);
    const auto [q, k, v] =
        f_.qk_norm == DecoderForm::QkNorm::full ? project_apart(layer, x) : project(layer, x);
    if (f_.qk_norm == DecoderForm::QkNorm::head)
      b_.call("qk_rms_norm", at + ".qk_norm",
              {{"num_heads", share_.heads},
               {"num_kv_heads", share_.kv_heads},
               {"head_dim", c_.head_dim},
               {"eps", c_.eps},
               {"q_weight", head_gain(layer, f_.q_norm)},
               {"k_weight", head_gain(layer, f_.k_norm)},
               {"q", q},
               {"k", k}});
    if (f_.rotates(layer)) rotate(layer, f_.rope_at(layer), q, k);
    Args args = attention_args(layer);
    b_.call("kv_cache_append", at + ".kv_cache",
            {{"num_kv_heads", share_.kv_heads},
             {"head_dim", c_.head_dim},
             {"page_size", l_.page_size},
             {"k", k},
             {"v", v},
             {"k_cache", cache(layer, "k_cache")},
             {"v_cache", cache(layer, "v_cache")},
             {"slot_mapping", step_.slot_mapping}});
    args.emplace_back("softcap", f_.attention_cap);
    args.emplace_back("q", q);
    const Value mixed = b_.call("paged_attention", at + ".attn", args);
    const int64_t inner = share_.heads * c_.head_dim;
    const std::string o = path(layer) + f_.o;
    return b_.call("linear", o,
                   {{"in_features", inner},
                    {"out_features", c_.hidden_size},
                    {"weight", by_columns(o_spec(layer))},
                    {"bias", f_.o_bias ? shared_bias(o + ".bias", c_.hidden_size) : Value{}},
                    {"x", b_.reshape(mixed, {step_.tokens, inner})}});
  }

  void rotate(int64_t layer, size_t which, Value q, Value k) {
    b_.call("rotary_embedding", parent(path(layer) + f_.o) + ".rotary_emb",
            {{"num_heads", share_.heads},
             {"num_kv_heads", share_.kv_heads},
             {"head_dim", c_.head_dim},
             {"rotary_dim", f_.ropes[which].rotary_dim},
             {"max_position", table_positions(c_, l_)},
             {"interleaved", f_.interleaved},
             {"cos_sin_cache", tables_[which]},
             {"positions", step_.positions},
             {"q", q},
             {"k", k}});
  }

  // ---- the MLP ----

  // The first product's rows, of one rank: of gate and up side by side.
  WeightSpec up_spec(int64_t layer, bool of_bias) {
    const std::string below = path(layer), ending = of_bias ? ".bias" : ".weight";
    const int64_t hidden = c_.intermediate_size, rows = f_.gated ? 2 * hidden : hidden;
    const std::string name = f_.up.size() == 1 ? below + f_.up[0] + ending
                                               : parent(below + f_.down) + ".gate_up_proj" + ending;
    const std::vector<std::string> names = named(below, f_.up, ending.c_str());
    WeightSpec spec = of_bias ? bias_spec(name, l_.weights(), rows, names)
                              : layer_matrix(name, rows, c_.hidden_size, names);
    if (!divided()) return spec;
    std::vector<WeightCut::Piece> pieces{piece_of(hidden, l_.parallel)};
    if (f_.gated) pieces.push_back(piece_of(hidden, l_.parallel, hidden));
    spec.cuts = {{0, std::move(pieces)}};
    return spec;
  }

  Value mlp(int64_t layer, Value x) {
    const std::string below = path(layer), at = parent(below + f_.down);
    const int64_t hidden = share_.intermediate_size;
    const bool exact = f_.activation == "gelu", tanh = f_.activation == "gelu_tanh";
    const Value up = b_.weight(up_spec(layer, false));
    const Value up_bias = f_.mlp_bias ? b_.weight(up_spec(layer, true)) : Value{};
    const std::string down_name = below + f_.down;
    const Value down =
        by_columns(layer_matrix(down_name + ".weight", c_.hidden_size, c_.intermediate_size));
    const Value down_bias =
        f_.mlp_bias ? shared_bias(down_name + ".bias", c_.hidden_size) : Value{};
    const Args sizes{{"hidden_size", c_.hidden_size}, {"intermediate_size", hidden}, {"x", x}};
    if (f_.gated && f_.activation == "silu" && !f_.mlp_bias) {
      Args args = sizes;
      args.emplace_back("gate_up", up);
      args.emplace_back("down", down);
      return b_.call("gated_mlp", at, args);
    }
    if (!f_.gated && (exact || tanh)) {
      Args args = sizes;
      args.emplace_back("approximate", exact ? "none" : "tanh");
      args.emplace_back("fc1", up);
      args.emplace_back("fc1_bias", up_bias);
      args.emplace_back("fc2", down);
      args.emplace_back("fc2_bias", down_bias);
      return b_.call("gelu_mlp", at, args);
    }
    const Value wide = b_.call("linear", at + ".up",
                               {{"in_features", c_.hidden_size},
                                {"out_features", f_.gated ? 2 * hidden : hidden},
                                {"weight", up},
                                {"bias", up_bias},
                                {"x", x}});
    const Value activated =
        f_.gated && f_.activation == "silu"
            ? Value(b_.call("silu_and_mul", at + ".act_fn", {{"size", hidden}, {"x", wide}}))
            : Value(b_.call(f_.gated ? "activation_and_mul" : "activation", at + ".act_fn",
                            {{"size", hidden}, {"kind", f_.activation}, {"x", wide}}));
    return b_.call("linear", down_name,
                   {{"in_features", hidden},
                    {"out_features", c_.hidden_size},
                    {"weight", down},
                    {"bias", down_bias},
                    {"x", activated}});
  }

  // ---- the head ----

  void end() {
    // Over all rows, though few are needed: the last hidden state is something to compare.
    const Value x = normed("", f_.final_norm);
    b_.tap("hidden." + std::to_string(c_.layers), {x});
    WeightSpec head = embedding_spec();
    if (!c_.tied) {
      head = matrix(f_.head + ".weight", l_.weights(), {c_.vocab_size, c_.hidden_size}, {});
      if (divided()) head.cuts = {{0, {piece_of(c_.vocab_size, l_.parallel)}}};
    }
    const int64_t here = divided() ? share_.vocab_size : c_.vocab_size;
    Args args{{"in_features", c_.hidden_size},
              {"out_features", here},
              {"weight", b_.weight(std::move(head))},
              {"x", wanted_rows(b_, step_, x)},
              {"out", b_.empty(DType::f32, {step_.rows_count, here})}};
    if (f_.head_bias) {
      WeightSpec bias = bias_spec(f_.head + ".bias", l_.weights(), c_.vocab_size);
      if (divided()) bias.cuts = {{0, {piece_of(c_.vocab_size, l_.parallel)}}};
      args.emplace_back("bias", b_.weight(std::move(bias)));
    }
    Value logits = b_.call("linear", f_.head, args);
    if (divided())
      logits =
          b_.call("all_gather_columns", f_.head + ".all_gather",
                  {{"comm", l_.parallel.ranks()}, {"out_features", c_.vocab_size}, {"x", logits}});
    if (f_.logit_scale != 1) logits = scaled(f_.head, {}, logits, f_.logit_scale, c_.vocab_size);
    if (f_.logit_cap > 0)
      logits = b_.call(
          "activation", f_.head + ".softcap",
          {{"size", c_.vocab_size}, {"kind", "softcap"}, {"alpha", f_.logit_cap}, {"x", logits}});
    sample_logits(b_, step_, logits);
  }

  Builder& b_;
  const DecoderForm& f_;
  const DecoderConfig& c_;
  const Limits& l_;
  const DecoderShare share_;
  const DecoderStep step_;
  std::vector<Value> tables_;  // of the ropes
  Value stream_, pending_;
};

}  // namespace

void record_decoder(Builder& b, const std::string& phase, const DecoderForm& form,
                    const Limits& limits) {
  Recording(b, phase, form, limits).record();
}

}  // namespace fk::parts
