// SPDX-License-Identifier: Apache-2.0
// Every hidden width has contents, and the reference takes it and is right for it.
#include "core/judge/plan/hidden_shapes.hpp"

#include <algorithm>

#include "core/judge/plan/hidden_cases.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"
#include "test/numerics/reference.hpp"

TEST_CASE("a_drawn_width_is_a_call_that_can_be_made") {
  Reference reference;
  const auto device = fk::open_device("cpu");
  reference.options.device = device.get();
  int calls = 0;
  for (const auto& op : reference.catalog.ops()) {
    const fk::Contract& contract = reference.catalog.at(op);
    const auto providers = reference.plugins.of(op);
    for (const fk::Case& source : contract.cases) {
      if (source.size == "full" || providers.empty()) continue;
      for (const auto& variant : fk::width_variants(contract, source)) {
        for (uint64_t draw = 1; draw < (source.size == "smoke" ? 200 : 4); draw += 2) {
          fk::AskedCase asked;
          asked.op = op;
          asked.name = source.name;
          asked.size = source.size;
          asked.variant = variant;
          asked.draw = fk::seed_of(op + source.name, draw);
          const fk::PosedCase posed = fk::pose(asked, contract, source);
          INFO(op << " " << source.size << " " << source.name << ", " << variant << ", " << draw
                  << ": " << posed.source.init.at(fk::width_of(variant)));
          const fk::ResolvedCase hidden = fk::resolve(contract, posed.source, posed.variant);
          std::string why;
          const auto inputs = fk::make_inputs(hidden, draw, 1);
          CHECK_FALSE(fk::reference_outputs(*providers[0], hidden, posed.source, posed.variant,
                                            inputs, reference.options, why)
                          .empty());
          CHECK(why == "");
          ++calls;
        }
      }
    }
  }
  CHECK(calls > 1000);
}
