// SPDX-License-Identifier: Apache-2.0
// The cores that this process was allowed to use at its start.
#pragma once
#include <cstdint>

namespace fk {

int usable_cores();  // at least one

// Moves the calling thread to the n-th usable core (n >= 0, modulo their number). Afterwards the
// thread may use all of them, without its earlier restrictions. No effect where the system refuses.
void go_to_core(int n);
// Moves the thread in the same way and binds it to that core.
void stay_on_core(int n);

// Moves every other thread of a process away from one core. This is the core of its first thread,
// or the n-th usable core (n >= 0), to which the first thread is about to go. Threads without
// another core, or protected by the system, stay. The process must be stopped.
void leave_core_to_first_thread(int pid, int n = -1);

// Number of pause instructions (of waiting loops) in this time, measured now: a pause takes 10 to
// 150 cycles. At least 1.
int64_t pauses_in(double seconds);

}  // namespace fk
