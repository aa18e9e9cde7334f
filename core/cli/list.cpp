// SPDX-License-Identifier: Apache-2.0
// fk-host list ops|models|plugins|workloads|devices: what is here, and what is not and why.
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/device/device.hpp"
#include "core/referee/roster.hpp"
#include "core/report/table.hpp"
#include "core/runtime/scenario.hpp"
#include "core/runtime/session.hpp"

namespace fk {
namespace {

struct Listing {
  std::vector<Table::Column> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> notes;  // lines below the table
};

std::map<std::string, std::vector<std::string>> providers_by_op() {
  std::map<std::string, std::vector<std::string>> by_op;
  for (const auto& found : discover()) {
    if (!found.error.empty()) continue;
    for (const auto& op : found.note.ops) by_op[op.op].push_back(found.note.name);
  }
  return by_op;
}

Listing list_ops() {
  const Catalog catalog(paths::registry_dirs());
  auto providers = providers_by_op();
  Listing out{{{"op"}, {"level"}, {"family"}, {"providers"}, {"what it computes"}}, {}, {}};
  std::map<std::pair<int, std::string>, std::vector<const Contract*>> ordered;
  for (const auto& op : catalog.ops()) {
    const Contract& c = catalog.at(op);
    ordered[{c.level, c.family}].push_back(&c);
  }
  for (const auto& [key, contracts] : ordered) {
    for (const Contract* c : contracts) {
      std::vector<std::string> names = providers[c->op];
      if (find_expansion(c->op)) names.emplace_back("(expansion)");
      out.rows.push_back({c->op, "L" + std::to_string(c->level), c->family, join(names, ", "),
                          excerpt(c->summary, 72)});
    }
  }
  return out;
}

Listing list_models() {
  Listing out{{{"model"}, {"domain"}, {"configurations"}, {"architectures"}, {"summary"}}, {}, {}};
  for (const auto& m : load_model_infos()) {
    out.rows.push_back({m.arch, m.domain, join(m.configs, ", "), join(m.architectures, ", "),
                        excerpt(m.summary, 60)});
  }
  return out;
}

Listing list_plugins() {
  Listing out{
      {{"plugin"}, {"version"}, {"kind"}, {"ops"}, {"abi"}, {"compiler"}, {"file or reason"}},
      {},
      {}};
  for (const auto& found : discover()) {
    const std::string kind = found.trust == Trust::candidate ? "candidate" : "baseline";
    if (!found.error.empty()) {
      out.rows.push_back({found.path.stem(), "", kind, "", "", "", found.error});
      continue;
    }
    const PluginNote& n = found.note;
    std::string where = n.path.string();
    for (const auto& finding : lint(found.path, found.trust)) {
      if (finding.fatal) where += "; lint: " + finding.rule;
    }
    out.rows.push_back({n.name, n.version, kind, std::to_string(n.ops.size()),
                        std::to_string(n.abi_major) + "." + std::to_string(n.abi_minor),
                        excerpt(n.compiler, 24), where});
  }
  for (const auto& dir : paths::plugin_dirs()) {
    const auto file = dir / "missing.txt";
    if (!std::filesystem::exists(file)) continue;
    for (const auto& line : split(read_file(file), '\n')) {
      if (!line.empty()) out.notes.push_back("not built: " + line);
    }
  }
  return out;
}

Listing list_workloads() {
  Listing out{{{"workload"},
               {"file"},
               {"kind"},
               {"requests"},
               {"prompt tokens", Align::right},
               {"output tokens", Align::right},
               {"summary"}},
              {},
              {}};
  const auto dir = paths::scenarios_dir() / "workloads";
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".yaml") files.insert(entry.path());
  }
  for (const auto& file : files) {
    for (const auto& name : workload_names(file)) {
      const Workload w = load_workload(file, name, false, int64_t{1} << 40);
      const bool latency = w.kind == Workload::Kind::latency;
      out.rows.push_back({name, file.filename(), latency ? "latency" : "throughput",
                          latency ? std::to_string(w.iterations) + " x " + std::to_string(w.batch)
                                  : std::to_string(w.lengths.size()),
                          std::to_string(w.prompt_tokens()), std::to_string(w.output_tokens()),
                          excerpt(w.summary, 60)});
    }
  }
  return out;
}

