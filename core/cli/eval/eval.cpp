// SPDX-License-Identifier: Apache-2.0
// fk-host eval [SUITE] --candidates DIR...: the score of submissions over ops, models and families.
#include "core/eval/evaluate.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

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
#include "core/eval/slurm.hpp"
#include "core/report/document.hpp"
#include "core/store/store.hpp"

namespace fk {
namespace {

struct EvalArguments {
  std::string suite = "default", folder, launcher, part;
  JsonOutput json;
  std::vector<std::string> candidates, devices;
  bool plan = false;
  int tasks = 16;
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

// This command line without the options of the launcher.
std::vector<std::string> own_words() {
  std::vector<std::string> out;
  const auto words = split(read_file("/proc/self/cmdline", size_t{1} << 20), '\0');
  for (size_t i = 1; i + 1 < words.size(); ++i) {  // each word ends with a zero
    const bool apart = words[i] == "--launcher" || words[i] == "--tasks";
    if (apart) ++i;
    if (!apart && !starts_with(words[i], "--launcher=") && !starts_with(words[i], "--tasks="))
      out.push_back(words[i]);
  }
  return out;
}

// Holds <folder>/launcher.lock, so that one array at a time works in the folder.
class LauncherLock {
 public:
  explicit LauncherLock(const std::filesystem::path& folder) {
    std::error_code code;
    std::filesystem::create_directories(folder, code);
    const auto file = folder / "launcher.lock";
    fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0) fail_host(file.string(), "cannot be written: " + errno_text());
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    ::close(fd_);
    fail_host(folder.string(), "another evaluation works in this folder",
              "wait for its end, or name another folder with --folder");
  }
  ~LauncherLock() { ::close(fd_); }
  LauncherLock(const LauncherLock&) = delete;

 private:
  int fd_ = -1;
};

// Tasks of a job array run the jobs. A last job, which is this command, makes the evaluation.
int launch(const EvalArguments& a, const std::filesystem::path& where, const std::string& name) {
  const LauncherLock lock(where);
  SlurmArray array;
  array.folder = where / "slurm";
  array.tasks = a.tasks;
  array.name = "fk-eval-" + name;
  array.last = own_words();
  const auto absolute = [](const std::string& path) {
    return std::filesystem::absolute(path).string();
  };
  array.part = {"eval", std::filesystem::exists(a.suite) ? absolute(a.suite) : a.suite};
  array.part.insert(array.part.end(), {"--folder", where.string()});
  for (const auto& dir : a.candidates)
    array.part.insert(array.part.end(), {"--candidates", absolute(dir)});
  for (const auto& device : a.devices) array.part.insert(array.part.end(), {"--device", device});
  if (a.time_limit_s > 0)
    array.part.insert(array.part.end(), {"--time-limit", Json(a.time_limit_s).dump()});
  const SlurmEnd end = run_array(array, [&](const std::string& number) {
    std::fprintf(stderr,
                 "fk-host: array %s of Slurm has %d tasks; their outputs are in %s; `scancel %s` "
                 "ends them\n",
                 number.c_str(), a.tasks, array.folder.c_str(), number.c_str());
  });
  const auto shown = [](const std::filesystem::path& file, std::FILE* into) {
    std::error_code none;
    const std::string text =
        std::filesystem::exists(file, none) ? read_file(file, size_t{256} << 20) : "";
    std::fwrite(text.data(), 1, text.size(), into);
    return !text.empty();
  };
  const bool said = shown(end.errors, stderr);
  if (!shown(end.output, stdout) && !said)
    fail_host("slurm", "the last job left no output in " + end.output.string(),
              "the same command runs what is missing");
  return end.code;
}

int eval(EvalArguments& a) {
  if (a.launcher.empty()) a.json.open();
  if (a.candidates.empty())
    fail("eval", "there is no submission", "--candidates DIR, a folder with a manifest.yaml");
  const Catalog catalog(paths::registry_dirs());
  const Suite suite = load_suite(find_suite(a.suite), catalog);
  std::vector<Submission> submissions;
  for (const auto& dir : a.candidates) {
    submissions.push_back(load_submission(dir, catalog));
    a.json.attach(submissions.back().name, dir);
  }
  check_submissions(submissions);
  const auto where = std::filesystem::absolute(a.folder.empty() ? evaluations_dir() / suite.name
                                                                : std::filesystem::path(a.folder));
  if (!a.launcher.empty()) {
    need_known({a.launcher}, {"slurm"}, "--launcher", "launcher");
    if (a.plan || !a.part.empty()) fail("--launcher", "it has neither --plan nor --part");
    return launch(a, where, suite.name);
  }
  const auto devices = devices_of(a);
  Store store = Store::open_default();
  Plan plan = make_plan(suite, std::move(submissions), catalog, devices.front(), store);
  using Hold = ResultFolder::Hold;
  ResultFolder folder(where, store.signer(), store.unsigned_because(),
                      a.part.empty() ? Hold::alone : Hold::shared);
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
  const auto print_notes = [&] {
    for (const auto* notes : {&folder.notes(), &store.notes()})
      for (const auto& note : *notes)
        std::fprintf(stderr, "fk-host: %s\n", excerpt(note, 1000).c_str());
  };
  if (!a.part.empty()) {
    const size_t missing = evaluate_part(plan, plan_part(a.part), options, catalog, folder);
    print_notes();
    return missing == 0 ? kExitOk : kExitEnvironment;
  }
  const auto evaluations = evaluate(plan, options, catalog, folder, store);
  print_notes();
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
  constexpr int kTasksMost = 1000;
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
  app.add_option("--launcher", a->launcher,
                 "slurm: tasks of a job array run the jobs on machines which share the folder");
  app.add_option("--tasks", a->tasks, "of the job array").range(1, kTasksMost);
  app.add_option("--part", a->part,
                 "INDEX/COUNT: run only these jobs, beside other parts in the same folder");
  app.add_option("--time-limit", a->time_limit_s,
                 "start no job that would end after this many seconds")
      .positive();
  a->json.declare(app);
  a->json.declare_views(app);
  a->json.declare_mlflow(app);
  return [a] { return eval(*a); };
}

FK_VERB(eval, "score submissions over ops, models and families (MacroEval)", add_eval);

}  // namespace
}  // namespace fk
