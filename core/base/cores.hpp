// SPDX-License-Identifier: Apache-2.0
// The cores that this process may use, as it was started.
#pragma once

namespace fk {

int usable_cores();  // at least one

// The calling thread goes on on the n-th of them, counted round about (n >= 0), wherever it was,
// and may use all of them again afterwards, whatever it was restricted to. Where the system does
// not allow that, nothing happens.
void go_to_core(int n);
// The same, and it stays there.
void stay_on_core(int n);

}  // namespace fk
