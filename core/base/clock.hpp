// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fk {

// Seconds of the monotonic clock, which all processes of a machine have in common.
double now_seconds();

}  // namespace fk
