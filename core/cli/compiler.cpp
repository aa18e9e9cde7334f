// SPDX-License-Identifier: Apache-2.0
#include "core/cli/compiler.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/worker/landlock.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

constexpr rlim_t kFile = rlim_t{2} << 30;

// Folders of a compiler outside of the system's: the folder above its own, unless the host's own
// files are there too.
void add_installation(const std::string& program, std::vector<fs::path>& out) {
  std::error_code none;
  std::vector<std::string> folders = {""};
  if (program.find('/') == std::string::npos) folders = split(environment("PATH"), ':');
  for (const auto& folder : folders) {
    const fs::path named = fs::path(folder) / program, file = fs::canonical(named, none);
    if (none) continue;
    const fs::path above = fs::absolute(named).parent_path().parent_path();
    if (fs::exists(above / "pyvenv.cfg", none)) out.push_back(above);  // Python's packages
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
       {"CUDA_HOME", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "PYTHONPATH"})
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

// Confines the child before it starts the program, as far as the kernel supports it.
void confine(const std::vector<fs::path>& programs, const Workshop& workshop) {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, static_cast<rlim_t>(workshop.seconds) + 1);
  limit(RLIMIT_AS, rlim_t{kCompilerMemory});
  limit(RLIMIT_FSIZE, kFile);
  ::setenv("TMPDIR", workshop.made.c_str(), 1);
  ::setenv("CCACHE_DISABLE", "1", 1);  // it stores files elsewhere
  std::vector<fs::path> read = workshop.read;
  for (const char* path : {"/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm",
                           "/sys/devices/system", "/etc/ld.so.cache", "/dev/urandom"})
    read.emplace_back(path);
  Landlock landlock(read, {"/dev/null"}, programs, {workshop.made});
  landlock.enforce();
  if (workshop.runs_sources && !landlock.why().empty())
    std::fprintf(stderr,
                 "note: this kernel does not confine the sources' own statements, which run now: "
                 "%s\n",
                 landlock.why().c_str());
}

// A signal that ends this process first ends the process groups of all compilers. A compiler's own
// children do not get the terminal's signals, nor notice this end.
class EndedWithUs {
 public:
  explicit EndedWithUs(pid_t group) : group_(group) {
    const std::lock_guard lock(mutex_);
    const bool first = std::ranges::all_of(groups_, [](pid_t one) { return one == 0; });
    replace(0, group_);
    if (!first) return;
    for (size_t i = 0; i < kEnding.size(); ++i) {
      ::sigaction(kEnding[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_IGN) continue;
      struct sigaction action {};
      action.sa_handler = on_signal;
      ::sigaction(kEnding[i], &action, nullptr);
    }
  }
  ~EndedWithUs() {
    const std::lock_guard lock(mutex_);
    replace(group_, 0);
    if (std::ranges::all_of(groups_, [](pid_t one) { return one == 0; })) put_back();
  }
  EndedWithUs(const EndedWithUs&) = delete;

 private:
  static constexpr size_t kCompilersMax = 64;
  static constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP};
  const pid_t group_;
  static inline std::mutex mutex_;
  static inline std::array<std::atomic<pid_t>, kCompilersMax> groups_{};  // 0: none
  static inline std::array<struct sigaction, kEnding.size()> before_{};
  static void put_back() {
    for (size_t i = 0; i < kEnding.size(); ++i) ::sigaction(kEnding[i], &before_[i], nullptr);
  }
  static void replace(pid_t old, pid_t now) {
    const auto at = std::ranges::find_if(groups_, [old](pid_t one) { return one == old; });
    if (at != groups_.end()) *at = now;
  }
  static void on_signal(int number) {
    for (const auto& group : groups_)
      if (const pid_t one = group; one != 0) ::kill(-one, SIGKILL);
    put_back();
    ::raise(number);
  }
};

