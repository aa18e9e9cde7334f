// SPDX-License-Identifier: Apache-2.0
// fk-host show NAME: prints an op's contract, a model's card, or the statuses and patterns of a
// verdict.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cases/patterns/pattern.hpp"
#include "core/cli/verb.hpp"
#include "core/contract/header.hpp"
#include "core/contract/show.hpp"
#include "core/exec/model.hpp"
#include "core/exec/model_info.hpp"
#include "core/graph/builder.hpp"
#include "core/judge/verdict/verdict.hpp"
#include "core/report/document.hpp"
#include "core/report/table.hpp"

namespace fk {
namespace {

struct ShowArguments {
  std::string name;
  bool header = false, schema = false;
};

const DocumentRegistration verdict_document("verdict", verdict_schema);

int print_schema(const std::string& name) {
  const auto kind = document_kinds().find(name);
  if (kind != document_kinds().end()) {
    std::printf("%s\n", kind->second().dump(1).c_str());
    return kExitOk;
  }
  std::vector<std::string> known;
  for (const auto& [each, schema] : document_kinds()) known.push_back(each);
  fail("show --schema", "there is no document `" + name + "`", did_you_mean(name, known));
}

int print_statuses() {
  Table table({{"status"}, {"exit code", Align::right}, {"meaning"}, {"next"}});
  for (const auto& s : statuses())
    table.row({s.name, std::to_string(s.exit_code), s.meaning, s.next});
  Table patterns({{"pattern of a wrong value"}, {"example"}});
  for (const auto& kind : pattern_kinds()) patterns.row({kind.name, kind.example});
  for (const Table& each : {table, patterns})
    std::printf("%s\n", each.text(colour_wanted(stdout), 0).c_str());
  return kExitOk;
}

void print_model(const ModelInfo& m) {
  std::printf("# %s (%s)\n\n%s\n\n", m.arch.c_str(), m.domain.c_str(), m.summary.c_str());
  std::printf(
      "architectures   %s\nconfigurations  %s\nsource          %s\npaper           %s\nmade of     "
      "    %s\ncorrectness     %s\ntiny profile    %s\n",
      join(m.architectures, ", ").c_str(), join(m.configs, ", ").c_str(), m.source.c_str(),
      m.paper.c_str(), join(m.parts, ", ").c_str(), m.correctness.c_str(),
      m.tiny ? m.tiny->dump().c_str() : "{}");
}

// The lower ops that replace one call of `op`; empty when these calls contain none.
std::vector<std::string> expanded(const Catalog& catalog, const Graph& graph,
                                  const std::vector<Call>& calls, const std::string& op) {
  std::optional<Graph> bare;  // copied for each call, so without calls
  const int level = catalog.at(op).level;
  for (const auto& call : calls) {
    const bool found = call.contract->op == op;
    if (!(found || call.contract->level > level) || !find_expansion(call.contract->op)) continue;
    if (!bare) {
      bare = graph;
      bare->calls.clear();
    }
    Graph inner = expand(catalog, *bare, call);
    const std::vector<Call> next = std::move(inner.calls);
    std::vector<std::string> names;
    if (found) {
      for (const auto& one : next) names.push_back(one.contract->op);
    } else {
      names = expanded(catalog, inner, next, op);
    }
    if (!names.empty()) return names;
  }
  return {};
}

// Repeated names as "32 x decoder_layer".
std::vector<std::string> counted(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (size_t i = 0, end; i < names.size(); i = end) {
    for (end = i + 1; end < names.size() && names[end] == names[i];) ++end;
    out.push_back((end - i > 1 ? std::to_string(end - i) + " x " : "") + names[i]);
  }
  return out;
}

// The decomposition of the op in the first model with this op, for calls which no provider takes
// whole.
std::string expansion_line(const Catalog& catalog, const std::string& op) {
  if (!find_expansion(op)) return {};
  for (const auto& info : load_model_infos()) {
    if (info.configs.empty()) continue;
    const auto model =
        make_model(info.arch, Config::load(find_config(info.configs.front(), info.where)));
    for (const auto& phase : model->engine()->phases()) {
      const Graph graph = record(*model, catalog, phase, {}, std::make_shared<WeightTable>());
      const auto names = expanded(catalog, graph, graph.calls, op);
      if (!names.empty())
        return "\nOps of the host's decomposition, used if no provider takes the op (in " +
               info.arch + "): " + join(counted(names), ", ") + ".\n";
    }
  }
  return {};
}

int show(const ShowArguments& a) {
  if (a.schema) return print_schema(a.name);
  if (a.name == "verdict") return print_statuses();
  const Catalog catalog(paths::registry_dirs());
  if (const Contract* contract = catalog.find(a.name)) {
    const std::string text = a.header ? header_text(*contract)
                                      : contract_page(*contract) + expansion_line(catalog, a.name);
    std::fputs(text.c_str(), stdout);
    return kExitOk;
  }
  std::vector<std::string> known = catalog.ops();
  known.push_back("verdict");
  for (const auto& m : load_model_infos()) {
    if (m.arch == a.name) {
      print_model(m);
      return kExitOk;
    }
    known.push_back(m.arch);
  }
  for (const auto& op : catalog.ops()) {
    for (const auto& alias : catalog.at(op).aliases) {
      if (alias == a.name)
        fail("show", "`" + a.name + "` is another name of `" + op + "`", "fk-host show " + op);
    }
  }
  fail("show", "there is no op or model `" + a.name + "`", did_you_mean(a.name, known));
}

std::function<int()> add_show(const Options& app) {
  auto a = std::make_shared<ShowArguments>();
  app.add_option("NAME", a->name, "an op, a model or `verdict`; with --schema a verb").required();
  app.add_flag("--header", a->header, "the whole generated header of an op");
  app.add_flag("--schema", a->schema, "the JSON Schema of what a verb writes with --json");
  return [a] { return show(*a); };
}

FK_VERB(show, "print an op's contract, a model's card, or the statuses of a verdict", add_show);

}  // namespace
}  // namespace fk
