// SPDX-License-Identifier: Apache-2.0
// If this fails, rotary tables differ from the formulas of the papers and of transformers.
#include "baselines/models/parts/rope.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "core/base/error.hpp"
#include "test/catch.hpp"

namespace {

fk::parts::Rope read(const std::string& text, int64_t head_dim = 16) {
  const fk::Config config(fk::parse_json(text, "config"), "config.json");
  return fk::parts::read_rope(
      config.or_else({{"rope_theta", 10000.0}, {"max_position_embeddings", 4096}}), head_dim);
}

}  // namespace

TEST_CASE("rope_table_is_cosines_then_sines") {
  const auto rope = read(R"({"rope_theta": 10000})", 8);
  const auto table = fk::parts::rope_table(rope, 50);
  REQUIRE(table.size() == 50 * 8);
  for (size_t p = 0; p < 50; ++p) {
    for (size_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(p) * std::pow(10000.0, -static_cast<double>(i) / 4);
      CHECK(table[p * 8 + i] == Approx(std::cos(angle)).margin(1e-14));
      CHECK(table[p * 8 + 4 + i] == Approx(std::sin(angle)).margin(1e-14));
    }
  }
}

TEST_CASE("rope_reads_both_styles_of_configuration") {
  const auto a = read(R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3",
      "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 64}})");
  const auto b = read(R"({"rope_theta": 500000.0, "rope_scaling": {"type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})");
  CHECK(a.llama3);
  CHECK(fk::parts::rope_frequencies(a) == fk::parts::rope_frequencies(b));
  CHECK(read(R"({"rope_scaling": null})").theta == 10000);
}

TEST_CASE("rope_takes_the_old_style_where_a_file_has_both") {
  const std::string old = R"("rope_scaling": {"rope_type": "linear", "factor": 4.0})";
  const std::string both = "{" + old + R"(, "rope_parameters": {"rope_theta": 1e6}})";
  CHECK(fk::parts::rope_frequencies(read(both)) ==
        fk::parts::rope_frequencies(read("{" + old + "}")));
  CHECK(read(R"({"rope_scaling": {}, "rope_parameters": {"rope_theta": 1e6}})").theta == 1e6);
  CHECK(read(R"({"rope_theta": 5e3, "rope_parameters": {"rope_type": "default"}})").theta == 5e3);
}

TEST_CASE("rope_llama3_keeps_short_waves_and_stretches_long_ones") {
  const auto rope = read(R"({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3",
      "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}})",
                         128);
  const auto scaled = fk::parts::rope_frequencies(rope);
  auto plain = rope;
  plain.llama3 = false;
  const auto unscaled = fk::parts::rope_frequencies(plain);
  int kept = 0, stretched = 0, blended = 0;
  for (size_t i = 0; i < scaled.size(); ++i) {
    const double wave = 2 * std::numbers::pi / unscaled[i];
    if (wave < 8192 / 4.0) {
      CHECK(scaled[i] == unscaled[i]);
      ++kept;
    } else if (wave > 8192 / 1.0) {
      CHECK(scaled[i] == Approx(unscaled[i] / 8));
      ++stretched;
    } else {
      const double smooth = (8192 / wave - 1) / (4 - 1);
      CHECK(scaled[i] == Approx((1 - smooth) * unscaled[i] / 8 + smooth * unscaled[i]));
      ++blended;
    }
  }
  CHECK((kept > 0 && stretched > 0 && blended > 0));
}

TEST_CASE("rope_linear_scaling_divides_positions") {
  const auto rope = read(R"({"rope_scaling": {"rope_type": "linear", "factor": 4.0}})");
  CHECK(fk::parts::rope_frequencies(rope)[0] == Approx(0.25));
}

