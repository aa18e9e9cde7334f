// SPDX-License-Identifier: Apache-2.0
// The cores that this process was allowed to use at its start.
#pragma once
#include <cstdint>

namespace fk {

int usable_cores();  // at least one

// Moves the calling thread to the n-th usable core (n >= 0, modulo their number). The thread is not
// bound: afterwards the system may move it to any usable core, even if it was restricted before. No
// effect where the system refuses.
void go_to_core(int n);
// Moves the thread in the same way and binds it to that core.
void stay_on_core(int n);

// Moves every other thread of a process away from one core. With n >= 0 this is the n-th usable
// core, to which the first thread is about to go. With n = -1 it is the first thread's present
// core. Threads without another core, or protected by the system, stay. The process must be
// stopped.
void leave_core_to_first_thread(int pid, int n = -1);

// Number of pause instructions (of waiting loops) in this time, measured now: a pause takes 10 to
// 150 cycles. At least 1.
int64_t pauses_in(double seconds);

}  // namespace fk
