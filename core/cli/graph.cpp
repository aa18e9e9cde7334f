// SPDX-License-Identifier: Apache-2.0
// fk-host graph SCENARIO: prints the recorded graph of a phase as DOT or Mermaid, expanded to a
// level. A worker process chooses each node's provider as a run would. Edges are buffers: from the
// last writer to its readers.
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/check/plugin_set.hpp"
#include "core/cli/verb.hpp"
#include "core/device/device.hpp"
#include "core/engines/scenario.hpp"
#include "core/exec/lower.hpp"
#include "core/worker/runner.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {

struct GraphArguments {
  std::string scenario, phase, format = "dot", profile = "tiny", candidate, device;
  int level = 1;
};

// ---- in the worker ----

struct ProviderChoice {
  std::string path, op, provider;
  FK_FIELDS(path, op, provider)
};
struct GraphProviders {
  static constexpr const char* kName = "graph_providers";
  using Answer = std::vector<ProviderChoice>;
  SessionSpec spec;
  std::string phase;
  FK_FIELDS(spec, phase)
};

std::vector<ProviderChoice> choose_providers(const GraphProviders& asked,
                                             const TaskServices& services) {
  SessionSpec spec = asked.spec;
  const std::string& phase = asked.phase;
  services.stage("choosing providers");
  const auto device = open_device(spec.device);
  spec.policy.device_type = device->type();
  const auto model = make_model(spec.arch, spec.config);
  Graph graph =
      record(*model, services.catalog, phase, spec.limits, std::make_shared<WeightTable>());
  Axes limits;
  for (const auto& axis : graph.axes)
    limits[axis] = model->engine()->axis_limit(phase, axis, spec.limits);
  const auto lowered = lower(services.catalog, std::move(graph), services.plugins, spec.policy,
                             device->type(), device->id(), limits, nullptr);
  std::vector<ProviderChoice> nodes;
  for (const auto& node : lowered->nodes)
    nodes.push_back({node.call.path, node.call.contract->op, node.provider->plugin});
  return nodes;
}
FK_TASK(choose_providers);

// ---- in the controller ----

// Provider by path and op. Empty when the worker failed; then stderr has the reason.
using Providers = std::map<std::pair<std::string, std::string>, std::string>;

Providers ask_providers(const Scenario& scenario, const std::string& phase,
                        const PluginSet& plugin_set, const std::string& candidate,
                        const std::string& device) {
  SessionSpec spec{scenario.arch, scenario.config, scenario.limits, {}, device};
  spec.policy.pins = scenario.providers;
  spec.policy.baselines = plugin_set.ranked();
  std::vector<PluginFile> files = plugin_set.baseline_files();
  if (!candidate.empty()) {
    const FoundPlugin* found = plugin_set.candidate(candidate);
    std::vector<std::string> known;
    for (const auto& c : plugin_set.candidates) known.push_back(plugin_name(c));
    if (!found)
      fail("--candidate", "there is no candidate `" + candidate + "`",
           did_you_mean(candidate, known));
    if (!found->error.empty()) fail(found->path.string(), found->error);
    files.push_back({found->path, found->trust});
    spec.policy.candidates = {candidate};
  }
  Runner::Options options;
  options.name = "the choice of providers";
  options.device = device;
  Runner runner(options);
  std::optional<std::vector<ProviderChoice>> nodes;
  if (!runner.failed() && runner.load(files)) nodes = runner.ask(GraphProviders{spec, phase});
  Providers out;
  if (nodes) {
    for (const auto& node : *nodes) out[{node.path, node.op}] = node.provider;
    return out;
  }
  std::fprintf(stderr, "fk-host: providers are not known: %s\n",
               runner.failed() ? runner.failure().sentence().c_str() : "no answer");
  return out;
}

// Calls at or below a level. A call that a provider takes whole stays whole, as in a run.
void flatten(const Catalog& catalog, const Providers& providers, Graph& graph,
             const std::vector<Call>& calls, int level, std::vector<Call>& out) {
  for (const auto& call : calls) {
    const bool whole = providers.count({call.path, call.contract->op}) > 0;
    if (call.contract->level <= level || whole || !find_expansion(call.contract->op)) {
      out.push_back(call);
      continue;
    }
    graph = expand(catalog, std::move(graph), call);
    const std::vector<Call> inner = std::move(graph.calls);
    flatten(catalog, providers, graph, inner, level, out);
  }
}

std::string provider_of(const Providers& providers, const Call& call) {
  const auto it = providers.find({call.path, call.contract->op});
  if (it != providers.end()) return it->second;
  if (providers.empty()) return "provider: not asked";
  return find_expansion(call.contract->op) ? "expanded" : "nobody";
}

// Escapes a plugin's text or a path for a quoted label of either format.
std::string label_text(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 ? '\'' : c;
  return out;
}

struct Edges {
  std::vector<std::pair<int, int>> list;
  std::map<int, std::string> inputs;  // node -> graph inputs that it reads
};

