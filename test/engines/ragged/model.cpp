// SPDX-License-Identifier: Apache-2.0
// A model which writes tokens and sees images. The patches of a request's image become rows, which
// replace placeholder tokens of the prompt. One layer of attention over a paged cache.
#include <cmath>

#include "core/engines/generate/engine.hpp"
#include "core/exec/model.hpp"

namespace ragged {

namespace {

using namespace fk;

constexpr int64_t kVocabulary = 40, kWidth = 8, kPatch = 3, kRows = 6;

class RaggedModel final : public Model {
 public:
  // `multiple` patches become one row.
  explicit RaggedModel(int64_t multiple) : multiple_(multiple) {}

  std::unique_ptr<Engine> engine() const override {
    return generate_engine({.vocabulary = kVocabulary,
                            .encoders = {{.phase = "see",
                                          .length = kRows,
                                          .tensors = {{.name = "patches",
                                                       .shape = {kRows * multiple_, kPatch},
                                                       .ragged = true,
                                                       .multiple = multiple_}},
                                          .placeholder = 7}}});
  }

  void forward(Net& n, const std::string& phase) const override {
    phase == "see" ? see(n) : write(n, phase == "decode");
  }

 private:
  // [N*kRows,C]: rows of each slot.
  static Value seen(Net& n) {
    const Expr slots = n.axis("N");
    return n.reshape(n.state("seen", DType::f32, {slots, kRows, kWidth}), {slots * kRows, kWidth});
  }

  void see(Net& n) const {
    const Expr rows = n.axis("R");
    const Value x = n.input("patches", DType::f32, {rows, multiple_ * kPatch});
    const Value y = n("linear", "vision", {{"out_features", kWidth}, {"x", x}});
    n.tap("encoder_hidden.0", {y});
    n("scatter_rows", "vision.keep",
      {{"x", y}, {"rows", n.input("state_rows", DType::i32, {rows})}, {"out", seen(n)}});
  }

  static void put_rows(Net& n, Value x) {
    const Expr places = n.axis("M");
    const auto input = [&](const char* name) { return n.input(name, DType::i32, {places}); };
    const Value rows =
        n("gather_rows", "seen.rows", {{"x", seen(n)}, {"rows", input("source_rows")}});
    n("scatter_rows", "seen.places", {{"x", rows}, {"rows", input("source_tokens")}, {"out", x}});
  }

  static Value attend(Net& n, Value x, const Expr& tokens, const Expr& requests, bool decode) {
    const int64_t page = n.limits().page_size;
    const Expr width = n.axis("W");
    const auto cache = [&](const char* name) {
      return n.state(name, DType::f32, {n.axis("P"), page, int64_t{1}, kWidth});
    };
    const Value k_cache = cache("k"), v_cache = cache("v");
    const Value heads = n.reshape(x, {tokens, int64_t{1}, kWidth});
    n.common({{"num_heads", int64_t{1}},
              {"num_kv_heads", int64_t{1}},
              {"head_dim", kWidth},
              {"page_size", page},
              {"k_cache", k_cache},
              {"v_cache", v_cache}});
    n("kv_cache_append", "attention.append",
      {{"k", heads},
       {"v", heads},
       {"slot_mapping", n.input("slot_mapping", DType::i64, {tokens})}});
    const Value y = n("paged_attention", "attention",
                      {{"q", heads},
                       {"scale", 1 / std::sqrt(static_cast<double>(kWidth))},
                       {"block_tables", n.input("block_tables", DType::i32, {requests, width})},
                       {"cu_seqlens", n.input("cu_seqlens", DType::i32, {requests + 1})},
                       {"seq_lens", n.input("seq_lens", DType::i32, {requests})},
                       {"max_query_len", decode ? Expr(1) : tokens},
                       {"max_seq_len", width * page}});
    return n("add", "attention.add", {{"a", x}, {"b", n.reshape(y, {tokens, kWidth})}});
  }

  static void write(Net& n, bool decode) {
    const Expr requests = n.axis("B"), tokens = decode ? requests : n.axis("T");
    const Expr rows = decode ? requests : n.axis("Q");
    Value x = n("embedding", "words",
                {{"num_embeddings", kVocabulary},
                 {"embedding_dim", kWidth},
                 {"ids", n.input("ids", DType::i64, {tokens})}});
    if (!decode) put_rows(n, x);
    x = attend(n, x, tokens, requests, decode);
    if (!decode)
      x = n("gather_rows", "rows", {{"x", x}, {"rows", n.input("rows", DType::i32, {rows})}});
    const Value logits = n("linear", "head", {{"out_features", kVocabulary}, {"x", x}});
    const auto of_rows = [&](const char* name, DType dtype) {
      return n.input(name, dtype, {rows});
    };
    n.output("logits", logits);
    n.output("tokens", n("sample_tokens", "sampler",
                         {{"logits", logits},
                          {"temperature", of_rows("temperature", DType::f32)},
                          {"top_k", of_rows("top_k", DType::i32)},
                          {"top_p", of_rows("top_p", DType::f32)},
                          {"uniform", of_rows("uniform", DType::f32)}}));
  }

  int64_t multiple_;
};

std::unique_ptr<Model> make_ragged(const Config& config) {
  return std::make_unique<RaggedModel>(config.integer("multiple"));
}

FK_MODEL(toy_seeing, make_ragged, {"ToySeeing"}, {"toy_seeing"});

}  // namespace

}  // namespace ragged
