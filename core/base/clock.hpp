// SPDX-License-Identifier: Apache-2.0
// The time: seconds for measurements and deadlines, and text for reports.
#pragma once
#include <string>

namespace fk {

// Seconds of the monotonic clock, which all processes of a machine share.
double now_seconds();
// "2026-11-25T14:05:00Z", in UTC.
std::string now_text();

}  // namespace fk
