// SPDX-License-Identifier: Apache-2.0
// A GPU as its driver knows it, through NVML, which comes with the driver and is loaded when it is
// there. A device that was slowed down (heat, a power cap) measures something else than one that
// was not; turns cancel a drift, and what is left is told. A kernel that traps is known here at
// once, to its own process after a third of a second.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/judge/verdict/verdict.hpp"

namespace fk {

// One look. Reasons are NVML's bits.
struct ClockLook {
  int64_t sm_mhz = 0, memory_mhz = 0;
  uint64_t reasons = 0;
};

// "power cap, thermal"; bits that are not known by their number.
std::string throttle_reasons(uint64_t bits);
// Those that slow a device down while it works; idle and what its owner has set do not count.
bool is_throttled(uint64_t bits);
void add_look(ClockWatch& watch, const ClockLook& look);

// A process on a device, as the driver lists it.
struct GpuProcess {
  pid_t pid = 0;
  std::optional<int64_t> bytes;  // of the device's memory
};
// What these processes have together. Nothing where the list does not tell of each of them: in a
// container the driver may know them by other numbers, or keep them to itself.
std::optional<int64_t> bytes_of(const std::vector<GpuProcess>& all, const std::vector<pid_t>& pids);

class GpuTelemetry {
 public:
  virtual ~GpuTelemetry() = default;
  // Null for the CPU and where NVML or the device is not to be had.
  static std::unique_ptr<GpuTelemetry> of(const std::string& device);
  virtual void look() = 0;  // no more often than every few milliseconds; in between it does nothing
  virtual std::optional<ClockWatch> seen() const = 0;
  // Of the last look; nothing before the first.
  virtual std::optional<ClockLook> last() const = 0;
  // From now on stopped() knows.
  virtual void listen() = 0;
  // Why a kernel on the device has no end; empty: it has one, or processes that this one has not
  // started use the device as well, so that it may be theirs.
  virtual std::string stopped() = 0;
  // Of the device's memory, whoever has it.
  virtual std::optional<int64_t> used_bytes() const = 0;
  // Who has the device. Empty where they are too many, or not told.
  virtual std::vector<GpuProcess> processes() const = 0;
};

// Which samples of a race count. One during which the device was slowed down measures its cooling
// or its supply; it is dropped, whatever its seconds are, and done again. Where that is so again
// and again nothing is dropped any more, so that the race ends, and why() says that its times are
// not to be compared. Used by one thread.
class Throttling {
 public:
  // `watch` outlives it; null: every sample counts.
  explicit Throttling(GpuTelemetry* watch) : watch_(watch) {}
  void begin();  // before a sample
  bool end();    // after it: whether it counts
  int dropped() const { return dropped_; }
  // Empty as long as what was dropped was the exception.
  std::string why() const;

 private:
  bool slowed();
  GpuTelemetry* watch_;
  int samples_ = 0, slow_ = 0, dropped_ = 0;
  bool before_ = false, gave_up_ = false;
  uint64_t reasons_ = 0;  // of all slow samples
};

}  // namespace fk
