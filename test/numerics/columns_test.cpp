// SPDX-License-Identifier: Apache-2.0
// Columns of weights in different sizes: what feeds them undoes the sizes, so the answers are those
// of weights without.
#include "core/cases/columns.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.hpp"
#include "core/check/check.hpp"
#include "test/catch.hpp"
#include "test/numerics/reference.hpp"

namespace {

using Outputs = std::vector<std::string>;

// Those that no size reaches: a cache holds values that feed others.
const std::vector<std::pair<std::string, Outputs>> kSame = {
    {"gated_mlp", {"out"}},
    {"moe_block", {"out"}},
    {"fused_moe", {"out"}},
    {"deepseek_moe", {"out"}},
    {"self_attention", {"out", "k_cache"}},
    {"bidirectional_attention", {"out"}},
    {"cross_attention", {"out"}},
    {"encoder_attention", {"out"}},
    {"mamba_mixer2", {"out", "conv_state", "ssm_state"}},
    {"decoder_layer", {"hidden", "residual", "k_cache"}},
    {"moe_decoder_layer", {"hidden", "residual", "k_cache"}},
    {"eagle3_decoder_layer", {"out", "hidden", "k_cache"}},
    {"bidirectional_decoder_layer", {"hidden", "residual"}}};

fk::CaseValues outputs(const Reference& here, const fk::Oracles& oracles,
                       const fk::Contract& contract, const fk::Case& source) {
  const auto resolved = fk::resolve(contract, source, {});
  std::string why;
  auto out = fk::reference_outputs(*oracles.cpu, resolved, source, {},
                                   fk::make_inputs(resolved, 5, 2), here.options, why);
  REQUIRE(why.empty());
  return out;
}

}  // namespace

TEST_CASE("columns_in_different_sizes_leave_the_answers_as_they_are") {
  const Reference here;
  for (const auto& [op, fields] : kSame) {
    const fk::Contract& contract = here.catalog.at(op);
    const fk::Oracles oracles = fk::Oracles::of(here.plugins, op);
    // Two quantizations of the same numbers differ: as it is written, in float32.
    const fk::Case& source = contract.cases[0];
    fk::Case plain = source;
    for (const auto& slot : contract.section(fk::SectionId::weights))
      if (slot.values.starts_with("fed_by(")) plain.values[slot.name] = "unit_gain()";
    CHECK_FALSE(plain.values.empty());
    const auto want = outputs(here, oracles, contract, plain);
    const auto got = outputs(here, oracles, contract, source);
    for (const auto& field : fields) {
      const fk::Tensor &a = got.at(field)[0], &b = want.at(field)[0];
      double square = 0, error = 0;
      for (int64_t i = 0; i < a.numel(); ++i) {
        square += b.at(i) * b.at(i);
        error += (a.at(i) - b.at(i)) * (a.at(i) - b.at(i));
      }
      INFO(op << " " << field);
      CHECK(square > 0);
      CHECK(std::sqrt(error / square) < 1e-4);
    }
  }
}

TEST_CASE("columns_have_nine_sizes_and_inputs_of_another_seed_the_same") {
  const Reference here;
  const fk::Contract& contract = here.catalog.at("gated_mlp");
  fk::Case source = contract.cases[0];
  source.init["hidden_size"] = source.init["intermediate_size"] = "64";
  source.values["x"] = source.values["gate_up"] = "constant(1)";
  const auto resolved = fk::resolve(contract, source, {});
  // Constant weights have no sizes, and nothing feeds what has none.
  CHECK(fk::make_inputs(resolved, 1, 1).at("x")[0].at(3) == 1);
  source.values.erase("gate_up");
  const auto sized = fk::resolve(contract, source, {});
  const fk::Tensor x = fk::make_inputs(sized, 1, 1).at("x")[0];
  std::set<double> sizes;
  for (int64_t i = 0; i < 64; ++i) sizes.insert(x.at(i));
  CHECK(sizes.size() == 9);
  CHECK(*sizes.begin() == 0x1p-4);
  CHECK(*sizes.rbegin() == 0x1p4);
  CHECK(fk::make_forward_inputs(sized, 2, 1, fk::Family::ordinary).at("x")[0].values() ==
        x.values());
  CHECK(fk::make_field(sized, "x", 3, 1)[0].values() == x.values());
}

TEST_CASE("columns_that_nothing_can_feed_are_named") {
  const Reference here;
  const fk::Contract& contract = here.catalog.at("gated_mlp");
  fk::Case source = contract.cases[0];
  const auto said = [&](const std::string& values) {
    source.values["down"] = values;
    return message_of<fk::Error>([&] { fk::make_inputs(fk::resolve(contract, source, {}), 1, 1); });
  };
  const std::string unknown = said("fed_by(gate_ip from F)");
  CHECK_THAT(unknown, ContainsSubstring("`gate_ip` is not a field"));
  CHECK_THAT(unknown, ContainsSubstring("`gate_up`"));
  CHECK_THAT(said("fed_by(gate_up from 2*F)"), ContainsSubstring("has no rows"));
  CHECK_THAT(said("fed_by(x)"), ContainsSubstring("do not fit into"));
}
