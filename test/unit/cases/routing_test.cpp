// SPDX-License-Identifier: Apache-2.0
// Routing that no run has shown: loads are those that were asked for.
#include "core/cases/routing.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "test/catch.hpp"

namespace {

std::vector<double> loads_of(const std::vector<int64_t>& ids, int64_t experts) {
  std::vector<double> loads(static_cast<size_t>(experts), 0.0);
  for (const int64_t e : ids) loads[static_cast<size_t>(e)] += 1;
  const double mean = static_cast<double>(ids.size()) / static_cast<double>(experts);
  for (auto& load : loads) load /= mean;
  std::sort(loads.begin(), loads.end(), std::greater<>());
  return loads;
}

}  // namespace

TEST_CASE("routing_loads_have_the_skew_and_the_mean") {
  for (const double skew : {1.0, 1.04, 1.72, 3.17}) {
    const auto loads = fk::expert_loads(64, 8, skew);
    CHECK(loads[0] == Approx(skew).epsilon(1e-6));
    CHECK(std::accumulate(loads.begin(), loads.end(), 0.0) == Approx(64));
    CHECK(std::is_sorted(loads.begin(), loads.end(), std::greater<>()));
  }
  CHECK(fk::expert_loads(8, 2, 100)[0] == Approx(4));  // every token has it
}

TEST_CASE("routing_of_tokens_is_distinct_and_as_skewed_as_it_should_be") {
  fk::Random random(3);
  const auto ids = fk::route(20000, 4, 16, 2.5, fk::Random(5), random);
  REQUIRE(ids.size() == 80000);
  for (size_t row = 0; row < 20000; ++row)
    CHECK(std::set<int64_t>(&ids[4 * row], &ids[4 * row] + 4).size() == 4);
  const auto loads = loads_of(ids, 16), wanted = fk::expert_loads(16, 4, 2.5);
  for (size_t e = 0; e < 16; ++e) CHECK(loads[e] == Approx(wanted[e]).margin(0.04));
  fk::Random again(4);
  CHECK(fk::route(5, 8, 8, 1.72, fk::Random(6), again).size() == 40);  // all of them
}

TEST_CASE("routing_of_ranks_that_have_busy_experts_in_common_fills_the_same") {
  std::set<int64_t> busiest;
  for (const uint64_t rank : {1u, 2u, 3u}) {
    fk::Random own(rank);
    const auto ids = fk::route(500, 2, 64, 30, fk::Random(7), own);
    std::vector<int64_t> loads(64);
    for (const int64_t e : ids) ++loads[static_cast<size_t>(e)];
    busiest.insert(std::max_element(loads.begin(), loads.end()) - loads.begin());
  }
  CHECK(busiest.size() == 1);
}

// DeepSeek-V3 in service: tokens of the 16 experts of one GPU in one layer.
TEST_CASE("routing_law_fits_published_counts") {
  std::vector<double> counts = {162554, 147879, 102827, 108924, 46123, 505540, 98864,  184719,
                                322237, 128708, 117722, 118096, 73528, 245469, 119943, 69937};
  const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) / 16;
  for (auto& c : counts) c /= mean;
  std::sort(counts.begin(), counts.end(), std::greater<>());
  CHECK(counts[0] == Approx(3.17).margin(0.005));
  const auto law = fk::expert_loads(16, 1, counts[0]);
  for (size_t e = 0; e < 15; ++e) CHECK(law[e] == Approx(counts[e]).epsilon(0.25));
}

TEST_CASE("routing_by_expert_is_stable") {
  const std::vector<int64_t> of = {2, 0, 2, 1, 0};
  CHECK(fk::rows_by_expert(of, 4) == std::vector<int64_t>{1, 4, 3, 0, 2});
  CHECK(fk::expert_offsets(of, 4) == std::vector<int64_t>{0, 2, 3, 5, 5});
}

TEST_CASE("routing_of_a_case_replaces_every_field_that_says_it") {
  const auto c = fk::Contract::parse(
      "op: thing\nrevision: 1\nsummary: a thing\naxes: {A: rows, J: assignments, E: experts}\n"
      "init:\n  - {name: num_experts, type: int, axis: E}\n  - {name: top_k, type: int}\n"
      "weights: []\nforward:\n"
      "  - {name: x, role: in, shape: [A], dtype: float}\n"
      "  - {name: rows, role: in, shape: [J], dtype: [i32], values: \"moe_rows(E)\"}\n"
      "  - {name: offsets, role: in, shape: [\"E+1\"], dtype: [i32], values: "
      "\"moe_offsets(E)\"}\n"
      "  - {name: out, role: out, shape: [J], dtype: x}\n"
      "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n"
      "    - {A: 3000, J: 6000, num_experts: 8, top_k: 2}\n",
      "thing.yaml", 1, "test");
  REQUIRE(fk::has_routing(c));
  const auto skew = [&](const fk::Case& source) {
    const auto resolved = fk::resolve(c, source, {});
    const auto values = fk::make_inputs(resolved, 1, 1);
    const auto &rows = values.at("rows")[0], &offsets = values.at("offsets")[0];
    CHECK(offsets.at(8) == 6000);
    std::set<double> seen;
    for (int64_t i = 0; i < rows.numel(); ++i) seen.insert(rows.at(i));
    CHECK(seen.size() == 6000);
    return fk::skew_of(resolved, values).value();
  };
  CHECK(skew(fk::with_skew(c, c.cases[0], 1)) == Approx(1).margin(0.1));
  CHECK(skew(fk::with_skew(c, c.cases[0], 2.5)) == Approx(2.5).margin(0.1));
  CHECK(skew(c.cases[0]) > 2);
}
