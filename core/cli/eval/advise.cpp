// SPDX-License-Identifier: Apache-2.0
// fk-host advise SCENARIO: where the time of a model goes, and what a better kernel could gain. It
// records the scenario and benches the recorded cases, by the verbs of these names.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/base/work_folder.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/device/device.hpp"
#include "core/engines/scenario.hpp"
#include "core/eval/advice.hpp"
#include "core/eval/job.hpp"
#include "core/report/document.hpp"
#include "core/report/progress.hpp"
#include "core/report/table.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct AdviseArguments {
  std::string scenario, profile, device;
  JsonOutput json;
  std::vector<std::string> workloads;
  int64_t limit = 4;
  double seconds = 0.05;
};
FK_DOCUMENT(advice, Advice);

Json document_of(const std::vector<std::string>& words, const AdviseArguments& a,
                 const WorkFolder& folder) {
  EvalJob job;
  job.candidates = folder.path / "no candidates";
  job.words = words;
  const JobEnd end = run_job(job, a.device, folder.path / "job.json", folder.path / "job.txt");
  if (!end.why.empty()) fail("advise", words[0] + " " + words[1] + ": " + end.why);
  return end.document;
}

std::string percent_of(const std::optional<double>& share) {
  char text[32] = "";
  if (share) std::snprintf(text, sizeof text, *share < 0.1 ? "%.1f%%" : "%.0f%%", 100 * *share);
  return text;
}
std::string times_text(const std::optional<double>& gain) {
  char text[32] = "";
  if (gain) std::snprintf(text, sizeof text, "%.2fx", *gain);
  return text;
}

Table advice_table(const std::vector<AdviceRow>& rows, bool places) {
  std::vector<Table::Column> columns = {{"op"}};
  if (places) columns.insert(columns.end(), {{"phase"}, {"place"}});
  for (const char* what : {"calls", "time", "share"}) columns.push_back({what, Align::right});
  columns.push_back({"provider"});
  for (const char* what : {"of limit", "gain at limit", "gain at most"})
    columns.push_back({what, Align::right});
  columns.insert(columns.end(), {{"limit"}, {"faster provider"}});
  Table table(columns);
  for (const auto& r : rows) {
    std::vector<Cell> cells = {r.op};
    if (places) cells.insert(cells.end(), {r.phase, excerpt(r.place, 60)});
    for (const auto& text :
         {human_count(r.calls), human_duration(r.seconds), percent_of(r.share), r.provider,
          percent_of(r.of_limit), times_text(r.gain), times_text(r.most_gain), r.limit,
          r.best.empty() ? std::string() : r.best + " (" + times_text(r.best_gain) + ")"})
      cells.emplace_back(text);
    table.row(cells);
  }
  return table;
}

void print_advice(const Advice& a) {
  const bool colour = colour_wanted(stdout);
  const auto title = [&](const char* text) {
    return "\n" + styled(text, Style::strong, colour) + "\n";
  };
  print_report(styled(excerpt(a.scenario), Style::strong, colour) + ": profile " + a.profile +
               ", " + a.dtype + ", on " + excerpt(a.device, 100) + "; " +
               human_duration(a.seconds) + " in ops, every workload once\n");
  std::printf("%s%s%s%s", title("By op, the largest gain first").c_str(),
              advice_table(a.ops, false).text(colour).c_str(),
              title("By place in the layers").c_str(),
              advice_table(a.places, true).text(colour).c_str());
  print_report(
      "  gain: speedup of all ops together, by Amdahl's law. At limit: the op reaches the limit, "
      "which is\n  the device's roofline, or a copy of as many bytes. At most: the op takes no "
      "time.\n  Times are of single calls with cold caches. The host's own time is no part of "
      "them.\n");
  for (const auto& note : a.notes) print_report("  not measured: " + excerpt(note, 300) + "\n");
}

int advise(AdviseArguments& a) {
  a.json.open();
  if (a.device.empty()) {
    a.device = "cpu";
    for (const auto& name : device_names())
      if (starts_with(name, "cuda") && a.device == "cpu") a.device = name;
  }
  open_device(a.device);
  if (a.profile.empty()) a.profile = a.device == "cpu" ? "tiny" : "full";
  const Catalog catalog(paths::registry_dirs());
  const auto file = find_scenario(a.scenario);
  const WorkFolder folder("advise");
  ProgressLine progress;
  progress.say("recording " + a.scenario);
  std::vector<std::string> words = {"record",    file.string(),
                                    "--profile", a.profile,
                                    "--out",     (folder.path / "recording").string(),
                                    "--limit",   std::to_string(a.limit)};
  for (const auto& workload : a.workloads) words.insert(words.end(), {"--workload", workload});
  const Json index = document_of(words, a, folder);
  std::vector<std::string> ops;
  for (const auto& op : index.at("cases"))
    if (const auto name = op.at("op").get<std::string>(); !contains(ops, name)) ops.push_back(name);
  std::vector<Json> benches;
  for (const auto& op : ops) {
    progress.say("timing " + op + " (" + std::to_string(benches.size() + 1) + " of " +
                 std::to_string(ops.size()) + ")");
    benches.push_back(document_of({"bench", op, "--recorded", (folder.path / "recording").string(),
                                   "--seconds", Json(a.seconds).dump()},
                                  a, folder));
  }
  progress.clear();
  const Advice advice = advice_of(index, benches, catalog);
  if (a.json.given()) a.json.write(document(advice));
  if (a.json.with_report()) print_advice(advice);
  return kExitOk;
}

std::function<int()> add_advise(const Options& app) {
  auto a = std::make_shared<AdviseArguments>();
  app.add_option("SCENARIO", a->scenario, "a file, or the name of a scenario").required();
  app.add_option("--profile", a->profile, "tiny or full; default: full with a GPU, else tiny");
  app.add_option("--device", a->device, "cpu, cuda:0; default: a GPU where there is one");
  app.add_option("--workload", a->workloads, "only this workload (may be repeated)")
      .one_at_a_time();
  app.add_option("--limit", a->limit, "recorded cases of one op in one phase at most (4)")
      .range(1, 1024);
  app.add_option("--seconds", a->seconds, "approximate time per case and provider").non_negative();
  a->json.declare(app);
  a->json.declare_views(app);
  return [a] { return advise(*a); };
}

FK_VERB(advise, "what to optimise next in a model: time by op, head-room, and gain", add_advise);

}  // namespace
}  // namespace fk
