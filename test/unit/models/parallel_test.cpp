// SPDX-License-Identifier: Apache-2.0
// A divided model's weights are parts of the whole one's, element by element, and it talks where
// its shares meet.
#include <cstring>
#include <map>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/exec/session.hpp"
#include "test/catch.hpp"

namespace {

using namespace fk;

struct Filled {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Weights = std::map<std::string, Filled>;

Weights weights_of(const Model& model, const Parallel& parallel) {
  const Catalog catalog(paths::registry_dirs());
  Limits limits;
  limits.parallel = parallel;
  const auto table = weight_table(model, catalog, limits);
  const WeightLayout layout(*table);
  std::vector<std::byte> block(static_cast<size_t>(layout.bytes));
  fill_weights(*table, nullptr, 11, block.data(), 1, {});
  Weights out;
  for (size_t i = 0; i < table->all().size(); ++i) {
    const WeightSpec& spec = table->all()[i];
    Filled filled{spec.local_shape(), {}};
    filled.values.resize(static_cast<size_t>(numel(filled.shape)));
    std::memcpy(filled.values.data(), block.data() + layout.offsets[i],
                filled.values.size() * sizeof(float));
    out[spec.name] = std::move(filled);
  }
  return out;
}

// The whole's rows (axis 0) or columns (axis 1) of a matrix by index; below 0: zeros.
void need_part(const Weights& whole, const Weights& part, const std::string& name, int axis,
               const std::vector<int64_t>& index) {
  INFO(name);
  const Filled &w = whole.at(name), &p = part.at(name);
  REQUIRE(w.shape.size() == 2);
  std::vector<int64_t> shape = w.shape;
  shape[static_cast<size_t>(axis)] = static_cast<int64_t>(index.size());
  REQUIRE(p.shape == shape);
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t j = 0; j < shape[1]; ++j) {
      const int64_t row = axis == 0 ? index[static_cast<size_t>(i)] : i;
      const int64_t column = axis == 1 ? index[static_cast<size_t>(j)] : j;
      const float want =
          row < 0 || column < 0 ? 0 : w.values[static_cast<size_t>(row * w.shape[1] + column)];
      if (p.values[static_cast<size_t>(i * shape[1] + j)] != want) {
        FAIL("element " << i << ", " << j);
      }
    }
  }
}

// `count` indices from first * count on, of which those from `end` on are padding; all plus `at`.
void add(std::vector<int64_t>& index, int64_t rank, int64_t count, int64_t end, int64_t at) {
  for (int64_t i = rank * count; i < (rank + 1) * count; ++i)
    index.push_back(i < end ? at + i : -1);
}

Config config(const std::string& more) {
  return Config(parse_json(R"({"hidden_size": 24,
      "intermediate_size": 37, "num_hidden_layers": 1, "num_attention_heads": 8, "head_dim": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
      "vocab_size": 51)" + more +
                               "}",
                           "test"),
                "test");
}

// The exchanges of a phase in their order.
std::vector<std::string> exchanges(const Model& model, const std::string& phase,
                                   const Parallel& parallel) {
  const Catalog catalog(paths::registry_dirs());
  Limits limits;
  limits.parallel = parallel;
  Net b(catalog, phase, std::make_shared<WeightTable>(), limits);
  model.forward(b, phase);
  std::vector<std::string> ops;
  for (const Call& call : b.take_back())
    if (call.contract->find("comm")) ops.push_back(call.contract->op);
  return ops;
}

constexpr const char* kExperts = R"(, "num_local_experts": 5, "num_experts_per_tok": 2)";

}  // namespace

TEST_CASE("a dense decoder's parts are slices of the whole, padded where it does not go up") {
  const auto model = make_model("llama", config(""));
  const Weights whole = weights_of(*model, {});
  const std::string layer = "model.layers.0.";
  for (const int64_t tp : {2, 4, 8}) {
    for (int64_t rank = 0; rank < tp; ++rank) {
      INFO("rank " << rank << " of " << tp);
      const Weights part = weights_of(*model, {tp, 1, rank});
      const int64_t mlp = (37 + tp - 1) / tp, vocab = (51 + tp - 1) / tp, heads = 8 / tp;
      // Two key/value heads: one each for two ranks, and each for several of more.
      const int64_t kv = rank * 2 / tp;
      std::vector<int64_t> qkv, o, gate_up, down, rows;
      add(qkv, rank, heads * 4, 32, 0);
      add(qkv, kv, 4, 8, 32);
      add(qkv, kv, 4, 8, 40);
      need_part(whole, part, layer + "self_attn.qkv_proj.weight", 0, qkv);
      add(o, rank, heads * 4, 32, 0);
      need_part(whole, part, layer + "self_attn.o_proj.weight", 1, o);
      add(gate_up, rank, mlp, 37, 0);
      add(gate_up, rank, mlp, 37, 37);
      need_part(whole, part, layer + "mlp.gate_up_proj.weight", 0, gate_up);
      add(down, rank, mlp, 37, 0);
      need_part(whole, part, layer + "mlp.down_proj.weight", 1, down);
      add(rows, rank, vocab, 51, 0);
      need_part(whole, part, "model.embed_tokens.weight", 0, rows);
      need_part(whole, part, "lm_head.weight", 0, rows);
      CHECK(part.at("model.norm.weight").values == whole.at("model.norm.weight").values);
    }
  }
}

