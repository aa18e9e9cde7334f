// SPDX-License-Identifier: Apache-2.0
// In a runner: says where it was when plugin code crashes, hangs or ends the process. A hint for
// people; the verdict rests on what the kernel tells the broker, or on this where the kernel takes
// long.
#pragma once
#include <cstdint>
#include <string>

#include "core/worker/board.hpp"

namespace fk {

// Handlers for fatal signals (on their own stack) and for exit(): they write the place and a
// backtrace to the board and to stderr, hang up on the broker, and let the process end as it would
// have. `board` must stay mapped.
void install_crash_handlers(Board& board);
// To be called again after code was loaded, so that this exit handler runs before those of plugins.
void watch_exit();
// On the board, before a call that the filter of a sealed runner does not allow: "it called execve
// in mine.so+0x1139".
inline constexpr const char* kItCalled = "it called ";
// On the board, when the broker asked where it is before it ends it, by a SIGABRT from outside:
// "stopped in mine.so+0x1139".
inline constexpr const char* kStopped = "stopped";
// How the handlers' own report begins in what the process printed.
inline constexpr const char* kCrashReport = "fk-host runner: ";
// A fault in this page without access is told as `kPastEnd` and these words. The last few thousand
// pages are known.
inline constexpr const char* kPastEnd = ", past the end of ";
void name_page(const void* page, const std::string& what);
// The same of a write to memory that can only be read, from `begin` on.
inline constexpr const char* kInInput = ", a write to the input ";
void name_input(const void* begin, int64_t bytes, const std::string& what);
// Of a fault near null, with garbage for a pointer and beside the stack pointer, and of abort()
// where no thread can be started any more.
inline constexpr const char* kNull = ", of a null pointer";
inline constexpr const char* kNoAddress = " at an invalid (non-canonical) address";
inline constexpr const char* kStackEnd = ", its stack is used up,";
inline constexpr const char* kSelfSent = ", which it sent itself";
inline constexpr const char* kThreadsMost = ", with all threads that it may have, ";
// What the runner does now, for the board.
void set_stage(Board& board, const std::string& text);
// Limits private memory (RLIMIT_DATA) to `bytes` above what is in use now; 0: no limit. Nothing
// happens under AddressSanitizer, whose shadow counts as data.
void limit_private_memory(int64_t bytes);
// The type and text of the exception that is being handled.
std::string thrown_text();
// Ends the process without destructors: plugins' threads and exit handlers do not survive those.
[[noreturn]] void leave(int code);

}  // namespace fk