Listing list_devices() {
  Listing out{{{"device"}, {"name"}, {"threads", Align::right}}, {}, {}};
  for (const auto& name : device_names()) {
    const auto device = open_device(name);
    out.rows.push_back({name, device->name(), std::to_string(device->cpu_threads())});
  }
  return out;
}

// Counts of every op of a model at every level: the recorded calls, and what they expand to.
void count_calls(const Catalog& catalog, const Graph& graph, const std::vector<Call>& calls,
                 std::map<std::string, int>& counts) {
  for (const auto& call : calls) {
    ++counts[call.contract->op];
    const Expansion expansion = find_expansion(call.contract->op);
    if (!expansion) continue;
    Graph scratch = graph;
    scratch.calls.clear();
    Graph inner = expand(catalog, std::move(scratch), call);
    const std::vector<Call> next = std::move(inner.calls);
    count_calls(catalog, inner, next, counts);
  }
}

Listing map_models() {
  const Catalog catalog(paths::registry_dirs());
  Listing out{{{"model"}, {"level"}, {"op"}, {"calls per phase", Align::right}}, {}, {}};
  for (const auto& info : load_model_infos()) {
    if (info.configs.empty()) continue;
    const auto file = find_config(info.configs.front(), info.where);
    const auto model = make_model(info.arch, Config::load(file));
    for (const auto& phase : model->phases()) {
      Builder builder(catalog, phase, std::make_shared<WeightTable>());
      model->forward(builder, phase, Limits{});
      const Graph graph = builder.finish();
      std::map<std::string, int> counts;
      count_calls(catalog, graph, graph.calls, counts);
      std::map<std::pair<int, std::string>, int> ordered;
      for (const auto& [op, n] : counts) ordered[{-catalog.at(op).level, op}] = n;
      for (const auto& [key, n] : ordered) {
        out.rows.push_back({info.arch + "." + phase, "L" + std::to_string(-key.first), key.second,
                            std::to_string(n)});
      }
    }
  }
  return out;
}

struct Arguments {
  std::string what, json;
  bool map = false;
};

int list(const Arguments& a, bool as_json) {
  const std::map<std::string, Listing (*)()> known = {{"ops", list_ops},
                                                      {"models", list_models},
                                                      {"plugins", list_plugins},
                                                      {"workloads", list_workloads},
                                                      {"devices", list_devices}};
  const auto it = known.find(a.what);
  if (it == known.end()) {
    std::vector<std::string> names;
    for (const auto& [name, function] : known) names.push_back(name);
    fail("list", "there is no list of `" + a.what + "`", did_you_mean(a.what, names));
  }
  if (a.map && a.what != "models") fail("list", "--map goes with `list models`");
  const Listing listing = a.map ? map_models() : it->second();
  if (as_json) {
    Json rows = Json::array();
    for (const auto& row : listing.rows) {
      Json object = Json::object();
      for (size_t i = 0; i < row.size(); ++i) object[listing.columns[i].heading] = row[i];
      rows.push_back(std::move(object));
    }
    print_json({{"schema", "fk-host.list/1"},
                {"what", a.what},
                {"rows", std::move(rows)},
                {"notes", listing.notes}},
               a.json);
    return kExitOk;
  }
  Table table(listing.columns);
  for (const auto& row : listing.rows) table.row({row.begin(), row.end()});
  std::printf("%s", table.text(colour_wanted(stdout), 0).c_str());
  for (const auto& note : listing.notes) std::printf("%s\n", note.c_str());
  return kExitOk;
}

std::function<int()> add(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  app.add_option("WHAT", a->what, "ops, models, plugins, workloads or devices")->required();
  app.add_flag("--map", a->map, "with models: which model uses which op at which level");
  auto* json = app.add_option("--json", a->json, "write JSON, to a file or to the standard output")
                   ->expected(0, 1);
  return [a, json] { return list(*a, json->count() > 0); };
}

FK_VERB(list, "what there is: ops, models, plugins, workloads, devices", add);

}  // namespace
}  // namespace fk
