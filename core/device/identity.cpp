// SPDX-License-Identifier: Apache-2.0
#include "core/device/identity.hpp"

#include <cstdlib>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/device/backends.hpp"

namespace fk {

DeviceIdentity identity_of_device(const std::string& device) {
  const Backend* const backend = backend_of(device);
  if (!backend) return device_identity(device);
  constexpr size_t kDigits = 16;
  const std::string library = "backend " + backend->kind + " " + backend->version + " " +
                              sha256_file(backend->path).substr(0, kDigits);
  const size_t colon = device.find(':');
  const int index = colon == std::string::npos ? 0 : std::atoi(device.c_str() + colon + 1);
  if (static_cast<size_t>(index) >= names_of(*backend).size()) return {device, library};
  const fk_device_info info = info_of(*backend, index);
  const std::string driver(trim(info.driver));
  return {backend->kind + ":" + std::to_string(index) + " " + std::string(trim(info.name)),
          (driver.empty() ? "" : driver + ", ") + library};
}

}  // namespace fk
