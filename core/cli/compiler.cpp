// SPDX-License-Identifier: Apache-2.0
#include "core/cli/compiler.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/worker/landlock.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

constexpr rlim_t kMemory = rlim_t{16} << 30, kFile = rlim_t{2} << 30;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Where a compiler that is installed elsewhere has its parts: the folder above its own, unless what
// is the host's own lies there as well.
void add_installation(const std::string& program, std::vector<fs::path>& out) {
  std::error_code none;
  std::vector<std::string> folders = {""};
  if (program.find('/') == std::string::npos) folders = split(environment("PATH"), ':');
  for (const auto& folder : folders) {
    const fs::path file = fs::canonical(fs::path(folder) / program, none);
    if (none) continue;
    const fs::path bin = file.parent_path(), all = bin.parent_path();
    const std::string own = fs::weakly_canonical(paths::data_dir(), none).string();
    const bool shared = all == all.root_path() || starts_with(own, all.string() + "/");
    out.push_back(shared ? bin : all);
    return;
  }
}

std::vector<fs::path> programs_for(const std::string& program) {
  std::vector<fs::path> out = {"/usr", "/lib", "/lib32", "/lib64", "/bin", "/opt", "/nix/store"};
  add_installation(program, out);
  for (const char* name : {"CC", "CXX", "NVCC"})  // nvcc starts a compiler of its own
    if (const std::string other = environment(name); !other.empty()) add_installation(other, out);
  for (const char* name :
       {"CUDA_HOME", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"})
    for (const auto& folder : split(environment(name), ':'))
      if (!folder.empty()) out.emplace_back(folder);
  return out;
}

void limit(__rlimit_resource_t what, rlim_t most) {
  rlimit now{};
  if (::getrlimit(what, &now) != 0) return;
  now.rlim_max = std::min(now.rlim_max, most);
  now.rlim_cur = std::min(now.rlim_cur, now.rlim_max);
  (void)::setrlimit(what, &now);
}

// In the child, before the program is there. What the kernel does not offer is left out.
void confine(const std::vector<fs::path>& programs, const Workshop& workshop) {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, static_cast<rlim_t>(workshop.seconds) + 1);
  limit(RLIMIT_AS, kMemory);
  limit(RLIMIT_FSIZE, kFile);
  ::setenv("TMPDIR", workshop.made.c_str(), 1);
  ::setenv("CCACHE_DISABLE", "1", 1);  // it keeps what it has seen elsewhere
  std::vector<fs::path> read = workshop.read;
  for (const char* path : {"/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm",
                           "/sys/devices/system", "/etc/ld.so.cache", "/dev/urandom"})
    read.emplace_back(path);
  Landlock landlock(read, {"/dev/null"}, programs, {workshop.made});
  landlock.enforce();
}

// Everything that comes out of a descriptor, which is closed; false when the time is over before.
bool read_all(int fd, double seconds, std::string& out) {
  const double end = now_seconds() + seconds;
  char buffer[4096];
  bool whole = false;
  for (double left = seconds; !whole && left > 0; left = end - now_seconds()) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(std::min(left, 1000.0) * 1e3) + 1) <= 0) continue;
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got > 0) out.append(buffer, static_cast<size_t>(got));
    whole = got == 0 || (got < 0 && errno != EINTR);
  }
  ::close(fd);
  return whole;
}

}  // namespace

int run_compiler(const std::vector<std::string>& words, const Workshop& workshop,
                 std::string* said) {
  std::vector<char*> argv;
  for (const auto& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const std::vector<fs::path> programs = programs_for(words[0]);
  int ends[2] = {-1, -1};
  if (said && ::pipe2(ends, O_CLOEXEC) != 0) fail("build", "cannot make a pipe");
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) fail("build", "cannot start a process");
  if (child == 0) {
    if (said) {
      ::setpgid(0, 0);  // so that its own programs can be ended with it
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
    }
    confine(programs, workshop);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  if (said) {
    ::close(ends[1]);
    if (!read_all(ends[0], workshop.seconds, *said)) {
      ::kill(-child, SIGKILL);
      *said += "error: " + words[0] + " was ended after " + human_duration(workshop.seconds) + "\n";
    }
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace fk
