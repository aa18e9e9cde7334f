// SPDX-License-Identifier: Apache-2.0
#include "core/eval/evaluate.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/machine.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/device/identity.hpp"
#include "core/eval/rows.hpp"
#include "core/store/store.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

constexpr const char* kResultSchema = "fk-host.result/1";
constexpr const char* kEvaluations = "evaluations";

// "node7.4711": this process among those of all machines.
std::string own_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return std::string(host.data()) + "." + std::to_string(::getpid());
}

class Evaluate {
 public:
  Evaluate(const Plan& plan, const EvaluateOptions& options, const Catalog& catalog,
           ResultFolder& folder, const PlanPart& part = {})
      : plan_(plan),
        options_(options),
        catalog_(catalog),
        folder_(folder),
        part_(part),
        ends_(plan.jobs.size()) {}

  void run() {
    const double start = now_seconds();
    for (size_t i = 0; i < plan_.jobs.size(); ++i) {
      if (part_.has(i) && !use_stored(i)) waiting_.push_back(i);
    }
    std::vector<std::thread> threads;
    for (const auto& device : options_.devices)
      threads.emplace_back([&, device] { work(device, start); });
    for (auto& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

  // Jobs of the part without a result.
  size_t missing() const {
    size_t count = 0;
    for (size_t i = 0; i < ends_.size(); ++i) count += part_.has(i) && !ends_[i].why.empty();
    return count;
  }

  Evaluation of(const Submission& submission) {
    Evaluation e;
    describe(submission, e);
    e.left_out = plan_.left_out;
    e.complete = true;
    for (size_t i = 0; i < plan_.jobs.size(); ++i) {
      const EvalJob& job = plan_.jobs[i];
      if (job.submission != submission.name) continue;
      e.seconds += ends_[i].seconds;
      e.date = std::max(e.date, ends_[i].date);
      if (!ends_[i].why.empty()) {
        e.missing.push_back({job.what, ends_[i].why});
        e.complete = false;
        continue;
      }
      add_rows(job, ends_[i].document, e);
    }
    for (const auto& model : plan_.models)
      if (std::ranges::none_of(model.ops, [&](const auto& op) { return submission.has_op(op); }))
        e.models.push_back(untouched_row(model, plan_.suite.models.profile));
    score(e);
    return e;
  }

 private:
  bool use_stored(size_t i) {
    auto stored = folder_.find(plan_.jobs[i].key);
    if (!stored) return false;
    ends_[i] = {(*stored)["document"], "", (*stored)["seconds"].get<double>(),
                (*stored)["date"].get<std::string>()};
    tell(plan_.jobs[i], "stored", 0);
    return true;
  }

  void tell(const EvalJob& job, const std::string& end, double seconds) {
    if (options_.on_end) options_.on_end(job, end, seconds);
  }

  // The next job for a device; nothing: there is none, or no time for it.
  std::optional<size_t> next(double start) {
    const std::lock_guard lock(mutex_);
    while (!failure_ && at_ < waiting_.size()) {
      const size_t i = waiting_[at_++];
      const EvalJob& job = plan_.jobs[i];
      const double left = options_.time_limit_s - (now_seconds() - start);
      if (options_.time_limit_s <= 0 || job.estimate_s <= left) {
        if (options_.on_begin) options_.on_begin(job);
        return i;
      }
      ends_[i].why = "there was no time left for it";
      tell(job, ends_[i].why, 0);
    }
    return std::nullopt;
  }

  void work(const std::string& device, double start) {
    try {
      while (const auto i = next(start)) {
        const EvalJob& job = plan_.jobs[*i];
        const std::string name = std::to_string(*i + 1) + "-" + job.key.hash().substr(0, 8);
        // Another machine may have this job too, after its launcher was killed.
        const std::string mine = name + "-" + own_name() + ".json";
        JobEnd end = run_job(job, device, folder_.path() / ("job-" + mine), log_of(job, name));
        if (end.why.empty()) end.why = judge(job, end.document);
        const std::lock_guard lock(mutex_);
        if (end.why.empty())
          folder_.put(job.key, {{"schema", kResultSchema},
                                {"what", job.what},
                                {"like", job.like},
                                {"seconds", end.seconds},
                                {"date", end.date},
                                {"document", end.document}});
        tell(job, end.why.empty() ? "done" : end.why, end.seconds);
        ends_[*i] = std::move(end);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  std::string judge(const EvalJob& job, const Json& document) const {
    try {
      return no_result(job, document);
    } catch (const std::exception& error) {
      return "its document cannot be read: " + excerpt(error.what(), 300);
    }
  }

  fs::path log_of(const EvalJob& job, const std::string& name) const {
    const fs::path logs = folder_.path() / "logs";
    std::error_code code;
    fs::create_directories(logs, code);
    if (code) fail_host(logs.string(), "cannot be created: " + code.message());
    return logs / (job.submission + "-" + name + ".txt");
  }

  void add_rows(const EvalJob& job, const Json& document, Evaluation& e) {
    if (job.tier == 1) {
      auto rows = case_rows(job, document, catalog_, e.left_out);
      for (auto& row : rows) e.cases.push_back(std::move(row));
      return;
    }
    const auto model = std::ranges::find(plan_.models, job.scenario, &PlannedModel::file);
    e.models.push_back(model_row(job, *model, document, e.speed_judged));
  }

  void describe(const Submission& s, Evaluation& e) const {
    e.suite = plan_.suite.name;
    e.suite_sha256 = plan_.suite_sha256;
    e.seed = plan_.suite.seed;
    e.submission = s.name, e.author = s.author, e.kind = s.kind;
    e.budget = s.budget, e.commit = s.commit, e.note = s.note;
    for (const auto& p : s.plugins)
      e.plugins.push_back({p.name, p.version, fs::relative(p.file, s.folder), p.sha256, p.ops});
    const DeviceIdentity identity = identity_of_device(options_.devices.front());
    e.device = identity.device, e.driver = identity.driver;
    e.host = processor_name();
    e.host_build = own_build_id();
  }

  const Plan& plan_;
  const EvaluateOptions& options_;
  const Catalog& catalog_;
  ResultFolder& folder_;
  const PlanPart part_;
  std::vector<JobEnd> ends_;
  std::vector<size_t> waiting_;
  std::mutex mutex_;  // of all below, and of the folder
  size_t at_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

PlanPart plan_part(const std::string& text) {
  const auto parts = split(text, '/');
  PlanPart out;
  const auto number = [&](size_t at, int64_t& into) {
    const auto& word = parts[at];
    const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), into);
    return fault == std::errc() && end == word.data() + word.size();
  };
  if (parts.size() != 2 || !number(0, out.index) || !number(1, out.count) || out.index < 1 ||
      out.index > out.count)
    fail("--part", "`" + excerpt(text) + "` is not INDEX/COUNT", "for example 1/16, up to 16/16");
  return out;
}

size_t evaluate_part(const Plan& plan, const PlanPart& part, const EvaluateOptions& options,
                     const Catalog& catalog, ResultFolder& folder) {
  Evaluate run(plan, options, catalog, folder, part);
  run.run();
  return run.missing();
}

std::vector<Evaluation> evaluate(const Plan& plan, const EvaluateOptions& options,
                                 const Catalog& catalog, ResultFolder& folder, Store& store) {
  Evaluate run(plan, options, catalog, folder);
  run.run();
  std::vector<Evaluation> out;
  for (const auto& submission : plan.submissions) {
    Evaluation e = run.of(submission);
    const Json document = signed_evaluation(e, store.signer(), store.unsigned_because());
    if (e.complete) {
      const fs::path file = folder.path() / kEvaluations / (e.submission + "." + e.id + ".json");
      try {
        write_file_atomic(file, document.dump(1) + "\n");
      } catch (const Error& error) {
        fail_host(file.string(), "the evaluation cannot be kept: " + error.what_text(),
                  "the results are kept; the same command makes it from them");
      }
    }
    out.push_back(std::move(e));
  }
  return out;
}

std::vector<FoundEvaluation> find_evaluations(const std::vector<fs::path>& folders) {
  std::vector<FoundEvaluation> out;
  for (const auto& folder : folders) {
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(folder, none)) {
      if (entry.path().parent_path().filename() != kEvaluations ||
          entry.path().extension() != ".json")
        continue;
      FoundEvaluation found;
      found.file = entry.path();
      try {
        found.evaluation =
            read_evaluation(load_json(found.file), found.file.string(), found.unverified);
      } catch (const Error& error) {
        found.error = error.what();
      }
      out.push_back(std::move(found));
    }
  }
  std::ranges::sort(out, {}, &FoundEvaluation::file);
  return out;
}

fs::path evaluations_dir() { return paths::data_dir() / kEvaluations; }

}  // namespace fk
