// SPDX-License-Identifier: Apache-2.0
// An rms_norm candidate that is right, but first tries what FK_OFFENCE names. A refusal with an
// error number becomes this plugin's error. Success leaves no trace, so a test for a refusal sees a
// right candidate. Names in `legal` must work.
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fk/ops/rms_norm.h"

namespace {

std::string offence() {
  const char* name = std::getenv("FK_OFFENCE");
  return name ? name : "";
}
std::string target() {
  const char* name = std::getenv("FK_OFFENCE_TARGET");
  return name ? name : "";
}

void need(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

void open_file(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  need(fd >= 0, "open");
  ::close(fd);
}

std::string own_file() {
  Dl_info info{};
  need(::dladdr(reinterpret_cast<void*>(&own_file), &info) != 0, "dladdr");
  return info.dli_fname;
}

void new_process(const std::string& what) {
  const char* const words[] = {"true", nullptr};
  char* const* argv = const_cast<char* const*>(words);
  pid_t pid = 0;
  if (what == "exec") need(::execv("/bin/true", argv) == 0, "execv");
  if (what == "fork" && ::fork() == 0) ::_exit(0);
  if (what == "spawn") {
    errno = ::posix_spawn(&pid, "/bin/true", nullptr, nullptr, argv, environ);
    need(errno == 0, "posix_spawn");
  }
}

void other_process(const std::string& what) {
  const pid_t broker = ::getppid();
  if (what == "ptrace") need(::ptrace(PTRACE_ATTACH, broker, nullptr, nullptr) == 0, "ptrace");
  char byte = 0;
  const iovec here{&byte, 1}, there{&byte, 1};
  if (what == "peek") need(::process_vm_readv(broker, &here, 1, &there, 1, 0) == 1, "readv");
  if (what == "kill") need(::kill(broker, SIGKILL) == 0, "kill");
  if (what == "kill_all") need(::kill(-1, SIGTERM) == 0, "kill");
  if (what == "memory_of") open_file("/proc/" + std::to_string(broker) + "/mem", O_RDWR);
  if (what == "environment_of") open_file("/proc/" + std::to_string(broker) + "/environ", O_RDONLY);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  if (what == "pin") need(::sched_setaffinity(broker, sizeof one, &one) == 0, "affinity");
  if (what == "slow") need(::setpriority(PRIO_PROCESS, static_cast<id_t>(broker), 19) == 0, "nice");
}

void outside(const std::string& what) {
  if (what == "read") open_file(target(), O_RDONLY);
  if (what == "list") open_file("/", O_RDONLY | O_DIRECTORY);
  if (what == "write") open_file(target(), O_WRONLY | O_CREAT);
  if (what == "write_own") open_file(own_file(), O_WRONLY);
  if (what == "remove") need(::unlink(target().c_str()) == 0, "unlink");
  if (what == "library")
    if (!::dlopen(target().c_str(), RTLD_NOW)) throw std::runtime_error(::dlerror());
  if (what == "socket") need(::socket(AF_INET, SOCK_STREAM, 0) >= 0, "socket");
  if (what == "local") need(::socket(AF_UNIX, SOCK_STREAM, 0) >= 0, "socket");
}

void sandbox(const std::string& what) {
  rlimit limit{};
  if (what == "limits") {
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max = limit.rlim_max * 2;
    need(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
  }
  if (what == "handler") need(::signal(SIGSYS, SIG_IGN) != SIG_ERR, "signal");
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGXFSZ}) {
    struct sigaction now {};
    if (what == "crash" + std::to_string(number))
      need(::signal(number, SIG_IGN) != SIG_ERR, "signal");
    if (what == "handlers_read") need(::sigaction(number, nullptr, &now) == 0, "sigaction");
  }
  if (what == "outlive") need(::prctl(PR_SET_PDEATHSIG, 0) == 0, "prctl");
  if (what == "dump") need(::prctl(PR_SET_DUMPABLE, 1) == 0, "prctl");
  if (what == "root") need(::setuid(0) == 0, "setuid");
  const size_t bytes = size_t{1} << 20;
  if (what == "shared")
    need(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) !=
             MAP_FAILED,
         "mmap");
  if (what == "memfd") need(::memfd_create("x", 0) >= 0, "memfd_create");
  sigset_t all;
  sigfillset(&all);
  if (what == "blocked") {
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    need(::socket(AF_INET, SOCK_STREAM, 0) >= 0, "socket");
  }
}

