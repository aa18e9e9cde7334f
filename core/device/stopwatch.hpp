// SPDX-License-Identifier: Apache-2.0
// Time of work that is enqueued on a device's stream, with caches that can be made cold before.
//
//   flush(); start(); <enqueue>; stop(); seconds()
//
// On the CPU start and stop read the steady clock. On CUDA they are events, so what is measured
// lies between them on the device, as long as the host enqueues faster than the flush before them
// runs: late() tells when it did not.
#pragma once
#include <cstdint>

namespace fk {

class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  // Fills the last cache with clean lines of other memory by reading at least twice its size. By
  // reading: lines that a fill leaves dirty would be written back at the expense of what is timed.
  virtual void flush() = 0;
  // The same of all caches of all cores, whoever filled them and however large they are. Takes many
  // times as long.
  virtual void flush_all() { flush(); }
  // From now on a flush reads so often, and late() does not make it longer: two processes that are
  // compared by another clock wait equally long.
  virtual void fix_passes(int /*passes*/) {}
  // Takes these bytes out of all caches of all cores, which costs less than flush() where they are
  // few. False where the device cannot do that.
  virtual bool evict(const void* /*memory*/, int64_t /*bytes*/) { return false; }
  virtual void start() = 0;
  virtual void stop() = 0;
  // Between the last start and stop; waits for the latter. Error when something failed on the
  // device.
  virtual double seconds() = 0;
  // Whether the device had to wait for the host within the last interval or just before it, so
  // that its seconds are the host's and not the device's. Ask after seconds().
  virtual bool late() const { return false; }
};

}  // namespace fk
