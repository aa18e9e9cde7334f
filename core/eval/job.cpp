// SPDX-License-Identifier: Apache-2.0
#include "core/eval/job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/report/document.hpp"
#include "core/worker/process.hpp"

extern char** environ;

namespace fk {

namespace {

namespace fs = std::filesystem;

// The environment with the job's folders.
std::vector<std::string> environment_of(const EvalJob& job) {
  std::vector<std::pair<std::string, fs::path>> folders = {{"FK_CANDIDATES=", job.candidates}};
  if (!job.cache.empty()) folders.emplace_back("FK_CACHE=", job.cache);
  std::vector<std::string> out;
  for (char** at = environ; *at; ++at)
    if (std::ranges::none_of(folders, [&](const auto& folder) {
          return std::string_view(*at).starts_with(folder.first);
        }))
      out.emplace_back(*at);
  for (const auto& [name, folder] : folders) out.push_back(name + folder.string());
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
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // the parent's thread may take no signals
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  // Sockets of a server are none of its jobs' business, and would outlive a killed server in them.
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
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

// Bad input, in the words of the verb.
constexpr int kBadInput = 2;
bool is_hosts_end(int status) { return WIFSIGNALED(status) || WEXITSTATUS(status) > kBadInput; }

// Why a finished process gave no document.
std::string why_ended(int status, const fs::path& log) {
  if (WIFSIGNALED(status)) return "it was ended by " + signal_name(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  const std::string line = last_line(log);
  return code == kBadInput
             ? line
             : "exit code " + std::to_string(code) + (line.empty() ? "" : ": " + line);
}

// Waits until the process ends, or ends it. True: `stop` asked for that.
bool ended_early(pid_t child, const std::function<bool()>& stop) {
  if (!stop) return false;
  constexpr int kAskMs = 100, kPatienceMs = 2000;  // a compiler's group ends by SIGTERM alone
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  pollfd entry{fd, POLLIN, 0};  // of an older kernel -1, which is never ready
  siginfo_t end{};
  const auto over = [&](int ms) {
    end.si_pid = 0;
    return ::poll(&entry, 1, ms) > 0 ||
           (::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            end.si_pid == child);
  };
  bool stopped = false;
  while (!stopped && !over(kAskMs)) stopped = stop();
  if (stopped) {
    ::kill(child, SIGTERM);
    if (!over(kPatienceMs)) ::kill(child, SIGKILL);
  }
  if (fd >= 0) ::close(fd);
  return stopped;
}

}  // namespace

JobEnd run_job(const EvalJob& job, const std::string& device, const fs::path& file,
               const fs::path& log, const std::function<bool()>& stop) {
  std::error_code none;
  fs::remove(file, none);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (out < 0) fail_host(log.string(), "cannot be written: " + errno_text());
  std::vector<std::string> words = {"fk-host"};
  words.insert(words.end(), job.words.begin(), job.words.end());
  for (const auto& word : {std::string("--device"), device, std::string("--json"), file.string()})
    words.push_back(word);
  std::vector<std::string> environment = environment_of(job);
  const auto argv = pointers(words), envp = pointers(environment);
  const double start = now_seconds();
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) become(parent, out, argv.data(), envp.data());
  ::close(out);
  if (child < 0) fail_host("eval", "cannot start a process: " + errno_text());
  const bool stopped = ended_early(child, stop);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  JobEnd end;
  end.seconds = now_seconds() - start;
  end.date = now_text();
  if (stopped) {
    end.why = "it was stopped";
    fs::remove(file, none);
    return end;
  }
  // A verb opens its file at once. An error that ended the verb leaves no result in it.
  const bool written = fs::exists(file, none) && fs::file_size(file, none) > 0;
  try {
    const bool judged = written && !WIFSIGNALED(status) && WEXITSTATUS(status) != kBadInput;
    if (judged) end.document = load_json(file);
    if (!judged || is_error_document(end.document)) {
      end.why = why_ended(status, log);
      end.hosts = is_hosts_end(status);
      end.document = nullptr;
    }
  } catch (const Error& error) {
    end.why = "its document cannot be read: " + std::string(error.what());
    end.hosts = true;
  }
  fs::remove(file, none);
  return end;
}

}  // namespace fk
