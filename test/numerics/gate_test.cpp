// SPDX-License-Identifier: Apache-2.0
// The gate: no mutant passes on any smoke or ci case of any contract.
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/comparison.hpp"
#include "core/cases/numerics/mutants.hpp"
#include "core/check/check.hpp"
#include "test/catch.hpp"
#include "test/numerics/reference.hpp"

namespace {

// As written, and with every dtype that its variants have.
std::vector<fk::Variant> dtype_variants(const fk::Contract& contract, const fk::Case& source) {
  std::vector<fk::Variant> out;
  for (const auto& v : fk::variants_of(contract, source, false))
    if (v.axes.empty() && v.listed.empty() && !v.with && v.layout == fk::Variant::Layout::written)
      out.push_back(v);
  return out;
}

}  // namespace

TEST_CASE("gate_no_fake_passes_on_any_case") {
  const Reference here;
  int cases = 0;
  std::vector<std::string> untestable;
  for (const auto& op : here.catalog.ops()) {
    const fk::Contract& contract = here.catalog.at(op);
    const fk::Oracles oracles = fk::Oracles::of(here.plugins, op);
    if (!oracles.cpu) continue;
    for (const fk::Case& source : contract.cases) {
      if (source.size == "full" || source.size == fk::kRangeSize) continue;
      for (const fk::Variant& variant : dtype_variants(contract, source)) {
        const auto resolved = fk::resolve(contract, source, variant);
        const auto inputs = fk::make_inputs(resolved, 1, 2);
        std::string why;
        const auto ask = [&](const fk::CaseValues& values) {
          return fk::reference_outputs(*oracles.cpu, resolved, source, variant, values,
                                       here.options, why);
        };
        const auto want = ask(inputs);
        if (!why.empty()) continue;  // the reference refuses a dtype
        ++cases;
        const auto accepted = fk::accepted_mutants(resolved, inputs, want, ask);
        if (!accepted.empty())
          untestable.push_back(op + ", case " + source.name + " (" + source.size + "), " +
                               variant.name + ": " + fk::join(accepted, "; "));
      }
    }
  }
  INFO(untestable.size() << " of " << cases << " cases are untestable:\n"
                         << fk::join(untestable, "\n"));
  CHECK(untestable.empty());
  CHECK(cases > 300);
}