TEST_CASE("rope_reversed_turns_the_other_way_round") {
  auto rope = read(R"({"rope_theta": 10000})", 4);
  const auto forward = fk::parts::rope_table(rope, 3);
  rope.reversed = true;
  const auto backward = fk::parts::rope_table(rope, 3);
  for (size_t i = 0; i < forward.size(); ++i)
    CHECK(backward[i] == (i % 4 < 2 ? 1 : -1) * forward[i]);  // two cosines, then two sines
  CHECK(forward[6] != 0);
}

TEST_CASE("alibi_slopes_are_those_of_the_next_power_of_two") {
  using Slopes = std::vector<double>;
  CHECK(fk::parts::alibi_slopes(4) == Slopes{1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256});
  CHECK(fk::parts::alibi_slopes(6) ==
        Slopes{1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 1.0 / 2, 1.0 / 8});
  CHECK(fk::parts::alibi_slopes(1) == Slopes{1.0 / 256});
}

TEST_CASE("sinusoidal_positions_have_zeros_for_a_pad") {
  const auto table = fk::parts::sinusoidal_table(2, 4, /*first=*/2, /*zero=*/3);
  CHECK(table[0] == Approx(std::sin(2.0)));
  CHECK(table[1] == Approx(std::sin(2.0 / 10000)));
  CHECK(table[2] == Approx(std::cos(2.0)));
  CHECK(std::vector<double>(table.begin() + 4, table.end()) == std::vector<double>(4, 0.0));
}

TEST_CASE("queries_grow_from_the_original_positions_on") {
  fk::parts::Rope rope;
  rope.original_max_position = 4;
  rope.query_beta = 0.5;
  const auto table = fk::parts::query_scale_table(rope, 9, 2);
  CHECK(table[2 * 3] == 1);
  CHECK(table[2 * 4] == Approx(1 + 0.5 * std::log(2.0)));
  CHECK(table[2 * 8] == Approx(1 + 0.5 * std::log(3.0)));
  CHECK(table[2 * 8 + 1] == 0);  // no angle
}

TEST_CASE("rope_refuses_what_it_does_not_know") {
  CHECK_THAT(message_of<fk::Error>([] { read(R"({"rope_scaling": {"rope_type": "linea"}})"); }),
             ContainsSubstring("did you mean `linear`"));
  CHECK_THROWS_AS(read(R"({"rope_scaling": {"rope_type": "llama3"}})"), fk::Error);
  CHECK_THROWS_AS(read(R"({"partial_rotary_factor": 0.5})"), fk::Error);
  CHECK_THROWS_AS(read("{}", 15), fk::Error);
}

TEST_CASE("rope_yarn_stretches_slow_pairs_and_keeps_fast_ones") {
  const auto rope = read(R"({"rope_theta": 10000, "max_position_embeddings": 163840,
      "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}})",
                         64);
  const auto steps = fk::parts::rope_frequencies(rope);
  // The blend goes from pair 10 to pair 23: those turn 32 times and once in 4096 positions.
  for (size_t i = 0; i < 32; ++i) {
    const double plain = std::pow(10000.0, -static_cast<double>(i) / 32);
    const double ramp = std::min(1.0, std::max(0.0, (static_cast<double>(i) - 10) / 13));
    CHECK(steps[i] == Approx(ramp * plain / 40 + (1 - ramp) * plain).epsilon(1e-12));
  }
  CHECK(rope.table_scale == 1);
  CHECK(rope.score_scale == Approx(1.8738).epsilon(1e-4));
}

TEST_CASE("rope_yarn_scales_the_table_without_mscale") {
  const auto rope = read(R"({"rope_theta": 150000, "rope_scaling": {"rope_type": "yarn",
      "factor": 32.0, "truncate": false, "original_max_position_embeddings": 4096}})",
                         64);
  CHECK(rope.table_scale == Approx(0.1 * std::log(32.0) + 1).epsilon(1e-12));
  CHECK(rope.score_scale == 1);
  CHECK(fk::parts::rope_table(rope, 1)[0] == Approx(rope.table_scale).epsilon(1e-12));
}
