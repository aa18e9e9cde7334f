// SPDX-License-Identifier: Apache-2.0
// Some attributes of a process belong to its threads one by one.
#pragma once

namespace fk {

// Runs `action` (safe for signal handlers, does not throw) in every other thread of this process
// and returns how many of them did not do it within a second each or returned false.
int in_every_other_thread(bool (*action)());

}  // namespace fk
