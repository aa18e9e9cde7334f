// SPDX-License-Identifier: Apache-2.0
#include "core/eval/plan.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/cases/captured.hpp"
#include "core/cases/routing.hpp"
#include "core/engines/scenario.hpp"
#include "core/exec/op_use.hpp"
#include "core/scenario/memory_budget.hpp"
#include "core/scenario/run.hpp"
#include "core/scenario/run_memory_budget.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

// Guesses where no job has run yet, in seconds.
constexpr double kVerdictStart = 3, kCaseBeside = 1, kModelStart = 15;
constexpr double kBytesPerSecond = 100e6;  // weights of a model, over the whole of its run

// A hash of names and contents, so that the folder's place does not matter.
std::string hash_of_files(const std::vector<fs::path>& roots,
                          const std::vector<const char*>& parts) {
  std::string all;
  for (const auto& root : roots)
    for (const char* part : parts) {
      std::vector<fs::path> files;
      std::error_code none;
      for (const auto& entry : fs::recursive_directory_iterator(root / part, none))
        if (entry.is_regular_file()) files.push_back(entry.path());
      std::sort(files.begin(), files.end());
      for (const auto& file : files)
        all += fs::relative(file, root).string() + " " + sha256_file(file) + "\n";
    }
  return sha256(all);
}

std::string suite_hash(const Suite& suite) {
  std::string all = sha256_file(suite.file);
  for (const auto& file : suite.models.scenarios) all += " " + sha256_file(file);
  return sha256(all);
}

// Why a scenario cannot run on the device; empty: it can.
std::string lack_of_memory(const Scenario& scenario, const Model& model, const Catalog& catalog,
                           const std::string& device) {
  RunOptions options;
  options.device = device;
  try {
    need_room(scenario, options, catalog);
  } catch (const Error& error) {
    return error.what_text();
  }
  const auto room = room_of(device);
  if (!room) return "";
  const RunMemoryBudget budget(model, catalog, scenario.limits, scenario.limits.max_context);
  const auto lack = budget.oracle(*room, *room).too_large;
  return lack ? lack->what : "";
}

class Planner {
 public:
  Planner(const Suite& suite, std::vector<Submission> submissions, const Catalog& catalog,
          const std::string& device, Store& store)
      : catalog_(catalog), device_(device) {
    plan_.suite = suite;
    plan_.suite_sha256 = suite_hash(suite);
    plan_.submissions = std::move(submissions);
    add_machine(device, store, base_);
    base_.add("registry", hash_of_files(paths::registry_dirs(), {"ops", "models", "configs"}));
  }

  Plan plan() {
    read_models();
    for (const auto& submission : plan_.submissions) add_ops(submission);
    for (const auto& submission : plan_.submissions) add_runs(submission);
    std::ranges::stable_sort(plan_.jobs, {}, &EvalJob::tier);
    return std::move(plan_);
  }

 private:
  void read_models() {
    const Suite::Models& asked = plan_.suite.models;
    for (const auto& file : asked.scenarios) {
      Scenario scenario = load_scenario(file, asked.profile);
      scenario.limits.parallel.tp = asked.tp;
      const auto model = scenario.make();
      if (const std::string why = model->refusal(scenario.limits.parallel); !why.empty()) {
        plan_.left_out.push_back({scenario.name, why});
        continue;
      }
      if (const std::string why = lack_of_memory(scenario, *model, catalog_, device_);
          !why.empty()) {
        plan_.left_out.push_back({scenario.name, why});
        continue;
      }
      PlannedModel out{file,
                       scenario.name,
                       scenario.arch,
                       scenario.info.domain,
                       {},
                       weights_bytes(*model, catalog_, scenario.limits)};
      for (const auto& phase : model->engine()->phases())
        for (const auto& [op, calls] : op_use(*model, catalog_, phase, scenario.limits))
          if (!contains(out.ops, op)) out.ops.push_back(op);
      plan_.models.push_back(std::move(out));
    }
    if (!plan_.models.empty()) return;
    const NotRun& first = plan_.left_out.at(0);
    fail(plan_.suite.name,
         "no scenario of the suite can run on " + device_ + ": " + first.what + ": " + first.why);
  }

  EvalJob job(int tier, const Submission& submission) const {
    EvalJob out;
    out.tier = tier;
    out.submission = submission.name;
    out.candidates = submission.folder;
    out.key = base_;
    out.key.add("tier", std::to_string(tier));
    return out;
  }

