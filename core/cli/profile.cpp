// SPDX-License-Identifier: Apache-2.0
#include "core/cli/profile.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace {

// The program of that name as a shell would find it; empty: there is none.
std::string in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const auto& folder : split(path ? path : "", ':')) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0 && !std::filesystem::is_directory(file)) return file;
  }
  return "";
}

}  // namespace

std::string profile_of(const Question& question, const std::string& case_name, double patience_s) {
  const std::string profiler = in_path("ncu");
  if (profiler.empty())
    return "not made: there is no `ncu` in PATH (Nsight Compute, with the CUDA toolkit)";
  const auto& policy = question.policy;
  std::vector<std::string> words = {"--target-processes",
                                    "all",
                                    "--launch-count",
                                    "16",
                                    std::filesystem::read_symlink("/proc/self/exe").string(),
                                    "bench",
                                    question.candidate.string(),
                                    "--device",
                                    question.device,
                                    "--size",
                                    policy.size,
                                    "--seconds",
                                    "0",
                                    "--no-store",
                                    "--no-sandbox"};
  for (const auto& op : policy.ops) words.insert(words.end(), {"--op", op});
  if (!case_name.empty()) words.insert(words.end(), {"--case", case_name});
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