Edges connect(const Graph& graph, const std::vector<Call>& calls) {
  Edges out;
  std::map<int, int> writer;
  std::set<std::pair<int, int>> seen;
  for (size_t i = 0; i < calls.size(); ++i) {
    const int node = static_cast<int>(i);
    std::vector<int> written;
    for (const auto& slot : calls[i].contract->section(SectionId::forward)) {
      if (!slot.is_tensor()) continue;
      for (const Value v : calls[i].forward[static_cast<size_t>(slot.index)]) {
        const int buffer = graph.info(v).buffer;
        const Buffer& b = graph.buffers[static_cast<size_t>(buffer)];
        if (slot.role != Role::out) {
          if (const auto it = writer.find(buffer);
              it != writer.end() && b.kind != BufferKind::state) {
            if (seen.insert({it->second, node}).second) out.list.emplace_back(it->second, node);
          }
          if (b.kind == BufferKind::input)
            out.inputs[node] += (out.inputs[node].empty() ? "" : ", ") + b.name;
        }
        if (slot.role != Role::in) written.push_back(buffer);
      }
    }
    for (const int buffer : written) writer[buffer] = node;
  }
  return out;
}

int draw(const GraphArguments& a) {
  if (a.format != "dot" && a.format != "mermaid")
    fail("--format", "`" + a.format + "` is not a format", "dot or mermaid");
  if (a.level < 1 || a.level > 4) fail("--level", "levels are 1 to 4");
  const auto files = scenario_files(find_scenario(a.scenario));
  if (files.size() != 1)
    fail(a.scenario, "it is a list of scenarios",
         "draw one: fk-host graph " + files.front().stem().string());
  const Scenario scenario = load_scenario(files.front(), a.profile);
  const auto model = scenario.make();
  const Catalog catalog(paths::registry_dirs());
  const PluginSet plugin_set = PluginSet::find(catalog);
  const auto phases = model->engine()->phases();
  const std::string phase = a.phase.empty() ? phases.back() : a.phase;
  if (std::find(phases.begin(), phases.end(), phase) == phases.end())
    fail("--phase", "the model has no phase `" + phase + "`", did_you_mean(phase, phases));
  const Providers providers = ask_providers(scenario, phase, plugin_set, a.candidate, a.device);
  Graph graph = record(*model, catalog, phase, scenario.limits, std::make_shared<WeightTable>());
  const std::vector<Call> recorded = std::move(graph.calls);
  std::vector<Call> calls;
  flatten(catalog, providers, graph, recorded, a.level, calls);
  const Edges edges = connect(graph, calls);
  const bool dot = a.format == "dot";
  std::printf(dot ? "digraph \"%s %s\" {\n  node [shape=box, fontname=monospace];\n"
                  : "flowchart TD\n%%%% %s %s\n",
              scenario.name.c_str(), phase.c_str());
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto inputs = edges.inputs.find(static_cast<int>(i));
    const char* line = dot ? "\\n" : "<br/>";
    std::string text = calls[i].contract->op + line + label_text(calls[i].path) + line +
                       label_text(provider_of(providers, calls[i]));
    if (inputs != edges.inputs.end())
      text += line + std::string(dot ? "<- " : "&lt;- ") + inputs->second;
    std::printf(dot ? "  n%zu [label=\"%s\"];\n" : "  n%zu[\"%s\"]\n", i, text.c_str());
  }
  for (const auto& [from, to] : edges.list)
    std::printf(dot ? "  n%d -> n%d;\n" : "  n%d --> n%d\n", from, to);
  if (dot) std::printf("}\n");
  return kExitOk;
}

// The device of a run: a GPU if there is one.
std::string default_device() {
  for (const auto& name : device_names())
    if (starts_with(name, "cuda")) return name;
  return "cpu";
}

std::function<int()> add_graph(const Options& app) {
  auto a = std::make_shared<GraphArguments>();
  app.add_option("SCENARIO", a->scenario, "a file, or the name of a scenario").required();
  app.add_option("--phase", a->phase, "prefill, decode, encode ...; default: the last");
  app.add_option("--format", a->format, "dot or mermaid");
  app.add_option("--level", a->level, "expand down to this level: 1 (the default) to 4");
  app.add_option("--profile", a->profile, "tiny or full");
  app.add_option("--candidate", a->candidate, "with this candidate in place");
  app.add_option("--device", a->device, "cpu, cuda:0; default: a GPU where there is one");
  return [a] {
    const auto names = device_names();
    if (a->device.empty()) a->device = default_device();
    // Reports a missing device. "cuda" is another name of the first GPU.
    if (std::find(names.begin(), names.end(), a->device) == names.end()) open_device(a->device);
    return draw(*a);
  };
}

FK_VERB(graph, "draw the graph of a scenario's model", add_graph);

}  // namespace
}  // namespace fk
