// SPDX-License-Identifier: Apache-2.0
// If this fails, two tensors that are alive together share bytes.
#include "core/graph/memory_plan.hpp"

#include "core/tensor/random.hpp"
#include "test/catch.hpp"

TEST_CASE("memory_plan_never_overlaps_two_living_tensors") {
  fk::Random random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<fk::Life> lives;
    int64_t sum = 0;
    for (int i = 0; i < 60; ++i) {
      fk::Life life;
      life.bytes = random.integer(0, 5000);
      life.first = static_cast<int>(random.integer(0, 40));
      life.last = life.first + static_cast<int>(random.integer(0, 6));
      sum += (life.bytes + 255) / 256 * 256;
      lives.push_back(life);
    }
    const fk::MemoryPlan plan = fk::plan_memory(lives);
    CHECK(plan.bytes < sum);
    for (size_t a = 0; a < lives.size(); ++a) {
      CHECK(plan.offsets[a] % 256 == 0);
      CHECK(plan.offsets[a] + lives[a].bytes <= plan.bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const bool disjoint = plan.offsets[a] + lives[a].bytes <= plan.offsets[b] ||
                              plan.offsets[b] + lives[b].bytes <= plan.offsets[a];
        CHECK((!together || disjoint));
      }
    }
  }
}

TEST_CASE("memory_plan_reuses_what_is_dead") {
  const fk::MemoryPlan plan = fk::plan_memory({{1024, 0, 1}, {1024, 2, 3}, {1024, 4, 5}});
  CHECK(plan.bytes == 1024);
}