// Reads a descriptor to its end and closes it. False when the time is over first. Keeps a limited
// amount, because sources can make a compiler print without end.
bool read_all(int fd, double seconds, std::string& out) {
  constexpr size_t kSaidMost = size_t{4} << 20;
  const double end = now_seconds() + seconds;
  char buffer[4096];
  bool whole = false;
  for (double left = seconds; !whole && left > 0; left = end - now_seconds()) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(std::min(left, 1000.0) * 1e3) + 1) <= 0) continue;
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got > 0 && out.size() < kSaidMost) out.append(buffer, static_cast<size_t>(got));
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
  std::vector<fs::path> programs = programs_for(words[0]);
  programs.insert(programs.end(), workshop.programs.begin(), workshop.programs.end());
  int ends[2] = {-1, -1};
  if (said && ::pipe2(ends, O_CLOEXEC) != 0) fail("build", "cannot make a pipe");
  std::vector<char*> known = environment_of_libraries(true);
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
    if (!workshop.at.empty() && ::chdir(workshop.at.c_str()) != 0) ::_exit(127);
    if (workshop.confined) {
      environ = known.data();
      confine(programs, workshop);  // adds variables of its own
    }
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  if (said) {
    ::setpgid(child, child);  // parent and child both do this; either may be first
    const EndedWithUs ended(child);
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

namespace {

constexpr size_t kWordsMost = 16 << 10;
constexpr int kPlaceLines = 40;  // lines to search for the cause of an error

// True for a message of a compiler. False for an excerpt of a source (with a bar in front), and for
// names that contain the word.
bool complains(const std::string& line) {
  const size_t bar = line.find_first_not_of(" 0123456789");
  if (bar != std::string::npos && line[bar] == '|') return false;
  const size_t error = line.find("error:");
  if (error == 0 || (error != std::string::npos && line[error - 1] == ' ')) return true;
  if (line.find("undefined reference") != std::string::npos) return true;
  const bool assembles = starts_with(line, "ptxas ") || starts_with(line, "nvlink ");
  return assembles &&
         (line.find(" error") != std::string::npos || line.find(" fatal") != std::string::npos);
}

// "norm.cpp:12" or "norm.cu(12)" for a line about a relative file name.
std::string own_place(const std::string& line) {
  constexpr std::string_view kFrom = "from ";
  const size_t from = line.find(kFrom);
  const std::string text =
      (line[0] == ' ' || starts_with(line, "In file")) && from != std::string::npos
          ? line.substr(from + kFrom.size())
          : line;
  if (text.empty() || text[0] == '/' || text[0] == ' ') return "";
  const size_t digits = text.find_first_of(":(");
  if (digits == std::string::npos || digits + 1 == text.size()) return "";
  const size_t end = text.find_first_not_of("0123456789", digits + 1);
  const bool number = end != digits + 1 && text.find('.') < digits && text.find(' ') > digits;
  return number ? text.substr(0, end) + (text[digits] == '(' ? ")" : "") : "";
}

}  // namespace

std::string first_error(const std::string& said) {
  const std::vector<std::string> lines = split(said, '\n');
  const auto first = std::find_if(lines.begin(), lines.end(), complains);
  if (first == lines.end()) return "the compiler ended with an error";
  std::string out = excerpt(trim(*first), 300);
  if (!own_place(*first).empty()) return out;
  for (auto before = first; before != lines.begin() && first - before < kPlaceLines;) {
    const std::string place = (--before)->empty() ? "" : own_place(*before);
    if (!place.empty()) return out + ", from " + excerpt(place, 100);
  }
  return out;
}

std::string next_of_error(const std::string& said) {
  const std::string line = first_error(said);
  const auto has = [&](const char* words) { return line.find(words) != std::string::npos; };
  if (has("__start_fk_ops")) return "The plugin has no op. Add FK_OP(op, Class) to a source.";
  if (has("undefined reference"))
    return "Define what is missing, in a source of the folder; plugins link the C and C++ "
           "libraries and the CUDA runtime alone.";
  if (has("plugin.hpp"))
    return "A function of the class has the wrong parameters. `fk-host show OP` prints the class "
           "with the right ones.";
  if (has("No such file") || has("Permission denied"))
    return "A source may include the folder's own files, fk/ops/OP.h, fk/cpp/plugin.hpp, "
           "fk/cpp/floats.hpp and the system's headers.";
  if (has("was ended after")) return "Compile less: fewer instances of templates, smaller unrolls.";
  return "";
}

std::string cut_words(const std::string& said) {
  if (said.size() <= kWordsMost) return said;
  const size_t end = said.rfind('\n', kWordsMost);
  const size_t kept = end == std::string::npos ? kWordsMost : end + 1;
  const auto more = std::count(said.begin() + static_cast<std::ptrdiff_t>(kept), said.end(), '\n');
  return said.substr(0, kept) + "[... " + std::to_string(more) + " lines more]\n";
}

}  // namespace fk
