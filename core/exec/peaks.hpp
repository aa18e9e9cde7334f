// SPDX-License-Identifier: Apache-2.0
// Peak rates of a device, from registry/devices/<device>.yaml: the data sheet's figures, which no
// kernel reaches.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "core/tensor/dtype.hpp"

namespace fk {

struct Peaks {
  double bytes_per_s = 0;
  int64_t cache_bytes = 0;      // of the last cache
  double link_bytes_per_s = 0;  // from all other devices together; 0: unknown
  std::map<DType, double> flops_per_s;
};

// The peaks for a device name of the driver (core/device/device_files.hpp); nothing: no file has
// them.
std::optional<Peaks> peaks_of(const std::string& device_name);
// Reads all files now, so that later calls of peaks_of() need none.
void read_peaks();

}  // namespace fk
