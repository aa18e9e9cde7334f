// SPDX-License-Identifier: Apache-2.0
// fk-host list ops|models|plugins|workloads|devices: prints the available ones, and reasons for
// missing ones.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/check/plugin_set.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/device/backends.hpp"
#include "core/engines/scenario.hpp"
#include "core/exec/op_use.hpp"
#include "core/exec/peaks.hpp"
#include "core/exec/session.hpp"
#include "core/report/document.hpp"
#include "core/report/table.hpp"

namespace fk {
namespace {

struct ListArguments {
  std::string what, dtype;
  std::vector<std::string> families;
  std::vector<std::string> levels;
  JsonOutput json;
  bool map = false;
  bool filtered() const { return !families.empty() || !levels.empty() || !dtype.empty(); }
};

struct Column {
  std::string key, heading;  // without a heading, only JSON has it
  size_t width = 0;          // of the table's cell; 0: no limit. JSON has the full text
};
struct Listing {
  std::vector<Column> columns;
  std::vector<std::vector<Json>> rows;  // texts, numbers and lists of texts
  std::vector<std::string> notes;       // lines below the table
};

std::map<std::string, std::vector<std::string>> providers_by_op() {
  std::map<std::string, std::vector<std::string>> by_op;
  for (const auto& found : discover()) {
    if (!found.error.empty()) continue;
    for (const auto& op : found.note.ops) by_op[op.op].push_back(found.note.name);
  }
  return by_op;
}

// The dtypes that the op's tensors may have.
std::vector<std::string> dtypes_of(const Contract& contract) {
  std::vector<std::string> out;
  for (const auto& section : contract.sections)
    for (const auto& slot : section)
      for (const DType dtype : slot.dtypes)
        if (!contains(out, name(dtype))) out.emplace_back(name(dtype));
  return out;
}

// The op's contract if it passes the filters. Error for a filter that no op can pass.
std::vector<const Contract*> filtered_ops(const ListArguments& a, const Catalog& catalog) {
  std::vector<std::string> families, levels, dtypes;
  std::vector<const Contract*> out;
  for (const auto& op : catalog.ops()) {
    const Contract& c = catalog.at(op);
    const std::string level = std::to_string(c.level);
    const std::vector<std::string> its = dtypes_of(c);
    families.push_back(c.family);
    for (const auto& text : {level, "L" + level}) levels.push_back(text);
    dtypes.insert(dtypes.end(), its.begin(), its.end());
    const bool wanted =
        (a.families.empty() || contains(a.families, c.family)) &&
        (a.levels.empty() || contains(a.levels, level) || contains(a.levels, "L" + level)) &&
        (a.dtype.empty() || contains(its, a.dtype));
    if (wanted) out.push_back(&c);
  }
  for (auto* list : {&families, &levels, &dtypes}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  need_known(a.families, families, "--family", "family of ops");
  need_known(a.levels, levels, "--level", "level");
  if (!a.dtype.empty()) need_known({a.dtype}, dtypes, "--dtype", "dtype of an op");
  return out;
}

Listing list_ops(const ListArguments& a) {
  const Catalog catalog(paths::registry_dirs());
  auto providers = providers_by_op();
  Listing out{{{"op", "op"},
               {"level", "level"},
               {"family", "family"},
               {"providers", "providers"},
               {"summary", "what it computes", 72},
               {"dtypes", ""}},
              {},
              {}};
  std::map<std::pair<int, std::string>, std::vector<const Contract*>> ordered;
  for (const Contract* c : filtered_ops(a, catalog)) ordered[{c->level, c->family}].push_back(c);
  for (const auto& [key, contracts] : ordered) {
    for (const Contract* c : contracts) {
      std::vector<std::string> names = providers[c->op];
      if (find_expansion(c->op)) names.emplace_back("(decomposition)");
      out.rows.push_back({c->op, c->level, c->family, names, c->summary, dtypes_of(*c)});
    }
  }
  return out;
}

Listing list_models() {
  Listing out{{{"model", "model"},
               {"domain", "domain"},
               {"configs", "configurations"},
               {"architectures", "architectures"},
               {"parts", "made of"},
               {"summary", "summary", 60}},
              {},
              {}};
  for (const auto& m : load_model_infos())
    out.rows.push_back({m.arch, m.domain, m.configs, m.architectures, m.parts, m.summary});
  return out;
}

Listing list_plugins() {
  Listing out{{{"plugin", "plugin"},
               {"version", "version"},
               {"kind", "kind"},
               {"ops", "ops", 40},
               {"abi", "abi"},
               {"compiler", "compiler", 24},
               {"path", "file"},
               {"findings", "findings"}},
              {},
              {}};
  const Catalog catalog(paths::registry_dirs());
  for (const auto& found : discover()) {
    const std::string kind = found.trust == Trust::candidate ? "candidate" : "baseline";
    const PluginNote& n = found.note;
    std::vector<std::string> ops, findings;
    if (!found.error.empty()) {
      out.rows.push_back({found.path.stem().string(), "", kind, ops, "", "", found.path.string(),
                          std::vector<std::string>{found.error}});
      continue;
    }
    for (const auto& op : n.ops) {
      ops.push_back(op.op);
      if (const std::string why = note_mismatch(op, catalog); !why.empty())
        findings.push_back("refused: contract: " + why);
    }
    for (const auto& finding : lint(found.path, found.trust))
      findings.push_back((finding.fatal ? "refused: " : "note: ") + finding.rule + ": " +
                         finding.text);
    out.rows.push_back({n.name, n.version, kind, ops,
                        std::to_string(n.abi_major) + "." + std::to_string(n.abi_minor), n.compiler,
                        n.path.string(), findings});
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
  Listing out{{{"workload", "workload"},
               {"file", "file"},
               {"kind", "kind"},
               {"requests", "requests"},
               {"iterations", "times"},
               {"prompt_tokens", "prompt tokens"},
               {"output_tokens", "output tokens"},
               {"summary", "summary", 60}},
              {},
              {}};
  const auto dir = paths::scenarios_dir() / "workloads";
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".yaml") files.insert(entry.path());
  }
  for (const auto& file : files) {
    for (const auto& name : workload_names(file)) {
      const Workload w = load_workload(file, name, "", false, int64_t{1} << 40);
      out.rows.push_back({name, file.filename().string(), w.kind, w.load->requests(),
                          w.rounds() - w.warmup, w.load->prompt_tokens(), w.load->output_tokens(),
                          w.summary});
    }
  }
  return out;
}

Listing list_devices() {
  Listing out{
      {{"device", "device"}, {"name", "name"}, {"threads", "threads"}, {"from", "from"}}, {}, {}};
  for (const Backend& backend : backends()) {
    std::string why = backend.error;
    if (!backend.usable())
      out.notes.push_back(why);
    else if (names_of(backend, &why).empty())
      out.notes.push_back("no " + backend.kind + ": " + why + " (" + backend.path.string() + ")");
  }
  for (const auto& name : device_names()) {
    std::unique_ptr<Device> device;
    try {
      device = open_device(name);
    } catch (const Error& e) {  // the kernels are for another kind of GPU
      out.notes.push_back(e.what());
      continue;
    }
    const Backend* const backend = backend_of(name);
    out.rows.push_back({name, device->name(), device->cpu_threads(),
                        backend ? backend->path.string() : std::string("fk-host")});
    if (!device->host_memory() && !peaks_of(device->name()))
      out.notes.push_back(
          name +
          ": no file in registry/devices describes it. There is no roofline, and "
          "the host tries its own providers first, then those of FK_PLUGIN_PATH, in the "
          "order of their names");
  }
  const auto gpu = [](const auto& row) {
    return starts_with(row[0].template get<std::string>(), "cuda");
  };
  if (out.notes.empty() && std::none_of(out.rows.begin(), out.rows.end(), gpu)) {
    try {
      open_device("cuda");
    } catch (const Error& e) {
      out.notes.push_back("no cuda: " + e.what_text() +
                          (e.hint().empty() ? "" : " (" + e.hint() + ")"));
    }
  }
  return out;
}

Listing map_models() {
  const Catalog catalog(paths::registry_dirs());
  Listing out{{{"model", "model"},
               {"phase", "phase"},
               {"level", "level"},
               {"op", "op"},
               {"calls", "calls per phase"}},
              {},
              {}};
  for (const auto& info : load_model_infos()) {
    if (info.configs.empty()) continue;
    const auto file = find_config(info.configs.front(), info.where);
    const auto model = make_model(info.arch, Config::load(file));
    for (const auto& phase : model->engine()->phases()) {
      std::map<std::pair<int, std::string>, int> ordered;
      for (const auto& [op, n] : op_use(*model, catalog, phase, {}))
        ordered[{-catalog.at(op).level, op}] = n;
      for (const auto& [key, n] : ordered) {
        out.rows.push_back({info.arch, phase, -key.first, key.second, n});
      }
    }
  }
  return out;
}

std::string cell(const Json& value, const Column& column) {
  std::string text;
  if (value.is_array())
    text = join(value.get<std::vector<std::string>>(), column.key == "findings" ? "; " : ", ");
  else
    text = value.is_string() ? value.get<std::string>() : value.dump();
  if (column.key == "level") text = "L" + text;
  // On a terminal cells wrap, and no text is lost.
  const bool whole = report_width() > 0 && !value.is_array();
  if (column.width == 0 || text.size() <= column.width || whole) return text;
  // For a list that is too long, its length says more than its beginning.
  return value.is_array() ? std::to_string(value.size()) : excerpt(text, column.width);
}

void print(const Listing& listing) {
  std::vector<Table::Column> columns;
  for (size_t i = 0; i < listing.columns.size(); ++i) {
    if (listing.columns[i].heading.empty()) continue;
    const bool number = !listing.rows.empty() && listing.rows.front()[i].is_number();
    columns.push_back({listing.columns[i].heading, number ? Align::right : Align::left});
  }
  Table table(columns);
  for (const auto& row : listing.rows) {
    std::vector<Cell> cells;
    for (size_t i = 0; i < row.size(); ++i)
      if (!listing.columns[i].heading.empty()) cells.emplace_back(cell(row[i], listing.columns[i]));
    table.row(std::move(cells));
  }
  std::printf("%s", table.text(colour_wanted(stdout), 0).c_str());
  for (const auto& note : listing.notes) print_report(excerpt(note, 1000) + "\n");
}

struct ListDocument {
  static constexpr const char* kSchema = "fk-host.list/1";
  static constexpr const char* kTitle = "A list of `fk-host list`";
  std::string what;
  std::vector<Json> rows;
  std::vector<std::string> notes;
};
template <class Visitor>
void fields(Visitor& v, ListDocument& d) {
  v("what", d.what, "ops, models, plugins, workloads or devices");
  v("rows", d.rows, "objects with a key for each column: texts, numbers and lists of texts");
  v("notes", d.notes, "what is missing, and why");
}
FK_DOCUMENT(list, ListDocument);

int list(ListArguments& a) {
  a.json.open();
  const std::map<std::string, std::function<Listing()>> known = {
      {"ops", [&] { return list_ops(a); }},
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
  if (a.filtered() && a.what != "ops")
    fail("list", "--family, --level and --dtype go with `list ops`");
  const Listing listing = a.map ? map_models() : it->second();
  if (a.json.given()) {
    ListDocument out{a.what, {}, listing.notes};
    for (const auto& row : listing.rows) {
      Json object = Json::object();
      for (size_t i = 0; i < row.size(); ++i) object[listing.columns[i].key] = row[i];
      out.rows.push_back(std::move(object));
    }
    a.json.write(document(out));
  }
  if (a.json.with_report()) print(listing);
  return kExitOk;
}

std::function<int()> add_list(const Options& app) {
  auto a = std::make_shared<ListArguments>();
  app.add_option("WHAT", a->what, "ops, models, plugins, workloads or devices").required();
  app.add_option("--family", a->families, "of ops, only this one (may be repeated)")
      .one_at_a_time();
  app.add_option("--level", a->levels, "of ops, only this one: 1 to 4 (may be repeated)")
      .one_at_a_time();
  app.add_option("--dtype", a->dtype, "only ops with a tensor that may have this dtype: bf16");
  app.add_flag("--map", a->map, "with models: which model uses which op at which level");
  a->json.declare(app);
  return [a] { return list(*a); };
}

FK_VERB(list, "what there is: ops, models, plugins, workloads, devices", add_list);

}  // namespace
}  // namespace fk
