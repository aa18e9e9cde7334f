// SPDX-License-Identifier: Apache-2.0
// Every hidden variant of a small case is a call that the reference takes, and has numbers.
#include "core/judge/plan/hidden_cases.hpp"

#include <cmath>

#include "core/tensor/random.hpp"
#include "test/catch.hpp"
#include "test/numerics/reference.hpp"

namespace {

bool all_finite(const fk::CaseValues& values) {
  for (const auto& [name, tensors] : values)
    for (const auto& tensor : tensors)
      for (int64_t i = 0; i < tensor.numel(); ++i)
        if (!std::isfinite(tensor.at(i))) return false;
  return true;
}

}  // namespace

TEST_CASE("what_is_drawn_is_a_call_that_can_be_made") {
  Reference reference;
  const auto device = fk::open_device("cpu");
  reference.options.device = device.get();
  int calls = 0, refused = 0;
  for (const auto& op : reference.catalog.ops()) {
    const fk::Contract& contract = reference.catalog.at(op);
    const auto providers = reference.plugins.of(op);
    if (providers.empty() || contract.comm()) continue;
    for (const fk::Case& source : contract.cases) {
      if (source.size == "full") continue;
      const auto variants = fk::hidden_variants(contract, source);
      for (size_t i = 0; i < variants.size(); ++i) {
        for (uint64_t draw = 1; draw < (contract.level > 1 ? 10 : 4); draw += 2) {
          fk::AskedCase asked;
          asked.op = op;
          asked.name = source.name;
          asked.size = source.size;
          asked.variant = variants[i];
          asked.draw = fk::seed_of(op + source.name + variants[i], draw) | 1;
          const fk::PosedCase posed = fk::pose(asked, contract, source);
          INFO(op << " " << source.size << " " << source.name << ", " << asked.variant << ", "
                  << draw);
          const fk::ResolvedCase hidden = fk::resolve(contract, posed.source, posed.variant);
          std::string why;
          const auto inputs = fk::make_inputs(hidden, draw, 1);
          const auto want = fk::reference_outputs(*providers[0], hidden, posed.source,
                                                  posed.variant, inputs, reference.options, why);
          ++calls;
          // Switches of some ops go with shapes; then nothing is said.
          if (contract.level == 1 && why.starts_with("the reference provider refuses")) {
            ++refused;
            continue;
          }
          CHECK(why == "");
          CHECK_FALSE(want.empty());
          CHECK(all_finite(want));
        }
      }
    }
  }
  CHECK(calls > 1000);
  CHECK(refused < calls / 50);
}
