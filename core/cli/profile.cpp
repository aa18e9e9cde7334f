// SPDX-License-Identifier: Apache-2.0
// Runs Nsight Compute (`ncu`) on one case of a verdict (profile.hpp). ncu starts this program
// again, with the hidden verb `__profiled` and the same secret, so the inputs are the same.
#include "core/cli/profile.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/base/work_folder.hpp"
#include "core/cli/nsight.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace {

// The program of this name on the PATH; empty: none.
std::string in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const auto& folder : split(path ? path : "", ':')) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0 && !std::filesystem::is_directory(file)) return file;
  }
  return "";
}

// The first case with timings, else the first right requested one, else the first right one, else
// the first; null: there is none.
const CaseVerdict* row_of(const Verdict& verdict) {
  const auto& cases = verdict.cases;
  auto row = std::find_if(cases.begin(), cases.end(),
                          [](const CaseVerdict& c) { return !c.timings.empty(); });
  if (row == cases.end())
    row = std::find_if(cases.begin(), cases.end(),
                       [](const CaseVerdict& c) { return !c.beside && is_right(c.status); });
  if (row == cases.end())
    row = std::find_if(cases.begin(), cases.end(),
                       [](const CaseVerdict& c) { return is_right(c.status); });
  if (row == cases.end()) row = cases.begin();
  return row == cases.end() ? nullptr : &*row;
}

// Returns the words of the profiler, at most 64 KiB. Error if it cannot start or is not done in
// time.
std::string words_of(const std::string& profiler, const std::vector<std::string>& words,
                     double patience_s) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) fail_host("/dev/null", "cannot be opened");
  const auto close = [](const int* fd) { ::close(*fd); };
  const std::unique_ptr<const int, decltype(close)> closes(&nothing, close);
  ChildProcess process(profiler, words, nothing);
  const auto status = process.wait(patience_s);
  process.read_log();
  if (!status) {
    process.kill();
    fail_host(profiler, "was not done after " + human_duration(patience_s));
  }
  return std::string(trim(process.log()));
}

}  // namespace

std::vector<std::string> profiler_words(const Question& question, const Verdict& verdict,
                                        const CaseVerdict& row) {
  const Policy& policy = question.policy;
  std::vector<std::string> words = {"--profile-from-start",
                                    "off",
                                    "--graph-profiling",
                                    "node",
                                    "--launch-count",
                                    "16",
                                    std::filesystem::read_symlink("/proc/self/exe").string(),
                                    "__profiled",
                                    question.candidate.string()};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--sha256", verdict.candidate.sha256);
  add("--device", question.device);
  add("--op", row.op);
  add("--case", row.case_name);
  add("--size", row.size);
  add("--secret", verdict.secret);
  add("--threads", std::to_string(policy.threads));
  add("--variant", row.variant);
  // A case `beside` was not requested. It is a smaller one from the contract, without the policy's
  // inputs and routing.
  if (!row.beside) {
    add("--captured", policy.captured);
    add("--routing", policy.routing);
  }
  add("--row-routing", row.routing);
  return words;
}

void add_profile(const Question& question, Verdict& verdict, double patience_s) {
  const std::string profiler = in_path("ncu");
  std::string& said = verdict.profile;
  if (profiler.empty())
    return void(said =
                    "not made: there is no `ncu` in PATH (Nsight Compute, with the CUDA toolkit)");
  const CaseVerdict* const row = row_of(verdict);
  if (!row || verdict.secret.empty()) return void(said = "not made: no case called the candidate");
  if (row->ranks > 1) {
    said = "not made: " + std::to_string(row->ranks) + " ranks call " + row->op + " together";
    return;
  }
  // The file may have changed since the judgement.
  if (sha256_file(question.candidate) != verdict.candidate.sha256)
    return void(said = "not made: " + question.candidate.string() +
                       " has changed since it was judged");
  try {
    const WorkFolder folder("profile");
    const std::string report = (folder.path / "call.ncu-rep").string();
    std::vector<std::string> words = nsight_collects();
    words.insert(words.end(), {"--force-overwrite", "--export", report});
    for (auto& word : profiler_words(question, verdict, *row)) words.push_back(std::move(word));
    said = words_of(profiler, words, patience_s);
    if (!std::filesystem::exists(report)) return;
    const auto page = [&](const char* name) {
      const std::string file = (folder.path / name).string();
      words_of(profiler,
               {"--import", report, "--page", name, "--csv", "--print-units", "base", "--log-file",
                file},
               patience_s);
      return read_file(file);
    };
    verdict.kernels = read_nsight(page("raw"), page("source"));
  } catch (const std::exception& error) {
    said += (said.empty() ? "not made: " : "\nno figures: ") + std::string(error.what());
  }
}

}  // namespace fk
