// SPDX-License-Identifier: Apache-2.0
// The hidden verb for a profiler (profile.hpp): calls of one judged case by the candidate alone, in
// this process. The first call, which loads code, and the making of contents are not profiled.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/cases/execute.hpp"
#include "core/cases/routing.hpp"
#include "core/check/plugin_set.hpp"
#include "core/cli/verb.hpp"
#include "core/judge/plan/case_plan.hpp"
#include "core/judge/rank_buffers.hpp"
#include "core/plugin/library.hpp"

namespace fk {
namespace {

struct ProfiledArguments {
  std::string plugin, sha256, op, device, secret, row_routing, routing, name, variant;
  JudgeOptions options;
};

// The profiled row, made as in the judgement.
AskedCase asked_of(const ProfiledArguments& a, const Catalog& catalog) {
  JudgeOptions options = a.options;
  options.cases = {a.name};
  options.skew = skew_of_routing(a.routing);
  if (!a.variant.empty()) options.variants = {a.variant};
  for (CasePlanEntry& entry : case_plan({a.op}, catalog, options)) {
    if (entry.row.variant != a.variant || entry.row.routing != a.row_routing) continue;
    if (entry.row.ranks > 1)
      fail(a.op, std::to_string(entry.row.ranks) + " ranks call it together; one is profiled");
    return entry.asked;
  }
  fail(a.op, "case " + a.name + " has no such variant or routing");
}

// Loads baselines for ops with children, as in a judgement.
void load(Plugins& plugins, const ProfiledArguments& a, int level) {
  const PluginSet plugin_set = PluginSet::of_baselines(a.device);
  Trust trust = Trust::candidate;
  std::error_code none;
  for (const auto& known : plugin_set.baselines)
    if (std::filesystem::equivalent(known.path, a.plugin, none)) trust = known.trust;
  const auto copy = loadable_copy(a.plugin);
  if (sha256_file(copy) != a.sha256) fail(a.plugin, "it is not the file that was judged");
  plugins.load(a.plugin, trust, copy);
  for (const auto& known : plugin_set.baselines)
    if (level > 1 && !std::filesystem::equivalent(known.path, a.plugin, none)) {
      try {
        plugins.load(known.path, known.trust);
      } catch (const Error&) {
        // It needs a missing library; the judge had no such baseline either.
      }
    }
}

// A graph of one call if the judge captured it; null: calls are eager.
std::shared_ptr<void> captured(const Provider& provider, Device& device, Execution& execution,
                               const std::vector<fk_slot>& frame) {
  if (!device.can_capture() || provider.op->claims->graph != FK_GRAPH_ALWAYS) return nullptr;
  device.begin_capture();
  device.mark_capture(provider.contract->op, provider.trust == Trust::candidate);
  const int32_t status = execution.forward(frame);
  auto graph = device.end_capture();
  if (status != FK_OK) fail(provider.plugin, "forward: it fails while it is captured");
  return graph;
}

void call(Execution& execution, const std::vector<fk_slot>& frame, Device& device, void* graph) {
  if (graph)
    device.launch(graph);
  else if (execution.forward(frame) != FK_OK)
    fail("forward", execution.instance().error().text);
  device.synchronize_all();
}

int profiled(const ProfiledArguments& a) {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at(a.op);
  const AskedCase asked = asked_of(a, catalog);
  const auto device = open_device(a.device);
  Plugins plugins(catalog);
  load(plugins, a, contract.level);
  if (plugins.of(a.op).empty()) fail(a.plugin, "it has no op " + a.op);
  const Provider& provider = *plugins.of(a.op).front();
  const PosedCase posed = pose(asked, contract, &catalog);
  const ResolvedCase resolved = resolve(contract, posed.source, posed.variant);
  // The first contents of the judgement, with the weights.
  const uint64_t seed = Secret::from_hex(a.secret, "--secret").seed(asked.key());
  const CaseValues values =
      make_inputs(resolved, seed_of("contents 0", seed), a.options.threads, Family::ordinary);
  const CaseFrames frames(*device, resolved, values, case_layout(posed.variant, 0));
  const Support support = Instance::supports(provider, frames.meta());
  if (!support.ok) fail(provider.plugin, "refused: " + support.why);
  GuardDevice guarded(*device, 0, a.options.threads);
  PackedCache packed;
  LoadedChildren children(plugins, provider);
  Execution execution(provider, frames, support.need, guarded, packed, &children);
  if (const std::string why = execution.plan(frames); !why.empty()) fail(provider.plugin, why);
  const auto frame = execution.fitted(frames);
  call(execution, frame, *device, nullptr);
  const auto graph = captured(provider, *device, execution, frame);
  const double skew = skew_of(resolved, values).value_or(0);
  std::printf("profiled: %s, case %s%s%s, inputs %016llx", a.op.c_str(), a.name.c_str(),
              a.variant.empty() ? "" : (", " + a.variant).c_str(), graph ? ", in a graph" : "",
              static_cast<unsigned long long>(seed));
  if (skew > 0) std::printf(", %s routing %.6g", a.row_routing.c_str(), skew);
  std::printf("\n");
  std::fflush(stdout);
  device->profile(true);
  call(execution, frame, *device, graph.get());
  device->profile(false);
  return kExitOk;
}

// Plugins stay mapped until the process ends. Their destructors must not run after the objects that
// they use are destroyed.
int profiled_alone(const ProfiledArguments& a) {
  int code = kExitFailed;
  try {
    code = profiled(a);
  } catch (const Error& error) {
    std::fprintf(stderr, "fk-host: %s\n", error.what());
  }
  std::fflush(nullptr);
  std::_Exit(code);
}

std::function<int()> add_profiled(const Options& app) {
  auto a = std::make_shared<ProfiledArguments>();
  app.add_option("plugin", a->plugin).required();
  app.add_option("--sha256", a->sha256).required();
  app.add_option("--op", a->op).required();
  app.add_option("--case", a->name).required();
  app.add_option("--size", a->options.size).required();
  app.add_option("--device", a->device).required();
  app.add_option("--secret", a->secret).required();
  app.add_option("--threads", a->options.threads);
  app.add_option("--variant", a->variant);
  app.add_option("--captured", a->options.captured);
  app.add_option("--routing", a->routing);
  app.add_option("--row-routing", a->row_routing);
  return [a] { return profiled_alone(*a); };
}

FK_VERB(__profiled, "", add_profiled);

}  // namespace
}  // namespace fk
