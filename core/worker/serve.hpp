// SPDX-License-Identifier: Apache-2.0
// The inside of a worker: obeys the controller's messages until the controller ends.
#pragma once

namespace fk {

// Never returns. `parent` is the controller's process id; the control socket is descriptor
// kControlFd.
[[noreturn]] void serve_runner(int parent);

}  // namespace fk
