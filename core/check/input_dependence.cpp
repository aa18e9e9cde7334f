// SPDX-License-Identifier: Apache-2.0
#include "core/check/input_dependence.hpp"

#include <algorithm>
#include <optional>
#include <random>

#include "core/cases/comparison.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/check/rank_oracle.hpp"

namespace fk {

namespace {

// Other contents by rank for the same instance, which keeps its weights.
std::vector<CaseValues> others(const ConformanceCase& c, const std::vector<CaseValues>& values) {
  const ResolvedCase& resolved = c.frames.resolved();
  auto out = contents_of_ranks(resolved, c.options.seed + 0x5eed, c.options.threads);
  for (const auto& field : resolved.fields) {
    const std::string& name = field.slot->name;
    for (size_t r = 0; r < values.size(); ++r)
      if (field.slot->section == SectionId::weights && values[r].count(name))
        out[r][name] = values[r].at(name);
  }
  return out;
}

// The same contents, with one element changed in each float input. Ranks change the same element of
// data that they hold in common.
CaseValues nearly(const ConformanceCase& c, const CaseValues& values, std::mt19937_64 random) {
  const ResolvedCase& resolved = c.frames.resolved();
  CaseValues out = values;
  for (const auto& field : resolved.fields) {
    const auto it = out.find(field.slot->name);
    if (it == out.end() || field.slot->section != SectionId::forward || !is_float(field.dtype) ||
        !family_may_change(resolved, field))
      continue;
    for (Tensor& tensor : it->second) {
      if (!tensor.numel()) continue;
      const int64_t count = tensor.numel();
      const auto at = static_cast<int64_t>(random() % static_cast<uint64_t>(count));
      // An element from a range (a probability, a scale) becomes its neighbour, and so stays in the
      // range.
      const bool range = !field.values.empty() && field.values.find("normal") != 0;
      tensor.set(at, range ? tensor.at((at + 1) % count) : tensor.at(at) + 1);
    }
  }
  return out;
}

}  // namespace

StaleFinding stale(const ConformanceCase& c, const Oracles& oracles, const Variant& variant,
                   const CaseValues& values, const ConformanceCall& call) {
  const ResolvedCase& resolved = c.frames.resolved();
  std::string why;
  const Provider* oracle = oracle_of(oracles, c.provider, resolved, why);
  if (!oracle || oracle->op->claims->device_type != FK_CPU) return {};
  auto first = contents_of_ranks(resolved, c.options.seed, c.options.threads);
  const auto rank = static_cast<size_t>(resolved.rank);
  first[rank] = values;
  std::vector<CaseValues> now;
  const auto reference = [&](const CaseValues& of) {
    now[rank] = of;
    return reference_of_ranks(*oracle, resolved, c.source, variant, now, c.options, why);
  };
  GuardDevice device(c.device, 0, c.options.threads);
  PackedCache packed;
  Execution execution(c.provider, c.max, c.need, device, packed, c.children);
  // The contents change in other buffers, and in the first rounds in the same ones too: that finds
  // answers which are kept by address.
  constexpr int kSameBuffers = 2;  // rounds: all contents, and one element
  std::optional<CaseFrames> same;
  for (int round = 0; round < 4; ++round) {
    now = round == 0 ? others(c, first) : first;
    for (CaseValues& contents : now)
      if (round != 0)
        contents =
            nearly(c, contents, std::mt19937_64(c.options.seed + static_cast<size_t>(round)));
    const CaseValues own = now[rank], want = reference(own);
    if (!why.empty()) return {};
    const auto compare = [&](Execution& of, CaseFrames& on) {
      return compare_outputs(resolved, own, call(of, on), want, kQuickElements, reference);
    };
    CaseFrames frames(c.device, resolved, own, {});
    call(execution, c.frames);
    Comparison found = compare(execution, frames);
    const bool moved = !found.ok;
    if (!moved && round < kSameBuffers) {
      if (same)
        same->refill(values);
      else
        same.emplace(c.device, resolved, values, Layout{});
      call(execution, *same);
      same->refill(own);
      found = compare(execution, *same);
    }
    if (found.ok) continue;
    const std::string when = std::string(moved ? "when the contents change"
                                               : "when the contents of the same buffers change") +
                             (round == 0 ? "" : " in one element");
    // If a first call is as wrong, nothing was kept; the other contents only reveal an error. Ranks
    // would have to make that call together.
    if (!c.provider.contract->comm()) {
      GuardDevice other(c.device, 0, c.options.threads);
      PackedCache none;
      Execution fresh(c.provider, c.max, c.need, other, none, c.children);
      CaseFrames alone(c.device, resolved, own, {});
      const Comparison again = compare(fresh, alone);
      if (!again.ok) return {false, again.worst, again.text + " (" + when + ")"};
    }
    return {true, 0, "right at first, wrong " + when + ": " + found.text};
  }
  return {};
}

}  // namespace fk
