// SPDX-License-Identifier: Apache-2.0
// The state of a GPU through NVML, which comes with the driver and is loaded if present, or through
// the senses of a backend (backend_telemetry.hpp). A device
// that was slowed down (heat, a power cap) gives other times. Turns cancel a drift; the report
// names the rest. NVML reports a trapped kernel at once, a third of a second before the kernel's
// own process sees it.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/judge/verdict/verdict.hpp"

namespace fk {

// One reading. Reasons are NVML's bits.
struct ClockLook {
  int64_t sm_mhz = 0, memory_mhz = 0;
  uint64_t reasons = 0;
};

// For example "power cap, thermal". Unknown bits appear by number.
std::string throttle_reasons(uint64_t bits);
// True for bits that slow a working device down. Idle clocks and the owner's settings do not count.
bool is_throttled(uint64_t bits);
void add_look(ClockWatch& watch, const ClockLook& look);

// A process on a device, as the driver lists it.
struct GpuProcess {
  pid_t pid = 0;
  std::optional<int64_t> bytes;  // of the device's memory; nothing: not told
};
// The sum over `pids`. Nothing when the list lacks one of them: in a container the driver may use
// other numbers, or hide processes.
std::optional<int64_t> bytes_of(const std::vector<GpuProcess>& all, const std::vector<pid_t>& pids);

class GpuTelemetry {
 public:
  virtual ~GpuTelemetry() = default;
  // Null for the CPU, and where NVML, the device or a backend's senses are absent.
  static std::unique_ptr<GpuTelemetry> of(const std::string& device);
  virtual void look() = 0;  // reads every few milliseconds at most; earlier calls do nothing
  virtual std::optional<ClockWatch> seen() const = 0;
  // The last reading; nothing before the first.
  virtual std::optional<ClockLook> last() const = 0;
  // Turns on the events that stopped() reads.
  virtual void listen() = 0;
  // Why a kernel on the device never ends; empty: none is known. Also empty where processes that
  // this one has not started use the device, because the kernel may be theirs.
  virtual std::string stopped() = 0;
  // The device's memory in use by all processes.
  virtual std::optional<int64_t> used_bytes() const = 0;
  // Processes that use the device. Empty when they are too many, or hidden.
  virtual std::vector<GpuProcess> processes() const = 0;
};

// Decides which samples of a race count. A sample on a slowed device is dropped, whatever its
// seconds, and repeated. If this happens too often, nothing more is dropped, so that the race ends;
// why() then says that its times must not be compared. For one thread.
class Throttling {
 public:
  // `watch` outlives it; null: every sample counts.
  explicit Throttling(GpuTelemetry* watch) : watch_(watch) {}
  void begin();  // before a sample
  bool end();    // after a sample; true: the sample counts
  int dropped() const { return dropped_; }
  // Empty while dropped samples are the exception.
  std::string why() const;

 private:
  bool slowed();
  GpuTelemetry* watch_;
  int samples_ = 0, slow_ = 0, dropped_ = 0;
  bool before_ = false, gave_up_ = false;
  uint64_t reasons_ = 0;  // of all slow samples
};

}  // namespace fk
