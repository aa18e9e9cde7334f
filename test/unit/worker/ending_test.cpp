// SPDX-License-Identifier: Apache-2.0
// The end of a process tells the candidate's author the event and the place to look at. Every
// signal which ends a process, and every limit of the sandbox, has its own words.
#include "core/worker/ending.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <set>
#include <string>

#include "test/catch.hpp"

using namespace fk;

namespace {

Ending by(int number, const std::string& note = "", const std::string& printed = "",
          int64_t held = 0) {
  return ending_of(W_EXITCODE(0, number), note, held, 1000, printed);
}

struct Row {
  int status;
  std::string note, printed;
  const char *kind, *says, *next;
};

}  // namespace

TEST_CASE("ending_of_every_kind_says_what_it_means_and_what_to_look_at") {
  const auto killed = [](int number) { return W_EXITCODE(0, number); };
  const Row rows[] = {
      {killed(SIGSEGV), "SIGSEGV at address 0x7f00 in a.so+0x10", "", "crashed", "in a.so+0x10",
       "topmost function"},
      {killed(SIGSEGV), "SIGSEGV at address 0x8, of a null pointer in a.so+0x10", "", "crashed",
       "of a null pointer", "or_null"},
      {killed(SIGSEGV), "SIGSEGV at an invalid (non-canonical) address in a.so+0x10", "", "crashed",
       "invalid (non-canonical)", "unset"},
      {killed(SIGSEGV), "SIGSEGV at address 0x7f00, past the end of x in a.so+0x10", "", "crashed",
       "past the end of x", "tail"},
      {killed(SIGSEGV), "SIGSEGV at address 0x7f00, a write to the input x in a.so+0x10", "",
       "crashed", "a write to the input x", "outputs and scratch alone"},
      {killed(SIGSEGV), "SIGSEGV at address 0x7f00, its stack is used up, in a.so+0x10", "",
       "crashed", "stack is used up", "need.scratch"},
      {killed(SIGXFSZ), "SIGXFSZ, which it sent itself in a.so+0x10", "", "crashed",
       "which it sent itself in a.so+0x10", "raise()"},
      {killed(SIGSEGV), "", "", "crashed", "used up its stack", "topmost function"},
      {killed(SIGBUS), "SIGBUS at address 0x7f00", "", "crashed", "a page without memory",
       "pointer"},
      {killed(SIGFPE), "SIGFPE in a.so+0x10", "", "crashed", "division by 0", "divisor"},
      {killed(SIGILL), "SIGILL in a.so+0x10", "", "crashed", "instruction", "without a return"},
      {killed(SIGTRAP), "SIGTRAP in a.so+0x10", "", "crashed", "trap", "trap"},
      {killed(SIGABRT), "SIGABRT in a.so+0x10", "x > 0 failed", "crashed", "x > 0 failed",
       "assert"},
      {killed(SIGABRT), "SIGABRT, with all threads that it may have, 528 in a.so+0x10", "",
       "crashed", "threads that it may have, 528", "fewer threads"},
      {killed(SIGSYS), "it called execve in a.so+0x10", "", "forbidden",
       "refused: it called execve", "Remove the named call"},
      {killed(SIGSYS), "", "", "forbidden", "posix_spawn()", "Remove the named call"},
      {killed(SIGXFSZ), "SIGXFSZ in a.so+0x10", "", "forbidden", "wrote to a file", "no files"},
      {killed(SIGXCPU), "", "", "crashed", "ulimit -t", "without the limit"},
      {killed(SIGKILL), "", "", "crashed", "no memory left", "free memory"},
      {killed(SIGPIPE), "", "", "crashed", "pipe", "standard output"},
      {killed(SIGALRM), "", "", "crashed", "its own timer", "a timer, raise()"},
      {killed(SIGVTALRM), "", "", "crashed", "its own timer", "a timer, raise()"},
      {killed(SIGPROF), "", "", "crashed", "its own timer", "a timer, raise()"},
      {killed(SIGTERM), "", "", "crashed", "from itself or from outside", "Remove the sender"},
      {killed(SIGINT), "", "", "crashed", "from itself or from outside", "Remove the sender"},
      {killed(SIGHUP), "", "", "crashed", "from itself or from outside", "Remove the sender"},
      {killed(SIGQUIT), "", "", "crashed", "from itself or from outside", "Remove the sender"},
      {killed(SIGUSR1), "", "", "crashed", "SIGUSR1", "topmost function"},
      {W_EXITCODE(3, 0), "exit(3) was called in a.so+0x10", "", "exited",
       "called exit(3) in a.so+0x10", "return an error"}};
  std::set<int> seen;
  for (const Row& row : rows) {
    INFO(row.status << " " << row.note);
    const Ending ending = ending_of(row.status, row.note, 0, 1000, row.printed);
    CHECK(ending.kind == row.kind);
    CHECK_THAT(ending.text, ContainsSubstring(row.says));
    CHECK_THAT(ending.next, ContainsSubstring(row.next));
    seen.insert(WTERMSIG(row.status));
  }
  for (const SignalInfo& known : signals_told()) {
    INFO(known.number);
    CHECK(seen.count(known.number) == 1);
  }
}

TEST_CASE("ending_near_the_limit_of_memory_is_that_limit_whatever_the_signal") {
  for (const int number : {SIGSEGV, SIGABRT, SIGBUS})
    CHECK(by(number, "SIGSEGV at address 0x0, of a null pointer", "", 990).kind == "memory");
  CHECK(by(SIGSEGV, "", "", 500).kind == "crashed");
  CHECK_THAT(by(SIGABRT, "", "", 990).text, ContainsSubstring("1000 B"));
}

TEST_CASE("ending_notes_are_believed_about_their_own_signal_alone") {
  // Words of the board about another signal are old, or invented.
  const Ending ending = by(SIGKILL, "SIGSEGV at address 0x7f00, past the end of x");
  CHECK(ending.text.find("past the end") == std::string::npos);
  CHECK_THAT(ending.next, ContainsSubstring("free memory"));
}
