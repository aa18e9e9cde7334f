// SPDX-License-Identifier: Apache-2.0
// Runs a function in every thread, for attributes of a process that each thread has separately.
#pragma once

namespace fk {

// Runs `action` (safe for signal handlers, does not throw) in every other thread of this process.
// Returns the number of threads that did not finish it within a second each, or returned false.
int in_every_other_thread(bool (*action)());

}  // namespace fk
