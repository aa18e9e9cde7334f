// SPDX-License-Identifier: Apache-2.0
// The inside of a runner process: obeys the broker's messages until the broker goes away.
#pragma once

namespace fk {

// Never returns. `parent` is the broker's process id; the control socket is descriptor kControlFd.
[[noreturn]] void serve_runner(int parent);

}  // namespace fk
