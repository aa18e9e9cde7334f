// SPDX-License-Identifier: Apache-2.0
// Starts this program again as a child (posix_spawn), and stops, continues and observes the child
// through signals and /proc.
#include "core/worker/process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/worker/board.hpp"
#include "core/worker/launch.hpp"
#include "core/worker/sandbox.hpp"

extern char** environ;

namespace fk {

namespace {

constexpr size_t kLogHalfBytes = 32 << 10;  // kept of the output's beginning, and of its end

// The file actions and attributes of one spawn.
struct SpawnSetup {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnSetup(int control_fd, int log_fd) {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, log_fd, 1);
    posix_spawn_file_actions_adddup2(&actions, log_fd, 2);
    posix_spawn_file_actions_adddup2(&actions, control_fd, kControlFd);
    posix_spawn_file_actions_addclosefrom_np(&actions, kControlFd + 1);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(
        &attributes,
        static_cast<short>(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  SpawnSetup(const SpawnSetup&) = delete;
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

// The rest of a user's environment stays private: a candidate could print it into a report, or into
// a receipt for others. A source can do so while it is compiled (`env!` of Rust, a Python program).
std::vector<char*> environment_of_libraries(bool compilers) {
  constexpr std::array kBegins = {"FK_",   "CUDA_",  "CUBLAS_", "CUDNN_",    "NVIDIA_", "NCCL_",
                                  "OMP_",  "GOMP_",  "KMP_",    "MKL_",      "DNNL_",   "ONEDNN_",
                                  "LD_",   "GLIBC_", "MALLOC_", "OPENBLAS_", "LC_",     "ASAN_",
                                  "LSAN_", "UBSAN_", "TSAN_",   "XDG_"};
  constexpr std::array kNames = {"PATH", "HOME", "TMPDIR", "LANG", "TZ", "NO_COLOR", "USER"};
  constexpr std::array kOfCompilers = {"CC",      "CXX",       "NVCC",  "CPATH",  "C_INCLUDE_",
                                       "CPLUS_",  "LIBRARY_",  "RUST",  "CARGO_", "PYTHON",
                                       "TRITON_", "TILELANG_", "TVM_",  "CUTE_",  "VIRTUAL_ENV",
                                       "CCACHE_", "SOURCE_",   "CLANG", "GCC_",   "TMP"};
  constexpr std::array kSecrets = {"FK_REDIS", "FK_TOKEN"};
  std::vector<char*> out;
  for (char** at = environ; *at; ++at) {
    const std::string_view word = *at, name = word.substr(0, word.find('='));
    const auto begins = [&](const char* begin) { return name.starts_with(begin); };
    if (std::ranges::count(kSecrets, name)) continue;
    if (std::ranges::count(kNames, name) || std::ranges::any_of(kBegins, begins) ||
        (compilers && std::ranges::any_of(kOfCompilers, begins)))
      out.push_back(*at);
  }
  out.push_back(nullptr);
  return out;
}

pid_t spawn_child(const std::string& executable, const std::vector<std::string>& arguments,
                  int control_fd, int log_fd, Environment environment) {
  // dup2 onto the same number would keep close-on-exec, so the sources get numbers from 10 on.
  const int log = ::fcntl(log_fd, F_DUPFD_CLOEXEC, 10);
  const int control = ::fcntl(control_fd, F_DUPFD_CLOEXEC, 10);
  std::vector<std::string> words{"fk-host"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int code = EMFILE;
  pid_t pid = -1;
  if (log >= 0 && control >= 0) {
    const SpawnSetup setup(control, log);
    const bool all = environment == Environment::all;
    code = ::posix_spawn(&pid, executable.c_str(), &setup.actions, &setup.attributes, argv.data(),
                         all ? environ : environment_of_libraries().data());
  }
  ::close(log);
  ::close(control);
  if (code != 0) fail("runner", "cannot start " + executable + ": " + std::strerror(code));
  return pid;
}

ChildProcess::ChildProcess(const std::string& executable, const std::vector<std::string>& arguments,
                           int control_fd, LaunchAgent* agent, Environment environment)
    : agent_(agent) {
  std::array<int, 2> pipe_fds{};
  if (::pipe2(pipe_fds.data(), O_CLOEXEC) != 0)
    fail("runner", "cannot make a pipe: " + errno_text());
  log_fd_ = pipe_fds[0];
  ::fcntl(log_fd_, F_SETFL, O_NONBLOCK);
  try {
    pid_ = agent_ ? agent_->spawn(executable, arguments, control_fd, pipe_fds[1])
                  : spawn_child(executable, arguments, control_fd, pipe_fds[1], environment);
  } catch (...) {
    ::close(pipe_fds[1]);
    ::close(log_fd_);
    throw;
  }
  ::close(pipe_fds[1]);
}

ChildProcess::~ChildProcess() {
  kill();
  if (agent_) {
    wait(/*timeout_s=*/10);
  } else if (!status_) {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  remove_compiler_folder(pid_);
  ::close(log_fd_);
}

void ChildProcess::kill() {
  // Kills the group, because a plugin may have started processes. Only once, because the number may
  // belong to another process after the end.
  if (killed_) return;
  killed_ = true;
  ::kill(-pid_, SIGKILL);
  if (!status_) ::kill(pid_, SIGKILL);
}

namespace {

// A thread may need one more time slice to stop, so less work than this counts as none.
constexpr int64_t kStoppingNs = 50'000;
// A virtual machine may pause a thread in the middle of stopping, but not each time. thaw() reports
// a process with kOften such stops, if they are a share of 1/kShare or more.
constexpr int kOften = 5, kShare = 4;

// The kernel delivers a process's signal to one thread, which stops the others. If this thread
// waits in an uninterruptible call, the others would go on. So each thread gets the signal.
constexpr double kPromptS = 50e-6;  // time in which a normal process stops
void stop_each_thread(pid_t pid) {
  std::error_code code;
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task", code);
  for (auto at = begin(tasks); !code && at != end(tasks); at.increment(code))
    ::syscall(SYS_tgkill, pid, std::atoi(at->path().filename().c_str()), SIGSTOP);
  ::kill(pid, SIGSTOP);
}

// Processor time of all threads of a process; nothing after its end. A running thread's time is
// late by up to a tick, so read it when all threads have been stopped for a while.
std::optional<int64_t> worked_ns(pid_t pid) {
  clockid_t clock = 0;
  timespec t{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &t) != 0)
    return std::nullopt;
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// True: the child has stopped; false: it has ended; nothing: it still stops. The kernel reports the
// stop when the last thread has stopped. WNOWAIT leaves the report for a later call.
std::optional<bool> has_stopped(pid_t pid) {
  siginfo_t info{};
  const int what = WSTOPPED | WEXITED | WNOWAIT | WNOHANG;
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, what) != 0)
    return errno == EINTR ? std::nullopt : std::optional(false);
  return info.si_pid == pid ? std::optional(info.si_code == CLD_STOPPED) : std::nullopt;
}

// Does the same for another process's child, by the states of its threads: the kernel reports stops
// only to the parent.
std::optional<bool> stands_still(pid_t pid) {
  std::error_code code;
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task", code);
  bool any = false;
  for (auto at = begin(tasks); !code && at != end(tasks); at.increment(code)) {
    std::string text;
    std::getline(std::ifstream(at->path() / "stat"), text);
    const size_t name_end = text.rfind(')');  // the name may hold any character
    const char state = name_end + 2 < text.size() ? text[name_end + 2] : 'X';
    if (state == 'Z' || state == 'X') continue;  // an ended thread
    if (state != 'T') return std::nullopt;
    any = true;
  }
  return any;
}

}  // namespace

void ChildProcess::signal(int number) {
  if (!status_ && !killed_) ::kill(pid_, number);
}

bool ChildProcess::freeze() {
  constexpr double kPatience = 2;
  if (status_ || ::kill(pid_, SIGSTOP) != 0) return false;
  if (std::exchange(stopped_, true)) worked_ns_ = worked_ns(pid_);
  // A process that does not stop gets no further time: another process's signal may continue it.
  const double begin = now_seconds();
  double told = begin;
  for (double now = begin; now < begin + kPatience; now = now_seconds()) {
    if (const auto stands = agent_ ? stands_still(pid_) : has_stopped(pid_)) return *stands;
    if (now - begin < 1e-3)
      ::sched_yield();
    else
      ::usleep(100);
    if (now - told < kPromptS) continue;
    stop_each_thread(pid_);
    told = now_seconds();
  }
  return false;
}

void ChildProcess::begin_freeze() {
  if (!status_) ::kill(pid_, SIGSTOP);
}

bool ChildProcess::thaw() {
  const auto before = std::exchange(worked_ns_, std::nullopt);
  const auto now = before && !status_ ? worked_ns(pid_) : std::nullopt;
  stopped_ = false;
  if (!status_) ::kill(pid_, SIGCONT);
  if (!now) return true;
  ++stops_;
  worked_stopped_ += *now > *before + kStoppingNs;
  return worked_stopped_ < kOften || worked_stopped_ * kShare < stops_;
}

std::optional<double> ChildProcess::worked_s() const {
  const auto ns = status_ ? std::nullopt : worked_ns(pid_);
  return ns ? std::optional(1e-9 * static_cast<double>(*ns)) : std::nullopt;
}

void ChildProcess::read_log() {
  std::array<char, 16384> data;
  // Bounded, so that endless output cannot keep the caller here.
  for (int turn = 0; turn < 64; ++turn) {
    const ssize_t got = ::read(log_fd_, data.data(), data.size());
    if (got <= 0) return;
    std::string_view text(data.data(), static_cast<size_t>(got));
    const size_t room = kLogHalfBytes - std::min(kLogHalfBytes, head_.size());
    head_ += text.substr(0, room);
    if (text.size() <= room) continue;
    tail_ += text.substr(room);
    if (tail_.size() > kLogHalfBytes) {
      cut_ = true;
      tail_.erase(0, tail_.size() - kLogHalfBytes);
    }
  }
}

std::string ChildProcess::log() const {
  return printable(head_ + (cut_ ? "\n[...]\n" : "") + tail_, "\n\t");
}

std::optional<int> ChildProcess::status() {
  int status = 0;
  if (agent_) {
    if (!status_) status_ = agent_->status(pid_);
  } else if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_)
    status_ = status;
  return status_;
}

std::optional<int> ChildProcess::wait(double timeout_s) {
  const double end = now_seconds() + timeout_s;
  while (!status()) {
    if (now_seconds() >= end) return std::nullopt;
    ::usleep(1000);
    read_log();
  }
  return status_;
}

int ChildProcess::threads() const {
  std::error_code code;
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid_) + "/task", code);
  int count = 0;
  for (auto at = begin(tasks); !code && at != end(tasks); at.increment(code)) ++count;
  return status_ ? 0 : count;
}

// A number in /proc/PID/status, by a scanf format for its line; nothing when it cannot be read.
static std::optional<uint64_t> status_number(pid_t pid, const char* format) {
  std::FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/status").c_str(), "re");
  if (!file) return std::nullopt;
  std::array<char, 256> line;
  unsigned long long number = 0;
  bool found = false;
  while (!found && std::fgets(line.data(), line.size(), file))
    found = std::sscanf(line.data(), format, &number) == 1;
  std::fclose(file);
  return found ? std::optional<uint64_t>(number) : std::nullopt;
}

std::optional<uint64_t> handled_signals(pid_t pid) { return status_number(pid, "SigCgt: %llx"); }

int64_t private_bytes(pid_t pid) {
  return static_cast<int64_t>(status_number(pid, "VmData: %llu kB").value_or(0)) * 1024;
}

int64_t resident_bytes(pid_t pid) {
  return static_cast<int64_t>(status_number(pid, "RssAnon: %llu kB").value_or(0)) * 1024;
}

bool is_own_process(pid_t pid) {
  while (pid > 1 && pid != ::getpid())
    pid = static_cast<pid_t>(status_number(pid, "PPid: %llu").value_or(0));
  return pid == ::getpid();
}

void die_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(3);  // the parent died before prctl()
}

void wake_up_quickly() {
  // The kernel's struct sched_attr, version 0; glibc has it since 2.41.
  struct {
    uint32_t size = 48, policy = SCHED_OTHER;
    uint64_t flags = 1;  // SCHED_FLAG_RESET_ON_FORK
    int32_t nice = -10;
    uint32_t priority = 0;
    uint64_t slice_ns = 100'000, deadline = 0, period = 0;
  } wish;
  static_assert(sizeof wish == 48);
  if (::syscall(SYS_sched_setattr, 0, &wish, 0U) == 0) return;
  wish.nice = 0;  // a higher priority needs a privilege, a shorter slice none
  ::syscall(SYS_sched_setattr, 0, &wish, 0U);
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name ? "SIG" + std::string(name) : "signal " + std::to_string(number);
}

}  // namespace fk
