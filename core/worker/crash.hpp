// SPDX-License-Identifier: Apache-2.0
// In a worker: reports the place when plugin code crashes, hangs or ends the process. The report is
// a hint for people. The verdict rests on the kernel's report to the controller, or on this one if
// the kernel takes long.
#pragma once
#include <cstdint>
#include <string>

#include "core/worker/board.hpp"

namespace fk {

// Handlers for fatal signals (on their own stack) and for exit(). They write the place and a
// backtrace to the board and to stderr, and close the connection to the controller. The process
// then ends as it would have. `board` must stay mapped.
void install_crash_handlers(Board& board);
// Call it again after loading code, so that this exit handler runs before plugins' handlers.
void watch_exit();
// Beginning of the text on the board after a call that a sealed worker's filter forbids: "it called
// execve in mine.so+0x1139".
inline constexpr const char* kItCalled = "it called ";
// Beginning of the text when the controller asks for the place before it kills the process, with a
// SIGABRT from outside: "stopped in mine.so+0x1139".
inline constexpr const char* kStopped = "stopped";
// The beginning of the handlers' report in the process's output.
inline constexpr const char* kCrashReport = "fk-host runner: ";
// name_page() gives an inaccessible page a name: a fault in it is reported with `kPastEnd` and
// `what`. The last few thousand names are remembered.
inline constexpr const char* kPastEnd = ", past the end of ";
void name_page(const void* page, const std::string& what);
// name_input() does the same for writes to `bytes` bytes of read-only memory.
inline constexpr const char* kInInput = ", a write to the input ";
void name_input(const void* begin, int64_t bytes, const std::string& what);
// Texts after a signal's name: a fault near null, at a garbage pointer, or near the stack pointer.
// Then a signal from the process itself, and an abort() when no further thread can start.
inline constexpr const char* kNull = ", of a null pointer";
inline constexpr const char* kNoAddress = " at an invalid (non-canonical) address";
inline constexpr const char* kStackEnd = ", its stack is used up,";
inline constexpr const char* kSelfSent = ", which it sent itself";
inline constexpr const char* kThreadsMost = ", with all threads that it may have, ";
// Writes the worker's current activity to the board.
void set_stage(Board& board, const std::string& text);
// Limits private memory (RLIMIT_DATA) to `bytes` above the present use; 0: no limit. No effect
// under AddressSanitizer, whose shadow counts as data.
void limit_private_memory(int64_t bytes);
// Type and text of the exception that is being handled.
std::string thrown_text();
// Ends the process without destructors, which could crash plugins' threads and exit handlers.
[[noreturn]] void leave(int code);

}  // namespace fk
