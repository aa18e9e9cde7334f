// SPDX-License-Identifier: Apache-2.0
// The gate: no null candidate passes on any smoke or ci case of any contract.
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/comparison.hpp"
#include "core/cases/numerics/null_candidates.hpp"
#include "core/referee/check.hpp"
#include "test/catch.hpp"

namespace {

// As written, and with every dtype that its variants have.
std::vector<fk::Variant> dtype_variants(const fk::Contract& contract, const fk::Case& source) {
  std::vector<fk::Variant> out;
  for (const auto& v : fk::variants_of(contract, source, false))
    if (v.axes.empty() && v.listed.empty() && !v.with && v.layout == fk::Variant::Layout::written)
      out.push_back(v);
  return out;
}

// All contracts, and the reference's ops.
struct Reference {
  Reference() {
    plugins.load(std::string(PLUGINS) + "/reference.so", fk::Trust::baseline);
    options.plugins = &plugins;
  }
  fk::Catalog catalog{{REGISTRY}};
  fk::Plugins plugins{catalog};
  fk::CheckOptions options;
};

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
      if (source.size == "full") continue;
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
        const auto accepted = fk::accepted_fakes(resolved, inputs, want, ask);
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

// An op that leaves a number of init out, or has one of its own in place of it, must not pass all
// of its smoke cases: an epsilon is nothing beside values of ordinary size.
TEST_CASE("gate_every_number_of_init_matters_in_a_case") {
  const Reference here;
  int numbers = 0;
  std::vector<std::string> without;
  for (const auto& op : here.catalog.ops()) {
    const fk::Contract& contract = here.catalog.at(op);
    const fk::Oracles oracles = fk::Oracles::of(here.plugins, op);
    if (!oracles.cpu || contract.comm()) continue;
    for (const fk::Slot& slot : contract.section(fk::SectionId::init)) {
      if (slot.kind != fk::SlotKind::number) continue;
      bool tried = false, told = false;
      for (const fk::Case& source : contract.cases) {
        if (source.size != "smoke" || told) continue;
        const auto resolved = fk::resolve(contract, source, {});
        const auto inputs = fk::make_inputs(resolved, 1, 2);
        std::string why;
        const auto ask = [&](const fk::Case& of, const fk::CaseValues& values) {
          return fk::reference_outputs(*oracles.cpu, fk::resolve(contract, of, {}), of, {}, values,
                                       here.options, why);
        };
        const auto want = ask(source, inputs);
        fk::Case other = source;
        other.init[slot.name] = "0";
        if (resolved.init[static_cast<size_t>(slot.index)].f == 0) other.init[slot.name] = "1";
        fk::CaseValues answer;
        try {
          answer = ask(other, inputs);
        } catch (const fk::Error&) {
          continue;  // not every number may be 0
        }
        if (!why.empty()) continue;
        tried = true;
        for (const auto* field : resolved.written())
          for (auto& t : answer.at(field->slot->name)) t = t.to(field->dtype);
        const fk::Comparer comparer(resolved, inputs, want, [&](const fk::CaseValues& values) {
          return ask(source, values);
        });
        told = !comparer.compare(answer, "").ok;
      }
      numbers += tried;
      if (tried && !told) without.push_back(op + ": " + slot.name);
    }
  }
  INFO("of " << numbers << " these could be left out:\n" << fk::join(without, "\n"));
  CHECK(without.empty());
  CHECK(numbers > 40);
}