  void add_ops(const Submission& submission) {
    const Suite::Ops& asked = plan_.suite.ops;
    const auto recorded = recorded_ops();
    for (const auto& plugin : submission.plugins)
      for (const auto& op : plugin.ops) {
        const Contract* contract = catalog_.find(op);
        if (!contract || (!asked.only.empty() && !contains(asked.only, op))) continue;
        EvalJob one = job(1, submission);
        one.plugin = plugin.name;
        one.op = op;
        one.what = plugin.name + ", " + op;
        std::vector<std::string> words = {"--op", op, "--seconds", Json(asked.seconds).dump()};
        int cases = 1;
        if (contains(recorded, op)) {
          words.insert(words.end(), {"--recorded", asked.recorded.string()});
          one.key.add("recording", sha256_file(asked.recorded / kCaptureIndex));
        } else {
          words.insert(words.end(), {"--size", asked.size});
          if (has_routing(*contract)) words.insert(words.end(), {"--routing", asked.routing});
          cases = static_cast<int>(std::ranges::count(contract->cases, asked.size, &Case::size));
        }
        for (const auto& family : asked.families) words.insert(words.end(), {"--family", family});
        if (asked.thorough) words.emplace_back("--thorough");
        one.like = "bench " + join(words, " ") + " on " + device_;
        one.words = {"bench", plugin.file.string()};
        one.words.insert(one.words.end(), words.begin(), words.end());
        one.key.add("words", Json(words).dump());
        one.key.add("plugin", plugin.sha256);
        one.estimate_s = kVerdictStart + cases * (kCaseBeside + 2 * asked.seconds);
        plan_.jobs.push_back(std::move(one));
      }
  }

  std::vector<std::string> recorded_ops() const {
    const auto& folder = plan_.suite.ops.recorded;
    return folder.empty() ? std::vector<std::string>() : Captured::open(folder, catalog_).ops();
  }

  void add_runs(const Submission& submission) {
    const Suite::Models& asked = plan_.suite.models;
    for (const auto& model : plan_.models) {
      const bool touched = std::ranges::any_of(
          model.ops, [&](const std::string& op) { return submission.has_op(op); });
      if (!touched) continue;
      add_run(submission, model, "captured");
      if (asked.eager && starts_with(device_, "cuda")) add_run(submission, model, "eager");
    }
  }

  void add_run(const Submission& submission, const PlannedModel& model, const std::string& mode) {
    const Suite::Models& asked = plan_.suite.models;
    EvalJob one = job(2, submission);
    one.mode = mode;
    one.scenario = model.file;
    one.what = model.scenario + " (" + asked.profile + (mode == "eager" ? ", eager" : "") + ")";
    std::vector<std::string> words = {"--profile", asked.profile, "--together", submission.name};
    if (mode == "eager") words.emplace_back("--no-graph");
    if (asked.tp > 1) words.insert(words.end(), {"--tp", std::to_string(asked.tp)});
    if (asked.processes > 0)
      words.insert(words.end(), {"--processes", std::to_string(asked.processes)});
    if (asked.time_limit_s > 0)
      words.insert(words.end(), {"--time-limit", Json(asked.time_limit_s).dump()});
    const Scenario scenario = load_scenario(model.file, asked.profile);
    for (const auto& workload : scenario.workloads)
      if (contains(asked.workloads, workload.name))
        words.insert(words.end(), {"--workload", workload.name});
    one.words = {"run", model.file.string()};
    one.words.insert(one.words.end(), words.begin(), words.end());
    // The name of the submission does not matter for the time.
    words[3].clear();
    one.like = "run " + model.scenario + " " + join(words, " ") + " on " + device_;
    one.key.add("words", Json(words).dump());
    one.key.add("scenario", sha256_file(model.file));
    one.key.add("workloads",
                hash_of_files({model.file.parent_path(), paths::scenarios_dir()}, {"workloads"}));
    one.key.add("submission", submission.sha256());
    one.estimate_s = kModelStart + static_cast<double>(model.weights_bytes) / kBytesPerSecond;
    plan_.jobs.push_back(std::move(one));
  }

  const Catalog& catalog_;
  const std::string device_;
  VerdictKey base_;
  Plan plan_;
};

}  // namespace

double Plan::estimate_s() const {
  double sum = 0;
  for (const auto& job : jobs) sum += job.estimate_s;
  return sum;
}

Plan make_plan(const Suite& suite, std::vector<Submission> submissions, const Catalog& catalog,
               const std::string& device, Store& store) {
  return Planner(suite, std::move(submissions), catalog, device, store).plan();
}

void estimate_from(const std::vector<Json>& results, Plan& plan) {
  std::map<std::string, double> seconds;
  for (const auto& result : results)
    if (result.contains("like") && result.contains("seconds"))
      seconds[result["like"].get<std::string>()] = result["seconds"].get<double>();
  for (auto& job : plan.jobs)
    if (const auto found = seconds.find(job.like); found != seconds.end()) {
      job.estimate_s = found->second;
      job.measured = true;
    }
}

}  // namespace fk
