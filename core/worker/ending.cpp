// SPDX-License-Identifier: Apache-2.0
// Turns the status of waitpid() and the crash handlers' note (crash.hpp) into a sentence with the
// next step. One table describes signals, another describes details of the note.
#include "core/worker/ending.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>

#include "core/base/text.hpp"
#include "core/worker/crash.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace {

constexpr const char* kPlace =
    "Start at your topmost function in the trace. Look for a null or freed pointer, or an index "
    "out of range.";
constexpr const char* kForbidden =
    "A candidate may use no files, sockets, processes or signals. Remove the named call.";
constexpr const char* kSilent =
    "the place is unknown: perhaps a thread of the plugin has used up its stack";
constexpr const char* kSelf = "Remove the sender: a timer, raise() or kill().";

// Limits and their signs: RLIMIT_FSIZE sends SIGXFSZ, RLIMIT_STACK causes a SIGSEGV near the
// stack pointer, RLIMIT_DATA makes allocations fail, RLIMIT_NPROC keeps threads from starting. The
// host sets no limit of CPU time; SIGXCPU comes from the user's own limit.
constexpr std::array kEndings = {
    SignalInfo{SIGSEGV, "crashed", "", kPlace},
    SignalInfo{SIGBUS, "crashed", "a page without memory: a truncated file, or no memory is left",
               kPlace},
    SignalInfo{
        SIGFPE, "crashed", "an integer division by 0, or an overflow in a division",
        "Look for a divisor that is 0 for this shape: rows, parts, or a width below a tile's."},
    SignalInfo{
        SIGILL, "crashed",
        "an instruction unknown to this processor, or code marked unreachable by the compiler",
        "Look for a function that ends without a return, and for -march or intrinsics beyond "
        "this processor."},
    SignalInfo{SIGTRAP, "crashed", "a trap or breakpoint in the code",
               "Look for the condition of the trap, or take the breakpoint out."},
    SignalInfo{SIGABRT, "crashed", "",
               "The text after the place is its last output. Look for a failed assert, an uncaught "
               "exception, or a write past a heap block."},
    SignalInfo{SIGSYS, "forbidden", "", kForbidden},
    SignalInfo{SIGXFSZ, "forbidden", "it wrote to a file; the limit is 0 bytes", kForbidden},
    SignalInfo{
        SIGXCPU, "crashed", "the limit of CPU time (ulimit -t) in the host's shell",
        "Start the host without the limit. If there is none, remove the sender of the signal."},
    SignalInfo{
        SIGKILL, "crashed",
        "it sent the signal itself, or the kernel did because the machine has no memory left",
        "Check the machine's free memory, and the memory of create() and prepare(). Then look for "
        "raise() and kill()."},
    SignalInfo{SIGPIPE, "crashed", "it wrote to a pipe that nobody reads",
               "Print to standard output or error, or not at all."},
    SignalInfo{SIGALRM, "crashed", "its own timer sent the signal", kSelf},
    SignalInfo{SIGVTALRM, "crashed", "its own timer sent the signal", kSelf},
    SignalInfo{SIGPROF, "crashed", "its own timer sent the signal", kSelf},
    SignalInfo{SIGTERM, "crashed", "it received the signal from itself or from outside", kSelf},
    SignalInfo{SIGINT, "crashed", "it received the signal from itself or from outside", kSelf},
    SignalInfo{SIGHUP, "crashed", "it received the signal from itself or from outside", kSelf},
    SignalInfo{SIGQUIT, "crashed", "it received the signal from itself or from outside", kSelf}};

// Words of the handler after a signal's name, and the advice for them.
struct Detail {
  const char* words;
  const char* next;
};
constexpr std::array kDetails = {
    Detail{kStackEnd,
           "Put large arrays into scratch (need.scratch in supports()), and look for an endless "
           "recursion."},
    Detail{kNull,
           "Look for an absent optional field (or_null), and for memory that supports() did not "
           "ask for."},
    Detail{kNoAddress, "Look for a pointer that is unset, freed, or read from unwritten memory."},
    Detail{kPastEnd,
           "Check indices at the end of the named tensor: the last row, and the tail that fills no "
           "vector or tile."},
    Detail{kInInput, "It is an input: write to outputs and scratch alone."},
    Detail{kThreadsMost,
           "Start fewer threads, once and not in every call; OpenMP has as many as ctx allows."}};

Ending of_signal(int number, const std::string& note, const std::string& printed) {
  const std::string name = signal_name(number);
  const auto known = std::find_if(kEndings.begin(), kEndings.end(),
                                  // told: the note describes this signal, not an earlier event.
                                  [&](const SignalInfo& s) { return s.number == number; });
  const bool told = starts_with(note + " ", name + " ") || starts_with(note, name + ",");
  Ending out{"crashed", (told ? note : name), kPlace};
  if (told && note.find(kSelfSent) != std::string::npos) {
    out.next = kSelf;
  } else if (known != kEndings.end()) {
    out.kind = known->kind;
    out.next = known->next;
    if (number == SIGSEGV && !told) out.text += std::string(": ") + kSilent;
    if (*known->means) out.text += std::string(": ") + known->means;
  }
  for (const Detail& detail : kDetails)
    if (told && note.find(detail.words) != std::string::npos) out.next = detail.next;
  if (number == SIGABRT && !printed.empty()) out.text += ": " + printed;
  out.text = (out.kind == "forbidden" ? "refused: " : "crashed: ") + out.text;
  return out;
}

}  // namespace

std::span<const SignalInfo> signals_told() { return kEndings; }

bool near_limit(int64_t bytes, int64_t limit) { return bytes > limit - limit / 8; }

std::string limit_text(int64_t limit) {
  return "ran into its limit of " + human_bytes(limit) + " of memory";
}

Ending ending_of(int status, const std::string& note, int64_t held, int64_t limit,
                 const std::string& printed) {
  if (!WIFSIGNALED(status)) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    const size_t in = note.find(" in ");
    const bool told = starts_with(note, "exit(") && in != std::string::npos;
    return {"exited", "called exit(" + std::to_string(code) + ")" + (told ? note.substr(in) : ""),
            "A plugin never ends the process: let forward() return an error (in C++: throw)."};
  }
  const int number = WTERMSIG(status);
  if (limit > 0 && near_limit(held, limit))
    return {"memory", limit_text(limit) + " (" + signal_name(number) + ")", ""};
  if (starts_with(note, kItCalled)) return {"forbidden", "refused: " + note, kForbidden};
  if (number == SIGSYS && !starts_with(note, signal_name(number)))
    return {"forbidden",
            "refused: it made a system call that is not allowed, with all signals blocked (as "
            "posix_spawn() and system() do)",
            kForbidden};
  return of_signal(number, note, printed);
}

}  // namespace fk
