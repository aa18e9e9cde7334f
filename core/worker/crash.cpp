// SPDX-License-Identifier: Apache-2.0
// Signal handlers that describe a crash (crash.hpp). They call backtrace() and dladdr(), which are
// not async-signal-safe. Both are called once in advance, so that they load nothing later. If they
// hang, the controller's watchdog ends the process.
#include "core/worker/crash.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/worker/process.hpp"
#include "core/worker/syscall_filter.hpp"

namespace fk {

namespace {

Board* board_of_process = nullptr;
constexpr int kFramesMax = 32;
constexpr int kBySeccomp = 1;  // SYS_SECCOMP, missing in some headers
constexpr std::array<int, 8> kSignals = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                         SIGABRT, SIGTRAP, SIGSYS, SIGXFSZ};

// Memory which a fault may hit, with its name for the report. The array is a ring: a new name
// replaces the oldest one.
struct NamedMemory {
  uintptr_t begin = 0, end = 0;
  const char* words = nullptr;  // kPastEnd or kInInput
  char what[40] = "";
};
std::array<NamedMemory, 4096> named_memory;
size_t memory_named = 0;  // names added so far
constexpr uintptr_t kPage = 4096;

// The newest name for the address, or null; addresses are reused.
const NamedMemory* name_of(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (size_t i = 1; i <= std::min(memory_named, named_memory.size()); ++i) {
    const NamedMemory& one = named_memory[(memory_named - i) % named_memory.size()];
    if (at >= one.begin && at < one.end) return &one;
  }
  return nullptr;
}

void add_name(uintptr_t begin, uintptr_t end, const char* words, const std::string& what) {
  NamedMemory& one = named_memory[memory_named++ % named_memory.size()];
  one.begin = begin;
  one.end = end;
  one.words = words;
  std::snprintf(one.what, sizeof one.what, "%s", what.c_str());
}

// True if the address is near the stack pointer: the fault is then at the stack's end, because
// other memory is far away.
bool beside_stack(const void* address, const void* context) {
  const auto* c = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  const auto pointer = static_cast<uintptr_t>(c->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  const auto pointer = static_cast<uintptr_t>(c->uc_mcontext.sp);
#else
  const uintptr_t pointer = 0;
  static_cast<void>(c);
#endif
  constexpr uintptr_t kNear = 64 << 10;
  const auto at = reinterpret_cast<uintptr_t>(address);
  return at + kNear > pointer && at < pointer + kNear;
}

// The limit of threads if the process has reached it, else 0.
int threads_most() {
  rlimit most{};
  if (::getrlimit(RLIMIT_NPROC, &most) != 0 || most.rlim_cur > 1 << 20) return 0;
  std::FILE* file = std::fopen("/proc/self/status", "re");
  if (!file) return 0;
  char line[256];
  int threads = 0;
  while (threads == 0 && std::fgets(line, sizeof line, file))
    if (std::sscanf(line, "Threads: %d", &threads) != 1) threads = 0;
  std::fclose(file);
  const auto all = static_cast<int>(most.rlim_cur);
  return threads >= all ? all : 0;
}

void write_text(const char* text, int length) {
  if (length > 0) [[maybe_unused]]
    const ssize_t n = ::write(2, text, static_cast<size_t>(length));
}

const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// "mine.so+0x1139 (forward)"; returns 0 if the address is in no file.
int describe(void* address, char* text, size_t size) {
  Dl_info info{};
  if (!dladdr(address, &info) || !info.dli_fname) return 0;
  const auto offset = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase);
  return std::snprintf(text, size, "%s+0x%lx%s%s%s", file_name(info.dli_fname),
                       static_cast<unsigned long>(offset), info.dli_sname ? " (" : "",
                       info.dli_sname ? info.dli_sname : "", info.dli_sname ? ")" : "");
}

// True for plugin code: neither this program nor a system library.
bool of_plugin(void* address, const char* program) {
  Dl_info info{};
  if (!dladdr(address, &info) || !info.dli_fname) return false;
  const char* name = file_name(info.dli_fname);
  return std::strcmp(info.dli_fname, program) != 0 && std::strncmp(name, "lib", 3) != 0 &&
         std::strncmp(name, "ld-", 3) != 0 && std::strncmp(name, "fk-host", 7) != 0 &&
         std::strncmp(name, "linux-vdso", 10) != 0;
}

// Prints the stack, writes `what` and the innermost frame of a plugin to the board, and closes the
// connection.
void report(const char* what) {
  std::array<void*, kFramesMax> frames{};
  const int count = backtrace(frames.data(), kFramesMax);
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&report), &self);
  char line[512], place[256] = "";
  write_text(line, std::snprintf(line, sizeof line, "%s%s\n", kCrashReport, what));
  // Frames 0 and 1 are report() and the handler.
  for (int i = 2; i < count; ++i) {
    // Stops at the host's frames below the plugin's.
    Dl_info info{};
    if (place[0] && dladdr(frames[static_cast<size_t>(i)], &info) &&
        info.dli_fbase == self.dli_fbase)
      break;
    char text[400];
    if (describe(frames[static_cast<size_t>(i)], text, sizeof text) <= 0)
      std::snprintf(text, sizeof text, "%p", frames[static_cast<size_t>(i)]);
    if (!place[0] && of_plugin(frames[static_cast<size_t>(i)], self.dli_fname))
      std::snprintf(place, sizeof place, "%.250s", text);
    write_text(line, std::snprintf(line, sizeof line, "  #%d %s\n", i - 2, text));
  }
  if (!board_of_process) return;
  std::snprintf(board_of_process->crash, sizeof board_of_process->crash, "%.110s%s%.140s", what,
                place[0] ? " in " : "", place);
  // The controller need not wait for the kernel's cleanup of the process, which takes long with
  // device memory.
  ::shutdown(kControlFd, SHUT_RDWR);
}

