// SPDX-License-Identifier: Apache-2.0
// The oracle of a device for ops above L1 is the decomposition over the kernels of cuda_reference,
// here as C++. It is compared with `reference`, and must be found at the sizes of real models.
#include "core/judge/oracle/composition.hpp"

#include <optional>
#include <set>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/comparison.hpp"
#include "core/cases/exact_call.hpp"
#include "core/check/check.hpp"
#include "core/graph/builder.hpp"
#include "test/catch.hpp"

namespace {

const char* const kEmulated = "cuda_reference_emulated";

struct Loaded {
  Loaded() : cpu(fk::open_device("cpu")) {
    plugins.load(REFERENCE, fk::Trust::baseline);
    plugins.load(EMULATED, fk::Trust::baseline);
    options.plugins = &plugins;
  }
  fk::Catalog catalog{{REGISTRY}};
  fk::Plugins plugins{catalog};
  fk::CheckOptions options;
  std::unique_ptr<fk::Device> cpu;

  const fk::Provider* find(const std::string& plugin, const std::string& op) const {
    for (const fk::Provider* p : plugins.of(op))
      if (p->plugin == plugin) return p;
    return nullptr;
  }
  // Ops whose oracle on a device is a composition.
  std::vector<std::string> composed() const {
    std::vector<std::string> out;
    for (const auto& op : catalog.ops())
      if (fk::find_expansion(op) && !catalog.at(op).comm() && !find(kEmulated, op))
        out.push_back(op);
    return out;
  }
};

// The dtypes that are checked of a case. Weights of 8 bits stay: decompositions know them by their
// scales.
std::vector<fk::Variant> dtypes_of(const fk::Contract& contract, const fk::Case& source) {
  std::vector<fk::Variant> out;
  for (auto& v : fk::variants_of(contract, source, false))
    if (v.axes.empty() && v.listed.empty() && !v.with && v.layout == fk::Variant::Layout::written)
      out.push_back(std::move(v));
  std::erase_if(out, [&](const fk::Variant& v) {
    const auto other = fk::resolve(contract, source, v);
    for (const auto& f : fk::resolve(contract, source, {}).fields)
      if (fk::bytes(f.dtype) == 1 && other.find(f.slot->name) &&
          other.find(f.slot->name)->dtype != f.dtype)
        return true;
    return false;
  });
  return out;
}

// A case of the same constructor whose free axes are too large for the CPU. Nothing if the op adds
// up few numbers whatever the axes are.
std::optional<fk::Variant> out_of_reach(const fk::Contract& contract, const fk::Case& source) {
  fk::Variant out;
  for (int64_t factor = 2; factor < (int64_t{1} << 24); factor *= 2) {
    for (const auto& [axis, value] : source.axes) out.axes[axis] = value * factor;
    const auto resolved = fk::resolve(contract, source, out);
    if (contract.flops.eval(resolved.axes) > int64_t{30'000'000'000}) return out;
  }
  return std::nullopt;
}

}  // namespace

// Both answers are float32, so that what is compared is arithmetic: bfloat16 between two parts
// would be far from it.
TEST_CASE("composition_of_every_op_above_l1_is_right_in_float32") {
  const Loaded here;
  int cases = 0;
  std::vector<std::string> wrong;
  for (const auto& op : here.composed()) {
    const fk::Contract& contract = here.catalog.at(op);
    const fk::Provider* const reference = here.find("reference", op);
    REQUIRE(reference);
    for (const fk::Case& source : contract.cases) {
      // Threads are fibers here: a call of 65,536 rows would take minutes.
      if (source.size == "full" || source.size == fk::kRangeSize) continue;
      for (const fk::Variant& variant : dtypes_of(contract, source)) {
        const auto resolved = fk::resolve(contract, source, variant);
        const auto exact = fk::exact_call(resolved, source, variant, fk::Exact::wide);
        const auto inputs = fk::make_inputs(resolved, 7, 2);
        const std::string where = op + ", case " + source.name + ", " + variant.name + ": ";
        std::string why;
        const auto ask = [&](const fk::CaseValues& values) {
          return fk::reference_outputs(*reference, resolved, source, variant, values, here.options,
                                       why);
        };
        const auto want = ask(inputs);
        if (!why.empty()) continue;  // the reference refuses a dtype
        ++cases;
        try {
          const auto got = fk::composed_outputs(here.plugins, kEmulated, resolved, source, variant,
                                                inputs, *here.cpu);
          const auto found = fk::compare_outputs(exact, inputs, got, want, fk::kMostElements, ask);
          if (!found.ok) wrong.push_back(where + found.text);
        } catch (const fk::Error& e) {
          wrong.push_back(where + e.what());
        }
      }
    }
  }
  INFO(wrong.size() << " of " << cases << ":\n" << fk::join(wrong, "\n"));
  CHECK(wrong.empty());
  CHECK(here.composed().size() >= 27);
  CHECK(cases > 200);
}

// A form that is right in a model has to be right before the judge.
TEST_CASE("composition_that_rounds_between_its_parts_is_right") {
  const Loaded here;
  int cases = 0;
  std::vector<std::string> wrong;
  for (const auto& op : here.composed()) {
    const fk::Contract& contract = here.catalog.at(op);
    const fk::Provider* const reference = here.find("reference", op);
    for (const fk::Case& source : contract.cases) {
      // Threads are fibers here: a call of 65,536 rows would take minutes.
      if (source.size == "full" || source.size == fk::kRangeSize) continue;
      for (const fk::Variant& variant : dtypes_of(contract, source)) {
        const auto resolved = fk::resolve(contract, source, variant);
        for (const uint64_t seed : {1, 2, 3}) {
          const auto inputs = fk::make_inputs(resolved, seed, 2);
          std::string why;
          const auto ask = [&](const fk::CaseValues& values) {
            return fk::reference_outputs(*reference, resolved, source, variant, values,
                                         here.options, why);
          };
          const auto want = ask(inputs);
          if (!why.empty()) continue;  // the reference refuses a dtype
          const std::string where = op + ", case " + source.name + ", " + variant.name + ", seed " +
                                    std::to_string(seed) + ": ";
          try {
            const auto got =
                fk::chained_outputs(here.plugins, kEmulated, resolved, inputs, *here.cpu);
            const auto found =
                fk::compare_outputs(resolved, inputs, got, want, fk::kMostElements, ask);
            ++cases;
            if (!found.ok) wrong.push_back(where + found.text);
          } catch (const fk::Error& e) {
            wrong.push_back(where + e.what());
          }
        }
      }
    }
  }
  INFO(wrong.size() << " of " << cases << ":\n" << fk::join(wrong, "\n"));
  CHECK(wrong.empty());
  CHECK(cases > 600);
}

// At these sizes the CPU only says if every part would be taken.
TEST_CASE("composition_is_the_oracle_of_what_is_too_large_for_the_cpu") {
  const Loaded here;
  std::set<std::string> large;
  std::vector<std::string> without;
  for (const auto& op : here.composed()) {
    const fk::Contract& contract = here.catalog.at(op);
    for (const fk::Case& source : contract.cases) {
      if (source.size == fk::kRangeSize) continue;
      const auto variant = out_of_reach(contract, source);
      if (!variant) continue;
      const auto resolved = fk::resolve(contract, source, *variant);
      std::string why;
      const fk::Oracles both{here.find("reference", op), &fk::composed_oracle()};
      CHECK(fk::oracle_of({both.cpu, nullptr}, FK_CUDA, resolved, why) == nullptr);
      CHECK(fk::oracle_of(both, FK_CUDA, resolved, why) == &fk::composed_oracle());
      why = fk::why_not_composed(here.plugins, kEmulated, resolved, source, *variant, FK_CPU);
      if (!why.empty()) without.push_back(op + ", case " + source.name + ": " + why);
      large.insert(op);
    }
  }
  INFO(fk::join(without, "\n"));
  CHECK(without.empty());
  CHECK(large.size() + 1 >= here.composed().size());  // bert_embedding adds up rows
}

TEST_CASE("composition_is_the_oracle_where_its_plugin_is_and_has_not_the_op_itself") {
  const Loaded here;
  CHECK(fk::Oracles::of(here.plugins, "fused_moe").device == nullptr);
  fk::Plugins device(here.catalog);
  device.load(BY_NAME, fk::Trust::baseline);
  CHECK(fk::Oracles::of(device, "fused_moe").device == &fk::composed_oracle());
  CHECK(fk::Oracles::of(device, "linear").device == device.of("linear").at(0));
  // No decomposition; and ranks that talk are not composed.
  CHECK(fk::Oracles::of(device, "rms_norm").device == nullptr);
  CHECK(fk::Oracles::of(device, "fused_moe_ep").device == nullptr);
}
