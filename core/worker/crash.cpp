// SPDX-License-Identifier: Apache-2.0
// The handlers call backtrace() and dladdr(), which are not on the list of async-signal-safe
// functions. Both are warmed up before, and should they hang, the broker's watchdog ends it.
#include "core/worker/crash.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
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
constexpr int kBySeccomp = 1;  // SYS_SECCOMP, which not all headers have
constexpr std::array<int, 6> kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};

struct NamedPage {
  uintptr_t page = 0;
  char what[40] = "";
};
std::array<NamedPage, 4096> named_pages;
size_t pages_named = 0;
constexpr uintptr_t kPage = 4096;

// The newest name of the page, or null; memory is used again.
const char* name_of_page(const void* address) {
  const uintptr_t page = reinterpret_cast<uintptr_t>(address) / kPage * kPage;
  for (size_t i = 1; i <= std::min(pages_named, named_pages.size()); ++i) {
    const NamedPage& one = named_pages[(pages_named - i) % named_pages.size()];
    if (one.page == page) return one.what;
  }
  return nullptr;
}

void write_text(const char* text, int length) {
  if (length > 0) [[maybe_unused]]
    const ssize_t n = ::write(2, text, static_cast<size_t>(length));
}

const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// "mine.so+0x1139 (forward)"; 0 when the address is in no file.
int describe(void* address, char* text, size_t size) {
  Dl_info info{};
  if (!dladdr(address, &info) || !info.dli_fname) return 0;
  const auto offset = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase);
  return std::snprintf(text, size, "%s+0x%lx%s%s%s", file_name(info.dli_fname),
                       static_cast<unsigned long>(offset), info.dli_sname ? " (" : "",
                       info.dli_sname ? info.dli_sname : "", info.dli_sname ? ")" : "");
}

// Whether a frame is plugin code: neither this program nor a system library.
bool of_plugin(void* address, const char* program) {
  Dl_info info{};
  if (!dladdr(address, &info) || !info.dli_fname) return false;
  const char* name = file_name(info.dli_fname);
  return std::strcmp(info.dli_fname, program) != 0 && std::strncmp(name, "lib", 3) != 0 &&
         std::strncmp(name, "ld-", 3) != 0 && std::strncmp(name, "fk-host", 7) != 0 &&
         std::strncmp(name, "linux-vdso", 10) != 0;
}

// Prints the stack, notes the innermost frame of a plugin after `what` on the board and hangs up.
void report(const char* what) {
  std::array<void*, kFramesMax> frames{};
  const int count = backtrace(frames.data(), kFramesMax);
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&report), &self);
  char line[512], place[256] = "";
  write_text(line, std::snprintf(line, sizeof line, "%s%s\n", kCrashReport, what));
  for (int i = 2; i < count; ++i) {
    // Below the plugin comes the host, which is of no interest.
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
  std::snprintf(board_of_process->crash, sizeof board_of_process->crash, "%.90s%s%.150s", what,
                place[0] ? " in " : "", place);
  // The broker need not wait until the kernel has taken the process apart, which with memory of a
  // device takes long.
  ::shutdown(kControlFd, SHUT_RDWR);
}

void on_signal(int number, siginfo_t* info, void*) {
  if (board_of_process)
    board_of_process->data_bytes = static_cast<uint64_t>(private_bytes(::getpid()));
  char what[96];
  const char* name = sigabbrev_np(number);
  const char* tensor = number == SIGSEGV ? name_of_page(info->si_addr) : nullptr;
  const bool refused = number == SIGSYS && info->si_code == kBySeccomp;
  const char* call = refused ? syscall_name(info->si_syscall) : nullptr;
  if (number == SIGABRT && info->si_code == SI_USER)
    std::snprintf(what, sizeof what, "%s", kStopped);
  else if (number == SIGABRT)
    std::snprintf(what, sizeof what, "SIGABRT");
  else if (refused && call)
    std::snprintf(what, sizeof what, "%s%s", kItCalled, call);
  else if (refused)
    std::snprintf(what, sizeof what, "%ssystem call %d", kItCalled, info->si_syscall);
  else
    std::snprintf(what, sizeof what, "SIG%s at address %p%s%s", name ? name : "?", info->si_addr,
                  tensor ? kPastEnd : "", tensor ? tensor : "");
  report(what);
  // It is the default already (SA_RESETHAND), and the filter lets nobody touch it.
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
  NamedPage& one = named_pages[pages_named++ % named_pages.size()];
  one.page = reinterpret_cast<uintptr_t>(page) / kPage * kPage;
  std::snprintf(one.what, sizeof one.what, "%s", what.c_str());
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

}  // namespace fk