// Describes the address of a fault, for the text after the signal's name.
void describe_fault(int number, const siginfo_t* info, const void* context, char* text,
                    size_t size) {
  constexpr int kByKernel = 0x80;  // SI_KERNEL
  text[0] = 0;
  if (number == SIGABRT) {
    if (const int all = threads_most()) std::snprintf(text, size, "%s%d", kThreadsMost, all);
  } else if (number == SIGXFSZ ? info->si_code < 0 : info->si_code <= 0) {
    // A code of 0 or less means that a process sent the signal. The kernel itself reports SIGXFSZ
    // with the code 0.
    std::snprintf(text, size, "%s", kSelfSent);
  } else if (number == SIGSEGV && info->si_code == kByKernel) {
    std::snprintf(text, size, "%s", kNoAddress);
  } else if (number == SIGSEGV || number == SIGBUS) {
    const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
    const NamedMemory* known = name_of(info->si_addr);
    std::snprintf(text, size, " at address 0x%lx%s%s", static_cast<unsigned long>(at),
                  known                                  ? known->words
                  : at < kPage                           ? kNull
                  : beside_stack(info->si_addr, context) ? kStackEnd
                                                         : "",
                  known ? known->what : "");
  }
}

void on_signal(int number, siginfo_t* info, void* context) {
  if (board_of_process)
    board_of_process->data_bytes = static_cast<uint64_t>(private_bytes(::getpid()));
  char what[160], place[128];
  const char* name = sigabbrev_np(number);
  const bool refused = number == SIGSYS && info->si_code == kBySeccomp;
  const char* call = refused ? syscall_name(info->si_syscall) : nullptr;
  if (number == SIGABRT && info->si_code == SI_USER) {
    std::snprintf(what, sizeof what, "%s", kStopped);
  } else if (refused && call) {
    std::snprintf(what, sizeof what, "%s%s", kItCalled, call);
  } else if (refused) {
    std::snprintf(what, sizeof what, "%ssystem call %d", kItCalled, info->si_syscall);
  } else {
    describe_fault(number, info, context, place, sizeof place);
    std::snprintf(what, sizeof what, "SIG%s%s", name ? name : "?", place);
  }
  report(what);
  // SA_RESETHAND has restored the default action, and the filter prevents changes.
  ::raise(number);
}

void on_exit_call(int code, void*) {
  char what[64];
  std::snprintf(what, sizeof what, "exit(%d) was called", code);
  report(what);
  ::_exit(code);
}

}  // namespace

void name_page(const void* page, const std::string& what) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(page) / kPage * kPage;
  add_name(begin, begin + kPage, kPastEnd, what);
}

void name_input(const void* begin, int64_t bytes, const std::string& what) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  add_name(at, at + static_cast<uintptr_t>(bytes), kInInput, what);
}

void install_crash_handlers(Board& board) {
  board_of_process = &board;
  std::array<void*, 4> warm{};
  backtrace(warm.data(), static_cast<int>(warm.size()));  // loads the unwinder now
  private_bytes(::getpid());
  constexpr size_t kStackBytes = 256 << 10;
  void* stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (stack != MAP_FAILED) {
    stack_t alternative{};
    alternative.ss_sp = stack;
    alternative.ss_size = kStackBytes;
    ::sigaltstack(&alternative, nullptr);
  }
  for (const int number : kSignals) {
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | static_cast<int>(SA_RESETHAND);
    ::sigaction(number, &action, nullptr);
  }
  watch_exit();
}

void watch_exit() { ::on_exit(on_exit_call, nullptr); }

void set_stage(Board& board, const std::string& text) {
  std::snprintf(board.stage, sizeof board.stage, "%s", text.c_str());
}

void limit_private_memory(int64_t bytes) {
#if !defined(__SANITIZE_ADDRESS__)
  if (bytes <= 0) return;
  const auto total = static_cast<rlim_t>(private_bytes(::getpid()) + bytes);
  const rlimit limit{total, total};
  ::setrlimit(RLIMIT_DATA, &limit);
#else
  static_cast<void>(bytes);
#endif
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
}

void leave(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

std::string thrown_text() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  int status = -1;
  char* name = type ? abi::__cxa_demangle(type->name(), nullptr, nullptr, &status) : nullptr;
  std::string text = status == 0 ? name : (type ? type->name() : "something");
  std::free(name);
  try {
    throw;
  } catch (const std::exception& e) {
    text += std::string(": ") + e.what();
  } catch (...) {
  }
  return "threw " + text;
}

}  // namespace fk
