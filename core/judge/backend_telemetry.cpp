// SPDX-License-Identifier: Apache-2.0
#include "core/judge/backend_telemetry.hpp"

#include <cstdlib>

#include "core/base/clock.hpp"
#include "core/device/backends.hpp"

namespace fk {

namespace {

constexpr double kSecondsBetweenLooks = 20e-3;

class BackendSenses final : public GpuTelemetry {
 public:
  BackendSenses(const fk_backend& table, fk_sense* sense) : table_(table), sense_(sense) {}
  BackendSenses(const BackendSenses&) = delete;
  ~BackendSenses() override { table_.sense_close_or_null(sense_); }
  void look() override {
    const double now = now_seconds();
    if (now < next_s_) return;
    next_s_ = now + kSecondsBetweenLooks;
    const auto state = read();
    if (!state) return;
    last_ = ClockLook{state->clock_mhz, state->memory_mhz, state->slowed};
    add_look(watch_, *last_);
  }
  std::optional<ClockWatch> seen() const override {
    return watch_.looks ? std::optional(watch_) : std::nullopt;
  }
  std::optional<ClockLook> last() const override { return last_; }
  void listen() override { listens_ = true; }
  std::string stopped() override {
    if (!listens_) return "";
    const auto state = read();
    return state && state->stopped ? "the driver has stopped a kernel on the device" : "";
  }
  std::optional<int64_t> used_bytes() const override {
    const auto state = read();
    return state && state->used_bytes >= 0 ? std::optional(state->used_bytes) : std::nullopt;
  }
  std::vector<GpuProcess> processes() const override { return {}; }

 private:
  std::optional<fk_state> read() const {
    fk_state state{};
    state.struct_size = FK_END(fk_state, used_bytes);
    state.used_bytes = -1;
    fk_error error = backend_error_struct();
    return table_.sense_look_or_null(sense_, &state, &error) == FK_OK ? std::optional(state)
                                                                      : std::nullopt;
  }
  const fk_backend& table_;
  fk_sense* sense_ = nullptr;
  bool listens_ = false;
  double next_s_ = 0;
  ClockWatch watch_;
  std::optional<ClockLook> last_;
};

}  // namespace

std::unique_ptr<GpuTelemetry> backend_telemetry(const std::string& device) {
  const Backend* const backend = backend_of(device);
  if (!backend || !backend->table.sense_open_or_null) return nullptr;
  const size_t colon = device.find(':');
  const int index = colon == std::string::npos ? 0 : std::atoi(device.c_str() + colon + 1);
  fk_sense* sense = nullptr;
  fk_error error = backend_error_struct();
  if (backend->table.sense_open_or_null(index, &sense, &error) != FK_OK || !sense) return nullptr;
  return std::make_unique<BackendSenses>(backend->table, sense);
}

}  // namespace fk
