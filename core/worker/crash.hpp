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
// What the runner does now, for the board.
void set_stage(Board& board, const std::string& text);
// Limits private memory (RLIMIT_DATA) to `bytes` above what is in use now; 0: no limit. Nothing
// happens under AddressSanitizer, whose shadow counts as data.
void limit_private_memory(int64_t bytes);
// Ends the process without destructors: plugins' threads and exit handlers do not survive those.
[[noreturn]] void leave(int code);

}  // namespace fk