__attribute__((noinline)) int deep(volatile int level) {
  volatile char room[4096];
  room[0] = static_cast<char>(level);
  return level < 0 ? 0 : deep(level + 1) + room[0];
}

// Acts that meet a limit, or end the process by a signal of its own.
void limits(const std::string& what) {
  if (what == "grow")  // a file that the host has left open
    for (int fd = 0; fd < 256; ++fd) {
      struct stat file {};
      if (::fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
          ::pwrite(fd, "x", 1, file.st_size) > 0)
        ::ftruncate(fd, file.st_size);
    }
  if (what == "tell") {  // as the host's own task does, through its socket
    const auto length = static_cast<uint32_t>(target().size());
    const std::string head(reinterpret_cast<const char*>(&length), sizeof length);
    constexpr int kControl = 3;
    need(::write(kControl, (head + target()).data(), head.size() + length) > 0, "write");
  }
  if (what == "stack") deep(1);
  if (what == "null") *static_cast<volatile int*>(nullptr) = 1;
  if (what == "garbage") *reinterpret_cast<volatile int*>(uintptr_t{0x6b6b6b6b6b6b6b6b}) = 1;
  if (what == "trap") ::raise(SIGTRAP);
  if (what == "alarm") {
    ::alarm(1);
    for (;;) ::pause();
  }
  if (what == "crowd") {
    std::vector<std::thread> team;  // ends the process where the next one cannot be started
    for (;;) team.emplace_back([] { ::pause(); });
  }
}

void legal(const std::string& what) {
  if (what == "own_file") open_file(own_file(), O_RDONLY);
  if (what == "limits_read") {
    rlimit limit{};
    need(::getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
  }
  if (what == "maps") open_file("/proc/self/maps", O_RDONLY);
  if (what == "threads") {
    std::atomic<int> sum{0};
    std::vector<std::thread> team;
    for (int i = 0; i < 8; ++i) team.emplace_back([&sum, i] { sum += i; });
    for (auto& thread : team) thread.join();
    need(sum == 28, "threads");
  }
  if (what == "openmp") {
    int sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(4)
    for (int i = 0; i < 1000; ++i) sum += i;
    need(sum == 499500, "openmp");
  }
}

// Not inlined, so that a backtrace has a frame in this file.
__attribute__((noinline)) void offend() {
  const std::string what = offence();
  new_process(what);
  other_process(what);
  outside(what);
  sandbox(what);
  limits(what);
  legal(what);
}

// Before any function of the plugin is called.
struct Early {
  Early() {
    if (offence() == "early") ::socket(AF_INET, SOCK_STREAM, 0);
  }
} early;

struct Norm {
  using op = fk::rms_norm;
  static constexpr fk_claims claims = fk::cpu_claims;
  op::init init;
  op::weights weights;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    const bool f32 = max.x->dtype.code == 2 && max.x->dtype.bits == 32;
    if (!f32 || !weights.weight.or_null || max.x->strides[1] != 1)
      throw fk::unsupported{"x: float32 rows with a weight only"};
  }
  Norm(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    offend();
    const int64_t channels = init.hidden_size, rows = args.x->shape[0];
    const float* weight = fk::data<float>(weights.weight);
    for (int64_t t = 0; t < rows; ++t) {
      const float* x = fk::data<float>(args.x) + t * args.x->strides[0];
      float* out = fk::data<float>(args.out) + t * args.out->strides[0];
      float* residual = fk::data<float>(args.residual);
      if (residual) residual += t * args.residual.or_null->strides[0];
      double sum = 0;
      for (int64_t c = 0; c < channels; ++c) {
        out[c] = x[c] + (residual ? residual[c] : 0.0F);
        if (residual) residual[c] = out[c];
        sum += double(out[c]) * double(out[c]);
      }
      const double gain = 1 / std::sqrt(sum / double(channels) + init.eps);
      for (int64_t c = 0; c < channels; ++c) out[c] = float(out[c] * gain * double(weight[c]));
    }
  }
};
FK_OP(rms_norm, Norm);

}  // namespace

FK_PLUGIN("offend", "1.0");
