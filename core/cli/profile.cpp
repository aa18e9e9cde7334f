// SPDX-License-Identifier: Apache-2.0
// Runs Nsight Compute (`ncu`) on one case of a verdict. `ncu` starts this program's hidden verb
// `__profiled`, which makes the same inputs from the verdict's secret.
#include "core/cli/profile.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
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

// The case to profile: the first with timings, else the first right one, else the first.
const CaseVerdict* row_of(const Verdict& verdict) {
  const auto& cases = verdict.cases;
  auto row = std::find_if(cases.begin(), cases.end(),
                          [](const CaseVerdict& c) { return !c.timings.empty(); });
  if (row == cases.end())
    row = std::find_if(cases.begin(), cases.end(),
                       [](const CaseVerdict& c) { return is_right(c.status); });
  if (row == cases.end()) row = cases.begin();
  return row == cases.end() ? nullptr : &*row;
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
  // A case beside the requested ones takes neither recorded inputs nor the requested routing.
  if (!row.beside) {
    add("--captured", policy.captured);
    add("--routing", policy.routing);
  }
  add("--row-routing", row.routing);
  return words;
}

std::string profile_of(const Question& question, const Verdict& verdict, double patience_s) {
  const std::string profiler = in_path("ncu");
  if (profiler.empty())
    return "not made: there is no `ncu` in PATH (Nsight Compute, with the CUDA toolkit)";
  const CaseVerdict* const row = row_of(verdict);
  if (!row || verdict.secret.empty()) return "not made: no case called the candidate";
  if (row->ranks > 1)
    return "not made: " + std::to_string(row->ranks) + " ranks call " + row->op + " together";
  // The file may have changed since the judgement.
  if (sha256_file(question.candidate) != verdict.candidate.sha256)
    return "not made: " + question.candidate.string() + " has changed since it was judged";
  const auto words = profiler_words(question, verdict, *row);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return "not made: /dev/null cannot be opened";
  try {
    ChildProcess process(profiler, words, nothing);
    ::close(nothing);
    const auto status = process.wait(patience_s);
    process.read_log();
    if (!status) {
      process.kill();
      return "not made: " + profiler + " was not done after " + human_duration(patience_s);
    }
    return std::string(trim(process.log()));
  } catch (const Error& error) {
    ::close(nothing);
    return std::string("not made: ") + error.what();
  }
}

}  // namespace fk
