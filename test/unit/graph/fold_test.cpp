// SPDX-License-Identifier: Apache-2.0
// A phase is recorded step by step and then as one call. The decomposition of this call must equal
// the recorded steps. Steps which the call cannot carry are refused.
#include "baselines/models/parts/decode_step.hpp"
#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/exec/model.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

fk::Graph decode_of(const std::string& golden) {
  const auto folder = fk::paths::home() / "test" / "golden" / golden;
  const fk::Config config = fk::Config::load(folder / "config.json");
  const auto model = fk::make_model(fk::arch_of(config), config);
  fk::Net b(catalog(), "decode", std::make_shared<fk::WeightTable>(), {});
  model->forward(b, "decode");
  return b.finish();
}

}  // namespace

TEST_CASE("fold_makes_one_call_whose_expansion_has_the_layers_and_their_taps") {
  for (const char* golden : {"llama", "mistral_swa", "qwen3"}) {
    CAPTURE(golden);
    const fk::Graph graph = decode_of(golden);
    REQUIRE(graph.calls.size() == 1);
    CHECK(graph.calls[0].contract->op == "decode_step");
    CHECK(graph.calls[0].contract->level == 4);
    CHECK(graph.taps.empty());
    const fk::Call whole = graph.calls[0];
    const fk::Region region(graph, whole);
    const auto layers = static_cast<size_t>(region.integer("num_layers"));
    CHECK(region.has("q_norm") == (std::string(golden) == "qwen3"));
    const std::vector<int64_t> windows = region.integers("windows");

    const fk::Graph inner = fk::expand(catalog(), graph, whole);
    REQUIRE(inner.calls.size() == layers + 4);
    REQUIRE(inner.taps.size() == layers + 1);
    for (size_t i = 0; i < layers; ++i) {
      const fk::Call& layer = inner.calls[i + 1];
      CHECK(layer.path == "model.layers." + std::to_string(i));
      CHECK(fk::Region(inner, layer).integer("window") == windows[i]);
      CHECK(inner.taps[i].name == "hidden." + std::to_string(i));
      CHECK(inner.taps[i].before == i + 1);
    }
    CHECK(inner.outputs.at("tokens") == graph.outputs.at("tokens"));
  }
}

TEST_CASE("fold_refuses_what_a_decode_step_is_not_made_of") {
  fk::Builder b(catalog(), "decode", std::make_shared<fk::WeightTable>());
  const fk::Expr tokens = b.axis("B");
  b.call("silu_and_mul", "model.mlp",
         {{"size", 4}, {"x", b.input("x", fk::DType::f32, {tokens, 8})}});
  CHECK_THROWS_WITH(fk::parts::fold_decode_step(b), ContainsSubstring("no part of decode_step"));
}
