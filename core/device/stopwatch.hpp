// SPDX-License-Identifier: Apache-2.0
// Times work that is enqueued on a device's stream, optionally with cold caches.
//
//   flush(); start(); <enqueue>; stop(); seconds()
//
// On the CPU, start and stop read the steady clock. On CUDA they are events: the measured interval
// is on the device, if the host enqueues faster than the preceding flush runs. late() tells if the
// host was slower.
#pragma once
#include <cstdint>

namespace fk {

class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  // Fills the last cache with clean lines of other memory, by reading at least twice its size.
  // Dirty lines of a fill would be written back during the timed work.
  virtual void flush() = 0;
  // The same for all caches of all cores, whatever their size and content. Takes many times as
  // long.
  virtual void flush_all() { flush(); }
  // From now on a flush reads `passes` times, and late() does not lengthen it. Two processes
  // compared by another clock then wait equally long.
  virtual void fix_passes(int /*passes*/) {}
  // Evicts these bytes from all caches of all cores; for few bytes it costs less than flush().
  // False where the device does not support it.
  virtual bool evict(const void* /*memory*/, int64_t /*bytes*/) { return false; }
  virtual void start() = 0;
  virtual void stop() = 0;
  // Seconds between the last start and stop; waits for the stop. Error after a failure on the
  // device.
  virtual double seconds() = 0;
  // True if the device waited for the host in the last interval or just before it: seconds() then
  // measures the host. Call it after seconds().
  virtual bool late() const { return false; }
};

}  // namespace fk