TEST_CASE("experts are divided by their columns, or go to ranks as they are") {
  const auto model = make_model("mixtral", config(kExperts));
  const Weights whole = weights_of(*model, {});
  const std::string moe = "model.layers.0.block_sparse_moe.experts.";
  const Filled &w13 = whole.at(moe + "w13.weight"), &w2 = whole.at(moe + "w2.weight");
  REQUIRE(w13.shape == std::vector<int64_t>{5, 74, 24});
  for (int64_t rank = 0; rank < 2; ++rank) {
    const Weights tp = weights_of(*model, {2, 1, rank}), ep = weights_of(*model, {1, 2, rank});
    const Filled &tp13 = tp.at(moe + "w13.weight"), &tp2 = tp.at(moe + "w2.weight");
    const Filled &ep13 = ep.at(moe + "w13.weight"), &ep2 = ep.at(moe + "w2.weight");
    REQUIRE(tp13.shape == std::vector<int64_t>{5, 38, 24});
    REQUIRE(tp2.shape == std::vector<int64_t>{5, 24, 19});
    REQUIRE(ep13.shape == std::vector<int64_t>{3, 74, 24});
    REQUIRE(ep2.shape == std::vector<int64_t>{3, 24, 37});
    const auto at = [](const Filled& f, int64_t e, int64_t i, int64_t j) {
      return f.values[static_cast<size_t>((e * f.shape[1] + i) * f.shape[2] + j)];
    };
    bool same = true;
    for (int64_t e = 0; e < 5; ++e)
      for (int64_t f = 0; f < 19; ++f)
        for (int64_t c = 0; c < 24; ++c) {
          const int64_t column = rank * 19 + f;
          const bool there = column < 37;
          same = same && at(tp13, e, f, c) == (there ? at(w13, e, column, c) : 0) &&
                 at(tp13, e, 19 + f, c) == (there ? at(w13, e, 37 + column, c) : 0) &&
                 at(tp2, e, c, f) == (there ? at(w2, e, c, column) : 0);
        }
    CHECK(same);
    same = true;
    for (int64_t e = 0; e < 3; ++e)
      for (int64_t f = 0; f < 74; ++f)
        for (int64_t c = 0; c < 24; ++c)
          same = same && at(ep13, e, f, c) == (rank * 3 + e < 5 ? at(w13, rank * 3 + e, f, c) : 0);
    CHECK(same);
  }
}

TEST_CASE("a model says how it cannot be divided") {
  const auto model = make_model("llama", config(""));
  CHECK(model->refusal({2, 1, 0}) == "");
  CHECK(model->refusal({3, 1, 0}) == "8 heads cannot be divided between 3 ranks");
  CHECK(model->refusal({1, 2, 0}) == "it has no experts to divide between 2 ranks");
  const auto mixtral = make_model("mixtral", config(kExperts));
  CHECK(mixtral->refusal({1, 5, 0}) == "");
  CHECK(mixtral->refusal({1, 6, 0}) == "5 experts cannot be divided between 6 ranks");
}

TEST_CASE("with overlap a long step's products are one with their sums, where there are any") {
  const std::string embedding = "vocab_parallel_embedding", norm = "all_reduce_add_rms_norm",
                    product = "linear_all_reduce", logits = "all_gather_columns";
  using Ops = std::vector<std::string>;
  const auto llama = make_model("llama", config(""));
  const Ops shares{embedding, norm, norm, norm, logits};
  CHECK(exchanges(*llama, "prefill", {2, 1, 0}) == shares);
  CHECK(exchanges(*llama, "prefill", {2, 1, 0, true}) ==
        Ops{embedding, norm, product, product, logits});
  CHECK(exchanges(*llama, "decode", {2, 1, 0, true}) == shares);
  // The experts' output does not end with a product.
  const auto mixtral = make_model("mixtral", config(kExperts));
  CHECK(exchanges(*mixtral, "prefill", {2, 1, 0, true}) ==
        Ops{embedding, norm, product, norm, logits});
  CHECK(exchanges(*mixtral, "prefill", {2, 2, 0, true}) ==
        Ops{embedding, norm, product, "fused_moe_ep", "all_gather", logits});
  CHECK(exchanges(*mixtral, "decode", {2, 1, 0, true}) == shares);
}
