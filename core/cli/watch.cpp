// SPDX-License-Identifier: Apache-2.0
// fk-host watch SCENARIO: runs the scenario again whenever a candidate's source or .so changes.
// Sources are built first. Each run is a process of its own, so nothing of the last one is left in
// it.
#include <poll.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/verb.hpp"
#include "core/runtime/scenario.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string scenario;
  std::vector<std::string> rest;
  int max_runs = 0;
};

bool is_source(const fs::path& file) {
  const auto ext = file.extension();
  return ext == ".c" || ext == ".cpp" || ext == ".cu" || ext == ".h" || ext == ".hpp" ||
         ext == ".cuh";
}

// inotify on candidates/ and its folders; new folders are added as they appear.
class Watcher {
 public:
  explicit Watcher(const fs::path& root) : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    if (fd_ < 0) fail("watch", "inotify is not available here");
    if (!fs::is_directory(root)) fail(root.string(), "is not a folder");
    add(root);
    for (const auto& entry : fs::directory_iterator(root))
      if (entry.is_directory()) add(entry.path());
  }
  ~Watcher() { ::close(fd_); }
  Watcher(const Watcher&) = delete;

  // Blocks until something changed, then gathers what follows within 50 ms (editors write twice).
  std::set<fs::path> wait() {
    std::set<fs::path> changed;
    for (int timeout = -1;; timeout = 50) {
      pollfd p{fd_, POLLIN, 0};
      const int ready = ::poll(&p, 1, timeout);
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) {
        if (!changed.empty()) return changed;
        timeout = -1;
        continue;
      }
      read_events(changed);
      if (changed.empty()) timeout = -1;
    }
  }

 private:
  void add(const fs::path& dir) {
    const int id = ::inotify_add_watch(fd_, dir.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE);
    if (id >= 0) dirs_[id] = dir;
  }
  void read_events(std::set<fs::path>& changed) {
    alignas(inotify_event) char buffer[16384];
    for (;;) {
      const ssize_t got = ::read(fd_, buffer, sizeof buffer);
      if (got <= 0) return;
      for (ssize_t at = 0; at < got;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
        const auto dir = dirs_.find(event->wd);
        if (dir == dirs_.end() || event->len == 0) continue;
        const fs::path file = dir->second / event->name;
        if (event->mask & IN_ISDIR)
          add(file);
        else if (!(event->mask & IN_CREATE) && (file.extension() == ".so" || is_source(file)))
          changed.insert(file);
      }
    }
  }
  int fd_;
  std::map<int, fs::path> dirs_;
};

int run_again(const Arguments& a) {
  std::vector<std::string> words = {fs::read_symlink("/proc/self/exe").string(), "run", a.scenario};
  words.insert(words.end(), a.rest.begin(), a.rest.end());
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) fail("watch", "cannot start a process");
  if (child == 0) {
    ::execv(argv[0], argv.data());
    ::_exit(kExitEnvironment);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitEnvironment;
}

int watch(const Arguments& a) {
  load_scenario(find_scenario(a.scenario),
                "tiny");  // a mistake in it is told before anything is waited for
  Watcher watcher(paths::candidates_dir());
  int status = run_again(a);
  for (int runs = 1; a.max_runs == 0 || runs < a.max_runs; ++runs) {
    std::fprintf(stderr, "watching %s\n", paths::candidates_dir().c_str());
    bool run = false;
    while (!run) {
      std::set<fs::path> folders;
      for (const auto& file : watcher.wait()) {
        if (file.extension() == ".so")
          run = true;
        else if (file.parent_path() != paths::candidates_dir())
          folders.insert(file.parent_path());
      }
      // A build writes a new .so, which starts the run through its own event; the compiler's words
      // are shown.
      for (const auto& dir : folders) {
        if (!build_candidate(dir))
          std::fprintf(stderr, "watch: %s does not compile\n", dir.filename().c_str());
      }
    }
    status = run_again(a);
  }
  return status;
}

std::function<int()> add(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  app.add_option("SCENARIO", a->scenario, "a file, or a name in scenarios/")->required();
  app.add_option("--max-runs", a->max_runs, "stop after this many runs; 0: never");
  app.add_option("--run-option", a->rest,
                 "passed on to run, e.g. --run-option=--workload --run-option=smoke");
  return [a] { return watch(*a); };
}

FK_VERB(watch, "run a scenario again whenever a candidate changes", add);

}  // namespace
}  // namespace fk
