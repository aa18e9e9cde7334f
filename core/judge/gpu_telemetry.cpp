// SPDX-License-Identifier: Apache-2.0
// NVML's functions are declared here as in its interface since version 2. The build needs no NVML
// header, and the run may lack its library.
#include "core/judge/gpu_telemetry.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/device/rank_device.hpp"
#include "core/judge/backend_telemetry.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace {

struct Reason {
  uint64_t bit;
  const char* words;
  bool slows;
};
constexpr std::array kReasons = {
    Reason{0x1, "idle", false},
    Reason{0x2, "clocks set by an application", false},
    Reason{0x4, "power cap", true},
    Reason{0x8, "hardware slowdown", true},
    Reason{0x10, "boost of a group", false},
    Reason{0x20, "thermal (software)", true},
    Reason{0x40, "thermal (hardware)", true},
    Reason{0x80, "power brake", true},
    Reason{0x100, "display clocks", false},
};

// Seconds between looks. A look takes a fraction of a millisecond; throttling lasts longer than
// this.
constexpr double kEvery = 20e-3;

// Layouts of NVML.
struct Event {
  void* device;
  unsigned long long type, data;
  unsigned instances[2];
};
struct ComputeProcess {
  unsigned pid;
  unsigned long long bytes;
  unsigned instances[2];
};
constexpr unsigned long long kXidEvents = 8;
// The driver's number for a stopped kernel: a trap, a failed assertion, an illegal instruction. The
// process itself learns other faults as soon.
constexpr unsigned long long kStoppedXid = 43;

class Nvml final : public GpuTelemetry {
 public:
  Nvml() = default;
  Nvml(const Nvml&) = delete;
  ~Nvml() override {
    if (events_) free_events_(events_);
  }
  // False when the loaded library lacks the device or a function.
  bool open(void* library, const std::string& device) {
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    can_listen_ = find(processes_, "nvmlDeviceGetComputeRunningProcesses_v3") &&
                  find(make_events_, "nvmlEventSetCreate") &&
                  find(free_events_, "nvmlEventSetFree") &&
                  find(register_, "nvmlDeviceRegisterEvents") && find(wait_, "nvmlEventSetWait_v2");
    int (*init)() = nullptr;
    int (*by_index)(unsigned, void**) = nullptr;
    int (*by_uuid)(const char*, void**) = nullptr;
    if (!find(init, "nvmlInit_v2") || !find(by_index, "nvmlDeviceGetHandleByIndex_v2") ||
        !find(by_uuid, "nvmlDeviceGetHandleByUUID") || !find(clock_, "nvmlDeviceGetClockInfo") ||
        !find(memory_, "nvmlDeviceGetMemoryInfo") ||
        (!find(reasons_, "nvmlDeviceGetCurrentClocksEventReasons") &&
         !find(reasons_, "nvmlDeviceGetCurrentClocksThrottleReasons")) ||
        init() != 0)
      return false;
    // NVML counts all devices, CUDA only the visible ones.
    const std::string name = name_on_machine(device);
    if (name.empty()) return false;
    const bool index = name.find_first_not_of("0123456789") == std::string::npos;
    return (index ? by_index(static_cast<unsigned>(std::atoi(name.c_str())), &handle_)
                  : by_uuid(name.c_str(), &handle_)) == 0;
  }

  void look() override {
    const double now = now_seconds();
    if (now < next_s_) return;
    next_s_ = now + kEvery;
    constexpr int kSm = 1, kMemory = 2;
    unsigned sm = 0, memory = 0;
    unsigned long long reasons = 0;
    if (clock_(handle_, kSm, &sm) != 0 || clock_(handle_, kMemory, &memory) != 0 ||
        reasons_(handle_, &reasons) != 0)
      return;
    last_ = ClockLook{sm, memory, reasons};
    add_look(watch_, *last_);
  }
  std::optional<ClockLook> last() const override { return last_; }
  std::optional<ClockWatch> seen() const override {
    return watch_.looks ? std::optional(watch_) : std::nullopt;
  }
  void listen() override {
    if (!can_listen_ || events_ || make_events_(&events_) != 0) return;
    if (register_(handle_, kXidEvents, events_) == 0) return;
    free_events_(events_);
    events_ = nullptr;
  }
  std::string stopped() override {
    Event event{};
    while (events_ && wait_(events_, &event, 0) == 0) stopped_ |= event.data == kStoppedXid;
    if (!stopped_ || !alone()) return "";
    return "the driver has stopped a kernel on the device, as after a trap, a failed assertion or "
           "an illegal instruction (Xid " +
           std::to_string(kStoppedXid) + ")";
  }
  std::optional<int64_t> used_bytes() const override {
    struct {
      unsigned long long total, free, used;
    } memory{};
    if (memory_(handle_, &memory) != 0) return std::nullopt;
    return static_cast<int64_t>(memory.used);
  }
  std::vector<GpuProcess> processes() const override {
    constexpr unsigned long long kNotTold = ~0ull;
    std::array<ComputeProcess, 64> all{};
    auto count = static_cast<unsigned>(all.size());
    std::vector<GpuProcess> out;
    if (!processes_ || processes_(handle_, &count, all.data()) != 0) return out;
    for (unsigned i = 0; i < count; ++i) {
      out.push_back({static_cast<pid_t>(all[i].pid), std::nullopt});
      if (all[i].bytes != kNotTold) out.back().bytes = static_cast<int64_t>(all[i].bytes);
    }
    return out;
  }

