// SPDX-License-Identifier: Apache-2.0
// A plugin may leave something behind on a device's thread. The report names the function after
// which it is there. Leftovers of the host are not counted as the plugin's. The device is the CPU
// with made-up words.
#include "test/abi/frozen.hpp"
#include "test/abi/over_cpu.hpp"
#include "test/catch.hpp"

namespace {

class Words final : public OverCpu {
 public:
  int at = 0, asked = 0;  // the question that has words for an answer, from 1 on
  std::string left_behind() override { return ++asked == at ? "something" : ""; }
};

}  // namespace

TEST_CASE("what a plugin leaves behind is told of the function that it came after") {
#ifndef __x86_64__
  SUCCEED("the frozen binary is for x86-64");
  return;
#endif
  const FrozenSilu frozen;
  const fk::Provider& provider = frozen.provider();
  // Asked before and after create() and prepare(), before a run, after its plan() and its
  // forward().
  const char* const wanted[] = {"",
                                "",
                                "after create() and prepare() something",
                                "",
                                "after plan() something",
                                "after forward() something"};
  for (int at = 0; at < 6; ++at) {
    CAPTURE(at);
    Words device;
    const fk::CaseFrames frames(device, frozen.resolved, frozen.values, {});
    device.at = at;
    fk::GuardDevice guarded(device, 0, 1);
    fk::PackedCache packed;
    const fk::Support support = fk::Instance::supports(provider, frames.meta());
    REQUIRE(support.ok);
    fk::Execution execution(provider, frames, support.need, guarded, packed, nullptr);
    const auto first = execution.run(frames, fk::Poison::ones);
    CHECK(first.failure.empty());
    REQUIRE(first.broken.size() == (*wanted[at] ? 1 : 0));
    if (*wanted[at]) {
      CHECK(first.broken[0].rule == "state");
      CHECK(first.broken[0].text == wanted[at]);
    }
    // Told once.
    CHECK(execution.run(frames, fk::Poison::ones).broken.empty());
  }
}
