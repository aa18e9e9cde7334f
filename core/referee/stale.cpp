// SPDX-License-Identifier: Apache-2.0
#include "core/referee/stale.hpp"

#include <algorithm>
#include <random>

#include "core/cases/comparison.hpp"
#include "core/cases/numerics/families.hpp"

namespace fk {

namespace {

// Other contents for the same instance: its weights stay.
CaseValues others(const ConductCase& c, const CaseValues& values) {
  const ResolvedCase& resolved = c.frames.resolved();
  CaseValues out = make_inputs(resolved, c.options.seed + 0x5eed, c.options.threads);
  for (const auto& field : resolved.fields) {
    const auto it = values.find(field.slot->name);
    if (field.slot->section == SectionId::weights && it != values.end())
      out[field.slot->name] = it->second;
  }
  return out;
}

// The same contents but for one element of every float input.
CaseValues nearly(const ConductCase& c, const CaseValues& values, std::mt19937_64& random) {
  const ResolvedCase& resolved = c.frames.resolved();
  CaseValues out = values;
  for (const auto& field : resolved.fields) {
    const auto it = out.find(field.slot->name);
    if (it == out.end() || field.slot->section != SectionId::forward || !is_float(field.dtype) ||
        !family_may_change(resolved, field))
      continue;
    for (Tensor& tensor : it->second) {
      if (!tensor.numel()) continue;
      const auto at = static_cast<int64_t>(random() % static_cast<uint64_t>(tensor.numel()));
      tensor.set(at, tensor.at(at) + 1);
    }
  }
  return out;
}

}  // namespace

std::string stale(const ConductCase& c, const Oracles& oracles, const Variant& variant,
                  const CaseValues& values, const ConductCall& call) {
  const ResolvedCase& resolved = c.frames.resolved();
  std::string why;
  const Provider* oracle = oracle_of(oracles, c.provider, resolved, why);
  if (!oracle || oracle->op->claims->device_type != FK_CPU) return "";
  const auto reference = [&](const CaseValues& of) {
    return reference_outputs(*oracle, resolved, c.source, variant, of, c.options, why);
  };
  std::mt19937_64 random(c.options.seed);
  GuardDevice device(c.device, 0, c.options.threads);
  PackedCache packed;
  Execution execution(c.provider, c.max, c.need, device, packed, c.children);
  for (int round = 0; round < 4; ++round) {
    const CaseValues now = round == 0 ? others(c, values) : nearly(c, values, random);
    const CaseValues want = reference(now);
    if (!why.empty()) return "";
    CaseFrames frames(c.device, resolved, now, {});
    call(execution, c.frames);
    const Comparison found =
        compare_outputs(resolved, now, call(execution, frames), want, kQuickElements, reference);
    if (!found.ok)
      return std::string("right at first, wrong when the contents ") +
             (round == 0 ? "change: " : "change in one element: ") + found.text;
  }
  return "";
}

}  // namespace fk
