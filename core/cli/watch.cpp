// SPDX-License-Identifier: Apache-2.0
// fk-host watch SCENARIO: runs the scenario again after each change of a candidate's source or .so.
// With --check, checks the changed candidate. Sources are built first. Each run has a process of
// its own, without a state of the last one.
#include <poll.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/language.hpp"
#include "core/cli/verb.hpp"
#include "core/engines/scenario.hpp"
#include "core/plugin/notes.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct WatchArguments {
  std::string scenario;
  bool check = false;
  std::vector<std::string> rest, candidates;  // candidates: empty for all
  int max_runs = 0;
};

// inotify on candidates/ and all folders below it; new folders are added as they appear.
class Watcher {
 public:
  explicit Watcher(const fs::path& root) : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    if (fd_ < 0) fail("watch", "inotify is not available here");
    std::set<fs::path> there;
    add(root, there);
  }
  ~Watcher() { ::close(fd_); }
  Watcher(const Watcher&) = delete;

  // Blocks until a change, then collects further changes within 50 ms: editors write twice.
  std::set<fs::path> wait() {
    std::set<fs::path> changed;
    for (int timeout = -1;; timeout = changed.empty() ? -1 : 50) {
      pollfd p{fd_, POLLIN, 0};
      const int ready = ::poll(&p, 1, timeout);
      if (ready < 0 && errno != EINTR) fail("watch", "cannot wait for changes");
      if (ready == 0) return changed;
      if (ready > 0) read_events(changed);
    }
  }

 private:
  // Files that are in a folder before its watch have no event.
  void add(const fs::path& dir, std::set<fs::path>& found) {
    const int id = ::inotify_add_watch(fd_, dir.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE);
    if (id < 0) return;
    dirs_[id] = dir;
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(dir, gone)) {
      if (entry.is_directory(gone))
        add(entry.path(), found);
      else
        note(entry.path(), found);
    }
  }
  void note(const fs::path& file, std::set<fs::path>& found) const {
    if (file.extension() == ".so" || is_source(file, languages_)) found.insert(file);
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
          add(file, changed);
        else if (!(event->mask & IN_CREATE))
          note(file, changed);
      }
    }
  }
  int fd_;
  std::map<int, fs::path> dirs_;
  const std::vector<Language> languages_ = languages();
};

int run_host(std::vector<std::string> words) {
  words.insert(words.begin(), fs::read_symlink("/proc/self/exe").string());
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

// The candidate of a file in the watched folder: its folder's name, or a plugin's own.
std::string candidate_of_file(const fs::path& file, const fs::path& root) {
  const fs::path below = fs::relative(file, root);
  return below.has_parent_path() ? (*below.begin()).string() : below.stem().string();
}

// Builds changed folders until at least one plugin is new. Returns the new plugins. The .so of a
// build causes the next event. Changes of candidates that are not asked for are ignored.
std::set<fs::path> next_plugins(Watcher& watcher, const fs::path& root,
                                const std::vector<std::string>& candidates) {
  std::set<fs::path> plugins;
  while (plugins.empty()) {
    std::set<fs::path> folders;
    for (const auto& file : watcher.wait()) {
      if (!candidates.empty() && !contains(candidates, candidate_of_file(file, root))) continue;
      const fs::path below = fs::relative(file, root);
      if (file.extension() == ".so")
        plugins.insert(file);
      else if (below.has_parent_path())
        folders.insert(root / *below.begin());
    }
    for (const auto& dir : folders) {
      try {
        if (const auto built = build_candidate(dir))
          plugins.erase(*built);  // it comes with the event of this build
        else
          std::fprintf(stderr, "watch: %s does not compile\n", dir.filename().c_str());
      } catch (const std::exception& e) {  // the folder is gone, or has nothing to compile
        std::fprintf(stderr, "watch: %s\n", e.what());
      }
    }
  }
  return plugins;
}

// The name of the plugin that a candidate's folder makes; before its first build, the folder's.
std::string plugin_name_of(const std::string& candidate) {
  const fs::path root = paths::candidates_dir();
  for (const fs::path& file :
       {root / candidate / (candidate + ".so"), root / (candidate + ".so")}) {
    try {
      if (fs::exists(file)) return read_notes(file).name;
    } catch (const Error&) {  // the run reports the reason
    }
  }
  return candidate;
}

// Error for a name without a folder and without a plugin.
void need_candidate(const std::string& name, const fs::path& root) {
  std::error_code none;
  if (!fs::is_regular_file(root / (name + ".so"), none)) (void)candidate_dir(name);
}

int run_once(const WatchArguments& a, const std::set<fs::path>& plugins) {
  std::vector<std::string> words = {"run", a.scenario};
  if (!a.check) {
    for (const auto& candidate : a.candidates)
      words.insert(words.end(), {"--candidate", plugin_name_of(candidate)});
    words.insert(words.end(), a.rest.begin(), a.rest.end());
    return run_host(words);
  }
  int status = kExitOk;
  for (const auto& plugin : plugins) {
    words = {"check", plugin.string()};
    words.insert(words.end(), a.rest.begin(), a.rest.end());
    status = std::max(status, run_host(words));
  }
  return status;
}

int watch(const WatchArguments& a) {
  if (a.check != a.scenario.empty())
    fail("watch", "it needs either a scenario to run or --check", "fk-host watch llama3.1");
  // An error in the scenario is reported before the first wait.
  if (!a.check)
    for (const auto& file : scenario_files(find_scenario(a.scenario))) load_scenario(file, "tiny");
  const fs::path root = paths::candidates_dir();
  std::error_code code;
  fs::create_directories(root, code);
  if (!fs::is_directory(root)) fail(root.string(), "is not a folder and cannot be made");
  for (const auto& candidate : a.candidates) need_candidate(candidate, root);
  Watcher watcher(root);
  int status = kExitOk, runs = 0;
  if (!a.check) status = run_once(a, {}), ++runs;
  for (; a.max_runs == 0 || runs < a.max_runs; ++runs) {
    std::fprintf(stderr, "watching %s\n", root.c_str());
    status = run_once(a, next_plugins(watcher, root, a.candidates));
  }
  return status;
}

std::function<int()> add_watch(const Options& app) {
  auto a = std::make_shared<WatchArguments>();
  app.add_option("SCENARIO", a->scenario, "a file, or the name of a scenario");
  app.add_flag("--check", a->check, "check the changed candidate, in place of a scenario run");
  app.add_option("--candidate", a->candidates,
                 "watch and run only this candidate of the folder (may be repeated)")
      .one_at_a_time();
  app.add_option("--max-runs", a->max_runs, "stop after this many runs; 0: never");
  app.add_option("--option", a->rest,
                 "passed on to run or check, e.g. --option=--workload --option=smoke");
  return [a] { return watch(*a); };
}

FK_VERB(watch, "run a scenario, or a check, again whenever a candidate changes", add_watch);

}  // namespace
}  // namespace fk
