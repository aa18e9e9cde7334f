// SPDX-License-Identifier: Apache-2.0
#include "core/eval/job.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/worker/process.hpp"

extern char** environ;

namespace fk {

namespace {

namespace fs = std::filesystem;

// The environment with another folder of candidates.
std::vector<std::string> environment_with(const fs::path& candidates) {
  std::vector<std::string> out;
  for (char** at = environ; *at; ++at)
    if (!std::string_view(*at).starts_with("FK_CANDIDATES=")) out.emplace_back(*at);
  out.push_back("FK_CANDIDATES=" + candidates.string());
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// In the child. Stays in the parent's process group, so that Ctrl-C ends both.
[[noreturn]] void become(pid_t parent, int log, char* const* argv, char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execve("/proc/self/exe", argv, environment);
  ::_exit(127);
}

// The last line of a job's output.
std::string last_line(const fs::path& log) {
  constexpr size_t kMost = size_t{64} << 20;
  try {
    const auto lines = split(std::string(trim(read_file(log, kMost))), '\n');
    return excerpt(trim(lines.back()), 300);
  } catch (const Error&) {
    return {};
  }
}

// Why a finished process gave no document; empty: it may have given one.
std::string why_ended(int status, const fs::path& log) {
  if (WIFSIGNALED(status)) return "it was ended by " + signal_name(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  const std::string line = last_line(log);
  return code == 2 ? line : "exit code " + std::to_string(code) + (line.empty() ? "" : ": " + line);
}

}  // namespace

JobEnd run_job(const EvalJob& job, const std::string& device, const fs::path& file,
               const fs::path& log) {
  std::error_code none;
  fs::remove(file, none);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (out < 0) fail_host(log.string(), "cannot be written: " + errno_text());
  std::vector<std::string> words = {"fk-host"};
  words.insert(words.end(), job.words.begin(), job.words.end());
  for (const auto& word : {std::string("--device"), device, std::string("--json"), file.string()})
    words.push_back(word);
  std::vector<std::string> environment = environment_with(job.candidates);
  const auto argv = pointers(words), envp = pointers(environment);
  const double start = now_seconds();
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) become(parent, out, argv.data(), envp.data());
  ::close(out);
  if (child < 0) fail_host("eval", "cannot start a process: " + errno_text());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  JobEnd end;
  end.seconds = now_seconds() - start;
  end.date = now_text();
  // A verb opens its file at once, and bad input (exit code 2) leaves no result in it.
  const bool written = fs::exists(file, none) && fs::file_size(file, none) > 0;
  if (WIFSIGNALED(status) || !written || WEXITSTATUS(status) == 2) {
    end.why = why_ended(status, log);
    fs::remove(file, none);
    return end;
  }
  try {
    end.document = load_json(file);
  } catch (const Error& error) {
    end.why = "its document cannot be read: " + std::string(error.what());
  }
  fs::remove(file, none);
  return end;
}

}  // namespace fk
