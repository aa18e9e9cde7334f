// SPDX-License-Identifier: Apache-2.0
// Every kernel, copy and fill of this process, those inside of graphs as well, as CUPTI tells them.
// CUPTI is loaded when it is asked for, and not linked.
#pragma once
#include <cstdint>

namespace fk::bench {

// Called by threads of CUPTI, one at a time; start and end in ns of the device's clock.
using OnRecord = void (*)(const char* name, uint64_t start, uint64_t end);

// From before the first graph is made, or CUPTI knows graphs as a whole only. Error where CUPTI
// cannot be loaded or refuses. Once in a process.
void start_records(OnRecord take);
// Tells what is complete by now; `all`: of a device that is idle, whatever is there.
void flush_records(bool all);
void stop_records();

}  // namespace fk::bench
