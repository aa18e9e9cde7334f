// SPDX-License-Identifier: Apache-2.0
// Telemetry of a device from a backend library (fk_backend.sense_look_or_null).
#pragma once
#include <memory>
#include <string>

#include "core/judge/gpu_telemetry.hpp"

namespace fk {

// Null where the backend has no senses, or none for this device.
std::unique_ptr<GpuTelemetry> backend_telemetry(const std::string& device);

}  // namespace fk
