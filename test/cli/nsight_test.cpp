// SPDX-License-Identifier: Apache-2.0
// Pages of Nsight Compute as an H200 gave them for one matrix product, and the advice from them.
#include "core/cli/nsight.hpp"

#include <algorithm>

#include "core/base/io.hpp"
#include "test/catch.hpp"

namespace {

fk::KernelProfile product() {
  const std::string folder = FK_SOURCE "/test/cli/nsight/";
  const auto kernels =
      fk::read_nsight(fk::read_file(folder + "raw.csv"), fk::read_file(folder + "source.csv"));
  REQUIRE(kernels.size() == 1);
  return kernels[0];
}

bool some_hint(const fk::KernelProfile& kernel, const std::string& words) {
  const auto hints = fk::profile_hints(kernel);
  return std::any_of(hints.begin(), hints.end(),
                     [&](const auto& hint) { return hint.find(words) != hint.npos; });
}

}  // namespace

TEST_CASE("nsight_figures_of_a_kernel") {
  const auto k = product();
  CHECK(k.kernel.find("gemm_kernel<__nv_bfloat16, 16, 64") != k.kernel.npos);
  CHECK(k.seconds == Approx(31.36e-6));
  CHECK(k.compute == Approx(0.2627));
  CHECK(k.memory == Approx(0.2310));
  CHECK(k.dram == Approx(0.2302));
  CHECK(k.l2 == Approx(0.2925));
  CHECK(k.l1 == Approx(0.2418));
  CHECK(k.tensor == Approx(0.0336));
  CHECK(k.occupancy == Approx(0.1460));
  CHECK(k.occupancy_possible == Approx(0.1875));
  CHECK(k.occupancy_limit == "shared memory");
  CHECK(k.registers == 36);
  CHECK(k.shared_bytes == 70144);
  CHECK(k.waves == Approx(1.13));
}

TEST_CASE("nsight_stalls_are_shares_of_all_cycles") {
  const auto k = product();
  REQUIRE(k.stalls.size() == 5);
  CHECK(k.stalls[0].reason == "wait");
  CHECK(k.stalls[0].share == Approx(1.89 / 5.85));
  CHECK(k.stalls[1].reason == "barrier");
  CHECK(k.stalls[1].share == Approx(0.92 / 5.85));
  for (const auto& stall : k.stalls) CHECK(stall.reason != "selected");
}

TEST_CASE("nsight_counts_accesses_in_vain_and_names_the_hottest_places") {
  const auto k = product();
  CHECK(k.bank_conflicts == Approx(1 - 358400.0 / 649600));
  CHECK(k.excess_sectors == Approx(1 - 716800.0 / 1075200));
  REQUIRE(k.lines.size() >= 2);
  CHECK(k.lines[0].place == "+0x68e0");
  CHECK(k.lines[0].code == "UCGABAR_WAIT");
  CHECK(k.lines[0].share == Approx(185.0 / 655));
  CHECK(k.lines[0].stall == "barrier");
  CHECK(k.lines[1].share == Approx(107.0 / 655));
}

TEST_CASE("nsight_hints_follow_from_the_figures") {
  auto k = product();
  CHECK(some_hint(k, "33 % of the sectors"));
  CHECK(some_hint(k, "45 % of the accesses to shared memory"));
  CHECK(some_hint(k, "32 % wait: "));
  CHECK(some_hint(k, "at most 19 % of the warps fit, by shared memory"));
  CHECK_FALSE(some_hint(k, "barrier:"));  // 16 % of the cycles is little
  CHECK_FALSE(some_hint(k, "of its peak"));
  k.dram = 0.91;
  CHECK(some_hint(k, "memory of the device is at 91 % of its peak"));
  CHECK_FALSE(some_hint(k, "of the warps fit"));
  k.dram = 0.1, k.compute = 0.95;
  CHECK(some_hint(k, "the multiprocessors are at 95 % of their peak"));
  k.waves = 0.25;
  CHECK(some_hint(k, "the grid fills 25 % of the device"));
}

TEST_CASE("nsight_pages_without_tables_have_no_kernels") {
  CHECK(fk::read_nsight("", "").empty());
  CHECK(fk::read_nsight("==ERROR== no kernels were profiled\n", "").empty());
  const std::string raw = fk::read_file(FK_SOURCE "/test/cli/nsight/raw.csv");
  const auto alone = fk::read_nsight(raw, "==ERROR== no source\n");
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].lines.empty());
  CHECK(alone[0].waves == Approx(1.13));
  // A table that was cut in the middle of a row has what it has.
  const auto cut = fk::read_nsight(raw.substr(0, raw.size() - 40), "");
  CHECK(cut.size() <= 1);
}
