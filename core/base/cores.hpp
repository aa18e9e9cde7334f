// SPDX-License-Identifier: Apache-2.0
// The cores that this process may use, as it was started.
#pragma once
#include <cstdint>

namespace fk {

int usable_cores();  // at least one

// The calling thread goes on on the n-th of them, counted round about (n >= 0), wherever it was,
// and may use all of them again afterwards, whatever it was restricted to. Where the system does
// not allow that, nothing happens.
void go_to_core(int n);
// The same, and it stays there.
void stay_on_core(int n);

// Every other thread of a process leaves the core where its first thread is, or the n-th that this
// process may use, to which the first thread is about to go (n >= 0). A thread that has no other
// core, or that the system protects from this process, stays as it is. The process stands still.
void leave_core_to_first_thread(int pid, int n = -1);

// How often this processor pauses (the instruction of waiting loops) in this time, as measured now:
// a pause takes 10 to 150 cycles. At least once.
int64_t pauses_in(double seconds);

}  // namespace fk
