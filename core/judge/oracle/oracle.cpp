// SPDX-License-Identifier: Apache-2.0
// Chooses the reference that answers a case, and gets its answer.
#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/exact_call.hpp"
#include "core/cases/execute.hpp"
#include "core/check/check.hpp"
#include "core/check/plugin_set.hpp"
#include "core/graph/builder.hpp"
#include "core/judge/oracle/composition.hpp"

namespace fk {

namespace {

// One core's operations in double in about a second, and the most that are worth a wait when there
// is no other oracle.
constexpr double kCpuFlops = 1e9, kCpuFlopsMax = 2e10;
// Larger cases take a CPU seconds, and are left to GPUs.
constexpr double kCaseFlopsMax = 5e9;
constexpr int64_t kCpuBytes = int64_t{32} << 20;

}  // namespace

Oracles Oracles::of(const Plugins& plugins, const std::string& op) {
  Oracles out;
  for (const Provider* p : plugins.of(op)) {
    if (p->plugin == "reference") out.cpu = p;
    // A vendor's reference of an own op. A candidate must not judge itself.
    if (!out.cpu && p->trust == Trust::baseline && starts_with(p->plugin, kVendorReference) &&
        p->op->claims->device_type == FK_CPU)
      out.cpu = p;
    if (p->plugin == composed_oracle().plugin) out.device = p;
  }
  const auto loaded = plugins.plugin_names();
  const bool here =
      std::find(loaded.begin(), loaded.end(), composed_oracle().plugin) != loaded.end();
  const Contract* const contract = plugins.catalog().find(op);
  if (!out.device && here && contract && !contract->comm() && find_expansion(op))
    out.device = &composed_oracle();
  return out;
}

std::string too_large_for_cpu(const ResolvedCase& resolved) {
  const auto flops = resolved.contract->flops.eval(resolved.axes);
  if (static_cast<double>(flops) <= kCaseFlopsMax) return "";
  return "left out on the CPU: " + human_count(flops) + " operations";
}

const Provider* oracle_of(const Oracles& oracles, const Provider& provider,
                          const ResolvedCase& resolved, std::string& why) {
  const Oracles others{oracles.cpu, oracles.device == &provider ? nullptr : oracles.device};
  return oracle_of(others, provider.op->claims->device_type, resolved, why);
}

const Provider* oracle_of(const Oracles& oracles, int32_t device_type, const ResolvedCase& resolved,
                          std::string& why) {
  const auto flops = static_cast<double>(resolved.contract->flops.eval(resolved.axes));
  int64_t bytes = 0;
  for (const auto& f : resolved.fields)
    if (f.present) bytes += shape_bytes(f.shape, f.dtype) * f.entries;
  const bool small = flops <= kCpuFlops && bytes <= kCpuBytes;
  const bool on_device = oracles.device && device_type == FK_CUDA;
  if (on_device && (!small || !oracles.cpu)) return oracles.device;
  if (!oracles.cpu) {
    why = "no reference provider implements " + resolved.contract->op;
    return nullptr;
  }
  // On the CPU there is no other oracle, so its time is accepted.
  if (flops > kCpuFlopsMax && device_type == FK_CUDA) {
    why = "the case is too large for the reference on the CPU";
    return nullptr;
  }
  return oracles.cpu;
}

CaseValues reference_outputs(const Provider& reference, const ResolvedCase& resolved,
                             const Case& source, const Variant& variant, const CaseValues& values,
                             const CheckOptions& options, std::string& why) {
  if (&reference == &composed_oracle()) {
    FK_CHECK(options.plugins && options.device, "composed_outputs() needs plugins and a device");
    try {
      return composed_outputs(*options.plugins, reference.plugin, resolved, source, variant, values,
                              *options.device);
    } catch (const HostError&) {
      throw;
    } catch (const Error& e) {
      why = std::string("the composed oracle failed: ") + e.what();
      return {};
    }
  }
  // Large weights keep their dtype if the oracle takes it.
  const bool on_device = reference.op->claims->device_type != FK_CPU;
  const auto cpu = open_device("cpu");
  Device& device = on_device ? *options.device : *cpu;
  const auto dress = [&](Exact which) {
    const ResolvedCase call = exact_call(resolved, source, variant, which);
    Layout layout;
    layout.snapshot = false;
    return std::make_unique<CaseFrames>(device, call, values, layout);
  };
  auto placed = dress(on_device ? exact_on_device(resolved, values) : Exact::all);
  Support support = Instance::supports(reference, placed->meta());
  if (!support.ok && on_device) {
    placed = dress(Exact::all);
    support = Instance::supports(reference, placed->meta());
  }
  const CaseFrames& frames = *placed;
  if (!support.ok) {
    why = "the reference provider refuses: " + support.why;
    return {};
  }
  CaseValues out;
  try {
    GuardDevice guarded(device, 0, options.threads);
    PackedCache packed;
    std::unique_ptr<LoadedChildren> children;
    if (options.plugins) children = std::make_unique<LoadedChildren>(*options.plugins, reference);
    Execution execution(reference, frames, support.need, guarded, packed, children.get());
    why = execution.plan(frames);
    if (!why.empty()) return {};
    if (execution.forward(execution.fitted(frames)) != FK_OK) {
      why = std::string("the reference provider failed: ") + execution.instance().error().text;
      return {};
    }
    device.synchronize();
    out = frames.written();
  } catch (const HostError&) {
    throw;
  } catch (const Error& e) {
    why = std::string("the reference provider failed: ") + e.what();
    return {};
  }
  return out;
}

CaseValues changed_outputs(const Provider& reference, const ResolvedCase& resolved,
                           const Case& source, const Variant& variant, const CallChange& change,
                           const CaseValues& values, const CheckOptions& options) {
  if (resolved.contract->comm()) return {};
  Case other = source;
  for (const auto& [name, text] : change.init) other.init[name] = text;
  Variant its = variant;
  if (!change.without.empty()) {
    auto& with = its.with ? *its.with : its.with.emplace(source.with);
    std::erase_if(with, [&](const std::string& name) { return contains(change.without, name); });
  }
  try {
    const ResolvedCase changed = resolve(*resolved.contract, other, its);
    CaseValues left = values;
    std::erase_if(left, [&](const auto& field) { return !changed.find(field.first); });
    std::string why;
    return reference_outputs(reference, changed, other, its, left, options, why);
  } catch (const HostError&) {
    throw;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace fk