 private:
  // True when all processes on the device are this one's.
  bool alone() const {
    const auto all = processes();
    return !all.empty() && std::ranges::all_of(all, [](const GpuProcess& process) {
      return is_own_process(process.pid);
    });
  }

  int (*make_events_)(void**) = nullptr;
  int (*free_events_)(void*) = nullptr;
  int (*register_)(void*, unsigned long long, void*) = nullptr;
  int (*wait_)(void*, Event*, unsigned) = nullptr;
  int (*processes_)(void*, unsigned*, ComputeProcess*) = nullptr;
  void* events_ = nullptr;  // null: not listening
  bool can_listen_ = false, stopped_ = false;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*memory_)(void*, void*) = nullptr;
  int (*reasons_)(void*, unsigned long long*) = nullptr;
  void* handle_ = nullptr;
  double next_s_ = 0;
  ClockWatch watch_;
  std::optional<ClockLook> last_;
};

}  // namespace

std::optional<int64_t> bytes_of(const std::vector<GpuProcess>& all,
                                const std::vector<pid_t>& pids) {
  int64_t sum = 0;
  for (const pid_t pid : pids) {
    const auto its = std::ranges::find(all, pid, &GpuProcess::pid);
    if (its == all.end() || !its->bytes) return std::nullopt;
    sum += *its->bytes;
  }
  return sum;
}

std::string throttle_reasons(uint64_t bits) {
  std::string out;
  const auto add = [&](const std::string& words) { out += (out.empty() ? "" : ", ") + words; };
  for (const Reason& reason : kReasons) {
    if (bits & reason.bit) add(reason.words);
    bits &= ~reason.bit;
  }
  char text[40];
  std::snprintf(text, sizeof text, "reason 0x%llx", static_cast<unsigned long long>(bits));
  if (bits) add(text);
  return out;
}

bool is_throttled(uint64_t bits) {
  return std::any_of(kReasons.begin(), kReasons.end(),
                     [&](const Reason& reason) { return reason.slows && (bits & reason.bit); });
}

void add_look(ClockWatch& watch, const ClockLook& look) {
  const bool first = watch.looks == 0;
  const auto widen = [&](int64_t& low, int64_t& high, int64_t value) {
    low = first ? value : std::min(low, value);
    high = first ? value : std::max(high, value);
  };
  widen(watch.sm_mhz_low, watch.sm_mhz_high, look.sm_mhz);
  widen(watch.memory_mhz_low, watch.memory_mhz_high, look.memory_mhz);
  watch.throttled =
      (watch.throttled * watch.looks + is_throttled(look.reasons)) / (watch.looks + 1);
  ++watch.looks;
  const auto known = split(watch.reasons, ',');
  for (const auto& reason : split(throttle_reasons(look.reasons), ',')) {
    const std::string words(trim(reason));
    const bool seen = std::any_of(known.begin(), known.end(),
                                  [&](const std::string& k) { return trim(k) == words; });
    if (!words.empty() && !seen) watch.reasons += (watch.reasons.empty() ? "" : ", ") + words;
  }
}

bool Throttling::slowed() {
  if (!watch_) return false;
  watch_->look();
  const auto seen = watch_->last();
  if (!seen || !is_throttled(seen->reasons)) return false;
  for (const Reason& reason : kReasons)
    if (reason.slows) reasons_ |= seen->reasons & reason.bit;
  return true;
}

void Throttling::begin() { before_ = slowed(); }

bool Throttling::end() {
  // With more slow samples, if they are also more than half, throttling is normal here.
  constexpr int kMost = 24;
  ++samples_;
  if (const bool after = slowed(); !before_ && !after) return true;
  ++slow_;
  gave_up_ |= slow_ > kMost && 2 * slow_ > samples_;
  dropped_ += !gave_up_;
  return gave_up_;
}

std::string Throttling::why() const {
  if (!gave_up_) return "";
  return "the GPU was slowed down (" + throttle_reasons(reasons_) + ") in " +
         std::to_string(slow_) + " of " + std::to_string(samples_) + " samples";
}

std::unique_ptr<GpuTelemetry> GpuTelemetry::of(const std::string& device) {
  if (!starts_with(device, "cuda")) return backend_telemetry(device);
  // Stays loaded: the driver fails when it is closed.
  static void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  auto watch = std::make_unique<Nvml>();
  if (!library || !watch->open(library, device)) return nullptr;
  return watch;
}

}  // namespace fk
