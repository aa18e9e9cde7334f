// SPDX-License-Identifier: Apache-2.0
// fk-host graph SCENARIO: the recorded graph of a phase as DOT or Mermaid, expanded down to a
// level. Edges are buffers: from the node that last wrote one to the nodes that read it. Providers
// are those of the plugins whose notes have the op, best first; which of them takes a node is
// decided, and reported, by a run.
#include <cstdio>
#include <map>
#include <set>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/verb.hpp"
#include "core/referee/roster.hpp"
#include "core/runtime/scenario.hpp"

namespace fk {
namespace {

struct Arguments {
  std::string scenario, phase, format = "dot", profile = "tiny";
  int level = 1;
};

void flatten(const Catalog& catalog, Graph& graph, const std::vector<Call>& calls, int level,
             std::vector<Call>& out) {
  for (const auto& call : calls) {
    if (call.contract->level <= level || !find_expansion(call.contract->op)) {
      out.push_back(call);
      continue;
    }
    graph = expand(catalog, std::move(graph), call);
    const std::vector<Call> inner = std::move(graph.calls);
    flatten(catalog, graph, inner, level, out);
  }
}

std::string first_provider(const Roster& roster, const std::string& op) {
  std::map<std::string, const FoundPlugin*> by_name;
  for (const auto& b : roster.baselines) by_name[plugin_name(b)] = &b;
  for (const auto& c : roster.candidates) {
    if (!c.error.empty()) continue;
    for (const auto& note : c.note.ops)
      if (note.op == op) return plugin_name(c) + " (candidate)";
  }
  const bool expandable = find_expansion(op) != nullptr;
  for (const auto& name : roster.ranked()) {
    if (expandable && is_oracle(name)) continue;  // a run prefers the expansion
    for (const auto& note : by_name.at(name)->note.ops)
      if (note.op == op) return name;
  }
  return expandable ? "expanded" : "nobody";
}

struct Edges {
  std::vector<std::pair<int, int>> list;
  std::map<int, std::string> inputs;  // node -> graph inputs it reads
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

int draw(const Arguments& a) {
  if (a.format != "dot" && a.format != "mermaid")
    fail("--format", "`" + a.format + "` is not a format", "dot or mermaid");
  if (a.level < 1 || a.level > 3) fail("--level", "levels are 1, 2 and 3");
  const Scenario scenario = load_scenario(find_scenario(a.scenario), a.profile);
  const auto model = scenario.make();
  const Catalog catalog(paths::registry_dirs());
  const Roster roster = Roster::find(catalog);
  const auto phases = model->phases();
  const std::string phase = a.phase.empty() ? phases.back() : a.phase;
  if (std::find(phases.begin(), phases.end(), phase) == phases.end())
    fail("--phase", "the model has no phase `" + phase + "`", did_you_mean(phase, phases));
  Builder builder(catalog, phase, std::make_shared<WeightTable>());
  model->forward(builder, phase, scenario.limits);
  Graph graph = builder.finish();
  const std::vector<Call> recorded = std::move(graph.calls);
  std::vector<Call> calls;
  flatten(catalog, graph, recorded, a.level, calls);
  const Edges edges = connect(graph, calls);
  const bool dot = a.format == "dot";
  std::printf(dot ? "digraph \"%s %s\" {\n  node [shape=box, fontname=monospace];\n"
                  : "flowchart TD\n%%%% %s %s\n",
              scenario.name.c_str(), phase.c_str());
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string provider = first_provider(roster, calls[i].contract->op);
    const auto inputs = edges.inputs.find(static_cast<int>(i));
    const std::string text =
        calls[i].contract->op + (dot ? "\\n" : "<br/>") + calls[i].path + (dot ? "\\n" : "<br/>") +
        provider +
        (inputs == edges.inputs.end() ? "" : (dot ? "\\n<- " : "<br/>&lt;- ") + inputs->second);
    std::printf(dot ? "  n%zu [label=\"%s\"];\n" : "  n%zu[\"%s\"]\n", i, text.c_str());
  }
  for (const auto& [from, to] : edges.list)
    std::printf(dot ? "  n%d -> n%d;\n" : "  n%d --> n%d\n", from, to);
  if (dot) std::printf("}\n");
  return kExitOk;
}

std::function<int()> add(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  app.add_option("SCENARIO", a->scenario, "a file, or a name in scenarios/")->required();
  app.add_option("--phase", a->phase, "prefill, decode, encode ...; default: the last");
  app.add_option("--format", a->format, "dot or mermaid");
  app.add_option("--level", a->level, "expand down to this level: 1 (the default), 2 or 3");
  app.add_option("--profile", a->profile, "tiny or full");
  return [a] { return draw(*a); };
}

FK_VERB(graph, "draw the graph of a scenario's model", add);

}  // namespace
}  // namespace fk
