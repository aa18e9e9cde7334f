// SPDX-License-Identifier: Apache-2.0
// fk-host eval [SUITE] --candidates DIR...: the score of submissions over ops, models and families.
#include "core/eval/evaluate.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/device/device.hpp"
#include "core/eval/evaluation_tables.hpp"
#include "core/report/document.hpp"
#include "core/store/store.hpp"

namespace fk {
namespace {

struct EvalArguments {
  std::string suite = "default", folder;
  JsonOutput json;
  std::vector<std::string> candidates, devices;
  bool plan = false;
  double time_limit_s = 0;
};

// Evaluations of several submissions in one document.
struct EvalDocument {
  struct Entry {
    static constexpr const char* kSchemaFile = "evaluation.json";
    Evaluation of;
  };
  static constexpr const char* kSchema = "fk-host.eval/1";
  static constexpr const char* kTitle = "The evaluations of submissions by `fk-host eval`";
  std::vector<Entry> evaluations;
};
template <class Visitor>
void fields(Visitor& v, EvalDocument::Entry& e) {
  std::string schema = Evaluation::kSchema;
  v("schema", schema, "the form of the evaluation");
  fields(v, e.of);
}
template <class Visitor>
void fields(Visitor& v, EvalDocument& d) {
  v("evaluations", d.evaluations, "one for each submission");
}
FK_DOCUMENT(eval, EvalDocument);
FK_DOCUMENT(evaluation, Evaluation);

// All GPUs, else the CPU. The devices asked for must be of one kind.
std::vector<std::string> devices_of(const EvalArguments& a) {
  if (a.devices.empty()) {
    std::vector<std::string> gpus;
    for (const auto& name : device_names())
      if (starts_with(name, "cuda")) gpus.push_back(name);
    return gpus.empty() ? std::vector<std::string>{"cpu"} : gpus;
  }
  for (size_t i = 0; i < a.devices.size(); ++i) {
    open_device(a.devices[i]);
    const auto kind = [](const std::string& name) { return name.substr(0, name.find(':')); };
    if (kind(a.devices[i]) != kind(a.devices[0]))
      fail("--device",
           "one evaluation has devices of one kind: " + a.devices[0] + ", " + a.devices[i]);
    if (std::count(a.devices.begin(), a.devices.end(), a.devices[i]) > 1)
      fail("--device", a.devices[i] + " is there twice");
  }
  return a.devices;
}

std::string count_text(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

void print_plan(const Plan& plan, const std::vector<std::string>& devices, ResultFolder& folder) {
  size_t stored = 0, runs = 0;
  double left = 0;
  for (const auto& job : plan.jobs) {
    const bool has = folder.find(job.key).has_value();
    stored += has, runs += job.tier == 2;
    if (!has) left += job.estimate_s;
  }
  left /= static_cast<double>(devices.size());
  std::string text = "fk-host: suite " + plan.suite.name + ", " +
                     count_text(plan.submissions.size(), "submission") + ", " +
                     count_text(plan.jobs.size() - runs, "verdict") + " on ops, " +
                     count_text(runs, "run") + " of models on " + join(devices, ", ") + "; " +
                     std::to_string(stored) + " stored, the others take about " +
                     human_duration(left) + "\n";
  const double aim = plan.suite.minutes * 60 * static_cast<double>(plan.submissions.size());
  if (aim > 0 && left > aim)
    text += "fk-host: that is longer than the suite's " + human_duration(aim) + "\n";
  for (const auto& [what, why] : plan.left_out)
    text += "fk-host: left out: " + what + ": " + excerpt(why, 300) + "\n";
  std::fputs(text.c_str(), stderr);
}

Table plan_table(const Plan& plan, ResultFolder& folder) {
  Table table({{"tier"}, {"submission"}, {"job"}, {"about", Align::right}, {""}});
  for (const auto& job : plan.jobs) {
    const bool stored = folder.find(job.key).has_value();
    table.row({std::to_string(job.tier), job.submission, job.what, human_duration(job.estimate_s),
               stored         ? "stored"
               : job.measured ? "as an earlier job"
                              : "a guess"});
  }
  return table;
}

int eval(EvalArguments& a) {
  a.json.open();
  if (a.candidates.empty())
    fail("eval", "there is no submission", "--candidates DIR, a folder with a manifest.yaml");
  const Catalog catalog(paths::registry_dirs());
  const Suite suite = load_suite(find_suite(a.suite), catalog);
  std::vector<Submission> submissions;
  for (const auto& dir : a.candidates) submissions.push_back(load_submission(dir, catalog));
  check_submissions(submissions);
  const auto devices = devices_of(a);
  Store store = Store::open_default();
  Plan plan = make_plan(suite, std::move(submissions), catalog, devices.front(), store);
  const std::filesystem::path where =
      a.folder.empty() ? evaluations_dir() / suite.name : std::filesystem::path(a.folder);
  ResultFolder folder(where, store.signer(), store.unsigned_because());
  estimate_from(folder.all(), plan);
  print_plan(plan, devices, folder);
  if (a.plan) {
    std::printf("%s", plan_table(plan, folder).text(colour_wanted(stdout), 0).c_str());
    return kExitOk;
  }
  size_t ended = 0;
  EvaluateOptions options;
  options.devices = devices;
  options.time_limit_s = a.time_limit_s;
  options.on_end = [&](const EvalJob& job, const std::string& end, double seconds) {
    std::fprintf(stderr, "fk-host: %zu of %zu: %s, %s: %s%s\n", ++ended, plan.jobs.size(),
                 job.submission.c_str(), excerpt(job.what, 120).c_str(), excerpt(end, 300).c_str(),
                 seconds > 0 ? (", " + human_duration(seconds)).c_str() : "");
  };
  const auto evaluations = evaluate(plan, options, catalog, folder, store);
  for (const auto* notes : {&folder.notes(), &store.notes()})
    for (const auto& note : *notes)
      std::fprintf(stderr, "fk-host: %s\n", excerpt(note, 1000).c_str());
  bool complete = true;
  EvalDocument out;
  for (const auto& e : evaluations) {
    complete &= e.complete;
    if (a.json.given()) out.evaluations.push_back({e});
    if (a.json.with_report())
      std::printf("%s%s", &e == &evaluations.front() ? "" : "\n",
                  evaluation_text(e, colour_wanted(stdout)).c_str());
  }
  if (a.json.given()) a.json.write(document(out));
  return complete ? kExitOk : kExitEnvironment;
}

std::function<int()> add_eval(const Options& app) {
  auto a = std::make_shared<EvalArguments>();
  app.add_option("SUITE", a->suite, "a file, or a name in scenarios/suites (default)");
  app.add_option("--candidates", a->candidates,
                 "a submission: a folder of plugins with a manifest.yaml (may be repeated)");
  app.add_option("--device", a->devices,
                 "cpu, cuda:0 (may be repeated); default: all GPUs, else the CPU")
      .one_at_a_time();
  app.add_flag("--plan", a->plan, "print the jobs and their times, and run none");
  app.add_option(
      "--folder", a->folder,
      "of results, which later calls use again; default: of the suite, in the data folder");
  app.add_option("--time-limit", a->time_limit_s,
                 "start no job that would end after this many seconds")
      .positive();
  a->json.declare(app);
  a->json.declare_views(app);
  return [a] { return eval(*a); };
}

FK_VERB(eval, "score submissions over ops, models and families (MacroEval)", add_eval);

}  // namespace
}  // namespace fk
