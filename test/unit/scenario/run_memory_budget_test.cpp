// SPDX-License-Identifier: Apache-2.0
// Which device has room for which real model, from the figures alone. If these fail, a run ends in
// the middle for want of memory, or is called too large where it fits.
#include "core/scenario/run_memory_budget.hpp"

#include "core/engines/scenario.hpp"
#include "core/scenario/memory_budget.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

constexpr int64_t kGibi = int64_t{1} << 30;
const fk::DeviceMemoryBudget k80{"an 80 GB device", 79 * kGibi, 78 * kGibi};
const fk::DeviceMemoryBudget k141{"a 141 GB device", 139 * kGibi, 138 * kGibi};

struct Wanted {
  fk::Scenario scenario;
  std::unique_ptr<fk::Model> model = scenario.make();
  explicit Wanted(const char* name, int64_t tp = 1)
      : scenario(fk::load_scenario(fk::find_scenario(name), "full")) {
    scenario.limits.parallel.tp = tp;
  }
  fk::RunMemoryBudget room(int64_t longest, int64_t ranks_there = 1) const {
    return {*model, catalog(), scenario.limits, longest, ranks_there};
  }
};

}  // namespace

TEST_CASE("run_room_of_mixtral_is_more_than_one_80_gb_device") {
  const Wanted one("mixtral");
  CHECK_FALSE(one.room(4096).oracle(k141, k141).too_large);
  const auto alone = one.room(4096).oracle(k80, k80);
  REQUIRE(alone.too_large);
  CHECK_FALSE(alone.divided);
  CHECK(alone.too_large->needs_bytes > 87 * kGibi);
  CHECK(alone.too_large->device_bytes == 79 * kGibi);
  CHECK_THAT(alone.too_large->what,
             ContainsSubstring("87.0 GiB for weights") && ContainsSubstring("--tp 2"));

  const Wanted two("mixtral", 2);
  const auto divided = two.room(4096).oracle(k80, k80);
  CHECK_FALSE(divided.too_large);
  CHECK(divided.divided);
  CHECK_THAT(divided.note, ContainsSubstring("also divided between 2 ranks"));
  // Where one device has room for the whole, nothing is divided that need not be.
  CHECK_FALSE(two.room(4096).oracle(k141, k141).divided);
  // Two ranks on one device are the whole again.
  CHECK(two.room(4096, 2).oracle(k80, k80).too_large);
}

TEST_CASE("run_room_gives_llama_as_many_pages_as_fit") {
  const Wanted llama("llama3.1");
  CHECK_FALSE(llama.room(131072).oracle(k80, k80).too_large);
  const fk::DeviceMemoryBudget beside_weights{"an 80 GB device", 79 * kGibi, 62 * kGibi};
  const auto fewer = llama.room(131072).pages(beside_weights, 1);
  CHECK(fewer.pages == 29696);  // of 2 MiB, in 58 GiB
  CHECK_THAT(fewer.note, ContainsSubstring("29696 pages and not 48000"));
  CHECK(fewer.why.empty());
  // A candidate's process and session come on top.
  CHECK(llama.room(131072).pages(beside_weights, 2).pages == 27648);
  const fk::DeviceMemoryBudget large{"a 141 GB device", 139 * kGibi, 123 * kGibi};
  const auto all = llama.room(131072).pages(large, 1);
  CHECK(all.pages == 48000);
  CHECK(all.note.empty());
}

TEST_CASE("run_room_for_less_than_the_longest_request_is_none") {
  const Wanted llama("llama3.1");
  const fk::DeviceMemoryBudget busy{"a busy device", 79 * kGibi, 10 * kGibi};
  const auto none = llama.room(131072).pages(busy, 1);
  CHECK_FALSE(none.too_large);  // it has the memory, and somebody else uses it
  CHECK_THAT(none.why, ContainsSubstring("10.0 GiB of a busy device are free"));
  CHECK(llama.room(4096).pages(busy, 1).pages == 3072);
  const fk::DeviceMemoryBudget small{"a 24 GB device", 23 * kGibi, 7 * kGibi};
  const auto lack = llama.room(131072).pages(small, 1);
  REQUIRE(lack.too_large);
  CHECK(lack.too_large->needs_bytes > 35 * kGibi);
}

TEST_CASE("room_of_caches_follows_from_their_pages") {
  const Wanted llama("llama3.1");
  const fk::CacheRoom room(*llama.model, catalog(), llama.scenario.limits);
  CHECK(room.has_pages());
  CHECK(room.wanted() == 48000);
  CHECK(room.bytes(48000) == fk::states_bytes(*llama.model, catalog(), llama.scenario.limits));
  CHECK(room.pages_in(0) == 0);
  CHECK(room.pages_in(5 * (2 << 20) + 1) == 5);
  fk::Limits any = llama.scenario.limits;
  any.pages = 0;
  const fk::CacheRoom for_any(*llama.model, catalog(), any);
  CHECK(for_any.wanted() == any.max_batch * any.max_context / any.page_size);
  // States that are a request's have no pages.
  const Wanted mamba("mamba2");
  CHECK_FALSE(fk::CacheRoom(*mamba.model, catalog(), mamba.scenario.limits).has_pages());
  CHECK(mamba.room(4096).pages(k80, 1).note.empty());
}

// If this fails, `run` refuses the results of models with large outputs, such as videos.
TEST_CASE("results_may_be_as_large_as_the_outputs_of_a_model") {
  Wanted video("hunyuan_video");
  const fk::Config& config = video.scenario.config;
  const auto frame =
      static_cast<uint64_t>(config.integer("height") * config.integer("width") * 3 * 4);
  CHECK(fk::result_bytes(*video.model, catalog(), video.scenario.limits) ==
        static_cast<uint64_t>(config.integer("num_frames")) * frame);
  video.scenario.config = config.with(fk::Json{{"num_frames", 121}});
  video.model = video.scenario.make();
  CHECK(fk::result_bytes(*video.model, catalog(), video.scenario.limits) == 121 * frame);
  CHECK(121 * frame > uint64_t{256} << 20);  // the limit without it
}
